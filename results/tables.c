/*
 * The data dictionary lives in the schema: SQLite keeps the text of every
 * CREATE and ADD COLUMN, comments included.
 */
#include "results/tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The comment that follows `name` in sql, without its delimiters; "" if none. */
static char *comment_after(const char *sql, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = sql; (p = strstr(p, name)); p += n) {
		const char *start = p + n, *end;

		if ((p > sql && (p[-1] == '_' || (p[-1] >= 'a' && p[-1] <= 'z'))) || strncmp(start, " /* ", 4))
			continue;
		start += 4;
		end = strstr(start, " */");
		return end ? strndup(start, (size_t)(end - start)) : strdup("");
	}
	return strdup("");
}

/* "unit; meaning" */
static void split(char *comment, char **unit, char **meaning)
{
	char *semicolon = comment ? strstr(comment, "; ") : NULL;

	*unit = semicolon ? strndup(comment, (size_t)(semicolon - comment)) : strdup("");
	*meaning = strdup(semicolon ? semicolon + 2 : comment ? comment : "");
}

static int read_columns(struct store *s, struct store_table *t, const char *sql, struct bace_err *e)
{
	sqlite3_stmt *q;
	/* A column may be called like its table. */
	const char *columns = strchr(sql, '(');
	size_t cap = 0;
	int rc = store_query(s, "SELECT name, type FROM pragma_table_info(?1) ORDER BY cid", t->name, &q, e);

	while (store_next(s, q, &rc, e)) {
		CLEANUP_FREE char *comment = comment_after(columns ? columns : sql, column_text(q, 0));
		struct store_column c = { .name = strdup(column_text(q, 0)), .type = strdup(column_text(q, 1)) };

		split(comment, &c.unit, &c.meaning);
		if (!c.name || !c.type || !c.unit || !c.meaning || BACE_PUSH(t->columns, t->n, cap, c))
			rc = bace_fail(e, ENOMEM, "schema: out of memory");
	}
	sqlite3_finalize(q);
	return rc;
}

int store_tables_read(struct store *s, struct store_tables *out, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE"
			     " 'sqlite_%' ORDER BY name", NULL, &q, e);

	*out = (struct store_tables){ 0 };
	while (store_next(s, q, &rc, e)) {
		struct store_table t = { .name = strdup(column_text(q, 0)),
			.meaning = comment_after(column_text(q, 1), column_text(q, 0)) };

		rc = t.name && t.meaning ? read_columns(s, &t, column_text(q, 1), e) :
			bace_fail(e, ENOMEM, "schema: out of memory");
		if (BACE_PUSH(out->v, out->n, out->cap, t) && !rc)
			rc = bace_fail(e, ENOMEM, "schema: out of memory");
	}
	sqlite3_finalize(q);
	if (rc)
		store_tables_free(out);
	return rc;
}

void store_tables_free(struct store_tables *t)
{
	for (size_t i = 0; i < t->n; i++) {
		for (size_t c = 0; c < t->v[i].n; c++) {
			free(t->v[i].columns[c].name);
			free(t->v[i].columns[c].type);
			free(t->v[i].columns[c].unit);
			free(t->v[i].columns[c].meaning);
		}
		free(t->v[i].columns);
		free(t->v[i].name);
		free(t->v[i].meaning);
	}
	free(t->v);
	*t = (struct store_tables){ 0 };
}

static bool has_column(const struct store_table *t, const char *name)
{
	for (size_t c = 0; c < t->n; c++)
		if (!strcmp(t->columns[c].name, name))
			return true;
	return false;
}

int table_query(struct store *s, const struct store_table *t, const char *run, sqlite3_stmt **out,
		struct bace_err *e)
{
	static const struct {
		const char *key, *where;
	} ways[] = {
		{ "run_id", "run_id = ?1 ORDER BY rowid" },
		/* The outer loop is over the placements: their rows lie together. */
		{ "placement_id", "placement_id IN (SELECT id FROM placement WHERE run_id = ?1) ORDER BY "
			"placement_id" },
		{ "moment_id", "moment_id IN (SELECT id FROM moment WHERE run_id = ?1) ORDER BY moment_id" },
		{ "id", "id = ?1" },
	};
	CLEANUP_FREE char *sql = NULL;

	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		if (!has_column(t, ways[i].key))
			continue;
		if (asprintf(&sql, "SELECT * FROM %s WHERE %s", t->name, ways[i].where) < 0)
			return bace_fail(e, ENOMEM, "store: out of memory");
		return store_query(s, sql, run, out, e);
	}
	return bace_fail(e, EPROTO, "store %s: table %s belongs to no run", s->path, t->name);
}
