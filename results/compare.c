#include "results/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

#define LEVEL 0.95
#define POLICIES_MAX 64

struct interval {
	double value, lo, hi;
	size_t n;
};

struct order {			/* of the policies, by a metric */
	const char *metric;
	struct interval tau;	/* n: policies */
	size_t n_jobs;
};

struct comparison {
	struct placement_ref *v;
	struct gap *gaps;	/* [n] */
	size_t n;
	struct interval median_signed, median_abs, p95_abs;
	struct interval job_signed, job_abs, job_p95;	/* JCT, measured to event simulation */
	struct order orders[2];
	struct job_compared *jobs;
	size_t n_jobs;
	struct policy_compared *policies;
	size_t n_policies;
};

static double abs_p95(const double *v, size_t n)
{
	return stats_quantile(v, n, 0.95);
}

static struct interval interval_of(const double *v, size_t n, double (*statistic)(const double *, size_t),
				   const struct compare_options *o)
{
	struct interval r = { .value = n ? statistic(v, n) : NAN, .n = n, .lo = NAN, .hi = NAN };

	/* Of one value there is nothing to draw from. */
	if (n > 1)
		stats_bootstrap(v, n, statistic, o->resamples, LEVEL, o->seed, &r.lo, &r.hi);
	return r;
}

static int errors_of(struct comparison *c, const struct compare_options *o, struct bace_err *e)
{
	CLEANUP_FREE double *sign = calloc(c->n + 1, sizeof(double)), *size = calloc(c->n + 1, sizeof(double));
	size_t n = 0;

	if (!sign || !size)
		return bace_fail(e, ENOMEM, "compare: out of memory");
	for (size_t i = 0; i < c->n; i++) {
		double x = c->v[i].median_s / c->v[i].event_sim_s - 1;

		if (!isfinite(x))
			continue;
		sign[n] = x;
		size[n++] = fabs(x);
	}
	c->median_signed = interval_of(sign, n, stats_median, o);
	c->median_abs = interval_of(size, n, stats_median, o);
	c->p95_abs = interval_of(size, n, abs_p95, o);
	return 0;
}

/* ---- jobs and the order of policies ---- */

struct outcomes {		/* of jobs that every policy finished by both oracles */
	size_t n_policies, n_jobs;
	double *sim[2], *measured[2];	/* JCT, cost: [policy * n_jobs + job] */
};

static void outcomes_free(struct outcomes *o)
{
	for (int m = 0; m < 2; m++) {
		free(o->sim[m]);
		free(o->measured[m]);
	}
}

static int count(struct store *s, const char *run, const char *sql, size_t *n, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, sql, run, &q, e);

	if (rc)
		return rc;
	if (store_next(s, q, &rc, e))
		*n = (size_t)sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return rc;
}

/* One pass over the run's rows: a join of two oracles' would take the square of them. */
#define PAIRS "(SELECT policy, job, " OUTCOME_BY("event-sim", "jct_s") " sim_jct_s, " OUTCOME_BY("measured", "jct_s") \
	" jct_s, " OUTCOME_BY("event-sim", "cost_usd") " sim_cost_usd, " OUTCOME_BY("measured", "cost_usd") \
	" cost_usd FROM job_outcome WHERE run_id = ?1 AND finished GROUP BY policy, job HAVING sum(oracle =" \
	" 'event-sim') AND sum(oracle = 'measured'))"

