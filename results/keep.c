/* Looking after a store: is it whole, and making it smaller. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "results/schema.h"
#include "results/tables.h"

static int64_t file_bytes(const char *path, const char *suffix)
{
	CLEANUP_FREE char *name = NULL;
	struct stat st;

	return asprintf(&name, "%s%s", path, suffix) < 0 || stat(name, &st) ? 0 : st.st_size;
}

static int64_t store_bytes(const struct store *s)
{
	return file_bytes(s->path, "") + file_bytes(s->path, "-wal");
}

static int count(struct store *s, const char *sql, int64_t *out, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, sql, NULL, &q, e);

	if (rc)
		return rc;
	if (sqlite3_step(q) == SQLITE_ROW)
		*out = sqlite3_column_int64(q, 0);
	else
		rc = store_fail(s, e, "read");
	sqlite3_finalize(q);
	return rc;
}

/* ---- check ---- */

static int add_problems(struct store *s, const char *sql, json_t *problems, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, sql, NULL, &q, e), step;

	if (rc)
		return rc;
	while ((step = sqlite3_step(q)) == SQLITE_ROW)
		if (strcmp(column_text(q, 0), "ok"))
			json_array_append_new(problems, json_string(column_text(q, 0)));
	/* A page that cannot be read at all ends the check: that is a finding. */
	if (step == SQLITE_CORRUPT)
		json_array_append_new(problems, json_string(sqlite3_errmsg(s->db)));
	else if (step != SQLITE_DONE)
		rc = store_fail(s, e, "check");
	sqlite3_finalize(q);
	return rc;
}

static int count_rows(struct store *s, json_t *rows, struct bace_err *e)
{
	struct store_tables v;
	int rc = store_tables_read(s, &v, e);

	for (size_t i = 0; !rc && i < v.n; i++) {
		char sql[128];
		int64_t n = 0;

		snprintf(sql, sizeof(sql), "SELECT count(*) FROM \"%s\"", v.v[i].name);
		rc = count(s, sql, &n, e);
		json_object_set_new(rows, v.v[i].name, json_integer(n));
	}
	store_tables_free(&v);
	return rc;
}

static void print_check(const struct store *s, const json_t *problems, const json_t *rows, FILE *to)
{
	char size[BACE_FMT_MAX];
	const char *name;
	json_t *n, *p;
	size_t i;

	json_array_foreach(problems, i, p)
		fprintf(to, "%s\n", json_string_value(p));
	fprintf(to, "store %s: %s, schema version %d, %s\n", s->path, bace_fmt_size(size, (double)store_bytes(s)),
		store_version, json_array_size(problems) ? "damaged" : "whole");
	json_object_foreach((json_t *)rows, name, n)
		if (json_integer_value(n))
			fprintf(to, "  %-16s %12lld rows\n", name, (long long)json_integer_value(n));
}

int store_check(struct store *s, FILE *to, bool json, int *n_problems, struct bace_err *e)
{
	json_t *problems = json_array(), *rows = json_object(), *root;
	int rc = add_problems(s, "PRAGMA integrity_check(20)", problems, e);

	if (!rc)
		rc = add_problems(s, "SELECT 'table ' || \"table\" || ', row ' || coalesce(rowid, '?') || ': its ' ||"
				  " parent || ' is not there' FROM pragma_foreign_key_check LIMIT 20", problems, e);
	/* What is damaged may not be counted. */
	if (!rc && !json_array_size(problems))
		rc = count_rows(s, rows, e);
	*n_problems = (int)json_array_size(problems);
	if (!rc && json) {
		root = json_pack("{s:s, s:I, s:i, s:b, s:O, s:O}", "store", s->path, "bytes", (json_int_t)store_bytes(s),
				 "schema_version", store_version, "whole", !*n_problems, "problems", problems,
				 "rows", rows);
		if (!root || json_dumpf(root, to, JSON_INDENT(2)) || fputc('\n', to) == EOF)
			rc = bace_fail(e, EIO, "check: write failed");
		json_decref(root);
	} else if (!rc) {
		print_check(s, problems, rows, to);
	}
	json_decref(problems);
	json_decref(rows);
	return rc;
}

/* ---- gc ---- */

