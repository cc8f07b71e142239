/*
 * A rank: connects its hops, warms them, waits for `go`, then one epoll loop
 * with one clock read a turn drives the engine.
 */
#include "workloads/worker/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "workloads/worker/hop.h"
#include "workloads/worker/net.h"
#include "workloads/worker/report.h"

#define EVENTS_MAX 64
#define TAG_STDIN (-1)
#define DRAIN_NS 3000000000	/* at most, for the last acknowledgements */

struct rank {
	struct worker_spec spec;
	struct engine *engine;
	struct commands *commands;
	struct hop_conn *conns;		/* [spec.n_hops] */
	int *listeners;			/* [spec.n_hops], -1 */
	bool *watched_out;		/* EPOLLOUT is on */
	int epoll;
	bool connected_asked, ready, going;
	int64_t started, last_progress;
};

static int watch(struct rank *r, int op, int fd, int tag, bool out, struct bace_err *e)
{
	struct epoll_event ev = { .events = EPOLLIN | (out ? EPOLLOUT : 0u), .data.u64 = (uint64_t)tag };

	if (epoll_ctl(r->epoll, op, fd, &ev))
		return bace_fail_errno(e, errno, "watch a socket");
	return 0;
}

static int rewatch(struct rank *r, int i, struct bace_err *e)
{
	struct hop_conn *c = &r->conns[i];
	bool out = c->connecting || hop_conn_pending(c);

	if (c->fd < 0 || r->watched_out[i] == out)
		return 0;
	r->watched_out[i] = out;
	return watch(r, EPOLL_CTL_MOD, c->fd, i, out, e);
}

/* Queues, and writes what the socket takes at once. */
static int send_message(struct rank *r, int i, enum message_kind kind, const struct message_id *id,
			int64_t made, struct bace_err *e)
{
	int rc = hop_conn_queue(&r->conns[i], kind, id, made, e);

	if (!rc)
		rc = hop_conn_write(&r->conns[i], e);
	return rc ? rc : rewatch(r, i, e);
}

static int engine_sends(void *arg, int hop, bool forward, const struct message_id *id, int64_t made,
			struct bace_err *e)
{
	return send_message(arg, hop, forward ? MESSAGE_ACTIVATION : MESSAGE_GRADIENT, id, made, e);
}

/* ---- connecting ---- */

static int adopt(struct rank *r, int i, int fd, bool connecting, struct bace_err *e)
{
	struct hop_conn *c = &r->conns[i];
	int rc;

	c->fd = fd;
	c->connecting = connecting;
	net_user_timeout(fd, r->spec.step_timeout_ns);
	r->watched_out[i] = true;
	rc = watch(r, EPOLL_CTL_ADD, fd, i, true, e);
	if (rc || connecting)
		return rc;
	return send_message(r, i, MESSAGE_WARM, &(struct message_id){ 0 }, 0, e);
}

static int open_listeners(struct rank *r, struct bace_err *e)
{
	for (int i = 0; i < r->spec.n_hops; i++) {
		uint16_t port;
		int rc;

		if (r->spec.hops[i].role != HOP_LISTEN)
			continue;
		rc = net_listen(r->spec.hops[i].addr, &r->listeners[i], &port, e);
		if (!rc)
			rc = watch(r, EPOLL_CTL_ADD, r->listeners[i], r->spec.n_hops + i, false, e);
		if (rc)
			return bace_err_context(e, "hop %d", r->spec.hops[i].hop);
		event_listening(r->spec.hops[i].hop, port);
	}
	return 0;
}

/* A local hop carries headers over a route that nobody has set up for it. */
static const char *congestion_control(const struct rank *r, int i)
{
	return r->spec.hops[i].kind == HOP_TCP ? r->spec.congestion_control : "";
}

static int accept_hop(struct rank *r, int i, struct bace_err *e)
{
	int fd, rc = net_accept(r->listeners[i], congestion_control(r, i), &fd, e);

	if (rc == -EAGAIN)
		return 0;
	if (rc)
		return bace_err_context(e, "hop %d", r->spec.hops[i].hop);
	close(r->listeners[i]);		/* one peer is all there is */
	r->listeners[i] = -1;
	return adopt(r, i, fd, false, e);
}

static int find_hop(const struct rank *r, json_int_t number)
{
	for (int i = 0; i < r->spec.n_hops; i++)
		if (r->spec.hops[i].hop == number && r->spec.hops[i].role == HOP_CONNECT)
			return i;
	return -1;
}

static int do_connect(struct rank *r, const json_t *cmd, struct bace_err *e)
{
	const json_t *hops = json_object_get(cmd, "hops"), *h;
	size_t k;

	json_array_foreach((json_t *)hops, k, h) {
		int i = find_hop(r, json_integer_value(json_object_get(h, "hop"))), fd, rc;
		const char *addr = json_string_value(json_object_get(h, "addr"));
		json_int_t port = json_integer_value(json_object_get(h, "port"));

		if (i < 0 || !addr || port < 1 || port > 65535 || r->conns[i].fd >= 0)
			return bace_fail(e, EPROTO, "connect: hop, addr or port is wrong");
		rc = net_connect(addr, (uint16_t)port, congestion_control(r, i), &fd, e);
		if (rc)
			return bace_err_context(e, "hop %d", r->spec.hops[i].hop);
		rc = adopt(r, i, fd, true, e);
		if (rc)
			return rc;
	}
	r->connected_asked = true;
	return 0;
}

