/* Changes of links in place, at once or over time, as JSON. */
#include <errno.h>
#include <stdlib.h>

#include "agent/wire/wire.h"

#define RATE_MAX 10000000000000ull	/* wider than any shaper's; shaperd refuses the rest */
#define TIME_MAX 3600000000000ll
#define TRACE_MAX_NS 100000000000000000ll

static json_t *encode_values(const struct shape_change *v)
{
	json_t *o = json_object();

	if (v->set & SHAPE_SET_RATE)
		json_object_set_new(o, "rate_bps", json_integer((json_int_t)v->rate_bps));
	if (v->set & SHAPE_SET_LATENCY)
		json_object_set_new(o, "latency_ns", json_integer(v->latency_ns));
	if (v->set & SHAPE_SET_LOSS)
		json_object_set_new(o, "loss", json_real(v->loss));
	return o;
}

static void decode_values(struct wire_reader *r, struct shape_change *v)
{
	if (json_object_get(r->obj, "rate_bps")) {
		v->rate_bps = wire_read_u64(r, "rate_bps", RATE_MAX);
		v->set |= SHAPE_SET_RATE;
	}
	if (json_object_get(r->obj, "latency_ns")) {
		v->latency_ns = wire_read_int(r, "latency_ns", 0, TIME_MAX);
		v->set |= SHAPE_SET_LATENCY;
	}
	if (json_object_get(r->obj, "loss")) {
		v->loss = wire_read_num(r, "loss", 0, 1);
		v->set |= SHAPE_SET_LOSS;
	}
}

json_t *wire_encode_changes(const struct shape_change *v, int n)
{
	json_t *a = json_array();

	for (int i = 0; i < n; i++) {
		json_t *o = encode_values(&v[i]);

		json_object_set_new(o, "region", json_integer(v[i].region));
		json_array_append_new(a, o);
	}
	return a;
}

static int decode_change(const json_t *j, int index, struct shape_change *v, struct bace_err *e)
{
	static const char *const keys[] = { "region", "rate_bps", "latency_ns", "loss" };
	char what[48];
	struct wire_reader r = { .obj = j, .what = what, .e = e };

	snprintf(what, sizeof(what), "change %d", index);
	wire_read_only(&r, keys, ARRAY_LEN(keys));
	v->region = (uint16_t)wire_read_int(&r, "region", 0, UINT16_MAX - SHAPE_MINOR_BASE);
	decode_values(&r, v);
	return r.rc;
}

int wire_decode_changes(const json_t *j, struct shape_change **out, int *n, struct bace_err *e)
{
	size_t count = json_array_size(j);
	struct shape_change *v;
	int rc = 0;

	if (!json_is_array(j) || !count || count > WIRE_CHANGES_MAX)
		return bace_fail(e, EPROTO, "changes: must be an array of 1 to %d", WIRE_CHANGES_MAX);
	v = calloc(count, sizeof(*v));
	if (!v)
		return bace_fail(e, ENOMEM, "changes: out of memory");
	for (size_t i = 0; i < count && !rc; i++)
		rc = decode_change(json_array_get(j, i), (int)i, &v[i], e);
	if (rc) {
		free(v);
		return rc;
	}
	*out = v;
	*n = (int)count;
	return 0;
}

json_t *wire_encode_trace(const struct wire_trace *head, const struct shape_trace *t)
{
	json_t *points = json_array();

	for (size_t i = 0; i < t->n; i++) {
		json_t *o = encode_values(&t->v[i].to);

		json_object_set_new(o, "at_ns", json_integer(t->v[i].at_ns));
		json_array_append_new(points, o);
	}
	return json_pack("{s:i,s:b,s:b,s:I,s:I,s:I,s:o}", "region", (int)head->region, "loop", head->loop,
			 "more", head->more, "start_real_ns", (json_int_t)head->start_real_ns,
			 "start_mono_ns", (json_int_t)head->start_mono_ns,
			 "period_ns", (json_int_t)t->period_ns, "points", points);
}

static int decode_point(const json_t *j, int index, struct shape_trace_point *p, struct bace_err *e)
{
	static const char *const keys[] = { "at_ns", "rate_bps", "latency_ns", "loss" };
	char what[48];
	struct wire_reader r = { .obj = j, .what = what, .e = e };

	snprintf(what, sizeof(what), "trace: point %d", index);
	wire_read_only(&r, keys, ARRAY_LEN(keys));
	p->at_ns = wire_read_int(&r, "at_ns", 0, TRACE_MAX_NS);
	decode_values(&r, &p->to);
	return r.rc;
}

int wire_decode_trace(const json_t *j, struct wire_trace *head, struct shape_trace *out, struct bace_err *e)
{
	static const char *const keys[] = { "region", "loop", "more", "start_real_ns", "start_mono_ns", "period_ns",
		"points" };
	struct wire_reader r = { .obj = j, .what = "trace", .e = e };
	json_t *points;

	*out = (struct shape_trace){ 0 };
	wire_read_only(&r, keys, ARRAY_LEN(keys));
	head->region = (uint16_t)wire_read_int(&r, "region", 0, UINT16_MAX - SHAPE_MINOR_BASE);
	head->loop = wire_read_bool(&r, "loop");
	head->more = wire_read_bool(&r, "more");
	head->start_real_ns = wire_read_int(&r, "start_real_ns", 0, INT64_MAX);
	head->start_mono_ns = wire_read_int(&r, "start_mono_ns", 0, INT64_MAX);
	out->period_ns = wire_read_int(&r, "period_ns", 0, TRACE_MAX_NS);
	points = wire_read_array(&r, "points", WIRE_TRACE_POINTS_MAX);
	if (r.rc)
		return r.rc;
	out->v = calloc(json_array_size(points) + 1, sizeof(*out->v));
	if (!out->v)
		return bace_fail(e, ENOMEM, "trace: out of memory");
	out->n = json_array_size(points);
	for (size_t i = 0; i < out->n && !r.rc; i++)
		r.rc = decode_point(json_array_get(points, i), (int)i, &out->v[i], e);
	if (r.rc)
		shape_trace_free(out);
	return r.rc;
}
