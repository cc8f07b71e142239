/*
 * The receiving end of probes: notes when each packet of a train came, by the
 * kernel's time stamp, and answers a whole train with one packet. A packet
 * without the session's token is dropped, and an answer is smaller than its
 * train, so that nobody is flooded by a forged address.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/monitor/internal.h"

#define TRAINS_MAX 64
#define TRAIN_PATIENCE_US 150000	/* after the last packet that came */
#define TAIL_PATIENCE_US 20000		/* with its end: what is missing was overtaken, or is lost */

struct train {				/* its place stays taken when it is answered: more of it may come */
	struct responder *owner;
	bool answered, has_end;
	uint64_t came[PROBE_PACKETS_MAX / 64];	/* by index: a packet may come twice */
	struct sockaddr_storage from;
	socklen_t from_len;
	struct probe_report r;
	int64_t first_ns;
	struct event *timer;		/* a lost tail: answer without it */
};

struct responder {
	int fd;
	uint16_t port;
	struct event *on_packet;
	uint64_t token;
	struct train trains[TRAINS_MAX];
	int next;
};

static void answer(struct responder *r, struct train *t)
{
	size_t n = offsetof(struct probe_report, at_us10) + t->r.head.index * sizeof(uint32_t);

	event_del(t->timer);
	t->answered = true;
	/* One that is lost is a lost sample. */
	if (sendto(r->fd, &t->r, n, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&t->from, t->from_len) < 0)
		bace_log(BACE_DEBUG, "probe", "answer a train: %s", strerror(errno));
}

static void on_patience(evutil_socket_t fd, short what, void *arg)
{
	struct train *t = arg;

	answer(t->owner, t);
}

static struct train *find_train(struct responder *r, const struct probe_packet *p,
				const struct sockaddr_storage *from, socklen_t n)
{
	struct train *t;

	for (int i = 0; i < TRAINS_MAX; i++) {
		t = &r->trains[i];
		if (t->from_len == n && t->r.head.train == p->train && t->r.head.target == p->target &&
		    !memcmp(&t->from, from, n))
			return t;
	}
	/* A new train takes the oldest place. */
	t = &r->trains[r->next];
	r->next = (r->next + 1) % TRAINS_MAX;
	event_del(t->timer);
	t->answered = t->has_end = false;
	memset(t->came, 0, sizeof(t->came));
	t->from = *from;
	t->from_len = n;
	t->r.head = *p;
	t->r.head.magic = PROBE_REPORT_MAGIC;
	t->r.head.index = 0;
	t->first_ns = 0;
	return t;
}

static void take(struct responder *r, const struct probe_packet *p, size_t bytes, int64_t at_ns,
		 const struct sockaddr_storage *from, socklen_t n)
{
	struct timeval patience = { .tv_usec = TRAIN_PATIENCE_US };
	struct train *t;
	uint64_t bit;

	if (p->magic != PROBE_MAGIC || p->token != r->token || !r->token || !p->count ||
	    p->count > PROBE_PACKETS_MAX || p->index >= p->count)
		return;
	t = find_train(r, p, from, n);
	bit = 1ull << p->index % 64;
	if (t->answered || p->count != t->r.head.count || t->came[p->index / 64] & bit)
		return;
	t->came[p->index / 64] |= bit;
	if (!t->first_ns)
		t->first_ns = at_ns;
	t->r.bytes = (uint32_t)(bytes + probe_headers(from->ss_family));
	t->r.at_us10[t->r.head.index++] = (uint32_t)((at_ns - t->first_ns) / 100);
	t->has_end |= p->index + 1 == p->count;
	if (t->has_end)
		patience.tv_usec = TAIL_PATIENCE_US;
	if (t->r.head.index == t->r.head.count)
		answer(r, t);
	else
		event_add(t->timer, &patience);
}

static int64_t stamp_of(struct msghdr *h)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		struct timespec ts;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&ts, CMSG_DATA(c), sizeof(ts));
		return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
	}
	return bace_wall_ns();
}

static void on_packet(evutil_socket_t fd, short what, void *arg)
{
	struct responder *r = arg;
	char buf[2048], control[128];

	for (int i = 0; i < 512; i++) {
		struct sockaddr_storage from;
		struct iovec io = { buf, sizeof(buf) };
		struct msghdr h = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &io,
				    .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(fd, &h, MSG_DONTWAIT);
		struct probe_packet p;

		if (n < 0)
			return;
		if ((size_t)n < sizeof(p))
			continue;
		memcpy(&p, buf, sizeof(p));
		take(r, &p, (size_t)n, stamp_of(&h), &from, h.msg_namelen);
	}
}

static int bind_to(struct responder *r, const char *addr, struct bace_err *e)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} a = { 0 };
	socklen_t n = sizeof(a);
	int one = 1;

	if (inet_pton(AF_INET, addr, &a.v4.sin_addr) == 1) {
		a.v4.sin_family = AF_INET;
		n = sizeof(a.v4);
	} else if (inet_pton(AF_INET6, addr, &a.v6.sin6_addr) == 1) {
		a.v6.sin6_family = AF_INET6;
	} else {
		return bace_fail(e, EINVAL, "probe: `%s' is not an address", addr);
	}
	r->fd = socket(a.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (r->fd < 0 || setsockopt(r->fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one)) ||
	    bind(r->fd, &a.sa, n))
		return bace_fail_errno(e, errno, "probe: listen on %s", addr);
	n = sizeof(a);
	getsockname(r->fd, &a.sa, &n);
	r->port = ntohs(a.sa.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
	return 0;
}

int responder_open(struct agent *a, const char *addr, struct responder **out, struct bace_err *e)
{
	struct responder *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return bace_fail(e, ENOMEM, "probe: out of memory");
	r->fd = -1;
	rc = bind_to(r, addr, e);
	for (int i = 0; !rc && i < TRAINS_MAX; i++) {
		r->trains[i].owner = r;
		r->trains[i].timer = evtimer_new(a->base, on_patience, &r->trains[i]);
		if (!r->trains[i].timer)
			rc = bace_fail(e, ENOMEM, "probe: out of memory");
	}
	if (!rc) {
		r->on_packet = event_new(a->base, r->fd, EV_READ | EV_PERSIST, on_packet, r);
		if (!r->on_packet || event_add(r->on_packet, NULL))
			rc = bace_fail(e, ENOMEM, "probe: out of memory");
	}
	if (rc)
		responder_close(r);
	else
		*out = r;
	return rc;
}

void responder_set_token(struct responder *r, uint64_t token)
{
	r->token = token;
}

uint16_t responder_port(const struct responder *r)
{
	return r->port;
}

void responder_close(struct responder *r)
{
	if (!r)
		return;
	if (r->on_packet)
		event_free(r->on_packet);
	for (int i = 0; i < TRAINS_MAX; i++)
		if (r->trains[i].timer)
			event_free(r->trains[i].timer);
	bace_cleanup_close(&r->fd);
	free(r);
}
