/* Two runs side by side. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "results/table.h"

#define LEVEL 0.95

struct pair {			/* one placement that both measured */
	int64_t a, b;		/* rows */
	char policy[80], job[80], placement[200];
	double a_s, b_s;	/* medians */
	int n;			/* steps, of the shorter */
	double lo, hi;		/* of b / a - 1 */
};

struct diff {
	struct store *s;
	char a[32], b[32];
	const struct diff_options *o;
	size_t n, cap;
	struct pair *pairs;
	struct table origin, steps, outcomes;
	struct bace_err *e;
};

/* ---- how they came about ---- */

static int add_origin(struct diff *d)
{
	static const struct column columns[] = { { "what", TEXT }, { "first", FLEX }, { "second", FLEX } };
	static const char *const names[] = { "bace", "source", "kernel", "backend", "experiment", "config", "seed",
		"schedule", "scale of bytes", "scale of time", "hosts and sysctls" };
	sqlite3_stmt *q;
	int rc = store_query(d->s, "SELECT a.version, a.git_revision, a.kernel, a.backend, a.experiment,"
		" a.config_hash, a.seed, a.schedule, a.scale_bytes, a.scale_time, a.inventory_json,"
		" b.version, b.git_revision, b.kernel, b.backend, b.experiment, b.config_hash, b.seed,"
		" b.schedule, b.scale_bytes, b.scale_time, b.inventory_json FROM run a, run b WHERE a.id = ?1"
		" AND b.id = ?2", d->a, &q, d->e);

	d->origin = (struct table){ .title = "What is different in how they came about", .columns = columns,
				    .n_columns = ARRAY_LEN(columns) };
	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, d->b, -1, SQLITE_STATIC);
	if (sqlite3_step(q) != SQLITE_ROW)
		rc = store_fail(d->s, d->e, "read");
	for (int i = 0; !rc && i < (int)ARRAY_LEN(names); i++) {
		const char *x = column_text(q, i), *y = column_text(q, i + (int)ARRAY_LEN(names));
		bool whole = i + 1 < (int)ARRAY_LEN(names);	/* an inventory is pages long */

		if (!strcmp(x, y))
			continue;
		if (table_text(&d->origin, names[i]) || table_text(&d->origin, whole ? x : "(see bace export)") ||
		    table_text(&d->origin, whole ? y : "differ"))
			rc = bace_fail(d->e, ENOMEM, "diff: out of memory");
	}
	sqlite3_finalize(q);
	return rc;
}

/* ---- step times ---- */

/* The same placement at the same number of jobs at once, the nth time each. */
#define MEASURED(run) "(SELECT min(id) id, policy, job, placement, jobs_at_once, measured_median_s m, n_steps,"	\
	" row_number() OVER (PARTITION BY policy, job, placement, jobs_at_once ORDER BY min(id)) nth FROM"	\
	" placement WHERE run_id = " run " AND valid AND measured_median_s > 0 GROUP BY policy, job, moment)"

static int add_pairs(struct diff *d)
{
	sqlite3_stmt *q;
	int step = SQLITE_DONE, rc = store_query(d->s, "SELECT a.id, b.id, a.policy, a.job, a.placement, a.m, b.m,"
		" min(a.n_steps, b.n_steps) FROM " MEASURED("?1") " a JOIN " MEASURED("?2") " b USING (policy, job,"
		" placement, jobs_at_once, nth) ORDER BY a.id", d->a, &q, d->e);

	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, d->b, -1, SQLITE_STATIC);
	while (!rc && (step = sqlite3_step(q)) == SQLITE_ROW) {
		struct pair p = { sqlite3_column_int64(q, 0), sqlite3_column_int64(q, 1),
			.a_s = column_number(q, 5), .b_s = column_number(q, 6), .n = sqlite3_column_int(q, 7),
			.lo = NAN, .hi = NAN };

		snprintf(p.policy, sizeof(p.policy), "%s", column_text(q, 2));
		snprintf(p.job, sizeof(p.job), "%s", column_text(q, 3));
		snprintf(p.placement, sizeof(p.placement), "%s", column_text(q, 4));
		if (BACE_PUSH(d->pairs, d->n, d->cap, p))
			rc = bace_fail(d->e, ENOMEM, "diff: out of memory");
	}
	if (!rc && step != SQLITE_DONE)
		rc = store_fail(d->s, d->e, "read");
	sqlite3_finalize(q);
	return rc;
}

static int read_steps(struct diff *d, int64_t placement, double **v, size_t *n)
{
	size_t cap = 0;
	sqlite3_stmt *q;
	int rc = store_query(d->s, "SELECT step_s FROM step WHERE placement_id = ? AND step >= 0", NULL, &q, d->e);

	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, placement);
	while (store_next(d->s, q, &rc, d->e))
		if (BACE_PUSH(*v, *n, cap, sqlite3_column_double(q, 0)))
			rc = bace_fail(d->e, ENOMEM, "diff: out of memory");
	sqlite3_finalize(q);
	return rc;
}

