/* The rows of a run, as files that other tools read. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "results/number.h"
#include "results/tables.h"

/* How text goes into each format. */
static void put_csv_text(FILE *to, const char *s)
{
	if (!s[strcspn(s, ",\"\r\n")]) {
		fputs_unlocked(s, to);
		return;
	}
	putc_unlocked('"', to);
	for (; *s; s++) {
		if (*s == '"')
			putc_unlocked('"', to);
		putc_unlocked(*s, to);
	}
	putc_unlocked('"', to);
}

static void put_json_text(FILE *to, const char *s)
{
	putc_unlocked('"', to);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			putc_unlocked('\\', to);
		if (c == '\n')
			fputs_unlocked("\\n", to);
		else if (c < 32)
			fprintf(to, "\\u%04x", c);
		else
			putc_unlocked(c, to);
	}
	putc_unlocked('"', to);
}

static void put_value(FILE *to, sqlite3_stmt *q, int c, bool json)
{
	char buf[NUMBER_MAX];

	switch (sqlite3_column_type(q, c)) {
	case SQLITE_NULL:
		if (json)
			fputs_unlocked("null", to);
		break;
	case SQLITE_INTEGER:
		fwrite_unlocked(buf, 1, format_integer(buf, sqlite3_column_int64(q, c)), to);
		break;
	case SQLITE_FLOAT:
		if (isfinite(sqlite3_column_double(q, c)))
			fwrite_unlocked(buf, 1, format_number(buf, sqlite3_column_double(q, c)), to);
		else if (json)
			fputs_unlocked("null", to);
		break;
	default:
		if (json)
			put_json_text(to, column_text(q, c));
		else
			put_csv_text(to, column_text(q, c));
	}
}

static void put_csv_row(FILE *to, sqlite3_stmt *q)
{
	for (int c = 0; c < sqlite3_column_count(q); c++) {
		if (c)
			putc_unlocked(',', to);
		put_value(to, q, c, false);
	}
	putc_unlocked('\n', to);
}

static void put_json_row(FILE *to, sqlite3_stmt *q, const char *table)
{
	putc_unlocked('{', to);
	if (table) {
		fputs_unlocked("\"table\":", to);
		put_json_text(to, table);
	}
	for (int c = 0; c < sqlite3_column_count(q); c++) {
		if (c || table)
			putc_unlocked(',', to);
		put_json_text(to, sqlite3_column_name(q, c));
		putc_unlocked(':', to);
		put_value(to, q, c, true);
	}
	putc_unlocked('}', to);
}

static int export_table(struct store *s, const char *run, const struct store_table *t,
			enum export_format format, FILE *to, struct bace_err *e)
{
	sqlite3_stmt *q;
	bool any = false;
	int rc = table_query(s, t, run, &q, e), step;

	if (rc)
		return rc;
	for (int c = 0; format == EXPORT_CSV && c < sqlite3_column_count(q); c++)
		fprintf(to, "%s%s", c ? "," : "", sqlite3_column_name(q, c));
	if (format == EXPORT_CSV)
		putc('\n', to);
	while ((step = sqlite3_step(q)) == SQLITE_ROW && !ferror_unlocked(to)) {
		if (format == EXPORT_CSV) {
			put_csv_row(to, q);
		} else if (format == EXPORT_NDJSON) {
			put_json_row(to, q, t->name);
			putc_unlocked('\n', to);
		} else {
			fputs_unlocked(any ? ",\n  " : "\n  ", to);
			put_json_row(to, q, NULL);
		}
		any = true;
	}
	rc = ferror(to) ? bace_fail(e, EIO, "export of %s: write failed", t->name) :
		step != SQLITE_DONE ? store_fail(s, e, "read") : 0;
	sqlite3_finalize(q);
	return rc;
}

/* ---- where it goes ---- */

static int to_stream(struct store *s, const char *run, const struct store_tables *v, const char *only,
		     enum export_format format, FILE *to, struct bace_err *e)
{
	int rc = 0, n = 0;

	if (format == EXPORT_JSON)
		fputs("{", to);
	for (size_t i = 0; !rc && i < v->n; i++) {
		if (only && strcmp(only, v->v[i].name))
			continue;
		if (format == EXPORT_JSON)
			fprintf(to, "%s\n\"%s\": [", n ? "," : "", v->v[i].name);
		rc = export_table(s, run, &v->v[i], format, to, e);
		if (format == EXPORT_JSON)
			fputs("]", to);
		n++;
	}
	if (format == EXPORT_JSON)
		fputs("\n}\n", to);
	if (fflush(to) && !rc)
		rc = bace_fail_errno(e, errno, "export");
	return rc;
}

static int to_file(struct store *s, const char *run, const struct store_tables *v, const char *only,
		   enum export_format format, const char *dir, const char *name, struct bace_err *e)
{
	static const char *const suffixes[] = { "csv", "json", "ndjson" };
	CLEANUP_FREE char *path = NULL;
	struct bace_outfile out;
	int rc;

	if (asprintf(&path, "%s/%s.%s", dir, name, suffixes[format]) < 0)
		return bace_fail(e, ENOMEM, "export: out of memory");
	rc = bace_outfile_open(path, &out, e);
	if (rc)
		return bace_err_context(e, "export");
	rc = to_stream(s, run, v, only, format, out.f, e);
	return bace_outfile_close(&out, rc, e);
}

static int to_folder(struct store *s, const char *run, const struct store_tables *v,
		     const struct export_options *o, struct bace_err *e)
{
	int rc = 0;

	if (mkdir(o->dir, 0755) && errno != EEXIST)
		return bace_fail_errno(e, errno, "export: make the folder %s", o->dir);
	if (o->format == EXPORT_JSON)
		return to_file(s, run, v, o->table, o->format, o->dir, o->table ? o->table : run, e);
	for (size_t i = 0; !rc && i < v->n; i++)
		if (!o->table || !strcmp(o->table, v->v[i].name))
			rc = to_file(s, run, v, v->v[i].name, o->format, o->dir, v->v[i].name, e);
	return rc;
}

static int check_table(const struct store_tables *v, const char *name, struct bace_err *e)
{
	CLEANUP_FREE const char **names = calloc(v->n + 1, sizeof(*names));
	const char *near;

	for (size_t i = 0; names && i < v->n; i++) {
		names[i] = v->v[i].name;
		if (!strcmp(name, names[i]))
			return 0;
	}
	near = names ? bace_nearest(name, names, v->n) : NULL;
	return bace_fail(e, EINVAL, "no table `%s'%s%s%s", name, near ? "; did you mean `" : "",
			 near ? near : "", near ? "'?" : "; `bace store dictionary' lists them");
}

int results_export(struct store *s, const char *given, const struct export_options *o, FILE *to,
		   struct bace_err *e)
{
	struct store_tables v;
	char run[32];
	int rc = store_find_run(s, given, run, e);

	if (!rc)
		rc = store_tables_read(s, &v, e);
	if (rc)
		return rc;
	if (o->table)
		rc = check_table(&v, o->table, e);
	if (!rc)
		rc = store_begin_read(s, e);
	if (!rc) {
		rc = o->dir ? to_folder(s, run, &v, o, e) : to_stream(s, run, &v, o->table, o->format, to, e);
		store_rollback(s);
	}
	store_tables_free(&v);
	return rc;
}
