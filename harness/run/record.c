#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/internal.h"

static const char *const op_names[] = { "F", "B", "W", "recvF", "recvB", "sendF", "sendB" };

/* Ends a transaction: commit when rc is 0. */
static int finish(struct run *r, int rc, struct bace_err *e)
{
	if (!rc)
		return store_commit(r->store, e);
	store_rollback(r->store);
	return rc;
}

int record_truth(struct run *r, struct bace_err *e)
{
	const struct cluster *c = &r->exp->cluster;
	const struct testbed_spec *t = &r->exp->testbed;
	int n = c->n_regions;
	CLEANUP_FREE struct link_computed *made = calloc((size_t)(n * n) + 1, sizeof(*made));
	int rc = made ? links_computed(r, made, e) : bace_fail(e, ENOMEM, "links: out of memory");

	if (!rc)
		rc = store_begin(r->store, e);
	if (rc)
		return rc;
	for (int i = 0; !rc && i < n * n; i++) {
		const struct link *l = &c->links[i];

		if (!l->present)
			continue;
		rc = store_add_link_truth(r->store, r->id, &(struct link_truth_row){
			.src = c->regions[i / n].name, .dst = c->regions[i % n].name,
			.rate_bps = (double)l->rate_bps, .latency_s = (double)l->latency_ns / 1e9,
			.jitter_s = (double)l->jitter_ns / 1e9, .loss = l->loss,
			.scaled_rate_bps = (double)l->rate_bps * t->scale_bytes / t->scale_time,
			.scaled_latency_s = (double)l->latency_ns / 1e9 * t->scale_time,
			.buffer_bytes = (double)l->buffer_bytes, .burst_bytes = made[i].burst_bytes,
			.queue_bytes = made[i].queue_bytes, .gso_max_bytes = made[i].gso_max_bytes,
			.initcwnd_segments = made[i].initcwnd_segments,
			.delay_limit_packets = made[i].delay_limit_packets }, e);
	}
	return finish(r, rc, e);
}

int record_verify(struct run *r, int n, const struct tb_verify *v, struct bace_err *e)
{
	const struct cluster *c = &r->exp->cluster;
	int rc = store_begin(r->store, e);

	for (int i = 0; !rc && i < n; i++)
		rc = store_add_plan_check(r->store, r->id, &(struct plan_check_row){
			.src = c->regions[v[i].src].name, .dst = c->regions[v[i].dst].name,
			.planned_rtt_s = v[i].planned_rtt_s, .rtt_min_s = v[i].rtt_min_s,
			.rtt_median_s = v[i].rtt_median_s, .rtt_p99_s = v[i].rtt_p99_s,
			.planned_goodput_bps = v[i].planned_goodput_bps,
			.goodput_bps = v[i].goodput_bps }, e);
	return finish(r, rc, e);
}

int record_skip(struct run *r, const char *policy, const char *what, const char *why,
		struct bace_err *e)
{
	int rc = store_begin(r->store, e);

	if (!rc)
		rc = store_add_skip(r->store, r->id, &(struct skip_row){
			.policy = policy, .what = what, .why = why }, e);
	return finish(r, rc, e);
}

static int add_decisions(struct run *r, struct bace_err *e)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < r->n_decisions; i++) {
		const struct decided *d = &r->decisions[i];

		rc = store_add_decision(r->store, r->id, &(struct decision_row){ .policy = r->policy, .oracle = r->oracle,
			.at_s = d->at_s, .view_digest = d->view_digest, .latency_s = d->latency_s,
			.job = d->job < 0 ? NULL : r->exp->jobs[d->job].name }, e);
	}
	return rc;
}

int record_decisions(struct run *r, struct bace_err *e)
{
	int rc = store_begin(r->store, e);

	if (!rc)
		rc = add_decisions(r, e);
	return finish(r, rc, e);
}