static double drawn_median(struct bace_rng *rng, const double *v, size_t n, double *scratch)
{
	for (size_t i = 0; i < n; i++)
		scratch[i] = v[bace_rng_below(rng, n)];
	return stats_median(scratch, n);
}

/* Percentile bootstrap of median(b) / median(a) - 1, both drawn. */
static int interval(struct diff *d, size_t which)
{
	CLEANUP_FREE double *a = NULL, *b = NULL;
	CLEANUP_FREE double *ratio = calloc((size_t)d->o->resamples + 1, sizeof(*ratio));
	struct pair *p = &d->pairs[which];
	size_t n = 0, m = 0;
	struct bace_rng rng;
	int rc = read_steps(d, p->a, &a, &n);

	if (!rc)
		rc = read_steps(d, p->b, &b, &m);
	if (rc || n < 2 || m < 2)
		return rc;
	CLEANUP_FREE double *scratch = calloc(n + m, sizeof(*scratch));
	if (!ratio || !scratch)
		return bace_fail(d->e, ENOMEM, "diff: out of memory");
	bace_rng_init(&rng, d->o->seed, which);
	for (int i = 0; i < d->o->resamples; i++) {
		double x = drawn_median(&rng, a, n, scratch);

		ratio[i] = drawn_median(&rng, b, m, scratch) / x - 1;
	}
	p->lo = stats_quantile(ratio, (size_t)d->o->resamples, (1 - LEVEL) / 2);
	p->hi = stats_quantile(ratio, (size_t)d->o->resamples, (1 + LEVEL) / 2);
	return 0;
}

static int fill_steps(struct diff *d)
{
	static const struct column columns[] = { { "policy", TEXT }, { "job", TEXT }, { "placement\n(region:GPUs)", FLEX },
		{ "first", SECONDS, 't' }, { "second", SECONDS, 't' }, { "differ-\nence", PERCENT, 'p' },
		{ "from", PERCENT, 'p' }, { "to", PERCENT, 'p' }, { "n", COUNT } };
	int rc = 0;

	d->steps = (struct table){ .title = "Measured step times", .note = "Medians, unscaled. Difference of the "
		"second to the first; from, to: its 95 % bootstrap interval. n: steps of the shorter.",
		.columns = columns, .n_columns = ARRAY_LEN(columns) };
	for (size_t i = 0; !rc && i < d->n; i++) {
		const struct pair *p = &d->pairs[i];

		rc |= table_text(&d->steps, p->policy) | table_text(&d->steps, p->job) |
		      table_text(&d->steps, p->placement);
		rc |= table_number(&d->steps, p->a_s) | table_number(&d->steps, p->b_s);
		rc |= table_number(&d->steps, p->b_s / p->a_s - 1);
		rc |= table_number(&d->steps, p->lo) | table_number(&d->steps, p->hi);
		rc |= table_number(&d->steps, p->n);
	}
	return rc ? bace_fail(d->e, ENOMEM, "diff: out of memory") : 0;
}

/* ---- what became of the jobs ---- */

#define OUTCOMES(run) "(SELECT policy, oracle, min(rowid) first, avg(jct_s) jct, sum(cost_usd) cost, count(*) n FROM"	\
	" job_outcome WHERE run_id = " run " AND finished GROUP BY policy, oracle)"

static int add_outcomes(struct diff *d)
{
	static const struct column columns[] = { { "policy", TEXT }, { "oracle", TEXT }, { "mean JCT\nfirst", SECONDS, 'j' },
		{ "mean JCT\nsecond", SECONDS, 'j' }, { "differ-\nence", PERCENT, 'd' }, { "cost\nfirst", DOLLARS, 'c' },
		{ "cost\nsecond", DOLLARS, 'c' }, { "differ-\nence", PERCENT, 'd' }, { "jobs", COUNT } };
	sqlite3_stmt *q;
	int step = SQLITE_DONE, rc = store_query(d->s, "SELECT a.policy, a.oracle, a.jct, b.jct, b.jct / a.jct - 1,"
		" a.cost, b.cost, b.cost / a.cost - 1, min(a.n, b.n) FROM " OUTCOMES("?1") " a JOIN " OUTCOMES("?2")
		" b USING (policy, oracle) ORDER BY a.first", d->a, &q, d->e);

	d->outcomes = (struct table){ .title = "Policies", .note = "Over the finished jobs.", .columns = columns,
				      .n_columns = ARRAY_LEN(columns) };
	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, d->b, -1, SQLITE_STATIC);
	while (!rc && (step = sqlite3_step(q)) == SQLITE_ROW) {
		rc = table_text(&d->outcomes, column_text(q, 0)) | table_text(&d->outcomes, column_text(q, 1));
		for (int c = 2; !rc && c < 9; c++)
			rc = table_number(&d->outcomes, column_number(q, c));
		if (rc)
			bace_fail(d->e, ENOMEM, "diff: out of memory");
	}
	if (!rc && step != SQLITE_DONE)
		rc = store_fail(d->s, d->e, "read");
	sqlite3_finalize(q);
	return rc;
}

/* ---- out ---- */

