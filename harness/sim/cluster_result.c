#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "harness/sim/cluster.h"

#define HUGE_PAGE (2u << 20)

/* Zeroed. A million outcomes are 50,000 small pages, and faulting those in takes
 * longer than simulating the jobs. */
static void *large_alloc(size_t n, size_t size)
{
	size_t bytes = (n * size + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
	void *p;

	if (n * size < 4 * HUGE_PAGE)
		return calloc(n, size);
	p = aligned_alloc(HUGE_PAGE, bytes);
	if (!p)
		return NULL;
	madvise(p, bytes, MADV_HUGEPAGE);
	return memset(p, 0, bytes);
}

int result_alloc(struct sim *s, struct bace_err *err)
{
	struct cluster_result *r = s->out;

	r->n = s->exp->n_jobs;
	r->jobs = large_alloc((size_t)r->n + 1, sizeof(*r->jobs));
	if (!r->jobs)
		return bace_fail(err, ENOMEM, "outcomes of %d jobs: out of memory", r->n);
	return 0;
}

void result_arrived(struct sim *s, int job)
{
	s->out->jobs[job] = (struct job_outcome){ .job = job, .arrival_s = s->exp->jobs[job].arrival_s,
		.start_s = NAN, .finish_s = NAN, .jct_s = NAN, .waiting_s = NAN, .slowdown = NAN,
		.mean_step_s = NAN };
}

/* All sums go by (arrival, name): the last bit must not depend on the order of
 * the config. */
int result_totals(struct sim *s, struct bace_err *err)
{
	struct cluster_result *r = s->out;
	CLEANUP_FREE double *jct = malloc(sizeof(double) * ((size_t)r->n + 1));
	CLEANUP_FREE double *waiting = malloc(sizeof(double) * ((size_t)r->n + 1));
	double slowdown = 0, gpu_s = 0, jct_sum = 0, waiting_sum = 0;
	int n = 0;

	if (!jct || !waiting)
		return bace_fail(err, ENOMEM, "outcomes of %d jobs: out of memory", r->n);
	for (int i = 0; i < r->n; i++) {
		const struct job_outcome *o = &r->jobs[s->by_rank[i]];

		r->energy_j += o->energy_j;
		r->cost_usd += o->cost_usd;
		gpu_s += o->gpu_s;
		if (!o->finished)
			continue;
		jct[n] = o->jct_s;
		waiting[n++] = o->waiting_s;
		jct_sum += o->jct_s;
		waiting_sum += o->waiting_s;
		slowdown += o->slowdown;
	}
	r->energy_j += r->idle_energy_j;
	r->cost_usd += r->idle_cost_usd;
	r->n_finished = n;
	r->makespan_s = s->last_s - s->first_arrival_s;
	r->gpu_utilisation = r->makespan_s > 0 ? gpu_s / (r->makespan_s * s->total_gpus) : 0;
	r->mean_jct_s = n ? jct_sum / n : NAN;
	r->median_jct_s = bace_quantile(jct, (size_t)n, 0.5);
	r->p95_jct_s = bace_quantile(jct, (size_t)n, 0.95);
	r->mean_waiting_s = n ? waiting_sum / n : NAN;
	r->p95_waiting_s = bace_quantile(waiting, (size_t)n, 0.95);
	r->mean_slowdown = n ? slowdown / n : NAN;
	return 0;
}

void cluster_result_free(struct cluster_result *r)
{
	for (int i = 0; r->jobs && i < r->n; i++)
		placement_free(&r->jobs[i].placement);
	free(r->jobs);
	*r = (struct cluster_result){ 0 };
}
