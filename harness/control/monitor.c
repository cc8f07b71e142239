#include "harness/control/monitor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/control/divide.h"

#define MODULE "monitor"
#define FRAME_L2 14
#define IP_TCP_TS 52
#define PROBE_ARRIVALS_MAX 256

static const char *const source_names[TB_SOURCES] = { "link", "class", "tcp", "self", "gpu", "rapl", "probe" };

/* ---- whose address is it ---- */

static int by_addr(const void *a, const void *b)
{
	return strcmp(((const struct addr_region *)a)->addr, ((const struct addr_region *)b)->addr);
}

int monitors_init(struct controller *c, struct bace_err *e)
{
	c->addrs = calloc((size_t)c->n_hosts + 1, sizeof(*c->addrs));
	if (!c->addrs)
		return bace_fail(e, ENOMEM, "controller of %d hosts: out of memory", c->n_hosts);
	for (int i = 0; i < c->n_hosts; i++)
		c->addrs[i] = (struct addr_region){ c->hosts[i].spec->addr, c->hosts[i].spec->region };
	qsort(c->addrs, (size_t)c->n_hosts, sizeof(*c->addrs), by_addr);
	return 0;
}

static int region_of(const struct controller *c, const char *addr)
{
	const struct addr_region *a = bsearch(&(struct addr_region){ .addr = addr }, c->addrs,
					      (size_t)c->n_hosts, sizeof(*c->addrs), by_addr);

	return a ? a->region : -1;
}

static void host_monitor_free(struct host *h)
{
	for (int i = 0; h->monitor && i < h->c->cfg.topo->n_regions; i++)
		free(h->monitor->to[i]);
	for (int i = 0; h->monitor && i < TB_SOURCES; i++)
		free(h->monitor->kept[i].rows);
	if (h->monitor)
		free(h->monitor->to);
	free(h->monitor);
	h->monitor = NULL;
}

void monitors_free(struct controller *c)
{
	for (int i = 0; i < c->n_hosts; i++)
		host_monitor_free(&c->hosts[i]);
	free(c->addrs);
	c->addrs = NULL;
}

/* Counters begin anew with the agent; what was known grows old. */
void monitor_host_lost(struct host *h)
{
	struct host_monitor *m = h->monitor;

	if (!m)
		return;
	m->probe_port = 0;
	m->seq = 0;
	for (int i = 0; i < h->c->cfg.topo->n_regions; i++)
		if (m->to[i])
			m->to[i]->counters.has_last = false;
}

static struct host_monitor *monitor_of(struct host *h)
{
	struct host_monitor *m = h->monitor;

	if (m)
		return m;
	m = calloc(1, sizeof(*m));
	if (m)
		m->to = calloc((size_t)h->c->cfg.topo->n_regions + 1, sizeof(*m->to));
	if (!m || !m->to) {
		free(m);
		return NULL;
	}
	return h->monitor = m;
}

static struct link_seen *seen(struct host *h, int dst)
{
	struct host_monitor *m = h->monitor;
	double mtu = h->spec->shape.mtu ? h->spec->shape.mtu : 1500;

	if (dst < 0 || dst >= h->c->cfg.topo->n_regions)
		return NULL;
	if (!m->to[dst])
		m->to[dst] = calloc(1, sizeof(*m->to[dst]));
	if (m->to[dst])
		m->to[dst]->tcp.l2_per_goodput = (mtu + FRAME_L2) / (mtu - IP_TCP_TS);
	return m->to[dst];
}

static void became_new(struct host *h, int dst, enum tb_method method)
{
	struct tb_view_link v;

	h->monitor->to[dst]->heard_ns[method] = bace_mono_ns();
	if (!h->c->script || h->spec->region == dst)
		return;
	if (view_of_method(h->c, h->spec->region, dst, method, &v))
		script_note(h->c, h->spec->region, dst, method, v.lower_bound, v.capacity_bps, v.error_bps);
}

/* ---- rows ---- */

/* Reads a number and the one character behind it. */
static bool number(const char **p, uint64_t *v)
{
	const char *s = *p;
	uint64_t x = 0;

	if (*s < '0' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++) {
		if (x > (UINT64_MAX - 9) / 10)
			return false;
		x = 10 * x + (uint64_t)(*s - '0');
	}
	if (*s != ' ' && *s != ';')
		return false;
	*v = x;
	*p = s + 1;
	return true;
}

static bool numbers(const char **p, uint64_t *v, int n)
{
	for (int i = 0; i < n; i++)
		if (!number(p, &v[i]) || ((*p)[-1] == ';') != (i + 1 == n))
			return false;
	return true;
}

static bool word(const char **p, char *to, size_t cap)
{
	size_t n = strcspn(*p, " ;");

	if (!n || n >= cap || (*p)[n] != ' ')
		return false;
	memcpy(to, *p, n);
	to[n] = '\0';
	*p += n + 1;
	return true;
}

