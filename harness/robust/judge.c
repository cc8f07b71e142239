/*
 * Gains and their intervals. All resamples of the seeds are drawn once, so that
 * every figure of a run is taken over the same ones and differences are paired.
 */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "harness/robust/robust.h"
#include "harness/sim/sim.h"

#define RESAMPLES 1000
#define LEVEL 0.95

enum { STREAM_BOOTSTRAP = 41 };

const char *const robust_verdict_name[] = { "HOLDS", "UNDECIDED", "FAILS" };

struct judge {
	const struct robust *r;
	struct robust_judgement *out;
	double *count;			/* [RESAMPLES][n_seeds]: how often each was drawn */
	int n_seeds;
	atomic_bool *no_memory;
};

enum robust_verdict robust_verdict_of(double lo, double hi, double threshold)
{
	if (lo >= threshold)
		return ROBUST_HOLDS;
	return hi < threshold ? ROBUST_FAILS : ROBUST_UNDECIDED;
}

/* ---- gains of the seeds ---- */

static double metric_of(const struct robust_score *s, enum robust_metric m)
{
	return m == ROBUST_JCT ? s->jct_s : s->cost_usd;
}

/* NAN where one of the two left a job. */
static void gains(const struct judge *j, int world, int view, int pair, enum robust_metric m, double *out)
{
	const struct robust_score *a = robust_at(j->r, world, view, j->r->pairs[pair].subject);
	const struct robust_score *b = robust_at(j->r, world, view, j->r->pairs[pair].baseline);

	for (int i = 0; i < j->n_seeds; i++)
		out[i] = 1 - metric_of(&a[i], m) / metric_of(&b[i], m);
}

static int mean_of(const double *v, int n, double *mean)
{
	double sum = 0;
	int k = 0;

	for (int i = 0; i < n; i++)
		if (!isnan(v[i])) {
			sum += v[i];
			k++;
		}
	*mean = k ? sum / k : NAN;
	return k;
}

static void resampled(const struct judge *j, const double *v, double *means)
{
	int n = j->n_seeds, valid = 0;
	CLEANUP_FREE double *x = calloc((size_t)n * 2, sizeof(*x));
	double *is = x + n;

	for (int k = 0; k < RESAMPLES; k++)
		means[k] = NAN;
	if (!x) {
		atomic_store(j->no_memory, true);
		return;
	}
	for (int i = 0; i < n; i++) {
		is[i] = !isnan(v[i]);
		x[i] = is[i] ? v[i] : 0;
		valid += is[i] > 0;
	}
	for (int k = 0; k < RESAMPLES; k++) {
		const double *count = j->count + (size_t)k * (size_t)n;
		double sum = 0, weight = 0;

		for (int i = 0; i < n; i++)
			sum += count[i] * x[i];
		for (int i = 0; i < n && valid < n; i++)
			weight += count[i] * is[i];
		means[k] = valid == n ? sum / n : weight > 0 ? sum / weight : NAN;
	}
}

/* Puts the kth smallest in its place, nothing larger before it (Hoare). */
static double nth(double *v, int lo, int hi, int k)
{
	while (lo < hi) {
		double pivot = v[lo + (hi - lo) / 2];
		int i = lo, j = hi;

		while (i <= j) {
			while (v[i] < pivot)
				i++;
			while (pivot < v[j])
				j--;
			if (i <= j) {
				double t = v[i];

				v[i++] = v[j];
				v[j--] = t;
			}
		}
		if (k <= j)
			hi = j;
		else if (k >= i)
			lo = i;
		else
			break;
	}
	return v[k];
}

/* Order statistics, the nearest outside: some values may be infinite. Reorders.
 * Of fewer than two seeds every resample is the same: that says nothing. */
static void interval(double *values, int n_seeds, double *lo, double *hi)
{
	int n = 0, at;

	*lo = *hi = NAN;
	for (int k = 0; k < RESAMPLES; k++)
		if (!isnan(values[k]))
			values[n++] = values[k];
	if (!n || n_seeds < 2)
		return;
	at = (int)((n - 1) * (1 - LEVEL) / 2);
	*lo = nth(values, 0, n - 1, at);
	*hi = nth(values, at, n - 1, n - 1 - at);
}

/* ---- one cell ---- */

