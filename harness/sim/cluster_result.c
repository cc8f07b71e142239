#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "harness/sim/cluster.h"

int result_alloc(struct sim *s, struct bace_err *err)
{
	struct cluster_result *r = s->out;

	r->n = s->exp->n_jobs;
	r->jobs = calloc(r->n ? (size_t)r->n : 1, sizeof(*r->jobs));
	if (!r->jobs)
		return bace_fail(err, ENOMEM, "outcomes of %d jobs: out of memory", r->n);
	for (int i = 0; i < r->n; i++)
		r->jobs[i] = (struct job_outcome){ .job = i, .arrival_s = s->exp->jobs[i].arrival_s,
			.start_s = NAN, .finish_s = NAN, .jct_s = NAN, .waiting_s = NAN,
			.slowdown = NAN, .mean_step_s = NAN };
	return 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Type 7, as R and numpy. */
static double quantile(const double *sorted, int n, double q)
{
	double at = (n - 1) * q;
	int i = (int)at;

	if (!n)
		return NAN;
	return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

static double sum(const double *v, int n)
{
	double t = 0;

	for (int i = 0; i < n; i++)
		t += v[i];
	return t;
}

/* All sums go by (arrival, name), or over sorted values: the last bit must not
 * depend on the order of the config. */
int result_totals(struct sim *s, struct bace_err *err)
{
	struct cluster_result *r = s->out;
	CLEANUP_FREE double *jct = malloc(sizeof(double) * ((size_t)r->n + 1));
	CLEANUP_FREE double *waiting = malloc(sizeof(double) * ((size_t)r->n + 1));
	double slowdown = 0, gpu_s = 0;
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
		slowdown += o->slowdown;
	}
	r->energy_j += r->idle_energy_j;
	r->cost_usd += r->idle_cost_usd;
	r->n_finished = n;
	r->makespan_s = s->last_s - s->first_arrival_s;
	r->gpu_utilisation = r->makespan_s > 0 ? gpu_s / (r->makespan_s * s->total_gpus) : 0;
	qsort(jct, (size_t)n, sizeof(*jct), by_value);
	qsort(waiting, (size_t)n, sizeof(*waiting), by_value);
	r->mean_jct_s = n ? sum(jct, n) / n : NAN;
	r->median_jct_s = quantile(jct, n, 0.5);
	r->p95_jct_s = quantile(jct, n, 0.95);
	r->mean_waiting_s = n ? sum(waiting, n) / n : NAN;
	r->p95_waiting_s = quantile(waiting, n, 0.95);
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
