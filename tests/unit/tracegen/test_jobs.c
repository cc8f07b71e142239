/* Traces that are drawn, and what jobs become of a trace. */
#include <errno.h>
#include <math.h>

#include "tests/unit/tracegen/support.h"

/* ---- times ---- */

static void assert_time(const char *text, double want, bool date)
{
	double got;
	bool is_date;

	if (!trace_parse_time(text, &got, &is_date))
		fail_msg("`%s' was refused", text);
	if (got != want || is_date != date)
		fail_msg("`%s': %.17g, want %.17g", text, got, want);
}

/* Seconds since 1970 by `date -u -d ... +%s`. */
static void times(void **state)
{
	static const char *const bad[] = { "", "x", "nan", "inf", "-", "2020-13-01", "2020-02-30", "2021-02-29",
		"2020-01-01 24:00:00", "2020-01-01 10:00", "2020-01-01 10:00:00+8", "2020-01-01 10:00:00 PST",
		"2020-01-01x", "1 s" };
	double s;
	bool d;

	assert_time("1970-01-01 00:00:00", 0, true);
	assert_time("2020-06-09 18:41:01", 1591728061, true);
	assert_time("2023-05-17T11:00:58Z", 1684321258, true);
	assert_time("2023-05-17 19:00:58+08:00", 1684321258, true);
	assert_time("2023-05-17 07:30:58-0330", 1684321258, true);
	assert_time("2000-02-29", 951782400, true);
	assert_time("1969-12-31 23:59:59", -1, true);
	assert_time("1900-03-01", -2203891200, true);
	assert_time("2024-03-01 00:00:00.5", 1709251200.5, true);
	assert_time("12.5", 12.5, false);
	assert_time("-3", -3, false);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (trace_parse_time(bad[i], &s, &d))
			fail_msg("`%s' was taken for %g", bad[i], s);
}

/* ---- drawn ---- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct trace draw(const struct trace_shape *s)
{
	struct trace t;
	struct bace_err e = { 0 };

	if (trace_draw(s, &t, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(t.n, s->n_jobs);
	return t;
}

/* The list's median 125 s and p90 209 s of duration, 30:10:10:10 of GPUs, mean
 * gap 30.2 s; 20,000 draws are within 3 %. */
static void default_shape(void **state)
{
	struct trace_shape s = trace_shape_default();
	double *d, gpus[9] = { 0 };
	struct trace t;

	s.n_jobs = 20000;
	t = draw(&s);
	d = calloc(t.n, sizeof(*d));
	for (size_t i = 0; i < t.n; i++) {
		d[i] = t.v[i].duration_s;
		gpus[t.v[i].gpus]++;
	}
	qsort(d, t.n, sizeof(*d), by_value);
	assert_true(d[0] >= 120 && d[t.n - 1] <= 1800);
	assert_true(fabs(d[t.n / 2] / 125 - 1) < 0.03);
	assert_true(fabs(d[t.n * 9 / 10] / 209 - 1) < 0.03);
	assert_true(fabs(gpus[1] / (double)t.n - 0.5) < 0.015);
	assert_true(fabs(gpus[8] / (double)t.n - 1.0 / 6) < 0.015);
	assert_true(gpus[1] + gpus[2] + gpus[4] + gpus[8] == 20000);
	assert_true(t.v[0].arrival_s == 0);
	assert_true(fabs(t.v[t.n - 1].arrival_s / ((double)t.n - 1) / 30.2 - 1) < 0.03);
	assert_string_equal(t.v[0].name, "j00001");
	free(d);
	trace_free(&t);
}

/* Squared coefficient of variation of the gaps: 1 for Poisson. */
static double gap_variation(const struct trace *t, double *mean)
{
	double sum = 0, squares = 0, n = (double)t->n - 1;

	for (size_t i = 1; i < t->n; i++) {
		double gap = t->v[i].arrival_s - t->v[i - 1].arrival_s;

		assert_true(gap >= 0);
		sum += gap;
		squares += gap * gap;
	}
	*mean = sum / n;
	return squares / n / (*mean * *mean) - 1;
}