/* Rows as objects; keys by column, which titles for people are not. */
static json_t *rows_json(const struct table *t, const char *const *keys)
{
	json_t *all = json_array();

	for (size_t r = 0; r < table_rows(t); r++) {
		json_t *row = json_object();

		for (int c = 0; c < t->n_columns; c++) {
			const struct cell *x = &t->cells[r * (size_t)t->n_columns + (size_t)c];

			json_object_set_new(row, keys[c], x->text ? json_string(x->text) : json_number(x->number));
		}
		json_array_append_new(all, row);
	}
	return all;
}

static int print_json(const struct diff *d, const struct diff_summary *sum, FILE *to)
{
	static const char *const origin[] = { "what", "first", "second" };
	static const char *const steps[] = { "policy", "job", "placement", "first_s", "second_s", "difference", "lo",
		"hi", "n" };
	static const char *const outcomes[] = { "policy", "oracle", "first_mean_jct_s", "second_mean_jct_s",
		"difference_jct", "first_cost_usd", "second_cost_usd", "difference_cost", "jobs" };
	json_t *root = json_pack("{s:s, s:s, s:o, s:o, s:o, s:I, s:o, s:o}", "first", d->a, "second", d->b, "origin",
		rows_json(&d->origin, origin), "steps", rows_json(&d->steps, steps), "policies",
		rows_json(&d->outcomes, outcomes), "n", (json_int_t)sum->n, "median_abs_difference",
		json_number(sum->median_abs), "worst_abs_difference", json_number(sum->worst_abs));
	int rc = !root || json_dumpf(root, to, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) || fputc('\n', to) == EOF;

	json_decref(root);
	return rc ? bace_fail(d->e, EIO, "diff: write failed") : 0;
}

static int print_text(const struct diff *d, const struct diff_summary *sum, FILE *to, bool color, int width)
{
	const struct table *const all[] = { &d->origin, &d->steps, &d->outcomes };

	fprintf(to, "first:  run %s\nsecond: run %s\n", d->a, d->b);
	if (!d->origin.n_cells)
		fputs("\nThey came about in the same way: same config, seed, version, kernel, backend and hosts.\n", to);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i]->n_cells && table_print(all[i], to, color, width))
			return bace_fail(d->e, ENOMEM, "diff: out of memory");
	if (sum->n)
		fprintf(to, "\nStep times: median |difference| %.2f %%, worst %.2f %%, n = %zu placements that both "
			"measured.\n", 100 * sum->median_abs, 100 * sum->worst_abs, sum->n);
	else
		fputs("\nNo placement was measured in both.\n", to);
	return 0;
}

static int summarise(struct diff *d, struct diff_summary *out)
{
	CLEANUP_FREE double *v = calloc(d->n + 1, sizeof(*v));

	*out = (struct diff_summary){ .n = d->n, .median_abs = NAN, .worst_abs = NAN };
	if (!v)
		return bace_fail(d->e, ENOMEM, "diff: out of memory");
	for (size_t i = 0; i < d->n; i++) {
		v[i] = fabs(d->pairs[i].b_s / d->pairs[i].a_s - 1);
		out->worst_abs = i ? fmax(out->worst_abs, v[i]) : v[i];
	}
	out->median_abs = stats_median(v, d->n);
	return 0;
}

static int record(struct diff *d)
{
	int rc = store_begin(d->s, d->e);

	for (size_t i = 0; !rc && i < d->n; i++) {
		const struct pair *p = &d->pairs[i];
		char subject[400];

		snprintf(subject, sizeof(subject), "%s, %s on %s", p->policy, p->job, p->placement);
		rc = store_add_comparison(d->s, d->b, &(struct comparison_row){ .kind = "rerun", .subject = subject,
			.against = d->a, .metric = "step_time_difference_fraction", .x = NAN, .y = NAN,
			.value = p->b_s / p->a_s - 1, .lo = p->lo, .hi = p->hi, .n = p->n }, d->e);
	}
	if (!rc)
		return store_commit(d->s, d->e);
	store_rollback(d->s);
	return rc;
}

int results_diff(struct store *s, const char *a, const char *b, const struct diff_options *o, FILE *to,
		 bool json, bool color, int width, struct diff_summary *out, struct bace_err *e)
{
	struct diff d = { .s = s, .o = o, .e = e };
	int rc = store_find_run(s, a, d.a, e);

	if (!rc)
		rc = store_find_run(s, b, d.b, e);
	if (!rc)
		rc = add_origin(&d);
	if (!rc)
		rc = add_pairs(&d);
	for (size_t i = 0; !rc && i < d.n; i++)
		rc = interval(&d, i);
	if (!rc)
		rc = fill_steps(&d);
	if (!rc)
		rc = add_outcomes(&d);
	if (!rc)
		rc = summarise(&d, out);
	if (!rc && o->record)
		rc = record(&d);
	if (!rc)
		rc = json ? print_json(&d, out, to) : print_text(&d, out, to, color, width);
	table_free(&d.origin);
	table_free(&d.steps);
	table_free(&d.outcomes);
	free(d.pairs);
	return rc;
}
