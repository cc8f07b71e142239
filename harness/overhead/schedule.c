#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/overhead/overhead.h"

#define PACKET_L2 1514
#define PACKETS_MAX 256
#define PACKETS_MIN 8
#define PUSH_MAX_MS 50

int overhead_method_parse(const char *text, struct overhead_method *out, struct bace_err *e)
{
	static const char *const names[] = { "off", "counters", "tcp_info" };
	char size[24];

	*out = (struct overhead_method){ 0 };
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(text, names[i]))
			continue;
		out->kind = (enum overhead_kind)i;
		snprintf(out->name, sizeof(out->name), "%s", text);
		return 0;
	}
	if (strncmp(text, "probe:", 6))
		return bace_fail(e, EINVAL, "`%.40s': must be off, counters, tcp_info or probe:SIZE, e.g. probe:48kB",
				 text);
	if (bace_parse_size_bytes(text + 6, &out->probe_bytes, e))
		return -EINVAL;
	if (out->probe_bytes < PACKETS_MIN * PACKET_L2 || out->probe_bytes > PACKETS_MAX * PACKET_L2)
		return bace_fail(e, EINVAL, "`%.40s': a train has %d to %d packets of %d bytes", text, PACKETS_MIN,
				 PACKETS_MAX, PACKET_L2);
	out->kind = OVERHEAD_PROBE;
	snprintf(size, sizeof(size), "%.4g kB", (double)out->probe_bytes / 1e3);
	snprintf(out->name, sizeof(out->name), "probe %s", size);
	return 0;
}

struct tb_monitor overhead_monitor(const struct overhead_method *m, int period_ms)
{
	struct tb_monitor t = { .push_ms = period_ms / 2 < PUSH_MAX_MS ? period_ms / 2 : PUSH_MAX_MS };

	if (m->kind == OVERHEAD_COUNTERS)
		t.period_ms[TB_SRC_CLASS] = t.period_ms[TB_SRC_LINK] = period_ms;
	if (m->kind == OVERHEAD_TCP_INFO)
		t.period_ms[TB_SRC_TCP] = period_ms;
	if (m->kind == OVERHEAD_PROBE) {
		t.period_ms[TB_SRC_PROBE] = period_ms;
		t.probe_packets = (int)(m->probe_bytes / PACKET_L2);
	}
	return t;
}

static void add(struct overhead_schedule *s, struct tb_action a)
{
	s->script.actions[s->script.n++] = a;
	s->end_s = a.at_s;
}

/* Half, and back, and so on; then off. */
static void add_changes(struct overhead_schedule *s, const struct overhead_timing *t, double at_s, int n)
{
	s->first_rate = s->script.n;
	s->n_rates = n;
	s->dwell_s = t->dwell_s;
	for (int i = 0; i < n; i++)
		add(s, (struct tb_action){ .kind = TB_ACT_RATE, .at_s = at_s + i * t->dwell_s, .src = t->src,
			.dst = t->dst, .rate_bps = i % 2 ? t->rate_bps : t->rate_bps / 2 });
	add(s, (struct tb_action){ .kind = TB_ACT_MONITOR, .at_s = at_s + n * t->dwell_s });
}

static int allocate(struct overhead_schedule *s, size_t actions, size_t blocks, struct bace_err *e)
{
	*s = (struct overhead_schedule){ .script.actions = calloc(actions, sizeof(*s->script.actions)),
					 .is_b = calloc(blocks + 1, sizeof(*s->is_b)) };
	if (s->script.actions && s->is_b)
		return 0;
	overhead_schedule_free(s);
	return bace_fail(e, ENOMEM, "schedule: out of memory");
}

int overhead_schedule(const struct overhead_timing *t, const struct tb_monitor *m,
		      struct overhead_schedule *s, struct bace_err *e)
{
	int n = 2 * t->pairs;
	double end = t->from_s + n * t->block_s;
	struct bace_rng r;
	int rc = allocate(s, (size_t)(n + t->n_rates + 2), (size_t)n, e);

	if (rc)
		return rc;
	bace_rng_init(&r, t->seed, 0);
	s->script.monitor = *m;
	s->n_blocks = n;
	for (int i = 0; i < n; i++) {
		s->is_b[i] = i % 2 ? !s->is_b[i - 1] : bace_rng_below(&r, 2) > 0;
		add(s, (struct tb_action){ .kind = TB_ACT_MONITOR, .at_s = t->from_s + i * t->block_s,
			.on = s->is_b[i], .stretch_ppm = s->is_b[i] ? t->inject_ppm : 0 });
	}
	add(s, (struct tb_action){ .kind = TB_ACT_MONITOR, .at_s = end, .on = t->n_rates > 0 });
	if (t->n_rates)
		add_changes(s, t, end + t->dwell_s / 2, t->n_rates);
	return 0;
}

int overhead_schedule_idle(const struct overhead_timing *t, const struct tb_monitor *m,
			   struct overhead_schedule *s, struct bace_err *e)
{
	int rc = allocate(s, (size_t)t->n_rates + 3, 0, e);

	if (rc)
		return rc;
	s->script.monitor = *m;
	add(s, (struct tb_action){ .kind = TB_ACT_MONITOR, .on = true });
	add_changes(s, t, t->dwell_s / 2, t->n_rates);
	return 0;
}

void overhead_schedule_free(struct overhead_schedule *s)
{
	free(s->script.actions);
	free(s->is_b);
	*s = (struct overhead_schedule){ 0 };
}
