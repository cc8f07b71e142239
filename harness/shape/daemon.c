/* Finding, starting and ending bace-shaperd. */
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"
#include "harness/shape/holder.h"

#define CAP_NET_ADMIN_BIT 12
#define START_MS 10000
#define LEASE_S "10"	/* a holder that hangs loses the lease after so long */

/* The daemon claims this name in its network namespace; binding it is the test. */
bool daemon_is_here(void)
{
	static const char name[] = "\0bace-shaperd";
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(sa.sun_path, name, sizeof(name) - 1);
	return fd >= 0 && bind(fd, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(name) - 1)) &&
	       errno == EADDRINUSE;
}

/* Unlike its inode number, the cookie of a network namespace is never used again. */
static uint64_t namespace_id(void)
{
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	struct stat st;

	if (fd >= 0 && !getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) && cookie)
		return cookie;
	return stat("/proc/self/ns/net", &st) ? 0 : (uint64_t)st.st_ino;
}

static int make_private_dir(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	/* Somebody else's would let them say what is restored. */
	if (lstat(path, &st))
		return -errno;
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022) ? 0 : -EPERM;
}

int daemon_state_dir(char *buf, size_t cap, struct bace_err *e)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char base[200], places[3][sizeof(base)] = { "/run/bace", "", "" };
	int rc = -ENOENT;

	if (runtime && *runtime == '/')
		snprintf(places[1], sizeof(base), "%.150s/bace", runtime);
	snprintf(places[2], sizeof(base), "/tmp/bace-%u", geteuid());
	for (size_t i = 0; i < ARRAY_LEN(places) && rc; i++)
		if (places[i][0] && !(rc = make_private_dir(places[i])))
			memcpy(base, places[i], sizeof(base));
	if (!rc) {
		snprintf(buf, cap, "%s/netns-%llx", base, (unsigned long long)namespace_id());
		rc = make_private_dir(buf);
	}
	return rc ? bace_fail_errno(e, -rc, "make a private directory for the journal in /run/bace or %s", places[2]) : 0;
}

int daemon_path(const char *self, char *buf, size_t cap, struct bace_err *e)
{
	const char *slash = self ? strrchr(self, '/') : NULL;
	int n = slash ? (int)(slash - self) : 1;
	const char *dir = slash ? self : ".";
	/* Beside bace where both are installed; across the build tree. */
	static const char *const places[] = { "bace-shaperd", "../../shaper/shaperd/bace-shaperd" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		snprintf(buf, cap, "%.*s/%s", n, dir, places[i]);
		if (!access(buf, X_OK))
			return 0;
	}
	snprintf(buf, cap, "%s/bace-shaperd", BACE_BINDIR);
	return access(buf, X_OK) ? bace_fail(e, ENOEXEC, "no bace-shaperd beside %s", self ? self : "bace") : 0;
}

static bool may_shape(void)
{
	CLEANUP_FREE char *text = NULL;
	const char *at;
	size_t n;

	if (bace_read_file("/proc/self/status", 65536, &text, &n, NULL) || !(at = strstr(text, "CapEff:")))
		return true;
	return strtoull(at + strlen("CapEff:"), NULL, 16) >> CAP_NET_ADMIN_BIT & 1;
}

/* Capabilities count in the user namespace that a network namespace belongs to,
 * and above it. The kernel shows the owner only to who is there. */
static bool owns_network_namespace(void)
{
	CLEANUP_CLOSE int ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	CLEANUP_CLOSE int owner = ns < 0 ? -1 : ioctl(ns, NS_GET_USERNS);

	return ns < 0 || owner >= 0 || errno != EPERM;
}

static int check_may_shape(struct bace_err *e)
{
	if (!may_shape())
		return bace_fail(e, EPERM, "shaping needs root (CAP_NET_ADMIN), or a bace-shaperd that runs and "
				 "lets you in (--socket, group bace)");
	if (!owns_network_namespace())
		return bace_fail(e, EPERM, "this network namespace is not of this user namespace, so its root may not shape "
				 "it: make both together (unshare --user --map-root-user --net), or shape from outside");
	return 0;
}

