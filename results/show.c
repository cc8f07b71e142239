/* A run as text and as JSON. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "results/table.h"

static int print_head(struct store *s, const char *run, FILE *to, bool color, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT experiment, status, began_utc, version, kernel, seed, schedule,"
			     " backend, backend_why, scale_bytes, scale_time FROM run WHERE id = ?", run, &q,
			     e);

	if (rc)
		return rc;
	if (sqlite3_step(q) != SQLITE_ROW) {
		rc = store_fail(s, e, "read");
		sqlite3_finalize(q);
		return rc;
	}
	fprintf(to, "%srun %s%s  %s, %s, began %s\n", color ? "\033[1m" : "", run, color ? "\033[0m" : "",
		column_text(q, 0), column_text(q, 1), column_text(q, 2));
	fprintf(to, "bace %s, kernel %s, seed %s, schedule %s\n", column_text(q, 3), column_text(q, 4),
		column_text(q, 5), column_text(q, 6));
	if (column_text(q, 7)[0])
		fprintf(to, "testbed: %s (%s); scale: bytes x %g, time x %g\n", column_text(q, 7),
			column_text(q, 8), column_number(q, 9), column_number(q, 10));
	sqlite3_finalize(q);
	return 0;
}

static void print_accuracy(const struct accuracy *a, FILE *to, bool color)
{
	const char *bold = color ? "\033[1m" : "", *plain = color ? "\033[0m" : "";

	if (!a->n) {
		fprintf(to, "\n%sNo valid measured placement%s", bold, plain);
		fprintf(to, a->n_invalid ? "; %d invalid.\n" : ".\n", a->n_invalid);
		return;
	}
	fprintf(to, "\n%sMeasured step time against event simulation: median |error| %.1f %%, worst %.1f %%, "
		"n = %zu placements, %d steps%s", bold, 100 * a->median_event, 100 * a->worst_event, a->n,
		a->n_steps, plain);
	fprintf(to, a->n_invalid ? " (%d more invalid).\n" : ".\n", a->n_invalid);
	fprintf(to, "Worst: %s.\n", a->worst_what);
	if (a->n_closed)
		fprintf(to, "Against the closed form: median %.1f %%, worst %.1f %%, n = %zu.\n",
			100 * a->median_closed, 100 * a->worst_closed, a->n_closed);
	if (a->n_first)
		fprintf(to, "First measured step against the median step: worst %.1f %%, n = %zu.\n",
			100 * a->worst_first, a->n_first);
}

/* A policy or job that the run does not have is a slip, not an empty answer. */
static int check_one(struct store *s, const char *run, const char *column, const char *wanted, struct bace_err *e)
{
	CLEANUP_FREE char *sql = NULL;
	sqlite3_stmt *q;
	int rc;

	if (!wanted)
		return 0;
	if (asprintf(&sql, "SELECT sum(%1$s = ?2), group_concat(%1$s, ', ') FROM (SELECT %1$s FROM placement WHERE run_id"
		     " = ?1 UNION SELECT %1$s FROM job_outcome WHERE run_id = ?1)", column) < 0) {
		sql = NULL;
		return bace_fail(e, ENOMEM, "run %s: out of memory", run);
	}
	rc = store_query(s, sql, run, &q, e);
	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, wanted, -1, SQLITE_STATIC);
	if (sqlite3_step(q) != SQLITE_ROW)
		rc = store_fail(s, e, "read");
	else if (!sqlite3_column_int(q, 0))
		rc = bace_fail(e, ENOENT, "run %s has no %s `%s'; it has: %.200s", run, column, wanted,
			       column_text(q, 1)[0] ? column_text(q, 1) : "none");
	sqlite3_finalize(q);
	return rc;
}

int run_filter_check(struct store *s, const char *run, const struct run_filter *f, struct bace_err *e)
{
	int rc = f ? check_one(s, run, "policy", f->policy, e) : 0;

	return rc || !f ? rc : check_one(s, run, "job", f->job, e);
}

int results_print_run_part(struct store *s, const char *given, const struct run_filter *f, FILE *to,
			   bool color, int width, struct bace_err *e)
{
	static const enum run_table shown[] = { TABLE_PLACEMENTS, TABLE_POLICIES, TABLE_LINKS,
		TABLE_BYTES, TABLE_TCP, TABLE_DISTURBED, TABLE_ROBUST, TABLE_OVERHEAD, TABLE_CLAIMS, TABLE_SKIPPED };
	struct accuracy a;
	char run[32], kind[16] = "";
	int rc = store_find_run(s, given, run, e);
	bool placed;

	if (!rc)
		rc = run_filter_check(s, run, f, e);
	if (!rc)
		rc = store_run_kind(s, run, kind, e);
	placed = !strcmp(kind, "run");
	if (!rc)
		rc = print_head(s, run, to, color, e);

	for (size_t i = 0; !rc && i < ARRAY_LEN(shown); i++) {
		struct table t;

		/* What other commands found is of no one policy or job. */
		if (f && (f->policy || f->job) && shown[i] >= TABLE_ROBUST)
			continue;
		rc = run_table(s, run, f, shown[i], &t, e);
		if (rc)
			break;
		if (t.n_cells && table_print(&t, to, color, width))
			rc = bace_fail(e, ENOMEM, "run %s: out of memory", run);
		else if (!t.n_cells && shown[i] == TABLE_SKIPPED && placed)
			fputs("\nNothing was skipped.\n", to);
		table_free(&t);
	}
	/* The other commands place nothing that could be measured against anything. */
	if (!rc && placed)
		rc = run_accuracy(s, run, f, &a, e);
	if (!rc && placed)
		print_accuracy(&a, to, color);
	return rc;
}

