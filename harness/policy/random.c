/*
 * random: a placement drawn at random, the floor any policy should beat.
 *
 * Objective    none.
 * Inputs       free GPUs per region, which regions are linked; fit and K*.
 * Steps        A region with free GPUs uniformly at random, then again and
 *              again one that is linked to the end of the path, until K* GPUs
 *              are on it; each gives all it has. k = argmin of the nominal
 *              T(k) over the fitting k <= min(K*, free on the path).
 *              Order fcfs; the head blocks. start = k_star: wait until a draw
 *              of the k that the empty cluster would have given comes up.
 * Complexity   O(regions^2) a job.
 * Source       ours.
 * Ours         the draw is a function of seed, job name, free GPUs and time
 *              only: neither the history nor the config's order changes it.
 */
#include <string.h>

#include "harness/policy/internal.h"

static struct bace_rng draw(const struct policy *p, const struct situation *s, const struct queued_job *q)
{
	const char *name = p->f.exp->jobs[q->job].name;
	uint64_t h = bace_hash64(name, strlen(name), p->seed);
	struct bace_rng r;

	h = bace_hash64(&s->now_s, sizeof(s->now_s), h);
	for (int i = 0; i < p->f.n; i++)
		h = bace_hash64(&s->free_gpus[p->f.by_name[i]], sizeof(int), h);
	bace_rng_init(&r, p->seed, h);
	return r;
}

static int pick(const struct policy *p, const struct situation *s, const struct path *path,
		struct bace_rng *rng)
{
	int chosen = -1;
	uint64_t seen = 0;

	for (int i = 0; i < p->f.n; i++) {
		int r = p->f.by_name[i];

		if (!s->free_gpus[r])
			continue;
		if (path->n && (path->on[r] || !p->f.linked[path->region[path->n - 1] * p->f.n + r]))
			continue;
		if (!bace_rng_below(rng, ++seen))
			chosen = r;
	}
	return chosen;
}

static int place(struct policy *p, const struct situation *s, const struct queued_job *q, int need,
		 struct bace_err *err)
{
	const struct job_class *c = queued_class(p, q);
	struct bace_rng rng = draw(p, s, q);
	struct path *path = &p->path;
	int r;

	path_clear(path);
	r = pick(p, s, path, &rng);
	if (r < 0)
		return 0;
	path_start(&p->f, s, path, r);
	while (path->gpus < c->k_star && (r = pick(p, s, path, &rng)) >= 0)
		path_extend(&p->f, s, c, path, r);
	return choose_fill(p, s, c, path, need);
}

const struct policy_rule rule_random = {
	.name = "random",
	.description = "regions drawn at random",
	.order = ORDER_FCFS,
	.uses_links = true,
	.per_job = true,
	.place = place,
};
