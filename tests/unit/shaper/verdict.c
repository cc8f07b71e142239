/* What a plan promises, and how sure a measurement is of it. */
#include "tests/unit/shaper/support.h"

#include <math.h>

#include "harness/shape/shape.h"

static void near(double got, double want, double within)
{
	if (!(fabs(got - want) <= within))
		fail_msg("%.9g instead of %.9g", got, want);
}

static struct shape_path chain(enum loss_model model, double a, double b, double c, double d, double e)
{
	return (struct shape_path){ .impair = { .loss_model = model, .loss_p = { a, b, c, d, e } } };
}

/* The share of losing packets once a chain has settled. */
static void planned_loss_is_the_stationary_one(void **state)
{
	struct shape_path p = { .link.loss = 0.02 };

	near(shape_planned_loss(&p), 0.02, 0);
	p = chain(LOSS_GILBERT_ELLIOTT, 0.01, 0.1, 1, 0, 0);
	near(shape_planned_loss(&p), 0.01 / 0.11, 1e-12);
	p = chain(LOSS_GILBERT_ELLIOTT, 0.01, 0.1, 0.5, 0.001, 0);
	near(shape_planned_loss(&p), (0.01 * 0.5 + 0.1 * 0.001) / 0.11, 1e-12);
	/* That never leaves the good state. */
	p = chain(LOSS_GILBERT_ELLIOTT, 0, 0, 1, 0.003, 0);
	near(shape_planned_loss(&p), 0.003, 1e-12);
	/* Four states of which two are used: 1 and 3, then 1 and 4. */
	p = chain(LOSS_4STATE, 0.02, 0.3, 0, 0, 1);
	near(shape_planned_loss(&p), 0.02 / 0.32, 1e-6);
	p = chain(LOSS_4STATE, 0, 1, 0, 0.05, 1);
	near(shape_planned_loss(&p), 0.05 / 1.05, 1e-6);
}

static void no_loss_seen_is_not_proof_of_none(void **state)
{
	const struct shape_path p = { .link.loss = 0.01 };
	struct shape_interval i = shape_loss_interval(&p, 1000, 1000);
	const double z2 = 2.576 * 2.576;

	near(i.value, 0, 0);
	near(i.low, 0, 1e-15);
	near(i.high, z2 / (1000 + z2), 1e-9);
	/* Nothing was sent: anything may be true. */
	i = shape_loss_interval(&p, 0, 0);
	near(i.low, 0, 0);
	near(i.high, 1, 0);
	/* More than was sent: duplicates are no negative loss. */
	i = shape_loss_interval(&p, 100, 120);
	near(i.value, 0, 0);
}

/* Wilson's, against its closed form for 50 of 1000. */
static void the_loss_interval_is_wilsons(void **state)
{
	const struct shape_path p = { 0 };
	struct shape_interval i = shape_loss_interval(&p, 1000, 950);
	const double z = 2.576, n = 1000, x = 0.05;
	double middle = (x + z * z / (2 * n)) / (1 + z * z / n);
	double half = z / (1 + z * z / n) * sqrt(x * (1 - x) / n + z * z / (4 * n * n));

	near(i.value, 0.05, 1e-12);
	near(i.low, middle - half, 1e-12);
	near(i.high, middle + half, 1e-12);
}

/* Bursts: as many packets say less. */
static void bursts_widen_the_loss_interval(void **state)
{
	const struct shape_path even = { .link.loss = 0.05 };
	const struct shape_path bursts = chain(LOSS_GILBERT_ELLIOTT, 0.005, 0.095, 1, 0, 0);
	struct shape_interval a = shape_loss_interval(&even, 10000, 9500), b = shape_loss_interval(&bursts, 10000, 9500);

	assert_true(b.high - b.low > 3 * (a.high - a.low));
	assert_true(b.low < 0.05 && b.high > 0.05);
}

static void medians_and_means_have_intervals(void **state)
{
	double odd[] = { 5, 1, 3 }, even[] = { 4, 1, 3, 2 }, many[101], same[] = { 7, 7, 7 }, two[] = { 1, 3 };
	struct shape_interval i = shape_median_interval(odd, 3);

	near(i.value, 3, 0);
	i = shape_median_interval(even, 4);
	near(i.value, 2.5, 0);
	for (int k = 0; k < 101; k++)
		many[k] = 100 - k;
	i = shape_median_interval(many, 101);
	near(i.value, 50, 0);
	/* By order statistics: 50.5 -+ 0.98 sqrt(101). */
	assert_true(i.low >= 39 && i.low <= 41 && i.high >= 60 && i.high <= 62);
	i = shape_median_interval(many, 0);
	near(i.value, 0, 0);
	i = shape_mean_interval(same, 3);
	assert_true(i.value == 7 && i.low == 7 && i.high == 7);
	i = shape_mean_interval(two, 2);
	near(i.value, 2, 0);
	/* Student's t of one degree of freedom; the standard error is 1. */
	near(i.high - i.value, 12.706, 1e-3);
	near(i.value - i.low, 12.706, 1e-3);
	i = shape_mean_interval(two, 1);
	assert_true(i.value == 1 && i.low == 1 && i.high == 1);
}

