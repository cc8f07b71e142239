#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/monitor/monitor.h"

/* What a controller may ask for: few, fixed, checked. Each function answers or
 * sees to it that it is answered later; -errno is answered by the caller. */

static int do_plan(struct agent *a, json_int_t id, struct wire_reader *r)
{
	static const char *const keys[] = { "spec" };
	struct shape_spec spec;
	const json_t *j;
	int rc;

	wire_read_only(r, keys, ARRAY_LEN(keys));
	j = wire_read_object(r, "spec");
	if (r->rc)
		return r->rc;
	rc = wire_decode_shape(j, &spec, r->e);
	if (!rc)
		lease_plan(a->lease, id, &spec);
	return rc;
}

static int do_stats(struct agent *a, json_int_t id, struct wire_reader *r)
{
	wire_read_only(r, NULL, 0);
	if (!r->rc)
		lease_stats(a->lease, id);
	return r->rc;
}

static int do_change(struct agent *a, json_int_t id, struct wire_reader *r)
{
	static const char *const keys[] = { "changes" };
	struct shape_change *v;
	json_t *j;
	int n, rc;

	wire_read_only(r, keys, ARRAY_LEN(keys));
	j = wire_read_array(r, "changes", WIRE_CHANGES_MAX);
	if (r->rc)
		return r->rc;
	rc = wire_decode_changes(j, &v, &n, r->e);
	if (!rc)
		lease_change(a->lease, id, v, n);
	return rc;
}

void requests_forget(struct agent *a)
{
	shape_trace_free(&a->trace);
	a->trace = (struct shape_trace){ 0 };
}

/* Puts what came before in front of t, whose points it takes. */
static int go_on_with_trace(struct agent *a, uint16_t region, struct shape_trace *t, struct bace_err *e)
{
	size_t n = a->trace.n + t->n;
	struct shape_trace_point *v;

	if (a->trace.n && a->trace_region != region)
		return bace_fail(e, EPROTO, "trace: of region %u, while that of region %u is not whole", region, a->trace_region);
	if (n > WIRE_TRACE_POINTS_MAX)
		return bace_fail(e, EINVAL, "trace: more than %d points", WIRE_TRACE_POINTS_MAX);
	v = realloc(a->trace.v, (n + 1) * sizeof(*v));
	if (!v)
		return bace_fail(e, ENOMEM, "trace: out of memory");
	memcpy(v + a->trace.n, t->v, t->n * sizeof(*v));
	free(t->v);
	*t = (struct shape_trace){ .n = n, .v = v, .period_ns = t->period_ns };
	a->trace = (struct shape_trace){ 0 };
	return 0;
}

static int do_trace(struct agent *a, json_int_t id, struct wire_reader *r)
{
	static const char *const keys[] = { "trace" };
	struct wire_trace head;
	struct shape_trace t;
	const json_t *j;
	int rc;

	wire_read_only(r, keys, ARRAY_LEN(keys));
	j = wire_read_object(r, "trace");
	if (r->rc)
		return r->rc;
	rc = wire_decode_trace(j, &head, &t, r->e);
	if (rc)
		return rc;
	rc = go_on_with_trace(a, head.region, &t, r->e);
	if (rc) {
		shape_trace_free(&t);
		requests_forget(a);
		return rc;
	}
	if (head.more) {
		a->trace = t;
		a->trace_region = head.region;
		session_answer(a, a->session, id, NULL, NULL);
	} else {
		lease_trace(a->lease, id, &head, &t);
	}
	return 0;
}

static int do_launch(struct agent *a, json_int_t id, struct wire_reader *r)
{
	static const char *const keys[] = { "cell", "rank", "slot", "slots", "program", "nic", "config" };
	struct launch l = { 0 };
	json_t *answer = NULL;
	int rc;

	wire_read_only(r, keys, ARRAY_LEN(keys));
	l.cell = wire_read_int(r, "cell", 1, INT64_MAX);
	l.rank = (int)wire_read_int(r, "rank", 0, 1000000);
	l.slots = (int)wire_read_int(r, "slots", 0, 4096);
	l.slot = (int)wire_read_int(r, "slot", 0, l.slots > 0 ? l.slots - 1 : 0);
	l.program = wire_read_str(r, "program", 40);
	wire_read_copy(r, "nic", l.nic, sizeof(l.nic));
	l.config = wire_read_object(r, "config");
	if (r->rc)
		return r->rc;
	rc = worker_launch(a, &l, &answer, r->e);
	if (!rc)
		session_answer(a, a->session, id, answer, NULL);
	return rc;
}

