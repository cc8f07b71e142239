#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "workloads/worker/hop_internal.h"

#define MODULE "worker"
#define FULL_PAUSE_US 1000

/* A local hop carries headers over a route that nobody has set up for it. */
static const char *congestion_control(const struct hop *h)
{
	return hop_spec(h)->kind == HOP_TCP ? h->spec->congestion_control : "";
}

/* Twice what is under way and being made, of one connection; 0: not known. */
static uint64_t wanted_buffer(const struct hop *h)
{
	const struct worker_hop_spec *s = hop_spec(h);
	uint64_t rate = s->rate_bps > s->reverse_rate_bps ? s->rate_bps : s->reverse_rate_bps;
	double bdp = (double)rate / 8 * (double)(s->latency_ns + s->reverse_latency_ns) / 1e9;

	return s->kind == HOP_TCP && rate ? (uint64_t)(2 * (bdp + (double)s->bytes) / h->n_lanes) : 0;
}

static void set_buffers(const struct hop *h, int fd)
{
	uint64_t want = wanted_buffer(h), have = want ? net_buffers(fd, want) : 0;

	if (have < want)
		bace_log(BACE_WARN, MODULE, "%s: socket buffers grow to %llu bytes, the link needs %llu (2 x (BDP + "
			 "message) of a socket): raise net.ipv4.tcp_rmem and tcp_wmem", h->name,
			 (unsigned long long)have, (unsigned long long)want);
}

static int adopt(struct lane *l, int fd, bool connecting, struct bace_err *e)
{
	struct hop *h = l->hop;

	sock_init(&l->sock, fd);
	l->sock.watch.fn = hop_on_socket;
	l->sock.watch.owner = l;
	l->sock.connecting = connecting;
	net_peer_timeout(fd, h->spec->peer_timeout_ns);
	return loop_watch(h->loop, &l->sock.watch, EPOLLIN | (connecting ? (uint32_t)EPOLLOUT : 0u), e);
}

