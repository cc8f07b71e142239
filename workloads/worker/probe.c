/*
 * Probes: round-trip times by small messages over TCP, then goodput as the
 * receiver sees it. One connection; the client says what comes next.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "workloads/worker/net.h"
#include "workloads/worker/rank.h"

#define PING_BYTES 64
#define CHUNK (256 << 10)
#define SAMPLES_MAX 10000
#define START_UP 0.3		/* of the goodput time is not counted */
#define SERVER_PATIENCE_NS 60000000000

struct ping {			/* PING_BYTES on the wire */
	uint32_t kind;		/* 'P' ping, 'G' goodput follows, 'R' its result */
	uint32_t reserved;
	double value;		/* G: seconds; R: bits/s */
	char pad[PING_BYTES - 16];
};

_Static_assert(sizeof(struct ping) == PING_BYTES, "the probe's message");

static int wait_for(int fd, short events, int64_t until, struct bace_err *e)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		int64_t left = until - bace_mono_ns();
		int n = poll(&p, 1, left > 0 ? (int)(left / 1000000) + 1 : 0);

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return bace_fail_errno(e, errno, "probe: poll");
		if (n == 0)
			return bace_fail(e, ETIMEDOUT, "probe: the peer does not answer");
	}
}

static int put(int fd, const void *p, size_t n, int64_t until, struct bace_err *e)
{
	const char *from = p;

	while (n) {
		ssize_t k = send(fd, from, n, MSG_NOSIGNAL);

		if (k < 0 && errno == EAGAIN) {
			int rc = wait_for(fd, POLLOUT, until, e);

			if (rc)
				return rc;
			continue;
		}
		if (k < 0)
			return bace_fail_errno(e, errno, "probe: send");
		from += k;
		n -= (size_t)k;
	}
	return 0;
}

static int get(int fd, void *p, size_t n, int64_t until, struct bace_err *e)
{
	char *to = p;

	while (n) {
		ssize_t k = recv(fd, to, n, 0);

		if (k < 0 && errno == EAGAIN) {
			int rc = wait_for(fd, POLLIN, until, e);

			if (rc)
				return rc;
			continue;
		}
		if (k < 0)
			return bace_fail_errno(e, errno, "probe: receive");
		if (k == 0)
			return bace_fail(e, ECONNRESET, "probe: the peer closed the connection");
		to += k;
		n -= (size_t)k;
	}
	return 0;
}

/* Counts from START_UP on until the client's end of stream. */
static int serve_goodput(int fd, double seconds, int64_t until, struct bace_err *e)
{
	int64_t first = 0, from = 0, last = 0;
	uint64_t counted = 0;
	struct ping result = { .kind = 'R' };

	for (;;) {
		ssize_t n = recv(fd, NULL, CHUNK, MSG_TRUNC);
		int64_t now = bace_mono_ns();

		if (n < 0 && errno == EAGAIN) {
			int rc = wait_for(fd, POLLIN, until, e);

			if (rc)
				return rc;
			continue;
		}
		if (n < 0)
			return bace_fail_errno(e, errno, "probe: receive");
		if (n == 0)
			break;
		if (!first)
			first = now;
		if (from) {
			counted += (uint64_t)n;
			last = now;
		} else if ((double)(now - first) >= START_UP * seconds * 1e9) {
			from = now;	/* what came until now is not counted */
		}
	}
	if (last > from)
		result.value = (double)counted * 8e9 / (double)(last - from);
	return put(fd, &result, sizeof(result), until, e);
}

static int serve(int fd, struct bace_err *e)
{
	for (;;) {
		int64_t until = bace_mono_ns() + SERVER_PATIENCE_NS;
		struct ping p;
		int rc = wait_for(fd, POLLIN, until, e);

		if (rc)
			return rc;
		if (recv(fd, &p, 1, MSG_PEEK) == 0)
			return 0;	/* the client has all it wanted */
		rc = get(fd, &p, sizeof(p), until, e);
		if (!rc && p.kind == 'P')
			rc = put(fd, &p, sizeof(p), until, e);
		else if (!rc && p.kind == 'G')
			return serve_goodput(fd, p.value, until, e);
		if (rc)
			return rc;
	}
}

