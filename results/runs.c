/* Finding and listing runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "results/table.h"

static int nearest_run(struct store *s, const char *given, struct bace_err *e)
{
	const char **ids = NULL;
	size_t n = 0, cap = 0;
	sqlite3_stmt *q;
	char near[32] = "";
	int rc = store_query(s, "SELECT id FROM run ORDER BY substr(id, 1, 15) DESC, rowid DESC LIMIT 10000", NULL, &q, e);

	if (rc)
		return rc;
	while (store_next(s, q, &rc, e)) {
		char *id = strdup(column_text(q, 0));

		if (!id || BACE_PUSH(ids, n, cap, id)) {
			free(id);
			break;
		}
	}
	sqlite3_finalize(q);
	const char *found = bace_nearest(given, ids, n), *last = "last";

	if (!found && n)
		found = bace_nearest(given, &last, 1);
	/* Ids are long: when no word is near, the newest is what is meant most often. */
	snprintf(near, sizeof(near), "%s", found ? found : n ? ids[0] : "");
	for (size_t i = 0; i < n; i++)
		free((char *)ids[i]);
	free(ids);
	if (rc)
		return rc;
	if (!near[0])
		return bace_fail(e, ENOENT, "no run `%s': store %s holds no run yet", given, s->path);
	return bace_fail(e, ENOENT, "no run `%s' in store %s; the %s one is %s", given, s->path,
			 found ? "nearest" : "newest", near);
}

int store_find_run(struct store *s, const char *given, char id[32], struct bace_err *e)
{
	bool last = !strcmp(given, "last");
	sqlite3_stmt *q;
	int n = 0, rc;

	rc = store_query(s, last ? "SELECT id FROM run ORDER BY substr(id, 1, 15) DESC, rowid DESC LIMIT 1" :
			 "SELECT id FROM run WHERE id >= ?1 AND substr(id, 1, length(?1)) = ?1 "
			 "ORDER BY id LIMIT 2", given, &q, e);
	if (rc)
		return rc;
	while (store_next(s, q, &rc, e))
		if (!n++ || !strcmp(column_text(q, 0), given))
			snprintf(id, 32, "%s", column_text(q, 0));
	sqlite3_finalize(q);
	if (rc)
		return rc;
	if (!given[0] || !n)
		return nearest_run(s, given, e);
	/* Ids go into pages, file names and commands to type. */
	if (id[strspn(id, "0123456789abcdef-")])
		return bace_fail(e, EUCLEAN, "store %s: a run's id has characters that bace gives none", s->path);
	if (n > 1 && strcmp(id, given))
		return bace_fail(e, ENOENT, "run `%s': more than one begins so, %s is the oldest", given, id);
	return 0;
}

int store_run_config(struct store *s, const char *run, char **text, char **backend, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT config_text, backend FROM run WHERE id = ?", run, &q, e);

	if (rc)
		return rc;
	if (sqlite3_step(q) != SQLITE_ROW)
		rc = bace_fail(e, ENOENT, "store %s: no run %s", s->path, run);
	else if (!(*text = strdup(column_text(q, 0))) || !(*backend = strdup(column_text(q, 1))))
		rc = bace_fail(e, ENOMEM, "run %s: out of memory", run);
	sqlite3_finalize(q);
	return rc;
}

int store_run_config_hash(struct store *s, const char *run, uint64_t *hash, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT config_hash FROM run WHERE id = ?1", run, &q, e);

	if (rc)
		return rc;
	if (sqlite3_step(q) == SQLITE_ROW)
		*hash = strtoull(column_text(q, 0), NULL, 16);
	else
		rc = bace_fail(e, ENOENT, "run `%s': not in this store", run);
	sqlite3_finalize(q);
	return rc;
}