static bool take_class(struct host *h, int64_t at_ns, const char *p)
{
	int n = h->c->cfg.topo->n_regions;
	uint64_t v[5];

	while (*p) {
		struct link_seen *l;
		int dst;

		if (!numbers(&p, v, 5))
			return false;
		if (v[0] < SHAPE_MINOR_BASE || v[0] >= SHAPE_MINOR_BASE + (uint64_t)n)
			continue;
		dst = (int)(v[0] - SHAPE_MINOR_BASE);
		l = seen(h, dst);
		if (l && estimate_counters(&l->counters, at_ns, v[1], v[4]))
			became_new(h, dst, TB_COUNTERS);
	}
	/* Those that are left out are as they were. */
	for (int i = 0; i < n; i++) {
		struct link_seen *l = h->monitor->to[i];

		if (l && l->counters.has_last && l->counters.last_ns < at_ns &&
		    estimate_counters(&l->counters, at_ns, l->counters.last_bytes, l->counters.last_backlog))
			became_new(h, i, TB_COUNTERS);
	}
	return true;
}

static bool take_tcp(struct host *h, int64_t at_ns, const char *p)
{
	int n = h->c->cfg.topo->n_regions;
	char addr[64];
	uint64_t v[11];
	bool good = true;

	for (int i = 0; i < n; i++)
		if (h->monitor->to[i])
			estimate_tcp_begin(&h->monitor->to[i]->tcp, at_ns);
	while (*p) {
		struct link_seen *l;
		int dst;

		good = word(&p, addr, sizeof(addr)) && numbers(&p, v, 11);
		if (!good)
			break;
		dst = region_of(h->c, addr);
		if (dst < 0 || dst == h->spec->region || !(l = seen(h, dst)))
			continue;
		if (l->tcp.now_ns != at_ns)
			estimate_tcp_begin(&l->tcp, at_ns);
		estimate_tcp_socket(&l->tcp, &(struct estimate_socket_sample){ .id = v[0], .acked_bytes = v[1],
			.delivery_bps = v[3], .app_limited = v[4] != 0, .unacked_segs = v[9],
			.notsent_bytes = v[10] });
	}
	for (int i = 0; i < n; i++)
		if (h->monitor->to[i] && estimate_tcp_end(&h->monitor->to[i]->tcp))
			became_new(h, i, TB_TCP_INFO);
	return good;
}

static bool take_probe(struct host *h, int64_t at_ns, const char *p)
{
	char addr[64];
	uint64_t head[2], at;
	int64_t arrivals[PROBE_ARRIVALS_MAX];

	while (*p) {
		struct link_seen *l;
		int n = 0, dst;

		if (!word(&p, addr, sizeof(addr)) || !number(&p, &head[0]) || !number(&p, &head[1]))
			return false;
		while (p[-1] != ';') {
			if (n == PROBE_ARRIVALS_MAX || !number(&p, &at) || at > UINT32_MAX)
				return false;
			arrivals[n++] = (int64_t)at * 100;
		}
		dst = region_of(h->c, addr);
		l = dst < 0 || head[1] > 65536 ? NULL : seen(h, dst);
		if (l && estimate_probe(&l->probe, at_ns, arrivals, n, (unsigned)head[1]))
			became_new(h, dst, TB_PROBE);
	}
	return true;
}

static bool take_rows(struct host *h, const char *source, int64_t at_ns, const char *rows)
{
	if (!strcmp(source, "class"))
		return take_class(h, at_ns, rows);
	if (!strcmp(source, "tcp"))
		return take_tcp(h, at_ns, rows);
	if (!strcmp(source, "probe"))
		return take_probe(h, at_ns, rows);
	return monitor_keep(h->monitor, source, at_ns, rows);
}

void monitor_take(struct host *h, const json_t *msg)
{
	struct bace_err e = { 0 };
	struct wire_reader r = { .obj = msg, .what = "sample", .e = &e };
	struct host_monitor *m = monitor_of(h);
	uint64_t seq = wire_read_u64(&r, "seq", INT64_MAX), dropped = wire_read_u64(&r, "dropped", INT64_MAX);
	json_t *samples = wire_read_array(&r, "samples", 65536);

	if (r.rc || !m) {
		bace_log(BACE_WARN, MODULE, "%s: %s", h->spec->name, m ? e.msg : "out of memory");
		return;
	}
	m->seq = seq;
	m->dropped = dropped;
	for (size_t i = 0; i < json_array_size(samples); i++) {
		const json_t *s = json_array_get(samples, i);
		const char *source = json_string_value(json_array_get(s, 0));
		const json_t *at = json_array_get(s, 1);
		const char *rows = json_string_value(json_array_get(s, 2));

		if (source && rows && json_is_integer(at) && take_rows(h, source, json_integer_value(at), rows))
			continue;
		if (!m->bad++)
			bace_log(BACE_WARN, MODULE, "%s: a sample of `%.20s' is not what it should be",
				 h->spec->name, source ? source : "?");
	}
}

