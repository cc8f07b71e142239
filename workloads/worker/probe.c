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
#define GOODPUT_MAX_S 3600.0
#define START_UP 0.3		/* of the goodput time is not counted */
#define WHOLE 0.9		/* of it, less is a client that died */
#define PATIENCE_NS 60000000000
#define STRANGER_NS 5000000000	/* for a client's first words */
#define LOOK_UP_NS 20000000	/* at the deadline and the agent, while data flows */

enum { PING = 'P', GOODPUT = 'G', RESULT = 'R' };

struct ping {			/* PING_BYTES on the wire */
	uint32_t kind;
	uint32_t reserved;
	double value;		/* GOODPUT: seconds; RESULT: bits/s */
	uint64_t token;		/* of the specs of both ends */
	char pad[PING_BYTES - 24];
};

_Static_assert(sizeof(struct ping) == PING_BYTES, "the probe's message");

struct probe {
	struct commands *commands;
	uint64_t token;
	int fd;
	int64_t until, looked_up;
};

/* A probe is told nothing after its spec: all that stdin can say is that the
 * agent is gone. */
static int check_agent(struct probe *p, struct bace_err *e)
{
	json_t *j;

	do {
		j = command_next(p->commands, e);
		json_decref(j);
	} while (j);
	if (e->errnum)
		return -e->errnum;
	return p->commands->eof ? bace_fail(e, ECANCELED, "the agent is gone") : 0;
}

static int too_late(struct bace_err *e)
{
	return bace_fail(e, ETIMEDOUT, "probe: the peer does not answer");
}

/* Nothing waits while data flows, so somebody must look up now and then. */
static int look_up(struct probe *p, int64_t now, struct bace_err *e)
{
	if (now - p->looked_up < LOOK_UP_NS)
		return 0;
	p->looked_up = now;
	return now > p->until ? too_late(e) : check_agent(p, e);
}

static int wait_for(struct probe *p, int fd, short events, struct bace_err *e)
{
	for (;;) {
		struct pollfd v[2] = { { .fd = fd, .events = events }, { .fd = 0, .events = POLLIN } };
		int64_t left = p->until - bace_mono_ns();
		int n = left <= 0 ? 0 : poll(v, 2, left > INT32_MAX * 1000000ll ? INT32_MAX :
					     (int)(left / 1000000) + 1);

		if (n < 0 && errno != EINTR)
			return bace_fail_errno(e, errno, "probe: poll");
		if (n == 0)
			return too_late(e);
		if (n > 0 && v[1].revents) {
			int rc = check_agent(p, e);

			if (rc)
				return rc;
		}
		if (n > 0 && v[0].revents)
			return 0;
	}
}