static int outcomes_load(struct store *s, const char *run, struct outcomes *o, struct bace_err *e)
{
	sqlite3_stmt *q;
	size_t cells, i = 0;
	int rc;

	*o = (struct outcomes){ 0 };
	rc = count(s, run, "SELECT count(DISTINCT policy) FROM " PAIRS, &o->n_policies, e);
	if (rc || !o->n_policies || o->n_policies > POLICIES_MAX)
		return rc;
	rc = store_query(s, "WITH p AS " PAIRS " SELECT * FROM p WHERE job IN (SELECT job FROM p GROUP BY job HAVING count(*) ="
			 " (SELECT count(DISTINCT policy) FROM p)) ORDER BY policy, job", run, &q, e);
	if (rc)
		return rc;
	while (store_next(s, q, &rc, e))
		o->n_jobs++;
	cells = o->n_jobs;
	o->n_jobs /= o->n_policies;
	for (int m = 0; !rc && m < 2; m++) {
		o->sim[m] = calloc(cells + 1, sizeof(double));
		o->measured[m] = calloc(cells + 1, sizeof(double));
		if (!o->sim[m] || !o->measured[m])
			rc = bace_fail(e, ENOMEM, "compare: out of memory");
	}
	sqlite3_reset(q);
	for (; i < cells && store_next(s, q, &rc, e); i++) {
		o->sim[0][i] = column_number(q, 2);
		o->measured[0][i] = column_number(q, 3);
		o->sim[1][i] = column_number(q, 4);
		o->measured[1][i] = column_number(q, 5);
	}
	sqlite3_finalize(q);
	return rc;
}

/* tau of the policies by the sum over the jobs that were drawn. */
static double tau_of(const struct outcomes *o, int metric, const size_t *drawn)
{
	double sim[POLICIES_MAX], measured[POLICIES_MAX];

	for (size_t p = 0; p < o->n_policies; p++) {
		sim[p] = measured[p] = 0;
		for (size_t j = 0; j < o->n_jobs; j++) {
			sim[p] += o->sim[metric][p * o->n_jobs + drawn[j]];
			measured[p] += o->measured[metric][p * o->n_jobs + drawn[j]];
		}
	}
	return stats_kendall(sim, measured, o->n_policies);
}

static int order_of(const struct outcomes *o, int metric, const struct compare_options *opt, struct order *out,
		    struct bace_err *e)
{
	CLEANUP_FREE size_t *drawn = calloc(o->n_jobs + 1, sizeof(*drawn));
	CLEANUP_FREE double *taus = calloc((size_t)opt->resamples + 1, sizeof(*taus));
	struct bace_rng rng;
	size_t n = 0;

	out->tau = (struct interval){ NAN, NAN, NAN, o->n_policies };
	out->n_jobs = o->n_jobs;
	if (!drawn || !taus)
		return bace_fail(e, ENOMEM, "compare: out of memory");
	if (o->n_policies < 2 || !o->n_jobs)
		return 0;
	for (size_t j = 0; j < o->n_jobs; j++)
		drawn[j] = j;
	out->tau.value = tau_of(o, metric, drawn);
	bace_rng_init(&rng, opt->seed, (uint64_t)metric + 1);
	for (int k = 0; k < opt->resamples; k++) {
		double tau;

		for (size_t j = 0; j < o->n_jobs; j++)
			drawn[j] = bace_rng_below(&rng, o->n_jobs);
		tau = tau_of(o, metric, drawn);
		if (isfinite(tau))
			taus[n++] = tau;
	}
	if (o->n_jobs > 1 && n) {
		out->tau.lo = stats_quantile(taus, n, (1 - LEVEL) / 2);
		out->tau.hi = stats_quantile(taus, n, (1 + LEVEL) / 2);
	}
	return 0;
}

static int jobs_of(struct comparison *c, const struct compare_options *o, struct bace_err *e)
{
	CLEANUP_FREE double *sign = calloc(c->n_jobs + 1, sizeof(double));
	CLEANUP_FREE double *size = calloc(c->n_jobs + 1, sizeof(double));
	size_t n = 0;

	if (!sign || !size)
		return bace_fail(e, ENOMEM, "compare: out of memory");
	for (size_t i = 0; i < c->n_jobs; i++) {
		const double *jct_s = c->jobs[i].v[COMPARED_JCT];
		double x = jct_s[COMPARED_MEASURED] / jct_s[COMPARED_SIM] - 1;

		if (!isfinite(x))
			continue;
		sign[n] = x;
		size[n++] = fabs(x);
	}
	c->job_signed = interval_of(sign, n, stats_median, o);
	c->job_abs = interval_of(size, n, stats_median, o);
	c->job_p95 = interval_of(size, n, abs_p95, o);
	return 0;
}