static bool all_warm(const struct rank *r)
{
	for (int i = 0; i < r->spec.n_hops; i++) {
		const struct hop_conn *c = &r->conns[i];

		if (r->spec.hops[i].role == HOP_INTERNAL)
			continue;
		if (c->fd < 0 || c->connecting || !c->warm_received || hop_conn_pending(c))
			return false;
	}
	return r->connected_asked;
}

/* ---- the loop ---- */

static int on_command(struct rank *r, const json_t *cmd, struct bace_err *e)
{
	const char *name = json_string_value(json_object_get(cmd, "cmd"));

	if (name && !strcmp(name, "connect") && !r->connected_asked)
		return do_connect(r, cmd, e);
	if (name && !strcmp(name, "go") && r->ready && !r->going) {
		r->started = json_integer_value(json_object_get(cmd, "at_ns"));
		r->going = true;
		r->last_progress = r->started;
		return engine_go(r->engine, r->started, e);
	}
	return bace_fail(e, EPROTO, "command `%s': not now", name ? name : "?");
}

static int on_stdin(struct rank *r, struct bace_err *e)
{
	for (;;) {
		json_t *cmd = command_next(r->commands, e);
		int rc;

		if (!cmd && e->errnum)
			return -e->errnum;
		if (!cmd)
			return r->commands->eof ? bace_fail(e, EPIPE, "the agent is gone") : 0;
		rc = on_command(r, cmd, e);
		json_decref(cmd);
		if (rc)
			return rc;
	}
}

static int on_messages(struct rank *r, int i, int64_t now, struct bace_err *e)
{
	struct hop_conn *c = &r->conns[i];
	struct header h;
	int rc;

	while ((rc = hop_conn_read(c, &h, e)) > 0) {
		struct message_id id = { .step = h.step, .micro_batch = h.micro_batch,
					 .chunk = (uint8_t)h.chunk };

		if (h.kind == MESSAGE_WARM) {
			c->warm_received = true;
			continue;
		}
		c->received++;
		rc = engine_receive(r->engine, i, h.kind == MESSAGE_ACTIVATION, &id, h.made, now, e);
		if (rc)
			return rc;
		r->last_progress = now;
	}
	if (rc < 0 || !c->closed)
		return rc;
	/* A peer that has had its part may leave before this rank is done. */
	if (c->received < hop_conn_expected(c))
		return bace_fail(e, ECONNRESET, "hop %d: the peer closed the connection",
				 hop_spec(c)->hop);
	epoll_ctl(r->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	return 0;
}

static int on_hop(struct rank *r, int i, uint32_t events, int64_t now, struct bace_err *e)
{
	struct hop_conn *c = &r->conns[i];
	int rc = 0;

	if (c->connecting && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
		rc = net_connected(c->fd, e);
		if (rc)
			return bace_err_context(e, "hop %d", hop_spec(c)->hop);
		c->connecting = false;
		rc = send_message(r, i, MESSAGE_WARM, &(struct message_id){ 0 }, 0, e);
	} else if (events & EPOLLOUT) {
		rc = hop_conn_write(c, e);
		if (!rc)
			rc = rewatch(r, i, e);
	}
	if (!rc && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) && !c->connecting)
		rc = on_messages(r, i, now, e);
	return rc;
}

static int64_t next_wake(const struct rank *r)
{
	int64_t patience = r->last_progress +
		(r->going ? r->spec.step_timeout_ns : r->spec.connect_timeout_ns);
	int64_t op = r->going ? engine_deadline(r->engine) : INT64_MAX;

	/* Ready and not told to go: the agent decides how long that takes. */
	if (r->ready && !r->going)
		return INT64_MAX;
	return op < patience ? op : patience;
}

static int check_patience(const struct rank *r, int64_t now, struct bace_err *e)
{
	char what[160];

	if (r->ready && !r->going)
		return 0;
	if (r->going) {
		if (engine_deadline(r->engine) != INT64_MAX ||
		    now < r->last_progress + r->spec.step_timeout_ns)
			return 0;
		engine_describe_wait(r->engine, what, sizeof(what));
		return bace_fail(e, ETIMEDOUT, "nothing for %.1f s: %s",
				 (double)r->spec.step_timeout_ns / 1e9, what);
	}
	if (now < r->last_progress + r->spec.connect_timeout_ns)
		return 0;
	for (int i = 0; i < r->spec.n_hops; i++) {
		const struct hop_conn *c = &r->conns[i];

		if (hop_spec(c)->role != HOP_INTERNAL && (c->fd < 0 || c->connecting || !c->warm_received))
			return bace_fail(e, ETIMEDOUT, "hop %d: %s in %.1f s", hop_spec(c)->hop,
					 c->fd < 0 || c->connecting ? "no connection" : "not warm",
					 (double)r->spec.connect_timeout_ns / 1e9);
	}
	return bace_fail(e, ETIMEDOUT, "the agent did not say what to connect to");
}

