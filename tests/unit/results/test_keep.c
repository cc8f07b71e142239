/* Looking after a store, reading it while it changes or cannot be read, and two
 * runs of it side by side. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "results/store.h"

#define DAY_S 86400.0

static void sql(struct store *s, const char *text)
{
	struct bace_err e;

	if (store_exec(s, text, &e))
		fail_msg("%s", e.msg);
}

static void begin(struct store *s, const char *status, char id[32])
{
	struct bace_err e;

	assert_int_equal(store_run_begin(s, &(struct run_info){ .experiment = "x", .scale_time = 1 }, id, &e), 0);
	if (status)
		assert_int_equal(store_run_end(s, id, status, &e), 0);
}

/* ---- gc ---- */

/* How many go. */
static size_t gc(struct store *s, struct gc_options o)
{
	struct gc_result r;
	struct bace_err e;
	size_t n;

	if (store_gc(s, &o, &r, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(r.not_compact.errnum, 0);
	n = r.n;
	gc_result_free(&r);
	return n;
}

static char *listed(struct store *s, const char *status)
{
	struct bace_err e;
	char *text;
	size_t n;
	FILE *to = open_memstream(&text, &n);

	assert_int_equal(results_print_runs(s, &(struct runs_filter){ .status = status }, to, false, false, 0, &e), 0);
	fclose(to);
	return text;
}

static void takes_what_is_meant(void **state)
{
	struct store *s = fixture_open("gc.db");
	char done[32], failed[32];

	fixture_run(s, 1, (struct fixture_size){ 1, 2, true, true }, done);
	begin(s, "failed", failed);
	sql(s, "UPDATE run SET began_utc = '2020-01-01T00:00:00Z' WHERE status = 'done'");
	assert_int_equal(gc(s, (struct gc_options){ .status = "failed", .older_s = NAN, .dry_run = true }), 1);
	assert_int_equal(gc(s, (struct gc_options){ .status = "killed", .older_s = NAN }), 0);
	/* All must mean it. */
	assert_int_equal(gc(s, (struct gc_options){ .status = "failed", .older_s = DAY_S }), 0);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM run"), 2);
	assert_true(fixture_number(s, "SELECT count(*) FROM op") > 0);
	assert_int_equal(gc(s, (struct gc_options){ .older_s = DAY_S, .timelines = true }), 1);
	assert_int_equal(fixture_number(s, "SELECT (SELECT count(*) FROM op) + (SELECT count(*) FROM sim_op)"), 0);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM step"), 12);
	assert_int_equal(gc(s, (struct gc_options){ .older_s = DAY_S }), 1);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM step"), 0);
	assert_int_equal(gc(s, (struct gc_options){ .status = "failed", .older_s = NAN }), 1);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM run"), 0);
	store_close(s);
}

static void leaves_what_runs(void **state)
{
	struct store *s = fixture_open("live.db");
	struct gc_result r;
	struct bace_err e;
	char live[32], gone[256];

	begin(s, NULL, live);
	assert_int_equal(gc(s, (struct gc_options){ .older_s = -1 }), 0);
	assert_int_equal(store_gc(s, &(struct gc_options){ .run = live, .older_s = NAN }, &r, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "still running"));
	/* One of another container: nobody here can say whether it lives. */
	sql(s, "UPDATE run SET process = process || '7'");
	assert_int_equal(gc(s, (struct gc_options){ .status = "killed", .older_s = NAN }), 0);
	assert_int_equal(gc(s, (struct gc_options){ .older_s = -1 }), 0);
	CLEANUP_FREE char *all = listed(s, NULL), *running = listed(s, "running");
	assert_non_null(strstr(all, "running?"));
	assert_non_null(strstr(running, live));
	assert_int_equal(gc(s, (struct gc_options){ .run = live, .older_s = NAN }), 1);
	/* No such process. */
	begin(s, NULL, live);
	snprintf(gone, sizeof(gone), "UPDATE run SET process = replace(process, ' %d ', ' 999999999 ')", getpid());
	sql(s, gone);
	assert_int_equal(gc(s, (struct gc_options){ .status = "killed", .older_s = NAN }), 1);
	store_close(s);
}

/* What went is told, though the file cannot be made smaller. */
static void told_though_not_compact(void **state)
{
	struct store *s = fixture_open("compact.db");
	struct gc_result r;
	struct bace_err e = { 0 };
	sqlite3_stmt *reading;
	char id[32];

	begin(s, "failed", id);
	begin(s, "done", id);
	assert_int_equal(store_query(s, "SELECT id FROM run", NULL, &reading, &e), 0);
	assert_int_equal(sqlite3_step(reading), SQLITE_ROW);
	assert_int_equal(store_gc(s, &(struct gc_options){ .status = "failed", .older_s = NAN }, &r, &e), 0);
	assert_int_equal(r.n, 1);
	assert_non_null(strstr(r.not_compact.msg, "VACUUM"));
	gc_result_free(&r);
	/* Where nothing else was asked for it is the failure. */
	assert_true(store_gc(s, &(struct gc_options){ .older_s = NAN }, &r, &e) < 0);
	assert_non_null(strstr(e.msg, "VACUUM"));
	sqlite3_finalize(reading);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM run"), 1);
	store_close(s);
}

/* ---- transactions ---- */

/* A commit that fails and leaves the transaction open would take all that follows with it. */
static void failed_commit_is_undone(void **state)
{
	struct store *s = fixture_open("commit.db"), *again;
	CLEANUP_FREE char *path = fixture_path("commit.db");
	struct bace_err e;
	char id[32];

	begin(s, NULL, id);
	assert_int_equal(store_begin(s, &e), 0);
	sql(s, "PRAGMA defer_foreign_keys = ON");
	assert_int_equal(store_add_step(s, &(struct step_row){ .placement_id = 4711 }, &e), 0);
	assert_int_equal(store_commit(s, &e), -EINVAL);
	assert_int_equal(store_run_end(s, id, "failed", &e), 0);
	assert_int_equal(store_begin(s, &e), 0);
	assert_int_equal(store_commit(s, &e), 0);
	store_close(s);
	assert_int_equal(store_open(path, &again, &e), 0);
	assert_int_equal(fixture_number(again, "SELECT count(*) FROM run WHERE status = 'failed'"), 1);
	assert_int_equal(fixture_number(again, "SELECT count(*) FROM step"), 0);
	store_close(again);
}

/* Tables and summary of one look are of one state. */
static void reads_one_state(void **state)
{
	struct store *s = fixture_open("state.db"), *reader;
	CLEANUP_FREE char *path = fixture_path("state.db");
	struct bace_err e;
	char id[32];

	begin(s, "done", id);
	assert_int_equal(store_open_readonly(path, &reader, &e), 0);
	assert_int_equal(fixture_number(reader, "SELECT count(*) FROM run"), 1);
	begin(s, "done", id);
	assert_int_equal(fixture_number(reader, "SELECT count(*) FROM run"), 1);
	store_close(reader);
	assert_int_equal(store_open_readonly(path, &reader, &e), 0);
	assert_int_equal(fixture_number(reader, "SELECT count(*) FROM run"), 2);
	store_close(reader);
	store_close(s);
}

/* ---- what cannot be read ---- */

static int countdown;

static int interrupt_once(void *arg)
{
	return --countdown == 0;
}

static int runs_json(struct store *s, FILE *to, struct bace_err *e)
{
	return results_print_runs(s, NULL, to, true, false, 0, e);
}

static int trace_of(struct store *s, FILE *to, struct bace_err *e)
{
	return results_write_trace(s, "last", to, e);
}

static int export_of(struct store *s, FILE *to, struct bace_err *e)
{
	return results_export(s, "last", &(struct export_options){ .format = EXPORT_NDJSON }, to, e);
}

static int comparison_of(struct store *s, FILE *to, struct bace_err *e)
{
	const struct compare_options o = { .seed = 1, .resamples = 100 };

	return results_compare(s, "last", &o, to, true, false, 0, NULL, e);
}

static int scales_of(struct store *s, FILE *to, struct bace_err *e)
{
	double worst;

	return results_compare_scales(s, "last", "last", to, true, false, 0, &worst, e);
}

static int difference_of(struct store *s, FILE *to, struct bace_err *e)
{
	const struct diff_options o = { .seed = 1, .resamples = 100 };
	struct diff_summary sum;

	return results_diff(s, "last", "last", &o, to, true, false, 0, &sum, e);
}

/* Whatever statement fails, wherever: an error, never a shorter answer. */
static void no_shorter_answers(void **state)
{
	static int (*const outputs[])(struct store *s, FILE *to, struct bace_err *e) = { runs_json, trace_of,
		export_of, comparison_of, scales_of, difference_of };
	struct store *s = fixture_open("fail.db");
	char id[32];

	fixture_run(s, 1, (struct fixture_size){ 2, 2, true, true }, id);
	for (size_t i = 0; i < ARRAY_LEN(outputs); i++) {
		CLEANUP_FREE char *whole = NULL;
		int failed = 0;

		for (int at = 0; at >= 0; at = at * 5 / 4 + 1) {
			struct bace_err e = { 0 };
			char *text;
			size_t n;
			FILE *to = open_memstream(&text, &n);
			int rc;

			countdown = at;
			sqlite3_progress_handler(s->db, at ? 1 : 0, interrupt_once, NULL);
			rc = outputs[i](s, to, &e);
			fclose(to);
			if (!whole) {
				assert_int_equal(rc, 0);
				whole = text;
				continue;
			}
			failed += rc != 0;
			if (!rc && strcmp(text, whole))
				fail_msg("output %zu, interrupted after %d: no error, other text", i, at);
			if (rc && !e.msg[0])
				fail_msg("output %zu, interrupted after %d: no message", i, at);
			free(text);
			if (countdown > 0)	/* it never came to that */
				break;
		}
		sqlite3_progress_handler(s->db, 0, NULL, NULL);
		assert_true(failed > 10);
	}
	store_close(s);
}

/* ---- two runs ---- */

static void measured(struct store *s, const char *run, const char *moment, double median_s, double spread_s)
{
	struct bace_err e;
	int64_t id;

	assert_int_equal(store_add_placement(s, run, &(struct placement_row){ .policy = "p", .job = "j",
		.placement = "a:1 > b:1", .moment = moment, .jobs_at_once = 1, .event_sim_s = 10, .valid = true,
		.n_steps = 3, .measured_median_s = median_s }, &id, &e), 0);
	for (int k = -1; k < 3; k++)	/* the warm-up, far off, does not count */
		assert_int_equal(store_add_step(s, &(struct step_row){ .placement_id = id, .step = k,
			.step_s = k < 0 ? 99 : median_s + (k - 1) * spread_s }, &e), 0);
}

static double real(const json_t *j, size_t row, const char *key)
{
	return json_number_value(json_object_get(json_array_get(json_object_get(j, "steps"), row), key));
}

/* The first time it runs +10 %, the second -10 %; of what ran once only, nothing. */
static void nth_beside_nth(void **state)
{
	const struct diff_options o = { .seed = 1, .resamples = 400, .record = true };
	struct store *s = fixture_open("diff.db");
	struct diff_summary sum;
	char a[32], b[32], *text;
	struct bace_err e;
	size_t n;
	FILE *to = open_memstream(&text, &n);
	json_t *j;

	begin(s, "done", a);
	measured(s, a, "m1", 10, 0);
	measured(s, a, "m2", 20, 1);
	measured(s, a, "m3", 40, 0);
	begin(s, "done", b);
	measured(s, b, "m1", 11, 0);
	measured(s, b, "m2", 18, 1);
	assert_int_equal(results_diff(s, a, b, &o, to, true, false, 0, &sum, &e), 0);
	fclose(to);
	assert_int_equal(sum.n, 2);
	assert_true(fabs(sum.worst_abs - 0.1) < 1e-12 && fabs(sum.median_abs - 0.1) < 1e-12);
	j = json_loads(text, 0, NULL);
	assert_non_null(j);
	assert_true(fabs(real(j, 0, "difference") - 0.1) < 1e-12 && fabs(real(j, 1, "difference") + 0.1) < 1e-12);
	/* Steps that never vary leave nothing to draw; else from 17/21 to 19/19. */
	assert_true(fabs(real(j, 0, "lo") - 0.1) < 1e-12 && fabs(real(j, 0, "hi") - 0.1) < 1e-12);
	assert_true(real(j, 1, "lo") >= 17.0 / 21 - 1 - 1e-12 && real(j, 1, "hi") <= 1e-12);
	assert_true(real(j, 1, "lo") < -0.11 && real(j, 1, "hi") > -0.09);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM comparison WHERE kind = 'rerun'"), 2);
	assert_int_equal(fixture_number(s, "SELECT count(*) FROM comparison WHERE abs(value - 0.1) < 1e-12 AND n = 3 AND"
				" subject = 'p, j on a:1 > b:1' AND metric = 'step_time_difference_fraction'"), 1);
	json_decref(j);
	free(text);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(takes_what_is_meant), cmocka_unit_test(leaves_what_runs),
		cmocka_unit_test(told_though_not_compact), cmocka_unit_test(failed_commit_is_undone),
		cmocka_unit_test(reads_one_state), cmocka_unit_test(no_shorter_answers), cmocka_unit_test(nth_beside_nth) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
