#include "results/store.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "results/schema.h"

#define BUSY_MS 10000

static const char *advice(int errnum)
{
	switch (errnum) {
	case ENOSPC: return "; nothing of this transaction was kept";
	case EROFS: return "; give a writable place with --store FILE";
	case EUCLEAN: return "; it was not touched";
	case EBUSY: return "; another process holds it";
	}
	return "";
}

int store_fail(struct store *s, struct bace_err *e, const char *what)
{
	int extended = sqlite3_extended_errcode(s->db), errnum = EIO;
	const char *text = sqlite3_errmsg(s->db);

	switch (extended & 0xff) {
	case SQLITE_FULL: errnum = ENOSPC; break;
	case SQLITE_READONLY: errnum = EROFS; break;
	case SQLITE_CANTOPEN: errnum = EACCES; break;
	case SQLITE_NOTADB:
	case SQLITE_CORRUPT: errnum = EUCLEAN; break;
	case SQLITE_BUSY: errnum = EBUSY; break;
	case SQLITE_NOMEM: errnum = ENOMEM; break;
	case SQLITE_CONSTRAINT: errnum = EINVAL; break;
	case SQLITE_IOERR:
		/* A log that does not fit is an I/O error, not "full". */
		if (sqlite3_system_errno(s->db) == ENOSPC)
			errnum = ENOSPC;
		break;
	}
	if (errnum == ENOSPC)
		text = "the disk is full";
	else if (errnum == EACCES && sqlite3_system_errno(s->db))
		text = strerror(sqlite3_system_errno(s->db));
	return bace_fail(e, errnum, "store %s: %s: %s%s", s->path, what, text, advice(errnum));
}

int store_exec(struct store *s, const char *sql, struct bace_err *e)
{
	if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return store_fail(s, e, "write");
	return 0;
}

bool store_next(struct store *s, sqlite3_stmt *q, int *rc, struct bace_err *e)
{
	int step = *rc ? SQLITE_DONE : sqlite3_step(q);

	if (step != SQLITE_ROW && step != SQLITE_DONE)
		*rc = store_fail(s, e, "read");
	return step == SQLITE_ROW;
}

double column_number(sqlite3_stmt *q, int column)
{
	return sqlite3_column_type(q, column) == SQLITE_NULL ? NAN : sqlite3_column_double(q, column);
}

const char *column_text(sqlite3_stmt *q, int column)
{
	const char *t = (const char *)sqlite3_column_text(q, column);

	return t ? t : "";
}

static int query_int(struct store *s, const char *sql, int *out, struct bace_err *e)
{
	sqlite3_stmt *q = NULL;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(q);
	if (rc == SQLITE_ROW)
		*out = sqlite3_column_int(q, 0);
	rc = rc == SQLITE_ROW ? 0 : store_fail(s, e, "open");
	sqlite3_finalize(q);
	return rc;
}

/* Again what store_probe asked, where a log beside the file has the answer. */
static int check_identity(struct store *s, int *version, struct bace_err *e)
{
	int app = 0, tables = 0;
	int rc = query_int(s, "PRAGMA user_version", version, e);

	if (!rc)
		rc = query_int(s, "PRAGMA application_id", &app, e);
	if (!rc)
		rc = query_int(s, "SELECT count(*) FROM sqlite_schema", &tables, e);
	if (rc)
		return rc;
	if (app != STORE_APPLICATION_ID && (app || tables || *version))
		return bace_fail(e, EUCLEAN, "store %s: a database of something else; it was not touched",
				 s->path);
	if (*version > store_version)
		return bace_fail(e, EPROTO, "store %s: schema version %d; this bace knows up to %d: use a "
				 "newer bace; it was not touched", s->path, *version, store_version);
	return 0;
}

static int migrate(struct store *s, struct bace_err *e)
{
	char pragma[128];
	int from = 0, rc = store_exec(s, "BEGIN IMMEDIATE", e);

	if (rc)
		return rc;
	/* Another process may have been faster. */
	rc = query_int(s, "PRAGMA user_version", &from, e);
	for (int v = from; !rc && v < store_version; v++)
		rc = store_exec(s, store_migrations[v], e);
	snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %d; PRAGMA application_id = %d",
		 store_version, STORE_APPLICATION_ID);
	if (!rc && from < store_version)
		rc = store_exec(s, pragma, e);
	if (!rc)
		rc = store_commit(s, e);
	if (rc)
		store_rollback(s);
	return rc;
}

static int make_parent(const char *path, struct bace_err *e)
{
	char dir[PATH_MAX];
	char *slash;

	if ((size_t)snprintf(dir, sizeof(dir), "%s", path) >= sizeof(dir))
		return bace_fail_errno(e, ENAMETOOLONG, "store %s", path);
	slash = strrchr(dir, '/');
	for (char *p = dir + 1; slash && p <= slash; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(dir, 0755) && errno != EEXIST)
			return bace_fail_errno(e, errno, "store %s: make the folder %s", path, dir);
		*p = '/';
	}
	return 0;
}

static int connect_file(const char *path, int flags, struct store **out, struct bace_err *e)
{
	struct store *s = calloc(1, sizeof(*s));
	int rc;

	if (!s || !(s->path = strdup(path))) {
		free(s);
		return bace_fail(e, ENOMEM, "store %s: out of memory", path);
	}
	if (sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
		rc = store_fail(s, e, flags & SQLITE_OPEN_CREATE ? "open or make it" : "open");
		store_close(s);
		return rc;
	}
	sqlite3_busy_timeout(s->db, BUSY_MS);
	*out = s;
	return 0;
}

