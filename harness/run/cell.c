#include "harness/run/cell.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define L2_HEADER 14
#define IP_TCP_TS 52
#define SETUP_S 20.0		/* launching, connecting, warming */
#define PATIENCE 4.0		/* times the predicted time before a cell is given up */

static uint64_t scaled_message(const struct experiment *exp, const struct job_model *j)
{
	return (uint64_t)llround(j->boundary_bytes * exp->testbed.scale_bytes);
}

static int worker_of(const struct experiment *exp, const struct placement *p, int stage)
{
	int seen = 0;

	if (exp->testbed.ranks == RANKS_STAGE)
		return stage;
	for (int part = 0; part < p->n_parts; part++) {
		seen += p->parts[part].gpus;
		if (stage < seen)
			return part;
	}
	return p->n_parts - 1;
}

static uint64_t scaled_rate(const struct testbed_spec *t, double bps)
{
	return (uint64_t)llround(bps * t->scale_bytes / t->scale_time);
}

void cell_fill_hop(const struct experiment *exp, uint64_t bytes, bool overlap, int a, int b, struct tb_hop *h)
{
	const struct cluster *c = &exp->cluster;
	const struct testbed_spec *t = &exp->testbed;

	*h = (struct tb_hop){ .bytes = bytes, .local = a == b };
	if (!h->local) {
		const struct link *there = cluster_link(c, a, b), *back = cluster_link(c, b, a);

		/* Workers that know the link make their sockets hold what it needs; without
		 * overlap they must. */
		if (t->socket_buffer_bytes && overlap)
			return;
		h->rate_bps = scaled_rate(t, goodput_bps((double)there->rate_bps, c->mtu));
		h->reverse_rate_bps = scaled_rate(t, goodput_bps((double)back->rate_bps, c->mtu));
		h->latency_ns = llround((double)there->latency_ns * t->scale_time);
		h->reverse_latency_ns = llround((double)back->latency_ns * t->scale_time);
		return;
	}
	h->local_rate_bps = scaled_rate(t, goodput_bps(c->regions[a].bandwidth_bps, c->mtu));
	h->local_latency_ns = llround((double)c->regions[a].intra_latency_ns * t->scale_time);
}

static int fill_job(const struct moment *m, int which, const struct lab_net *net, struct tb_job *out)
{
	const struct experiment *exp = m->exp;
	const struct placement *p = m->placements[which];
	const struct job_model *j = &m->models->v[p->job];
	double scale = exp->testbed.scale_time * 1e9;
	int used[REGIONS_MAX] = { 0 };
	double weight = exp->schedule == SCHED_ZB_H1 ?
		schedule_weight_share(exp->models[exp->jobs[p->job].model].recompute) : 0;

	snprintf(out->name, sizeof(out->name), "%s", exp->jobs[p->job].name);
	out->schedule = exp->schedule;
	out->chunks = exp->interleave > 0 ? exp->interleave : 1;
	out->micro_batches = j->m;
	out->overlap = exp->overlap;
	out->hidden = exp->models[exp->jobs[p->job].model].hidden;
	out->n_stages = p->n_gpus;
	out->stages = calloc((size_t)p->n_gpus, sizeof(*out->stages));
	out->hops = calloc((size_t)p->n_gpus, sizeof(*out->hops));
	if (!out->stages || !out->hops)
		return -ENOMEM;
	for (int i = 0; i < p->n_gpus; i++) {
		int r = placement_region_of_stage(p, i);
		const struct gpu_type *gpu = &exp->cluster.gpus[exp->cluster.regions[r].gpu];
		struct stage_cost s = stage_cost(exp, j, p->n_gpus, i, gpu);

		out->stages[i] = (struct tb_stage){
			.host = lab_host_of(net, r, used[r]), .region = r,
			.worker = worker_of(exp, p, i),
			.fwd_ns = llround(s.fwd_s * scale), .w_ns = llround(s.bwd_s * weight * scale) };
		out->stages[i].bwd_ns = llround(s.bwd_s * scale) - out->stages[i].w_ns;
		if (exp->testbed.ranks == RANKS_STAGE)
			used[r]++;
		if (i)
			cell_fill_hop(exp, scaled_message(exp, j), exp->overlap, out->stages[i - 1].region, r,
				      &out->hops[i - 1]);
	}
	if (tb_hops(out) == out->n_stages)
		cell_fill_hop(exp, scaled_message(exp, j), exp->overlap, out->stages[out->n_stages - 1].region,
			      out->stages[0].region, &out->hops[out->n_stages - 1]);
	return 0;
}

