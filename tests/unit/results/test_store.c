#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "results/schema.h"
#include "results/store.h"
#include "results/tables.h"

static void round_trip(void **state)
{
	struct store *s = fixture_open("trip.db");
	double median[2], busy[2];
	struct bace_err e;
	sqlite3_stmt *q;
	char id[32];

	fixture_run(s, 3, (struct fixture_size){ 2, 4, true, true }, id);
	assert_int_equal(store_query(s, "SELECT seed, config_hash, backend, scale_bytes, status, ended_utc, process"
				     " FROM run WHERE id = ?", id, &q, &e), 0);
	assert_int_equal(sqlite3_step(q), SQLITE_ROW);
	assert_string_equal(column_text(q, 0), "18446744073709551615");
	assert_string_equal(column_text(q, 1), "fedcba9876543210");
	assert_string_equal(column_text(q, 2), "nfqueue");
	assert_true(column_number(q, 3) == 0.005);
	assert_string_equal(column_text(q, 4), "done");
	assert_int_equal(strlen(column_text(q, 5)), 20);
	assert_non_null(strstr(column_text(q, 6), " "));
	sqlite3_finalize(q);
	/* 2 policies x 4 jobs x (4 measured + 1 warm-up) */
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM step"), 40);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM step WHERE step < 0"), 8);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM placement WHERE NOT valid"), 1);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM placement WHERE measured_median_s IS NULL"), 1);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM decision WHERE view_digest = 'fffffffffffffffc'"), 6);
	assert_int_equal(store_find_moment(s, NULL, "settings", "a@x;b@y", 2, median, busy, &e), 1);
	assert_true(median[0] == 4.1 && median[1] == 9.8 && busy[0] == 0.7 && isnan(busy[1]));
	assert_int_equal(store_find_moment(s, NULL, "settings", "a@x;b@y", 3, median, busy, &e), 0);
	assert_int_equal(store_find_moment(s, NULL, "other", "a@x;b@y", 2, median, busy, &e), 0);
	store_close(s);
}

/* What one run measured, and not another, is given to a third. */
static void moments_of_runs(void **state)
{
	struct store *s = fixture_open("moments.db");
	double median[2], busy[2], later[2] = { 5, 6 };
	char first[32], second[32], third[32];
	CLEANUP_FREE char *other = NULL;
	struct bace_err e;
	int n;

	fixture_run(s, 3, (struct fixture_size){ 1, 2, true, true }, first);
	fixture_run(s, 4, (struct fixture_size){ 1, 2, true, true }, second);
	fixture_run(s, 5, (struct fixture_size){ 1, 1, false, false }, third);
	assert_int_equal(store_begin(s, &e), 0);
	assert_int_equal(store_add_moment(s, second, "settings", "c@z;d@z", 2, later, later, &e), 0);
	assert_int_equal(store_commit(s, &e), 0);
	assert_int_equal(store_find_moment(s, NULL, "settings", "c@z;d@z", 2, median, busy, &e), 1);
	assert_int_equal(store_find_moment(s, first, "settings", "c@z;d@z", 2, median, busy, &e), 0);
	assert_int_equal(store_count_moments(s, second, "settings", &n, &other, &e), 0);
	assert_true(n == 2 && !other);
	assert_int_equal(store_count_moments(s, second, "others", &n, &other, &e), 0);
	assert_true(n == 0);
	assert_string_equal(other, "settings");
	assert_int_equal(store_copy_moments(s, second, third, "others", &e), 0);
	assert_int_equal(store_find_moment(s, third, "settings", "c@z;d@z", 2, median, busy, &e), 0);
	assert_int_equal(store_copy_moments(s, second, third, "settings", &e), 0);
	assert_int_equal(store_find_moment(s, third, "settings", "c@z;d@z", 2, median, busy, &e), 1);
	assert_true(median[0] == 5 && median[1] == 6 && busy[1] == 6);
	assert_int_equal(store_find_moment(s, third, "settings", "a@x;b@y", 2, median, busy, &e), 1);
	assert_true(median[0] == 4.1 && median[1] == 9.8);
	store_close(s);
}

static void constraints(void **state)
{
	struct store *s = fixture_open("keys.db");
	struct bace_err e;
	char id[32];
	int64_t before;

	fixture_run(s, 3, (struct fixture_size){ 1, 2, false, true }, id);
	assert_int_equal(store_add_step(s, &(struct step_row){ .placement_id = 4711, .step = 0 }, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "FOREIGN KEY"));
	assert_int_equal(store_add_step(s, &(struct step_row){ .placement_id = 1, .step = 0 }, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "UNIQUE"));
	before = fixture_number(s, "SELECT count(*) FROM skip");
	assert_int_equal(store_begin(s, &e), 0);
	assert_int_equal(store_add_skip(s, id, &(struct skip_row){ .what = "x" }, &e), 0);
	store_rollback(s);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM skip"), before);
	assert_int_equal(store_run_end(s, "nothing", "done", &e), -ENOENT);
	/* A run takes all of its rows with it. */
	assert_int_equal(store_exec(s, "DELETE FROM run", &e), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fixture_number(s, i ? "SELECT count(*) FROM step" : "SELECT count(*) FROM transfer"), 0);
	store_close(s);
}

