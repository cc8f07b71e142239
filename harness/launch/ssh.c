/*
 * ssh: the system's, as the user has configured it (keys, jump hosts, ports: in
 * ~/.ssh/config under the host's `login', or its name). It never asks: a host
 * that wants a password fails. One connection a machine: further hosts on it go
 * over the same (ControlMaster), which ends with the last of them.
 */
#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "harness/launch/internal.h"

/* For the shell at the other end. */
static void add_quoted(struct launch_args *a, const char *text)
{
	struct bace_buf b = { 0 };

	bace_buf_addf(&b, "'");
	for (const char *p = text; *p; p++) {
		if (*p == '\'')
			bace_buf_addf(&b, "'\\''");
		else
			bace_buf_add(&b, p, 1);
	}
	if (bace_buf_addf(&b, "'"))
		a->failed = true;
	else
		args_add(a, "%s", b.p);
	bace_buf_free(&b);
}

static void command(struct launch_args *a, const struct launch_options *o, const struct cluster_host *h)
{
	static const char *const options[] = { "BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=1",
					       "ServerAliveCountMax=3", "ControlMaster=auto", "ControlPersist=no" };
	struct launch_args remote = { 0 };

	args_add(a, "ssh");
	args_add(a, "-T");
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		args_add(a, "-o");
		args_add(a, "%s", options[i]);
	}
	args_add(a, "-o");
	args_add(a, "ControlPath=/tmp/bace-ssh-%d-%%C", (int)getpid());
	args_add(a, "--");
	args_add(a, "%s", *h->login ? h->login : h->name);
	args_add(a, "exec");
	args_agent(&remote, o, h, "-");
	a->failed |= remote.failed;
	for (int i = 0; i < remote.n; i++)
		add_quoted(a, remote.v[i]);
	args_add(a, "--leash");
	args_free(&remote);
}

const struct launcher launcher_ssh = { .name = "ssh", .wait_s = 45, .command = command };
