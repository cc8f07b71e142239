#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/monitor/internal.h"

#define PERIOD_MIN_MS 10
#define PERIOD_MAX_MS 600000
#define PUSH_MAX_MS 60000
#define PENDING_MAX_BYTES (512u << 10)
#define QUEUED_MAX_BYTES (1u << 20)	/* towards a controller that does not keep up */

struct watch {				/* one source and its clock */
	struct monitor *monitor;
	struct source *source;
	struct event *timer;
	bool full;
	bool warned;
};

struct monitor {
	struct agent *agent;
	struct monitor_config cfg;
	struct watch watches[8];
	int n_watches;
	struct event *flush;
	int push_ms;
	bool flush_armed;
	json_t *pending;		/* array of [source, at_ns, rows] */
	size_t pending_bytes;
	struct bace_buf rows;		/* used again and again */
	struct responder *responder;
	uint64_t seq, samples, dropped, wire_bytes, probe_bytes;
};

static const struct {
	const char *name;
	int (*open)(struct monitor *m, struct source **out, struct bace_err *e);
} kinds[] = {
	{ "link", source_link }, { "class", source_class }, { "tcp", source_tcp }, { "self", source_self },
	{ "gpu", source_gpu },	 { "rapl", source_rapl },   { "probe", source_probe },
};

void *source_new(struct monitor *m, const struct source_ops *ops, size_t size, struct bace_err *e)
{
	struct source *s = calloc(1, size);

	if (!s) {
		bace_fail(e, ENOMEM, "sample: out of memory");
		return NULL;
	}
	s->ops = ops;
	s->monitor = m;
	return s;
}

void source_free(struct source *s)
{
	free(s);
}

const struct monitor_config *monitor_config(const struct monitor *m)
{
	return &m->cfg;
}

struct agent *monitor_agent(const struct monitor *m)
{
	return m->agent;
}

void monitor_count_probe(struct monitor *m, uint64_t bytes)
{
	m->probe_bytes += bytes;
}

/* ---- the queue ---- */

/* What was lost may have been the only row that said it. */
static void drop_pending(struct monitor *m)
{
	m->dropped += json_array_size(m->pending);
	json_array_clear(m->pending);
	m->pending_bytes = 0;
	for (int i = 0; i < m->n_watches; i++)
		m->watches[i].full = true;
}

static void on_flush(evutil_socket_t fd, short what, void *arg)
{
	struct monitor *m = arg;
	struct wire_conn *c = m->agent->conn;
	uint64_t before;
	json_t *batch;

	m->flush_armed = false;
	if (!json_array_size(m->pending))
		return;
	if (!c || !m->agent->accepted || wire_queued(c) > QUEUED_MAX_BYTES) {
		drop_pending(m);
		return;
	}
	batch = STEAL_PTR(m->pending);
	m->pending = json_array();
	m->pending_bytes = 0;
	before = wire_sent_bytes(c);
	session_event(m->agent, json_pack("{s:s,s:i,s:I,s:I,s:o}", "type", "sample", "id", 0, "seq",
		(json_int_t)++m->seq, "dropped", (json_int_t)m->dropped, "samples", batch));
	m->wire_bytes += wire_sent_bytes(c) - before;
}

static void push(struct monitor *m, const char *source, int64_t at_ns, const char *rows, size_t n)
{
	struct timeval tv = { .tv_sec = m->push_ms / 1000, .tv_usec = m->push_ms % 1000 * 1000 };

	m->samples++;
	if (m->pending_bytes + n > PENDING_MAX_BYTES)
		drop_pending(m);
	json_array_append_new(m->pending, json_pack("[s,I,s%]", source, (json_int_t)at_ns, rows, n));
	m->pending_bytes += n + 64;
	if (m->flush_armed)
		return;
	m->flush_armed = true;
	event_add(m->flush, &tv);
}

void monitor_push(struct monitor *m, const char *source, int64_t at_ns, const char *rows)
{
	push(m, source, at_ns, rows, strlen(rows));
}