static void values_that_follow_each_other_say_less(void **state)
{
	/* In no order: the squares are 82.5, and neighbours make up for each other. */
	const double ten[] = { 1, 10, 2, 9, 3, 8, 4, 7, 5, 6 };
	double turns[40], halves[40];
	struct shape_interval i = shape_mean_interval(ten, 10);

	near(i.value, 5.5, 1e-12);
	near(i.high - i.value, 2.262 * sqrt(82.5 / 9 / 10), 1e-9);
	for (int k = 0; k < 40; k++) {
		turns[k] = k % 2 ? 2 : 0;
		halves[k] = k < 20 ? 2 : 0;
	}
	/* Batches of four: each is 1. */
	i = shape_mean_interval(turns, 40);
	assert_true(i.value == 1 && i.low == 1 && i.high == 1);
	/* Five of 2, five of 0: 9 products, of which 8 are 1 and one is -1. */
	i = shape_mean_interval(halves, 40);
	near(i.value, 1, 1e-12);
	near(i.high - i.value, 2.262 * sqrt(10.0 / 9 / 10 * 1.7 / 0.3), 1e-9);
}

/* Too few packets prove nothing, whichever way they fell. */
static void a_loss_that_is_hardly_known_is_undecided(void **state)
{
	static const struct {
		double planned;
		uint64_t sent, received;
		enum shape_verdict verdict;
	} v[] = {
		{ 0, 0, 0, SHAPE_UNDECIDED },
		{ 0.01, 0, 0, SHAPE_UNDECIDED },
		{ 0, 10, 10, SHAPE_UNDECIDED },
		{ 0, 3000, 3000, SHAPE_UNDECIDED },
		{ 0, 4000, 4000, SHAPE_WITHIN },
		{ 0, 20000, 19990, SHAPE_WITHIN },
		{ 0, 20000, 19900, SHAPE_OUT },
		/* Few, and still far from none. */
		{ 0, 100, 50, SHAPE_OUT },
		{ 0.01, 50, 50, SHAPE_UNDECIDED },
		{ 0.01, 1000, 990, SHAPE_UNDECIDED },
		{ 0.01, 5000, 4950, SHAPE_WITHIN },
		{ 0.01, 5000, 5000, SHAPE_OUT },
		{ 0.01, 5000, 4800, SHAPE_OUT },
		/* Near it, and known well enough to be another. */
		{ 0.01, 50000, 49600, SHAPE_OUT },
		/* A hair above what counts as none. */
		{ 0, 20000, 19975, SHAPE_UNDECIDED },
	};

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		const struct shape_path p = { .link.loss = v[i].planned };
		struct shape_interval seen = shape_loss_interval(&p, v[i].sent, v[i].received);
		enum shape_verdict got = shape_judge_loss(&seen, v[i].planned, v[i].sent);
		struct shape_interval allowed;

		if (got != v[i].verdict)
			fail_msg("%zu: [%g, %g] of %g: %d", i, seen.low, seen.high, v[i].planned, (int)got);
		/* Who is only told what is allowed comes to the same. */
		allowed = shape_loss_allowed(v[i].planned);
		if (v[i].sent)
			assert_int_equal(seen.low > allowed.high || seen.high < allowed.low, got == SHAPE_OUT);
	}
}

/* As many packets as it asks for are enough, where they are lost as planned. */
static void the_packets_asked_for_are_enough(void **state)
{
	static const double losses[] = { 0, 0.0005, 0.001, 0.002, 0.01, 0.05, 0.5 };

	for (size_t i = 0; i <= ARRAY_LEN(losses); i++) {
		struct shape_path p = i < ARRAY_LEN(losses) ? (struct shape_path){ .link.loss = losses[i] }
							      : chain(LOSS_GILBERT_ELLIOTT, 0.005, 0.095, 1, 0, 0);
		double planned = shape_planned_loss(&p);
		uint64_t n = (uint64_t)shape_loss_packets(&p), received = n - (uint64_t)lround(planned * (double)n);
		struct shape_interval seen = shape_loss_interval(&p, n, received);

		assert_int_equal(shape_judge_loss(&seen, planned, n), SHAPE_WITHIN);
		/* And a third of them is not. */
		seen = shape_loss_interval(&p, n / 3, n / 3 - (uint64_t)lround(planned * (double)(n / 3)));
		assert_int_equal(shape_judge_loss(&seen, planned, n / 3), SHAPE_UNDECIDED);
	}
}

static void verdicts(void **state)
{
	const struct shape_interval in = { 10, 9.9, 10.1 }, wide = { 10, 5, 40 }, out = { 12.5, 12.1, 13 };

	assert_int_equal(shape_judge(&in, 8, 12), SHAPE_WITHIN);
	assert_int_equal(shape_judge(&wide, 8, 12), SHAPE_UNDECIDED);
	assert_int_equal(shape_judge(&out, 8, 12), SHAPE_OUT);
	assert_int_equal(shape_judge(&in, 10, 12), SHAPE_UNDECIDED);
	/* The value is out, what it may truly be is not. */
	assert_int_equal(shape_judge(&in, 10.05, 12), SHAPE_UNDECIDED);
	assert_int_equal(shape_judge(&in, 8, 9.95), SHAPE_UNDECIDED);
	assert_int_equal(shape_judge(&in, 8, 9.8), SHAPE_OUT);
	assert_int_equal(shape_judge(&(struct shape_interval){ NAN, NAN, NAN }, 8, 12), SHAPE_OUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(planned_loss_is_the_stationary_one),
		cmocka_unit_test(no_loss_seen_is_not_proof_of_none),
		cmocka_unit_test(the_loss_interval_is_wilsons),
		cmocka_unit_test(bursts_widen_the_loss_interval),
		cmocka_unit_test(medians_and_means_have_intervals),
		cmocka_unit_test(values_that_follow_each_other_say_less),
		cmocka_unit_test(a_loss_that_is_hardly_known_is_undecided),
		cmocka_unit_test(the_packets_asked_for_are_enough),
		cmocka_unit_test(verdicts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
