#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/common.h"

/* The authors' reference implementation from state 1, 2, 3, 4. */
static void test_xoshiro_reference(void **state)
{
	static const uint64_t expected[] = {
		11520, 0, 1509978240, UINT64_C(1215971899390074240),
		UINT64_C(1216172134540287360), UINT64_C(607988272756665600),
		UINT64_C(16172922978634559625), UINT64_C(8476171486693032832),
		UINT64_C(10595114339597558777), UINT64_C(2904607092377533576),
	};
	struct bace_rng r = { .s = { 1, 2, 3, 4 } };

	for (size_t i = 0; i < ARRAY_LEN(expected); i++)
		assert_int_equal(bace_rng_u64(&r), expected[i]);
}

/* splitmix64 from 1234567, its author's reference output. */
static void test_splitmix_reference(void **state)
{
	static const uint64_t expected[] = {
		UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
		UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
	};
	struct bace_rng r;

	bace_rng_init(&r, 1234567, 0);
	for (size_t i = 0; i < ARRAY_LEN(expected); i++)
		assert_int_equal(r.s[i], expected[i]);
}

static void test_streams_differ(void **state)
{
	struct bace_rng a, b, c, d;

	bace_rng_init(&a, 1, 2);
	bace_rng_init(&b, 2, 1);
	bace_rng_init(&c, 1, 2);
	bace_rng_init(&d, 1, 0);
	uint64_t x = bace_rng_u64(&a);

	assert_int_not_equal(x, bace_rng_u64(&b));
	assert_int_equal(x, bace_rng_u64(&c));
	assert_int_not_equal(x, bace_rng_u64(&d));
}

static void test_below(void **state)
{
	struct bace_rng r;
	int count[6] = { 0 };

	bace_rng_init(&r, 7, 0);
	for (int i = 0; i < 60000; i++)
		count[bace_rng_below(&r, 6)]++;
	/* sd of a count is 91: five of them. */
	for (int i = 0; i < 6; i++)
		assert_in_range(count[i], 10000 - 457, 10000 + 457);
	for (int i = 0; i < 100; i++)
		assert_int_equal(bace_rng_below(&r, 1), 0);
	/* A third of all numbers must be rejected here, or the low half were twice as likely. */
	uint64_t n = UINT64_C(3) << 62, low = 0;

	for (int i = 0; i < 30000; i++) {
		uint64_t x = bace_rng_below(&r, n);

		assert_true(x < n);
		low += x < UINT64_C(1) << 62;
	}
	assert_in_range(low, 10000 - 409, 10000 + 409);
}

static void test_distributions(void **state)
{
	struct bace_rng r;
	double sum_u = 0, sum_n = 0, sum_n2 = 0, sum_e = 0, sum_e2 = 0;
	int n = 200000;

	bace_rng_init(&r, 42, 3);
	for (int i = 0; i < n; i++) {
		double u = bace_rng_uniform(&r), z = bace_rng_normal(&r);
		double e = bace_rng_exponential(&r, 30);

		assert_true(u >= 0 && u < 1);
		assert_true(e >= 0 && isfinite(e) && isfinite(z));
		sum_u += u;
		sum_n += z;
		sum_n2 += z * z;
		sum_e += e;
		sum_e2 += e * e;
	}
	/* Five standard errors each. */
	assert_true(fabs(sum_u / n - 0.5) < 5 * 0.2887 / sqrt(n));
	assert_true(fabs(sum_n / n) < 5 / sqrt(n));
	assert_true(fabs(sum_n2 / n - 1) < 5 * 1.4143 / sqrt(n));
	assert_true(fabs(sum_e / n - 30) < 5 * 30 / sqrt(n));
	assert_true(fabs(sum_e2 / n - 1800) < 5 * 900 * 4.4722 / sqrt(n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_xoshiro_reference), cmocka_unit_test(test_splitmix_reference),
		cmocka_unit_test(test_streams_differ),	  cmocka_unit_test(test_below),
		cmocka_unit_test(test_distributions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
