#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/control/cell.h"

static int malformed(const struct cell_rank *k, const char *what, size_t i, struct bace_err *e)
{
	return bace_fail(e, EPROTO, "%s: %s %zu of its report is not what it should be", k->proc.what, what, i);
}

static bool own_stage(const struct cell_run *r, const struct cell_rank *k, json_int_t stage)
{
	return stage >= 0 && stage < r->cell->jobs[k->job].n_stages &&
	       r->jobs[k->job].rank_of_stage[stage] == k->proc.rank;
}

static bool known_step(const struct cell_run *r, json_int_t step)
{
	return step >= -r->cell->warmup_steps && step < r->cell->steps;
}

/* n integers of one row. */
static bool read_row(const json_t *row, json_int_t *v, size_t n)
{
	if (json_array_size(row) != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		const json_t *x = json_array_get(row, i);

		if (!json_is_integer(x))
			return false;
		v[i] = json_integer_value(x);
	}
	return true;
}

/* Steps of all stages land in the job's step: [job][warmup + step]. */
static struct tb_step *step_slot(struct cell_run *r, int job, int step)
{
	int per_job = r->cell->warmup_steps + r->cell->steps;

	if (!r->out->steps) {
		r->out->steps = calloc((size_t)per_job * (size_t)r->cell->n_jobs + 1, sizeof(*r->out->steps));
		if (!r->out->steps)
			return NULL;
		r->out->n_steps = per_job * r->cell->n_jobs;
	}
	return &r->out->steps[job * per_job + r->cell->warmup_steps + step];
}

static int take_steps(struct cell_run *r, struct cell_rank *k, const json_t *a, struct bace_err *e)
{
	size_t want = json_array_size(a), most = (size_t)k->n_stages * (size_t)(r->cell->warmup_steps + r->cell->steps);
	size_t least = r->cell->steady_ppm ? (size_t)k->n_stages * (size_t)r->cell->steps : most;

	if (want < least || want > most)
		return bace_fail(e, EPROTO, "%s: reported %zu steps of its stages, not %zu", k->proc.what,
				 want, most);
	for (size_t i = 0; i < want; i++) {
		json_int_t v[5];	/* stage, step, start, end, compute */
		struct tb_step *s;

		if (!read_row(json_array_get(a, i), v, 5) || !own_stage(r, k, v[0]) || !known_step(r, v[1]) ||
		    v[3] < v[2] || v[4] < 0)
			return malformed(k, "step", i, e);
		s = step_slot(r, k->job, (int)v[1]);
		if (!s)
			return bace_fail(e, ENOMEM, "steps: out of memory");
		int64_t start = v[2] - k->proc.host->offset_ns, end = v[3] - k->proc.host->offset_ns;

		s->job = k->job;
		s->step = (int32_t)v[1];
		s->start_ns = s->start_ns && s->start_ns < start ? s->start_ns : start;
		s->end_ns = s->end_ns > end ? s->end_ns : end;
		s->compute_ns += v[4];
	}
	return 0;
}

static bool known_op(const struct cell_run *r, const struct tb_job *j, json_int_t stage, json_int_t kind,
		     json_int_t micro_batch)
{
	bool first = !stage, last = stage == j->n_stages - 1;

	if (kind >= TB_SEND_ACTIVATION && kind != TB_RECV_REDUCE && !r->cell->timeline_sends)
		return false;
	if (kind == TB_RECV_REDUCE || kind == TB_SEND_REDUCE)
		return j->rings && micro_batch >= 0 && micro_batch < 2 * (j->replicas - 1);
	/* Only interleaved has a hop into the first stage, and one back into the last. */
	if (tb_hops(j) < j->n_stages && ((first && (kind == TB_RECV_ACTIVATION || kind == TB_SEND_GRADIENT)) ||
					 (last && (kind == TB_RECV_GRADIENT || kind == TB_SEND_ACTIVATION))))
		return false;
	return kind >= TB_FORWARD && kind <= TB_SEND_GRADIENT && micro_batch >= 0 && micro_batch < j->micro_batches;
}

static int take_ops(struct cell_run *r, struct cell_rank *k, const json_t *a, struct bace_err *e)
{
	size_t n = (size_t)r->out->n_ops;

	for (size_t i = 0; i < json_array_size(a); i++) {
		json_int_t v[7];	/* stage, step, micro-batch, kind, start, end, planned end */
		int64_t off = k->proc.host->offset_ns;

		if (!read_row(json_array_get(a, i), v, 7) || !own_stage(r, k, v[0]) || !known_step(r, v[1]) ||
		    !known_op(r, &r->cell->jobs[k->job], v[0], v[3], v[2]))
			return malformed(k, "operation", i, e);
		if (BACE_PUSH(r->out->ops, n, r->cap_ops, ((struct tb_op){ .job = k->job,
			.stage = (int32_t)v[0], .step = (int32_t)v[1], .micro_batch = (int32_t)v[2],
			.kind = (uint8_t)v[3], .start_ns = v[4] - off, .end_ns = v[5] - off,
			.planned_end_ns = v[6] - off })))
			return bace_fail(e, ENOMEM, "operations: out of memory");
		r->out->n_ops = (int)n;
	}
	return 0;
}