static void drop_pending(struct hop *h, struct pending *p, const char *why)
{
	struct bace_err e;
	char peer[NET_NAME_MAX];

	if (why) {
		net_peer(p->watch.fd, peer);
		bace_log(BACE_WARN, MODULE, "%s: a connection from %s is refused: %s", h->name, peer, why);
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

static bool complete(const struct hop *h)
{
	for (int i = 0; i < h->n_lanes; i++)
		if (h->lanes[i].sock.watch.fd < 0)
			return false;
	return true;
}

/* This connection is the peer's; its first header is in p. */
static int take_over(struct hop *h, struct pending *p, int64_t now, struct bace_err *e)
{
	struct pending was = *p;
	struct lane *l = &h->lanes[was.in.part];
	int rc = loop_watch(h->loop, &p->watch, 0, e);

	*p = (struct pending){ .watch.fd = -1 };
	if (rc) {
		close(was.watch.fd);
		return rc;
	}
	rc = adopt(l, was.watch.fd, false, e);
	if (rc)
		return rc;
	if (complete(h))
		stop_listening(h);
	l->sock.in = was.in;
	l->sock.got = sizeof(was.in);
	l->sock.first = now;
	/* A local hop's first message is its header. */
	if (l->sock.got == was.in.bytes) {
		l->sock.got = 0;
		rc = hop_take_part(l, &was.in, now, now, e);
	}
	return rc ? rc : hop_open_lane(l, e);
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
	if (hop_check(h, &p->in, &why)) {
		drop_pending(h, p, why.msg);
		return 0;
	}
	if (p->in.kind != MESSAGE_WARM || h->lanes[p->in.part].sock.watch.fd >= 0) {
		drop_pending(h, p, p->in.kind != MESSAGE_WARM ? "it does not begin as a worker does" :
						 "there is one already");
		return 0;
	}
	return take_over(h, p, now, e) ? hop_context(h, e) : 0;
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

static bool is_full(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS || rc == -ENOMEM;
}

/* Strangers that wait may be why; the peer still comes, or the rank's own deadline. */
static void make_room_for_files(struct hop *h, const struct bace_err *e)
{
	if (!h->told_full)
		bace_log(BACE_WARN, MODULE, "%s: %s", h->name, e->msg);
	h->told_full = true;
	for (int i = 0; i < HOP_PENDING_MAX; i++) {
		struct pending *p = &h->pending[h->next_pending++ % HOP_PENDING_MAX];

		if (p->watch.fd < 0)
			continue;
		drop_pending(h, p, "it says nothing, and files have run out");
		return;
	}
	usleep(FULL_PAUSE_US);		/* others' files: not to be asked for at full speed */
}

static int on_listener(struct watch *w, uint32_t events, int64_t now, struct bace_err *e)
{
	struct hop *h = w->owner;
	struct pending *p;
	struct bace_err why = { 0 };
	int fd, rc = net_accept(w->fd, congestion_control(h), &fd, &why);

	if (is_full(rc)) {
		make_room_for_files(h, &why);
		return 0;
	}
	if (rc == -EAGAIN)
		return 0;
	if (rc) {
		*e = why;
		return hop_context(h, e);
	}
	p = free_pending(h);
	*p = (struct pending){ .watch = { .fd = fd, .fn = on_pending, .owner = h } };
	return loop_watch(h->loop, &p->watch, EPOLLIN, e);
}

int hop_listen(struct hop *h, uint16_t *port, struct bace_err *e)
{
	int rc = net_listen(hop_spec(h)->addr, &h->listener.fd, port, e);

	h->listener.fn = on_listener;
	h->listener.owner = h;
	if (!rc) {
		/* Accepted sockets inherit them. */
		set_buffers(h, h->listener.fd);
		rc = loop_watch(h->loop, &h->listener, EPOLLIN, e);
	}
	return rc ? hop_context(h, e) : 0;
}

int hop_connect(struct hop *h, const char *addr, uint16_t port, struct bace_err *e)
{
	int rc = 0;

	snprintf(h->peer, sizeof(h->peer), strchr(addr, ':') ? "[%s]:%u" : "%s:%u", addr, port);
	for (int i = 0; !rc && i < h->n_lanes; i++) {
		int fd;

		rc = net_connect(addr, port, congestion_control(h), &fd, e);
		if (rc)
			break;
		if (!i)
			set_buffers(h, fd);
		else
			net_buffers(fd, wanted_buffer(h));
		rc = adopt(&h->lanes[i], fd, true, e);
	}
	return rc ? hop_context(h, e) : 0;
}

/* ---- life ---- */

void hop_init(struct hop *h, const struct worker_spec *spec, int index, struct loop *loop,
	      const struct hop_events *events)
{
	*h = (struct hop){ .spec = spec, .index = index, .loop = loop, .events = events,
			   .listener.fd = -1 };
	snprintf(h->name, sizeof(h->name), worker_is_ring(spec, hop_spec(h)->hop) ? "ring %d" : "hop %d",
		 worker_hop_from(spec, hop_spec(h)->hop));
	h->n_lanes = message_parts(spec, hop_spec(h), MESSAGE_WARM);
	for (int i = 0; i < WORKER_SOCKETS_MAX; i++) {
		h->lanes[i].hop = h;
		sock_init(&h->lanes[i].sock, -1);
	}
	for (int i = 0; i < HOP_PENDING_MAX; i++)
		h->pending[i].watch.fd = -1;
}

void hop_free(struct hop *h)
{
	if (!h->spec)
		return;
	for (int i = 0; i < WORKER_SOCKETS_MAX; i++) {
		sock_free(&h->lanes[i].sock);
		free(h->lanes[i].parts);
	}
	for (int i = 0; i < HOP_PENDING_MAX; i++)
		bace_cleanup_close(&h->pending[i].watch.fd);
	bace_cleanup_close(&h->listener.fd);
}
