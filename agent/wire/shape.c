#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/wire/wire.h"

/* Wider than what any shaper can do; shaperd refuses the rest with its reason. */
#define RATE_MAX 10000000000000ull	/* 10 Tbit/s */
#define BYTES_MAX (1ull << 50)
#define TIME_MAX 3600000000000ll	/* 1 h */
#define LINKS_MAX 4096
#define STATS_MAX 4096

static json_t *encode_prefixes(const struct shape_link *l)
{
	json_t *a = json_array();

	for (int i = 0; i < l->n_prefixes; i++) {
		char text[64];

		json_array_append_new(a, json_string(shape_prefix_format(&l->prefixes[i], text)));
	}
	return a;
}

static json_t *encode_impair(const struct shape_impair *m)
{
	json_t *p = json_array();

	for (size_t i = 0; i < ARRAY_LEN(m->loss_p); i++)
		json_array_append_new(p, json_real(m->loss_p[i]));
	return json_pack("{s:f,s:i,s:f,s:o,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:b,s:I}",
		"jitter_corr", m->jitter_corr, "loss_model", (int)m->loss_model, "loss_corr", m->loss_corr,
		"loss_p", p, "duplicate", m->duplicate, "duplicate_corr", m->duplicate_corr,
		"corrupt", m->corrupt, "corrupt_corr", m->corrupt_corr, "reorder", m->reorder,
		"reorder_corr", m->reorder_corr, "reorder_gap", (json_int_t)m->reorder_gap,
		"ecn", m->ecn, "seed", (json_int_t)m->seed);
}

static json_t *encode_link(const struct shape_link *l)
{
	return json_pack("{s:s,s:i,s:i,s:o,s:I,s:I,s:I,s:I,s:i,s:f,s:I,s:I,s:I,s:o}",
		"name", l->name, "jitter_table", (int)l->jitter_table, "region", (int)l->region, "prefixes", encode_prefixes(l),
		"rate_bps", (json_int_t)l->rate_bps, "buffer_bytes", (json_int_t)l->buffer_bytes,
		"latency_ns", (json_int_t)l->latency_ns, "jitter_ns", (json_int_t)l->jitter_ns,
		"jitter_dist", (int)l->jitter_dist, "loss", l->loss,
		"reverse_rate_bps", (json_int_t)l->reverse_rate_bps, "rtt_ns", (json_int_t)l->rtt_ns,
		"message_bytes", (json_int_t)l->message_bytes, "impair", encode_impair(&l->impair));
}

static json_t *encode_table(const struct jitter_table *t)
{
	json_t *v = json_array();

	for (int i = 0; i < t->n; i++)
		json_array_append_new(v, json_integer(t->v[i]));
	return json_pack("{s:s,s:o}", "name", t->name, "v", v);
}

json_t *wire_encode_shape(const struct shape_spec *s)
{
	json_t *links = json_array(), *tables = json_array();

	for (int i = 0; i < s->n_tables; i++)
		json_array_append_new(tables, encode_table(&s->tables[i]));

	for (int i = 0; i < s->n_links; i++)
		json_array_append_new(links, encode_link(&s->links[i]));
	return json_pack("{s:s,s:s,s:i,s:i,s:I,s:b,s:b,s:b,s:o,s:o}", "egress", s->egress, "ingress", s->ingress,
		"delay", (int)s->delay, "mtu", (int)s->mtu, "gso_max_bytes", (json_int_t)s->gso_max_bytes,
		"fail_closed", s->fail_closed, "allow_control_interface", s->allow_control_interface,
		"replace_foreign", s->replace_foreign, "links", links, "tables", tables);
}

static void decode_prefixes(struct wire_reader *r, struct shape_link *l)
{
	json_t *a = wire_read_array(r, "prefixes", ARRAY_LEN(l->prefixes)), *v;
	size_t i;

	json_array_foreach(a, i, v) {
		const char *s = json_string_value(v);

		if (r->rc)
			return;
		if (!s)
			r->rc = bace_fail(r->e, EPROTO, "%s: prefixes must be strings", r->what);
		else if (shape_prefix_parse(s, &l->prefixes[i], r->e))
			r->rc = bace_err_context(r->e, "%s", r->what);
	}
	l->n_prefixes = r->rc ? 0 : (int)json_array_size(a);
}

