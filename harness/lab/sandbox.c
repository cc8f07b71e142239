#include "harness/lab/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FD_IN 3
#define FD_OUT 4
#define PROBE_FAILED 101

static pid_t clone_namespaces(void)
{
	int flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | SIGCHLD;

	if (geteuid())
		flags |= CLONE_NEWUSER;
	return (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
}

static int write_text(const char *path, const char *text)
{
	CLEANUP_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int map_user(uid_t uid, gid_t gid, struct bace_err *e)
{
	char map[64];
	int rc;

	snprintf(map, sizeof(map), "0 %u 1", (unsigned)uid);
	rc = write_text("/proc/self/uid_map", map);
	if (!rc)
		rc = write_text("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", (unsigned)gid);
	if (!rc)
		rc = write_text("/proc/self/gid_map", map);
	return rc ? bace_fail_errno(e, -rc, "map the user into its namespace") : 0;
}

static int mount_own(struct bace_err *e)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return bace_fail_errno(e, errno, "make mounts private");
	if (mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755"))
		return bace_fail_errno(e, errno, "mount tmpfs on /run");
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		return bace_fail_errno(e, errno, "mount /proc");
	if (mkdir("/run/netns", 0755) || mkdir("/run/lock", 0755))
		return bace_fail_errno(e, errno, "create /run/netns");
	return 0;
}

/* In the child: uid and gid are the caller's, from before the clone. */
static int settle(uid_t uid, gid_t gid, struct bace_err *e)
{
	int rc = 0;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		return bace_fail_errno(e, errno, "PR_SET_PDEATHSIG");
	if (uid)
		rc = map_user(uid, gid, e);
	if (!rc)
		rc = mount_own(e);
	if (!rc)
		setsid();
	/* The lock of iptables is a file in /run by default: now it is ours. */
	setenv("XTABLES_LOCKFILE", "/run/xtables.lock", 1);
	return rc;
}

static void child_exec(char *const argv[], const int fds[3], uid_t uid, gid_t gid)
{
	struct bace_err e = { 0 };
	sigset_t none;
	int in = fcntl(fds[0], F_DUPFD, 10), out = fcntl(fds[1], F_DUPFD, 10);
	int log = fcntl(fds[2], F_DUPFD, 10), null = open("/dev/null", O_RDONLY);

	dup2(null, 0);
	dup2(log, 1);
	dup2(log, 2);
	dup2(in, FD_IN);
	dup2(out, FD_OUT);
	close_range(FD_OUT + 1, ~0u, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	if (settle(uid, gid, &e)) {
		dprintf(2, "%s\n", e.msg);
		_exit(127);
	}
	execv(argv[0], argv);
	dprintf(2, "exec %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

int sandbox_start(char *const argv[], struct sandbox *out, struct bace_err *e)
{
	int in[2] = { -1, -1 }, answer[2] = { -1, -1 }, log[2] = { -1, -1 };
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int rc;

	*out = (struct sandbox){ .pid = -1, .to = -1, .from = -1, .log = -1 };
	if (pipe2(in, O_CLOEXEC) || pipe2(answer, O_CLOEXEC) || pipe2(log, O_CLOEXEC)) {
		rc = bace_fail_errno(e, errno, "pipe");
		goto out;
	}
	out->pid = clone_namespaces();
	if (out->pid == 0)
		child_exec(argv, (int[]){ in[0], answer[1], log[1] }, uid, gid);
	if (out->pid < 0) {
		rc = bace_fail_errno(e, errno, "make namespaces%s", uid ? " as an ordinary user" : "");
		goto out;
	}
	out->to = STEAL_FD(in[1]);
	out->from = STEAL_FD(answer[0]);
	out->log = STEAL_FD(log[0]);
	rc = 0;
out:
	for (int i = 0; i < 2; i++) {
		bace_cleanup_close(&in[i]);
		bace_cleanup_close(&answer[i]);
		bace_cleanup_close(&log[i]);
	}
	return rc;
}

void sandbox_end(struct sandbox *s, double grace_s)
{
	int64_t until = bace_mono_ns() + (int64_t)(grace_s * 1e9);
	pid_t gone = 0;

	bace_cleanup_close(&s->to);
	while (s->pid > 0 && !(gone = waitpid(s->pid, NULL, WNOHANG)) && bace_mono_ns() < until)
		usleep(2000);
	if (s->pid > 0 && !gone) {
		kill(s->pid, SIGKILL);
		/* A second Ctrl-C does not make it end sooner. */
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	s->pid = -1;
	bace_cleanup_close(&s->from);
	bace_cleanup_close(&s->log);
}

static void probe_child(int (*fn)(void), int err_fd, uid_t uid, gid_t gid)
{
	struct bace_err e = { 0 };

	if (settle(uid, gid, &e)) {
		dprintf(err_fd, "%s", e.msg);
		_exit(PROBE_FAILED);
	}
	_exit(fn());
}

int sandbox_probe(int (*fn)(void), struct bace_err *e)
{
	int err[2], status;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char text[256] = "";
	pid_t pid;

	if (pipe2(err, O_CLOEXEC))
		return bace_fail_errno(e, errno, "pipe");
	pid = clone_namespaces();
	if (pid == 0)
		probe_child(fn, err[1], uid, gid);
	close(err[1]);
	if (pid < 0) {
		int errnum = errno;

		close(err[0]);
		return bace_fail_errno(e, errnum, "make namespaces%s", uid ? " as an ordinary user" : "");
	}
	if (read(err[0], text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(err[0]);
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return bace_fail(e, EIO, "probing namespaces: the probe died");
	if (WEXITSTATUS(status) == PROBE_FAILED)
		return bace_fail(e, EPERM, "%s", text);
	return WEXITSTATUS(status);
}