static int build(struct store *s, const char *run, const struct compare_options *o, struct comparison *c,
		 struct bace_err *e)
{
	struct outcomes out = { 0 };
	int rc = run_filter_check(s, run, &o->filter, e);

	if (!rc)
		rc = measured_placements(s, run, &o->filter, &c->v, &c->n, e);
	if (rc)
		return rc;
	if (!c->n)
		return bace_fail(e, ENODATA, "run %s has no valid measured placement%s to compare", run,
				 o->filter.policy || o->filter.job ? " like that" : "");
	c->gaps = calloc(c->n + 1, sizeof(*c->gaps));
	if (!rc && !c->gaps)
		rc = bace_fail(e, ENOMEM, "compare: out of memory");
	for (size_t i = 0; !rc && i < c->n; i++)
		rc = placement_gap(s, c->v[i].id, &c->gaps[i], e);
	if (!rc)
		rc = errors_of(c, o, e);
	if (!rc)
		rc = compared_jobs(s, run, &o->filter, &c->jobs, &c->n_jobs, e);
	if (!rc)
		rc = jobs_of(c, o, e);
	if (!rc)
		rc = compared_policies(c->jobs, c->n_jobs, o, &c->policies, &c->n_policies, e);
	if (!rc)
		rc = outcomes_load(s, run, &out, e);
	for (int m = 0; !rc && m < 2; m++) {
		c->orders[m].metric = m ? "cost" : "mean JCT";
		rc = order_of(&out, m, o, &c->orders[m], e);
	}
	outcomes_free(&out);
	return rc;
}

/* ---- text ---- */

static int print_placements(const struct comparison *c, FILE *to, bool color, int width)
{
	static const struct column columns[] = { { "policy", TEXT }, { "job", TEXT },
		{ "placement\n(region:GPUs)", FLEX }, { "closed\nform", SECONDS, 't' }, { "event\nsim", SECONDS, 't' },
		{ "measured\nmedian", SECONDS, 't' }, { "error to\nevent sim", PERCENT, 'p' },
		{ "error to\nclosed form", PERCENT, 'p' }, { "computation\nlate", PERCENT, 'p' },
		{ "messages\nslower", PERCENT, 'p' }, { "waiting", PERCENT, 'p' }, { "unex-\nplained", PERCENT, 'p' },
		{ "n", COUNT } };
	struct table t = { .title = "Step times: where the gap comes from", .note = "Errors of the measured median. The "
		"parts are of the mean over the first steps, along the operations that a step waited for, as shares of "
		"the event simulation; they add up to that mean's error.", .columns = columns, .n_columns = ARRAY_LEN(columns) };
	int rc = 0;

	for (size_t i = 0; !rc && i < c->n; i++) {
		const struct placement_ref *p = &c->v[i];
		const struct gap *g = &c->gaps[i];
		double base = g->n_steps ? p->event_sim_s : NAN;

		rc |= table_text(&t, p->policy);
		rc |= table_text(&t, p->job);
		rc |= table_text(&t, p->placement);
		rc |= table_number(&t, p->closed_form_s);
		rc |= table_number(&t, p->event_sim_s);
		rc |= table_number(&t, p->median_s);
		rc |= table_number(&t, p->median_s / p->event_sim_s - 1);
		rc |= table_number(&t, p->median_s / p->closed_form_s - 1);
		rc |= table_number(&t, g->overrun_s / base);
		rc |= table_number(&t, g->transfer_s / base);
		rc |= table_number(&t, g->waiting_s / base);
		rc |= table_number(&t, g->unexplained_s / base);
		rc |= table_number(&t, p->n_steps);
	}
	rc |= table_print(&t, to, color, width);
	table_free(&t);
	return rc;
}

