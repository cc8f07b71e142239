#include "workloads/worker/hop.h"

#include <errno.h>
#include <sys/socket.h>
#include <string.h>
#include <unistd.h>

#define MODULE "worker"
#define MESSAGES_A_TURN 32

const struct worker_hop_spec *hop_spec(const struct hop *h)
{
	return &h->spec->hops[h->index];
}

static int context(const struct hop *h, struct bace_err *e)
{
	int step = h->events->step(h->events->arg, h->index);
	char where[40], peer[NET_NAME_MAX + 4] = "";

	/* The engine says itself where it was. */
	if (!strncmp(e->msg, "hop ", 4))
		return -e->errnum;
	if (step == INT32_MAX)
		snprintf(where, sizeof(where), "hop %d", hop_spec(h)->hop);
	else
		snprintf(where, sizeof(where), "hop %d step %d", hop_spec(h)->hop, step);
	if (h->peer[0])
		snprintf(peer, sizeof(peer), ": %s", h->peer);
	return bace_err_context(e, "%s%s", where, peer);
}

/* A local hop carries headers over a route that nobody has set up for it. */
static const char *congestion_control(const struct hop *h)
{
	return hop_spec(h)->kind == HOP_TCP ? h->spec->congestion_control : "";
}

/* Does the peer play the hop's first stage? */
static bool from_below(const struct hop *h)
{
	return hop_spec(h)->role == HOP_LISTEN;
}

/* Messages of the schedule, and tokens, that this end receives in the whole run. */
static uint64_t expected(const struct hop *h)
{
	const struct schedule_spec *s = &h->spec->schedule;
	bool wrap = hop_spec(h)->hop == s->stages - 1;
	uint64_t chunks = s->kind == SCHED_INTERLEAVED_1F1B ? (uint64_t)(s->chunks - wrap) : 1;
	uint64_t a_step = chunks * (uint64_t)s->micro_batches + (!wrap && !from_below(h));

	return a_step * (uint64_t)(h->spec->warmup_steps + h->spec->steps);
}

/* ---- receiving ---- */

/* One message more than the schedule has, and the inboxes would grow for ever. */
static int take(struct hop *h, const struct message *m, int64_t now, struct bace_err *e)
{
	if (m->kind == MESSAGE_WARM) {
		if (h->warm)
			return bace_fail(e, EPROTO, "a second first message");
		h->warm = true;
		return 0;
	}
	if (++h->received > expected(h))
		return bace_fail(e, EPROTO, "%s of step %d micro-batch %d: all messages had come",
				 message_name(m->kind), m->step, m->micro_batch);
	return h->events->received(h->events->arg, h->index, m, h->sock.first, now, e);
}

static int check(void *arg, const struct header *in, struct bace_err *e)
{
	struct hop *h = arg;

	return header_check(in, h->spec, hop_spec(h), from_below(h), e);
}

static int on_readable(struct hop *h, int64_t now, struct bace_err *e)
{
	struct header in;
	struct message m;
	int rc = 0;

	for (int i = 0; i < MESSAGES_A_TURN && !rc; i++) {
		rc = sock_read(&h->sock, now, check, h, &in, e);
		if (rc <= 0)
			break;
		header_read(&in, &m);
		rc = take(h, &m, now, e);
	}
	if (rc || !h->sock.closed)
		return rc;
	/* A peer that has had its part may leave before this rank is done. */
	if (h->received < expected(h))
		return bace_fail(e, ECONNRESET, "the peer closed the connection");
	return 0;
}

/* ---- sending ---- */

static int flush(struct hop *h, int64_t now, struct bace_err *e)
{
	struct sock *s = &h->sock;
	struct header done;
	struct message m;
	uint32_t events;
	int rc;

	while ((rc = sock_write(s, &done, e)) > 0) {
		header_read(&done, &m);
		h->events->sent(h->events->arg, h->index, &m, now);
	}
	if (rc)
		return rc;
	events = (s->closed ? 0u : (uint32_t)EPOLLIN) |
		 (s->connecting || sock_pending(s) ? (uint32_t)EPOLLOUT : 0u);
	return loop_watch(h->loop, &s->watch, events, e);
}

