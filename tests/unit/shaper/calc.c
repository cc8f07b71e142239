#include "tests/unit/shaper/support.h"

#include "shaper/calc.h"
#include "shaper/jitter.h"

#include <math.h>

/* max(2 frames, rate x 0.25 ms), whatever GSO does. */
static void burst_follows_the_rate_above_two_frames(void **state)
{
	assert_int_equal(calc_burst_bytes(10000000, 1500), 2 * 1514);
	assert_int_equal(calc_burst_bytes(96896000, 1500), 2 * 1514);
	assert_int_equal(calc_burst_bytes(1000000000, 1500), 31250);
	assert_int_equal(calc_burst_bytes(100000000000ULL, 1500), 3125000);
	assert_int_equal(calc_burst_bytes(10000000, 9000), 2 * 9014);
}

/* Ticks are 64 ns; rounding down would give less than was asked. */
static void ticks_never_hold_less_than_the_bytes(void **state)
{
	const uint64_t rates[] = { 1000, 125000, 1250000, 12500000, 125000000, 12500000000ULL, 500000000000ULL };

	for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
		for (uint64_t bytes = 3028; bytes < 10000000; bytes = bytes * 3 + 1) {
			uint32_t ticks = calc_bytes_ticks(bytes, rates[i]);

			if (ticks == UINT32_MAX)
				continue;
			/* Exact arithmetic: ticks x 64 ns x rate >= bytes > (ticks - 1) x ... */
			assert_true((__uint128_t)ticks * 64 * rates[i] >= (__uint128_t)bytes * 1000000000);
			assert_true((__uint128_t)(ticks - 1) * 64 * rates[i] <
				    (__uint128_t)bytes * 1000000000 + (__uint128_t)rates[i]);
		}
	}
	assert_int_equal(calc_bytes_ticks(3028, 1250000), 37850);
}

static void quantum_is_set_within_what_htb_takes_quietly(void **state)
{
	assert_int_equal(calc_quantum_bytes(3028, 1500), 3028);
	assert_int_equal(calc_quantum_bytes(10, 1500), 1514);
	assert_int_equal(calc_quantum_bytes(3125000, 1500), 200000);
}

/* 100 Mbit/s, 80 ms RTT: 1 MB of BDP; 1.2 messages; one whole GSO packet. */
static void buffer_holds_bdp_message_and_gso_packet(void **state)
{
	assert_int_equal(calc_buffer_bytes(100000000, 80000000, 0, 0, 1500), 1000000);
	assert_int_equal(calc_buffer_bytes(100000000, 80000000, 1000000, 0, 1500), 1200000);
	assert_true(calc_buffer_bytes(1000000, 0, 0, 0, 1500) >= 45 * 1514);
	assert_int_equal(calc_buffer_bytes(1000000, 0, 0, 1514, 1500), 2 * 1514);
	/* 100 Gbit/s over 10 s does not fit the kernel's 32 bits. */
	assert_true(calc_buffer_bytes(4000000000000ULL, 60000000000LL, 0, 0, 1500) <= UINT32_MAX);
}

/* 5 Gbit/s x 40 ms = 25 MB = 16,500 full packets; the default 1,000 drops. */
static void delay_limit_covers_the_bandwidth_delay_product(void **state)
{
	assert_true(calc_delay_limit_pkts(5000000000ULL, 40000000) >= 25000000 / 1514 * 3 / 2);
	assert_int_equal(calc_delay_limit_pkts(1000, 1000), 1000);
	assert_true(calc_delay_limit_pkts(4000000000000ULL, 60000000000LL) < INT32_MAX);
}

static double mean(const int16_t *t, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += t[i];
	return sum / n / JITTER_SCALE;
}

static double deviation(const int16_t *t, int n)
{
	double m = mean(t, n), sum = 0;

	for (int i = 0; i < n; i++)
		sum += pow((double)t[i] / JITTER_SCALE - m, 2);
	return sqrt(sum / n);
}

static void jitter_tables_have_the_moments_of_their_distributions(void **state)
{
	int n;
	const int16_t *t = jitter_table(JITTER_UNIFORM, &n);

	assert_int_equal(n, JITTER_ENTRIES);
	assert_true(fabs(mean(t, n)) < 1e-3);
	assert_true(fabs(deviation(t, n) - 1 / sqrt(3)) < 1e-3);
	t = jitter_table(JITTER_NORMAL, &n);
	assert_true(fabs(mean(t, n)) < 1e-3);
	assert_true(fabs(deviation(t, n) - 1) < 5e-3);
	/* The quartile of a standard normal is 0.6745. */
	assert_true(fabs((double)t[n / 4] / JITTER_SCALE + 0.6745) < 2e-3);
	/* a = 3: starts at (1 - 1.5) 4/3 and has mean 0; 16 bits cut the tail. */
	t = jitter_table(JITTER_PARETO, &n);
	assert_int_equal(t[0], lround(-2.0 / 3 * JITTER_SCALE));
	assert_int_equal(t[n - 1], INT16_MAX);
	assert_true(fabs(mean(t, n)) < 0.05);
	/* A quarter of the normal one, three of pareto's, quantile by quantile. */
	t = jitter_table(JITTER_PARETONORMAL, &n);
	assert_int_equal(n, JITTER_ENTRIES);
	/* As Python's statistics.NormalDist has them: 16 bits cut the tail at 4. */
	assert_true(fabs(mean(t, n) + 0.0215) < 1e-3);
	assert_true(fabs(deviation(t, n) - 0.8495) < 1e-3);
	/* The median is pareto's: three quarters of (2^(1/3) - 1.5) 4/3. */
	assert_true(fabs((double)t[n / 2] / JITTER_SCALE - (cbrt(2) - 1.5)) < 2e-3);
	assert_null(jitter_table(JITTER_NONE, &n));
	assert_int_equal(n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(burst_follows_the_rate_above_two_frames),
		cmocka_unit_test(ticks_never_hold_less_than_the_bytes),
		cmocka_unit_test(quantum_is_set_within_what_htb_takes_quietly),
		cmocka_unit_test(buffer_holds_bdp_message_and_gso_packet),
		cmocka_unit_test(delay_limit_covers_the_bandwidth_delay_product),
		cmocka_unit_test(jitter_tables_have_the_moments_of_their_distributions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