static void decode_impair(struct wire_reader *outer, struct shape_impair *m)
{
	static const char *const keys[] = { "jitter_corr", "loss_model", "loss_corr", "loss_p", "duplicate",
		"duplicate_corr", "corrupt", "corrupt_corr", "reorder", "reorder_corr", "reorder_gap",
		"ecn", "seed" };
	struct wire_reader r = { .obj = wire_read_object(outer, "impair"), .what = outer->what,
				 .e = outer->e, .rc = outer->rc };
	json_t *p;

	wire_read_only(&r, keys, ARRAY_LEN(keys));
	m->jitter_corr = wire_read_num(&r, "jitter_corr", 0, 1);
	m->loss_model = (enum loss_model)wire_read_int(&r, "loss_model", LOSS_RANDOM, LOSS_4STATE);
	m->loss_corr = wire_read_num(&r, "loss_corr", 0, 1);
	p = wire_read_array(&r, "loss_p", ARRAY_LEN(m->loss_p));
	for (size_t i = 0; !r.rc && i < json_array_size(p); i++) {
		m->loss_p[i] = json_number_value(json_array_get(p, i));
		if (!json_is_number(json_array_get(p, i)) || !(m->loss_p[i] >= 0 && m->loss_p[i] <= 1))
			r.rc = bace_fail(r.e, EPROTO, "%s: loss_p must be numbers from 0 to 1", r.what);
	}
	m->duplicate = wire_read_num(&r, "duplicate", 0, 1);
	m->duplicate_corr = wire_read_num(&r, "duplicate_corr", 0, 1);
	m->corrupt = wire_read_num(&r, "corrupt", 0, 1);
	m->corrupt_corr = wire_read_num(&r, "corrupt_corr", 0, 1);
	m->reorder = wire_read_num(&r, "reorder", 0, 1);
	m->reorder_corr = wire_read_num(&r, "reorder_corr", 0, 1);
	m->reorder_gap = (uint32_t)wire_read_int(&r, "reorder_gap", 0, UINT32_MAX);
	m->ecn = wire_read_bool(&r, "ecn");
	m->seed = (uint64_t)wire_read_int(&r, "seed", INT64_MIN, INT64_MAX);
	outer->rc = r.rc;
}

static int decode_link(const json_t *j, int index, struct shape_link *l, struct bace_err *e)
{
	static const char *const keys[] = { "name", "region", "prefixes", "rate_bps", "buffer_bytes",
		"latency_ns", "jitter_ns", "jitter_dist", "loss", "reverse_rate_bps", "rtt_ns",
		"message_bytes", "impair", "jitter_table" };
	char what[48];
	struct wire_reader r = { .obj = j, .what = what, .e = e };

	snprintf(what, sizeof(what), "plan: link %d", index);
	wire_read_only(&r, keys, ARRAY_LEN(keys));
	wire_read_copy(&r, "name", l->name, sizeof(l->name));
	l->region = (uint16_t)wire_read_int(&r, "region", 0, UINT16_MAX - SHAPE_MINOR_BASE);
	decode_prefixes(&r, l);
	l->rate_bps = wire_read_u64(&r, "rate_bps", RATE_MAX);
	l->buffer_bytes = wire_read_u64(&r, "buffer_bytes", BYTES_MAX);
	l->latency_ns = wire_read_int(&r, "latency_ns", 0, TIME_MAX);
	l->jitter_ns = wire_read_int(&r, "jitter_ns", 0, TIME_MAX);
	l->jitter_dist = (enum jitter_dist)wire_read_int(&r, "jitter_dist", JITTER_NONE, JITTER_TABLE);
	l->jitter_table = (uint16_t)wire_read_int(&r, "jitter_table", 0, JITTER_TABLES_MAX - 1);
	l->loss = wire_read_num(&r, "loss", 0, 1);
	l->reverse_rate_bps = wire_read_u64(&r, "reverse_rate_bps", RATE_MAX);
	l->rtt_ns = wire_read_int(&r, "rtt_ns", 0, 2 * TIME_MAX);
	l->message_bytes = wire_read_u64(&r, "message_bytes", BYTES_MAX);
	decode_impair(&r, &l->impair);
	return r.rc;
}