static int queue(struct hop *h, const struct message *m, struct bace_err *e)
{
	struct header out;
	int rc;

	header_fill(&out, h->spec, hop_spec(h), m);
	rc = sock_queue(&h->sock, &out, e);
	return rc ? rc : flush(h, loop_now(h->loop), e);
}

int hop_send(struct hop *h, const struct message *m, struct bace_err *e)
{
	return queue(h, m, e) ? context(h, e) : 0;
}

/* ---- connections ---- */

static int begin(struct hop *h, struct bace_err *e)
{
	h->sock.connecting = false;
	if (!h->peer[0])
		net_peer(h->sock.watch.fd, h->peer);
	return queue(h, &(struct message){ .kind = MESSAGE_WARM }, e);
}

static int on_socket(struct hop *h, uint32_t events, int64_t now, struct bace_err *e)
{
	int rc;

	if (h->sock.connecting) {
		rc = net_connected(h->sock.watch.fd, e);
		return rc ? rc : begin(h, e);
	}
	rc = events & (EPOLLIN | EPOLLERR | EPOLLHUP) ? on_readable(h, now, e) : 0;
	return rc ? rc : flush(h, now, e);
}

static int on_sock_event(struct watch *w, uint32_t events, int64_t now, struct bace_err *e)
{
	struct hop *h = w->owner;

	return on_socket(h, events, now, e) ? context(h, e) : 0;
}

static int adopt(struct hop *h, int fd, bool connecting, struct bace_err *e)
{
	struct sock *s = &h->sock;

	sock_init(s, fd);
	s->watch.fn = on_sock_event;
	s->watch.owner = h;
	s->connecting = connecting;
	net_user_timeout(fd, h->spec->step_timeout_ns);
	return loop_watch(h->loop, &s->watch, EPOLLIN | (connecting ? (uint32_t)EPOLLOUT : 0u), e);
}

static void drop_pending(struct hop *h, struct pending *p, const char *why)
{
	struct bace_err e;
	char peer[NET_NAME_MAX];

	if (why) {
		net_peer(p->watch.fd, peer);
		bace_log(BACE_WARN, MODULE, "hop %d: a connection from %s is refused: %s", hop_spec(h)->hop,
			 peer, why);
	}
	loop_watch(h->loop, &p->watch, 0, &e);
	close(p->watch.fd);
	*p = (struct pending){ .watch.fd = -1 };
}

static void stop_listening(struct hop *h)
{
	struct bace_err e;

	if (h->listener.fd < 0)
		return;
	loop_watch(h->loop, &h->listener, 0, &e);
	close(h->listener.fd);
	h->listener.fd = -1;
	for (int i = 0; i < HOP_PENDING_MAX; i++)
		if (h->pending[i].watch.fd >= 0)
			drop_pending(h, &h->pending[i], "the hop is complete");
}

/* This connection is the peer's; its first header is in p. */
static int take_over(struct hop *h, struct pending *p, int64_t now, struct bace_err *e)
{
	struct pending was = *p;
	int rc = loop_watch(h->loop, &p->watch, 0, e);

	*p = (struct pending){ .watch.fd = -1 };
	stop_listening(h);
	if (rc) {
		close(was.watch.fd);
		return rc;
	}
	rc = adopt(h, was.watch.fd, false, e);
	if (rc)
		return rc;
	h->sock.in = was.in;
	h->sock.got = sizeof(was.in);
	h->sock.first = now;
	/* A local hop's first message is its header. */
	if (h->sock.got == was.in.bytes) {
		h->sock.got = 0;
		h->warm = true;
	}
	return begin(h, e);
}

