/*
 * atlas-dc: datacentre selection in the manner of Atlas.
 *
 * Objective    few regions, so few WAN hops: the largest give most stages.
 * Inputs       free GPUs per region; the job's fit and K*.
 * Steps        Regions by descending free GPUs (ties by name); each is given
 *              as many consecutive stages as it has GPUs, until the path has
 *              min(K*, free) and argmin of the nominal T(k) fixes k.
 *              start = k_star: wait for the k that the empty cluster would
 *              give. Order fcfs; the head blocks.
 * Complexity   O(regions^2) a job.
 * Source       Atlas (arXiv 2411.14458), its choice of datacentres; its
 *              temporal sharing of WAN bandwidth and its filling of bubbles
 *              belong to the runtime and are not modelled.
 * Ours         one pipeline a job, no data parallelism; K* as the number of
 *              stages; a region without a path from the end is passed over.
 */
#include "harness/policy/internal.h"

static int next_region(const struct policy *p, const struct situation *s, const struct path *path)
{
	int best = -1, most = 0;

	for (int i = 0; i < p->f.n; i++) {
		int r = p->f.by_name[i];

		if (path->n && (path->on[r] || !p->f.linked[path->region[path->n - 1] * p->f.n + r]))
			continue;
		if (s->free_gpus[r] > most) {
			best = r;
			most = s->free_gpus[r];
		}
	}
	return best;
}

static int place(struct policy *p, const struct situation *s, const struct queued_job *q, int need,
		 struct bace_err *err)
{
	const struct job_class *c = queued_class(p, q);
	struct path *path = &p->path;
	int r;

	path_clear(path);
	r = next_region(p, s, path);
	if (r < 0)
		return 0;
	path_start(&p->f, s, path, r);
	while (path->gpus < c->k_star && (r = next_region(p, s, path)) >= 0)
		path_extend(&p->f, s, c, path, r);
	return choose_fill(p, s, c, path, need);
}

const struct policy_rule rule_atlas_dc = {
	.name = "atlas-dc",
	.description = "Atlas: regions by GPU count, most stages each",
	.order = ORDER_FCFS,
	.uses_links = true,
	.place = place,
};
