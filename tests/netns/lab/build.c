/* A lab's namespaces really are joined, with the TCP settings asked for. Needs
 * namespaces: as root, or as an ordinary user where those are allowed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/lab/build.h"
#include "harness/lab/sandbox.h"
#include "tests/common/cluster3.h"

static const struct lab_traffic traffic = { .message_bytes = 500000, .min_message_bytes = 200000,
	.jobs_on_link = 1, .wan = WAN_STEADY, .congestion_control = "cubic" };

static int failures;

#define SYS_REFUSED 125

static void check(bool ok, const char *what)
{
	if (!ok)
		fprintf(stderr, "FAILED: %s\n", what);
	failures += !ok;
}

/* Exit status of a command inside a namespace; its output into text. */
static int run_in(const struct netns *n, const char *command, char text[4096])
{
	int p[2], status = -1;
	size_t len = 0;
	ssize_t k;
	pid_t pid;

	if (pipe(p) || (pid = fork()) < 0)
		return -1;
	if (!pid) {
		if (netns_enter(n, NULL))
			_exit(126);
		/* An ordinary user's is refused where the kernel's own is hidden in part. */
		if (netns_show_interfaces() && strstr(command, "/sys/class"))
			_exit(SYS_REFUSED);
		dup2(p[1], 1);
		dup2(p[1], 2);
		close(p[0]);
		close(p[1]);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	close(p[1]);
	while (len < 4095 && (k = read(p[0], text + len, 4095 - len)) > 0)
		len += (size_t)k;
	text[len] = '\0';
	close(p[0]);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_lab(struct lab *l)
{
	const struct netns *a = &l->ns[3], *c_gw = &l->ns[2];
	char out[4096];

	/* Hosts: a-0 is 10.16.0.10, c-0 is 10.18.0.10. */
	check(!run_in(a, "ping -c 1 -W 2 10.18.0.10", out), "a-0 reaches c-0");
	check(!run_in(a, "ping -c 1 -W 2 " LAB_MGMT_ADDR, out), "a-0 reaches the supervisor");
	check(!run_in(a, "ip route show 10.18.0.0/16", out), "a-0 shows its route to c");
	check(strstr(out, "congctl cubic"), "route to c asks for cubic");
	/* (100 Mbit/s x 70 ms / 8 + 500000) / 1448 = 949.6 */
	check(strstr(out, "initcwnd 950"), "route to c has the initial window");
	check(strstr(out, "initrwnd 950"), "route to c has the initial receive window");
	check(!run_in(a, "cat /proc/sys/net/ipv4/tcp_slow_start_after_idle", out) && out[0] == '0',
	      "no slow start after idle");
	check(!run_in(a, "cat /proc/sys/net/ipv4/tcp_wmem", out) && strstr(out, "4194304"),
	      "tcp_wmem maximum");
	check(!run_in(c_gw, "cat /proc/sys/net/ipv4/ip_forward", out) && out[0] == '1',
	      "gateways forward");
	int own = run_in(a, "test \"$(ls /sys/class/net | grep -v bonding_masters)\" = \"$(ip -o link | sed 's/^[0-9]*: \\([^:@]*\\).*/\\1/' | sort)\"", out);

	check(!own || own == SYS_REFUSED, "/sys shows a-0's own interfaces");
	if (!own && !access("/sys/fs/cgroup/cgroup.procs", F_OK))
		check(!run_in(a, "test -e /sys/fs/cgroup/cgroup.procs", out), "/sys keeps the control groups");
	if (own == SYS_REFUSED)
		printf("skipped in part: lab-build: a sysfs of a namespace's own is refused here\n");
	/* Between regions there is no way but through both gateways and the core. */
	check(run_in(a, "ping -c 1 -W 1 -t 3 10.18.0.10", out), "three hops are too few");
}

static int inside(void)
{
	struct cluster c = cluster3();
	struct lab_net net;
	struct lab lab;
	struct bace_err e = { 0 };

	if (lab_net_build(&c, 1, &net, &e) || lab_build(&c, &net, &traffic, &lab, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	check_lab(&lab);
	lab_unbuild(&lab);
	lab_net_free(&net);
	return failures ? 1 : 0;
}

int main(void)
{
	struct bace_err e = { 0 };
	int rc = sandbox_probe(inside, &e);

	if (rc < 0) {
		printf("skipped: %s\n", e.msg);
		return 77;
	}
	return rc;
}
