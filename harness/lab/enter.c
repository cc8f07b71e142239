#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/lab/build.h"

static int open_namespace(pid_t pid, const char *kind, struct bace_err *e)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		bace_fail_errno(e, errno == ENOENT ? ESRCH : errno, "%s", path);
	return fd;
}

static bool is_ours(int user_fd)
{
	struct stat theirs, own;

	return !fstat(user_fd, &theirs) && !stat("/proc/self/ns/user", &own) && theirs.st_ino == own.st_ino;
}

/* All are opened before any is entered: /proc is another one then. */
static int enter_box(pid_t pid, struct bace_err *e)
{
	CLEANUP_CLOSE int user = open_namespace(pid, "user", e);
	CLEANUP_CLOSE int mnt = user < 0 ? -1 : open_namespace(pid, "mnt", e);
	CLEANUP_CLOSE int pids = mnt < 0 ? -1 : open_namespace(pid, "pid", e);

	if (pids < 0)
		return -e->errnum;
	/* A lab of root has none of its own, and entering one's own is refused. */
	if (!is_ours(user) && setns(user, CLONE_NEWUSER))
		return bace_fail_errno(e, errno, "enter the lab's user namespace");
	if (setns(pids, CLONE_NEWPID) || setns(mnt, CLONE_NEWNS))
		return bace_fail_errno(e, errno, "enter the lab's namespaces");
	return 0;
}

/* In a mount namespace of one's own: the lab's is as it was. */
static int look_like(const char *host, struct bace_err *e)
{
	/* NCCL reads a NIC's speed in /sys; where a container forbids, it reads the machine's. */
	if (netns_show_interfaces() && unshare(CLONE_NEWNS))
		return bace_fail_errno(e, errno, "make a mount namespace");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return bace_fail_errno(e, errno, "make mounts private");
	/* An image without /etc/hosts has addresses only. */
	if (mount(LAB_HOSTS_PATH, "/etc/hosts", NULL, MS_BIND, NULL) && errno != ENOENT)
		return bace_fail_errno(e, errno, "mount /etc/hosts");
	if (unshare(CLONE_NEWUTS) || sethostname(host, strlen(host)))
		return bace_fail_errno(e, errno, "name it %s", host);
	return 0;
}

int lab_enter(pid_t pid, const char *host, struct bace_err *e)
{
	char path[80];
	CLEANUP_CLOSE int net = -1;
	int rc = enter_box(pid, e);

	if (rc)
		return rc;
	snprintf(path, sizeof(path), "/run/netns/%s", host);
	net = open(path, O_RDONLY | O_CLOEXEC);
	if (net < 0)
		return bace_fail_errno(e, errno, "%s", host);
	if (setns(net, CLONE_NEWNET))
		return bace_fail_errno(e, errno, "enter the network namespace of %s", host);
	return look_like(host, e);
}