int probe_server(const json_t *spec, struct commands *c, struct bace_err *e)
{
	const char *addr = json_string_value(json_object_get(spec, "addr"));
	CLEANUP_CLOSE int listener = -1;
	CLEANUP_CLOSE int fd = -1;
	uint16_t port;
	int rc;

	if (!addr)
		return bace_fail(e, EINVAL, "probe-server: `addr' must be a string");
	rc = net_listen(addr, 0, &listener, &port, e);
	if (rc)
		return rc;
	event_listening(-1, port);
	rc = wait_for(listener, POLLIN, bace_mono_ns() + SERVER_PATIENCE_NS, e);
	if (!rc)
		rc = net_accept(listener, "", &fd, e);
	if (!rc)
		rc = serve(fd, e);
	if (!rc)
		event_send(json_pack("{s:s}", "event", "done"));
	return rc;
}

static int measure_rtt(int fd, int n, json_t *out, int64_t until, struct bace_err *e)
{
	/* The first is for the caches of the path, ARP among them. */
	for (int i = -1; i < n; i++) {
		struct ping p = { .kind = 'P' };
		int64_t start = bace_mono_ns();
		int rc = put(fd, &p, sizeof(p), until, e);

		if (!rc)
			rc = get(fd, &p, sizeof(p), until, e);
		if (rc)
			return rc;
		if (i >= 0)
			json_array_append_new(out, json_integer(bace_mono_ns() - start));
	}
	return 0;
}

static int measure_goodput(int fd, double seconds, double *bps, int64_t until, struct bace_err *e)
{
	static const char filler[CHUNK];
	struct ping p = { .kind = 'G', .value = seconds };
	int64_t stop = bace_mono_ns() + (int64_t)(seconds * 1e9);
	int rc = put(fd, &p, sizeof(p), until, e);

	while (!rc && bace_mono_ns() < stop)
		rc = put(fd, filler, sizeof(filler), until, e);
	if (rc)
		return rc;
	if (shutdown(fd, SHUT_WR))
		return bace_fail_errno(e, errno, "probe: shutdown");
	rc = get(fd, &p, sizeof(p), until, e);
	*bps = p.value;
	return rc;
}

struct client_args {
	const char *addr, *cc;
	int port, samples;
	double goodput_s;
	int64_t until;
};

static int read_args(const json_t *spec, struct client_args *a, struct bace_err *e)
{
	json_int_t timeout = json_integer_value(json_object_get(spec, "timeout_ms"));

	a->addr = json_string_value(json_object_get(spec, "addr"));
	a->cc = json_string_value(json_object_get(spec, "congestion_control"));
	a->port = (int)json_integer_value(json_object_get(spec, "port"));
	a->samples = (int)json_integer_value(json_object_get(spec, "rtt_samples"));
	a->goodput_s = json_number_value(json_object_get(spec, "goodput_s"));
	if (!a->addr || a->port < 1 || a->port > 65535 || a->samples < 0 || a->samples > SAMPLES_MAX ||
	    !(a->goodput_s >= 0 && a->goodput_s <= 3600))
		return bace_fail(e, EINVAL, "probe-client: addr, port, rtt_samples (0 to %d) or goodput_s (0 "
				 "to 3600) is wrong", SAMPLES_MAX);
	a->until = bace_mono_ns() + (timeout > 0 ? timeout * 1000000 : SERVER_PATIENCE_NS);
	return 0;
}

int probe_client(const json_t *spec, struct commands *c, struct bace_err *e)
{
	struct client_args a = { 0 };
	CLEANUP_CLOSE int fd = -1;
	json_t *rtt = json_array();
	double bps = 0;
	int rc = read_args(spec, &a, e);

	if (!rc)
		rc = net_connect(a.addr, (uint16_t)a.port, a.cc ? a.cc : "", &fd, e);
	if (!rc)
		rc = wait_for(fd, POLLOUT, a.until, e);
	if (!rc)
		rc = net_connected(fd, e);
	if (!rc)
		rc = measure_rtt(fd, a.samples, rtt, a.until, e);
	if (!rc && a.goodput_s > 0)
		rc = measure_goodput(fd, a.goodput_s, &bps, a.until, e);
	if (rc)
		json_decref(rtt);
	else
		event_send(json_pack("{s:s,s:o,s:f}", "event", "done", "rtt_ns", rtt, "goodput_bps", bps));
	return rc ? bace_err_context(e, "probe of %s", a.addr ? a.addr : "?") : 0;
}