static void finding(void **state)
{
	struct store *s = fixture_open("find.db");
	char first[32], second[32], got[32];
	struct bace_err e;

	assert_int_equal(store_find_run(s, "last", got, &e), -ENOENT);
	assert_non_null(strstr(e.msg, "no run yet"));
	fixture_run(s, 1, (struct fixture_size){ 1, 1, false, false }, first);
	assert_int_equal(store_find_run(s, first, got, &e), 0);
	assert_string_equal(got, first);
	first[strlen(first) - 2] = '\0';
	assert_int_equal(store_find_run(s, first, got, &e), 0);
	/* Also of several that began in one second. */
	for (int i = 0; i < 8; i++) {
		fixture_run(s, 2, (struct fixture_size){ 1, 1, false, false }, second);
		assert_int_equal(store_find_run(s, "last", got, &e), 0);
		assert_string_equal(got, second);
	}
	assert_int_equal(store_find_run(s, "2", got, &e), -ENOENT);
	assert_non_null(strstr(e.msg, "more than one"));
	second[strlen(second) - 1] ^= 1;
	assert_int_equal(store_find_run(s, second, got, &e), -ENOENT);
	second[strlen(second) - 1] ^= 1;
	assert_non_null(strstr(e.msg, second));
	store_close(s);
}

static void migrations_are_of_old_sqlite(void **state)
{
	static const char *const newer[] = { "DROP COLUMN", "RETURNING", "STRICT", "MATERIALIZED" };	/* than 3.34 */

	for (int v = 0; v < store_version; v++)
		for (size_t i = 0; i < ARRAY_LEN(newer); i++)
			assert_null(strstr(store_migrations[v], newer[i]));
}

/* Of version 4, with what version 5 adds to. */
static void migration_of_links(void **state)
{
	CLEANUP_FREE char *path = fixture_path("four.db");
	struct bace_err e;
	struct store *s;
	sqlite3 *db;
	char id[32];

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	for (int v = 0; v < 4; v++)
		assert_int_equal(sqlite3_exec(db, store_migrations[v], NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "PRAGMA application_id = 0x62616365; PRAGMA user_version = 4; INSERT INTO run"
		" (id, status, began_utc) VALUES ('r', 'done', '2020-01-01T00:00:00Z');"
		"INSERT INTO link_truth (run_id, src, dst, rate_bps, buffer_bytes) VALUES ('r', 'a', 'b', 1e9, 7);"
		"INSERT INTO placement (run_id, policy, job, placement, valid, compute_s) VALUES ('r', 'p', 'j', 'a:1', 1, 3.5);"
		"INSERT INTO monitor_sample VALUES ('r', 1.5, NULL, 'probe', 'a', 'b', 'age_s', 0.25)", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	if (store_open(path, &s, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(fixture_number(s, "PRAGMA user_version"), store_version);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM link_truth WHERE rate_bps = 1e9 AND buffer_bytes = 7 AND"
			       " burst_bytes IS NULL AND queue_bytes IS NULL AND gso_max_bytes IS NULL AND initcwnd_segments"
			       " IS NULL AND delay_limit_packets IS NULL"), 1);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM placement WHERE compute_s = 3.5 AND delay_lateness_p99_s IS"
			       " NULL"), 1);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM monitor_sample WHERE run_id = 'r' AND at_s = 1.5 AND method ="
			       " 'probe' AND src = 'a' AND dst = 'b' AND quantity = 'age_s' AND value = 0.25"), 1);
	/* What is written now goes in. */
	fixture_run(s, 1, (struct fixture_size){ 1, 1, true, true }, id);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM link_truth WHERE burst_bytes = 3028 AND queue_bytes = 250e3"
			       " AND gso_max_bytes = 2000 AND delay_limit_packets = 4000"), 10);
	assert_int_equal(fixture_number(s, "SELECT sum(initcwnd_segments) FROM link_truth"), 5 * 242);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
	store_close(s);
}

static void migration(void **state)
{
	CLEANUP_FREE char *path = fixture_path("old.db");
	struct bace_err e;
	struct store *s;
	sqlite3 *db;
	char id[32];

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, store_migrations[0], NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "PRAGMA application_id = 0x62616365; PRAGMA user_version = 1; INSERT INTO run"
		" (id, status, began_utc, seed) VALUES ('20200101-000000-0001', 'done', '2020-01-01T00:00:00Z', '7');"
		"INSERT INTO placement (run_id, policy, job, placement, valid) VALUES ('20200101-000000-0001', 'p', 'j',"
		" 'a:1', 1)", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	if (store_open(path, &s, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(fixture_number(s, "PRAGMA user_version"), store_version);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM run WHERE id = '20200101-000000-0001' AND seed = '7' AND"
			       " git_revision IS NULL"), 1);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM placement WHERE policy = 'p'"), 1);
	fixture_run(s, 1, (struct fixture_size){ 1, 1, true, true }, id);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
	store_close(s);
}

/* Whether made at once or step by step, every table and column says what it is. */
static void documented(void **state)
{
	struct store *s = fixture_open("words.db");
	struct store_tables t;
	struct bace_err e;

	assert_int_equal(store_tables_read(s, &t, &e), 0);
	assert_true(t.n > 14);
	for (size_t i = 0; i < t.n; i++) {
		if (!t.v[i].meaning[0])
			fail_msg("table %s does not say what it is", t.v[i].name);
		for (size_t c = 0; c < t.v[i].n; c++)
			if (!t.v[i].columns[c].meaning[0] || !t.v[i].columns[c].unit[0])
				fail_msg("%s.%s has no unit or meaning", t.v[i].name, t.v[i].columns[c].name);
	}
	store_tables_free(&t);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(round_trip), cmocka_unit_test(moments_of_runs), cmocka_unit_test(constraints),
		cmocka_unit_test(finding), cmocka_unit_test(migration), cmocka_unit_test(migration_of_links),
		cmocka_unit_test(migrations_are_of_old_sqlite),
		cmocka_unit_test(documented) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
