/* What is not ours, too new or broken is refused, and not a byte of it changes. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "results/schema.h"
#include "results/store.h"

static void write_file(const char *path, const void *p, size_t n)
{
	CLEANUP_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(bace_write_all(fd, p, n), 0);
}

static void make(const char *path, const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void make_store_file(const char *path)
{
	struct store *s;
	struct bace_err e;
	char id[32];

	assert_int_equal(store_open(path, &s, &e), 0);
	fixture_run(s, 1, (struct fixture_size){ 1, 20, true, true }, id);
	store_close(s);
}

static void untouched(const char *path, int errnum, const char *says)
{
	static const char *const beside[] = { "-wal", "-shm", "-journal" };
	struct store *s = NULL;
	struct bace_err e = { 0 };
	char *before, *after;
	size_t n, m;

	assert_int_equal(bace_read_file(path, 1 << 26, &before, &n, &e), 0);
	for (int readonly = 0; readonly < 2; readonly++) {
		int rc = readonly ? store_open_readonly(path, &s, &e) : store_open(path, &s, &e);

		if (rc != -errnum || !strstr(e.msg, says) || strchr(e.msg, '\n'))
			fail_msg("%s: %d, `%s'; wanted %d, `%s'", path, rc, e.msg, -errnum, says);
	}
	assert_int_equal(bace_read_file(path, 1 << 26, &after, &m, &e), 0);
	assert_int_equal(n, m);
	assert_memory_equal(before, after, n);
	for (size_t i = 0; i < ARRAY_LEN(beside); i++) {
		CLEANUP_FREE char *other = NULL;

		assert_true(asprintf(&other, "%s%s", path, beside[i]) > 0);
		assert_int_equal(access(other, F_OK), -1);
	}
	free(before);
	free(after);
}

static void foreign(void **state)
{
	CLEANUP_FREE char *text = fixture_path("text"), *db = fixture_path("foreign.db"), *app = fixture_path("app.db");

	write_file(text, "policy,job\nbace,x\n", 18);
	untouched(text, EUCLEAN, "not a store of bace");
	write_file(text, "SQL", 3);
	untouched(text, EUCLEAN, "cut off");
	make(db, "CREATE TABLE music (title); INSERT INTO music VALUES ('x')");
	untouched(db, EUCLEAN, "something else");
	make(app, "PRAGMA application_id = 7; CREATE TABLE t (x)");
	untouched(app, EUCLEAN, "something else");
}

static void newer(void **state)
{
	CLEANUP_FREE char *path = fixture_path("newer.db");

	make_store_file(path);
	make(path, "PRAGMA user_version = 99");
	untouched(path, EPROTO, "schema version 99");
}

static void truncated(void **state)
{
	CLEANUP_FREE char *path = fixture_path("cut.db");
	struct stat st;

	make_store_file(path);
	assert_int_equal(stat(path, &st), 0);
	for (off_t keep = st.st_size - 1; keep > 200; keep = keep * 2 / 3) {
		assert_int_equal(truncate(path, keep), 0);
		untouched(path, EUCLEAN, "cut off");
	}
}

static void empty(void **state)
{
	CLEANUP_FREE char *path = fixture_path("empty.db");
	struct store *s;
	struct bace_err e;
	struct stat st;

	write_file(path, "", 0);
	assert_int_equal(store_open_readonly(path, &s, &e), -EUCLEAN);
	assert_non_null(strstr(e.msg, "an empty file"));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 0);
	/* Who writes may begin in it, as mktemp made it. */
	assert_int_equal(store_open(path, &s, &e), 0);
	store_close(s);
}

static void folder(void **state)
{
	struct store *s;
	struct bace_err e;

	assert_int_equal(store_open(fixture_dir(), &s, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "not a file"));
	assert_int_equal(store_open_readonly("/nonexistent/x.db", &s, &e), -ENOENT);
}

