/* The asking end of probes. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness/shape/probe.h"

#define CONNECT_S 10
#define DRAIN_S 60		/* what is in buffers may take so long to come */
#define ECHO_GAP_NS 5000000
#define WARM_UP 0.3		/* of the time is not counted: slow start */
#define CONNECTIONS_MAX 64
#define LOWAT (128 << 10)

enum { FORWARD, REVERSE };

static int fail(const struct shape_probe *p, int rc, const char *what, struct bace_err *e)
{
	return bace_fail(e, -rc, "probe of %s port %d: %s: %s%s", p->addr, p->port, what,
			 rc == -EAGAIN ? "no answer in time" : strerror(-rc),
			 rc == -ECONNREFUSED || rc == -EAGAIN ? " (does `bace shape respond' run there?)" : "");
}

static int open_to(const struct shape_probe *p, int type, int *fd, struct bace_err *e)
{
	struct sockaddr_storage sa;
	int lowat = LOWAT, rc;
	socklen_t len;

	rc = probe_address(p->addr, p->port, &sa, &len, e);
	if (rc)
		return rc;
	*fd = socket(sa.ss_family, type | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return fail(p, -errno, "socket", e);
	probe_timeouts(*fd, CONNECT_S);
	if (type == SOCK_STREAM)
		probe_fill(*fd);
	if (connect(*fd, (struct sockaddr *)&sa, len))
		return fail(p, errno == EINPROGRESS ? -EAGAIN : -errno, "connect", e);
	/* What is not sent yet waits here, not in a buffer that takes seconds to drain. */
	if (type == SOCK_STREAM)
		setsockopt(*fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat, sizeof(lowat));
	return 0;
}

/* ---- round-trip times ---- */
/* 1; 0: no answer in time; -ECONNREFUSED: nobody listens there. */
static int await_echo(int fd, uint32_t seq, int timeout_ms, int64_t *rtt_ns)
{
	int64_t until = bace_mono_ns() + timeout_ms * 1000000LL;
	struct probe_echo m;

	for (;;) {
		struct pollfd w = { .fd = fd, .events = POLLIN };
		int64_t left_ms = (until - bace_mono_ns() + 999999) / 1000000;

		ssize_t n;

		if (left_ms <= 0 || poll(&w, 1, (int)left_ms) <= 0)
			return 0;
		n = recv(fd, &m, sizeof(m), MSG_DONTWAIT);
		if (n < 0 && errno == ECONNREFUSED)
			return -ECONNREFUSED;
		if (n == sizeof(m) && m.magic == PROBE_ECHO_MAGIC && m.seq == seq) {
			*rtt_ns = bace_mono_ns() - m.sent_ns;
			return 1;
		}
	}
}

int shape_probe_rtt(const struct shape_probe *p, struct shape_measured *out, struct bace_err *e)
{
	CLEANUP_FREE double *v = calloc((size_t)p->rtt_samples + 1, sizeof(*v));
	CLEANUP_CLOSE int fd = -1;
	int rc = v ? open_to(p, SOCK_DGRAM, &fd, e) : bace_fail(e, ENOMEM, "out of memory");

	/* The first is for the caches of the path, ARP among them. */
	for (int i = -1; i < p->rtt_samples && !rc; i++) {
		struct probe_echo m = { .magic = PROBE_ECHO_MAGIC, .seq = (uint32_t)(i + 1), .sent_ns = bace_mono_ns() };
		int64_t rtt;
		int got;

		if (send(fd, &m, sizeof(m), MSG_NOSIGNAL) < 0)
			return fail(p, -errno, "send", e);
		got = await_echo(fd, m.seq, 2000, &rtt);
		if (got < 0)
			return fail(p, got, "echo over UDP", e);
		if (got && i >= 0)
			v[out->rtt_received++] = (double)rtt / 1e9;
		out->rtt_sent += i >= 0;
		if (i == 4 && !out->rtt_received)
			return fail(p, -EAGAIN, "echo over UDP", e);
		nanosleep(&(struct timespec){ .tv_nsec = ECHO_GAP_NS }, NULL);
	}
	if (rc || !out->rtt_received)
		return rc;
	out->rtt_median_s = shape_median_interval(v, out->rtt_received);
	out->rtt_min_s = v[0];
	out->rtt_p99_s = v[(int)ceil(0.99 * out->rtt_received) - 1];
	return 0;
}

/* ---- goodput ---- */
static int read_counts(int fd, struct probe_counts *c)
{
	char line[PROBE_LINE];
	long long first;
	int n, rc = probe_read_line(fd, line, sizeof(line));

	if (!rc && (sscanf(line, "counts %lld %d", &first, &n) != 2 || n < 0 || n > PROBE_BUCKETS))
		rc = -EPROTO;
	if (rc)
		return rc;
	memset(c, 0, sizeof(*c));
	c->first = first;
	c->n = n;
	for (int i = 0; i < n && !rc; i++) {
		rc = probe_read_line(fd, line, sizeof(line));
		c->v[i] = rc ? 0 : strtoull(line, NULL, 10);
	}
	return rc;
}

/* Pushes into all connections until the time is over. */
static int push(const int *fds, int n, double seconds)
{
	static const char filler[PROBE_CHUNK];
	int64_t end = bace_mono_ns() + (int64_t)(seconds * 1e9);
	struct pollfd w[CONNECTIONS_MAX];

	while (bace_mono_ns() < end) {
		for (int i = 0; i < n; i++)
			w[i] = (struct pollfd){ .fd = fds[i], .events = POLLOUT };
		if (poll(w, (nfds_t)n, 100) < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++)
			if (w[i].revents && send(fds[i], filler, sizeof(filler), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
				return -errno;
	}
	return 0;
}

/* Takes from all connections until all have ended. */
static int pull(const int *fds, int n, double seconds, struct probe_counts *c)
{
	int64_t end = bace_mono_ns() + (int64_t)((seconds + DRAIN_S) * 1e9);
	struct pollfd w[CONNECTIONS_MAX];
	int open = n;

	for (int i = 0; i < n; i++)
		w[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	while (open && bace_mono_ns() < end) {
		if (poll(w, (nfds_t)n, 1000) < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++) {
			ssize_t k = w[i].revents ? recv(fds[i], NULL, PROBE_CHUNK, MSG_TRUNC | MSG_DONTWAIT) : -1;

			if (k > 0)
				probe_count(c, bace_mono_ns(), (uint64_t)k);
			else if (w[i].revents && (!k || errno != EAGAIN)) {
				w[i].fd = -1;
				w[i].revents = 0;
				open--;
			}
		}
	}
	return open ? -EAGAIN : 0;
}

static int collect(const int *fds, int n, struct probe_counts *sum)
{
	struct probe_counts *one = malloc(sizeof(*one));
	int rc = one ? 0 : -ENOMEM;

	for (int i = 0; i < n && !rc; i++) {
		if (shutdown(fds[i], SHUT_WR))
			rc = -errno;
		probe_timeouts(fds[i], DRAIN_S);
	}
	for (int i = 0; i < n && !rc; i++) {
		rc = read_counts(fds[i], one);
		if (!rc)
			probe_counts_add(sum, one);
	}
	free(one);
	return rc;
}

/* Intervals within the time, after slow start. */
static struct shape_interval steady(const struct probe_counts *c, double seconds)
{
	int from = (int)ceil(WARM_UP * seconds / (PROBE_BUCKET_NS / 1e9)) + 1;
	int to = (int)(seconds / (PROBE_BUCKET_NS / 1e9));
	double v[PROBE_BUCKETS];
	int n = 0;

	for (int i = from; i < to && i < c->n; i++)
		v[n++] = (double)c->v[i] * 8e9 / (double)PROBE_BUCKET_NS;
	return shape_mean_interval(v, n);
}

static int goodput(const struct shape_probe *p, int direction, struct shape_measured *out, struct bace_err *e)
{
	int fds[CONNECTIONS_MAX], n = p->connections < CONNECTIONS_MAX ? p->connections : CONNECTIONS_MAX, opened = 0, rc = 0;
	struct probe_counts *c = calloc(1, sizeof(*c));

	if (!c)
		return bace_fail(e, ENOMEM, "out of memory");
	for (; opened < n && !rc; opened++) {
		fds[opened] = -1;
		rc = open_to(p, SOCK_STREAM, &fds[opened], e);
		if (!rc && (rc = probe_printf(fds[opened], "bace-probe %d %s %g\n", PROBE_VERSION,
					      direction == FORWARD ? "tcp-sink" : "tcp-source", p->seconds)))
			fail(p, rc, "ask", e);
	}
	if (!rc) {
		rc = direction == FORWARD ? push(fds, n, p->seconds) : pull(fds, n, p->seconds, c);
		if (!rc && direction == FORWARD)
			rc = collect(fds, n, c);
		if (rc)
			fail(p, rc, "goodput", e);
	}
	for (int i = 0; i < opened; i++)
		bace_cleanup_close(&fds[i]);
	out->goodput_bps[direction] = steady(c, p->seconds);
	free(c);
	return rc;
}

/* ---- loss ---- */
static int udp_forward(const struct shape_probe *p, struct shape_measured *out, struct bace_err *e)
{
	CLEANUP_CLOSE int tcp = -1;
	CLEANUP_CLOSE int udp = -1;
	unsigned long long received, reordered;
	struct shape_probe to = *p;
	char line[PROBE_LINE];
	unsigned port;
	int rc = open_to(p, SOCK_STREAM, &tcp, e);

	if (rc)
		return rc;
	rc = probe_printf(tcp, "bace-probe %d udp-sink %g\n", PROBE_VERSION, p->udp_seconds[FORWARD]);
	if (!rc)
		rc = probe_read_line(tcp, line, sizeof(line));
	if (!rc && (sscanf(line, "port %u", &port) != 1 || port > 65535))
		rc = -EPROTO;
	if (rc)
		return fail(p, rc, "ask for UDP", e);
	to.port = (int)port;
	rc = open_to(&to, SOCK_DGRAM, &udp, e);
	if (rc)
		return rc;
	out->udp_sent[FORWARD] = probe_udp_send(udp, p->udp_bytes[FORWARD], p->udp_bps[FORWARD], p->udp_seconds[FORWARD]);
	probe_timeouts(tcp, CONNECT_S + p->udp_seconds[FORWARD]);
	rc = probe_read_line(tcp, line, sizeof(line));
	if (!rc && sscanf(line, "received %llu %llu", &received, &reordered) != 2)
		rc = -EPROTO;
	if (rc)
		return fail(p, rc, "count UDP", e);
	out->udp_received[FORWARD] = received;
	out->udp_reordered[FORWARD] = reordered;
	return 0;
}

static int own_udp(int tcp, int *udp, unsigned *port)
{
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);
	int room = 8 << 20;

	if (getsockname(tcp, (struct sockaddr *)&own, &len))
		return -errno;
	*udp = socket(own.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*udp < 0)
		return -errno;
	((struct sockaddr_in *)&own)->sin_port = 0;	/* both families have it there */
	setsockopt(*udp, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (bind(*udp, (struct sockaddr *)&own, len) || getsockname(*udp, (struct sockaddr *)&own, &len))
		return -errno;
	*port = ntohs(((struct sockaddr_in *)&own)->sin_port);
	return 0;
}

static int udp_reverse(const struct shape_probe *p, struct shape_measured *out, struct bace_err *e)
{
	CLEANUP_CLOSE int tcp = -1;
	CLEANUP_CLOSE int udp = -1;
	struct probe_udp_counts c;
	unsigned long long sent;
	char line[PROBE_LINE];
	unsigned port = 0;
	int rc = open_to(p, SOCK_STREAM, &tcp, e);

	if (rc)
		return rc;
	rc = own_udp(tcp, &udp, &port);
	if (!rc)
		rc = probe_printf(tcp, "bace-probe %d udp-source %.0f %g %u %d\n", PROBE_VERSION, p->udp_bps[REVERSE],
				  p->udp_seconds[REVERSE], port, p->udp_bytes[REVERSE]);
	if (rc)
		return fail(p, rc, "ask for UDP", e);
	probe_udp_receive(udp, bace_mono_ns() + (int64_t)((p->udp_seconds[REVERSE] + 5) * 1e9), PROBE_UDP_QUIET_MS, &c);
	rc = probe_read_line(tcp, line, sizeof(line));
	if (!rc && sscanf(line, "sent %llu", &sent) != 1)
		rc = -EPROTO;
	if (rc)
		return fail(p, rc, "count UDP", e);
	out->udp_sent[REVERSE] = sent;
	out->udp_received[REVERSE] = c.received;
	out->udp_reordered[REVERSE] = c.reordered;
	return 0;
}

int shape_probe_run(const struct shape_probe *p, struct shape_measured *out, struct bace_err *e)
{
	int rc;

	*out = (struct shape_measured){ 0 };
	rc = shape_probe_rtt(p, out, e);
	if (!rc && p->udp_bps[FORWARD] > 0)
		rc = udp_forward(p, out, e);
	if (!rc && p->udp_bps[REVERSE] > 0)
		rc = udp_reverse(p, out, e);
	for (int d = FORWARD; d <= REVERSE && !rc && p->seconds > 0; d++)
		rc = goodput(p, d, out, e);
	return rc;
}