int results_print_run(struct store *s, const char *run, FILE *to, bool color, int width,
		      struct bace_err *e)
{
	return results_print_run_part(s, run, NULL, to, color, width, e);
}

/* ---- JSON: the rows as the store has them ---- */

static json_t *json_value(sqlite3_stmt *q, int c)
{
	switch (sqlite3_column_type(q, c)) {
	case SQLITE_INTEGER: return json_integer(sqlite3_column_int64(q, c));
	case SQLITE_FLOAT: return json_number(sqlite3_column_double(q, c));
	case SQLITE_NULL: return json_null();
	default: return json_string(column_text(q, c));
	}
}

static json_t *json_row(sqlite3_stmt *q)
{
	json_t *row = json_object();

	for (int c = 0; c < sqlite3_column_count(q); c++)
		json_object_set_new(row, sqlite3_column_name(q, c), json_value(q, c));
	return row;
}

static int json_rows(struct store *s, const char *run, const struct run_filter *f, const char *sql,
		     json_t **out, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, sql, run, &q, e), step;

	if (rc)
		return rc;
	if (f) {
		sqlite3_bind_text(q, 2, f->policy, -1, SQLITE_STATIC);
		sqlite3_bind_text(q, 3, f->job, -1, SQLITE_STATIC);
	}
	*out = json_array();
	while ((step = sqlite3_step(q)) == SQLITE_ROW)
		json_array_append_new(*out, json_row(q));
	rc = step == SQLITE_DONE ? 0 : store_fail(s, e, "read");
	sqlite3_finalize(q);
	return rc;
}

#define WANTED " WHERE run_id = ?1 AND (?2 IS NULL OR policy = ?2) AND (?3 IS NULL OR job = ?3)"

static const struct {
	const char *name, *sql;
} parts[] = {
	{ "run", "SELECT id, status, began_utc, ended_utc, command, experiment, config_hash, seed, version,"
		" kernel, backend, backend_why, schedule, scale_bytes, scale_time FROM run WHERE id = ?1" },
	{ "placements", "SELECT id, policy, job, placement, stages, micro_batches, jobs_at_once,"
		" closed_form_s, event_sim_s, measured_median_s, measured_p95_s, measured_first_s,"
		" compute_s, delay_lateness_p99_s, n_steps, measured_median_s / event_sim_s - 1 AS error_event_sim,"
		" measured_median_s / closed_form_s - 1 AS error_closed_form, valid, invalid_why FROM"
		" placement" WANTED " ORDER BY id" },
	{ "jobs", "SELECT policy, oracle, job, placement, finished, arrival_s, start_s, finish_s, jct_s,"
		" waiting_s, slowdown, mean_step_s, energy_j, cost_usd FROM job_outcome" WANTED
		" ORDER BY rowid" },
	{ "policies", "SELECT policy, oracle, sum(finished) AS finished, count(*) AS jobs, avg(CASE WHEN"
		" finished THEN jct_s END) AS mean_jct_s, sum(CASE WHEN finished THEN energy_j END) AS energy_j,"
		" sum(CASE WHEN finished THEN cost_usd END) AS cost_usd FROM job_outcome" WANTED
		" GROUP BY policy, oracle ORDER BY min(rowid)" },
	{ "links", "SELECT src, dst, planned_rtt_s, rtt_min_s, rtt_median_s, rtt_p99_s,"
		" planned_goodput_bps, nullif(goodput_bps, 0) AS goodput_bps FROM plan_check WHERE"
		" run_id = ?1 ORDER BY src, dst" },
	{ "skipped", "SELECT policy, what, why FROM skip WHERE run_id = ?1 AND (?2 IS NULL OR policy = ?2)"
		" ORDER BY rowid" },
	{ "comparisons", "SELECT kind, subject, against, metric, x, y, value, lo, hi, n, published, verdict FROM"
		" comparison WHERE run_id = ?1 ORDER BY rowid" },
};

static json_t *json_accuracy(const struct accuracy *a)
{
	return json_pack("{s:I, s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "n", (json_int_t)a->n,
		"n_steps", a->n_steps, "n_invalid", a->n_invalid,
		"median_abs_error_event_sim", json_number(a->median_event),
		"worst_abs_error_event_sim", json_number(a->n ? a->worst_event : NAN),
		"median_abs_error_closed_form", json_number(a->median_closed),
		"worst_abs_error_closed_form", json_number(a->n_closed ? a->worst_closed : NAN),
		"worst_first_step_error", json_number(a->n_first ? a->worst_first : NAN));
}

int results_print_run_part_json(struct store *s, const char *given, const struct run_filter *f, FILE *to,
				struct bace_err *e)
{
	json_t *root = json_object();
	struct accuracy a;
	char run[32];
	int rc = store_find_run(s, given, run, e);

	if (!rc)
		rc = run_filter_check(s, run, f, e);
	for (size_t i = 0; !rc && i < ARRAY_LEN(parts); i++) {
		json_t *rows = NULL;

		rc = json_rows(s, run, f, parts[i].sql, &rows, e);
		if (!i && !rc)
			json_object_set(root, parts[i].name, json_array_get(rows, 0));
		else if (!rc)
			json_object_set(root, parts[i].name, rows);
		json_decref(rows);
	}
	if (!rc)
		rc = run_accuracy(s, run, f, &a, e);
	if (!rc && (json_object_set_new(root, "accuracy", json_accuracy(&a)) ||
		    json_dumpf(root, to, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) || fputc('\n', to) == EOF))
		rc = bace_fail(e, EIO, "run %s: writing JSON failed", run);
	json_decref(root);
	return rc;
}

int results_print_run_json(struct store *s, const char *run, FILE *to, struct bace_err *e)
{
	return results_print_run_part_json(s, run, NULL, to, e);
}
