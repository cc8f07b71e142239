#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/cmd/lab.h"
#include "harness/lab/lab.h"

#define EXIT_NOT_FOUND 127
#define EXIT_CANNOT_RUN 126
#define NAMES_MAX 1024

static pid_t child = -1;

static void forward(int sig)
{
	if (child > 0)
		kill(child, sig);
}

static int unknown_host(const json_t *state, const char *host)
{
	const json_t *hosts = json_object_get(state, "hosts"), *h;
	const char *names[NAMES_MAX], *near;
	size_t i, n = 0;

	json_array_foreach(hosts, i, h)
		if (n < NAMES_MAX)
			names[n++] = json_string_value(json_object_get(h, "name"));
	near = bace_nearest(host, names, n);
	return cmd_error(&cmd_lab_exec, BACE_EXIT_INPUT, "no host %s%s%s%s; `bace lab list' names them", host,
			 near ? "; did you mean `" : "", near ? near : "", near ? "'?" : "");
}

static bool has_host(const json_t *state, const char *host)
{
	const json_t *hosts = json_object_get(state, "hosts"), *h;
	size_t i;

	json_array_foreach(hosts, i, h)
		if (!strcmp(json_string_value(json_object_get(h, "name")), host))
			return true;
	return false;
}

/* parent: the end of a pipe whose other end only the parent has. */
static void run_command(char **argv, const char *cwd, int parent)
{
	struct pollfd p = { .fd = parent };
	int errnum;

	/* The command ends with this one; what it left in the background stays. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (poll(&p, 1, 0) > 0)
		_exit(EXIT_CANNOT_RUN);
	if (!cwd || chdir(cwd))
		cwd = chdir("/") ? NULL : "/";
	execvp(argv[0], argv);
	errnum = errno;
	cmd_error(&cmd_lab_exec, 0, "%s: %s", argv[0], strerror(errnum));
	_exit(errnum == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

/* Not what the caller ignores, as under nohup. */
static void forward_signal(int sig)
{
	if (signal(sig, forward) == SIG_IGN)
		signal(sig, SIG_IGN);
}

/* As a shell says it. */
static int wait_for_child(void)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return BACE_EXIT_FAILED;
	/* A shell that was there is of another process group; the caller goes on at the terminal. */
	signal(SIGTTOU, SIG_IGN);
	if (isatty(0))
		tcsetpgrp(0, getpgrp());
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int enter(const struct lab_found *lab, const char *host, char **argv)
{
	CLEANUP_FREE char *cwd = getcwd(NULL, 0);
	pid_t pid1 = (pid_t)json_integer_value(json_object_get(lab->state, "pid1"));
	struct pollfd ended = { .fd = lab->holder, .events = POLLIN };
	struct bace_err e = { 0 };
	int life[2];

	if (!has_host(lab->state, host))
		return unknown_host(lab->state, host);
	if (lab_enter(pid1, host, &e))
		return cmd_error(&cmd_lab_exec, e.errnum == EPERM ? BACE_EXIT_ENV : BACE_EXIT_FAILED, "%s", e.msg);
	/* While its parent lives the pid is that lab's. */
	if (poll(&ended, 1, 0) > 0 || pipe2(life, O_CLOEXEC))
		return cmd_error(&cmd_lab_exec, BACE_EXIT_FAILED, "the lab has just ended");
	/* iptables' lock is the lab's. */
	setenv("XTABLES_LOCKFILE", "/run/xtables.lock", 1);
	setenv("BACE_LAB_HOST", host, 1);
	child = fork();
	if (child == 0) {
		close(life[1]);
		run_command(argv, cwd, life[0]);
	}
	if (child < 0)
		return cmd_error(&cmd_lab_exec, BACE_EXIT_FAILED, "fork: %s", strerror(errno));
	/* The terminal sends them to both; the command decides. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	forward_signal(SIGTERM);
	forward_signal(SIGHUP);
	return wait_for_child();
}

static int run(const struct cmd_globals *g, int argc, char **argv)
{
	static const struct option options[] = { { "name", 1, NULL, 'n' }, { "help", 0, NULL, 'h' }, { 0 } };
	const char *name = LAB_DEFAULT, *shell = getenv("SHELL");
	char *only_shell[] = { (char *)(shell && *shell ? shell : "/bin/sh"), NULL };
	struct bace_err e = { 0 };
	struct lab_found lab;
	int c, rc = 0;

	optind = 1;
	/* +: what follows the host is the command's. */
	while (!rc && (c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (c) {
		case 'n':
			name = optarg;
			rc = lab_check_name(&cmd_lab_exec, optarg);
			break;
		case 'h':
			return printf("usage: %s\n", cmd_lab_exec.usage) < 0 ? BACE_EXIT_FAILED : BACE_EXIT_OK;
		default:
			rc = cmd_misuse(&cmd_lab_exec, "bad options");
		}
	}
	if (rc)
		return rc;
	if (optind >= argc)
		return cmd_misuse(&cmd_lab_exec, "a host is needed");
	char *host = argv[optind], **command = argv + optind + 1;

	/* Else bace's own options would be taken out of the command's. */
	if (*command && strcmp(*command, "--"))
		return cmd_misuse(&cmd_lab_exec, "`%s': put -- before the command", *command);
	command += *command != NULL;
	if (lab_find(name, &lab, &e))
		return cmd_error(&cmd_lab_exec, BACE_EXIT_INPUT, "%s", e.msg);
	rc = lab.state ? enter(&lab, host, *command ? command : only_shell)
		       : cmd_error(&cmd_lab_exec, BACE_EXIT_FAILED, "lab `%s' is still coming up", name);
	lab_found_free(&lab);
	return rc;
}

const struct command cmd_lab_exec = {
	.name = "lab exec",
	.summary = "run a command on a host of a lab",
	.usage = "bace lab exec [--name NAME] HOST [-- COMMAND [ARGUMENT...]]\n\n"
		 "In the network, process and mount namespaces of that host: ping, iperf3, tc, tcpdump,\n"
		 "`bace shape show`, a training script. Names of hosts resolve; files are this machine's,\n"
		 "but /run is the lab's. Without a command: $SHELL. Ends with the command's status; what\n"
		 "the command leaves in the background ends with the lab.",
	.run = run,
};
