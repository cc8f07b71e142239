#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "shaper/guard.h"
#include "shaper/shaperd/shaperd.h"

#define BACKLOG 16
#define MODULE "shaperd"
#define FIFO_PRIORITY 5	/* below the delay line */
#define RETRY_NS 1000000000LL
#define CLAIM_US 50000

struct server {
	const struct shaperd_config *config;
	struct shaping *shaping;
	struct session *client;		/* holds the lease; NULL: free */
	gid_t gid;
	int listen_fd, signal_fd;
	bool line_reported_dead;
	bool punctual;			/* runs with SCHED_FIFO */
	int64_t retry_ns;		/* of a revert that failed, while nobody holds the lease; 0: none */
};

int server_claim(int *fd, int64_t patience_ns, struct bace_err *e)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	static const char name[] = "\0bace-shaperd";
	int64_t until_ns = bace_mono_ns() + patience_ns;

	memcpy(sa.sun_path, name, sizeof(name) - 1);
	*fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return bace_fail_errno(e, errno, "socket");
	while (bind(*fd, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(name) - 1))) {
		if (errno != EADDRINUSE)
			return bace_fail_errno(e, errno, "claim this network namespace");
		if (bace_mono_ns() >= until_ns)
			return bace_fail(e, EBUSY, "a bace-shaperd is already running in this network namespace");
		usleep(CLAIM_US);
	}
	return 0;
}

/* Started by hand there is no RuntimeDirectory=; agents, which are not root, must
 * get through, whatever umask the daemon has. */
static int make_parent(const char *path)
{
	CLEANUP_FREE char *dir = strdup(path);
	char *slash = dir ? strrchr(dir, '/') : NULL;
	mode_t mask;
	int rc;

	if (!dir)
		return ENOMEM;
	if (!slash || slash == dir)
		return 0;
	*slash = '\0';
	mask = umask(022);
	rc = mkdir(dir, 0755) && errno != EEXIST ? errno : 0;
	umask(mask);
	return rc;
}

static int open_socket(struct server *s, struct bace_err *e)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const char *path = s->config->socket_path;
	mode_t mode = s->gid == (gid_t)-1 ? 0600 : 0660, mask;
	int rc;

	/* It takes its name when it listens: whoever sees it may connect. */
	if (snprintf(sa.sun_path, sizeof(sa.sun_path), "%s~", path) >= (int)sizeof(sa.sun_path))
		return bace_fail(e, ENAMETOOLONG, "--socket %s: the path is too long", path);
	rc = make_parent(path);
	if (rc)
		return bace_fail_errno(e, rc, "make the folder of %s", path);
	s->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->listen_fd < 0)
		return bace_fail_errno(e, errno, "socket");
	/* What is there is a leftover: this namespace's daemon is us. */
	unlink(path);
	unlink(sa.sun_path);
	mask = umask(0777 & ~mode);
	rc = bind(s->listen_fd, (struct sockaddr *)&sa, sizeof(sa)) ? errno : 0;
	umask(mask);
	if (!rc && s->gid != (gid_t)-1 && chown(sa.sun_path, (uid_t)-1, s->gid))
		rc = errno;
	if (!rc && (listen(s->listen_fd, BACKLOG) || rename(sa.sun_path, path)))
		rc = errno;
	if (rc)
		unlink(sa.sun_path);
	return rc ? bace_fail_errno(e, rc, "listen on %s", path) : 0;
}

static int open_signals(struct server *s, struct bace_err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return bace_fail_errno(e, errno, "block signals");
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signal_fd < 0 ? bace_fail_errno(e, errno, "signalfd") : 0;
}

