/* Jobs and policies by each oracle, side by side. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/compare.h"

#define LEVEL 0.95
#define EACH(column) OUTCOME_BY("closed-form", column) ", " OUTCOME_BY("event-sim", column) ", " \
	OUTCOME_BY("measured", column)

int compared_jobs(struct store *s, const char *run, const struct run_filter *f, struct job_compared **out,
		  size_t *n, struct bace_err *e)
{
	sqlite3_stmt *q;
	size_t cap = 0;
	int step = SQLITE_DONE, rc = store_query(s, "SELECT policy, job, " EACH("jct_s") ", " EACH("energy_j") ", "
		EACH("cost_usd") " FROM job_outcome WHERE run_id = ?1 AND finished AND (?2 IS NULL OR policy = ?2) AND (?3 IS"
		" NULL OR job = ?3) GROUP BY policy, job HAVING sum(oracle = 'measured') ORDER BY " OUTCOME_BY("measured",
		"rowid"), run, &q, e);

	*out = NULL;
	*n = 0;
	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, f->policy, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 3, f->job, -1, SQLITE_STATIC);
	while (!rc && (step = sqlite3_step(q)) == SQLITE_ROW) {
		struct job_compared j = { 0 };

		snprintf(j.policy, sizeof(j.policy), "%s", column_text(q, 0));
		snprintf(j.job, sizeof(j.job), "%s", column_text(q, 1));
		for (int k = 0; k < COMPARED_METRICS; k++)
			for (int o = 0; o < COMPARED_ORACLES; o++)
				j.v[k][o] = column_number(q, 2 + k * COMPARED_ORACLES + o);
		rc = BACE_PUSH(*out, *n, cap, j);
	}
	if (rc)
		bace_fail(e, ENOMEM, "jobs: out of memory");
	else if (step != SQLITE_DONE)
		rc = store_fail(s, e, "read");
	sqlite3_finalize(q);
	if (rc) {
		free(*out);
		*out = NULL;
		*n = 0;
	}
	return rc;
}

int store_policy_totals(struct store *s, const char *run, const char *policy, const char *oracle, double *jct_s,
			double *cost_usd, struct bace_err *e)
{
	sqlite3_stmt *q;
	int n = 0, rc = store_query(s, "SELECT sum(jct_s), sum(cost_usd), count(*), sum(finished) FROM job_outcome WHERE"
				    " run_id = ?1 AND policy = ?2 AND oracle = ?3", run, &q, e);

	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, policy, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 3, oracle, -1, SQLITE_STATIC);
	*jct_s = *cost_usd = NAN;
	if (sqlite3_step(q) == SQLITE_ROW) {
		n = sqlite3_column_int(q, 2);
		if (n == sqlite3_column_int(q, 3)) {
			*jct_s = column_number(q, 0);
			*cost_usd = column_number(q, 1);
		}
	}
	sqlite3_finalize(q);
	return n ? 0 : bace_fail(e, ENODATA, "run %s: no outcome of %s by %s", run, policy, oracle);
}

/* Mean and interval, over a policy's jobs, of measured / event simulation - 1. */
static int policy_error(const struct job_compared *v, size_t n, int metric, const struct compare_options *o,
			struct policy_compared *out)
{
	CLEANUP_FREE double *x = calloc(n + 1, sizeof(*x));
	size_t k = 0;

	if (!x)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		double d = v[i].v[metric][COMPARED_MEASURED] / v[i].v[metric][COMPARED_SIM] - 1;

		if (!strcmp(v[i].policy, out->policy) && isfinite(d))
			x[k++] = d;
	}
	out->error[metric] = out->lo[metric] = out->hi[metric] = NAN;
	if (k)
		out->error[metric] = stats_mean(x, k);
	if (k > 1)
		stats_bootstrap(x, k, stats_mean, o->resamples, LEVEL, o->seed, &out->lo[metric], &out->hi[metric]);
	return 0;
}

static void sum_up(const struct job_compared *v, size_t n, struct policy_compared *out)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(v[i].policy, out->policy))
			continue;
		out->n++;
		for (int k = 0; k < COMPARED_METRICS; k++)
			for (int o = 0; o < COMPARED_ORACLES; o++)
				out->v[k][o] += v[i].v[k][o];
	}
	for (int o = 0; o < COMPARED_ORACLES; o++)
		out->v[COMPARED_JCT][o] /= out->n;
}