static int open_for_writing(struct store *s, struct bace_err *e)
{
	int version = 0, rc;

	/* Closing what turns out to be somebody else's must not fold its log into it. */
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	rc = check_identity(s, &version, e);
	if (!rc && sqlite3_db_readonly(s->db, "main"))
		rc = bace_fail(e, EROFS, "store %s: no permission to write%s", s->path, advice(EROFS));
	if (!rc)
		rc = store_exec(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
				"PRAGMA foreign_keys = ON", e);
	if (!rc && version < store_version)
		rc = migrate(s, e);
	if (!rc)
		sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
	return rc;
}

int store_open(const char *path, struct store **out, struct bace_err *e)
{
	struct store *s = NULL;
	int version, rc = store_probe(path, &version, e);

	if (!rc)
		rc = make_parent(path, e);
	if (!rc)
		rc = connect_file(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &s, e);
	if (rc)
		return rc;
	rc = open_for_writing(s, e);
	if (rc) {
		store_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

/* A log needs an index beside it, which a read-only folder cannot take; a file
 * without log can do without. */
static int open_unindexed(const char *path, bool logged, struct store **out, struct bace_err *e)
{
	CLEANUP_FREE char *uri = NULL;
	struct bace_buf b = { 0 };
	int rc;

	if (logged)
		return bace_fail(e, EACCES, "store %s: its newest rows are in %s-wal, which cannot be read in a "
				 "folder without permission to write: copy both files to one with it", path, path);
	rc = bace_buf_addf(&b, "file:");
	for (const char *p = path; !rc && *p; p++)
		rc = strchr("%?#", *p) ? bace_buf_addf(&b, "%%%02x", (unsigned char)*p) :
			bace_buf_add(&b, p, 1);
	if (!rc)
		rc = bace_buf_addf(&b, "?immutable=1");
	uri = b.p;
	return rc ? bace_fail(e, ENOMEM, "store %s: out of memory", path) :
		connect_file(uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, out, e);
}

static int open_older(const char *path, int version, struct store **out, struct bace_err *e)
{
	/* Readers know one schema only; whoever may write brings it up to date. */
	if (access(path, W_OK))
		return bace_fail(e, EPROTO, "store %s: schema version %d is older than %d, and there is no "
				 "permission to bring it up to date", path, version, store_version);
	return store_open(path, out, e);
}

int store_open_readonly(const char *path, struct store **out, struct bace_err *e)
{
	struct store *s = NULL;
	struct stat st;
	int version, rc;
	bool logged;

	if (stat(path, &st))
		return bace_fail_errno(e, errno, "store %s", path);
	/* To SQLite an empty file is an empty database; here nobody asked for one. */
	if (S_ISREG(st.st_mode) && !st.st_size)
		return bace_fail(e, EUCLEAN, "store %s: not a store of bace: an empty file; it was not touched", path);
	rc = store_probe(path, &version, e);
	logged = version == -1;
	if (!rc)
		rc = connect_file(path, SQLITE_OPEN_READONLY, &s, e);
	if (rc)
		return rc;
	rc = check_identity(s, &version, e);
	if (rc == -EACCES || rc == -EROFS) {
		store_close(s);
		s = NULL;
		rc = open_unindexed(path, logged, &s, e);
		if (!rc)
			rc = check_identity(s, &version, e);
	}
	if (!rc && version < store_version) {
		store_close(s);
		s = NULL;
		rc = open_older(path, version, &s, e);
	}
	if (!rc)
		rc = store_begin_read(s, e);
	if (rc)
		store_close(s);
	else
		*out = s;
	return rc;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	for (int i = 0; i < N_INSERTS; i++)
		sqlite3_finalize(s->inserts[i]);
	sqlite3_close(s->db);
	free(s->path);
	free(s);
}

char *store_default_path(void)
{
	const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	char *path = NULL;

	if (!access("results/results.h", R_OK) && !access("meson.build", R_OK))
		return strdup("results/bace.db");
	if (data && data[0] == '/')
		return asprintf(&path, "%s/bace/bace.db", data) < 0 ? NULL : path;
	return asprintf(&path, "%s/.local/share/bace/bace.db", home ? home : ".") < 0 ? NULL : path;
}

int store_begin(struct store *s, struct bace_err *e)
{
	return store_exec(s, "BEGIN IMMEDIATE", e);
}

int store_commit(struct store *s, struct bace_err *e)
{
	int rc = store_exec(s, "COMMIT", e);

	/* Some failures leave it open: what comes next would go into it and be lost. */
	if (rc)
		store_rollback(s);
	return rc;
}

int store_begin_read(struct store *s, struct bace_err *e)
{
	return sqlite3_get_autocommit(s->db) ? store_exec(s, "BEGIN", e) : 0;
}

void store_rollback(struct store *s)
{
	s->ops.placement = s->sim_ops.placement = 0;
	if (!sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

int store_query(struct store *s, const char *sql, const char *run, sqlite3_stmt **out,
		struct bace_err *e)
{
	*out = NULL;
	if (sqlite3_prepare_v2(s->db, sql, -1, out, NULL) != SQLITE_OK)
		return store_fail(s, e, "read");
	if (run && sqlite3_bind_parameter_count(*out))
		sqlite3_bind_text(*out, 1, run, -1, SQLITE_TRANSIENT);
	return 0;
}