static int put(struct probe *p, const void *data, size_t n, struct bace_err *e)
{
	const char *from = data;

	while (n) {
		ssize_t k = send(p->fd, from, n, MSG_NOSIGNAL);

		if (k < 0 && errno == EAGAIN) {
			int rc = wait_for(p, p->fd, POLLOUT, e);

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

/* to: NULL to drop what comes. As recv, but waits. */
static ssize_t get_some(struct probe *p, void *to, size_t n, struct bace_err *e)
{
	for (;;) {
		ssize_t k = recv(p->fd, to, n, to ? 0 : MSG_TRUNC);
		int rc;

		if (k >= 0)
			return k;
		if (errno != EAGAIN)
			return bace_fail_errno(e, errno, "probe: receive");
		rc = wait_for(p, p->fd, POLLIN, e);
		if (rc)
			return rc;
	}
}

/* 0, or 1: the peer closed before the first byte. */
static int get(struct probe *p, struct ping *out, struct bace_err *e)
{
	for (size_t got = 0; got < sizeof(*out);) {
		ssize_t k = get_some(p, (char *)out + got, sizeof(*out) - got, e);

		if (k < 0)
			return (int)k;
		if (k == 0)
			return got ? bace_fail(e, ECONNRESET, "probe: the peer closed the connection") : 1;
		got += (size_t)k;
	}
	return 0;
}

static int get_answer(struct probe *p, uint32_t kind, struct ping *out, struct bace_err *e)
{
	int rc = get(p, out, e);

	if (rc == 1)
		return bace_fail(e, ECONNRESET, "probe: the peer closed the connection");
	if (!rc && out->kind != kind)
		return bace_fail(e, EPROTO, "probe: the peer does not speak as a probe does");
	return rc;
}

static int read_token(const json_t *spec, struct probe *p, struct bace_err *e)
{
	const json_t *v = json_object_get(spec, "token");

	if (v && (!json_is_integer(v) || json_integer_value(v) < 0))
		return bace_fail(e, EINVAL, "probe: `token' must be an integer, 0 or more");
	p->token = (uint64_t)json_integer_value(v);
	return 0;
}

/* ---- server ---- */

/* Counts from START_UP on until the client's end of stream. */
static int serve_goodput(struct probe *p, double seconds, struct bace_err *e)
{
	int64_t begin = bace_mono_ns(), first = 0, from = 0, last = 0;
	struct ping result = { .kind = RESULT };
	uint64_t counted = 0;
	ssize_t n;

	if (!(seconds > 0 && seconds <= GOODPUT_MAX_S))
		return bace_fail(e, EPROTO, "probe: goodput for %g s: must be at most %g", seconds, GOODPUT_MAX_S);
	p->until += (int64_t)(seconds * 1e9);
	while ((n = get_some(p, NULL, CHUNK, e)) > 0) {
		int64_t now = bace_mono_ns();
		int rc = look_up(p, now, e);

		if (rc)
			return rc;
		if (!first)
			first = now;
		if (from) {
			counted += (uint64_t)n;
			last = now;
		} else if ((double)(now - first) >= START_UP * seconds * 1e9) {
			from = now;	/* what came until now is not counted */
		}
	}
	if (n < 0)
		return (int)n;
	if ((double)(bace_mono_ns() - begin) < WHOLE * seconds * 1e9)
		return bace_fail(e, ECONNRESET, "probe: the client went away");
	if (last > from)
		result.value = (double)counted * 8e9 / (double)(last - from);
	return put(p, &result, sizeof(result), e);
}

/* m: the first thing that it said. */
static int serve(struct probe *p, struct ping m, struct bace_err *e)
{
	for (;;) {
		int rc;

		p->until = bace_mono_ns() + PATIENCE_NS;
		if (m.kind == GOODPUT)
			return serve_goodput(p, m.value, e);
		if (m.kind != PING)
			return bace_fail(e, EPROTO, "probe: the peer does not speak as a probe does");
		rc = put(p, &m, sizeof(m), e);
		if (!rc)
			rc = get(p, &m, e);
		if (rc)
			return rc > 0 ? 0 : rc;	/* the client has all it wanted */
	}
}

/* Somebody, and the first thing that he says; -EAGAIN: not a client of ours. */
static int meet(struct probe *p, int listener, struct ping *first, struct bace_err *e)
{
	int64_t until = p->until, soon = bace_mono_ns() + STRANGER_NS;
	struct bace_err why = { 0 };
	int rc = net_accept(listener, "", &p->fd, e);

	if (rc)
		return rc;
	p->until = soon < until ? soon : until;
	rc = get(p, first, &why);
	p->until = until;
	if (!rc && first->token == p->token && (first->kind == PING || first->kind == GOODPUT))
		return 0;
	bace_cleanup_close(&p->fd);
	if (rc == -ECANCELED) {		/* the agent is gone */
		*e = why;
		return rc;
	}
	bace_log(BACE_WARN, "probe", "a stranger is refused");
	return bace_mono_ns() > until ? too_late(e) : -EAGAIN;
}

int probe_server(const json_t *spec, struct commands *c, struct bace_err *e)
{
	const char *addr = json_string_value(json_object_get(spec, "addr"));
	struct probe p = { .commands = c, .fd = -1, .until = bace_mono_ns() + PATIENCE_NS };
	CLEANUP_CLOSE int listener = -1;
	struct ping first;
	uint16_t port;
	int rc = read_token(spec, &p, e);

	if (rc)
		return rc;
	if (!addr)
		return bace_fail(e, EINVAL, "probe-server: `addr' must be a string");
	rc = net_listen(addr, &listener, &port, e);
	if (rc)
		return rc;
	event_listening(-1, port);
	do {
		rc = wait_for(&p, listener, POLLIN, e);
		if (!rc)
			rc = meet(&p, listener, &first, e);
	} while (rc == -EAGAIN);
	if (!rc)
		rc = serve(&p, first, e);
	bace_cleanup_close(&p.fd);
	if (rc)
		return bace_err_context(e, "server at %s:%u", addr, port);
	event_send(json_pack("{s:s}", "event", "done"));
	return 0;
}

/* ---- client ---- */

static int measure_rtt(struct probe *p, int n, json_t *out, struct bace_err *e)
{
	/* The first is for the caches of the path, ARP among them. */
	for (int i = -1; i < n; i++) {
		struct ping m = { .kind = PING, .token = p->token };
		int64_t start = bace_mono_ns();
		int rc = put(p, &m, sizeof(m), e);

		if (!rc)
			rc = get_answer(p, PING, &m, e);
		if (rc)
			return rc;
		if (i >= 0)
			json_array_append_new(out, json_integer(bace_mono_ns() - start));
	}
	return 0;
}

static int measure_goodput(struct probe *p, double seconds, double *bps, struct bace_err *e)
{
	static const char filler[CHUNK];
	struct ping m = { .kind = GOODPUT, .value = seconds, .token = p->token };
	int64_t now = bace_mono_ns(), stop = now + (int64_t)(seconds * 1e9);
	int rc = put(p, &m, sizeof(m), e);

	for (; !rc && now < stop; now = bace_mono_ns()) {
		rc = put(p, filler, sizeof(filler), e);
		if (!rc)
			rc = look_up(p, now, e);
	}
	if (rc)
		return rc;
	if (shutdown(p->fd, SHUT_WR))
		return bace_fail_errno(e, errno, "probe: shutdown");
	rc = get_answer(p, RESULT, &m, e);
	*bps = m.value;
	return rc;
}

struct client_args {
	const char *addr, *cc;
	int port, samples;
	double goodput_s;
	int64_t timeout_ns;
};

static int read_args(const json_t *spec, struct client_args *a, struct bace_err *e)
{
	json_int_t port = json_integer_value(json_object_get(spec, "port"));
	json_int_t samples = json_integer_value(json_object_get(spec, "rtt_samples"));
	json_int_t timeout_ms = json_integer_value(json_object_get(spec, "timeout_ms"));

	a->addr = json_string_value(json_object_get(spec, "addr"));
	a->cc = json_string_value(json_object_get(spec, "congestion_control"));
	a->goodput_s = json_number_value(json_object_get(spec, "goodput_s"));
	if (!a->addr)
		return bace_fail(e, EINVAL, "probe-client: `addr' must be a string");
	if (port < 1 || port > 65535)
		return bace_fail(e, EINVAL, "probe-client: `port' must be 1 to 65535");
	if (samples < 0 || samples > SAMPLES_MAX)
		return bace_fail(e, EINVAL, "probe-client: `rtt_samples' must be 0 to %d", SAMPLES_MAX);
	if (!(a->goodput_s >= 0 && a->goodput_s <= GOODPUT_MAX_S))
		return bace_fail(e, EINVAL, "probe-client: `goodput_s' must be 0 to %g", GOODPUT_MAX_S);
	if (timeout_ms < 0 || timeout_ms > 2 * (json_int_t)GOODPUT_MAX_S * 1000 ||
	    (timeout_ms && (double)timeout_ms <= a->goodput_s * 1e3))
		return bace_fail(e, EINVAL, "probe-client: `timeout_ms' must be more than goodput_s takes, at most "
				 "%g", 2 * GOODPUT_MAX_S * 1e3);
	a->port = (int)port;
	a->samples = (int)samples;
	a->timeout_ns = timeout_ms ? timeout_ms * 1000000 : PATIENCE_NS + (int64_t)(a->goodput_s * 1e9);
	return 0;
}

static int connect_to_server(struct probe *p, const struct client_args *a, struct bace_err *e)
{
	int rc = net_connect(a->addr, (uint16_t)a->port, a->cc ? a->cc : "", &p->fd, e);

	if (!rc)
		rc = wait_for(p, p->fd, POLLOUT, e);
	return rc ? rc : net_connected(p->fd, e);
}

int probe_client(const json_t *spec, struct commands *c, struct bace_err *e)
{
	struct client_args a = { 0 };
	struct probe p = { .commands = c, .fd = -1 };
	double bps = 0;
	json_t *rtt;
	int rc = read_args(spec, &a, e);

	if (!rc)
		rc = read_token(spec, &p, e);
	if (rc)
		return rc;
	rtt = json_array();
	p.until = bace_mono_ns() + a.timeout_ns;
	rc = connect_to_server(&p, &a, e);
	if (!rc)
		rc = measure_rtt(&p, a.samples, rtt, e);
	if (!rc && a.goodput_s > 0)
		rc = measure_goodput(&p, a.goodput_s, &bps, e);
	bace_cleanup_close(&p.fd);
	if (rc) {
		json_decref(rtt);
		return bace_err_context(e, "probe of %s:%d", a.addr, a.port);
	}
	event_send(json_pack("{s:s,s:o,s:f}", "event", "done", "rtt_ns", rtt, "goodput_bps", bps));
	return 0;
}
