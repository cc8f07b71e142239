/*
 * optimal: what bace's greedy search misses.
 *
 * Objective    the best placement of one job under bace's key (`prefer`) and
 *              stall rule, over every path.
 * Inputs       as bace.
 * Steps        Depth-first over all simple paths of regions with free GPUs and
 *              residual bandwidth. On each, Cost-Min as in bace, with k capped
 *              to what the stall rule allows on the hops of the path. Subtrees
 *              are cut when even with every free GPU they could not reach the
 *              best so far: in GPUs; in cost per step, with one GPU on each
 *              region of the path and the rest the cheapest anywhere (only
 *              while no price is negative); in T, without hops to come.
 *              Order, backfilling and `start` as bace.
 * Complexity   exponential; up to 10 regions with free GPUs, more are refused.
 * Source       ours.
 * Ours         everything; the candidates include each that bace considers, so
 *              the key is never worse than bace's for the same view.
 */
#include <errno.h>
#include <math.h>

#include "harness/policy/internal.h"

#define SEARCH_MAX 10
#define SLACK (1 - 1e-12)	/* rounding must not cut a tie */

struct search {
	struct policy *p;
	const struct situation *s;
	const struct job_class *c;
	int need;
	bool negative;		/* some free region's price is below 0 */
	double slow;		/* of the fastest GPU */
};

static double gpu_step_usd(const struct search *x, int r, int k, double step_s)
{
	const struct facts *f = &x->p->f;
	const struct gpu_type *t = &f->exp->cluster.gpus[f->gpu[r]];

	return x->s->unit_cost[r] * (t->idle_ctx_w * step_s +
		(t->active_w - t->idle_ctx_w) * f->slow[r] * x->c->m * x->c->total_s / k) / 3.6e6;
}

/* No placement of k GPUs that extends the path costs less per step. Power
 * differs between GPU types, so "cheapest" is by cost, not by price. */
static double cost_bound(const struct search *x, const struct path *path, int k, double step_s)
{
	double usd[SEARCH_MAX], sum = 0;
	int gpus[SEARCH_MAX], n = 0, rest = k - path->n;

	for (int i = 0; i < x->p->f.n; i++) {
		int g = x->s->free_gpus[i];
		double u;

		if (!g)
			continue;
		u = gpu_step_usd(x, i, k, step_s);
		if (path->on[i]) {
			sum += u;
			g--;
		}
		usd[n] = u;
		gpus[n++] = g;
	}
	while (rest > 0) {
		int best = -1;

		for (int i = 0; i < n; i++)
			if (gpus[i] && (best < 0 || usd[i] < usd[best]))
				best = i;
		if (best < 0)
			return INFINITY;
		int g = gpus[best] < rest ? gpus[best] : rest;

		sum += g * usd[best];
		rest -= g;
		gpus[best] = 0;
	}
	return sum;
}

static bool hopeless(const struct search *x, const struct path *path)
{
	const struct choice *best = &x->p->best;
	int k = x->c->k_star < x->s->total_free ? x->c->k_star : x->s->total_free;

	k = stall_cap(x->c, x->p->spec.stall_rule, path, k);
	if (k < path->n || k < x->c->k_min || k < x->need)
		return true;
	if (!best->n)
		return false;
	double step_s = step_bound(x->c, path, k, x->slow);

	if (!x->p->spec.cost_min)
		return k < best->k || (k == best->k && path->width_bps < best->width_bps);
	switch (x->p->spec.prefer) {
	case PREFER_GPUS:
		if (k != best->k)
			return k < best->k;
		return !x->negative && cost_bound(x, path, k, step_s) * SLACK > best->cost_usd;
	case PREFER_JCT:
		return step_s * SLACK > best->step_s;
	case PREFER_COST:
		break;
	}
	return false;
}

static void descend(const struct search *x, struct path *path)
{
	struct policy *p = x->p;
	int most = stall_cap(x->c, p->spec.stall_rule, path, path->gpus);

	consider(p, x->s, x->c, path, x->need, most);
	if (!p->spec.pathfinder)
		return;
	for (int i = 0; i < p->f.n; i++) {
		int r = p->f.by_name[i];
		struct path before = *path;

		if (path->on[r] || !x->s->free_gpus[r] ||
		    !(link_width(&p->f, x->s, path->region[path->n - 1], r) > 0))
			continue;
		path_extend(&p->f, x->s, x->c, path, r);
		if (!hopeless(x, path))
			descend(x, path);
		path_restore(path, &before);
	}
}

static int place(struct policy *p, const struct situation *s, const struct queued_job *q, int need,
		 struct bace_err *err)
{
	struct search x = { .p = p, .s = s, .c = queued_class(p, q), .need = need, .slow = INFINITY };
	int n = 0;

	p->best.n = 0;
	if (!x.c->k_star)
		return 0;
	for (int r = 0; r < p->f.n; r++) {
		n += s->free_gpus[r] > 0;
		if (s->free_gpus[r])
			x.slow = fmin(x.slow, p->f.slow[r]);
		x.negative |= s->free_gpus[r] > 0 && s->unit_cost[r] < 0;
	}
	if (n > SEARCH_MAX)
		return bace_fail(err, E2BIG,
				 "policy %s: %d regions with free GPUs: the exhaustive search stops at %d",
				 p->spec.label, n, SEARCH_MAX);
	for (int i = 0; i < p->f.n; i++) {
		int r = p->f.by_name[i];

		if (!s->free_gpus[r])
			continue;
		path_start(&p->f, s, &p->path, r);
		descend(&x, &p->path);
	}
	return p->best.n > 0;
}

const struct policy_rule rule_optimal = {
	.name = "optimal",
	.description = "exhaustive search under bace's key, up to 10 regions",
	.order = ORDER_BACE,
	.backfill = true,
	.uses_links = true,
	.place = place,
};
