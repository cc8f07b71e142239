#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sim/cluster.h"

static int by_arrival(const void *a, const void *b, void *arg)
{
	const struct experiment *e = arg;
	const struct job *x = &e->jobs[*(const int *)a], *y = &e->jobs[*(const int *)b];

	if (x->arrival_s != y->arrival_s)
		return x->arrival_s < y->arrival_s ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int by_region_name(const void *a, const void *b, void *arg)
{
	const struct cluster *c = arg;

	return strcmp(c->regions[*(const int *)a].name, c->regions[*(const int *)b].name);
}

/* arg: rank of each region by name. */
static int by_time(const void *a, const void *b, void *arg)
{
	const int *rank = arg;
	const struct link_change *x = a, *y = b;

	if (x->at_s != y->at_s)
		return x->at_s < y->at_s ? -1 : 1;
	return x->src != y->src ? rank[x->src] - rank[y->src] : rank[x->dst] - rank[y->dst];
}

static int check_jobs(const struct sim *s, struct bace_err *err)
{
	const struct experiment *e = s->exp;

	if (s->in->models->n != e->n_jobs || s->in->models->exp != e)
		return bace_fail(err, EINVAL, "simulation: the job models are of another experiment");
	for (int i = 0; i < e->n_jobs; i++) {
		const struct job_model *j = &s->in->models->v[i];

		if (!(e->jobs[i].arrival_s >= 0) || isinf(e->jobs[i].arrival_s))
			return bace_fail(err, EINVAL, "job %s: arrival at %g s: must be 0 or more",
					 e->jobs[i].name, e->jobs[i].arrival_s);
		if (!(j->steps > 0) || isinf(j->steps))
			return bace_fail(err, EINVAL, "job %s: %g steps: must be more than 0",
					 e->jobs[i].name, j->steps);
		if (j->k_min < 1)
			return bace_fail(err, EINVAL, "job %s: fits no number of GPUs up to %d", e->jobs[i].name,
					 j->k_limit);
	}
	return 0;
}

static int check_changes(const struct sim *s, struct bace_err *err)
{
	const struct cluster *c = s->c;

	for (int i = 0; i < s->in->n_changes; i++) {
		const struct link_change *l = &s->in->changes[i];

		if (l->src < 0 || l->src >= s->n || l->dst < 0 || l->dst >= s->n ||
		    !cluster_link(c, l->src, l->dst)->present)
			return bace_fail(err, EINVAL, "link change %d: no link %d to %d", i, l->src, l->dst);
		if (!(l->at_s >= 0) || isinf(l->at_s) || !(l->rate_bps >= 0) || isinf(l->rate_bps))
			return bace_fail(err, EINVAL, "link change %d, %s to %s: %g bit/s at %g s: both must be 0 or more",
					 i, c->regions[l->src].name, c->regions[l->dst].name, l->rate_bps,
					 l->at_s);
	}
	return 0;
}

static int sort_jobs(struct sim *s, struct bace_err *err)
{
	const struct experiment *e = s->exp;
	size_t n = (size_t)e->n_jobs + 1;
	bool sorted = true;

	s->by_rank = malloc(n * sizeof(int));
	s->rank = malloc(n * sizeof(int));
	if (!s->by_rank || !s->rank)
		return bace_fail(err, ENOMEM, "%d jobs: out of memory", e->n_jobs);
	s->least_k = INT_MAX;
	for (int i = 0; i < e->n_jobs; i++) {
		s->by_rank[i] = i;
		sorted = sorted && (!i || by_arrival(&s->by_rank[i - 1], &s->by_rank[i], (void *)e) <= 0);
		if (s->in->models->v[i].k_min < s->least_k)
			s->least_k = s->in->models->v[i].k_min;
	}
	if (!sorted)
		qsort_r(s->by_rank, (size_t)e->n_jobs, sizeof(int), by_arrival, (void *)e);
	for (int i = 0; i < e->n_jobs; i++)
		s->rank[s->by_rank[i]] = i;
	s->first_arrival_s = s->last_s = e->n_jobs ? e->jobs[s->by_rank[0]].arrival_s : 0;
	return 0;
}

static int alloc_regions(struct sim *s, struct bace_err *err)
{
	size_t n = (size_t)s->n;

	s->by_name = calloc(n, sizeof(int));
	s->free_gpus = calloc(n, sizeof(int));
	s->free_since = calloc(n, sizeof(double));
	s->capacity = calloc(n * n, sizeof(double));
	s->reserved = calloc(n * n, sizeof(double));
	s->pair_first = malloc(n * n * sizeof(int));
	s->pair_last = malloc(n * n * sizeof(int));
	if (!s->by_name || !s->free_gpus || !s->free_since || !s->capacity || !s->reserved ||
	    !s->pair_first || !s->pair_last)
		return bace_fail(err, ENOMEM, "%d regions: out of memory", s->n);
	for (int r = 0; r < s->n; r++) {
		s->by_name[r] = r;
		s->free_gpus[r] = s->c->regions[r].n_gpus;
		s->total_gpus += s->c->regions[r].n_gpus;
	}
	s->total_free = s->total_gpus;
	qsort_r(s->by_name, n, sizeof(int), by_region_name, (void *)s->c);
	for (size_t i = 0; i < n * n; i++) {
		const struct link *l = &s->c->links[i];

		s->pair_first[i] = s->pair_last[i] = -1;
		s->capacity[i] = l->present ? (double)l->rate_bps : 0;
		s->egress |= l->present && l->usd_per_byte != 0;
	}
	return 0;
}

/* Traces come sorted, as a rule. */
static int sort_changes(struct sim *s, struct bace_err *err)
{
	size_t n = (size_t)s->in->n_changes;
	CLEANUP_FREE int *rank = calloc((size_t)s->n, sizeof(int));
	bool sorted = true;

	s->changes = malloc((n + 1) * sizeof(*s->changes));
	if (!rank || !s->changes)
		return bace_fail(err, ENOMEM, "%zu link changes: out of memory", n);
	for (int i = 0; i < s->n; i++)
		rank[s->by_name[i]] = i;
	if (n)
		memcpy(s->changes, s->in->changes, n * sizeof(*s->changes));
	for (size_t i = 1; i < n && sorted; i++)
		sorted = by_time(&s->changes[i - 1], &s->changes[i], rank) <= 0;
	if (!sorted)
		qsort_r(s->changes, n, sizeof(*s->changes), by_time, rank);
	return 0;
}

static int alloc_running(struct sim *s, struct bace_err *err)
{
	size_t n;

	s->elastic = policy_is_elastic(s->in->policy);
	s->max_running = s->exp->n_jobs < s->total_gpus ? s->exp->n_jobs : s->total_gpus;
	n = (size_t)s->max_running + 1;
	s->run = calloc(n, sizeof(*s->run));
	s->free_slot = malloc(n * sizeof(int));
	s->heap = malloc(n * sizeof(int));
	s->fresh = malloc(n * sizeof(int));
	s->group = malloc(n * sizeof(int));
	/* A slot may be marked, left, taken and marked again in one instant. */
	s->dirty = malloc(2 * n * sizeof(int));
	s->placements = malloc(n * sizeof(struct placement *));
	s->estimates = malloc(n * sizeof(*s->estimates));
	if (policy_wants_running(s->in->policy))
		s->shown = calloc(n, sizeof(*s->shown));
	if ((policy_wants_running(s->in->policy) && !s->shown) || !s->run || !s->free_slot || !s->heap || !s->fresh || !s->group || !s->dirty ||
	    !s->placements || !s->estimates)
		return bace_fail(err, ENOMEM, "%d jobs at once: out of memory", s->max_running);
	while (s->n_free_slot < s->max_running) {
		s->free_slot[s->n_free_slot] = s->max_running - 1 - s->n_free_slot;
		s->n_free_slot++;
	}
	s->memo = s->in->memo ? s->in->memo : (s->own_memo = step_memo_new());
	if (!s->memo)
		return bace_fail(err, ENOMEM, "step times: out of memory");
	s->first_running = s->last_running = s->free_cross = -1;
	return 0;
}

int sim_setup(struct sim *s, struct bace_err *err)
{
	int rc = check_jobs(s, err);

	if (!rc)
		rc = check_changes(s, err);
	if (!rc)
		rc = sort_jobs(s, err);
	if (!rc)
		rc = alloc_regions(s, err);
	if (!rc)
		rc = sort_changes(s, err);
	if (!rc)
		rc = alloc_running(s, err);
	if (!rc)
		rc = view_setup(s, err);
	if (!rc)
		rc = result_alloc(s, err);
	return rc;
}

void sim_teardown(struct sim *s)
{
	view_teardown(s);
	step_memo_free(s->own_memo);
	free(s->by_rank);
	free(s->rank);
	free(s->by_name);
	free(s->queue);
	free(s->free_gpus);
	free(s->free_since);
	free(s->capacity);
	free(s->reserved);
	free(s->changes);
	free(s->run);
	free(s->shown);
	free(s->free_slot);
	free(s->heap);
	free(s->cross);
	free(s->pair_first);
	free(s->pair_last);
	free(s->dirty);
	free(s->fresh);
	free(s->group);
	free(s->placements);
	free(s->estimates);
	free(s->key);
}