/* ---- asking ---- */

/* One host a region probes: the first that is no gateway. */
static bool probes(const struct host *h)
{
	if (h->spec->gateway)
		return false;
	for (int i = 0; i < h->index; i++)
		if (h->c->hosts[i].spec->region == h->spec->region && !h->c->hosts[i].spec->gateway)
			return false;
	return true;
}

static json_t *targets_of(const struct host *h)
{
	json_t *a = json_array();

	for (int i = 0; probes(h) && i < h->c->n_hosts; i++) {
		const struct host *t = &h->c->hosts[i];

		if (t->spec->region != h->spec->region && probes(t) && t->monitor && t->monitor->probe_port)
			json_array_append_new(a, json_pack("{s:s,s:i}", "addr", t->spec->addr, "port",
							   t->monitor->probe_port));
	}
	return a;
}

/* What of it this host has; what it has nothing of, it is not asked for. */
static struct tb_monitor wanted_of(const struct host *h, const struct tb_monitor *m, bool on, bool has_targets)
{
	struct tb_monitor w = *m;

	if (!h->spec->shape.n_links)
		w.period_ms[TB_SRC_CLASS] = 0;
	if (h->spec->gateway)
		w.period_ms[TB_SRC_TCP] = 0;
	if (!has_targets)
		w.period_ms[TB_SRC_PROBE] = 0;
	if (!on)
		memset(w.period_ms, 0, sizeof(w.period_ms));
	divider_wants(h, &w);
	return w;
}

json_t *monitor_request(struct host *h, const struct tb_monitor *m, bool on)
{
	json_t *sources = json_object(), *targets = targets_of(h);
	bool listens = m->period_ms[TB_SRC_PROBE] > 0 && probes(h);
	struct tb_monitor w = wanted_of(h, m, on, json_array_size(targets) > 0);

	for (int i = 0; i < TB_SOURCES; i++)
		if (w.period_ms[i])
			json_object_set_new(sources, source_names[i], json_integer(w.period_ms[i]));
	h->classes_sampled = w.period_ms[TB_SRC_CLASS] > 0;
	if (on)
		memcpy(h->c->period_ms, m->period_ms, sizeof(h->c->period_ms));
	return json_pack("{s:s,s:o,s:i,s:s,s:s,s:I,s:i,s:o}", "type", "sample", "sources", sources, "push_ms",
		w.push_ms, "class_dev", h->spec->shape.egress, "probe_listen", listens ? h->spec->addr : "",
		"token", (json_int_t)h->c->probe_token, "probe_packets",
		m->probe_packets < 2 ? 2 : m->probe_packets, "targets", targets);
}

int monitor_take_answer(struct host *h, const json_t *reply, struct tb_acted *sum, struct bace_err *e)
{
	struct wire_reader r = { .obj = reply, .what = h->spec->name, .e = e };
	struct host_monitor *m = monitor_of(h);
	uint64_t rss = wire_read_u64(&r, "rss_bytes", INT64_MAX);

	if (!m)
		return bace_fail(e, ENOMEM, "%s: out of memory", h->spec->name);
	sum->cpu_ns += wire_read_u64(&r, "cpu_ns", INT64_MAX);
	sum->samples += wire_read_u64(&r, "samples", INT64_MAX);
	sum->dropped += wire_read_u64(&r, "dropped", INT64_MAX);
	sum->wire_bytes += wire_read_u64(&r, "wire_bytes", INT64_MAX);
	m->probe_bytes = wire_read_u64(&r, "probe_bytes", INT64_MAX);
	m->probe_port = (int)wire_read_int(&r, "probe_port", 0, 65535);
	sum->probe_bytes += m->probe_bytes;
	sum->rss_bytes += rss;
	sum->rss_max_bytes = rss > sum->rss_max_bytes ? rss : sum->rss_max_bytes;
	sum->n_hosts++;
	return r.rc;
}

/* A train goes to each target: they share the bytes evenly. */
uint64_t monitor_probe_bytes(const struct controller *c, int src, int dst)
{
	for (int i = 0; i < c->n_hosts; i++) {
		const struct host *h = &c->hosts[i];
		int n = 0;

		if (h->spec->region != src || !probes(h) || !h->monitor)
			continue;
		for (int k = 0; k < c->n_hosts; k++)
			n += c->hosts[k].spec->region != src && probes(&c->hosts[k]) && c->hosts[k].monitor &&
			     c->hosts[k].monitor->probe_port;
		return n ? h->monitor->probe_bytes / (uint64_t)n : 0;
	}
	return 0;
}