void cell_settings(const struct experiment *exp, struct tb_cell *out)
{
	const struct testbed_spec *t = &exp->testbed;

	*out = (struct tb_cell){ .warmup_steps = t->warmup_steps, .steps = t->steps, .transport = t->transport,
				 .compute = t->compute, .sockets_per_hop = t->sockets_per_hop,
				 .timeline_sends = t->timeline == TIMELINE_WITH_SENDS,
				 .steady_ppm = (int)lround(t->steady_within * 1e6), .steady_steps = t->steady_steps };
	if (t->wan == WAN_STEADY)
		memcpy(out->congestion_control, t->congestion_control, sizeof(out->congestion_control));
}

double cell_timeout_s(double expected_s)
{
	return SETUP_S + PATIENCE * expected_s;
}

int cell_build(const struct moment *m, const struct lab_net *net, const double *predicted_step_s,
	       struct tb_cell *out, struct bace_err *e)
{
	const struct testbed_spec *t = &m->exp->testbed;
	double longest = 0;

	cell_settings(m->exp, out);
	out->jobs = calloc((size_t)(m->n ? m->n : 1), sizeof(*out->jobs));
	if (!out->jobs)
		return bace_fail(e, ENOMEM, "cell of %d jobs: out of memory", m->n);
	for (int i = 0; i < m->n; i++) {
		out->n_jobs++;
		longest = fmax(longest, predicted_step_s[i]);
		if (fill_job(m, i, net, &out->jobs[i])) {
			cell_free(out);
			return bace_fail(e, ENOMEM, "cell of %d jobs: out of memory", m->n);
		}
	}
	out->timeout_s = cell_timeout_s(longest * t->scale_time * (t->warmup_steps + t->steps));
	if (t->max_ranks > 0 && cell_ranks(out) > t->max_ranks) {
		int ranks = cell_ranks(out);

		cell_free(out);
		return bace_fail(e, E2BIG, "%d ranks at once, max_ranks is %d: raise it, or use "
				 "ranks = \"region\"", ranks, t->max_ranks);
	}
	return 0;
}

void cell_free(struct tb_cell *c)
{
	for (int i = 0; i < c->n_jobs; i++) {
		free(c->jobs[i].stages);
		free(c->jobs[i].hops);
		free(c->jobs[i].rings);
	}
	free(c->jobs);
	*c = (struct tb_cell){ 0 };
}

int cell_ranks(const struct tb_cell *c)
{
	int n = 0;

	for (int i = 0; i < c->n_jobs; i++)
		n += c->jobs[i].stages[c->jobs[i].n_stages - 1].worker + 1;
	return n;
}

/* A step of a job, over all its replicas: first start to last end. */
static bool find_step(const struct tb_cell *c, const struct tb_result *r, int job, int step, struct tb_step *out)
{
	int replicas = c->jobs[job].replicas > 1 ? c->jobs[job].replicas : 1, found = 0;

	*out = (struct tb_step){ .start_ns = INT64_MAX, .end_ns = INT64_MIN };
	for (int i = 0; i < r->n_steps; i++) {
		const struct tb_step *s = &r->steps[i];

		if (s->job < job || s->job >= job + replicas || s->step != step)
			continue;
		found++;
		out->start_ns = s->start_ns < out->start_ns ? s->start_ns : out->start_ns;
		out->end_ns = s->end_ns > out->end_ns ? s->end_ns : out->end_ns;
		out->compute_ns += s->compute_ns / replicas;
	}
	return found == replicas;
}

