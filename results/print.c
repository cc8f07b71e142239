#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "results/table.h"

int store_resolve_run(struct store *s, const char *given, char id[32], struct bace_err *e)
{
	sqlite3_stmt *q;
	bool last = !strcmp(given, "last");
	int n = 0, rc = store_query(s, last ? "SELECT id FROM run ORDER BY id DESC LIMIT 1" :
		"SELECT id FROM run WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id LIMIT 2", given, &q, e);

	if (rc)
		return rc;
	while (sqlite3_step(q) == SQLITE_ROW && n < 2)
		if (!n++)
			snprintf(id, 32, "%s", (const char *)sqlite3_column_text(q, 0));
	sqlite3_finalize(q);
	if (n == 1)
		return 0;
	if (n > 1)
		return bace_fail(e, EINVAL, "run `%s': more than one begins so; give more of it", given);
	rc = store_query(s, "SELECT id FROM run ORDER BY abs(julianday(substr(id,1,4)||'-'||substr(id,5,2)"
			 "||'-'||substr(id,7,2)) - julianday(substr(?1,1,4)||'-'||substr(?1,5,2)||'-'||"
			 "substr(?1,7,2))), id DESC LIMIT 1", given, &q, e);
	if (rc)
		return rc;
	rc = sqlite3_step(q) == SQLITE_ROW ?
		bace_fail(e, ENOENT, "no run `%s' in %s; the nearest is %s", given, s->path,
			  (const char *)sqlite3_column_text(q, 0)) :
		bace_fail(e, ENOENT, "no run `%s': %s holds none", given, s->path);
	sqlite3_finalize(q);
	return rc;
}

static void print_heading(sqlite3_stmt *q, FILE *to, bool color)
{
	const char *backend = (const char *)sqlite3_column_text(q, 3);

	fprintf(to, "%srun %s%s: %s, %s, schedule %s", color ? "\033[1m" : "",
		(const char *)sqlite3_column_text(q, 0), color ? "\033[0m" : "",
		(const char *)sqlite3_column_text(q, 1), (const char *)sqlite3_column_text(q, 2),
		(const char *)sqlite3_column_text(q, 5));
	if (backend)
		fprintf(to, "\nbackend %s (%s), kernel %s, scale: bytes x %g, time x %g", backend,
			(const char *)sqlite3_column_text(q, 4), (const char *)sqlite3_column_text(q, 8),
			sqlite3_column_double(q, 6), sqlite3_column_double(q, 7));
	fputc('\n', to);
}

static int heading(struct store *s, const char *run, FILE *to, bool color, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT id, experiment, status, backend, backend_why, schedule, "
			     "scale_bytes, scale_time, kernel FROM run WHERE id = ?", run, &q, e);

	if (rc)
		return rc;
	if (sqlite3_step(q) == SQLITE_ROW)
		print_heading(q, to, color);
	sqlite3_finalize(q);
	return 0;
}

static void print_accuracy(const struct accuracy *a, FILE *to)
{
	if (!a->n && !a->n_invalid)
		return;
	fprintf(to, "\nAbsolute step-time error to the event simulation: median %.2f %%, worst %.2f %% "
		"(n = %d placements", 100 * a->median_abs, 100 * a->worst_abs, a->n);
	if (a->n_invalid)
		fprintf(to, "; %d invalid, not counted", a->n_invalid);
	fprintf(to, ")\nto the closed form: median %.2f %%, worst %.2f %%; first measured step against the "
		"median step: worst %.2f %%\n", 100 * a->median_closed, 100 * a->worst_closed,
		100 * a->worst_first);
}

int results_print_run(struct store *s, const char *given, FILE *to, bool color, int width,
		      struct bace_err *e)
{
	static const enum run_table shown[] = { TABLE_PLACEMENTS, TABLE_POLICIES, TABLE_LINKS,
						TABLE_BYTES, TABLE_SKIPPED };
	struct accuracy a;
	char run[32];
	int rc = store_resolve_run(s, given, run, e);

	if (!rc)
		rc = heading(s, run, to, color, e);
	for (size_t i = 0; !rc && i < ARRAY_LEN(shown); i++) {
		struct table t;

		rc = run_table(s, run, shown[i], &t, e);
		if (rc)
			break;
		table_print(&t, to, color);
		table_free(&t);
	}
	if (!rc)
		rc = run_accuracy(s, run, &a, e);
	if (!rc)
		print_accuracy(&a, to);
	return rc;
}

static json_t *cell_json(sqlite3_stmt *q, int i)
{
	switch (sqlite3_column_type(q, i)) {
	case SQLITE_INTEGER: return json_integer(sqlite3_column_int64(q, i));
	case SQLITE_FLOAT: return json_real(sqlite3_column_double(q, i));
	case SQLITE_TEXT: return json_string((const char *)sqlite3_column_text(q, i));
	default: return json_null();
	}
}

/* Rows as objects; names are the store's, units in them. */
static json_t *rows_json(struct store *s, const char *sql, const char *run, struct bace_err *e)
{
	json_t *rows = json_array();
	sqlite3_stmt *q;

	if (store_query(s, sql, run, &q, e)) {
		json_decref(rows);
		return NULL;
	}
	while (sqlite3_step(q) == SQLITE_ROW) {
		json_t *row = json_object();

		for (int i = 0; i < sqlite3_column_count(q); i++)
			json_object_set_new(row, sqlite3_column_name(q, i), cell_json(q, i));
		json_array_append_new(rows, row);
	}
	sqlite3_finalize(q);
	return rows;
}

int results_print_run_json(struct store *s, const char *given, FILE *to, struct bace_err *e)
{
	static const char *const parts[][2] = {
		{ "run", "SELECT id, began_unix_s, ended_unix_s, status, command, experiment, config_hash, "
			 "seed, version, kernel, backend, backend_why, schedule, scale_bytes, scale_time FROM "
			 "run WHERE id = ?" },
		{ "placement", "SELECT * FROM placement WHERE run = ? ORDER BY id" },
		{ "job_outcome", "SELECT * FROM job_outcome WHERE run = ? ORDER BY rowid" },
		{ "plan_check", "SELECT * FROM plan_check WHERE run = ?" },
		{ "transfer", "SELECT t.* FROM transfer t JOIN placement p ON p.id = t.placement WHERE p.run "
			      "= ?" },
		{ "skip", "SELECT * FROM skip WHERE run = ?" },
	};
	json_t *j = json_object();
	struct accuracy a;
	char run[32];
	int rc = store_resolve_run(s, given, run, e);

	for (size_t i = 0; !rc && i < ARRAY_LEN(parts); i++) {
		json_t *rows = rows_json(s, parts[i][1], run, e);

		rc = rows ? json_object_set_new(j, parts[i][0], rows) : -EIO;
	}
	if (!rc)
		rc = run_accuracy(s, run, &a, e);
	if (!rc && a.n)
		json_object_set_new(j, "accuracy", json_pack("{s:i,s:i,s:f,s:f,s:f,s:f,s:f}", "n", a.n,
			"n_invalid", a.n_invalid, "median_abs_error", a.median_abs, "worst_abs_error",
			a.worst_abs, "median_abs_error_closed_form", a.median_closed,
			"worst_abs_error_closed_form", a.worst_closed, "worst_first_step", a.worst_first));
	if (!rc && (json_dumpf(j, to, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) || fputc('\n', to) == EOF))
		rc = bace_fail(e, EIO, "write JSON");
	json_decref(j);
	return rc;
}