int record_outcomes(struct run *r, const struct cluster_result *res, struct bace_err *e)
{
	int rc = store_begin(r->store, e);

	for (int i = 0; !rc && i < res->n; i++) {
		const struct job_outcome *j = &res->jobs[i];
		CLEANUP_FREE char *p = j->placement.n_parts ?
			placement_format(&r->exp->cluster, &j->placement) : NULL;

		rc = store_add_job_outcome(r->store, r->id, &(struct job_outcome_row){
			.policy = r->policy, .oracle = r->oracle, .job = r->exp->jobs[j->job].name,
			.finished = j->finished, .arrival_s = j->arrival_s, .start_s = j->start_s,
			.finish_s = j->finish_s, .jct_s = j->jct_s, .waiting_s = j->waiting_s,
			.slowdown = j->slowdown, .energy_j = j->energy_j, .cost_usd = j->cost_usd,
			.mean_step_s = j->mean_step_s, .placement = p ? p : "" }, e);
	}
	if (!rc)
		rc = add_decisions(r, e);
	return finish(r, rc, e);
}

static int add_steps(struct run *r, int64_t id, const struct tb_cell *cell,
		     const struct tb_result *res, int job, struct bace_err *e)
{
	double scale = r->exp->testbed.scale_time * 1e9;
	int rc = 0;

	for (int i = 0; !rc && i < res->n_steps; i++) {
		const struct tb_step *s = &res->steps[i];

		if (s->job != job)
			continue;
		double step = (double)(s->end_ns - s->start_ns) / scale;
		double compute = (double)s->compute_ns / scale / cell->jobs[job].n_stages;

		rc = store_add_step(r->store, &(struct step_row){ .placement_id = id, .step = s->step,
			.step_s = step, .compute_s = compute, .stall_s = step - compute }, e);
	}
	return rc;
}

static const struct tb_link_check *link_check(const struct tb_result *res, int src, int dst)
{
	for (int i = 0; i < res->n_links; i++)
		if (res->links[i].src == src && res->links[i].dst == dst)
			return &res->links[i];
	return NULL;
}

/* What event simulation gives the job of its links, at testbed scale; NULL: out of memory. */
static struct hop_cost *planned_hops(const struct moment *m, int which)
{
	int n = m->placements[which]->n_gpus;
	struct hop_cost *v = calloc((size_t)n * 2, sizeof(*v));
	bool wraps = m->exp->schedule == SCHED_INTERLEAVED_1F1B;

	if (v && (wraps ? moment_hops_wrapped(m, which, v, v + n) : moment_hops(m, which, v, v + n))) {
		free(v);
		return NULL;
	}
	return v;
}

static double planned_goodput(const struct moment *m, int which, const struct hop_cost *hops, const struct tb_flow *f)
{
	const struct placement *p = m->placements[which];
	const struct testbed_spec *t = &m->exp->testbed;
	double bits = 8 * m->models->v[p->job].boundary_bytes;
	double ser = hops[f->hop + (f->forward ? 0 : p->n_gpus)].serialisation_s;

	return ser > 0 ? bits / ser * t->scale_bytes / t->scale_time : 0;
}

static int add_transfer_steps(struct run *r, int64_t id, const struct tb_result *res, int flow, struct bace_err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < res->n_flow_steps; i++) {
		const struct tb_flow_step *s = &res->flow_steps[i];

		if (s->flow != flow)
			continue;
		rc = store_add_transfer_step(r->store, &(struct transfer_step_row){ .placement_id = id,
			.hop = res->flows[flow].hop, .forward = res->flows[flow].forward, .step = s->step,
			.sent_bytes = (double)s->bytes_sent, .retrans_bytes = (double)s->retrans_bytes,
			.busy_s = (double)s->busy_us / 1e6, .rwnd_limited_s = (double)s->rwnd_limited_us / 1e6,
			.sndbuf_limited_s = (double)s->sndbuf_limited_us / 1e6, .cwnd_bytes = (double)s->cwnd_bytes,
			.rtt_s = s->rtt_us / 1e6, .min_rtt_s = s->min_rtt_us / 1e6,
			.delivery_rate_bps = (double)s->delivery_rate_bps, .app_limited = s->app_limited }, e);
	}
	return rc;
}

