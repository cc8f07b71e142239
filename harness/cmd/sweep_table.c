#include "common/json.h"
#include "harness/cmd/cmd.h"
#include "harness/cmd/sweep_table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/results.h"

#define RESAMPLES 2000
#define LEVEL 0.95
#define MAX_ERRORS 5
#define J_PER_KWH 3.6e6

/* A mean over seeds (or, with one seed, over jobs) and its interval. */
struct estimate {
	size_t n;
	double value, lo, hi;
};

static struct estimate estimate(const double *v, size_t n, uint64_t seed)
{
	struct estimate e = { .n = n, .value = n ? stats_mean(v, n) : NAN, .lo = NAN, .hi = NAN };

	if (n > 1)
		stats_bootstrap(v, n, stats_mean, RESAMPLES, LEVEL, seed, &e.lo, &e.hi);
	return e;
}

/* What the interval of a metric is taken over: its value per seed, or with one
 * seed the jobs' own. Returns how many; v has room for seeds + jobs. */
static size_t samples(const struct sweep *s, int policy, int oracle, enum sweep_metric m, double *v)
{
	const struct sweep_cell *one = sweep_at(s, 0, policy, oracle);
	const double *jobs = m == METRIC_MEAN_JCT ? one->jct_s : m == METRIC_COST ? one->cost_usd : NULL;
	size_t n = 0;

	if (s->n_seeds == 1 && jobs) {
		for (int i = 0; i < s->n_jobs; i++)
			if (!isnan(jobs[i]))
				v[n++] = jobs[i];
		return n;
	}
	for (int i = 0; i < s->n_seeds; i++) {
		double x = sweep_at(s, i, policy, oracle)->metric[m];

		if (!isnan(x))
			v[n++] = x;
	}
	return n;
}

static struct estimate metric(const struct sweep *s, int policy, int oracle, enum sweep_metric m)
{
	CLEANUP_FREE double *v = cmd_room((size_t)s->n_seeds + (size_t)s->n_jobs, sizeof(*v));
	struct estimate e = { .value = NAN, .lo = NAN, .hi = NAN };
	double jobs;

	e = estimate(v, samples(s, policy, oracle, m, v), s->seed);
	/* the cost of a run is a sum over jobs, and may hold idle GPUs */
	if (s->n_seeds == 1 && m == METRIC_COST) {
		jobs = s->n_jobs;
		e.lo *= jobs;
		e.hi *= jobs;
		e.value *= jobs;
		double idle = sweep_at(s, 0, policy, oracle)->metric[m] - e.value;

		e.lo += idle;
		e.hi += idle;
		e.value += idle;
	}
	return e;
}

/* The value of one pair; NAN: the two cannot be compared, because one of them
 * failed or did not finish the same jobs. */
static void pair(const struct sweep *s, int i, int policy, int oracle, enum sweep_metric m, double *x,
		 double *y)
{
	bool jobs = s->n_seeds == 1;
	const struct sweep_cell *a = sweep_at(s, jobs ? 0 : i, 0, oracle);
	const struct sweep_cell *b = sweep_at(s, jobs ? 0 : i, policy, oracle);

	*x = *y = NAN;
	if (a->error || b->error)
		return;
	if (!jobs) {
		if (a->metric[METRIC_FINISHED] != b->metric[METRIC_FINISHED])
			return;
		*x = a->metric[m];
		*y = b->metric[m];
	} else if (!isnan(a->jct_s[i]) && !isnan(b->jct_s[i])) {
		*x = m == METRIC_COST ? a->cost_usd[i] : a->jct_s[i];
		*y = m == METRIC_COST ? b->cost_usd[i] : b->jct_s[i];
	}
}

/* Paired: mean of the differences over the mean of the first. */
static struct estimate difference(const struct sweep *s, int policy, int oracle, enum sweep_metric m)
{
	int all = s->n_seeds == 1 ? s->n_jobs : s->n_seeds;
	CLEANUP_FREE double *d = cmd_room((size_t)all + 1, sizeof(*d));
	struct estimate e = { .value = NAN, .lo = NAN, .hi = NAN };
	double base = 0, x, y;
	size_t n = 0;

	for (int i = 0; i < all; i++) {
		pair(s, i, policy, oracle, m, &x, &y);
		if (isnan(x) || isnan(y))
			continue;
		base += x;
		d[n++] = y - x;
	}
	e = estimate(d, n, s->seed);
	base = fabs(base / (double)n);
	e.value /= base;
	e.lo /= base;
	e.hi /= base;
	return e;
}