static void refuse(int fd, int status, const char *why)
{
	struct shaperd_reply r = { .magic = SHAPERD_MAGIC, .status = status };

	snprintf(r.text, sizeof(r.text), "%s", why);
	if (send(fd, &r, shaperd_reply_bytes(0), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		bace_log(BACE_DEBUG, MODULE, "refuse a client: %s", strerror(errno));
	close(fd);
}

static void accept_client(struct server *s)
{
	struct bace_err e = { 0 };
	int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (access_check_peer(fd, s->gid, &e)) {
		bace_log(BACE_WARN, MODULE, "%s", e.msg);
		refuse(fd, -EACCES, e.msg);
	} else if (s->client) {
		refuse(fd, -EBUSY, "another client holds the lease");
	} else if (!(s->client = session_new(fd))) {
		refuse(fd, -ENOMEM, "out of memory");
	} else {
		bace_log(BACE_DEBUG, MODULE, "lease taken");
	}
}

static int revert(struct server *s, struct bace_err *e)
{
	bool again = s->retry_ns;
	int rc = shaping_clear(s->shaping, e);

	if (rc)
		bace_log(again ? BACE_DEBUG : BACE_ERROR, MODULE, "revert: %s", e->msg);
	else if (again)
		bace_log(BACE_INFO, MODULE, "reverted in the end");
	/* A lock that is held, a module that is loading: it may go the next time. */
	s->retry_ns = shaping_owes(s->shaping) ? bace_mono_ns() + RETRY_NS : 0;
	return rc;
}

static int end_lease(struct server *s, const char *why, struct bace_err *e)
{
	session_free(s->client);
	s->client = NULL;
	if (shaping_active(s->shaping))
		bace_log(BACE_INFO, MODULE, "lease ended (%s): reverting", why);
	return revert(s, e);
}

/* When the lease runs out (CLOCK_MONOTONIC); INT64_MAX: never. */
static int64_t lease_end_ns(const struct server *s)
{
	double limit_s = s->config->lease_timeout_s;

	if (!s->client || limit_s <= 0)
		return INT64_MAX;
	return s->client->last_heard_ns + (int64_t)(limit_s * 1e9);
}

/* Not while the client's word waits to be read: after a long repair, or when the
 * machine was suspended. */
static bool lease_has_ended(const struct server *s)
{
	struct pollfd word = { .fd = s->client ? s->client->fd : -1, .events = POLLIN };

	return s->client && lease_end_ns(s) <= bace_mono_ns() && poll(&word, 1, 0) <= 0;
}

static void report_dead_line(struct server *s)
{
	if (!s->line_reported_dead)
		bace_log(BACE_ERROR, MODULE, "the delay line died; packets from other regions %s",
			 shaping_fails_closed(s->shaping) ? "are dropped" : "pass without delay");
	s->line_reported_dead = true;
}

/* Changes of a trace are to happen when they are due, whatever else this machine
 * does; where priority is refused, they come when they can. */
static void be_punctual(struct server *s)
{
	bool playing = shaping_playing(s->shaping);
	const struct sched_param p = { .sched_priority = playing ? FIFO_PRIORITY : 0 };

	if (playing == s->punctual)
		return;
	s->punctual = playing;
	if (sched_setscheduler(0, playing ? SCHED_FIFO | SCHED_RESET_ON_FORK : SCHED_OTHER, &p))
		bace_log(BACE_DEBUG, MODULE, "no real-time priority: %s", strerror(errno));
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* When there is something to do that nobody asks for. */
static int64_t next_ns(const struct server *s)
{
	int64_t next = earlier(lease_end_ns(s), shaping_next_ns(s->shaping));

	return s->retry_ns && !s->client ? earlier(next, s->retry_ns) : next;
}

static int wait_until(struct pollfd *fds, size_t n, int64_t end_ns)
{
	int64_t left = end_ns - bace_mono_ns();
	struct timespec ts;

	left = left > 0 ? left : 0;
	ts = (struct timespec){ left / 1000000000, left % 1000000000 };
	if (ppoll(fds, n, end_ns == INT64_MAX ? NULL : &ts, NULL) >= 0 || errno == EINTR)
		return 0;
	return -1;
}

static int serve(struct server *s)
{
	struct bace_err e;

	for (;;) {
		int dead_fd = s->line_reported_dead ? -1 : shaping_dead_fd(s->shaping);
		struct pollfd fds[] = {
			{ .fd = s->signal_fd, .events = POLLIN },
			{ .fd = s->listen_fd, .events = POLLIN },
			{ .fd = s->client ? s->client->fd : -1, .events = POLLIN },
			{ .fd = dead_fd, .events = POLLIN },
			{ .fd = shaping_watch_fd(s->shaping), .events = POLLIN },
		};

		be_punctual(s);
		if (wait_until(fds, ARRAY_LEN(fds), next_ns(s)))
			return -errno;
		shaping_run_due(s->shaping);
		if (fds[0].revents)
			return 0;
		if (fds[2].revents && session_serve(s->client, s->config, s->shaping))
			end_lease(s, "the client is gone", &e);
		if (fds[3].revents)
			report_dead_line(s);
		if (fds[4].revents)
			shaping_on_notification(s->shaping);
		if (shaping_dead_fd(s->shaping) < 0)
			s->line_reported_dead = false;
		if (lease_has_ended(s))
			end_lease(s, "its deadline passed", &e);
		if (fds[1].revents)
			accept_client(s);
		if (s->retry_ns && !s->client && s->retry_ns <= bace_mono_ns())
			revert(s, &e);
	}
}

/* A journal that is still there is a predecessor's that crashed. */
static int open_shaping(struct server *s, struct bace_err *e)
{
	const struct shaping_config c = {
		.guard = s->config->guard == GUARD_ON || (s->config->guard == GUARD_AUTO && guard_is_machine_namespace()),
		.journal_dir = s->config->state_dir };
	int rc = s->config->state_dir ? shaping_clear_leftovers(s->config->state_dir, e) : 0;

	return rc ? rc : shaping_open(&c, &s->shaping, e);
}

int server_run(const struct shaperd_config *c, struct bace_err *e)
{
	struct server s = { .config = c, .listen_fd = -1, .signal_fd = -1 };
	CLEANUP_CLOSE int only_fd = -1;
	struct bace_err later;
	int rc = server_claim(&only_fd, 0, e), rc_end;

	if (!rc)
		rc = access_group(c, &s.gid, e);
	if (!rc)
		rc = open_signals(&s, e);
	if (!rc)
		rc = open_shaping(&s, e);
	if (!rc)
		rc = open_socket(&s, e);
	if (!rc) {
		bace_log(BACE_INFO, MODULE, "ready at %s", c->socket_path);
		prctl(PR_SET_TIMERSLACK, 1UL);
		rc = serve(&s);
		if (rc)
			bace_fail_errno(e, -rc, "wait for clients");
		rc_end = end_lease(&s, "shutting down", rc ? &later : e);
		rc = rc ? rc : rc_end;
		unlink(c->socket_path);
	}
	shaping_close(s.shaping);
	bace_cleanup_close(&s.listen_fd);
	bace_cleanup_close(&s.signal_fd);
	return rc;
}