static int wait_events(struct rank *r, struct epoll_event *ev, int64_t now, struct bace_err *e)
{
	int64_t wake = next_wake(r), left = wake - now;
	struct timespec t = { .tv_sec = left / 1000000000, .tv_nsec = left % 1000000000 };
	int n;

	if (left <= 0)
		t = (struct timespec){ 0 };
	n = epoll_pwait2(r->epoll, ev, EVENTS_MAX, wake == INT64_MAX ? NULL : &t, NULL);
	if (n < 0 && errno != EINTR)
		return bace_fail_errno(e, errno, "wait for events");
	return n < 0 ? 0 : n;
}

static int handle(struct rank *r, const struct epoll_event *ev, int64_t now, struct bace_err *e)
{
	int tag = (int)(int64_t)ev->data.u64;

	if (tag == TAG_STDIN)
		return on_stdin(r, e);
	if (tag >= r->spec.n_hops)
		return accept_hop(r, tag - r->spec.n_hops, e);
	return on_hop(r, tag, ev->events, now, e);
}

static int turn(struct rank *r, int64_t *now, struct bace_err *e)
{
	struct epoll_event ev[EVENTS_MAX];
	int n = wait_events(r, ev, *now, e), rc = 0;

	if (n < 0)
		return n;
	*now = bace_mono_ns();
	for (int i = 0; !rc && i < n; i++)
		rc = handle(r, &ev[i], *now, e);
	if (!rc && r->going) {
		if (engine_deadline(r->engine) <= *now)
			r->last_progress = *now;
		rc = engine_advance(r->engine, *now, e);
	}
	if (!rc && !r->ready && all_warm(r)) {
		r->ready = true;
		event_send(json_pack("{s:s}", "event", "ready"));
	}
	return rc ? rc : check_patience(r, *now, e);
}

/* Until all that was sent is acknowledged: tcp_info is final then. */
static int drain(struct rank *r, int64_t *now, struct bace_err *e)
{
	int64_t until = *now + DRAIN_NS;

	for (;;) {
		bool busy = false;

		for (int i = 0; i < r->spec.n_hops; i++) {
			struct hop_conn *c = &r->conns[i];

			if (c->fd < 0 || c->closed)
				continue;
			int rc = hop_conn_write(c, e);

			if (rc)
				return rc;
			busy |= hop_conn_pending(c) || net_unacked(c->fd) > 0;
		}
		if (!busy || *now > until)
			return 0;
		usleep(2000);
		*now = bace_mono_ns();
	}
}

static int prepare(struct rank *r, struct bace_err *e)
{
	size_t n = (size_t)r->spec.n_hops + 1;
	struct engine_io io = { .send = engine_sends, .arg = r };

	r->conns = calloc(n, sizeof(*r->conns));
	r->listeners = calloc(n, sizeof(*r->listeners));
	r->watched_out = calloc(n, sizeof(*r->watched_out));
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!r->conns || !r->listeners || !r->watched_out || r->epoll < 0)
		return bace_fail(e, ENOMEM, "rank: out of memory");
	for (int i = 0; i < r->spec.n_hops; i++) {
		hop_conn_init(&r->conns[i], &r->spec, i);
		r->listeners[i] = -1;
	}
	fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
	int rc = watch(r, EPOLL_CTL_ADD, 0, TAG_STDIN, false, e);

	if (!rc)
		rc = engine_create(&r->spec, &io, &r->engine, e);
	return rc ? rc : open_listeners(r, e);
}

static void cleanup(struct rank *r)
{
	for (int i = 0; i < r->spec.n_hops && r->conns; i++) {
		hop_conn_free(&r->conns[i]);
		bace_cleanup_close(&r->listeners[i]);
	}
	free(r->conns);
	free(r->listeners);
	free(r->watched_out);
	if (r->engine)
		engine_destroy(r->engine);
	if (r->epoll >= 0)
		close(r->epoll);
	worker_spec_free(&r->spec);
}

int rank_run(const json_t *spec, struct commands *c, struct bace_err *e)
{
	struct rank r = { .commands = c, .epoll = -1 };
	int64_t now = bace_mono_ns();
	int rc = worker_spec_read(spec, &r.spec, e), first = 0;

	r.last_progress = now;
	if (!rc)
		first = r.spec.stages[0].stage;
	if (!rc)
		rc = prepare(&r, e);
	if (!rc)
		rc = on_stdin(&r, e);	/* may have come with the spec */
	while (!rc && !engine_done(r.engine))
		rc = turn(&r, &now, e);
	if (!rc)
		rc = drain(&r, &now, e);
	if (!rc)
		rc = report_done(&r.spec, r.engine, r.conns, r.started, e);
	if (rc && r.spec.n_stages)
		bace_err_context(e, "%s rank %d", r.spec.name, first);
	cleanup(&r);
	return rc;
}