static bool is_wanted(sqlite3_stmt *q, const struct gc_options *o, time_t now)
{
	const char *status = run_status(column_text(q, 1), column_text(q, 3));
	struct tm tm = { 0 };

	/* One that cannot be seen from here must be named. */
	if (!strcmp(status, "running") || (!strcmp(status, RUN_STATUS_UNSEEN) && !o->run) || (o->status && strcmp(o->status, status)))
		return false;
	if (isnan(o->older_s))
		return true;
	return strptime(column_text(q, 2), "%Y-%m-%dT%H:%M:%SZ", &tm) &&
	       difftime(now, timegm(&tm)) > o->older_s;
}

static int choose(struct store *s, const struct gc_options *o, const char *run, char ***ids, size_t *n,
		  struct bace_err *e)
{
	sqlite3_stmt *q;
	size_t cap = 0;
	time_t now = (time_t)(bace_wall_ns() / 1000000000);
	int step = SQLITE_DONE, rc = store_query(s, "SELECT id, status, began_utc, process FROM run WHERE ?1 IS NULL"
						 " OR id = ?1 ORDER BY id", run, &q, e);

	while (!rc && (step = sqlite3_step(q)) == SQLITE_ROW) {
		char *id = is_wanted(q, o, now) ? strdup(column_text(q, 0)) : NULL;

		if (id && BACE_PUSH(*ids, *n, cap, id)) {
			free(id);
			rc = bace_fail(e, ENOMEM, "gc: out of memory");
		}
	}
	if (!rc && step != SQLITE_DONE)
		rc = store_fail(s, e, "read");
	sqlite3_finalize(q);
	return rc;
}

static int remove_one(struct store *s, const char *sql, const char *id, int64_t *rows, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, sql, id, &q, e);

	if (rc)
		return rc;
	if (sqlite3_step(q) != SQLITE_DONE)
		rc = store_fail(s, e, "remove");
	else
		*rows += sqlite3_changes(s->db);
	sqlite3_finalize(q);
	return rc;
}

static int remove_all(struct store *s, const struct gc_options *o, char **ids, size_t n, struct bace_err *e)
{
	static const char *const timeline[] = {
		"DELETE FROM op WHERE placement_id IN (SELECT id FROM placement WHERE run_id = ?)",
		"DELETE FROM sim_op WHERE placement_id IN (SELECT id FROM placement WHERE run_id = ?)" };
	int64_t rows = 0;
	int rc = store_begin(s, e);

	for (size_t i = 0; !rc && i < n; i++) {
		if (!o->timelines) {
			rc = remove_one(s, "DELETE FROM run WHERE id = ?", ids[i], &rows, e);
			continue;
		}
		for (size_t k = 0; !rc && k < ARRAY_LEN(timeline); k++)
			rc = remove_one(s, timeline[k], ids[i], &rows, e);
	}
	if (!rc)
		return store_commit(s, e);
	store_rollback(s);
	return rc;
}

/* Statements that read would keep the file from shrinking. */
static int compact(struct store *s, struct bace_err *e)
{
	for (int i = 0; i < N_INSERTS; i++) {
		sqlite3_finalize(s->inserts[i]);
		s->inserts[i] = NULL;
	}
	int rc = store_exec(s, "VACUUM", e);

	return rc ? rc : store_exec(s, "PRAGMA wal_checkpoint(TRUNCATE)", e);
}

int store_gc(struct store *s, const struct gc_options *o, struct gc_result *out, struct bace_err *e)
{
	bool any = o->run || o->status || !isnan(o->older_s);
	char run[32] = "", **ids = NULL;
	size_t n = 0;
	int rc = o->run ? store_find_run(s, o->run, run, e) : 0;

	*out = (struct gc_result){ .bytes_before = store_bytes(s) };
	if (!rc && any)
		rc = choose(s, o, o->run ? run : NULL, &ids, &n, e);
	if (!rc && o->run && !n)
		rc = bace_fail(e, EINVAL, "run %s is still running, or the other options do not mean it: nothing was "
			       "removed", run);
	if (!rc && n && !o->dry_run)
		rc = remove_all(s, o, ids, n, e);
	/* What has gone is gone, and to be told, though the space did not come back. */
	if (!rc && !o->dry_run && compact(s, &out->not_compact) && !n)
		rc = bace_fail(e, out->not_compact.errnum, "%s", out->not_compact.msg);
	out->n = n;
	out->ids = ids;
	out->bytes_after = store_bytes(s);
	if (rc)
		gc_result_free(out);
	return rc;
}

void gc_result_free(struct gc_result *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->ids[i]);
	free(r->ids);
	*r = (struct gc_result){ 0 };
}