static int decode_table(const json_t *j, struct jitter_table *t, struct bace_err *e)
{
	static const char *const keys[] = { "name", "v" };
	struct wire_reader r = { .obj = j, .what = "plan: tables", .e = e };
	json_t *a, *v;
	size_t i;

	wire_read_only(&r, keys, ARRAY_LEN(keys));
	wire_read_copy(&r, "name", t->name, sizeof(t->name));
	a = wire_read_array(&r, "v", JITTER_TABLE_MAX);
	json_array_foreach(a, i, v) {
		json_int_t x = json_integer_value(v);

		if (r.rc)
			return r.rc;
		if (!json_is_integer(v) || x < INT16_MIN || x > INT16_MAX)
			return bace_fail(e, EPROTO, "%s: entries must be whole numbers of 16 bits", r.what);
		t->v[t->n++] = (int16_t)x;
	}
	return r.rc;
}

int wire_decode_shape(const json_t *j, struct shape_spec *out, struct bace_err *e)
{
	static const char *const keys[] = { "egress", "ingress", "delay", "mtu", "gso_max_bytes",
		"fail_closed", "allow_control_interface", "replace_foreign", "links", "tables" };
	struct wire_reader r = { .obj = j, .what = "plan", .e = e };
	json_t *links, *tables;

	*out = (struct shape_spec){ 0 };
	wire_read_only(&r, keys, ARRAY_LEN(keys));
	wire_read_copy(&r, "egress", out->egress, sizeof(out->egress));
	wire_read_copy(&r, "ingress", out->ingress, sizeof(out->ingress));
	out->delay = (enum delay_kind)wire_read_int(&r, "delay", DELAY_NONE, DELAY_NFQUEUE);
	out->mtu = (unsigned)wire_read_int(&r, "mtu", 0, 65536);
	out->gso_max_bytes = (uint32_t)wire_read_int(&r, "gso_max_bytes", 0, 1 << 20);
	out->fail_closed = wire_read_bool(&r, "fail_closed");
	out->allow_control_interface = wire_read_bool(&r, "allow_control_interface");
	out->replace_foreign = wire_read_bool(&r, "replace_foreign");
	links = wire_read_array(&r, "links", LINKS_MAX);
	tables = wire_read_array(&r, "tables", JITTER_TABLES_MAX);
	if (r.rc)
		return r.rc;
	out->links = calloc(json_array_size(links) + 1, sizeof(*out->links));
	out->tables = calloc(json_array_size(tables) + 1, sizeof(*out->tables));
	if (!out->links || !out->tables) {
		shape_spec_free(out);
		return bace_fail(e, ENOMEM, "plan: out of memory");
	}
	for (size_t i = 0; !r.rc && i < json_array_size(tables); i++)
		r.rc = decode_table(json_array_get(tables, i), &out->tables[i], e);
	for (size_t i = 0; !r.rc && i < json_array_size(links); i++)
		r.rc = decode_link(json_array_get(links, i), (int)i, &out->links[i], e);
	if (r.rc) {
		shape_spec_free(out);
		*out = (struct shape_spec){ 0 };
		return r.rc;
	}
	out->n_tables = (int)json_array_size(tables);
	out->n_links = (int)json_array_size(links);
	return 0;
}

json_t *wire_encode_stats(const struct shape_stats *s)
{
	json_t *v = json_array();

	for (int i = 0; i < s->n; i++) {
		const struct shape_stat *t = &s->v[i];

		json_array_append_new(v, json_pack("{s:i,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}",
			"region", (int)t->region, "rate_bps", (json_int_t)t->rate_bps,
			"bytes", (json_int_t)t->bytes, "packets", (json_int_t)t->packets,
			"drops", (json_int_t)t->drops, "backlog_bytes", (json_int_t)t->backlog_bytes,
			"latency_ns", (json_int_t)t->latency_ns,
			"delay_packets", (json_int_t)t->delay_packets,
			"delay_drops", (json_int_t)t->delay_drops));
	}
	return json_pack("{s:I,s:i,s:I,s:I,s:I,s:I,s:b,s:I,s:I,s:b,s:I,s:I,s:I,s:I,s:I,s:o}", "at_ns", (json_int_t)s->at_ns,
		"delay", (int)s->delay, "lateness_p99_ns", (json_int_t)s->lateness_p99_ns,
		"lateness_mean_ns", (json_int_t)s->lateness_mean_ns,
		"lateness_max_ns", (json_int_t)s->lateness_max_ns,
		"lateness_n", (json_int_t)s->lateness_n, "delay_realtime", s->delay_realtime,
		"queue_drops", (json_int_t)s->queue_drops, "user_drops", (json_int_t)s->user_drops,
		"delay_alive", s->delay_alive, "carrier_changes", (json_int_t)s->carrier_changes, "drift_repairs", (json_int_t)s->drift_repairs,
		"trace_changes", (json_int_t)s->trace_changes,
		"trace_late_p99_ns", (json_int_t)s->trace_late_p99_ns,
		"trace_late_max_ns", (json_int_t)s->trace_late_max_ns, "classes", v);
}

