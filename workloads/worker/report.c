#include "workloads/worker/report.h"

#include <errno.h>
#include <stdlib.h>

#include "workloads/worker/events.h"
#include "workloads/worker/net.h"

static json_t *steps_json(const struct engine *en)
{
	const struct step_record *v;
	size_t n = engine_steps(en, &v);
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(a, json_pack("[i,i,I,I,I]", v[i].stage, v[i].step,
			(json_int_t)v[i].start, (json_int_t)v[i].end, (json_int_t)v[i].compute));
	return a;
}

static json_t *ops_json(const struct engine *en)
{
	const struct op_record *v;
	size_t n = engine_ops(en, &v);
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(a, json_pack("[i,i,i,i,I,I,I]", v[i].stage, v[i].step,
			v[i].micro_batch, v[i].kind, (json_int_t)v[i].start, (json_int_t)v[i].end,
			(json_int_t)v[i].planned_end));
	return a;
}

static json_t *flows_json(const struct worker_spec *s, struct hop_conn *conns)
{
	json_t *a = json_array();

	for (int i = 0; i < s->n_hops; i++) {
		const struct worker_hop_spec *h = &s->hops[i];
		struct net_info t;

		if (h->kind != HOP_TCP || conns[i].fd < 0 || net_info(conns[i].fd, &t))
			continue;
		json_array_append_new(a, json_pack("{s:i,s:b,s:I,s:I,s:I,s:i,s:i,s:s}", "hop", h->hop,
			"forward", h->role == HOP_CONNECT, "payload_bytes",
			(json_int_t)conns[i].payload_bytes, "wire_bytes", (json_int_t)t.wire_bytes,
			"retrans_bytes", (json_int_t)t.retrans_bytes, "rtt_us", (int)t.rtt_us,
			"min_rtt_us", (int)t.min_rtt_us, "congestion_control", t.congestion_control));
	}
	return a;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* How late timed operations were noticed, 99th percentile. */
static int64_t lateness_p99(const struct engine *en)
{
	const struct op_record *v;
	size_t n = engine_ops(en, &v), k = 0;
	CLEANUP_FREE int64_t *late = calloc(n + 1, sizeof(*late));

	for (size_t i = 0; late && i < n; i++)
		if (v[i].kind <= 2 && v[i].step >= 0)
			late[k++] = v[i].end - v[i].planned_end;
	if (!k)
		return 0;
	qsort(late, k, sizeof(*late), by_value);
	return late[(k - 1) * 99 / 100];
}

int report_done(const struct worker_spec *s, const struct engine *en, struct hop_conn *conns,
		int64_t started, struct bace_err *e)
{
	json_t *j = json_pack("{s:s,s:I,s:I,s:o,s:o,s:o}", "event", "done", "started_ns",
		(json_int_t)started, "lateness_p99_ns", (json_int_t)lateness_p99(en), "steps",
		steps_json(en), "ops", ops_json(en), "flows", flows_json(s, conns));

	if (!j)
		return bace_fail(e, ENOMEM, "report: out of memory");
	event_send(j);
	return 0;
}
