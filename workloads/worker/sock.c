#include "workloads/worker/sock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILLER (1u << 20)
#define READ_MAX (1u << 30)
#define QUEUE_MAX (1u << 17)
#define WRITE_TURN (8u << 20)
#define READS_A_TURN 8

static const char filler[FILLER];

void sock_init(struct sock *s, int fd)
{
	*s = (struct sock){ .watch.fd = fd };
}

void sock_free(struct sock *s)
{
	bace_cleanup_close(&s->watch.fd);
	s->watch.fd = -1;
	free(s->queue);
	s->queue = NULL;
}

static int grow(struct sock *s)
{
	uint32_t cap = s->cap ? 2 * s->cap : 16, n = s->tail - s->head;
	struct header *v = malloc(cap * sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		v[i] = s->queue[(s->head + i) & (s->cap - 1)];
	free(s->queue);
	s->queue = v;
	s->head = 0;
	s->tail = n;
	s->cap = cap;
	return 0;
}

int sock_queue(struct sock *s, const struct header *h, struct bace_err *e)
{
	if (s->tail - s->head == s->cap) {
		if (s->cap >= QUEUE_MAX)
			return bace_fail(e, ENOBUFS, "%u messages wait to be sent", s->cap);
		if (grow(s))
			return bace_fail(e, ENOMEM, "out of memory");
	}
	s->queue[s->tail++ & (s->cap - 1)] = *h;
	s->payload_bytes += h->bytes;
	s->messages++;
	return 0;
}

bool sock_pending(const struct sock *s)
{
	return s->head != s->tail;
}

/* The rest of the first message as an I/O vector. */
static int rest_of(const struct header *h, uint64_t gone, struct iovec v[2])
{
	int n = 0;

	if (gone < sizeof(*h)) {
		v[n++] = (struct iovec){ (char *)h + gone, sizeof(*h) - gone };
		gone = sizeof(*h);
	}
	if (gone < h->bytes) {
		uint64_t left = h->bytes - gone;

		v[n++] = (struct iovec){ (void *)filler, left < FILLER ? left : FILLER };
	}
	return n;
}

int sock_write(struct sock *s, struct header *done, struct bace_err *e)
{
	/* A peer that reads as fast as this writes must not keep the loop here. */
	for (uint64_t turn = 0; sock_pending(s) && turn < WRITE_TURN;) {
		const struct header *h = &s->queue[s->head & (s->cap - 1)];
		struct iovec v[2];
		struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)rest_of(h, s->gone, v) };
		ssize_t n;

		n = sendmsg(s->watch.fd, &m, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : bace_fail_errno(e, errno, "send");
		s->gone += (uint64_t)n;
		turn += (uint64_t)n;
		if (s->gone < h->bytes)
			continue;
		*done = *h;
		s->head++;
		s->gone = 0;
		return 1;
	}
	return 0;
}

void sock_turn_begin(struct sock_turn *t)
{
	t->reads_left = READS_A_TURN;
	t->from = t->to = 0;
}

static uint64_t skip(struct sock_turn *t, uint64_t n)
{
	uint64_t have = t->to - t->from, k = n < have ? n : have;

	t->from += (uint32_t)k;
	return k;
}

/* From what is ahead, all of it if need be. 1: the message is whole, 0 it is not,
 * -errno. */
static int take_ahead(struct sock *s, struct sock_turn *t, header_fn check, void *arg, struct bace_err *e)
{
	if (s->got < sizeof(s->in)) {
		const char *from = t->ahead + t->from;
		uint64_t n = skip(t, sizeof(s->in) - s->got);
		int rc;

		if (!s->got && n)
			s->first = t->at;
		memcpy((char *)&s->in + s->got, from, n);
		s->got += n;
		if (s->got < sizeof(s->in))
			return 0;
		rc = check(arg, &s->in, e);
		if (rc)
			return rc;
	}
	s->got += skip(t, s->in.bytes - s->got);
	return s->got == s->in.bytes;
}

/* One call: a small message comes whole by it, with what follows; of a long one
 * the payload is dropped (MSG_TRUNC: TCP does not copy it). 1: some bytes, 0 none
 * for now, -errno. */
static int refill(struct sock *s, struct sock_turn *t, struct bace_err *e)
{
	uint64_t left = s->got < sizeof(s->in) ? 0 : s->in.bytes - s->got;
	bool drop = left > sizeof(t->ahead);
	uint64_t want = !drop ? sizeof(t->ahead) : left < READ_MAX ? left : READ_MAX;
	ssize_t n;

	if (t->reads_left-- <= 0)
		return 0;
	n = recv(s->watch.fd, drop ? NULL : t->ahead, want, drop ? MSG_TRUNC : 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : bace_fail_errno(e, errno, "receive");
	t->at = bace_mono_ns();
	s->closed = n == 0;
	if (drop)
		s->got += (uint64_t)n;
	t->from = 0;
	t->to = drop ? 0 : (uint32_t)n;
	/* Short: the socket is empty. Whole: another may be there. Either way the loop
	 * says so for less, and what has come is acted upon first. */
	if ((uint64_t)n < want || (drop && s->got == s->in.bytes))
		t->reads_left = 0;
	return n > 0;
}

int sock_read(struct sock *s, struct sock_turn *t, header_fn check, void *arg, struct header *out, struct bace_err *e)
{
	int rc;

	while (!(rc = take_ahead(s, t, check, arg, e)))
		if ((rc = refill(s, t, e)) <= 0)
			return rc;
	if (rc > 0) {
		*out = s->in;
		s->got = 0;
	}
	return rc;
}