int compared_policies(const struct job_compared *v, size_t n, const struct compare_options *o,
		      struct policy_compared **out, size_t *n_out, struct bace_err *e)
{
	size_t cap = 0;
	int rc = 0;

	*out = NULL;
	*n_out = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		struct policy_compared p = { 0 };
		bool seen = false;

		for (size_t k = 0; k < *n_out; k++)
			seen = seen || !strcmp((*out)[k].policy, v[i].policy);
		if (seen)
			continue;
		memcpy(p.policy, v[i].policy, sizeof(p.policy));
		sum_up(v, n, &p);
		for (int k = 0; !rc && k < COMPARED_METRICS; k++)
			rc = policy_error(v, n, k, o, &p);
		if (!rc)
			rc = BACE_PUSH(*out, *n_out, cap, p);
	}
	if (!rc)
		return 0;
	free(*out);
	*out = NULL;
	*n_out = 0;
	return bace_fail(e, ENOMEM, "policies: out of memory");
}

/* ---- text ---- */

static const enum quantity quantity_of[COMPARED_METRICS] = { SECONDS, JOULES, DOLLARS };

int print_compared_jobs(const struct job_compared *v, size_t n, FILE *to, bool color, int width)
{
	static const struct column columns[] = { { "policy", TEXT }, { "job", TEXT }, { "JCT\nclosed form", SECONDS, 't' },
		{ "event\nsim", SECONDS, 't' }, { "measured", SECONDS, 't' }, { "error", PERCENT, 'p' },
		{ "energy\nevent sim", JOULES, 'j' }, { "measured", JOULES, 'j' }, { "error", PERCENT, 'p' },
		{ "cost\nevent sim", DOLLARS, 'd' }, { "measured", DOLLARS, 'd' }, { "error", PERCENT, 'p' } };
	struct table t = { .title = "Jobs", .note = "Errors: measured to event simulation.", .columns = columns,
			   .n_columns = ARRAY_LEN(columns) };
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		rc |= table_text(&t, v[i].policy);
		rc |= table_text(&t, v[i].job);
		rc |= table_number(&t, v[i].v[COMPARED_JCT][COMPARED_CLOSED]);
		for (int k = 0; k < COMPARED_METRICS; k++) {
			rc |= table_number(&t, v[i].v[k][COMPARED_SIM]);
			rc |= table_number(&t, v[i].v[k][COMPARED_MEASURED]);
			rc |= table_number(&t, v[i].v[k][COMPARED_MEASURED] / v[i].v[k][COMPARED_SIM] - 1);
		}
	}
	rc |= table_print(&t, to, color, width);
	table_free(&t);
	return rc;
}

int print_compared_policies(const struct policy_compared *v, size_t n, FILE *to, bool color, int width)
{
	static const char *const names[COMPARED_METRICS] = { "mean JCT", "energy", "cost" };
	struct column columns[] = { { "policy", TEXT }, { "closed\nform", SECONDS, 't' }, { "event\nsim", SECONDS, 't' },
		{ "measured", SECONDS, 't' }, { "mean error\nover jobs", PERCENT, 'p' }, { "95 % CI\nfrom", PERCENT, 'p' },
		{ "to", PERCENT, 'p' }, { "jobs", COUNT } };
	int rc = 0;

	for (int k = 0; k < COMPARED_METRICS && !rc; k++) {
		char title[48];
		struct table t = { .title = title, .columns = columns, .n_columns = ARRAY_LEN(columns) };

		snprintf(title, sizeof(title), "Policies: %s", names[k]);
		for (int c = 1; c <= COMPARED_ORACLES; c++)
			columns[c].what = quantity_of[k];
		for (size_t i = 0; i < n; i++) {
			rc |= table_text(&t, v[i].policy);
			for (int o = 0; o < COMPARED_ORACLES; o++)
				rc |= table_number(&t, v[i].v[k][o]);
			rc |= table_number(&t, v[i].error[k]);
			rc |= table_number(&t, v[i].lo[k]);
			rc |= table_number(&t, v[i].hi[k]);
			rc |= table_number(&t, v[i].n);
		}
		rc |= table_print(&t, to, color, width);
		table_free(&t);
	}
	return rc;
}