static void sums(const struct judge *j, int world, int view, int pair, enum robust_metric m,
		 struct robust_gain *g)
{
	const struct robust_score *a = robust_at(j->r, world, view, j->r->pairs[pair].subject);
	const struct robust_score *b = robust_at(j->r, world, view, j->r->pairs[pair].baseline);
	double sa = 0, sb = 0, medians = 0;
	int n = 0;

	for (int i = 0; i < j->n_seeds; i++) {
		double x = metric_of(&a[i], m), y = metric_of(&b[i], m);

		if (isnan(x) || isnan(y))
			continue;
		sa += x;
		sb += y;
		medians += 1 - a[i].median_jct_s / b[i].median_jct_s;
		n++;
	}
	g->of_sums = n ? 1 - sa / sb : NAN;
	g->median_jct = n && m == ROBUST_JCT ? medians / n : NAN;
}

static void judge_gain(const struct judge *j, int world, int view, int pair, enum robust_metric m,
		       double *v, double *clean, double *means, struct robust_gain *g)
{
	const struct robust_gain *exact = &robust_cell_at(j->out, world, 0, pair)->gain[m];
	double threshold = m == ROBUST_JCT ? j->r->o.jct_threshold : j->r->o.cost_threshold;
	int n_both;

	gains(j, world, view, pair, m, v);
	gains(j, world, 0, pair, m, clean);
	g->n = mean_of(v, j->n_seeds, &g->mean);
	sums(j, world, view, pair, m, g);
	resampled(j, v, means);
	interval(means, g->n, &g->lo, &g->hi);
	g->retention = g->n > 1 && exact->lo > 0 ? g->mean / exact->mean : NAN;
	for (int i = 0; i < j->n_seeds; i++)
		v[i] -= clean[i];
	n_both = mean_of(v, j->n_seeds, &g->change);
	resampled(j, v, means);
	interval(means, n_both, &g->change_lo, &g->change_hi);
	g->verdict = g->n > 1 ? robust_verdict_of(g->lo, g->hi, threshold) : ROBUST_UNDECIDED;
}

static enum robust_verdict both(const struct robust_gain *g)
{
	enum robust_verdict a = g[ROBUST_JCT].verdict, b = g[ROBUST_COST].verdict;

	return a > b ? a : b;
}

/* ---- break-evens ---- */

static bool on_axis(const struct robust_view *v, enum robust_axis a, const struct robust_view *last)
{
	if (v->gaussian || v->multiplicative || v->correlated || v->bias != 0)
		return false;
	return a == AXIS_NOISE ? v->delay_s == 0 && (!last || v->noise > last->noise) :
				 v->noise == 0 && (!last || v->delay_s > last->delay_s);
}

static double position(const struct robust_view *v, enum robust_axis a)
{
	return a == AXIS_NOISE ? v->noise : v->delay_s;
}

/* Where straight lines between the points first fall below the threshold; 0 if
 * the first does, INFINITY if none, NAN without a first. Points without a gain
 * are passed over. */
static double crossing(const double *x, const double *y, int n, double threshold)
{
	int before = 0;

	if (!n || isnan(y[0]))
		return NAN;
	if (y[0] < threshold)
		return 0;
	for (int i = 1; i < n; i++) {
		if (y[i] < threshold)
			return x[before] + (x[i] - x[before]) * (y[before] - threshold) / (y[before] - y[i]);
		if (!isnan(y[i]))
			before = i;
	}
	return INFINITY;
}

