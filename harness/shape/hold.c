/* The process that holds the lease: applies, keeps alive, answers, reverts. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/wire/wire.h"
#include "harness/shape/holder.h"

#define DEFAULT_SOCKET "/run/bace/shaperd.sock"
#define KEEPALIVE_MS 1000

struct holder {
	const struct shape_hold *how;
	struct shaperd_client *client;
	struct shape_spec spec;		/* links owned */
	pid_t daemon;			/* that we started; 0: none */
	int listen_fd, signal_fd;
	int64_t until_ns;		/* 0: no end */
	bool over;
	int clear_fd;			/* who asked for the end and waits for it; -1 */
};

static int connect_daemon(struct holder *h, struct bace_err *e)
{
	char path[400];
	int rc;

	if (h->how->socket)
		return shaperd_connect(h->how->socket, &h->client, e);
	if (daemon_is_here()) {
		if (!access(DEFAULT_SOCKET, F_OK))
			return shaperd_connect(DEFAULT_SOCKET, &h->client, e);
		return bace_fail(e, EBUSY, "a bace-shaperd runs here and not at " DEFAULT_SOCKET ": say where (--socket)");
	}
	rc = daemon_start(h->how->self, &h->daemon, path, sizeof(path), e);
	return rc ? rc : shaperd_connect(path, &h->client, e);
}

static int open_signals(struct holder *h, struct bace_err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return bace_fail_errno(e, errno, "block signals");
	h->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	return h->signal_fd < 0 ? bace_fail_errno(e, errno, "signalfd") : 0;
}

static int64_t deadline(double for_s)
{
	return for_s > 0 ? bace_mono_ns() + (int64_t)(for_s * 1e9) : 0;
}

/* ---- requests ---- */
static json_t *refusal(const struct bace_err *e)
{
	return json_pack("{s:s,s:i}", "error", e->msg, "errnum", e->errnum);
}

static json_t *answer_show(struct holder *h)
{
	struct shape_stats st;
	struct bace_err e = { 0 };
	json_t *links = json_array();

	if (shaperd_stats(h->client, &st, &e)) {
		json_decref(links);
		return refusal(&e);
	}
	for (int i = 0; i < st.n && i < h->spec.n_links; i++)
		json_array_append_new(links, json_pack("{s:s,s:i,s:I,s:I,s:I}", "region", h->spec.links[i].name, "index",
			(int)h->spec.links[i].region, "latency_ns", (json_int_t)st.v[i].latency_ns, "delay_packets",
			(json_int_t)st.v[i].delay_packets, "delay_drops", (json_int_t)st.v[i].delay_drops));
	json_t *j = json_pack("{s:I,s:s,s:f,s:b,s:I,s:I,s:o}", "pid", (json_int_t)getpid(), "delay", delay_words[h->spec.delay],
			      "left_s", h->until_ns ? (double)(h->until_ns - bace_mono_ns()) / 1e9 : 0.0, "delay_alive",
			      st.delay_alive, "lateness_p99_ns", (json_int_t)st.lateness_p99_ns, "drift_repairs",
			      (json_int_t)st.drift_repairs, "links", links);

	shape_stats_free(&st);
	return j;
}

static json_t *answer_apply(struct holder *h, const json_t *request)
{
	struct shape_spec s = { 0 };
	struct bace_err e = { 0 };

	if (wire_decode_shape(json_object_get(request, "spec"), &s, &e))
		return refusal(&e);
	if (shaperd_plan(h->client, &s, &e)) {
		shape_spec_free(&s);
		return refusal(&e);
	}
	shape_spec_free(&h->spec);
	h->spec = s;
	h->until_ns = deadline(json_number_value(json_object_get(request, "for_s")));
	return json_pack("{s:I,s:i}", "pid", (json_int_t)getpid(), "changes", shaperd_changes(h->client));
}