static int decode_class(const json_t *j, struct shape_stat *t, struct bace_err *e)
{
	static const char *const keys[] = { "region", "rate_bps", "bytes", "packets", "drops",
		"backlog_bytes", "latency_ns", "delay_packets", "delay_drops" };
	struct wire_reader r = { .obj = j, .what = "stats: class", .e = e };

	wire_read_only(&r, keys, ARRAY_LEN(keys));
	t->region = (uint16_t)wire_read_int(&r, "region", 0, UINT16_MAX);
	t->rate_bps = wire_read_u64(&r, "rate_bps", INT64_MAX);
	t->bytes = wire_read_u64(&r, "bytes", INT64_MAX);
	t->packets = wire_read_u64(&r, "packets", INT64_MAX);
	t->drops = wire_read_u64(&r, "drops", INT64_MAX);
	t->backlog_bytes = (uint32_t)wire_read_int(&r, "backlog_bytes", 0, UINT32_MAX);
	t->latency_ns = wire_read_int(&r, "latency_ns", 0, INT64_MAX);
	t->delay_packets = wire_read_u64(&r, "delay_packets", INT64_MAX);
	t->delay_drops = wire_read_u64(&r, "delay_drops", INT64_MAX);
	return r.rc;
}

int wire_decode_stats(const json_t *j, struct shape_stats *out, struct bace_err *e)
{
	static const char *const keys[] = { "at_ns", "delay", "lateness_p99_ns", "lateness_mean_ns",
		"lateness_max_ns", "lateness_n", "delay_realtime", "queue_drops", "user_drops",
		"delay_alive", "carrier_changes", "drift_repairs", "trace_changes", "trace_late_p99_ns", "trace_late_max_ns",
		"classes" };
	struct wire_reader r = { .obj = j, .what = "stats", .e = e };
	json_t *v;

	*out = (struct shape_stats){ 0 };
	wire_read_only(&r, keys, ARRAY_LEN(keys));
	out->at_ns = wire_read_int(&r, "at_ns", 0, INT64_MAX);
	out->delay = (enum delay_kind)wire_read_int(&r, "delay", DELAY_NONE, DELAY_NFQUEUE);
	/* A delay line can be early: its own correction overshoots. */
	out->lateness_p99_ns = wire_read_int(&r, "lateness_p99_ns", INT64_MIN, INT64_MAX);
	out->lateness_mean_ns = wire_read_int(&r, "lateness_mean_ns", INT64_MIN, INT64_MAX);
	out->lateness_max_ns = wire_read_int(&r, "lateness_max_ns", INT64_MIN, INT64_MAX);
	out->lateness_n = wire_read_u64(&r, "lateness_n", INT64_MAX);
	out->delay_realtime = wire_read_bool(&r, "delay_realtime");
	out->queue_drops = wire_read_u64(&r, "queue_drops", INT64_MAX);
	out->user_drops = wire_read_u64(&r, "user_drops", INT64_MAX);
	out->delay_alive = wire_read_bool(&r, "delay_alive");
	out->carrier_changes = wire_read_u64(&r, "carrier_changes", INT64_MAX);
	out->drift_repairs = wire_read_u64(&r, "drift_repairs", INT64_MAX);
	out->trace_changes = wire_read_u64(&r, "trace_changes", INT64_MAX);
	out->trace_late_p99_ns = wire_read_int(&r, "trace_late_p99_ns", 0, INT64_MAX);
	out->trace_late_max_ns = wire_read_int(&r, "trace_late_max_ns", 0, INT64_MAX);
	v = wire_read_array(&r, "classes", STATS_MAX);
	if (r.rc)
		return r.rc;
	out->v = calloc(json_array_size(v) + 1, sizeof(*out->v));
	if (!out->v)
		return bace_fail(e, ENOMEM, "stats: out of memory");
	out->n = (int)json_array_size(v);
	for (int i = 0; !r.rc && i < out->n; i++)
		r.rc = decode_class(json_array_get(v, (size_t)i), &out->v[i], e);
	if (r.rc)
		shape_stats_free(out);
	return r.rc;
}