static void kinds_of_arrivals(void **state)
{
	struct trace_shape s = trace_shape_default();
	struct trace poisson, bursty, at_once;
	double mean;

	s.n_jobs = 40000;
	poisson = draw(&s);
	assert_true(fabs(gap_variation(&poisson, &mean) - 1) < 0.1);
	s.arrivals = ARRIVALS_BURSTY;
	bursty = draw(&s);
	/* mixture of 7/8 gaps of mean 0.05 and 1/8 of about 8 - 0.35: 2 * E[gap^2] */
	assert_true(gap_variation(&bursty, &mean) > 8);
	assert_true(fabs(mean / 30.2 - 1) < 0.05);
	s.arrivals = ARRIVALS_AT_ONCE;
	at_once = draw(&s);
	assert_true(at_once.v[at_once.n - 1].arrival_s == 0);
	/* other arrivals, the same jobs */
	for (size_t i = 0; i < at_once.n; i++)
		assert_true(at_once.v[i].gpus == poisson.v[i].gpus &&
			    at_once.v[i].duration_s == poisson.v[i].duration_s);
	trace_free(&poisson);
	trace_free(&bursty);
	trace_free(&at_once);
}

static void seeds(void **state)
{
	struct trace_shape s = trace_shape_default();
	struct trace a = draw(&s), b = draw(&s), c;

	s.seed = 2;
	c = draw(&s);
	assert_memory_equal(a.v, b.v, a.n * sizeof(*a.v));
	assert_memory_not_equal(a.v, c.v, a.n * sizeof(*a.v));
	trace_free(&a);
	trace_free(&b);
	trace_free(&c);
}

static void refuse(struct trace_shape s, const char *part)
{
	struct trace t;
	struct bace_err e = { 0 };

	assert_int_equal(trace_draw(&s, &t, &e), -EINVAL);
	if (!strstr(e.msg, part))
		fail_msg("`%s' does not say `%s'", e.msg, part);
	trace_free(&t);
}

static void bad_shapes(void **state)
{
	const struct trace_shape good = trace_shape_default();
	struct trace_shape s;

#define WITH(field, value, part) (s = good, s.field = (value), refuse(s, part))
	WITH(n_jobs, 1000000000, "1000000000 jobs: must be 1 to 50000");
	WITH(n_jobs, 0, "0 jobs");
	WITH(gap_s, NAN, "mean gap");
	WITH(gap_s, -1, "mean gap");
	WITH(burst, 0, "burst");
	WITH(sigma, NAN, "sigma");
	WITH(median_s, 100, "durations");
	WITH(most_s, INFINITY, "durations");
	WITH(gpus[1], 0, "0 GPUs");
	WITH(weight[2], NAN, "weight");
	WITH(n_sizes, 0, "numbers of GPUs");
	WITH(n_sizes, TRACE_MAX_SIZES + 1, "GPUs: must be 1 to");
#undef WITH
}

/* ---- into jobs ---- */

static struct model measured(const char *name, double fwd_s)
{
	struct model m = { .params = 1e9, .layers = 8, .hidden = 8, .seq = 8, .bytes_per_element = 2,
			   .measured_fwd_s = fwd_s, .measured_bwd_s = 2 * fwd_s };

	snprintf(m.name, sizeof(m.name), "%s", name);
	return m;
}

/* A step of 10 micro-batches of 3 (6, 9) s: 30 (60, 90) GPU-seconds. */
static void steps(void **state)
{
	const struct model models[] = { measured("one", 1), measured("two", 2), measured("more", 3) };
	const struct trace_work w = { .n_models = 3, .models = models, .micro_batches = 10, .micro_batch_size = 1,
				      .flops_eff = 1e12 };
	struct trace_job jobs[] = { { "a", 0, 1, 300 }, { "b", 0, 2, 300 }, { "c", 0, 3, 300 }, { "d", 0, 64, 300 },
				    { "e", 0, 1, 14 } };
	struct trace t = { .v = jobs, .n = ARRAY_LEN(jobs) };
	const double want[] = { 10, 10, 10, 213, 1 };
	const int model[] = { 0, 1, 2, 2, 0 };

	assert_int_equal(trace_assign(&t, &w, NULL), 0);
	for (size_t i = 0; i < t.n; i++) {
		assert_true(jobs[i].steps == want[i]);
		assert_int_equal(jobs[i].model, model[i]);
		assert_int_equal(jobs[i].is_small, i == 4);
	}
}

/* Without measured times: 2 params beta seq + 4 layers hidden beta seq^2 FLOPs
 * forward, three times that backward with recomputation. */