static int print_why(const struct comparison *c, FILE *to, bool color, int width)
{
	struct table t;
	int rc = why_table(c->v, c->gaps, c->n, &t);

	if (!rc && t.n_cells)
		rc = table_print(&t, to, color, width);
	table_free(&t);
	return rc;
}

static void print_interval(FILE *to, const char *what, const struct interval *i, double factor, const char *unit,
			   const char *of)
{
	if (!isfinite(i->value)) {
		fprintf(to, "  %-46s -  (n = %zu %s)\n", what, i->n, of);
		return;
	}
	fprintf(to, "  %-46s %+.2f%s", what, i->value * factor, unit);
	if (isfinite(i->lo))
		fprintf(to, "  95 %% CI [%+.2f, %+.2f]", i->lo * factor, i->hi * factor);
	fprintf(to, "  (n = %zu %s)\n", i->n, of);
}

static void print_summary(const struct comparison *c, FILE *to, bool color)
{
	fprintf(to, "\n%sMeasured against event simulation%s\n\n", color ? "\033[1m" : "", color ? "\033[0m" : "");
	print_interval(to, "step time, median signed error", &c->median_signed, 100, " %", "placements");
	print_interval(to, "step time, median absolute error", &c->median_abs, 100, " %", "placements");
	print_interval(to, "step time, 95th percentile of the error", &c->p95_abs, 100, " %", "placements");
	print_interval(to, "completion time, median signed error", &c->job_signed, 100, " %", "jobs");
	print_interval(to, "completion time, median absolute error", &c->job_abs, 100, " %", "jobs");
	print_interval(to, "completion time, 95th percentile of the error", &c->job_p95, 100, " %", "jobs");
	for (int m = 0; m < 2; m++) {
		char what[64];

		snprintf(what, sizeof(what), "order of policies by %s, Kendall tau-b", c->orders[m].metric);
		print_interval(to, what, &c->orders[m].tau, 1, "", "policies");
	}
	fputs("\nIntervals: percentile bootstrap over placements, jobs; of tau, over the jobs that every policy\n"
	      "finished.\n", to);
}

/* ---- JSON ---- */

static json_t *interval_json(const struct interval *i)
{
	return json_pack("{s:o, s:o, s:o, s:I}", "value", json_number(i->value), "lo", json_number(i->lo), "hi", json_number(i->hi),
			 "n", (json_int_t)i->n);
}

static json_t *why_json(const struct gap *g)
{
	json_t *j = json_object();

	for (int i = 0; i < SLOW_CAUSES; i++) {
		char key[32];

		snprintf(key, sizeof(key), "%s_s", slow_cause_name[i]);
		json_object_set_new(j, key, json_number(g->why_s[i]));
	}
	return j;
}

static json_t *placement_json(const struct placement_ref *p, const struct gap *g)
{
	json_t *j = json_pack("{s:I, s:s, s:s, s:s, s:o, s:o, s:o, s:i}", "placement_id", (json_int_t)p->id, "policy",
		p->policy, "job", p->job, "placement", p->placement, "closed_form_s", json_number(p->closed_form_s),
		"event_sim_s", json_number(p->event_sim_s), "measured_median_s", json_number(p->median_s), "n_steps", p->n_steps);

	if (j && g->n_steps)
		json_object_set_new(j, "gap", json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "n_steps", g->n_steps,
			"event_sim_s", json_number(g->event_sim_s), "measured_mean_s", json_number(g->measured_s), "computation_late_s", json_number(g->overrun_s),
			"messages_slower_s", json_number(g->transfer_s), "messages_slower_by", why_json(g), "waiting_s",
			json_number(g->waiting_s), "unexplained_s", json_number(g->unexplained_s)));
	return j;
}

static json_t *oracles_json(const double v[COMPARED_ORACLES])
{
	return json_pack("{s:o, s:o, s:o}", "closed_form", json_number(v[COMPARED_CLOSED]), "event_sim",
			 json_number(v[COMPARED_SIM]), "measured", json_number(v[COMPARED_MEASURED]));
}