static void on_period(evutil_socket_t fd, short what, void *arg)
{
	struct watch *w = arg;
	struct monitor *m = w->monitor;
	struct bace_err e = { 0 };
	int64_t at_ns = bace_mono_ns();
	int rc;

	m->rows.len = 0;
	rc = w->source->ops->read(w->source, w->full, &m->rows, &e);
	if (rc < 0) {
		if (!w->warned)
			bace_log(BACE_WARN, "monitor", "%s: %s", w->source->ops->name, e.msg);
		w->warned = true;
		w->full = true;		/* rows thrown away here would count as told */
		return;
	}
	w->full = false;
	/* An empty row says that nothing changed. */
	if (rc != SOURCE_LATER)
		push(m, w->source->ops->name, at_ns, m->rows.len ? m->rows.p : "", m->rows.len);
}

/* ---- what is asked for ---- */

static void all_off(struct monitor *m)
{
	for (int i = 0; i < m->n_watches; i++) {
		event_free(m->watches[i].timer);
		m->watches[i].source->ops->destroy(m->watches[i].source);
	}
	m->n_watches = 0;
	free(m->cfg.targets);
	m->cfg.targets = NULL;
	m->cfg.n_targets = 0;
}

static int start(struct monitor *m, size_t kind, int period_ms, struct bace_err *e)
{
	struct timeval tv = { .tv_sec = period_ms / 1000, .tv_usec = period_ms % 1000 * 1000 };
	struct watch *w = &m->watches[m->n_watches];
	int rc;

	*w = (struct watch){ .monitor = m, .full = true };
	rc = kinds[kind].open(m, &w->source, e);
	if (rc)
		return rc;
	w->timer = event_new(m->agent->base, -1, EV_PERSIST, on_period, w);
	if (!w->timer) {
		w->source->ops->destroy(w->source);
		return bace_fail(e, ENOMEM, "sample: out of memory");
	}
	m->n_watches++;
	event_add(w->timer, &tv);
	on_period(-1, 0, w);		/* a first sample at once */
	return 0;
}

static int read_target(const json_t *j, struct probe_target *t, struct bace_err *e)
{
	static const char *const keys[] = { "addr", "port" };
	struct wire_reader r = { .obj = j, .what = "sample: target", .e = e };
	uint8_t any[16];

	wire_read_only(&r, keys, ARRAY_LEN(keys));
	wire_read_copy(&r, "addr", t->addr, sizeof(t->addr));
	t->port = (uint16_t)wire_read_int(&r, "port", 1, 65535);
	if (!r.rc && inet_pton(AF_INET, t->addr, any) != 1 && inet_pton(AF_INET6, t->addr, any) != 1)
		return bace_fail(e, EPROTO, "sample: target `%s' is not an address", t->addr);
	return r.rc;
}

static int read_targets(struct monitor *m, struct wire_reader *r)
{
	json_t *a = wire_read_array(r, "targets", PROBE_TARGETS_MAX);
	size_t n = json_array_size(a);

	if (r->rc)
		return r->rc;
	m->cfg.targets = calloc(n + 1, sizeof(*m->cfg.targets));
	if (!m->cfg.targets)
		return r->rc = bace_fail(r->e, ENOMEM, "sample: out of memory");
	for (size_t i = 0; i < n && !r->rc; i++)
		r->rc = read_target(json_array_get(a, i), &m->cfg.targets[i], r->e);
	m->cfg.n_targets = r->rc ? 0 : (int)n;
	return r->rc;
}

static int read_periods(struct wire_reader *outer, int periods_ms[ARRAY_LEN(kinds)])
{
	const char *names[ARRAY_LEN(kinds)];
	struct wire_reader r = { .obj = wire_read_object(outer, "sources"), .what = "sample: sources",
				 .e = outer->e, .rc = outer->rc };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		names[i] = kinds[i].name;
	wire_read_only(&r, names, ARRAY_LEN(kinds));
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		periods_ms[i] = !r.rc && json_object_get(r.obj, kinds[i].name) ?
			(int)wire_read_int(&r, kinds[i].name, PERIOD_MIN_MS, PERIOD_MAX_MS) : 0;
	return outer->rc = r.rc;
}