static int do_tell(struct agent *a, json_int_t id, struct wire_reader *r)
{
	static const char *const keys[] = { "cell", "rank", "line" };
	json_int_t cell;
	const json_t *line;
	int rank, rc;

	wire_read_only(r, keys, ARRAY_LEN(keys));
	cell = wire_read_int(r, "cell", 1, INT64_MAX);
	rank = (int)wire_read_int(r, "rank", 0, 1000000);
	line = wire_read_object(r, "line");
	if (r->rc)
		return r->rc;
	rc = worker_tell(a, cell, rank, line, r->e);
	if (!rc)
		session_answer(a, a->session, id, NULL, NULL);
	return rc;
}

static int do_stop(struct agent *a, json_int_t id, struct wire_reader *r)
{
	static const char *const keys[] = { "cell" };
	json_int_t cell;

	wire_read_only(r, keys, ARRAY_LEN(keys));
	cell = wire_read_int(r, "cell", 0, INT64_MAX);
	if (!r->rc)
		workers_stop(a, cell, id);
	return r->rc;
}

static int do_clear(struct agent *a, json_int_t id, struct wire_reader *r)
{
	wire_read_only(r, NULL, 0);
	if (r->rc)
		return r->rc;
	workers_stop(a, 0, 0);
	lease_drop(a->lease, id);
	return 0;
}

static int do_clock(struct agent *a, json_int_t id, struct wire_reader *r)
{
	wire_read_only(r, NULL, 0);
	if (!r->rc)
		session_answer(a, a->session, id, json_pack("{s:I}", "mono_ns", (json_int_t)bace_mono_ns()),
			       NULL);
	return r->rc;
}

static int do_energy(struct agent *a, json_int_t id, struct wire_reader *r)
{
	wire_read_only(r, NULL, 0);
	if (!r->rc)
		session_answer(a, a->session, id, json_pack("{s:I,s:o}", "at_ns", (json_int_t)bace_mono_ns(),
							    "readings", power_energy()), NULL);
	return r->rc;
}

static int do_routes(struct agent *a, json_int_t id, struct wire_reader *r)
{
	static const char *const keys[] = { "addrs" };
	json_t *addrs, *v, *answer = NULL;
	size_t i;

	wire_read_only(r, keys, ARRAY_LEN(keys));
	addrs = wire_read_array(r, "addrs", WIRE_ROUTES_MAX);
	json_array_foreach(addrs, i, v)
		if (!r->rc && (!json_is_string(v) || json_string_length(v) > 45))
			r->rc = bace_fail(r->e, EPROTO, "routes: addresses must be strings of at most 45 characters");
	if (!r->rc)
		r->rc = routes_describe(wire_peer_addr(a->conn), addrs, &answer, r->e);
	if (!r->rc)
		session_answer(a, a->session, id, answer, NULL);
	return r->rc;
}

static int do_sample(struct agent *a, json_int_t id, struct wire_reader *r)
{
	json_t *answer = NULL;
	int rc = monitor_configure(a->monitor, r, &answer);

	if (!rc)
		session_answer(a, a->session, id, answer, NULL);
	return rc;
}

static const struct {
	const char *type;
	int (*run)(struct agent *a, json_int_t id, struct wire_reader *r);
} requests[] = {
	{ "plan", do_plan },	{ "stats", do_stats }, { "launch", do_launch }, { "tell", do_tell },
	{ "stop", do_stop },	{ "clear", do_clear }, { "clock", do_clock },   { "sample", do_sample },
	{ "change", do_change }, { "trace", do_trace }, { "energy", do_energy },
	{ "routes", do_routes },
};

void request_handle(struct agent *a, const char *type, json_int_t id, const json_t *msg)
{
	struct bace_err e = { 0 };
	struct wire_reader r = { .obj = msg, .what = type, .e = &e };

	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		if (strcmp(requests[i].type, type))
			continue;
		if (requests[i].run(a, id, &r))
			session_answer(a, a->session, id, NULL, &e);
		return;
	}
	bace_fail(&e, EPROTO, "unknown request `%.40s'", type);
	session_answer(a, a->session, id, NULL, &e);
}
