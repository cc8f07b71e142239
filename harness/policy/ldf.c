/*
 * ldf: largest datacentre first.
 *
 * Objective    most GPUs without a WAN hop: never more than one region.
 * Inputs       free (rigid: total) GPUs per region; the job's memory fit and K*.
 * Steps        start = k_min: the region with the most free GPUs, ties by
 *              name; k = argmin of the nominal T(k) over the fitting
 *              k <= min(K*, free). If nothing fits there, the next region
 *              (it matters only where GPU types differ).
 *              start = k_star (rigid): the region with the most GPUs in total,
 *              waited for until argmin T(k), k <= min(K*, total), are free.
 *              Order fcfs; the head of the queue blocks.
 * Complexity   O(regions) a job; O(regions^2) where GPU types differ.
 * Source       baseline of BACE-Pipe (arXiv 2605.25375), known to us from
 *              public summaries.
 * Ours         the choice of k; the ties; going on to the next region.
 */
#include "harness/policy/internal.h"

struct rank {
	int gpus, region;
};

/* The first region after `last` in the order (GPUs descending, name). */
static int next_largest(const struct policy *p, const struct situation *s, bool total, struct rank *last)
{
	const struct region *reg = p->f.exp->cluster.regions;
	int best = -1, best_gpus = 0;

	for (int i = 0; i < p->f.n; i++) {
		int r = p->f.by_name[i], g = total ? reg[r].n_gpus : s->free_gpus[r];

		if (last->region >= 0 &&
		    (g > last->gpus || (g == last->gpus && i <= p->f.name_rank[last->region])))
			continue;
		if (g > best_gpus) {
			best = r;
			best_gpus = g;
		}
	}
	*last = (struct rank){ best_gpus, best };
	return best;
}

static int place(struct policy *p, const struct situation *s, const struct queued_job *q, int need,
		 struct bace_err *err)
{
	const struct job_class *c = queued_class(p, q);
	struct rank last = { 0, -1 };
	int r;

	while ((r = next_largest(p, s, need > 0, &last)) >= 0) {
		int k = class_k_best(c, p->f.gpu[r], last.gpus < c->k_star ? last.gpus : c->k_star);

		if (k && k <= s->free_gpus[r]) {
			choose_single(p, r, k);
			return 1;
		}
		if (k || p->f.one_gpu_type)
			return 0;
	}
	return 0;
}

const struct policy_rule rule_ldf = {
	.name = "ldf",
	.description = "one region: the one with the most free GPUs",
	.order = ORDER_FCFS,
	.place = place,
};