/* The first header says whether a connection is the peer's or a stranger's. */
static int on_pending(struct watch *w, uint32_t events, int64_t now, struct bace_err *e)
{
	struct hop *h = w->owner;
	struct pending *p = (struct pending *)((char *)w - offsetof(struct pending, watch));
	ssize_t n = recv(w->fd, (char *)&p->in + p->got, sizeof(p->in) - p->got, 0);
	struct bace_err why;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		drop_pending(h, p, n ? strerror(errno) : "it closed");
		return 0;
	}
	p->got += (size_t)n;
	if (p->got < sizeof(p->in))
		return 0;
	if (check(h, &p->in, &why)) {
		drop_pending(h, p, why.msg);
		return 0;
	}
	if (p->in.kind != MESSAGE_WARM) {
		drop_pending(h, p, "it does not begin as a worker does");
		return 0;
	}
	return take_over(h, p, now, e) ? context(h, e) : 0;
}

static struct pending *free_pending(struct hop *h)
{
	struct pending *p = &h->pending[h->next_pending++ % HOP_PENDING_MAX];

	for (int i = 0; i < HOP_PENDING_MAX; i++)
		if (h->pending[i].watch.fd < 0)
			return &h->pending[i];
	/* All are silent strangers: one makes room. */
	drop_pending(h, p, "it says nothing");
	return p;
}

static int on_listener(struct watch *w, uint32_t events, int64_t now, struct bace_err *e)
{
	struct hop *h = w->owner;
	struct pending *p;
	int fd, rc = net_accept(w->fd, congestion_control(h), &fd, e);

	if (rc)
		return rc == -EAGAIN ? 0 : context(h, e);
	p = free_pending(h);
	*p = (struct pending){ .watch = { .fd = fd, .fn = on_pending, .owner = h } };
	return loop_watch(h->loop, &p->watch, EPOLLIN, e);
}

int hop_listen(struct hop *h, uint16_t *port, struct bace_err *e)
{
	int rc = net_listen(hop_spec(h)->addr, &h->listener.fd, port, e);

	h->listener.fn = on_listener;
	h->listener.owner = h;
	if (!rc)
		rc = loop_watch(h->loop, &h->listener, EPOLLIN, e);
	return rc ? context(h, e) : 0;
}

int hop_connect(struct hop *h, const char *addr, uint16_t port, struct bace_err *e)
{
	int fd, rc = net_connect(addr, port, congestion_control(h), &fd, e);

	snprintf(h->peer, sizeof(h->peer), strchr(addr, ':') ? "[%s]:%u" : "%s:%u", addr, port);
	if (!rc)
		rc = adopt(h, fd, true, e);
	return rc ? context(h, e) : 0;
}

bool hop_warm(const struct hop *h)
{
	return h->warm && !sock_pending(&h->sock);
}

/* ---- the end ---- */

bool hop_drained(const struct hop *h)
{
	return !sock_pending(&h->sock) && net_unacked(h->sock.watch.fd) <= 0;
}

void hop_shutdown(struct hop *h)
{
	shutdown(h->sock.watch.fd, SHUT_WR);
}

bool hop_finished(const struct hop *h)
{
	return h->sock.closed;
}

/* ---- life ---- */

void hop_init(struct hop *h, const struct worker_spec *spec, int index, struct loop *loop,
	      const struct hop_events *events)
{
	*h = (struct hop){ .spec = spec, .index = index, .loop = loop, .events = events,
			   .listener.fd = -1 };
	sock_init(&h->sock, -1);
	for (int i = 0; i < HOP_PENDING_MAX; i++)
		h->pending[i].watch.fd = -1;
}

void hop_free(struct hop *h)
{
	if (!h->spec)
		return;
	sock_free(&h->sock);
	for (int i = 0; i < HOP_PENDING_MAX; i++)
		bace_cleanup_close(&h->pending[i].watch.fd);
	bace_cleanup_close(&h->listener.fd);
}