/* Mean over seeds, no interval. */
static double plain(const struct sweep *s, int policy, int oracle, enum sweep_metric m)
{
	double sum = 0;
	int n = 0;

	for (int i = 0; i < s->n_seeds; i++) {
		double x = sweep_at(s, i, policy, oracle)->metric[m];

		if (isnan(x))
			continue;
		sum += x;
		n++;
	}
	return n ? sum / n : NAN;
}

static int count_errors(const struct sweep *s)
{
	int n = 0;

	for (int i = 0; i < s->n_cells; i++)
		n += s->cells[i].error != NULL;
	return n;
}

/* ---- text ---- */

static double time_unit(const struct sweep *s, int oracle, const char **name)
{
	static const struct {
		double s;
		const char *name;
	} units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };
	double least = INFINITY;

	for (int p = 0; p < s->n_policies; p++)
		least = fmin(least, plain(s, p, oracle, METRIC_MEAN_JCT));
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		*name = units[i].name;
		if (least >= 2 * units[i].s)
			return units[i].s;
	}
	return 1;
}

static const char *fixed(char *buf, size_t size, double v, int digits)
{
	if (isnan(v))
		snprintf(buf, size, "-");
	else
		snprintf(buf, size, "%.*f", digits, v);
	return buf;
}

static void print_range(FILE *to, const struct estimate *e, double unit, int digits, bool sign)
{
	char text[64];

	if (isnan(e->lo))
		snprintf(text, sizeof(text), "-");
	else
		snprintf(text, sizeof(text), sign ? "[%+.*f, %+.*f]" : "[%.*f, %.*f]", digits, e->lo / unit,
			 digits, e->hi / unit);
	fprintf(to, " %-19s", text);
}

static int digits_for(double v)
{
	return v >= 100 ? 0 : v >= 10 ? 1 : v >= 1 ? 2 : 3;
}

static void print_policy(const struct sweep *s, int p, int oracle, double unit, FILE *to)
{
	struct estimate jct = metric(s, p, oracle, METRIC_MEAN_JCT), cost = metric(s, p, oracle, METRIC_COST);
	int digits = digits_for(jct.value / unit), cost_digits = digits_for(fabs(cost.value));
	double energy = plain(s, p, oracle, METRIC_ENERGY) / J_PER_KWH;
	double left = s->n_jobs - plain(s, p, oracle, METRIC_FINISHED);
	double failures = plain(s, p, oracle, METRIC_FAILURES);
	char b[32];

	fprintf(to, "%-18s", s->policies[p]);
	fprintf(to, " %8s", fixed(b, sizeof(b), jct.value / unit, digits));
	print_range(to, &jct, unit, digits, false);
	fprintf(to, " %8s", fixed(b, sizeof(b), plain(s, p, oracle, METRIC_MEDIAN_JCT) / unit, digits));
	fprintf(to, " %8s", fixed(b, sizeof(b), plain(s, p, oracle, METRIC_P95_JCT) / unit, digits));
	fprintf(to, " %8s", fixed(b, sizeof(b), plain(s, p, oracle, METRIC_MEAN_WAITING) / unit, digits));
	fprintf(to, " %6s", fixed(b, sizeof(b), 100 * plain(s, p, oracle, METRIC_UTILISATION), 1));
	fprintf(to, " %9s", fixed(b, sizeof(b), energy, digits_for(energy)));
	fprintf(to, " %9s", fixed(b, sizeof(b), cost.value, cost_digits));
	print_range(to, &cost, 1, cost_digits, false);
	if (left > 0)
		fprintf(to, " %.4g unfinished", left);
	if (failures > 0)
		fprintf(to, " %.4g question%s not answered", failures, failures == 1 ? "" : "s");
	fputc('\n', to);
}

static void print_differences(const struct sweep *s, int oracle, FILE *to)
{
	fprintf(to, "\nagainst %s, paired over %s, in %% of its mean\n%-18s %8s %-19s %9s %-19s\n",
		s->policies[0], s->n_seeds > 1 ? "seeds" : "jobs", "policy", "mean JCT", " 95 %", "cost",
		" 95 %");
	for (int p = 1; p < s->n_policies; p++) {
		struct estimate jct = difference(s, p, oracle, METRIC_MEAN_JCT);
		struct estimate cost = difference(s, p, oracle, METRIC_COST);

		fprintf(to, "%-18s", s->policies[p]);
		if (isnan(jct.value))
			fprintf(to, " %8s", "-");
		else
			fprintf(to, " %+8.1f", 100 * jct.value);
		print_range(to, &jct, 0.01, 1, true);
		if (isnan(cost.value))
			fprintf(to, " %9s", "-");
		else
			fprintf(to, " %+9.1f", 100 * cost.value);
		print_range(to, &cost, 0.01, 1, true);
		fputc('\n', to);
	}
}

