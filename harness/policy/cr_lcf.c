/*
 * cr-lcf: cross-region lowest cost first.
 *
 * Objective    cheapest electricity over as many regions as K* needs; links
 *              are ignored, which is the point of this baseline.
 * Inputs       free GPUs, price and PUE per region; the job's fit and K*.
 * Steps        Regions with free GPUs by ascending price * PUE, appended to
 *              the path until K* GPUs are on it; each gives all it has.
 *              k = argmin of the nominal T(k) over the fitting k <= min(K*,
 *              free on the path). start = k_star: wait for the k that the
 *              empty cluster would give. Order fcfs; the head blocks. The
 *              job reserves its demand, so residuals may go negative.
 * Complexity   O(regions) a job.
 * Source       baseline of BACE-Pipe (arXiv 2605.25375), known to us from
 *              public summaries.
 * Ours         a region without any path (in both directions) from the end is
 *              skipped: its bandwidth may be ignored, its absence cannot.
 */
#include "harness/policy/internal.h"

static int place(struct policy *p, const struct situation *s, const struct queued_job *q, int need,
		 struct bace_err *err)
{
	const struct job_class *c = queued_class(p, q);
	struct path *path = &p->path;
	bool started = false;

	for (int i = 0; i < p->f.n; i++) {
		int r = s->by_cost[i];

		if (!s->free_gpus[r])
			continue;
		if (!started)
			path_start(&p->f, s, path, r);
		else if (p->f.linked[path->region[path->n - 1] * p->f.n + r])
			path_extend(&p->f, s, c, path, r);
		started = true;
		if (path->gpus >= c->k_star)
			break;
	}
	return started && choose_fill(p, s, c, path, need);
}

const struct policy_rule rule_cr_lcf = {
	.name = "cr-lcf",
	.description = "regions by ascending price x PUE, whatever the links",
	.order = ORDER_FCFS,
	.uses_links = true,
	.place = place,
};
