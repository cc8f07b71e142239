/* Prices over time, rates, and the memory of a stage. */
#include <math.h>
#include <stdlib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "profiles/profiles.h"

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

static void test_constant_price(void **state)
{
	double start[] = { 0 }, usd[] = { 0.25 }, until;
	struct price_series p = { 1, start, usd, 0 };

	assert_true(price_at(&p, 1e9, &until) == 0.25);
	assert_true(isinf(until));
	assert_true(near(price_integral(&p, 10, 110), 25));
	/* A single step that repeats changes nothing either. */
	p.period_s = 3600;
	assert_true(price_at(&p, 1e9, &until) == 0.25);
	assert_true(isinf(until));
	assert_true(near(price_integral(&p, 1800, 7200 + 1800), 1800));
}

static void test_series(void **state)
{
	double start[] = { 0, 10, 30 }, usd[] = { 1, -2, 5 }, until;
	struct price_series p = { 3, start, usd, 0 };

	assert_true(price_at(&p, 0, &until) == 1 && until == 10);
	assert_true(price_at(&p, 9.999, NULL) == 1);
	assert_true(price_at(&p, 10, &until) == -2 && until == 30);
	assert_true(price_at(&p, 1000, &until) == 5 && isinf(until));
	assert_true(near(price_integral(&p, 0, 40), 10 - 40 + 50));
	assert_true(near(price_integral(&p, 5, 15), 5 - 10));
	assert_true(near(price_integral(&p, 100, 110), 50));
	assert_true(price_integral(&p, 7, 7) == 0);

	p.period_s = 40;	/* 10 - 40 + 50 = 20 a period */
	assert_true(price_at(&p, 40, &until) == 1 && until == 50);
	assert_true(price_at(&p, 415, &until) == -2 && until == 430);
	assert_true(near(price_integral(&p, 0, 4000), 2000));
	assert_true(near(price_integral(&p, 35, 55), 25 + 10 - 10));
}

/* With the sums made once the integral is the same to the last bit. */
static void test_sums(void **state)
{
	double start[] = { 0, 0.1, 0.3, 0.7, 1.3 }, usd[] = { 0.3, 0.1, -0.2, 0.4, 7 };
	struct price_series p = { 5, start, usd, 1.9 }, with = p;

	assert_int_equal(price_sum(&with), 0);
	for (int periodic = 0; periodic < 2; periodic++) {
		p.period_s = with.period_s = periodic ? 1.9 : 0;
		for (double a = 0; a < 6; a += 0.37)
			for (double b = a; b < 9; b += 0.1)
				assert_true(price_integral(&p, a, b) == price_integral(&with, a, b));
	}
	free(with.sum);
}

/* Riemann sum against the closed form, and walking by `until` against both. */
static void test_series_is_consistent(void **state)
{
	double start[] = { 0, 0.1, 0.3, 0.7 }, usd[] = { 0.3, 0.1, -0.2, 0.4 };
	struct price_series p = { 4, start, usd, 1.1 };
	double t = 0.05, sum = 0, end = 1000.033;
	int steps = 0;

	while (t < end) {
		double until, v = price_at(&p, t, &until);

		assert_true(until > t);
		sum += v * (fmin(until, end) - t);
		t = until;
		steps++;
		/* Exactly at a change the new price holds. */
		assert_true(price_at(&p, t, NULL) != v);
	}
	/* 909 whole periods and two pieces of the last: no change is told twice. */
	assert_int_equal(steps, 909 * 4 + 2);
	/* Where a second is below the last bit of the time, time goes on all the same. */
	double until;

	price_at(&p, 1e25, &until);
	assert_true(until > 1e25);
	assert_true(fabs(sum - price_integral(&p, 0.05, end)) < 1e-8);
}

static void test_rates(void **state)
{
	/* 1448 bytes of payload in 1514 on the wire. */
	assert_true(near(goodput_bps(1514e6, 1500), 1448e6));
	assert_true(near(goodput_bps(9014e6, 9000), 8948e6));
	for (double b = 1e3; b < 1e12; b *= 7)
		assert_true(near(l2_rate_bps(goodput_bps(b, 1500), 1500), b));
}

static const struct model flm = {
	.name = "flm", .params = 101e9, .layers = 80, .hidden = 10240, .seq = 2048,
	.bytes_per_element = 2, .state_bytes_per_param = 16, .recompute = true,
};

static void test_stage_bytes(void **state)
{
	struct pipeline_shape s = { .schedule = SCHED_1F1B, .interleave = 1, .micro_batches = 8,
				    .micro_batch_size = 1 };

	assert_true(near(model_boundary_bytes(&flm, 1), 2048.0 * 10240 * 2));
	assert_true(near(model_boundary_bytes(&flm, 3), 3 * 2048.0 * 10240 * 2));
	/* One stage: all states and one micro-batch in flight. */
	assert_true(near(model_stage_bytes(&flm, &s, 1, 0), 16 * 101e9 + 80 * 41943040.0));
	/* 5 stages of 16 layers, 5 micro-batches live on the first, 1 on the last. */
	assert_true(near(model_stage_bytes(&flm, &s, 5, 0), 16 * (16 * 101e9 / 80 + 5 * 41943040.0)));
	assert_true(near(model_stage_bytes(&flm, &s, 5, 4), 16 * (16 * 101e9 / 80 + 1 * 41943040.0)));
	s.micro_batches = 3;
	assert_true(near(model_stage_bytes(&flm, &s, 5, 0), 16 * (16 * 101e9 / 80 + 3 * 41943040.0)));

	struct model full = flm;

	full.recompute = false;
	assert_true(near(model_stage_bytes(&full, &s, 5, 0),
			 16 * (16 * 101e9 / 80 + 3 * 34.0 * 2048 * 10240)));
	full.measured_boundary_bytes = 7;
	assert_true(model_boundary_bytes(&full, 4) == 7);
}

