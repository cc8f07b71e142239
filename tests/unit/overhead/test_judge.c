/* bace overhead's arithmetic on made-up runs whose answer is known. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "harness/overhead/overhead.h"

#define S 1000000000ll

static struct overhead_timing timing(int pairs, int n_rates, uint64_t seed)
{
	return (struct overhead_timing){ .from_s = 1, .block_s = 4, .dwell_s = 10, .pairs = pairs,
		.n_rates = n_rates, .inject_ppm = 5000, .src = 0, .dst = 1, .rate_bps = 100000000, .seed = seed };
}

static struct tb_monitor counters_100ms(void)
{
	struct overhead_method m;

	assert_int_equal(overhead_method_parse("counters", &m, NULL), 0);
	return overhead_monitor(&m, 100);
}

static void test_methods(void **state)
{
	struct overhead_method m;
	struct bace_err e;

	assert_int_equal(overhead_method_parse("probe:48kB", &m, &e), 0);
	assert_int_equal(m.kind, OVERHEAD_PROBE);
	struct tb_monitor t = overhead_monitor(&m, 10);

	assert_int_equal(t.probe_packets, 48000 / 1514);
	assert_int_equal(t.period_ms[TB_SRC_PROBE], 10);
	assert_int_equal(t.period_ms[TB_SRC_CLASS], 0);
	assert_int_equal(overhead_method_parse("off", &m, &e), 0);
	t = overhead_monitor(&m, 10);
	for (int i = 0; i < TB_SOURCES; i++)
		assert_int_equal(t.period_ms[i], 0);
	assert_int_equal(overhead_method_parse("probe:10", &m, &e), -EINVAL);
	assert_int_equal(overhead_method_parse("probe:1kB", &m, &e), -EINVAL);
	assert_int_equal(overhead_method_parse("netflow", &m, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "must be off, counters, tcp_info or probe:SIZE"));
}

/* Every pair has one of each; which comes first is drawn, and by the seed alone. */
static void test_schedule(void **state)
{
	struct tb_monitor m = counters_100ms();
	struct overhead_schedule s, again;
	struct overhead_timing t = timing(100, 4, 7);
	int b_first = 0;

	assert_int_equal(overhead_schedule(&t, &m, &s, NULL), 0);
	assert_int_equal(overhead_schedule(&t, &m, &again, NULL), 0);
	assert_int_equal(s.n_blocks, 200);
	assert_memory_equal(s.is_b, again.is_b, 200 * sizeof(*s.is_b));
	for (int i = 0; i < 200; i++) {
		const struct tb_action *a = &s.script.actions[i];

		if (i % 2 == 0) {
			assert_int_not_equal(s.is_b[i], s.is_b[i + 1]);
			b_first += s.is_b[i];
		}
		assert_int_equal(a->kind, TB_ACT_MONITOR);
		assert_int_equal(a->on, s.is_b[i]);
		assert_int_equal(a->stretch_ppm, s.is_b[i] ? 5000 : 0);
		assert_true(fabs(a->at_s - (1 + 4.0 * i)) < 1e-9);
	}
	assert_in_range(b_first, 25, 75);
	/* Then monitored, without the slowdown: half, full, half, full, off. */
	assert_true(s.script.actions[200].on && !s.script.actions[200].stretch_ppm);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(s.script.actions[s.first_rate + i].kind, TB_ACT_RATE);
		assert_int_equal(s.script.actions[s.first_rate + i].rate_bps, i % 2 ? 100000000 : 50000000);
	}
	assert_int_equal(s.script.n, s.first_rate + 5);
	assert_false(s.script.actions[s.script.n - 1].on);
	overhead_schedule_free(&s);
	overhead_schedule_free(&again);
}

/* Steps of a second, of which those of a B block are longer by `inflation', on
 * top of noise and of a drift that is the same for both. */
