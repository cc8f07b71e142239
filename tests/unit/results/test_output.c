/* What is printed, exported and traced says what the store holds. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "results/number.h"
#include "results/table.h"

static struct store *store;
static char run[32];

static int open_store(void **state)
{
	CLEANUP_FREE char *path = fixture_path("out.db");
	struct bace_err e;

	if (store_open(path, &store, &e))
		return -1;
	fixture_run(store, 5, (struct fixture_size){ 4, 3, true, true }, run);
	return 0;
}

static int close_store(void **state)
{
	store_close(store);
	return 0;
}

static void numbers(void **state)
{
	static const double fixed[] = { 0, -0.0, 1, -1, 0.1, 1e-5, 9.999999999995e-5, 123456789012.5, 1e12, 999999999999.9,
		1e300, 5e-324, 0.30000000000000004, 2.5, 1e-4, 99999.9999999999 };
	struct bace_rng rng;
	char got[NUMBER_MAX], want[64];

	bace_rng_init(&rng, 1, 0);
	for (int i = 0; i < 200000; i++) {
		double v = i < (int)ARRAY_LEN(fixed) ? fixed[i] :
			(bace_rng_uniform(&rng) - 0.5) * pow(10, (double)bace_rng_below(&rng, 24) - 8);

		snprintf(want, sizeof(want), "%.12g", v);
		size_t n = format_number(got, v);

		assert_int_equal(n, strlen(got));
		if (strcmp(got, want))
			fail_msg("%.17g: %s, the C library says %s", v, got, want);
	}
	format_integer(got, INT64_MIN);
	assert_string_equal(got, "-9223372036854775808");
}

static char *print(int width, const struct run_filter *f)
{
	struct bace_err e;
	char *text;
	size_t n;
	FILE *to = open_memstream(&text, &n);

	if (results_print_run_part(store, "last", f, to, false, width, &e))
		fail_msg("%s", e.msg);
	fclose(to);
	return text;
}

static void text_fits(void **state)
{
	for (int width = 60; width <= 200; width += 20) {
		CLEANUP_FREE char *text = print(width, NULL);
		int longest = 0;

		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
			size_t n = strlen(line);

			assert_true(!n || line[n - 1] != ' ');
			/* Head and summary are sentences; only tables are laid out. */
			if (strncmp(line, "run ", 4) && !strstr(line, "Measured step time") && !strstr(line, "testbed:") && !strstr(line, "bace 0.1") &&
			    !strstr(line, ": ") && (int)n > longest)
				longest = (int)n;
		}
		if (longest > width)
			fail_msg("%d columns in a width of %d", longest, width);
	}
}

static void text_is_plain_and_whole(void **state)
{
	CLEANUP_FREE char *text = print(0, NULL), *one = print(0, &(struct run_filter){ .policy = "ldf" });

	assert_null(strchr(text, '\033'));
	assert_non_null(strstr(text, "shaperd on ireland-gw died"));
	assert_non_null(strstr(text, "no region has 12 free GPUs <at once>"));
	assert_non_null(strstr(text, "n = 16 placements, 48 steps (1 more invalid)"));
	assert_null(strstr(one, "cr-lcf"));
	assert_non_null(strstr(one, "n = 4 placements, 12 steps (1 more invalid)"));
}

static json_t *parse(char *text)
{
	json_error_t why;
	json_t *j = json_loads(text, 0, &why);

	if (!j)
		fail_msg("line %d: %s", why.line, why.text);
	free(text);
	return j;
}

static void json_agrees(void **state)
{
	struct accuracy a;
	struct bace_err e;
	char *text;
	size_t n;
	FILE *to = open_memstream(&text, &n);
	json_t *j, *acc;

	assert_int_equal(results_print_run_json(store, run, to, &e), 0);
	fclose(to);
	j = parse(text);
	acc = json_object_get(j, "accuracy");
	assert_int_equal(run_accuracy(store, run, NULL, &a, &e), 0);
	assert_int_equal(json_integer_value(json_object_get(acc, "n")), 16);
	assert_true(fabs(json_real_value(json_object_get(acc, "worst_abs_error_event_sim")) - a.worst_event) < 1e-9);
	assert_int_equal(json_array_size(json_object_get(j, "placements")), 17);
	assert_int_equal(json_array_size(json_object_get(j, "jobs")), 48);
	json_decref(j);
}

