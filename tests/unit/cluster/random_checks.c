#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/cluster/random_checks.h"

uint64_t scenario;

static bool same(double a, double b)
{
	return (isnan(a) && isnan(b)) || a == b;
}

static void check_job(const struct drawn *d, const struct job_outcome *o)
{
	double steps = d->w.models.v[o->job].steps;

	if (!o->finished) {
		check(isnan(o->start_s) && o->cost_usd == 0 && o->gpu_s == 0 && o->steps_done == 0);
		return;
	}
	check(o->start_s >= o->arrival_s && o->finish_s > o->start_s);
	check(o->jct_s == o->finish_s - o->arrival_s && o->waiting_s == o->start_s - o->arrival_s);
	check(o->steps_done == steps);
	check(near(o->mean_step_s * steps, o->finish_s - o->start_s));
	if (!o->n_restarts)
		check(near(o->gpu_s, o->placement.n_gpus * (o->finish_s - o->start_s)));
	check(o->energy_j > 0);
	check(o->slowdown > 0);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Type 7 of the sorted values. */
static double quantile(const double *v, int n, double q)
{
	int i = (int)((n - 1) * q);

	return i + 1 < n ? v[i] + ((n - 1) * q - i) * (v[i + 1] - v[i]) : v[i];
}

void check_quantiles(const struct cluster_result *r)
{
	double v[64], sum = 0;
	int n = 0;

	for (int i = 0; i < r->n; i++)
		if (r->jobs[i].finished)
			v[n++] = r->jobs[i].jct_s;
	check(n == r->n_finished);
	if (!n)
		return;
	qsort(v, (size_t)n, sizeof(*v), by_value);
	for (int i = 0; i < n; i++)
		sum += v[i];
	check(near(r->mean_jct_s, sum / n));
	check(near(r->median_jct_s, quantile(v, n, 0.5)));
	check(near(r->p95_jct_s, quantile(v, n, 0.95)));
}

void check_totals(const struct drawn *d, const struct cluster_result *r)
{
	double energy = r->idle_energy_j, cost = r->idle_cost_usd, gross = fabs(r->idle_cost_usd);

	for (int i = 0; i < r->n; i++) {
		check(r->jobs[i].job == i);
		check_job(d, &r->jobs[i]);
		energy += r->jobs[i].energy_j;
		cost += r->jobs[i].cost_usd;
		gross += fabs(r->jobs[i].cost_usd);
	}
	check(near(energy, r->energy_j));
	check(fabs(cost - r->cost_usd) <= 1e-12 * gross);
	check(r->gpu_utilisation >= 0 && r->gpu_utilisation <= 1 + 1e-9);
	check(d->w.e.bill_idle || r->idle_energy_j == 0);
}

bool blocks(const struct policy_spec *s)
{
	bool fcfs = s->has_order ? s->order == ORDER_FCFS : strcmp(s->name, "bace") != 0;
	bool passes = s->has_backfill ? s->backfill : !strcmp(s->name, "bace");

	if (!strcmp(s->name, "bace+"))
		return false;
	return fcfs && !passes;
}

void check_fcfs(const struct drawn *d, const struct cluster_result *r)
{
	for (int i = 0; i < r->n; i++)
		for (int j = 0; j < r->n; j++) {
			const struct job *a = &d->w.e.jobs[i], *b = &d->w.e.jobs[j];
			const struct job_outcome *x = &r->jobs[i], *y = &r->jobs[j];

			if (a->arrival_s < b->arrival_s ||
			    (a->arrival_s == b->arrival_s && strcmp(a->name, b->name) < 0))
				check(y->finished ? x->finished && x->start_s <= y->start_s : true);
		}
}

void check_equal(const struct drawn *da, const struct cluster_result *a, const struct drawn *db,
			const struct cluster_result *b)
{
	check(a->n == b->n && a->n_events == b->n_events);
	for (int i = 0; i < a->n; i++) {
		const struct job_outcome *x = &a->jobs[da->job_at[i]], *y = &b->jobs[db->job_at[i]];
		CLEANUP_FREE char *p = placement_format(&da->w.e.cluster, &x->placement);
		CLEANUP_FREE char *q = placement_format(&db->w.e.cluster, &y->placement);

		check(!strcmp(p, q));
		check(same(x->start_s, y->start_s) && same(x->finish_s, y->finish_s));
		check(x->cost_usd == y->cost_usd && x->energy_j == y->energy_j);
		check(x->gpu_s == y->gpu_s && x->egress_usd == y->egress_usd);
	}
	check(same(a->mean_jct_s, b->mean_jct_s) && same(a->p95_jct_s, b->p95_jct_s));
	check(a->cost_usd == b->cost_usd && a->energy_j == b->energy_j);
	check(a->gpu_utilisation == b->gpu_utilisation && a->makespan_s == b->makespan_s);
}