/* Its rows by step, of the flow that was added last. */
static int take_flow_steps(struct cell_run *r, struct cell_rank *k, const json_t *a, struct bace_err *e)
{
	size_t n = (size_t)r->out->n_flow_steps;

	for (size_t i = 0; i < json_array_size(a); i++) {
		json_int_t v[11];	/* as worker.h has them */
		bool good = read_row(json_array_get(a, i), v, ARRAY_LEN(v)) && known_step(r, v[0]);

		for (size_t c = 1; good && c < ARRAY_LEN(v); c++)
			good = v[c] >= 0;
		if (!good || v[3] > UINT32_MAX || v[5] > UINT32_MAX)
			return malformed(k, "step of a flow", i, e);
		if (BACE_PUSH(r->out->flow_steps, n, r->cap_flow_steps, ((struct tb_flow_step){
			.flow = r->out->n_flows - 1, .step = (int32_t)v[0], .bytes_sent = (uint64_t)v[1],
			.retrans_bytes = (uint64_t)v[2], .rtt_us = (uint32_t)v[3], .delivery_rate_bps = (uint64_t)v[4],
			.min_rtt_us = (uint32_t)v[5], .cwnd_bytes = (uint64_t)v[6], .busy_us = (uint64_t)v[7],
			.rwnd_limited_us = (uint64_t)v[8], .sndbuf_limited_us = (uint64_t)v[9], .app_limited = v[10] })))
			return bace_fail(e, ENOMEM, "steps of flows: out of memory");
		r->out->n_flow_steps = (int)n;
	}
	return 0;
}

static int take_flow(struct cell_run *r, struct cell_rank *k, const json_t *j, size_t index,
		     struct bace_err *e)
{
	const struct tb_job *job = &r->cell->jobs[k->job];
	struct wire_reader rd = { .obj = j, .what = k->proc.what, .e = e };
	struct tb_flow f = { .job = k->job };
	const struct cell_hop *hop;
	size_t n = (size_t)r->out->n_flows;

	f.hop = (int32_t)wire_read_int(&rd, "hop", 0, 2 * job->n_stages);
	f.forward = wire_read_bool(&rd, "forward");
	f.payload_bytes = wire_read_u64(&rd, "payload_bytes", INT64_MAX);
	f.wire_bytes = wire_read_u64(&rd, "wire_bytes", INT64_MAX);
	f.retrans_bytes = wire_read_u64(&rd, "retrans_bytes", INT64_MAX);
	f.rtt_us = (uint32_t)wire_read_int(&rd, "rtt_us", 0, UINT32_MAX);
	f.min_rtt_us = (uint32_t)wire_read_int(&rd, "min_rtt_us", 0, UINT32_MAX);
	wire_read_copy(&rd, "congestion_control", f.congestion_control, sizeof(f.congestion_control));
	if (rd.rc)
		return rd.rc;
	hop = cell_hop_at(r, k, f.hop, !f.forward);
	if (!hop)
		return malformed(k, "flow", index, e);
	f.src_region = r->ranks[f.forward ? hop->from : hop->to].region;
	f.dst_region = r->ranks[f.forward ? hop->to : hop->from].region;
	if (BACE_PUSH(r->out->flows, n, r->cap_flows, f))
		return bace_fail(e, ENOMEM, "flows: out of memory");
	r->out->n_flows = (int)n;
	return take_flow_steps(r, k, json_object_get(j, "steps"), e);
}

int cell_take_done(struct cell_run *r, struct cell_rank *k, const json_t *line, struct bace_err *e)
{
	struct wire_reader rd = { .obj = line, .what = k->proc.what, .e = e };
	json_t *steps, *ops, *flows;
	int rc;

	k->late_ns = wire_read_int(&rd, "started_ns", 0, INT64_MAX) - k->go_ns;
	k->lateness_p99_ns = wire_read_int(&rd, "lateness_p99_ns", INT64_MIN, INT64_MAX);
	steps = wire_read_array(&rd, "steps", SIZE_MAX);
	ops = wire_read_array(&rd, "ops", INT32_MAX);
	flows = wire_read_array(&rd, "flows", INT32_MAX);
	if (rd.rc)
		return rd.rc;
	if (k->late_ns < 0)
		return bace_fail(e, EPROTO, "%s: started %.1f ms before it was to", k->proc.what, (double)-k->late_ns / 1e6);
	rc = take_steps(r, k, steps, e);
	if (!rc)
		rc = take_ops(r, k, ops, e);
	for (size_t i = 0; !rc && i < json_array_size(flows); i++)
		rc = take_flow(r, k, json_array_get(flows, i), i, e);
	return rc;
}

/* Steps that were left out after a steady state have no row. */
static void drop_left_out(struct tb_result *out)
{
	int n = 0;

	for (int i = 0; i < out->n_steps; i++)
		if (out->steps[i].start_ns || out->steps[i].end_ns)
			out->steps[n++] = out->steps[i];
	out->n_steps = n;
}

int cell_finish_steps(struct cell_run *r, struct bace_err *e)
{
	int64_t first = INT64_MAX, last = INT64_MIN;

	drop_left_out(r->out);
	for (int i = 0; i < r->n_ranks; i++) {
		const struct cell_rank *k = &r->ranks[i];

		if (!k->done)
			return bace_fail(e, ENODATA, "%s: never reported", k->proc.what);
		first = k->late_ns < first ? k->late_ns : first;
		last = k->late_ns > last ? k->late_ns : last;
		if (k->lateness_p99_ns > r->out->lateness_p99_ns)
			r->out->lateness_p99_ns = k->lateness_p99_ns;
	}
	r->out->barrier_spread_ns = last - first;
	return 0;
}

void tb_result_free(struct tb_result *r)
{
	free(r->steps);
	free(r->ops);
	free(r->flows);
	free(r->flow_steps);
	free(r->links);
	free(r->energy);
	tb_log_free(&r->log);
	r->steps = NULL;
	r->ops = NULL;
	r->flows = NULL;
	r->flow_steps = NULL;
	r->links = NULL;
	r->energy = NULL;
	r->n_steps = r->n_ops = r->n_flows = r->n_flow_steps = r->n_links = r->n_energy = 0;
}
