/*
 * bace: the placement of BACE-Pipe.
 *
 * Objective    most GPUs whose communication hides behind computation, then
 *              the cheapest electricity.
 * Inputs       free GPUs, prices, residual bandwidths of the view; per job
 *              FLOPs, memory fit, A, K*.
 * Steps        1. Priority (order.c): highest P_j first; a job that cannot be
 *              placed is passed over (backfill).
 *              2. Pathfinder. From every region with free GPUs as a seed the
 *              path grows from its end, Prim-like, over the widest residual
 *              link (the lesser of both directions) that keeps the stall rule
 *              at the k the extended path would have, min(K*, free). It stops
 *              at K* GPUs or when no link is feasible. Every prefix is a
 *              candidate. grow = "tree": see tree.c.
 *              3. Cost-Min. On each candidate k = argmin T(k), closed form
 *              with residual bandwidths, over the fitting k <= min(K*, free);
 *              one GPU per region, the rest by ascending price * PUE. Between
 *              candidates `prefer`: gpus (most GPUs, then cost per step, then
 *              T), jct (T, GPUs, cost), cost (cost, GPUs, T).
 *              start = k_star: only candidates with the k that the empty
 *              cluster would give.
 * Ablations    order = "fcfs": without priority. pathfinder = false: single
 *              regions only. cost_min = false: GPUs in path order, candidates
 *              by most GPUs, then widest path.
 * Complexity   O(R^2 S) for R regions and paths of S regions, plus Cost-Min on
 *              R S candidates, each O(S) per k looked at (a bound ends the
 *              search, usually after two).
 * Source       BACE-Pipe (arXiv 2605.25375), known to us from public summaries.
 * Ours         an extension must keep the rule on the hops the path already
 *              has, too (a longer path has a shorter t_F); t_F(k) in the rule
 *              is the mean over stages; where GPU types differ, the rule uses
 *              the fastest on the path and memory the smallest; ties fall to
 *              fewer regions, then to the path by name.
 */
#include <math.h>

#include "harness/policy/internal.h"

static int widest_feasible(const struct policy *p, const struct situation *s, const struct job_class *c,
			   const struct path *path)
{
	int best = -1, end = path->region[path->n - 1];
	double width = 0;

	for (int i = 0; i < p->f.n; i++) {
		int r = p->f.by_name[i];

		if (path->on[r] || !s->free_gpus[r])
			continue;
		double w = link_width(&p->f, s, end, r);

		if (w > width && path_may_extend(&p->f, s, c, p->spec.stall_rule, path, r, w)) {
			best = r;
			width = w;
		}
	}
	return best;
}

static int place(struct policy *p, const struct situation *s, const struct queued_job *q, int need,
		 struct bace_err *err)
{
	const struct job_class *c = queued_class(p, q);
	struct path *path = &p->path;

	p->best.n = 0;
	if (!c->k_min || s->total_free < (need > c->k_min ? need : c->k_min))
		return 0;
	for (int i = 0; i < p->f.n; i++) {
		int r = p->f.by_name[i];

		if (!s->free_gpus[r])
			continue;
		if (p->spec.pathfinder && p->spec.grow == GROW_TREE) {
			int rc = tree_search(p, s, c, r, need, err);

			if (rc)
				return rc;
			continue;
		}
		path_start(&p->f, s, path, r);
		consider(p, s, c, path, need, path->gpus);
		while (p->spec.pathfinder && path->gpus < c->k_star &&
		       (r = widest_feasible(p, s, c, path)) >= 0) {
			path_extend(&p->f, s, c, path, r);
			consider(p, s, c, path, need, path->gpus);
		}
	}
	return p->best.n > 0;
}

const struct policy_rule rule_bace = {
	.name = "bace",
	.description = "BACE-Pipe: priority, paths whose links hide behind computation, cheapest GPUs",
	.order = ORDER_BACE,
	.backfill = true,
	.uses_links = true,
	.bind = tree_bind,
	.unbind = tree_unbind,
	.place = place,
};
