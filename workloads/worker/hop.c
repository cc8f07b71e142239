#include "workloads/worker/hop_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

const struct worker_hop_spec *hop_spec(const struct hop *h)
{
	return &h->spec->hops[h->index];
}

int hop_context(const struct hop *h, struct bace_err *e)
{
	int step = h->events->step(h->events->arg, h->index);
	char where[64], peer[NET_NAME_MAX + 4] = "";

	/* The engine says itself where it was. */
	if (!strncmp(e->msg, "hop ", 4) || !strncmp(e->msg, "ring ", 5))
		return -e->errnum;
	if (step == INT32_MAX)
		snprintf(where, sizeof(where), "%s", h->name);
	else
		snprintf(where, sizeof(where), "%s step %d", h->name, step);
	if (h->peer[0])
		snprintf(peer, sizeof(peer), ": %s", h->peer);
	return bace_err_context(e, "%s%s", where, peer);
}

/* Does the peer play the hop's first stage? */
static bool from_below(const struct hop *h)
{
	return hop_spec(h)->role == HOP_LISTEN;
}

int hop_check(const struct hop *h, const struct header *in, struct bace_err *e)
{
	return header_check(in, h->spec, hop_spec(h), from_below(h), e);
}

static int lane_index(const struct lane *l)
{
	return (int)(l - l->hop->lanes);
}

/* Parts of messages of the schedule that a lane receives in the whole run; the
 * first also has all that is not striped, the ends of steps among it. */
static uint64_t expected(const struct lane *l)
{
	const struct hop *h = l->hop;
	const struct schedule_spec *s = &h->spec->schedule;
	enum message_kind kind = from_below(h) ? MESSAGE_ACTIVATION : MESSAGE_GRADIENT;
	bool wrap = hop_spec(h)->hop == s->stages - 1, first = lane_index(l) == 0;
	bool has_data = first || message_parts(h->spec, hop_spec(h), kind) > 1;
	uint64_t chunks = s->kind == SCHED_INTERLEAVED_1F1B ? (uint64_t)(s->chunks - wrap) : 1;
	uint64_t a_step = (has_data ? chunks * (uint64_t)s->micro_batches : 0) + (first && !wrap && !from_below(h));

	if (worker_is_ring(h->spec, hop_spec(h)->hop))
		a_step = has_data && from_below(h) ? (uint64_t)worker_ring_rounds(h->spec) : 0;
	return a_step * (uint64_t)(h->spec->warmup_steps + h->spec->steps - h->events->skipped(h->events->arg));
}

/* ---- receiving ---- */

/* A whole message. */
static int take(struct hop *h, const struct header *in, int64_t first, int64_t now, struct bace_err *e)
{
	struct message m;

	header_read(in, &m);
	if (m.kind == MESSAGE_WARM) {
		if (h->warm)
			return bace_fail(e, EPROTO, "a second first message");
		h->warm = true;
		return 0;
	}
	h->received++;
	return h->events->received(h->events->arg, h->index, &m, first, now, e);
}