/* Ctrl-C is for us alone: the lease is given back in order. */
static void become_daemon(pid_t parent, const char *path, char *const *argv, int log_fd)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	/* Nobody's pipe or terminal is held open by it. */
	dup2(null, 0);
	dup2(log_fd, 1);
	dup2(log_fd, 2);
	close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);

	setsid();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execv(path, argv);
	_exit(127);
}

static int did_not_start(const char *log_path, struct bace_err *e)
{
	CLEANUP_FREE char *text = NULL;
	size_t n;

	if (bace_read_file(log_path, 65536, &text, &n, NULL) || !n)
		return bace_fail(e, EIO, "bace-shaperd did not start");
	return bace_fail(e, EIO, "bace-shaperd did not start: %.*s", (int)strcspn(text, "\n"), text);
}

static int wait_for_socket(pid_t pid, const char *socket_path, const char *log_path, struct bace_err *e)
{
	int status;

	for (int ms = 0; ms < START_MS; ms += 5) {
		if (!access(socket_path, F_OK))
			return 0;
		if (waitpid(pid, &status, WNOHANG) == pid)
			return did_not_start(log_path, e);
		usleep(5000);
	}
	daemon_stop(pid);
	return bace_fail(e, ETIMEDOUT, "bace-shaperd does not come up");
}

int daemon_start(const char *self, pid_t *pid, char *socket_path, size_t cap, struct bace_err *e)
{
	char path[512], state[300], log_path[400];
	CLEANUP_CLOSE int log_fd = -1;
	pid_t me = getpid(), child;
	int rc = check_may_shape(e);

	*pid = 0;
	if (!rc)
		rc = daemon_path(self, path, sizeof(path), e);
	if (!rc)
		rc = daemon_state_dir(state, sizeof(state), e);
	if (rc)
		return rc;
	snprintf(socket_path, cap, "%s/shaperd.sock", state);
	unlink(socket_path);
	snprintf(log_path, sizeof(log_path), "%s/shaperd.log", state);
	log_fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (log_fd < 0)
		return bace_fail_errno(e, errno, "write %s", log_path);
	char *const argv[] = { path, "--socket", socket_path, "--state", state, "--guard", "yes", "--lease-timeout", LEASE_S,
			       "-q", NULL };

	child = fork();
	if (child < 0)
		return bace_fail_errno(e, errno, "start bace-shaperd");
	if (!child)
		become_daemon(me, path, argv, log_fd);
	rc = wait_for_socket(child, socket_path, log_path, e);
	/* One that failed is reaped: its number may be another's by now. */
	if (rc)
		daemon_forget_state();
	else
		*pid = child;
	return rc;
}

void daemon_stop(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGTERM);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void daemon_forget_state(void)
{
	char state[300], log_path[400];

	if (daemon_state_dir(state, sizeof(state), NULL))
		return;
	snprintf(log_path, sizeof(log_path), "%s/shaperd.log", state);
	unlink(log_path);
	/* A journal in it keeps it. */
	rmdir(state);
}

int daemon_clear(const char *self, struct bace_err *e)
{
	char path[512], state[300];
	int status, rc = check_may_shape(e);
	pid_t pid;

	if (!rc)
		rc = daemon_path(self, path, sizeof(path), e);
	if (!rc)
		rc = daemon_state_dir(state, sizeof(state), e);
	if (rc)
		return rc;
	pid = fork();
	if (pid < 0)
		return bace_fail_errno(e, errno, "start bace-shaperd --clear");
	if (!pid) {
		execl(path, path, "--clear", "--state", state, "-q", (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	daemon_forget_state();
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : bace_fail(e, EIO, "not everything could be put back: the words are above");
}