static void serve_one(struct holder *h)
{
	int fd = accept4(h->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	json_t *request = fd < 0 ? NULL : holder_receive(fd);
	const char *what = request ? json_string_value(json_object_get(request, "do")) : NULL;
	struct bace_err e = { 0 };

	if (what && !strcmp(what, "clear")) {
		/* Answered when it is done. */
		h->over = true;
		h->clear_fd = STEAL_FD(fd);
	} else if (what && !strcmp(what, "show")) {
		holder_answer(fd, answer_show(h));
	} else if (what && !strcmp(what, "apply")) {
		holder_answer(fd, answer_apply(h, request));
	} else if (what && !strcmp(what, "trace")) {
		bool done = !holder_play(h->client, &h->spec, request, &e);

		holder_answer(fd, done ? json_pack("{s:b}", "playing", 1) : refusal(&e));
	} else if (what) {
		bace_fail(&e, EPROTO, "the process that holds the shaping here is of another version");
		holder_answer(fd, refusal(&e));
	}
	json_decref(request);
	bace_cleanup_close(&fd);
}

/* ---- the loop ---- */
static int wait_ms(const struct holder *h)
{
	int64_t left_ms = h->until_ns ? (h->until_ns - bace_mono_ns()) / 1000000 + 1 : KEEPALIVE_MS;

	return left_ms < 0 ? 0 : left_ms < KEEPALIVE_MS ? (int)left_ms : KEEPALIVE_MS;
}

static int keep(struct holder *h, struct bace_err *e)
{
	while (!h->over) {
		struct pollfd fds[] = { { .fd = h->signal_fd, .events = POLLIN }, { .fd = h->listen_fd, .events = POLLIN },
					{ .fd = shaperd_fd(h->client), .events = POLLIN } };
		int n = poll(fds, ARRAY_LEN(fds), wait_ms(h));

		if (n < 0 && errno != EINTR)
			return bace_fail_errno(e, errno, "wait");
		if (n > 0 && fds[0].revents)
			return 0;
		if (n > 0 && fds[2].revents)
			return bace_fail(e, EIO, "bace-shaperd died: nothing is shaped any more");
		if (n > 0 && fds[1].revents)
			serve_one(h);
		if (h->until_ns && bace_mono_ns() >= h->until_ns)
			return 0;
		if (!h->over && shaperd_keepalive(h->client, e))
			return bace_err_context(e, "hold the shaping");
	}
	return 0;
}

static int let_go(struct holder *h, int rc, struct bace_err *e)
{
	struct bace_err second = { 0 };
	int rc_clear = h->client && rc != -EIO ? shaperd_clear(h->client, rc ? &second : e) : 0;

	shaperd_close(h->client);
	daemon_stop(h->daemon);
	if (h->daemon > 0)
		daemon_forget_state();
	if (h->clear_fd >= 0)
		holder_answer(h->clear_fd, rc_clear ? refusal(rc ? &second : e) : json_pack("{s:b}", "cleared", 1));
	bace_cleanup_close(&h->clear_fd);
	bace_cleanup_close(&h->listen_fd);
	bace_cleanup_close(&h->signal_fd);
	shape_spec_free(&h->spec);
	return rc ? rc : rc_clear;
}

static int copy_spec(const struct shape_spec *from, struct shape_spec *to, const struct shape_hold *how)
{
	int rc = shape_spec_copy(to, from);

	to->allow_control_interface = how->allow_control_interface;
	to->replace_foreign = how->replace_foreign;
	return rc;
}

static int hold_here(const struct shape_hold *how, const struct shape_spec *spec,
		     void (*said)(void *, const char *, int), void *arg, struct bace_err *e)
{
	struct holder h = { .how = how, .listen_fd = -1, .signal_fd = -1, .clear_fd = -1 };
	int rc = holder_listen(&h.listen_fd, e);

	if (!rc && copy_spec(spec, &h.spec, how))
		rc = bace_fail(e, ENOMEM, "out of memory");
	if (!rc)
		rc = open_signals(&h, e);
	if (!rc)
		rc = connect_daemon(&h, e);
	if (!rc)
		rc = shaperd_plan(h.client, &h.spec, e);
	if (!rc) {
		h.until_ns = deadline(how->for_s);
		said(arg, "applied", shaperd_changes(h.client));
		rc = keep(&h, e);
	}
	return let_go(&h, rc, e);
}

/* ---- in the background ---- */
struct report {
	int rc, changes;
	struct bace_err e;
};

static void report_done(void *arg, const char *how, int changes)
{
	const struct report r = { .changes = changes };
	int *fd = arg, null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (write(*fd, &r, sizeof(r)) != sizeof(r))
		_exit(1);
	bace_cleanup_close(fd);
	*fd = -1;
	for (int i = 0; i < 3 && null >= 0; i++)
		dup2(null, i);
	bace_cleanup_close(&null);
}

static void hold_detached(const struct shape_hold *how, const struct shape_spec *s, int fd)
{
	struct report r = { 0 };

	/* What the caller had open is not to be held open for days. */
	if (fd > 3)
		close_range(3, (unsigned)fd - 1, 0);
	close_range((unsigned)fd + 1, ~0u, 0);
	setsid();
	if (chdir("/"))
		_exit(1);
	r.rc = hold_here(how, s, report_done, &fd, &r.e);
	if (fd >= 0 && write(fd, &r, sizeof(r)) != sizeof(r))
		_exit(1);
	_exit(r.rc ? 1 : 0);
}

static int hold_in_background(const struct shape_hold *how, const struct shape_spec *s,
			      void (*said)(void *, const char *, int), void *arg, struct bace_err *e)
{
	struct report r;
	int fds[2];
	ssize_t n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return bace_fail_errno(e, errno, "pipe");
	fflush(NULL);
	pid = fork();
	if (!pid) {
		close(fds[0]);
		hold_detached(how, s, fds[1]);
	}
	close(fds[1]);
	n = pid < 0 ? -1 : read(fds[0], &r, sizeof(r));
	close(fds[0]);
	if (n != sizeof(r))
		return bace_fail(e, EIO, "the holder did not start");
	if (r.rc) {
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		*e = r.e;
		return r.rc;
	}
	said(arg, "applied", r.changes);
	return 0;
}

int shape_hold(const struct shape_hold *how, const struct shape_spec *s, void (*said)(void *, const char *, int),
	       void *arg, struct bace_err *e)
{
	struct shape_spec insisting = *s;
	json_t *answer;
	int rc;

	insisting.allow_control_interface = how->allow_control_interface;
	insisting.replace_foreign = how->replace_foreign;
	rc = holder_ask(json_pack("{s:s,s:o,s:f}", "do", "apply", "spec", wire_encode_shape(&insisting), "for_s", how->for_s),
			&answer, e);
	if (!rc) {
		said(arg, "updated", (int)json_integer_value(json_object_get(answer, "changes")));
		json_decref(answer);
	}
	if (rc != -ENOENT)
		return rc;
	return how->detach ? hold_in_background(how, s, said, arg, e) : hold_here(how, s, said, arg, e);
}
