#include "workloads/worker/hop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODULE "worker"
#define RING_START 16
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

static int grow_ring(struct hop *h, uint64_t need)
{
	uint64_t cap = h->cap ? h->cap : RING_START;
	struct partial *v;

	while (cap < need)
		cap *= 2;
	v = calloc(cap, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (uint64_t i = 0; i < h->cap; i++)
		v[(h->head + i) & (cap - 1)] = h->partial[(h->head + i) & (h->cap - 1)];
	free(h->partial);
	h->partial = v;
	h->cap = cap;
	return 0;
}

static int deliver(struct hop *h, const struct message *m, int64_t first, int64_t now,
		   struct bace_err *e)
{
	h->received++;
	return h->events->received(h->events->arg, h->index, m, first, now, e);
}

static int take_part(struct hop *h, struct sock *s, const struct message *m, int64_t now,
		     struct bace_err *e)
{
	uint64_t number = s->n_data++;
	struct partial *p;

	if (number - h->head >= h->cap && grow_ring(h, number - h->head + 1))
		return bace_fail(e, ENOMEM, "out of memory");
	p = &h->partial[number & (h->cap - 1)];
	if (!p->parts) {
		p->m = *m;
		p->first = s->first;
	} else if (p->m.kind != m->kind || p->m.step != m->step || p->m.micro_batch != m->micro_batch ||
		   p->m.chunk != m->chunk) {
		return bace_fail(e, EPROTO, "parts of two messages: step %d micro-batch %d and step %d "
				 "micro-batch %d", p->m.step, p->m.micro_batch, m->step, m->micro_batch);
	}
	if (s->first < p->first)
		p->first = s->first;
	p->parts++;
	while (h->partial[h->head & (h->cap - 1)].parts == hop_spec(h)->sockets) {
		struct partial whole = h->partial[h->head & (h->cap - 1)];
		int rc;

		h->partial[h->head++ & (h->cap - 1)].parts = 0;
		rc = deliver(h, &whole.m, whole.first, now, e);
		if (rc)
			return rc;
	}
	return 0;
}

static int check(void *arg, const struct header *in, struct bace_err *e)
{
	struct hop *h = arg;

	return header_check(in, h->spec, hop_spec(h), from_below(h), e);
}

static int on_readable(struct hop *h, struct sock *s, int64_t now, struct bace_err *e)
{
	struct header in;
	struct message m;
	int rc = 0;

	for (int i = 0; i < MESSAGES_A_TURN; i++) {
		rc = sock_read(s, now, check, h, &in, e);
		if (rc <= 0)
			break;
		header_read(&in, &m);
		if (m.kind == MESSAGE_WARM) {
			h->n_warm++;
			rc = 0;
		} else {
			rc = m.kind == MESSAGE_TOKEN ? deliver(h, &m, s->first, now, e) :
						       take_part(h, s, &m, now, e);
		}
		if (rc)
			return rc;
	}
	if (rc < 0 || !s->closed)
		return rc < 0 ? rc : 0;
	/* A peer that has had its part may leave before this rank is done. */
	if (h->received < expected(h))
		return bace_fail(e, ECONNRESET, "the peer closed the connection");
	return 0;
}

/* ---- sending ---- */

static int flush(struct hop *h, struct sock *s, int64_t now, struct bace_err *e)
{
	struct outgoing done;
	uint32_t events;
	int rc;

	while ((rc = sock_write(s, &done, e)) > 0) {
		struct message m;

		header_read(&done.h, &m);
		/* The last part, as good as: parts are equal. */
		if (done.h.part == done.h.parts - 1)
			h->events->sent(h->events->arg, h->index, &m, now);
	}
	if (rc)
		return rc;
	events = (s->closed ? 0u : (uint32_t)EPOLLIN) |
		 (s->connecting || sock_pending(s) ? (uint32_t)EPOLLOUT : 0u);
	return loop_watch(h->loop, &s->watch, events, e);
}

static int send_part(struct hop *h, int i, const struct message *m, bool tell_left, struct bace_err *e)
{
	struct header out;
	int rc;

	header_fill(&out, h->spec, hop_spec(h), m, i);
	rc = sock_queue(&h->socks[i], &out, tell_left, e);
	return rc ? rc : flush(h, &h->socks[i], loop_now(h->loop), e);
}

int hop_send(struct hop *h, const struct message *m, bool tell_left, struct bace_err *e)
{
	int parts = m->kind == MESSAGE_TOKEN ? 1 : hop_spec(h)->sockets, rc = 0;

	if (tell_left) {
		h->sent_parts = 0;
		h->left_forward = message_is_forward(m->kind);
	}
	for (int i = 0; !rc && i < parts; i++)
		rc = send_part(h, i, m, tell_left, e);
	return rc ? context(h, e) : 0;
}

static int on_acked(struct hop *h, int64_t now, struct bace_err *e)
{
	struct net_info t;
	int rc;

	if (++h->sent_parts < (uint64_t)hop_spec(h)->sockets)
		return 0;
	/* The acknowledgement came one RTT after the last byte had left. */
	hop_info(h, &t);
	rc = h->events->left(h->events->arg, h->index, h->left_forward, now - (int64_t)t.min_rtt_us * 1000, e);
	return rc;
}

/* ---- connections ---- */

static int begin(struct hop *h, int i, struct bace_err *e)
{
	struct sock *s = &h->socks[i];
	int rc = 0;

	s->connecting = false;
	if (!h->peer[0])
		net_peer(s->watch.fd, h->peer);
	if (!h->spec->overlap)
		rc = sock_tell_acks(s, e);
	return rc ? rc : send_part(h, i, &(struct message){ .kind = MESSAGE_WARM }, false, e);
}

static int on_socket(struct hop *h, struct sock *s, uint32_t events, int64_t now, struct bace_err *e)
{
	int rc = 0;

	if (s->connecting) {
		rc = net_connected(s->watch.fd, e);
		return rc ? rc : begin(h, (int)(s - h->socks), e);
	}
	if ((events & EPOLLERR) && !h->spec->overlap && sock_acked(s))
		rc = on_acked(h, now, e);
	if (!rc && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
		rc = on_readable(h, s, now, e);
	return rc ? rc : flush(h, s, now, e);
}

static int on_sock_event(struct watch *w, uint32_t events, int64_t now, struct bace_err *e)
{
	struct hop *h = w->owner;
	struct sock *s = (struct sock *)((char *)w - offsetof(struct sock, watch));

	return on_socket(h, s, events, now, e) ? context(h, e) : 0;
}

static int adopt(struct hop *h, int fd, bool connecting, struct bace_err *e)
{
	struct sock *s = &h->socks[h->n_socks++];

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

/* The first header says whether a connection is the peer's or a stranger's. */
static int on_pending(struct watch *w, uint32_t events, int64_t now, struct bace_err *e)
{
	struct hop *h = w->owner;
	struct pending *p = (struct pending *)((char *)w - offsetof(struct pending, watch)), was;
	ssize_t n = recv(w->fd, (char *)&p->in + p->got, sizeof(p->in) - p->got, 0);
	struct bace_err why;
	int rc;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		drop_pending(h, p, n ? strerror(errno) : "closed");
		return 0;
	}
	p->got += (size_t)n;
	if (p->got < sizeof(p->in))
		return 0;
	if (check(h, &p->in, &why) || p->in.kind != MESSAGE_WARM) {
		drop_pending(h, p, p->in.kind != MESSAGE_WARM ? "it does not begin as a worker does" : why.msg);
		return 0;
	}
	was = *p;
	rc = loop_watch(h->loop, &p->watch, 0, e);
	*p = (struct pending){ .watch.fd = -1 };
	if (!rc)
		rc = adopt(h, was.watch.fd, false, e);
	if (rc)
		return context(h, e);
	struct sock *s = &h->socks[h->n_socks - 1];

	s->in = was.in;
	s->got = sizeof(s->in);
	s->first = now;
	if (h->n_socks == hop_spec(h)->sockets)
		stop_listening(h);
	rc = begin(h, (int)(s - h->socks), e);
	/* A local hop's first message is its header. */
	if (!rc && s->got == s->in.bytes) {
		s->got = 0;
		h->n_warm++;
	}
	return rc ? context(h, e) : 0;
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
	int rc = net_listen(hop_spec(h)->addr, 0, &h->listener.fd, port, e);

	h->listener.fn = on_listener;
	h->listener.owner = h;
	if (!rc)
		rc = loop_watch(h->loop, &h->listener, EPOLLIN, e);
	return rc ? context(h, e) : 0;
}

int hop_connect(struct hop *h, const char *addr, uint16_t port, struct bace_err *e)
{
	snprintf(h->peer, sizeof(h->peer), strchr(addr, ':') ? "[%s]:%u" : "%s:%u", addr, port);
	for (int i = 0; i < hop_spec(h)->sockets; i++) {
		int fd, rc = net_connect(addr, port, congestion_control(h), &fd, e);

		if (!rc)
			rc = adopt(h, fd, true, e);
		if (rc)
			return context(h, e);
	}
	return 0;
}

bool hop_warm(const struct hop *h)
{
	if (h->n_warm < hop_spec(h)->sockets)
		return false;
	for (int i = 0; i < h->n_socks; i++)
		if (sock_pending(&h->socks[i]))
			return false;
	return true;
}

/* ---- the end ---- */

bool hop_drained(const struct hop *h)
{
	for (int i = 0; i < h->n_socks; i++)
		if (sock_pending(&h->socks[i]) || net_unacked(h->socks[i].watch.fd) > 0)
			return false;
	return true;
}

void hop_shutdown(struct hop *h)
{
	for (int i = 0; i < h->n_socks; i++)
		shutdown(h->socks[i].watch.fd, SHUT_WR);
}

bool hop_finished(const struct hop *h)
{
	for (int i = 0; i < h->n_socks; i++)
		if (!h->socks[i].closed)
			return false;
	return true;
}

void hop_info(const struct hop *h, struct net_info *out)
{
	struct net_info one;

	*out = (struct net_info){ 0 };
	for (int i = 0; i < h->n_socks; i++)
		if (!net_info(h->socks[i].watch.fd, &one))
			net_info_add(out, &one);
}

uint64_t hop_payload_bytes(const struct hop *h)
{
	uint64_t n = 0;

	for (int i = 0; i < h->n_socks; i++)
		n += h->socks[i].payload_bytes;
	return n;
}

uint64_t hop_messages(const struct hop *h)
{
	uint64_t n = 0;

	/* Tokens are on the first; all others are shared. */
	for (int i = 0; i < h->n_socks; i++)
		n = h->socks[i].messages > n ? h->socks[i].messages : n;
	return n;
}

/* ---- life ---- */

int hop_init(struct hop *h, const struct worker_spec *spec, int index, struct loop *loop,
	     const struct hop_events *events, struct bace_err *e)
{
	*h = (struct hop){ .spec = spec, .index = index, .loop = loop, .events = events,
			   .listener.fd = -1 };
	for (int i = 0; i < HOP_PENDING_MAX; i++)
		h->pending[i].watch.fd = -1;
	h->socks = calloc((size_t)hop_spec(h)->sockets, sizeof(*h->socks));
	if (!h->socks || grow_ring(h, 1))
		return bace_fail(e, ENOMEM, "hop %d: out of memory", hop_spec(h)->hop);
	return 0;
}

void hop_free(struct hop *h)
{
	for (int i = 0; i < h->n_socks; i++)
		sock_free(&h->socks[i]);
	for (int i = 0; i < HOP_PENDING_MAX && h->spec; i++)
		bace_cleanup_close(&h->pending[i].watch.fd);
	if (h->spec)
		bace_cleanup_close(&h->listener.fd);
	free(h->socks);
	free(h->partial);
}