/* Stock TCP begins anew after a pause, with the kernel's ten segments; not bbr. */
static double idle_window_bytes(const struct experiment *exp, const char *congestion_control)
{
	return exp->testbed.wan == WAN_STOCK && strncmp(congestion_control, "bbr", 3) ? 10.0 * (exp->cluster.mtu - 52) : 0;
}

static int add_transfers(struct run *r, int64_t id, const struct moment *m, int which, const struct tb_result *res,
			 struct bace_err *e)
{
	CLEANUP_FREE struct hop_cost *hops = planned_hops(m, which);
	const struct cluster *c = &r->exp->cluster;
	int rc = hops ? 0 : bace_fail(e, ENOMEM, "transfers: out of memory");

	for (int i = 0; !rc && i < res->n_flows; i++) {
		const struct tb_flow *f = &res->flows[i];

		if (f->job != which || f->src_region == f->dst_region)
			continue;
		const struct tb_link_check *l = link_check(res, f->src_region, f->dst_region);

		rc = store_add_transfer(r->store, &(struct transfer_row){
			.placement_id = id, .hop = f->hop, .src = c->regions[f->src_region].name,
			.dst = c->regions[f->dst_region].name, .forward = f->forward,
			.payload_bytes = (double)f->payload_bytes, .wire_bytes = (double)f->wire_bytes,
			.retrans_bytes = (double)f->retrans_bytes,
			.tc_bytes = l ? (double)l->tc_bytes : 0, .rtt_s = f->rtt_us / 1e6,
			.min_rtt_s = f->min_rtt_us / 1e6, .congestion_control = f->congestion_control,
			.valid = l && l->valid, .planned_goodput_bps = planned_goodput(m, which, hops, f),
			.idle_window_bytes = idle_window_bytes(r->exp, f->congestion_control) }, e);
		if (!rc)
			rc = add_transfer_steps(r, id, res, i, e);
	}
	return rc;
}

static int add_ops(struct run *r, int64_t id, const struct tb_result *res, int job,
		   struct bace_err *e)
{
	int64_t origin = INT64_MAX;
	int rc = 0;

	for (int i = 0; i < res->n_ops; i++)
		if (res->ops[i].start_ns < origin)
			origin = res->ops[i].start_ns;
	for (int i = 0; !rc && i < res->n_ops; i++) {
		const struct tb_op *o = &res->ops[i];

		if (o->job != job || o->step < 0 || o->kind >= ARRAY_LEN(op_names))
			continue;
		rc = store_add_op(r->store, &(struct op_row){ .placement_id = id, .stage = o->stage,
			.step = o->step, .micro_batch = o->micro_batch, .kind = op_names[o->kind],
			.start_s = (double)(o->start_ns - origin) / 1e9,
			.end_s = (double)(o->end_ns - origin) / 1e9,
			.planned_end_s = (double)(o->planned_end_ns - origin) / 1e9 }, e);
	}
	return rc;
}

struct sim_ops {
	struct run *r;
	int64_t placement;
	int rc;
	struct bace_err *e;
};

static void add_sim_op(void *arg, const struct predicted_op *op)
{
	struct sim_ops *a = arg;
	double scale = a->r->exp->testbed.scale_time;
	int kind = op->kind + (op->received ? 3 : 0);

	if (!a->rc)
		a->rc = store_add_sim_op(a->r->store, &(struct op_row){ .placement_id = a->placement,
			.stage = op->stage, .micro_batch = op->micro_batch, .kind = op_names[kind],
			.start_s = op->start_s * scale, .end_s = op->end_s * scale }, a->e);
}

