/*
 * A lower bound on what a whole run can cost, whatever the policy: each job
 * alone, on the cheapest GPUs at the least price their region ever has, with
 * the number of stages that wastes least and communication for nothing.
 *
 *   a step is at least (m-1) t + sum(t)  with t the largest stage; zb-h1 and
 *   interleaved shrink the bubble: m t;
 *   energy is idle power * k T + (active - idle) * the job's computation.
 *
 * O(regions + jobs * k_limit). Egress is taken for 0, idle GPUs (bill_idle) too.
 */
#include <math.h>

#include "harness/policy/model.h"

struct cheapest {
	double idle_usd_per_s;		/* of one GPU with a job on it */
	double busy_usd_per_s;		/* what computing adds */
	double slow;			/* of the fastest GPU */
};

static double least_price(const struct price_series *s)
{
	double p = INFINITY;

	for (size_t i = 0; i < s->n; i++)
		p = fmin(p, s->usd_per_kwh[i]);
	return p;
}

static struct cheapest find_cheapest(const struct experiment *e, const struct job_models *m)
{
	const struct cluster *c = &e->cluster;
	struct cheapest out = { INFINITY, INFINITY, INFINITY };

	for (int r = 0; r < c->n_regions; r++) {
		const struct region *reg = &c->regions[r];
		const struct gpu_type *g = &c->gpus[reg->gpu];
		double usd_per_joule = least_price(&reg->price) * reg->pue / 3.6e6;

		if (!reg->n_gpus)
			continue;
		out.idle_usd_per_s = fmin(out.idle_usd_per_s, usd_per_joule * g->idle_ctx_w);
		out.busy_usd_per_s = fmin(out.busy_usd_per_s, usd_per_joule * (g->active_w - g->idle_ctx_w));
		out.slow = fmin(out.slow, c->gpus[m->ref_gpu].flops_eff / g->flops_eff);
	}
	return out;
}

/* Least GPU-seconds of a step over the k that fit the largest GPU. */
static double least_gpu_s(const struct job_models *models, const struct job_class *c, bool no_bubble)
{
	const uint8_t *fits = class_fits(c, models->ref_gpu);
	double best = INFINITY;

	for (int k = 1; k <= c->k_limit; k++) {
		double slot = c->total_s * class_largest_stage(c, k);

		if (fits[k])
			best = fmin(best, k * (no_bubble ? c->m * slot : (c->m - 1) * slot + c->total_s));
	}
	return best;
}

double policy_cost_bound_usd(const struct experiment *e, const struct job_models *models)
{
	bool no_bubble = e->schedule == SCHED_ZB_H1 || e->schedule == SCHED_INTERLEAVED_1F1B;
	struct cheapest c = find_cheapest(e, models);
	double usd = 0;

	/* With a price below zero a job may earn by taking its time, without bound. */
	if (c.idle_usd_per_s < 0 || c.busy_usd_per_s < 0)
		return -INFINITY;
	for (int i = 0; i < models->n; i++) {
		const struct job_class *cls = class_of(models, i);
		double gpu_s = least_gpu_s(models, cls, no_bubble);

		if (gpu_s < INFINITY)
			usd += models->v[i].steps * c.slow *
			       (c.idle_usd_per_s * gpu_s + c.busy_usd_per_s * cls->m * cls->total_s);
	}
	return usd;
}