static void print_errors(const struct sweep *s, FILE *to)
{
	int shown = 0;

	for (int i = 0; i < s->n_cells && shown < MAX_ERRORS; i++)
		if (s->cells[i].error) {
			fprintf(to, "%sfailed: %s, seed %llu, %s: %s\n", shown++ ? "" : "\n",
				s->policies[i / s->n_oracles % s->n_policies],
				(unsigned long long)(s->seed + (uint64_t)(i / s->n_oracles / s->n_policies)),
				s->oracles[i % s->n_oracles], s->cells[i].error);
		}
	if (count_errors(s) > shown)
		fprintf(to, "failed: %d more\n", count_errors(s) - shown);
}

int sweep_print(const struct sweep *s, FILE *to, struct bace_err *err)
{
	for (int o = 0; o < s->n_oracles; o++) {
		const char *name;
		double unit = time_unit(s, o, &name);

		fprintf(to, "%s%s: %d jobs, %d seed%s, step times by %s; times in %s, energy in kWh (no PUE), "
			"cost in USD; intervals: 95 %%, bootstrap over %s\n\n",
			o ? "\n" : "", s->experiment, s->n_jobs, s->n_seeds, s->n_seeds > 1 ? "s" : "",
			s->oracles[o], name, s->n_seeds > 1 ? "seeds" : "jobs");
		fprintf(to, "%-18s %8s %-19s %8s %8s %8s %6s %9s %9s %-19s\n", "policy", "mean JCT", " 95 %",
			"median", "p95", "waiting", "util %", "energy", "cost", " 95 %");
		for (int p = 0; p < s->n_policies; p++)
			print_policy(s, p, o, unit, to);
		if (s->n_policies > 1)
			print_differences(s, o, to);
	}
	if (!isnan(s->cost_bound_usd))
		fprintf(to, "\nno policy can run these jobs for less than %.*f USD of electricity\n",
			digits_for(s->cost_bound_usd), s->cost_bound_usd);
	print_errors(s, to);
	return count_errors(s);
}

/* ---- JSON ---- */

static json_t *estimate_json(const struct estimate *e)
{
	return json_pack("{s:o, s:o, s:o, s:I}", "value", json_number(e->value), "lo", json_number(e->lo), "hi",
			 json_number(e->hi), "n", (json_int_t)e->n);
}

static json_t *row_json(const struct sweep *s, int p, int o)
{
	json_t *j = json_pack("{s:s, s:s}", "policy", s->policies[p], "oracle", s->oracles[o]);
	int failed = 0;

	for (int m = 0; m < N_METRICS; m++) {
		struct estimate e = metric(s, p, o, (enum sweep_metric)m);

		json_object_set_new(j, sweep_metric_name[m], estimate_json(&e));
	}
	for (int i = 0; i < s->n_seeds; i++)
		failed += sweep_at(s, i, p, o)->error != NULL;
	json_object_set_new(j, "failed", json_integer(failed));
	if (p) {
		struct estimate jct = difference(s, p, o, METRIC_MEAN_JCT);
		struct estimate cost = difference(s, p, o, METRIC_COST);

		json_object_set_new(j, "jct_difference", estimate_json(&jct));
		json_object_set_new(j, "cost_difference", estimate_json(&cost));
	}
	return j;
}

int sweep_print_json(const struct sweep *s, FILE *to, struct bace_err *err)
{
	json_t *rows = json_array(), *errors = json_array(), *j;
	char seed[24];
	int rc;

	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)s->seed);
	for (int o = 0; o < s->n_oracles; o++)
		for (int p = 0; p < s->n_policies; p++)
			json_array_append_new(rows, row_json(s, p, o));
	for (int i = 0; i < s->n_cells; i++)
		if (s->cells[i].error)
			json_array_append_new(errors, json_string(s->cells[i].error));
	j = json_pack("{s:s, s:s, s:i, s:i, s:s, s:o, s:o, s:o}", "experiment", s->experiment, "first_seed", seed,
		      "seeds", s->n_seeds, "jobs", s->n_jobs, "interval_over", s->n_seeds > 1 ? "seeds" : "jobs",
		      "cost_bound_usd", json_number(s->cost_bound_usd), "rows", rows, "errors", errors);
	if (!j)
		return bace_fail(err, ENOMEM, "the table: out of memory");
	rc = json_dumpf(j, to, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
	json_decref(j);
	fputc('\n', to);
	return rc ? bace_fail(err, EIO, "write the table") : count_errors(s);
}