static void steps_by_flops(void **state)
{
	struct model m = { .name = "m", .params = 1e9, .layers = 10, .hidden = 1000, .seq = 1000,
			   .bytes_per_element = 2, .recompute = true };
	const struct trace_work w = { .n_models = 1, .models = &m, .micro_batches = 5, .micro_batch_size = 2,
				      .flops_eff = 1e12 };
	struct trace_job job = { "a", 0, 4, 1000 };
	struct trace t = { .v = &job, .n = 1 };

	struct bace_err e = { 0 };

	/* 4 (4e12 + 8e10) / 1e12 = 16.32 s a micro-batch; 4000 / 81.6 = 49.02 */
	assert_int_equal(trace_assign(&t, &w, NULL), 0);
	assert_true(job.steps == 49);
	job.duration_s = 1e15;
	assert_int_equal(trace_assign(&t, &w, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "job a: 4 GPUs for 1e+15 s are"));
}

/* What is written is read: by the loader of experiments, and as a trace. */
static void round_trip(void **state)
{
	struct model model = { .name = "GPT2-1.5B", .params = 1.557e9, .layers = 48, .hidden = 1600, .seq = 1024,
			       .bytes_per_element = 2, .recompute = true };
	const struct trace_work w = { .n_models = 1, .models = &model, .micro_batches = 4, .micro_batch_size = 2,
				      .flops_eff = 60e12 };
	struct file jobs = file_of(""), csv = file_of(""), exp = file_of("");
	struct trace_shape s = trace_shape_default();
	struct trace t = draw(&s), again;
	struct trace_columns c;
	struct trace_skipped skipped;
	struct experiment e;
	struct bace_diags d = { 0 };
	char cfg[128];

	snprintf(cfg, sizeof(cfg), "%s.cfg", jobs.path);
	t.v[7].duration_s = 1e12;	/* steps beyond 32 bits */
	assert_int_equal(trace_assign(&t, &w, NULL), 0);
	FILE *f = fopen(cfg, "w");
	assert_int_equal(trace_write_cfg(&t, &w, "about\n\nit", f, NULL), 0);
	fclose(f);
	f = fopen(csv.path, "w");
	assert_int_equal(trace_write_csv(&t, &w, f, NULL), 0);
	fclose(f);
	f = fopen(exp.path, "w");
	fprintf(f, "name = \"t\"; cluster = \"six-regions-paper\"; jobs = \"%s\"; policies = ( { name = \"lcf\"; } );\n",
		cfg);
	fclose(f);
	if (experiment_load(exp.path, &e, &d, NULL)) {
		bace_diags_print(&d, stderr);
		fail();
	}
	assert_int_equal(e.n_jobs, t.n);
	for (size_t i = 0; i < t.n; i++) {
		assert_string_equal(e.jobs[i].name, t.v[i].name);
		assert_true(fabs(e.jobs[i].arrival_s - t.v[i].arrival_s) < 6e-4);
		assert_true(e.jobs[i].steps == t.v[i].steps);
		assert_int_equal(e.jobs[i].micro_batch_size, 2);
	}
	experiment_free(&e);
	trace_columns_known("csv", &c);
	t.v[7].duration_s = 1e9;
	f = fopen(csv.path, "w");
	assert_int_equal(trace_write_csv(&t, &w, f, NULL), 0);
	fclose(f);
	assert_int_equal(trace_read_csv(csv.path, &c, false, &again, &skipped, &d, NULL), 0);
	assert_int_equal(again.n, t.n);
	for (size_t i = 0; i < t.n; i++)
		assert_true(again.v[i].gpus == t.v[i].gpus &&
			    fabs(again.v[i].duration_s - t.v[i].duration_s) < 6e-4);
	trace_free(&t);
	trace_free(&again);
	unlink(cfg);
	unlink(jobs.path);
	unlink(csv.path);
	unlink(exp.path);
}

static void first_jobs(void **state)
{
	struct trace_job jobs[] = { { "c", 30, 1, 1 }, { "b", 10, 1, 1 }, { "a", 10, 1, 1 } };
	struct trace t = { .v = jobs, .n = 3 };

	trace_normalise(&t, 2);
	assert_int_equal(t.n, 2);
	assert_job(&jobs[0], "a", 0, 1, 1);
	assert_job(&jobs[1], "b", 0, 1, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times), cmocka_unit_test(default_shape), cmocka_unit_test(kinds_of_arrivals),
		cmocka_unit_test(seeds), cmocka_unit_test(bad_shapes), cmocka_unit_test(steps),
		cmocka_unit_test(steps_by_flops), cmocka_unit_test(round_trip), cmocka_unit_test(first_jobs),
	};

	return cmocka_run_group_tests_name("tracegen-jobs", tests, NULL, NULL);
}