/* Who poses as the controller is not to flood others through this host. */
static int check_probes(const struct monitor *m, const int periods_ms[ARRAY_LEN(kinds)], struct bace_err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		double per_s = periods_ms[i] ? (double)m->cfg.n_targets * m->cfg.probe_packets * 1e3 / periods_ms[i] : 0;

		if (!strcmp(kinds[i].name, "probe") && per_s > PROBE_PACKETS_PER_S_MAX)
			return bace_fail(e, ERANGE, "sample: probes of %.0f packets a second: at most %d", per_s,
					 PROBE_PACKETS_PER_S_MAX);
	}
	return 0;
}

/* The responder stays until the session ends: others may be told its port. */
static int respond(struct monitor *m, const char *addr, struct bace_err *e)
{
	if (!*addr || m->responder)
		return 0;
	return responder_open(m->agent, addr, &m->responder, e);
}

static json_t *counters(const struct monitor *m)
{
	uint64_t cpu_ns, rss;

	monitor_self(&cpu_ns, &rss);
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:i}", "at_ns", (json_int_t)bace_mono_ns(), "cpu_ns",
		(json_int_t)cpu_ns, "rss_bytes", (json_int_t)rss, "samples", (json_int_t)m->samples, "dropped",
		(json_int_t)m->dropped, "wire_bytes", (json_int_t)m->wire_bytes, "probe_bytes",
		(json_int_t)m->probe_bytes, "probe_port", m->responder ? responder_port(m->responder) : 0);
}

int monitor_configure(struct monitor *m, struct wire_reader *r, json_t **answer)
{
	static const char *const keys[] = { "sources", "push_ms", "class_dev", "probe_listen", "token",
					    "probe_packets", "targets" };
	int periods_ms[ARRAY_LEN(kinds)] = { 0 }, rc;
	char listen[46];

	wire_read_only(r, keys, ARRAY_LEN(keys));
	if (!r->rc)
		all_off(m);
	read_periods(r, periods_ms);
	m->push_ms = (int)wire_read_int(r, "push_ms", 0, PUSH_MAX_MS);
	wire_read_copy(r, "class_dev", m->cfg.class_dev, sizeof(m->cfg.class_dev));
	wire_read_copy(r, "probe_listen", listen, sizeof(listen));
	m->cfg.probe_token = (uint64_t)wire_read_int(r, "token", 0, INT64_MAX);
	m->cfg.probe_packets = (int)wire_read_int(r, "probe_packets", 2, PROBE_PACKETS_MAX);
	rc = read_targets(m, r);
	if (!rc)
		rc = check_probes(m, periods_ms, r->e);
	if (!rc)
		rc = respond(m, listen, r->e);
	if (rc)
		return rc;
	if (m->responder)
		responder_set_token(m->responder, m->cfg.probe_token);
	*answer = counters(m);
	for (size_t i = 0; i < ARRAY_LEN(kinds) && !rc; i++)
		rc = periods_ms[i] ? start(m, i, periods_ms[i], r->e) : 0;
	if (rc || !*answer) {
		json_decref(*answer);
		*answer = NULL;
		all_off(m);
		return rc ? rc : bace_fail(r->e, ENOMEM, "sample: out of memory");
	}
	return 0;
}

void monitor_stop(struct monitor *m)
{
	if (!m)
		return;
	all_off(m);
	responder_close(m->responder);
	m->responder = NULL;
	json_array_clear(m->pending);
	m->pending_bytes = 0;
}

int monitor_open(struct agent *a, struct monitor **out, struct bace_err *e)
{
	struct monitor *m = calloc(1, sizeof(*m));

	if (!m)
		return bace_fail(e, ENOMEM, "monitor: out of memory");
	m->agent = a;
	m->pending = json_array();
	m->flush = evtimer_new(a->base, on_flush, m);
	if (!m->pending || !m->flush) {
		monitor_close(m);
		return bace_fail(e, ENOMEM, "monitor: out of memory");
	}
	*out = m;
	return 0;
}

void monitor_close(struct monitor *m)
{
	if (!m)
		return;
	monitor_stop(m);
	if (m->flush)
		event_free(m->flush);
	json_decref(m->pending);
	bace_buf_free(&m->rows);
	free(m);
}