static struct tb_result made_up(const struct overhead_schedule *s, double inflation, double noise,
				uint64_t seed)
{
	struct tb_result r = { .valid = true };
	int64_t now = 0, end = (int64_t)(s->end_s * 1e9);
	struct bace_rng rng;

	bace_rng_init(&rng, seed, 1);
	r.steps = calloc(4096, sizeof(*r.steps));
	r.log.acted = calloc((size_t)s->script.n, sizeof(*r.log.acted));
	for (int i = 0; i < s->script.n; i++) {
		int64_t at = (int64_t)(s->script.actions[i].at_s * 1e9);

		r.log.acted[r.log.n_acted++] = (struct tb_acted){ .began_ns = at, .settled_ns = at + 5000000,
			.n_hosts = 2, .cpu_ns = (uint64_t)(at / 1000), .wire_bytes = (uint64_t)(at / 1000000) };
	}
	while (now < end + 2 * S && r.n_steps < 4096) {
		double block = ((double)now / 1e9 - 1) / 4, t = 1 + 0.1 * (double)now / (double)end;
		bool b = block >= 0 && block < s->n_blocks && s->is_b[(int)block];

		t *= (b ? 1 + inflation : 1) * (1 + noise * bace_rng_normal(&rng));
		r.steps[r.n_steps] = (struct tb_step){ .step = r.n_steps - 1, .start_ns = now,
						       .end_ns = now + (int64_t)(t * 1e9) };
		r.n_steps++;
		now += (int64_t)(t * 1e9);
	}
	return r;
}

/* The interval of 0.5 % contains it, and does not contain 0: that much is
 * resolved, though a step's noise is as large and the pipeline drifts by 10 %. */
static void test_resolves(void **state)
{
	struct tb_monitor m = counters_100ms();
	struct overhead_schedule s;
	struct overhead_timing t = timing(40, 0, 3);
	int covered = 0, resolved = 0;

	assert_int_equal(overhead_schedule(&t, &m, &s, NULL), 0);
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct tb_result r = made_up(&s, 0.005, 0.002, seed);
		struct overhead_row row = { 0 };
		struct bace_err e;

		if (overhead_judge_steps(&s, &r, seed, &row, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(row.n_pairs, 40);
		/* Blocks of four seconds hold three whole steps, now and then two. */
		assert_in_range(row.n_steps, 2 * 40 * 2, 2 * 40 * 3);
		covered += row.lo <= 0.005 && row.hi >= 0.005;
		resolved += row.lo > 0;
		/* 1e-3 of a core in all, two agents. */
		assert_true(fabs(row.agent_cpu - 0.5e-3) < 1e-5);
		assert_true(fabs(row.wire_bytes_ps - 1000) < 10);
		tb_result_free(&r);
	}
	/* 95 % of the time: 34 of 40 or more with a probability of 0.99. */
	assert_in_range(covered, 34, 40);
	assert_int_equal(resolved, 40);
	overhead_schedule_free(&s);
}

static void test_no_effect(void **state)
{
	struct tb_monitor m = counters_100ms();
	struct overhead_schedule s;
	struct overhead_timing t = timing(20, 0, 5);
	int around_zero = 0;

	assert_int_equal(overhead_schedule(&t, &m, &s, NULL), 0);
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct tb_result r = made_up(&s, 0, 0.002, seed);
		struct overhead_row row = { 0 };

		assert_int_equal(overhead_judge_steps(&s, &r, seed, &row, NULL), 0);
		around_zero += row.lo <= 0 && row.hi >= 0;
		tb_result_free(&r);
	}
	assert_in_range(around_zero, 34, 40);
	overhead_schedule_free(&s);
}

/* The default of eight pairs covers nearly as often as it says; below six there is
 * no interval that could. */
static void test_few_pairs(void **state)
{
	struct tb_monitor m = counters_100ms();
	struct overhead_schedule s;
	struct overhead_timing t = timing(8, 0, 3);
	int covered = 0;

	assert_int_equal(overhead_schedule(&t, &m, &s, NULL), 0);
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct tb_result r = made_up(&s, 0.005, 0.002, seed);
		struct overhead_row row = { 0 };

		assert_int_equal(overhead_judge_steps(&s, &r, seed, &row, NULL), 0);
		assert_int_equal(row.n_pairs, 8);
		covered += row.lo <= 0.005 && row.hi >= 0.005;
		tb_result_free(&r);
	}
	/* A bootstrap of eight normal values covers 92 times in 100; the drift between the
	 * blocks of a pair makes these wider. */
	assert_in_range(covered, 174, 200);
	overhead_schedule_free(&s);
	t = timing(5, 0, 3);
	assert_int_equal(overhead_schedule(&t, &m, &s, NULL), 0);
	struct tb_result r = made_up(&s, 0.005, 0.002, 1);
	struct overhead_row row = { 0 };

	assert_int_equal(overhead_judge_steps(&s, &r, 1, &row, NULL), 0);
	assert_int_equal(row.n_pairs, 5);
	assert_false(isnan(row.inflation));
	assert_true(isnan(row.lo) && isnan(row.hi));
	tb_result_free(&r);
	overhead_schedule_free(&s);
}

