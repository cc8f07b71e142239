/*
 * lcf: lowest cost first.
 *
 * Objective    cheapest electricity; never more than one region, so no WAN hop.
 * Inputs       free GPUs per region, price and PUE as the view has them; the
 *              job's memory fit and K*.
 * Steps        start = k_min: among the regions in which some fitting k is
 *              free, the one with the least price * PUE; k = argmin of the
 *              nominal T(k) over the fitting k <= min(K*, free).
 *              start = k_star (rigid): the region is chosen by the same rule
 *              on its total GPUs, and the job waits for it until
 *              argmin T(k), k <= min(K*, total), are free in it.
 *              Order fcfs; the head of the queue blocks.
 * Complexity   O(regions) a job.
 * Source       baseline of BACE-Pipe (arXiv 2605.25375), known to us from
 *              public summaries.
 * Ours         the choice of k within the region; that rigid waiting follows
 *              the price (a price change may change the region waited for).
 */
#include "harness/policy/internal.h"

static int cap(const struct job_class *c, int gpus)
{
	return gpus < c->k_star ? gpus : c->k_star;
}

static int place(struct policy *p, const struct situation *s, const struct queued_job *q, int need,
		 struct bace_err *err)
{
	const struct job_class *c = queued_class(p, q);
	const struct region *reg = p->f.exp->cluster.regions;

	for (int i = 0; i < p->f.n; i++) {
		int r = s->by_cost[i], k;

		k = class_k_best(c, p->f.gpu[r], cap(c, need ? reg[r].n_gpus : s->free_gpus[r]));
		if (!k)
			continue;
		if (k > s->free_gpus[r])
			return 0;
		choose_single(p, r, k);
		return 1;
	}
	return 0;
}

const struct policy_rule rule_lcf = {
	.name = "lcf",
	.description = "one region: the cheapest price x PUE with room",
	.order = ORDER_FCFS,
	.place = place,
};