static void break_even(const struct judge *j, int world, int pair, enum robust_metric m, enum robust_axis a,
		       double *v, double *means, struct robust_break_even *out)
{
	const struct robust *r = j->r;
	double threshold = m == ROBUST_JCT ? r->o.jct_threshold : r->o.cost_threshold;
	CLEANUP_FREE double *all = calloc((size_t)ROBUST_MAX_AXIS * (RESAMPLES + 1), sizeof(*all));
	double x[ROBUST_MAX_AXIS], y[ROBUST_MAX_AXIS];
	const struct robust_view *last = NULL;
	int n = 0;

	if (!all) {
		atomic_store(j->no_memory, true);
		return;
	}
	for (int view = 0; view < r->n_views && n < ROBUST_MAX_AXIS; view++) {
		double *resamples = all + (size_t)n * RESAMPLES;

		if (!robust_has(r, world, view) || !on_axis(&r->views[view], a, last))
			continue;
		last = &r->views[view];
		x[n] = position(last, a);
		gains(j, world, view, pair, m, v);
		resampled(j, v, resamples);
		if (mean_of(v, j->n_seeds, &y[n]) < 2) {
			y[n] = NAN;
			for (int k = 0; k < RESAMPLES; k++)
				resamples[k] = NAN;
		}
		n++;
	}
	*out = (struct robust_break_even){ .at = crossing(x, y, n, threshold), .end = x[n - 1] };
	out->kind = isnan(out->at) ? BREAK_UNDEFINED : out->at == 0 ? BREAK_ALREADY :
		isinf(out->at) ? BREAK_NEVER : BREAK_AT;
	for (int k = 0; k < RESAMPLES; k++) {
		for (int i = 0; i < n; i++)
			y[i] = all[(size_t)i * RESAMPLES + (size_t)k];
		means[k] = crossing(x, y, n, threshold);
	}
	interval(means, isnan(out->at) ? 0 : j->n_seeds, &out->lo, &out->hi);
}

/* ---- the whole ---- */

static void judge_world(struct judge *j, int world, int pair, double *v, double *clean, double *means)
{
	const struct robust *r = j->r;

	for (int view = 0; view < r->n_views; view++) {
		struct robust_cell *c = (struct robust_cell *)robust_cell_at(j->out, world, view, pair);

		if (!robust_has(r, world, view))
			continue;
		for (int m = 0; m < ROBUST_METRICS; m++)
			judge_gain(j, world, view, pair, (enum robust_metric)m, v, clean, means, &c->gain[m]);
		c->verdict = both(c->gain);
	}
	for (int m = 0; m < ROBUST_METRICS; m++)
		for (int a = 0; a < ROBUST_AXES; a++)
			break_even(j, world, pair, (enum robust_metric)m, (enum robust_axis)a, v, means,
				   (struct robust_break_even *)robust_even_at(j->out, world, pair,
					(enum robust_metric)m, (enum robust_axis)a));
}

static void work(void *arg, int i)
{
	struct judge *j = arg;
	CLEANUP_FREE double *v = calloc((size_t)j->n_seeds, sizeof(*v));
	CLEANUP_FREE double *clean = calloc((size_t)j->n_seeds, sizeof(*clean));
	CLEANUP_FREE double *means = calloc(RESAMPLES, sizeof(*means));

	if (v && clean && means)
		judge_world(j, i / j->r->n_pairs, i % j->r->n_pairs, v, clean, means);
	else
		atomic_store(j->no_memory, true);
}

static void draw_resamples(struct judge *j)
{
	struct bace_rng r;

	bace_rng_init(&r, j->r->exp->seed, STREAM_BOOTSTRAP);
	for (int k = 0; k < RESAMPLES; k++)
		for (int i = 0; i < j->n_seeds; i++)
			j->count[(size_t)k * (size_t)j->n_seeds +
				 bace_rng_below(&r, (uint64_t)j->n_seeds)] += 1;
}

int robust_judge(const struct robust *r, struct robust_judgement *out, struct bace_err *err)
{
	size_t pairs = (size_t)r->n_worlds * (size_t)r->n_pairs;
	atomic_bool no_memory = false;
	struct judge j = { .r = r, .out = out, .n_seeds = r->o.n_seeds, .no_memory = &no_memory };
	int rc = -ENOMEM;

	*out = (struct robust_judgement){ .r = r };
	out->cells = calloc(pairs * (size_t)r->n_views, sizeof(*out->cells));
	out->even = calloc(pairs * ROBUST_METRICS * ROBUST_AXES, sizeof(*out->even));
	j.count = calloc((size_t)RESAMPLES * (size_t)j.n_seeds, sizeof(*j.count));
	if (out->cells && out->even && j.count) {
		draw_resamples(&j);
		rc = pool_run((int)pairs, r->o.n_threads, work, &j, NULL, NULL, err);
	}
	free(j.count);
	if (rc == -ENOMEM || atomic_load(&no_memory))
		rc = bace_fail(err, ENOMEM, "verdicts: out of memory");
	if (rc)
		robust_judgement_free(out);
	return rc;
}

void robust_judgement_free(struct robust_judgement *j)
{
	free(j->cells);
	free(j->even);
	*j = (struct robust_judgement){ 0 };
}