/* Runs body in a child; its status. 77: it could not be tried. */
static int in_child(int (*body)(const char *path), const char *path)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(body(path));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int read_only_body(const char *path)
{
	struct store *s;
	struct bace_err e = { 0 };
	char id[32];
	int rc;

	/* Root may write anywhere. */
	if (geteuid() == 0 && (setegid(65534) || seteuid(65534)))
		return 77;
	rc = store_open(path, &s, &e);
	if (rc != -EROFS && rc != -EACCES) {
		fprintf(stderr, "store_open: %d %s\n", rc, e.msg);
		return 1;
	}
	if (store_open_readonly(path, &s, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		return 2;
	}
	rc = store_find_run(s, "last", id, &e);
	store_close(s);
	return rc ? 3 : 0;
}

static void read_only_folder(void **state)
{
	CLEANUP_FREE char *dir = fixture_path("ro"), *path = fixture_path("ro/store.db");
	int status;

	assert_int_equal(mkdir(dir, 0755), 0);
	make_store_file(path);
	assert_int_equal(chmod(path, 0444), 0);
	assert_int_equal(chmod(dir, 0555), 0);
	assert_int_equal(chmod(fixture_dir(), 0755), 0);
	status = in_child(read_only_body, path);
	assert_int_equal(chmod(dir, 0755), 0);
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
}

static int newest_body(const char *path)
{
	struct store *s;
	struct bace_err e = { 0 };
	int rc;

	if (geteuid() == 0 && (setegid(65534) || seteuid(65534)))
		return 77;
	rc = store_open_readonly(path, &s, &e);
	if (rc != -EACCES || !strstr(e.msg, "store.db-wal, which cannot be read")) {
		fprintf(stderr, "%d %s\n", rc, e.msg);
		return 1;
	}
	return 0;
}

static void copy_file(const char *from, const char *suffix, const char *to)
{
	CLEANUP_FREE char *source = NULL, *target = NULL, *bytes = NULL;
	struct bace_err e;
	size_t n;

	assert_true(asprintf(&source, "%s%s", from, suffix) > 0 && asprintf(&target, "%s%s", to, suffix) > 0);
	assert_int_equal(bace_read_file(source, 1 << 26, &bytes, &n, &e), 0);
	assert_true(n > 0);
	write_file(target, bytes, n);
}

/* A killed run's store, copied: what is in the log alone must not be missing in silence. */
static void read_only_log(void **state)
{
	CLEANUP_FREE char *from = fixture_path("log.db"), *dir = fixture_path("rolog"), *to = fixture_path("rolog/store.db");
	struct store *s;
	struct bace_err e;
	char id[32];
	int status;

	assert_int_equal(mkdir(dir, 0755), 0);
	assert_int_equal(store_open(from, &s, &e), 0);
	fixture_run(s, 1, (struct fixture_size){ 1, 20, true, true }, id);
	copy_file(from, "", to);
	copy_file(from, "-wal", to);
	store_close(s);
	assert_int_equal(chmod(fixture_dir(), 0755), 0);
	assert_int_equal(chmod(dir, 0555), 0);
	status = in_child(newest_body, to);
	assert_int_equal(chmod(dir, 0755), 0);
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
	/* Where it can be written to it is all there. */
	assert_int_equal(store_open_readonly(to, &s, &e), 0);
	assert_int_equal(store_find_run(s, id, id, &e), 0);
	store_close(s);
}

static int older_body(const char *path)
{
	struct store *s;
	struct bace_err e = { 0 };
	int rc;

	if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
		return 77;
	rc = store_open_readonly(path, &s, &e);
	if (rc != -EPROTO || !strstr(e.msg, "schema version 1 is older")) {
		fprintf(stderr, "%d %s\n", rc, e.msg);
		return 1;
	}
	return 0;
}

/* Brought up to date by whoever may write, by nobody else. */
static void older(void **state)
{
	CLEANUP_FREE char *path = fixture_path("older.db");
	struct store *s;
	struct bace_err e;
	char id[32];
	int status;

	make(path, store_migrations[0]);
	make(path, "PRAGMA application_id = 0x62616365; PRAGMA user_version = 1; INSERT INTO run (id, status, began_utc)"
	     " VALUES ('20200101-000000-0001', 'done', '2020-01-01T00:00:00Z')");
	assert_int_equal(chmod(path, 0444), 0);
	assert_int_equal(chmod(fixture_dir(), 0755), 0);
	status = in_child(older_body, path);
	assert_true(status == 0 || status == 77);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(store_open_readonly(path, &s, &e), 0);
	assert_int_equal(store_find_run(s, "last", id, &e), 0);
	assert_string_equal(id, "20200101-000000-0001");
	store_close(s);
}

static int full_disk_body(const char *dir)
{
	CLEANUP_FREE char *path = NULL;
	struct store *s;
	struct bace_err e = { 0 };
	char id[32];
	int rc = 0;

	if (unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("full", dir, "tmpfs", 0, "size=1m"))
		return 77;
	if (asprintf(&path, "%s/store.db", dir) < 0 || store_open(path, &s, &e) ||
	    store_run_begin(s, &(struct run_info){ .experiment = "x" }, id, &e))
		return 1;
	for (int cell = 0; !rc && cell < 100000; cell++) {
		rc = store_begin(s, &e);
		for (int i = 0; !rc && i < 100; i++)
			rc = store_add_skip(s, id, &(struct skip_row){ .what = "w", .why = "because of this" }, &e);
		if (!rc)
			rc = store_commit(s, &e);
	}
	store_rollback(s);
	store_close(s);
	if (rc != -ENOSPC || !strstr(e.msg, "the disk is full")) {
		fprintf(stderr, "%d %s\n", rc, e.msg);
		return 2;
	}
	/* Whole cells only. */
	if (store_open_readonly(path, &s, &e))
		return 3;
	sqlite3_stmt *q;
	if (store_query(s, "SELECT count(*) % 100, (SELECT * FROM pragma_integrity_check) = 'ok' FROM skip", NULL, &q,
			&e) || sqlite3_step(q) != SQLITE_ROW || sqlite3_column_int(q, 0) || !sqlite3_column_int(q, 1))
		return 4;
	return 0;
}

static void full_disk(void **state)
{
	CLEANUP_FREE char *dir = fixture_path("full");
	int status;

	assert_int_equal(mkdir(dir, 0755), 0);
	status = in_child(full_disk_body, dir);
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(foreign), cmocka_unit_test(empty), cmocka_unit_test(newer),
		cmocka_unit_test(truncated), cmocka_unit_test(folder), cmocka_unit_test(read_only_folder),
		cmocka_unit_test(read_only_log), cmocka_unit_test(older),
		cmocka_unit_test(full_disk) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
