/*
 * cr-ldf: cross-region largest datacentre first.
 *
 * Objective    most GPUs: the largest region, then along the widest links.
 * Inputs       free GPUs per region, residual bandwidth per link; the job's
 *              fit and K*.
 * Steps        Start in the region with the most free GPUs. Append, from the
 *              end of the path, the region with free GPUs whose link has the
 *              widest residual (the lesser of the two directions), feasible
 *              or not, until K* GPUs are on the path; each gives all it has.
 *              k = argmin of the nominal T(k) over the fitting k <= min(K*,
 *              free on the path). start = k_star: wait for the k that the
 *              empty cluster would give. Order fcfs; the head blocks. The job
 *              reserves its demand, so residuals may go negative.
 * Complexity   O(regions^2) a job.
 * Source       baseline of BACE-Pipe (arXiv 2605.25375), known to us from
 *              public summaries.
 * Ours         "widest" over both directions; ties by name.
 */
#include <math.h>

#include "harness/policy/internal.h"

static int largest(const struct policy *p, const struct situation *s)
{
	int best = -1, most = 0;

	for (int i = 0; i < p->f.n; i++) {
		int r = p->f.by_name[i];

		if (s->free_gpus[r] > most) {
			best = r;
			most = s->free_gpus[r];
		}
	}
	return best;
}

static int widest(const struct policy *p, const struct situation *s, const struct path *path)
{
	int best = -1, end = path->region[path->n - 1];
	double width = -INFINITY;

	for (int i = 0; i < p->f.n; i++) {
		int r = p->f.by_name[i];

		if (path->on[r] || !s->free_gpus[r] || !p->f.linked[end * p->f.n + r])
			continue;
		double w = link_width(&p->f, s, end, r);

		if (w > width) {
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
	int r = largest(p, s);

	if (r < 0)
		return 0;
	path_start(&p->f, s, path, r);
	while (path->gpus < c->k_star && (r = widest(p, s, path)) >= 0)
		path_extend(&p->f, s, c, path, r);
	return choose_fill(p, s, c, path, need);
}

const struct policy_rule rule_cr_ldf = {
	.name = "cr-ldf",
	.description = "the largest region, then along the widest links, feasible or not",
	.order = ORDER_FCFS,
	.uses_links = true,
	.place = place,
};
