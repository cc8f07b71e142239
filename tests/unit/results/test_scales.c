/* bace compare --scales, and jobs and policies side by side. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "results/compare.h"
#include "tests/unit/results/fixture.h"

static struct store *store;
static char slow[32], fast[32], other[32];

static void add_run(double time, const char *moment, double a_s, double b_s, char id[32])
{
	const double measured[] = { a_s, b_s };
	struct bace_err e;
	int64_t row;

	assert_int_equal(store_run_begin(store, &(struct run_info){ .experiment = "x", .scale_bytes = 0.1,
		.scale_time = time }, id, &e), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(store_add_placement(store, id, &(struct placement_row){ .policy = "p",
			.job = i ? "b" : "a", .placement = "x:1 > y:1", .moment = moment, .event_sim_s = 10,
			.valid = true, .n_steps = 1, .measured_median_s = measured[i] }, &row, &e), 0);
}

static int setup(void **state)
{
	CLEANUP_FREE char *path = fixture_path("scales.db");
	struct bace_err e;

	assert_int_equal(store_open(path, &store, &e), 0);
	add_run(1, "m", 10, 20, slow);
	add_run(2, "m", 10.1, 19.4, fast);
	add_run(2, "another", 10, 20, other);
	return 0;
}

static int teardown(void **state)
{
	store_close(store);
	return 0;
}

/* +1 % and -3 %. */
static void two_scales(void **state)
{
	CLEANUP_FREE char *text = NULL;
	struct bace_err e;
	double worst;
	size_t n;
	FILE *to = open_memstream(&text, &n);
	json_t *j;

	assert_int_equal(results_compare_scales(store, slow, fast, to, true, false, 0, &worst, &e), 0);
	fclose(to);
	assert_true(fabs(worst - 0.03) < 1e-12);
	j = json_loads(text, 0, NULL);
	assert_true(fabs(json_real_value(json_object_get(j, "median_abs")) - 0.02) < 1e-12);
	assert_int_equal(json_array_size(json_object_get(j, "placements")), 2);
	json_decref(j);
	assert_int_equal(results_compare_scales(store, slow, other, stdout, true, false, 0, &worst, &e), -ENODATA);
	assert_non_null(strstr(e.msg, "in common"));
}

static void outcome(const char *policy, const char *oracle, const char *job, bool finished, double jct_s, double cost)
{
	struct bace_err e;

	assert_int_equal(store_add_job_outcome(store, slow, &(struct job_outcome_row){ .policy = policy,
		.oracle = oracle, .job = job, .finished = finished, .jct_s = jct_s, .energy_j = 10 * jct_s,
		.cost_usd = cost, .placement = "" }, &e), 0);
}

/* a: +10 %, b: +30 %; c never ran by measurement, d only by it. */
static void jobs_and_policies(void **state)
{
	const struct compare_options o = { .seed = 1, .resamples = 200 };
	struct job_compared *v;
	struct policy_compared *p;
	struct bace_err e;
	size_t n, n_policies;

	outcome("p", "event-sim", "a", true, 100, 1);
	outcome("p", "measured", "a", true, 110, 1);
	outcome("p", "event-sim", "b", true, 200, 2);
	outcome("p", "measured", "b", true, 260, 3);
	outcome("p", "event-sim", "c", true, 100, 1);
	outcome("p", "measured", "c", false, NAN, NAN);
	outcome("q", "measured", "d", true, 7, 1);
	assert_int_equal(compared_jobs(store, slow, &o.filter, &v, &n, &e), 0);
	assert_int_equal(n, 3);
	assert_string_equal(v[1].job, "b");
	assert_true(v[1].v[COMPARED_JCT][COMPARED_MEASURED] == 260 && v[1].v[COMPARED_COST][COMPARED_SIM] == 2);
	assert_true(isnan(v[0].v[COMPARED_JCT][COMPARED_CLOSED]) && isnan(v[2].v[COMPARED_JCT][COMPARED_SIM]));
	assert_int_equal(compared_policies(v, n, &o, &p, &n_policies, &e), 0);
	assert_int_equal(n_policies, 2);
	assert_int_equal(p[0].n, 2);
	assert_true(fabs(p[0].error[COMPARED_JCT] - 0.2) < 1e-12 && p[0].v[COMPARED_JCT][COMPARED_MEASURED] == 185);
	assert_true(fabs(p[0].lo[COMPARED_JCT] - 0.1) < 1e-12 && fabs(p[0].hi[COMPARED_JCT] - 0.3) < 1e-12);
	assert_true(p[0].v[COMPARED_COST][COMPARED_MEASURED] == 4 && isnan(p[1].error[COMPARED_COST]));
	free(v);
	free(p);
}

/* However many jobs: none is left out of the error of their completion times. */
static void many_jobs(void **state)
{
	const struct compare_options o = { .seed = 1, .resamples = 100 };
	struct compare_summary sum;
	struct bace_err e;
	char *text;
	size_t n;
	FILE *to = open_memstream(&text, &n);
	json_t *j, *error, *p95;

	assert_int_equal(store_begin(store, &e), 0);
	for (int i = 0; i < 5000; i++) {
		char job[16];

		snprintf(job, sizeof(job), "many-%d", i);
		outcome("many", "event-sim", job, true, 100, 1);
		/* Half of them, and then one more, are 10 % late, a tenth of them 30 % early. */
		outcome("many", "measured", job, true, i < 500 ? 70 : i < 2499 ? 100 : 110, 1);
	}
	assert_int_equal(store_commit(store, &e), 0);
	assert_int_equal(results_compare(store, slow, &o, to, true, false, 0, &sum, &e), 0);
	fclose(to);
	j = json_loads(text, 0, NULL);
	error = json_object_get(json_object_get(j, "jct_error"), "median_signed");
	assert_int_equal(json_integer_value(json_object_get(error, "n")), 5002);
	assert_true(fabs(json_real_value(json_object_get(error, "value")) - 0.1) < 1e-12);
	p95 = json_object_get(json_object_get(j, "jct_error"), "p95_abs");
	assert_int_equal(json_integer_value(json_object_get(p95, "n")), 5002);
	assert_true(fabs(json_real_value(json_object_get(p95, "value")) - 0.3) < 1e-12);
	json_decref(j);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(two_scales), cmocka_unit_test(jobs_and_policies),
		cmocka_unit_test(many_jobs) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
