/* Frames of the control protocol: what is accepted is a checked object, and the
 * bodies that both ends decode survive being encoded and decoded again. */
#include <stdlib.h>
#include <string.h>

#include "agent/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void refused(int rc, const struct bace_err *e)
{
	if (rc >= 0 || rc != -e->errnum || !*e->msg)
		abort();
}

static void shape(const json_t *j)
{
	struct shape_spec a = { 0 }, b = { 0 };
	struct bace_err e = { 0 };
	int rc = wire_decode_shape(j, &a, &e);

	if (rc) {
		refused(rc, &e);
	} else {
		json_t *again = wire_encode_shape(&a);

		if (!again || wire_decode_shape(again, &b, &e) || a.n_links != b.n_links || a.mtu != b.mtu ||
		    strcmp(a.egress, b.egress) || a.delay != b.delay || a.n_tables != b.n_tables)
			abort();
		for (int i = 0; i < a.n_tables; i++)
			if (memcmp(&a.tables[i], &b.tables[i], sizeof(a.tables[i])))
				abort();
		for (int i = 0; i < a.n_links; i++)
			if (a.links[i].rate_bps != b.links[i].rate_bps || a.links[i].region != b.links[i].region ||
			    a.links[i].latency_ns != b.links[i].latency_ns)
				abort();
		json_decref(again);
		shape_spec_free(&b);
	}
	shape_spec_free(&a);
}

static void stats(const json_t *j)
{
	struct shape_stats a = { 0 }, b = { 0 };
	struct bace_err e = { 0 };
	int rc = wire_decode_stats(j, &a, &e);

	if (rc) {
		refused(rc, &e);
		return;
	}
	json_t *again = wire_encode_stats(&a);

	if (!again || wire_decode_stats(again, &b, &e) || a.n != b.n || a.at_ns != b.at_ns)
		abort();
	json_decref(again);
	shape_stats_free(&a);
	shape_stats_free(&b);
}

static void changes(const json_t *j)
{
	struct shape_change *a = NULL, *b = NULL;
	struct bace_err e = { 0 };
	int n = 0, m = 0, rc = wire_decode_changes(j, &a, &n, &e);

	if (rc) {
		refused(rc, &e);
		return;
	}
	json_t *again = wire_encode_changes(a, n);

	if (!again || wire_decode_changes(again, &b, &m, &e) || n != m)
		abort();
	for (int i = 0; i < n; i++)
		if (a[i].set != b[i].set || a[i].region != b[i].region || a[i].rate_bps != b[i].rate_bps ||
		    a[i].latency_ns != b[i].latency_ns)
			abort();
	json_decref(again);
	free(a);
	free(b);
}

static void trace(const json_t *j)
{
	struct wire_trace head = { 0 }, head_again = { 0 };
	struct shape_trace a = { 0 }, b = { 0 };
	struct bace_err e = { 0 };
	int rc = wire_decode_trace(j, &head, &a, &e);

	if (rc) {
		refused(rc, &e);
		return;
	}
	json_t *again = wire_encode_trace(&head, &a);

	if (!again || wire_decode_trace(again, &head_again, &b, &e) || a.n != b.n || a.period_ns != b.period_ns ||
	    head.start_real_ns != head_again.start_real_ns || head.loop != head_again.loop)
		abort();
	json_decref(again);
	shape_trace_free(&a);
	shape_trace_free(&b);
}

/* Every kind of field under every name that messages have. */
static void fields(const json_t *msg)
{
	static const char *const names[] = { "id", "cell", "rank", "ranks", "program", "config", "line", "name",
					     "version", "inventory", "sources", "text", "spec", "stats" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		for (int kind = 0; kind < 6; kind++) {
			struct bace_err e = { 0 };
			struct wire_reader r = { .obj = msg, .what = "fuzz", .e = &e };
			char small[8];

			switch (kind) {
			case 0: wire_read_int(&r, names[i], 0, 1000); break;
			case 1: wire_read_num(&r, names[i], -1, 1); break;
			case 2: wire_read_copy(&r, names[i], small, sizeof(small)); break;
			case 3: wire_read_array(&r, names[i], 3); break;
			case 4: wire_read_object(&r, names[i]); break;
			case 5: wire_read_u64(&r, names[i], 1 << 20); break;
			}
			if (r.rc)
				refused(r.rc, &e);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct wire_limits limits = { .max_frame = WIRE_FIRST_FRAME, .max_values = 4096 };
	json_t *msg = NULL;
	struct bace_err e = { 0 };
	int rc = wire_parse((const char *)data, size, &limits, &msg, &e);

	if (rc) {
		refused(rc, &e);
		if (msg)
			abort();
		return 0;
	}
	if (!json_is_object(msg) || !json_is_string(json_object_get(msg, "type")) ||
	    !json_is_integer(json_object_get(msg, "id")))
		abort();
	fields(msg);
	if (json_object_get(msg, "spec"))
		shape(json_object_get(msg, "spec"));
	if (json_object_get(msg, "stats"))
		stats(json_object_get(msg, "stats"));
	if (json_object_get(msg, "changes"))
		changes(json_object_get(msg, "changes"));
	if (json_object_get(msg, "trace"))
		trace(json_object_get(msg, "trace"));
	json_decref(msg);
	return 0;
}
