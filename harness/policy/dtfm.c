/*
 * dtfm: open-loop path in the manner of DT-FM.
 *
 * Objective    the pipeline whose slowest hop is least slow.
 * Inputs       free GPUs per region, capacity (not what others reserved: DT-FM
 *              schedules one job) and latency per link; the job's A, fit, K*.
 * Steps        Over all sets of regions with free GPUs and all orders of each:
 *              most GPUs (k = argmin of the nominal T over the fitting k <=
 *              min(K*, free)), then the least largest 8A/b + L over the hops
 *              (the worse direction), then fewer regions, then the path by
 *              name. Exact, by Held-Karp over the bottleneck. One GPU per
 *              region, the rest in path order.
 *              start = k_star: wait for the k that the empty cluster would
 *              give. Order fcfs; the head blocks.
 * Complexity   O(2^R R^2) a job, R regions with free GPUs; more than 16 are
 *              refused.
 * Source       DT-FM (arXiv 2206.01288): its pipeline-parallel cost is an
 *              open-loop travelling salesman problem, which it attacks with a
 *              genetic search; the exact answer is ours.
 * Ours         regions, not single devices, are the nodes; only as many
 *              regions as K* needs.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/policy/hampath.h"
#include "harness/policy/internal.h"

struct dtfm {
	struct hampath h;
	double w[HAMPATH_MAX * HAMPATH_MAX];
	int member[HAMPATH_MAX];	/* regions, by name */
	int gpus[1 << HAMPATH_MAX];	/* free in the set */
	int8_t worst[1 << HAMPATH_MAX];	/* member with the least GPU memory */
};

static int bind(struct policy *p, struct bace_err *err)
{
	p->scratch = calloc(1, sizeof(struct dtfm));
	return p->scratch ? 0 : bace_fail(err, ENOMEM, "policy %s: out of memory", p->spec.label);
}

static void unbind(struct policy *p)
{
	struct dtfm *d = p->scratch;

	hampath_free(&d->h);
	free(d);
}

static int members(struct policy *p, const struct situation *s, struct dtfm *d, struct bace_err *err)
{
	int n = 0;

	for (int i = 0; i < p->f.n; i++) {
		if (!s->free_gpus[p->f.by_name[i]])
			continue;
		if (n == HAMPATH_MAX)
			return bace_fail(err, E2BIG,
					 "policy %s: more than %d regions with free GPUs: the exact search stops there",
					 p->spec.label, HAMPATH_MAX);
		d->member[n++] = p->f.by_name[i];
	}
	return n;
}

static double hop_cost(const struct facts *f, const struct situation *s, const struct job_class *c, int a,
		       int b)
{
	double cap = s->capacity[a * f->n + b];

	if (!f->linked[a * f->n + b] || !(cap > 0))
		return INFINITY;
	return c->boundary_bits / cap + f->latency_s[a * f->n + b];
}

static void weigh(const struct policy *p, const struct situation *s, const struct job_class *c,
		  struct dtfm *d, int n)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			d->w[i * n + j] = fmax(hop_cost(&p->f, s, c, d->member[i], d->member[j]),
					       hop_cost(&p->f, s, c, d->member[j], d->member[i]));
}

static double memory_of(const struct policy *p, const struct dtfm *d, int member)
{
	return p->f.exp->cluster.gpus[p->f.gpu[d->member[member]]].memory_bytes;
}

static int set_k(const struct policy *p, const struct situation *s, const struct job_class *c,
		 struct dtfm *d, uint32_t set)
{
	int low = __builtin_ctz(set), k;
	uint32_t rest = set & (set - 1);

	d->gpus[set] = s->free_gpus[d->member[low]] + (rest ? d->gpus[rest] : 0);
	d->worst[set] = (int8_t)low;
	if (rest && memory_of(p, d, d->worst[rest]) < memory_of(p, d, low))
		d->worst[set] = d->worst[rest];
	k = d->gpus[set] < c->k_star ? d->gpus[set] : c->k_star;
	return class_k_best(c, p->f.gpu[d->member[d->worst[set]]], k);
}

/* Is path a (n members) before b in lexicographic order? */
static bool lexicographic(const int *a, const int *b, int n)
{
	for (int i = 0; i < n; i++)
		if (a[i] != b[i])
			return a[i] < b[i];
	return false;
}

/* Most GPUs (at least need), least bottleneck, fewest regions, first by name. */
static uint32_t best_set(struct policy *p, const struct situation *s, const struct job_class *c,
			 struct dtfm *d, int n, int need, int *path)
{
	uint32_t best = 0;
	int best_k = 0, best_size = 0, trial[HAMPATH_MAX];
	double best_cost = INFINITY;

	for (uint32_t set = 1; set < 1u << n; set++) {
		int size = __builtin_popcount(set), k = set_k(p, s, c, d, set);
		double cost;

		if (!k || k < need || k < best_k || k < size)
			continue;
		cost = hampath_cost(&d->h, set);
		if (!(cost < INFINITY))
			continue;
		if (k == best_k && (cost > best_cost || (cost == best_cost && size > best_size)))
			continue;
		hampath_path(&d->h, set, trial);
		if (k == best_k && cost == best_cost && size == best_size &&
		    !lexicographic(trial, path, size))
			continue;
		best = set;
		best_k = k;
		best_cost = cost;
		best_size = size;
		memcpy(path, trial, sizeof(*path) * (size_t)size);
	}
	p->best.k = best_k;
	return best;
}

static int place(struct policy *p, const struct situation *s, const struct queued_job *q, int need,
		 struct bace_err *err)
{
	const struct job_class *c = queued_class(p, q);
	struct dtfm *d = p->scratch;
	int path[HAMPATH_MAX], n = members(p, s, d, err), rest;
	uint32_t set;

	if (n <= 0)
		return n;
	weigh(p, s, c, d, n);
	if (hampath_solve(&d->h, n, d->w, true))
		return bace_fail(err, ENOMEM, "policy %s: out of memory", p->spec.label);
	set = best_set(p, s, c, d, n, need, path);
	if (!set)
		return 0;
	path_start(&p->f, s, &p->path, d->member[path[0]]);
	for (int i = 1; i < __builtin_popcount(set); i++)
		path_extend(&p->f, s, c, &p->path, d->member[path[i]]);
	if (!path_closes(&p->f, &p->path))
		return 0;
	p->best.n = p->path.n;
	rest = p->best.k - p->path.n;
	for (int i = 0; i < p->path.n; i++)
		p->best.parts[i] = (struct placement_part){
			.region = p->path.region[i],
			.gpus = path_share(s, p->path.region[i], &rest) };
	return 1;
}

const struct policy_rule rule_dtfm = {
	.name = "dtfm",
	.description = "DT-FM: the path whose slowest hop is least slow, exact",
	.order = ORDER_FCFS,
	.uses_links = true,
	.bind = bind,
	.unbind = unbind,
	.place = place,
};