static int keep_part(struct lane *l, const struct part *p)
{
	if (l->tail - l->head == l->cap) {
		uint32_t cap = l->cap ? 2 * l->cap : 16, n = l->tail - l->head;
		struct part *v = malloc(cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		for (uint32_t i = 0; i < n; i++)
			v[i] = l->parts[(l->head + i) & (l->cap - 1)];
		free(l->parts);
		l->parts = v;
		l->head = 0;
		l->tail = n;
		l->cap = cap;
	}
	l->parts[l->tail++ & (l->cap - 1)] = *p;
	return 0;
}

/* The oldest part that a lane keeps; NULL: none. */
static const struct part *oldest(const struct lane *l)
{
	return l->head == l->tail ? NULL : &l->parts[l->head & (l->cap - 1)];
}

/* Messages of which every part is here. The first lane has a part of each. */
static int assemble(struct hop *h, int64_t now, struct bace_err *e)
{
	const struct part *p;

	while ((p = oldest(&h->lanes[0]))) {
		struct header whole = p->h;
		int64_t first = p->first;
		int rc;

		for (int i = 1; i < whole.parts; i++) {
			const struct part *q = oldest(&h->lanes[i]);

			if (!q)
				return 0;
			if (q->h.number != whole.number || q->h.kind != whole.kind || q->h.made != whole.made)
				return bace_fail(e, EPROTO, "socket %d: part of message %llu, wanted one of message %llu", i,
						 (unsigned long long)q->h.number, (unsigned long long)whole.number);
			first = q->first < first ? q->first : first;
		}
		for (int i = 0; i < whole.parts; i++)
			h->lanes[i].head++;
		rc = take(h, &whole, first, now, e);
		if (rc)
			return rc;
	}
	return 0;
}

int hop_take_part(struct lane *l, const struct header *in, int64_t first, int64_t now, struct bace_err *e)
{
	struct message m;

	if (in->part != lane_index(l))
		return bace_fail(e, EPROTO, "part %d of a message on socket %d", in->part, lane_index(l));
	/* One more than the schedule has, and the inboxes would grow for ever. */
	if (in->kind != MESSAGE_WARM && ++l->received > expected(l)) {
		header_read(in, &m);
		return bace_fail(e, EPROTO, "%s of step %d %s %d: all messages had come", message_name(m.kind), m.step,
				 m.kind == MESSAGE_REDUCE ? "round" : "micro-batch", m.micro_batch);
	}
	if (in->parts == 1 && l->head == l->tail)
		return take(l->hop, in, first, now, e);
	if (keep_part(l, &(struct part){ *in, first }))
		return bace_fail(e, ENOMEM, "out of memory");
	return assemble(l->hop, now, e);
}

static int check_header(void *arg, const struct header *in, struct bace_err *e)
{
	return hop_check(((struct lane *)arg)->hop, in, e);
}

/* A message's time is that of the read that brought its last byte: it may have come
 * since the loop's time was, long since on a busy machine. */
static int on_readable(struct lane *l, struct bace_err *e)
{
	struct sock_turn turn;
	struct header in;
	int rc;

	sock_turn_begin(&turn);
	while ((rc = sock_read(&l->sock, &turn, check_header, l, &in, e)) > 0) {
		rc = hop_take_part(l, &in, l->sock.first, turn.at, e);
		if (rc)
			break;
	}
	if (rc || !l->sock.closed)
		return rc;
	/* A peer that has had its part may leave before this rank is done. */
	if (l->received < expected(l))
		return bace_fail(e, ECONNRESET, "the peer closed the connection");
	return 0;
}

/* ---- sending ---- */

/* A striped message has gone when the slowest lane has sent its part. */
static void note_sent(struct lane *l, const struct header *done)
{
	struct hop *h = l->hop;
	struct message m;

	if (done->parts > 1) {
		l->sent++;
		for (int i = 0; i < h->n_lanes; i++)
			if (h->lanes[i].sent <= h->told)
				return;
		h->told++;
	}
	header_read(done, &m);
	/* Not the loop's time: what was sent may have been made since. */
	h->events->sent(h->events->arg, h->index, &m, bace_mono_ns());
}

static int flush(struct lane *l, struct bace_err *e)
{
	struct sock *s = &l->sock;
	struct header done;
	uint32_t events;
	int rc;

	while ((rc = sock_write(s, &done, e)) > 0)
		note_sent(l, &done);
	if (rc)
		return rc;
	events = (s->closed ? 0u : (uint32_t)EPOLLIN) |
		 (s->connecting || sock_pending(s) ? (uint32_t)EPOLLOUT : 0u);
	return loop_watch(l->hop->loop, &s->watch, events, e);
}

static int queue(struct lane *l, const struct header *whole, int parts, struct bace_err *e)
{
	struct header part = *whole;
	int rc;

	header_part(&part, l->hop->spec, lane_index(l), parts, l->hop->sent);
	rc = sock_queue(&l->sock, &part, e);
	return rc ? rc : flush(l, e);
}

int hop_send(struct hop *h, const struct message *m, struct bace_err *e)
{
	int parts = message_parts(h->spec, hop_spec(h), m->kind), rc = 0;
	struct header whole;

	header_fill(&whole, h->spec, hop_spec(h), m);
	for (int i = 0; !rc && i < parts; i++)
		rc = queue(&h->lanes[i], &whole, parts, e);
	h->sent++;
	return rc ? hop_context(h, e) : 0;
}

int hop_open_lane(struct lane *l, struct bace_err *e)
{
	struct hop *h = l->hop;
	struct header whole;
	int rc = net_ends(l->sock.watch.fd, &l->sock.ends);

	if (rc)
		return bace_fail_errno(e, -rc, "address and congestion control");
	l->sock.connecting = false;
	if (!h->peer[0])
		net_peer(l->sock.watch.fd, h->peer);
	header_fill(&whole, h->spec, hop_spec(h), &(struct message){ .kind = MESSAGE_WARM });
	return queue(l, &whole, message_parts(h->spec, hop_spec(h), MESSAGE_WARM), e);
}

static int on_socket(struct lane *l, uint32_t events, struct bace_err *e)
{
	int rc;

	if (l->sock.connecting) {
		rc = net_connected(l->sock.watch.fd, e);
		return rc ? rc : hop_open_lane(l, e);
	}
	rc = events & (EPOLLIN | EPOLLERR | EPOLLHUP) ? on_readable(l, e) : 0;
	return rc ? rc : flush(l, e);
}

int hop_on_socket(struct watch *w, uint32_t events, int64_t now, struct bace_err *e)
{
	struct lane *l = w->owner;

	return on_socket(l, events, e) ? hop_context(l->hop, e) : 0;
}

/* ---- states ---- */

bool hop_begun(const struct hop *h)
{
	for (int i = 0; i < h->n_lanes; i++)
		if (h->lanes[i].sock.watch.fd >= 0)
			return true;
	return false;
}

bool hop_connecting(const struct hop *h)
{
	for (int i = 0; i < h->n_lanes; i++)
		if (h->lanes[i].sock.connecting)
			return true;
	return false;
}

bool hop_warm(const struct hop *h)
{
	for (int i = 0; i < h->n_lanes; i++)
		if (h->lanes[i].sock.watch.fd < 0 || sock_pending(&h->lanes[i].sock))
			return false;
	return h->warm;
}

bool hop_drained(const struct hop *h)
{
	for (int i = 0; i < h->n_lanes; i++)
		if (sock_pending(&h->lanes[i].sock) || net_unacked(h->lanes[i].sock.watch.fd) > 0)
			return false;
	return true;
}

void hop_shutdown(struct hop *h)
{
	for (int i = 0; i < h->n_lanes; i++)
		shutdown(h->lanes[i].sock.watch.fd, SHUT_WR);
}

bool hop_finished(const struct hop *h)
{
	for (int i = 0; i < h->n_lanes; i++)
		if (!h->lanes[i].sock.closed)
			return false;
	return true;
}

void hop_info(const struct hop *h, struct net_info *out, uint64_t *payload_bytes, uint64_t *messages)
{
	net_info_of(h->lanes[0].sock.watch.fd, &h->lanes[0].sock.ends, out);
	*payload_bytes = h->lanes[0].sock.payload_bytes;
	*messages = h->lanes[0].sock.messages;
	for (int i = 1; i < h->n_lanes; i++) {
		struct net_info t;

		net_info_of(h->lanes[i].sock.watch.fd, &h->lanes[i].sock.ends, &t);
		net_info_add(out, &t);
		*payload_bytes += h->lanes[i].sock.payload_bytes;
	}
}