int cell_steps_of(const struct tb_cell *c, const struct tb_result *r, int job, double scale_time,
		  struct cell_steps *out, struct bace_err *e)
{
	double total = 0, compute = 0;

	*out = (struct cell_steps){ .median_s = NAN, .p95_s = NAN, .first_s = NAN, .busy = NAN };
	out->step_s = calloc((size_t)(c->steps > 0 ? c->steps : 1), sizeof(double));
	if (!out->step_s)
		return bace_fail(e, ENOMEM, "steps of %s: out of memory", c->jobs[job].name);
	for (int step = 0; step < c->steps; step++) {
		struct tb_step s;
		double seconds;

		if (!find_step(c, r, job, step, &s))
			continue;
		seconds = (double)(s.end_ns - s.start_ns) / 1e9 / scale_time;
		if (step == 0)
			out->first_s = seconds;
		out->step_s[out->n++] = seconds;
		total += seconds;
		compute += (double)s.compute_ns / 1e9 / scale_time / c->jobs[job].n_stages;
	}
	if (!out->n)
		return bace_fail(e, ENODATA, "%s: no measured step came back", c->jobs[job].name);
	out->median_s = stats_median(out->step_s, (size_t)out->n);
	out->p95_s = stats_quantile(out->step_s, (size_t)out->n, 0.95);
	out->compute_s = compute / out->n;
	out->busy = compute / total;
	return 0;
}

void traffic_add(const struct experiment *exp, uint64_t bytes, struct lab_traffic *t)
{
	double framing = (exp->cluster.mtu + L2_HEADER) / (double)(exp->cluster.mtu - IP_TCP_TS);
	uint64_t framed = (uint64_t)ceil((double)bytes * framing);

	t->message_bytes = framed > t->message_bytes ? framed : t->message_bytes;
	t->min_message_bytes = bytes < t->min_message_bytes ? bytes : t->min_message_bytes;
}

void traffic_of(const struct experiment *exp, const struct job_models *m, struct lab_traffic *out)
{
	*out = (struct lab_traffic){ .wan = exp->testbed.wan, .jobs_on_link = exp->n_jobs,
				     .socket_buffer_bytes = exp->testbed.socket_buffer_bytes,
				     .min_message_bytes = UINT64_MAX };
	memcpy(out->congestion_control, exp->testbed.congestion_control,
	       sizeof(out->congestion_control));
	for (int i = 0; i < m->n; i++)
		traffic_add(exp, scaled_message(exp, &m->v[i]), out);
}

int check_message_sizes(const struct experiment *exp, const struct lab_traffic *t, struct bace_err *e)
{
	const struct cluster *c = &exp->cluster;
	double rate_scale = exp->testbed.scale_bytes / exp->testbed.scale_time;
	double gso = fmax(0.02 * (double)t->min_message_bytes, c->mtu + L2_HEADER);

	for (int i = 0; i < c->n_regions * c->n_regions; i++) {
		double rate = (double)c->links[i].rate_bps * rate_scale;
		double burst = fmax(2.0 * c->mtu, rate / 8 * 0.25e-3);
		double least = 20 * (burst + gso);

		if (c->links[i].present && (double)t->min_message_bytes < least)
			return bace_fail(e, EINVAL, "%s: testbed.scale.bytes = %g: the smallest message is "
				"%llu bytes, link %s to %s (%.3g Mbit/s scaled) needs %.0f or more to be "
				"timed well: raise scale.bytes or scale.time", exp->path, exp->testbed.scale_bytes,
				(unsigned long long)t->min_message_bytes,
				c->regions[i / c->n_regions].name, c->regions[i % c->n_regions].name,
				rate / 1e6, least);
	}
	return 0;
}
