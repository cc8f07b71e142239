/* The runs of a store. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "results/table.h"

unsigned long long pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

static bool is_alive(int pid, long long began)
{
	CLEANUP_FREE char *stat = NULL;
	char path[64];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (bace_read_file(path, 4096, &stat, NULL, NULL))
		return false;
	p = strrchr(stat, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p && strtoll(p, NULL, 10) == began;
}

/* The fields of process: boot id, process id, start of the process, namespace
 * (older stores: none). */
const char *run_status(const char *status, const char *process)
{
	CLEANUP_FREE char *boot = NULL;
	unsigned long long ns = 0;
	long long began;
	char was[64];
	int pid, n;

	if (strcmp(status, "running"))
		return status;
	n = sscanf(process, "%63s %d %lld %llu", was, &pid, &began, &ns);
	if (n < 3 || bace_read_file("/proc/sys/kernel/random/boot_id", 64, &boot, NULL, NULL))
		return "killed";
	boot[strcspn(boot, "\n")] = '\0';
	if (strcmp(boot, was))
		return "killed";
	/* In a container beside this one, say, on one volume. */
	if (n == 4 && ns && ns != pid_namespace())
		return RUN_STATUS_UNSEEN;
	return is_alive(pid, began) ? status : "killed";
}

static int add_row(struct table *t, sqlite3_stmt *q, const char *status)
{
	int rc = table_text(t, column_text(q, 0));

	rc |= table_text(t, status);
	rc |= table_text(t, column_text(q, 9));
	rc |= table_text(t, column_text(q, 2));
	rc |= table_text(t, column_text(q, 3));
	rc |= table_text(t, column_text(q, 4));
	for (int c = 5; c < 8; c++)
		rc |= table_number(t, column_number(q, c));
	return rc;
}

static json_t *row_json(sqlite3_stmt *q, const char *status)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i}", "id", column_text(q, 0), "status", status,
		"kind", column_text(q, 9), "began_utc", column_text(q, 2), "experiment", column_text(q, 3), "backend", column_text(q, 4),
		"policies", sqlite3_column_int(q, 5), "placements", sqlite3_column_int(q, 6), "invalid",
		sqlite3_column_int(q, 7));
}

int results_print_runs(struct store *s, const struct runs_filter *f, FILE *to, bool json, bool color,
		       int width, struct bace_err *e)
{
	static const struct column columns[] = { { "run", TEXT }, { "status", TEXT }, { "kind", TEXT }, { "began", TEXT },
		{ "experiment", FLEX }, { "backend", TEXT }, { "policies", COUNT }, { "placements", COUNT },
		{ "invalid", COUNT } };
	struct table t = { .title = "Runs", .columns = columns, .n_columns = ARRAY_LEN(columns) };
	json_t *all = json_array();
	sqlite3_stmt *q;
	int n = 0, rc = store_query(s, "SELECT id, status, began_utc, experiment, backend, (SELECT count(DISTINCT"
		" policy) FROM job_outcome WHERE run_id = r.id), (SELECT count(*) FROM placement WHERE run_id ="
		" r.id AND valid), (SELECT count(*) FROM placement WHERE run_id = r.id AND NOT valid), process, " RUN_KIND " FROM"
		" run r WHERE ?1 IS NULL OR experiment = ?1 ORDER BY substr(id, 1, 15) DESC, rowid DESC", f ? f->experiment : NULL, &q, e);

	while ((!f || !f->limit || n < f->limit) && store_next(s, q, &rc, e)) {
		const char *status = run_status(column_text(q, 1), column_text(q, 8));

		if (f && f->status && strncmp(f->status, status, strlen(f->status)))
			continue;
		if (json ? json_array_append_new(all, row_json(q, status)) : add_row(&t, q, status))
			rc = bace_fail(e, ENOMEM, "runs: out of memory");
		n++;
	}
	sqlite3_finalize(q);
	if (!rc && json && (json_dumpf(all, to, JSON_INDENT(2)) || fputc('\n', to) == EOF))
		rc = bace_fail(e, EIO, "runs: write failed");
	if (!rc && !json && !n)
		fprintf(to, "No run%s in store %s.\n", f && (f->experiment || f->status) ? " like that" : "", s->path);
	else if (!rc && !json && table_print(&t, to, color, width))
		rc = bace_fail(e, ENOMEM, "runs: out of memory");
	json_decref(all);
	table_free(&t);
	return rc;
}

int store_run_kind(struct store *s, const char *run, char kind[16], struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT " RUN_KIND " FROM run r WHERE id = ?", run, &q, e);

	if (rc)
		return rc;
	if (sqlite3_step(q) == SQLITE_ROW)
		snprintf(kind, 16, "%s", column_text(q, 0));
	else
		rc = store_fail(s, e, "read");
	sqlite3_finalize(q);
	return rc;
}