static void test_live(void **state)
{
	struct pipeline_shape s = { .interleave = 2, .micro_batches = 12, .micro_batch_size = 1 };
	/* rows: schedule; columns: stage 0..3 of 4. Interleaved: (2(3-i) + 4 + 1)/2. */
	static const struct {
		enum schedule_kind kind;
		double live[4];
	} expected[] = {
		{ SCHED_GPIPE, { 12, 12, 12, 12 } },	{ SCHED_1F1B, { 4, 3, 2, 1 } },
		{ SCHED_EAGER_1F1B, { 7, 5, 3, 1 } },	{ SCHED_ZB_H1, { 4, 3, 2, 1 } },
		{ SCHED_INTERLEAVED_1F1B, { 5.5, 4.5, 3.5, 2.5 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
		s.schedule = expected[i].kind;
		for (int j = 0; j < 4; j++)
			assert_true(model_live_micro_batches(&s, 4, j) == expected[i].live[j]);
	}
	s.micro_batches = 2;
	for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
		s.schedule = expected[i].kind;
		for (int j = 0; j < 4; j++)
			assert_true(model_live_micro_batches(&s, 4, j) <= 2);
	}
}

static void test_layers(void **state)
{
	for (int k = 1; k <= 80; k++) {
		double sum = 0, fraction = 0;

		for (int i = 0; i < k; i++) {
			sum += model_stage_layers(&flm, false, k, i);
			fraction += model_stage_layers(&flm, true, k, i);
			assert_true(model_stage_layers(&flm, false, k, i) >=
				    model_stage_layers(&flm, false, k, i + 1 < k ? i + 1 : i));
		}
		assert_true(sum == 80);
		assert_true(near(fraction, 80));
	}
	assert_true(model_stage_layers(&flm, false, 3, 0) == 27);
	assert_true(model_stage_layers(&flm, false, 3, 1) == 27);
	assert_true(model_stage_layers(&flm, false, 3, 2) == 26);
}

/* The claim that model_fits rests on: no stage needs more than the first. */
static void test_first_stage_is_largest(void **state)
{
	for (int kind = SCHED_GPIPE; kind <= SCHED_ZB_H1; kind++)
		for (int m = 1; m <= 64; m *= 4)
			for (int equal = 0; equal < 2; equal++)
				for (int k = 1; k <= 80; k++) {
					struct pipeline_shape s = {
						.schedule = (enum schedule_kind)kind, .interleave = 3,
						.equal_split = equal, .micro_batches = m,
						.micro_batch_size = 2,
					};
					double first = model_stage_bytes(&flm, &s, k, 0);

					for (int i = 1; i < k; i++)
						assert_true(model_stage_bytes(&flm, &s, k, i) <= first);
				}
}

static void test_k_min(void **state)
{
	struct pipeline_shape s = { .schedule = SCHED_1F1B, .interleave = 1, .micro_batches = 64,
				    .micro_batch_size = 1 };

	assert_int_equal(model_k_min(&flm, &s, 80, 2e12), 1);
	/* 48 GB: 2 layers are 40.4 GB of state, 3 are 60.6: 40 stages. */
	assert_int_equal(model_k_min(&flm, &s, 80, 48e9), 40);
	assert_int_equal(model_k_min(&flm, &s, 39, 48e9), 0);
	/* One layer is 20.2 GB: it fits nowhere, unless stages may be fractions of layers. */
	assert_int_equal(model_k_min(&flm, &s, 80, 16e9), 0);
	assert_int_equal(model_k_min(&flm, &s, 1000, 16e9), 0);
	s.equal_split = true;
	/* (1616 GB of state + 80 layers x 64 live x 41.9 MB) / 16 GB = 114.4 */
	assert_int_equal(model_k_min(&flm, &s, 1000, 16e9), 115);
	/* The k that fit need not be an interval: interleaving takes only divisors of m. */
	s = (struct pipeline_shape){ .schedule = SCHED_INTERLEAVED_1F1B, .interleave = 2,
				     .micro_batches = 64, .micro_batch_size = 1 };
	assert_int_equal(model_k_min(&flm, &s, 80, 48e9), 64);
	assert_false(model_fits(&flm, &s, 1, 1e15));
	assert_true(model_fits(&flm, &s, 2, 1e15));
	assert_false(model_fits(&flm, &s, 3, 1e15));
	assert_false(model_fits(&flm, &s, 0, 1e15));
}

static void test_names(void **state)
{
	enum schedule_kind k;

	for (int i = SCHED_GPIPE; i <= SCHED_ZB_H1; i++) {
		assert_int_equal(schedule_from_name(schedule_name((enum schedule_kind)i), &k), 0);
		assert_int_equal(k, i);
	}
	assert_int_equal(schedule_from_name("gpip", &k), -22);
	assert_string_equal(order_name(ORDER_LAS), "las");
	assert_string_equal(start_name(START_K_STAR), "k_star");
	assert_string_equal(backend_name(BACKEND_NFQUEUE), "nfqueue");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums), cmocka_unit_test(test_constant_price), cmocka_unit_test(test_series),
		cmocka_unit_test(test_series_is_consistent), cmocka_unit_test(test_rates),
		cmocka_unit_test(test_stage_bytes),    cmocka_unit_test(test_live),
		cmocka_unit_test(test_layers),	       cmocka_unit_test(test_first_stage_is_largest),
		cmocka_unit_test(test_k_min),	       cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
