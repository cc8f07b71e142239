#include "harness/shape/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

void probe_count(struct probe_counts *c, int64_t now_ns, uint64_t bytes)
{
	int64_t bucket = now_ns / PROBE_BUCKET_NS;

	if (!c->n) {
		c->first = bucket;
		c->n = 1;
	}
	if (bucket < c->first || bucket >= c->first + PROBE_BUCKETS)
		return;
	if (bucket >= c->first + c->n)
		c->n = (int)(bucket - c->first) + 1;
	c->v[bucket - c->first] += bytes;
}

void probe_counts_add(struct probe_counts *to, const struct probe_counts *from)
{
	struct probe_counts sum = { 0 };

	if (!to->n) {
		*to = *from;
		return;
	}
	if (!from->n)
		return;
	/* The earlier one first, so that nothing lies before the first bucket. */
	sum = to->first <= from->first ? *to : *from;
	from = to->first <= from->first ? from : to;
	for (int i = 0; i < from->n; i++)
		probe_count(&sum, (from->first + i) * PROBE_BUCKET_NS, from->v[i]);
	*to = sum;
}

int probe_address(const char *addr, int port, struct sockaddr_storage *sa, socklen_t *len, struct bace_err *e)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)sa;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)sa;

	memset(sa, 0, sizeof(*sa));
	if (inet_pton(AF_INET, addr, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		*len = sizeof(*v4);
		return 0;
	}
	if (inet_pton(AF_INET6, addr, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		*len = sizeof(*v6);
		return 0;
	}
	return bace_fail(e, EINVAL, "`%s' is not an address", addr);
}

void probe_timeouts(int fd, double seconds)
{
	const struct timeval tv = { .tv_sec = (time_t)seconds + 1 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

void probe_fill(int fd)
{
	/* Reno may always be chosen; cubic not by everybody, where it is not the default. */
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", strlen("cubic")))
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
}

int probe_read_line(int fd, char *buf, size_t cap)
{
	size_t n = 0;

	/* Byte by byte: what follows the line is somebody else's to read. */
	while (n + 1 < cap) {
		ssize_t k = recv(fd, buf + n, 1, 0);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return k < 0 ? -errno : -ECONNRESET;
		if (buf[n] == '\n') {
			buf[n] = '\0';
			return 0;
		}
		n++;
	}
	return -EMSGSIZE;
}

int probe_write(int fd, const void *p, size_t n)
{
	const char *from = p;

	while (n) {
		ssize_t k = send(fd, from, n, MSG_NOSIGNAL);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		from += k;
		n -= (size_t)k;
	}
	return 0;
}

int probe_printf(int fd, const char *fmt, ...)
{
	char line[PROBE_LINE];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	return n < 0 || n >= (int)sizeof(line) ? -EMSGSIZE : probe_write(fd, line, (size_t)n);
}

uint64_t probe_udp_send(int fd, int bytes, double bps, double seconds)
{
	int64_t start = bace_mono_ns(), gap_ns = (int64_t)(bytes * 8e9 / bps), end = start + (int64_t)(seconds * 1e9);
	const int64_t latest = end + PROBE_UDP_LONGER_NS;
	char buf[PROBE_UDP_BYTES] = { 0 };
	uint64_t seq = 0;

	for (;; seq++) {
		int64_t at = start + (int64_t)seq * gap_ns, wait = at - bace_mono_ns();

		if (at >= end)
			return seq;
		if (wait > 0)
			nanosleep(&(struct timespec){ .tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000 }, NULL);
		/* For longer than the receiver waits: what is sent now, it would count as lost. */
		if (wait < -PROBE_UDP_LONGER_NS)
			return seq;
		/* Held up: go on later; a burst would overrun the link's buffer, and be counted as its loss. */
		if (wait < -PROBE_UDP_LATE_NS) {
			start -= wait;
			end = end - wait < latest ? end - wait : latest;
		}
		memcpy(buf, &seq, sizeof(seq));
		/* What the host itself could not send was not sent. */
		if (send(fd, buf, (size_t)bytes, MSG_NOSIGNAL) < 0)
			seq--;
		if (bace_mono_ns() > end + 1000000000)
			return seq + 1;
	}
}

void probe_udp_receive(int fd, int64_t until_ns, int quiet_ms, struct probe_udp_counts *out)
{
	uint64_t next = 0, seq;
	char buf[2048];
	ssize_t n;

	*out = (struct probe_udp_counts){ 0 };
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left_ms = (until_ns - bace_mono_ns()) / 1000000;
		/* The first may be long in coming. */
		int wait = out->received && left_ms > quiet_ms ? quiet_ms : left_ms > 0 ? (int)left_ms : 0;

		if (poll(&p, 1, wait) <= 0)
			return;
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n < (ssize_t)sizeof(seq) || n > PROBE_UDP_BYTES)
			continue;
		memcpy(&seq, buf, sizeof(seq));
		out->received++;
		out->reordered += seq < next;
		next = seq >= next ? seq + 1 : next;
	}
}