static char *exported(const struct export_options *o)
{
	struct bace_err e;
	char *text;
	size_t n;
	FILE *to = open_memstream(&text, &n);

	if (results_export(store, run, o, to, &e))
		fail_msg("%s", e.msg);
	fclose(to);
	return text;
}

static void csv(void **state)
{
	CLEANUP_FREE char *text = exported(&(struct export_options){ .format = EXPORT_CSV, .table = "run" });
	CLEANUP_FREE char *step = exported(&(struct export_options){ .format = EXPORT_CSV, .table = "step" });
	CLEANUP_FREE char *names = exported(&(struct export_options){ .format = EXPORT_CSV, .table = "placement" });
	int lines = 0;

	assert_non_null(strstr(text, "\"# <config> & \"\"text\"\"\ncluster = 'x';\n\""));
	assert_non_null(strstr(names, ",\"bace <b>&\"\"'\","));
	assert_int_equal(strncmp(step, "placement_id,step,step_s,compute_s,stall_s\n", 43), 0);
	for (char *p = step; *p; p++)
		lines += *p == '\n';
	assert_int_equal(lines, 1 + 16 * 4);
}

static void json_and_ndjson(void **state)
{
	json_t *j = parse(exported(&(struct export_options){ .format = EXPORT_JSON })), *line;
	CLEANUP_FREE char *nd = exported(&(struct export_options){ .format = EXPORT_NDJSON });
	size_t total = 0, lines = 0;
	const char *name;
	json_t *rows;

	json_object_foreach(j, name, rows)
		total += json_array_size(rows);
	for (char *p = strtok(nd, "\n"); p; p = strtok(NULL, "\n"), lines++) {
		line = json_loads(p, 0, NULL);
		assert_non_null(json_object_get(line, "table"));
		json_decref(line);
	}
	assert_int_equal(lines, total);
	json_decref(j);
}

static void unknown_table(void **state)
{
	struct bace_err e;

	assert_int_equal(results_export(store, run, &(struct export_options){ .table = "placemant" }, stdout, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "`placement'"));
}

/* After "Trace Event Format": what every phase must have, flows in pairs, slices of a
 * thread never across each other. */
static void trace(void **state)
{
	struct bace_err e;
	char *text;
	size_t n, i, slices = 0;
	int64_t open_flows = 0;
	FILE *to = open_memstream(&text, &n);
	json_t *j, *events, *ev;

	assert_int_equal(results_write_trace(store, run, to, &e), 0);
	fclose(to);
	j = parse(text);
	events = json_object_get(j, "traceEvents");
	json_array_foreach(events, i, ev) {
		const char *ph = json_string_value(json_object_get(ev, "ph"));

		assert_true(ph && strlen(ph) == 1 && strchr("XMCsf", *ph));
		assert_true(json_is_string(json_object_get(ev, "name")));
		assert_true(json_is_integer(json_object_get(ev, "pid")) && json_is_integer(json_object_get(ev, "tid")));
		assert_true(json_is_number(json_object_get(ev, "ts")));
		if (*ph == 'X') {
			assert_true(json_number_value(json_object_get(ev, "dur")) >= 0);
			slices++;
		}
		if (*ph == 's' || *ph == 'f') {
			assert_true(json_is_integer(json_object_get(ev, "id")));
			open_flows += *ph == 's' ? 1 : -1;
			assert_in_range(open_flows, 0, 1);
		}
	}
	assert_int_equal(open_flows, 0);
	/* 4 policies x (2 + 4 + 6 + 8) stages x 8 operations x 3 steps, and a slice a placement. */
	assert_int_equal(slices, 4 * 20 * 8 * 3 + 16);
	json_decref(j);
}

