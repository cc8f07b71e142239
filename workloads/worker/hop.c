#include "workloads/worker/hop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAGIC 0x65636162u		/* "bace" */
#define FILLER (256 << 10)
#define QUEUE_MAX 65536

_Static_assert(sizeof(struct header) == WORKER_MESSAGE_MIN, "the header's size is part of the protocol");

static const char filler[FILLER];

void hop_conn_init(struct hop_conn *c, const struct worker_spec *spec, int index)
{
	*c = (struct hop_conn){ .spec = spec, .index = index, .fd = -1 };
}

void hop_conn_free(struct hop_conn *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->queue);
	c->fd = -1;
	c->queue = NULL;
}

const struct worker_hop_spec *hop_spec(const struct hop_conn *c)
{
	return &c->spec->hops[c->index];
}

static int fail(const struct hop_conn *c, struct bace_err *e, int errnum, const char *what)
{
	return bace_fail_errno(e, errnum, "hop %d: %s", hop_spec(c)->hop, what);
}

static uint64_t checksum(const struct header *h)
{
	return bace_hash64(h, offsetof(struct header, checksum), MAGIC);
}

static int grow(struct hop_conn *c)
{
	uint32_t cap = c->cap ? 2 * c->cap : 16, n = c->tail - c->head;
	struct header *v = malloc(cap * sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		v[i] = c->queue[(c->head + i) & (c->cap - 1)];
	free(c->queue);
	c->queue = v;
	c->head = 0;
	c->tail = n;
	c->cap = cap;
	return 0;
}

int hop_conn_queue(struct hop_conn *c, enum message_kind kind, const struct message_id *id,
		   int64_t made, struct bace_err *e)
{
	const struct worker_hop_spec *s = hop_spec(c);
	struct header h = { .magic = MAGIC, .kind = kind, .job = c->spec->job, .hop = s->hop,
		.step = id->step, .micro_batch = id->micro_batch, .chunk = id->chunk, .made = made,
		.bytes = s->kind == HOP_LOCAL ? WORKER_MESSAGE_MIN : s->bytes };

	h.stage = kind == MESSAGE_GRADIENT ? (s->hop + 1) % c->spec->schedule.stages : s->hop;
	h.checksum = checksum(&h);
	if (c->tail - c->head == c->cap) {
		if (c->cap >= QUEUE_MAX)
			return bace_fail(e, ENOBUFS, "hop %d: %u messages wait to be sent", s->hop, c->cap);
		if (grow(c))
			return bace_fail(e, ENOMEM, "hop %d: out of memory", s->hop);
	}
	c->queue[c->tail++ & (c->cap - 1)] = h;
	c->payload_bytes += h.bytes;
	return 0;
}

int64_t hop_conn_expected(const struct hop_conn *c)
{
	const struct schedule_spec *s = &c->spec->schedule;
	bool wrap = hop_spec(c)->hop == s->stages - 1;
	int64_t chunks = s->kind == SCHED_INTERLEAVED_1F1B ? s->chunks - wrap : 1;

	return chunks * s->micro_batches * (c->spec->warmup_steps + c->spec->steps);
}

bool hop_conn_pending(const struct hop_conn *c)
{
	return c->head != c->tail;
}

/* The rest of the first message as an I/O vector. */
static int rest_of(const struct header *h, uint64_t sent, struct iovec v[2])
{
	int n = 0;

	if (sent < sizeof(*h)) {
		v[n++] = (struct iovec){ (char *)h + sent, sizeof(*h) - sent };
		sent = sizeof(*h);
	}
	if (sent < h->bytes) {
		uint64_t left = h->bytes - sent;

		v[n++] = (struct iovec){ (void *)filler, left < FILLER ? left : FILLER };
	}
	return n;
}

int hop_conn_write(struct hop_conn *c, struct bace_err *e)
{
	while (hop_conn_pending(c)) {
		const struct header *h = &c->queue[c->head & (c->cap - 1)];
		struct iovec v[2];
		struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)rest_of(h, c->sent, v) };
		ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN ? 0 : fail(c, e, errno, "send");
		c->sent += (uint64_t)n;
		if (c->sent == h->bytes) {
			c->head++;
			c->sent = 0;
		}
	}
	return 0;
}

static int check_header(const struct hop_conn *c, struct bace_err *e)
{
	const struct header *h = &c->in;
	const struct worker_hop_spec *s = hop_spec(c);
	uint64_t bytes = s->kind == HOP_LOCAL ? WORKER_MESSAGE_MIN : s->bytes;

	if (h->magic != MAGIC || h->checksum != checksum(h))
		return bace_fail(e, EPROTO, "hop %d: a message's checksum is wrong after step %d micro-batch "
				 "%d", s->hop, h->step, h->micro_batch);
	if (h->job != c->spec->job || h->hop != s->hop || h->bytes != bytes)
		return bace_fail(e, EPROTO, "hop %d: a message of job %d hop %d with %llu bytes, wanted job "
				 "%d with %llu", s->hop, h->job, h->hop, (unsigned long long)h->bytes,
				 c->spec->job, (unsigned long long)bytes);
	return 0;
}

int hop_conn_read(struct hop_conn *c, struct header *out, struct bace_err *e)
{
	for (;;) {
		bool head = c->got < sizeof(c->in);
		void *to = head ? (char *)&c->in + c->got : NULL;
		uint64_t want = head ? sizeof(c->in) - c->got : c->in.bytes - c->got;
		/* MSG_TRUNC: TCP drops the payload without copying it. */
		ssize_t n = recv(c->fd, to, want < (1u << 30) ? want : (1u << 30), head ? 0 : MSG_TRUNC);

		if (n < 0)
			return errno == EAGAIN ? 0 : fail(c, e, errno, "receive");
		if (n == 0) {
			c->closed = true;
			return 0;
		}
		c->got += (uint64_t)n;
		if (head && c->got == sizeof(c->in)) {
			int rc = check_header(c, e);

			if (rc)
				return rc;
		}
		if (c->got >= sizeof(c->in) && c->got == c->in.bytes) {
			*out = c->in;
			c->got = 0;
			return 1;
		}
	}
}
