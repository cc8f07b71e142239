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

int sock_read(struct sock *s, header_fn check, void *arg, struct header *out, struct bace_err *e)
{
	for (;;) {
		bool head = s->got < sizeof(s->in);
		void *to = head ? (char *)&s->in + s->got : NULL;
		uint64_t want = head ? sizeof(s->in) - s->got : s->in.bytes - s->got;
		ssize_t n;

		if (want > READ_MAX)
			want = READ_MAX;
		/* MSG_TRUNC: TCP drops the payload without copying it. */
		n = recv(s->watch.fd, to, want, head ? 0 : MSG_TRUNC);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : bace_fail_errno(e, errno, "receive");
		if (n == 0) {
			s->closed = true;
			return 0;
		}
		if (!s->got)
			s->first = bace_mono_ns();
		s->got += (uint64_t)n;
		if (head && s->got == sizeof(s->in)) {
			int rc = check(arg, &s->in, e);

			if (rc)
				return rc;
		}
		if (s->got >= sizeof(s->in) && s->got == s->in.bytes) {
			*out = s->in;
			s->got = 0;
			return 1;
		}
		/* Short: the socket is empty, which need not be asked again. */
		if ((uint64_t)n < want)
			return 0;
	}
}