static json_t *jobs_json(const struct comparison *c)
{
	json_t *a = json_array();

	for (size_t i = 0; i < c->n_jobs; i++)
		json_array_append_new(a, json_pack("{s:s, s:s, s:o, s:o, s:o}", "policy", c->jobs[i].policy, "job",
			c->jobs[i].job, "jct_s", oracles_json(c->jobs[i].v[COMPARED_JCT]), "energy_j",
			oracles_json(c->jobs[i].v[COMPARED_ENERGY]), "cost_usd",
			oracles_json(c->jobs[i].v[COMPARED_COST])));
	return a;
}

static json_t *policies_json(const struct comparison *c)
{
	static const char *const key[COMPARED_METRICS] = { "mean_jct_s", "energy_j", "cost_usd" };
	json_t *a = json_array();

	for (size_t i = 0; i < c->n_policies; i++) {
		const struct policy_compared *p = &c->policies[i];
		json_t *j = json_pack("{s:s, s:i}", "policy", p->policy, "jobs", p->n);

		for (int k = 0; k < COMPARED_METRICS; k++) {
			json_t *m = oracles_json(p->v[k]);

			json_object_set_new(m, "mean_error", json_number(p->error[k]));
			json_object_set_new(m, "lo", json_number(p->lo[k]));
			json_object_set_new(m, "hi", json_number(p->hi[k]));
			json_object_set_new(j, key[k], m);
		}
		json_array_append_new(a, j);
	}
	return a;
}

static int print_json(const struct comparison *c, const char *run, FILE *to, struct bace_err *e)
{
	json_t *list = json_array(), *root;
	int rc = 0;

	for (size_t i = 0; i < c->n; i++)
		json_array_append_new(list, placement_json(&c->v[i], &c->gaps[i]));
	root = json_pack("{s:s, s:o, s:o, s:o, s:{s:o, s:o, s:o}, s:{s:o, s:o, s:o}, s:{s:o, s:o}}", "run", run, "placements",
		list, "jobs", jobs_json(c), "policies", policies_json(c),
		"step_time_error", "median_signed", interval_json(&c->median_signed), "median_abs",
		interval_json(&c->median_abs), "p95_abs", interval_json(&c->p95_abs), "jct_error", "median_signed",
		interval_json(&c->job_signed), "median_abs", interval_json(&c->job_abs), "p95_abs",
		interval_json(&c->job_p95), "policy_order_kendall_tau", "mean_jct", interval_json(&c->orders[0].tau), "cost", interval_json(&c->orders[1].tau));
	if (!root || json_dumpf(root, to, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) || fputc('\n', to) == EOF)
		rc = bace_fail(e, EIO, "compare: write failed");
	json_decref(root);
	return rc;
}

int results_compare(struct store *s, const char *given, const struct compare_options *o, FILE *to, bool json,
		    bool color, int width, struct compare_summary *out, struct bace_err *e)
{
	struct comparison c = { 0 };
	char run[32];
	int rc = store_find_run(s, given, run, e);

	if (!rc)
		rc = build(s, run, o, &c, e);
	if (!rc && json) {
		rc = print_json(&c, run, to, e);
	} else if (!rc) {
		if (print_placements(&c, to, color, width) || print_why(&c, to, color, width) ||
		    print_compared_jobs(c.jobs, c.n_jobs, to, color, width) ||
		    print_compared_policies(c.policies, c.n_policies, to, color, width))
			rc = bace_fail(e, ENOMEM, "compare: out of memory");
		print_summary(&c, to, color);
	}
	if (!rc && out) {
		*out = (struct compare_summary){ .n = c.median_abs.n, .median_abs = c.median_abs.value };
		for (size_t i = 0; i < c.n; i++)
			out->worst_abs = fmax(out->worst_abs, fabs(c.v[i].median_s / c.v[i].event_sim_s - 1));
	}
	free(c.v);
	free(c.gaps);
	free(c.jobs);
	free(c.policies);
	return rc;
}