/* What event simulation says one step is made of, to set beside what was measured. */
static int add_sim_ops(struct run *r, int64_t id, const struct moment *m, int which, struct bace_err *e)
{
	struct sim_ops a = { r, id, 0, e };
	int rc = oracle_event_sim_ops(r->event_sim, m, which, add_sim_op, &a, e);

	return rc ? rc : a.rc;
}

static int add_placement(struct run *r, const struct moment *m, int which,
			 const struct measured_moment *mm, int place, double closed_form_s,
			 double event_sim_s, int64_t *id, struct bace_err *e)
{
	const struct placement *p = m->placements[which];
	const struct measured_job *j = &mm->jobs[place];
	CLEANUP_FREE char *text = placement_format(&r->exp->cluster, p);
	bool ok = mm->valid;

	return store_add_placement(r->store, r->id, &(struct placement_row){
		.policy = r->policy, .job = r->exp->jobs[p->job].name, .placement = text ? text : "",
		.stages = p->n_gpus, .micro_batches = m->models->v[p->job].m, .moment = mm->key,
		.jobs_at_once = m->n, .closed_form_s = closed_form_s, .event_sim_s = event_sim_s,
		.valid = ok, .invalid_why = mm->why, .n_steps = ok ? j->n_steps : 0,
		.measured_median_s = ok ? j->median_s : NAN, .measured_p95_s = ok ? j->p95_s : NAN,
		.measured_first_s = ok ? j->first_s : NAN, .compute_s = ok ? j->compute_s : NAN,
		.delay_lateness_p99_s = mm->delay_late_s },
		id, e);
}

static int add_settled_moment(struct run *r, const struct measured_moment *mm, struct bace_err *e)
{
	CLEANUP_FREE double *median = calloc((size_t)mm->n + 1, sizeof(double));
	CLEANUP_FREE double *busy = calloc((size_t)mm->n + 1, sizeof(double));

	if (!median || !busy)
		return bace_fail(e, ENOMEM, "moment of %d jobs: out of memory", mm->n);
	for (int i = 0; i < mm->n; i++) {
		median[i] = mm->jobs[i].median_s;
		busy[i] = mm->jobs[i].busy;
	}
	return store_add_moment(r->store, r->id, r->settings, mm->key, mm->n, median, busy, e);
}

int record_energy(struct run *r, const struct tb_result *res, struct bace_err *e)
{
	double now_s = (double)(bace_mono_ns() - r->began_ns) / 1e9;
	int rc = res->n_energy ? store_begin(r->store, e) : 0;

	if (!res->n_energy || rc)
		return rc;
	for (int i = 0; !rc && i < res->n_energy; i++) {
		const struct tb_energy *x = &res->energy[i];

		rc = store_add_energy(r->store, r->id, &(struct energy_row){ .host = x->host, .source = x->source,
			.device = x->device, .start_s = now_s - x->seconds, .end_s = now_s,
			.energy_j = x->energy_j }, e);
	}
	return finish(r, rc, e);
}

int record_moment(struct run *r, const struct moment_rows *v, struct bace_err *e)
{
	int rc = store_begin(r->store, e);

	for (int k = 0; !rc && k < v->n; k++) {
		int i = v->which[k];
		int64_t id;

		rc = add_placement(r, v->moment, i, v->measured, v->place[k], v->closed_form[i].step_s,
				   v->event_sim[i].step_s, &id, e);
		if (!rc && v->cell)
			rc = add_steps(r, id, v->cell, v->result, i, e);
		if (!rc && v->cell)
			rc = add_transfers(r, id, v->moment, i, v->result, e);
		if (!rc && v->cell && r->o->keep_timeline)
			rc = add_ops(r, id, v->result, i, e);
		if (!rc && v->cell && v->measured->valid && r->o->keep_timeline)
			rc = add_sim_ops(r, id, v->moment, i, e);
	}
	if (!rc && v->cell && v->measured->valid)
		rc = add_settled_moment(r, v->measured, e);
	return finish(r, rc, e);
}