static void test_too_few(void **state)
{
	struct tb_monitor m = counters_100ms();
	struct overhead_schedule s;
	struct overhead_timing t = timing(4, 0, 5);
	struct overhead_row row = { 0 };
	struct bace_err e;

	assert_int_equal(overhead_schedule(&t, &m, &s, NULL), 0);
	struct tb_result r = made_up(&s, 0, 0, 1);

	r.n_steps = 6;
	assert_int_equal(overhead_judge_steps(&s, &r, 1, &row, &e), -ENODATA);
	assert_true(isnan(row.inflation));
	r.log.n_acted = 3;
	assert_int_equal(overhead_judge_steps(&s, &r, 1, &row, &e), -ENODATA);
	assert_non_null(strstr(e.msg, "ended before"));
	tb_result_free(&r);
	overhead_schedule_free(&s);
}

/* ---- detection ---- */

static struct tb_estimate at(double s, double mbit)
{
	return (struct tb_estimate){ .dst = 1, .at_ns = (int64_t)(s * 1e9), .rate_bps = mbit * 1e6 };
}

static void test_detection(void **state)
{
	const struct tb_estimate v[] = { at(9, 100), at(10.1, 98), at(10.2, 54), at(10.3, 90), at(10.4, 53),
					 at(10.5, 52), at(10.6, 47), at(10.7, 44) };
	int n = ARRAY_LEN(v);

	/* 54 at 10.2 did not stay; 53 at 10.4 did, with the next two. */
	assert_true(fabs(overhead_detection_s(v, n, 10 * S, 20 * S, 50e6) - 0.4) < 1e-6);
	assert_true(isnan(overhead_detection_s(v, n, 10 * S, 20 * S, 25e6)));
	/* Not before the end. */
	assert_true(isnan(overhead_detection_s(v, n, 10 * S, 10 * S + S / 10, 50e6)));
	/* What was known before the change is not a detection of it. */
	assert_true(isnan(overhead_detection_s(v, 1, 10 * S, 20 * S, 100e6)));
	/* The last one there is stays by default. */
	assert_true(fabs(overhead_detection_s(v, 7, 10 * S + S / 2 + 1, 20 * S, 50e6) - 0.1) < 1e-6);
}

static void test_changes(void **state)
{
	struct tb_monitor m = counters_100ms();
	struct overhead_timing t = timing(2, 2, 1);
	struct overhead_schedule s;
	struct tb_log l = { 0 };
	double median_s, error;
	int n;

	assert_int_equal(overhead_schedule_idle(&t, &m, &s, NULL), 0);
	l.acted = calloc((size_t)s.script.n, sizeof(*l.acted));
	for (int i = 0; i < s.script.n; i++)
		l.acted[l.n_acted++].began_ns = (int64_t)(s.script.actions[i].at_s * 1e9);
	/* Half at 5 s, seen after 1 s; back at 15 s, never seen. */
	l.estimates = calloc(3, sizeof(*l.estimates));
	l.estimates[0] = at(4, 100);
	l.estimates[1] = at(6, 51);
	l.estimates[2] = at(11, 52);
	l.n_estimates = 3;
	assert_int_equal(overhead_judge_changes(&s, &l, 100000000, &n, &median_s, &error, NULL), 0);
	assert_int_equal(n, 1);
	assert_true(fabs(median_s - 1) < 1e-6);
	/* Second halves: 52 against 50, then still 52 against 100. */
	assert_true(fabs(error - (0.04 + 0.48) / 2) < 1e-6);
	tb_log_free(&l);
	overhead_schedule_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_methods), cmocka_unit_test(test_schedule), cmocka_unit_test(test_resolves),
		cmocka_unit_test(test_no_effect), cmocka_unit_test(test_few_pairs), cmocka_unit_test(test_too_few), cmocka_unit_test(test_detection),
		cmocka_unit_test(test_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