static void compared(void **state)
{
	const struct compare_options o = { .seed = 1, .resamples = 500 };
	struct compare_summary sum;
	struct bace_err e;
	char *a, *b;
	size_t n;
	FILE *to = open_memstream(&a, &n);

	assert_int_equal(results_compare(store, run, &o, to, true, false, 0, &sum, &e), 0);
	fclose(to);
	to = open_memstream(&b, &n);
	assert_int_equal(results_compare(store, run, &o, to, true, false, 0, &sum, &e), 0);
	fclose(to);
	assert_string_equal(a, b);
	assert_int_equal(sum.n, 16);
	json_t *j = parse(a), *tau = json_object_get(json_object_get(j, "policy_order_kendall_tau"), "mean_jct");

	/* The fixture slows every policy by the same share. */
	assert_true(json_real_value(json_object_get(tau, "value")) == 1);
	json_decref(j);
	free(b);
}

static json_t *shown(struct store *s, const char *id)
{
	struct bace_err e;
	char *text;
	size_t n;
	FILE *to = open_memstream(&text, &n);

	if (results_print_run_json(s, id, to, &e))
		fail_msg("%s", e.msg);
	fclose(to);
	return parse(text);
}

/* A job that did not finish has used money and energy up; sums are of those that did. */
static void unfinished(void **state)
{
	CLEANUP_FREE char *path = fixture_path("unfinished.db");
	struct store *s;
	struct bace_err e;
	struct table t;
	char id[32];

	assert_int_equal(store_open(path, &s, &e), 0);
	assert_int_equal(store_run_begin(s, &(struct run_info){ .experiment = "x" }, id, &e), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(store_add_job_outcome(s, id, &(struct job_outcome_row){ .policy = "p", .oracle =
			"event-sim", .job = i ? "b" : "a", .finished = !i, .jct_s = i ? NAN : 10, .energy_j = i ? 1000 : 70,
			.cost_usd = i ? 500 : 3, .placement = "" }, &e), 0);
	json_t *j = shown(s, id), *p = json_array_get(json_object_get(j, "policies"), 0);

	assert_true(json_number_value(json_object_get(p, "cost_usd")) == 3);
	assert_true(json_number_value(json_object_get(p, "energy_j")) == 70);
	json_decref(j);
	assert_int_equal(run_table(s, id, NULL, TABLE_POLICIES, &t, &e), 0);
	assert_int_equal(table_rows(&t), 1);
	assert_string_equal(t.cells[2].text, "1 of 2");
	assert_true(t.cells[5].number == 70 && t.cells[7].number == 3);
	table_free(&t);
	store_close(s);
}

/* Of a damaged or foreign store: no unit is large enough. */
static void units(void **state)
{
	assert_string_equal(unit_for(SECONDS, INFINITY, 1, INFINITY).name, unit_for(SECONDS, 1e12, 1, 1e12).name);
	assert_string_equal(unit_for(SECONDS, NAN, 1, 1).name, unit_for(SECONDS, 0, 1, 1).name);
}

static void without_measurement(void **state)
{
	const struct compare_options o = { .seed = 1, .resamples = 100 };
	CLEANUP_FREE char *path = fixture_path("sim.db"), *html = fixture_path("sim.html"), *page = NULL;
	struct store *s;
	struct bace_err e;
	char id[32];

	assert_int_equal(store_open(path, &s, &e), 0);
	fixture_run(s, 1, (struct fixture_size){ 2, 2, false, false }, id);
	assert_int_equal(results_compare(s, id, &o, stdout, false, false, 0, NULL, &e), -ENODATA);
	assert_non_null(strstr(e.msg, "no valid measured placement"));
	assert_int_equal(results_write_trace(s, id, fopen("/dev/null", "w"), &e), -ENODATA);
	assert_int_equal(results_write_report(s, id, html, &e), 0);
	assert_int_equal(bace_read_file(html, 1 << 24, &page, NULL, &e), 0);
	assert_non_null(strstr(page, "no valid measured placement"));
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(numbers), cmocka_unit_test(text_fits),
		cmocka_unit_test(text_is_plain_and_whole), cmocka_unit_test(json_agrees), cmocka_unit_test(csv),
		cmocka_unit_test(json_and_ndjson), cmocka_unit_test(unknown_table), cmocka_unit_test(trace),
		cmocka_unit_test(compared), cmocka_unit_test(without_measurement), cmocka_unit_test(unfinished),
		cmocka_unit_test(units) };

	return cmocka_run_group_tests(tests, open_store, close_store);
}
