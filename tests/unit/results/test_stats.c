#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "results/results.h"

static void near(double got, double want, double tolerance)
{
	if (!(fabs(got - want) <= tolerance))
		fail_msg("%.15g is not %.15g within %g", got, want, tolerance);
}

/* numpy.quantile's default, R's type 7: h = (n - 1) q, linear between. */
static void quantiles(void **state)
{
	const double v[] = { 4, 1, 3, 2 }, w[] = { 15, 20, 35, 40, 50 };

	near(stats_quantile(v, 4, 0.95), 3.85, 1e-12);
	near(stats_quantile(v, 4, 0.25), 1.75, 1e-12);
	near(stats_median(v, 4), 2.5, 1e-12);
	near(stats_quantile(w, 5, 0.4), 29, 1e-12);	/* R: quantile(c(15,20,35,40,50), 0.4) = 29 */
	near(stats_quantile(w, 5, 0), 15, 0);
	near(stats_quantile(w, 5, 1), 50, 0);
	near(stats_quantile(w, 1, 0.3), 15, 0);
	assert_true(isnan(stats_median(v, 0)));
	assert_true(isnan(stats_quantile(v, 4, 1.5)));
	near(v[0], 4, 0);
}

static void means(void **state)
{
	const double v[] = { 1, 2, 4 };

	near(stats_mean(v, 3), 7.0 / 3, 1e-15);
	assert_true(isnan(stats_mean(v, 0)));
}

static void kendall(void **state)
{
	/* The example of scipy.stats.kendalltau's documentation: -0.4714045... */
	const double x[] = { 12, 2, 1, 12, 2 }, y[] = { 1, 4, 7, 1, 0 };
	/* By hand: 8 concordant, 2 discordant of 10. */
	const double a[] = { 1, 2, 3, 4, 5 }, b[] = { 2, 1, 4, 3, 5 }, r[] = { 5, 4, 3, 2, 1 };
	const double same[] = { 3, 3, 3, 3, 3 };

	near(stats_kendall(x, y, 5), -0.47140452079103173, 1e-14);
	near(stats_kendall(a, b, 5), 0.6, 1e-15);
	near(stats_kendall(a, a, 5), 1, 1e-15);
	near(stats_kendall(a, r, 5), -1, 1e-15);
	assert_true(isnan(stats_kendall(a, same, 5)));
	assert_true(isnan(stats_kendall(a, b, 1)));
}

static void bootstrap(void **state)
{
	double v[100], lo, hi, lo2, hi2;

	for (int i = 0; i < 100; i++)
		v[i] = i + 1;
	/* Normal theory: 50.5 +- 1.96 * sqrt((100^2 - 1) / 12) / 10 = 44.84, 56.16. */
	stats_bootstrap(v, 100, stats_mean, 10000, 0.95, 7, &lo, &hi);
	near(lo, 44.84, 0.3);
	near(hi, 56.16, 0.3);
	stats_bootstrap(v, 100, stats_mean, 10000, 0.95, 7, &lo2, &hi2);
	near(lo2, lo, 0);
	near(hi2, hi, 0);
	stats_bootstrap(v, 100, stats_mean, 10000, 0.95, 8, &lo2, &hi2);
	assert_true(lo2 != lo || hi2 != hi);
	stats_bootstrap(v, 1, stats_mean, 100, 0.95, 7, &lo, &hi);
	near(lo, 1, 0);
	near(hi, 1, 0);
	stats_bootstrap(v, 0, stats_mean, 100, 0.95, 7, &lo, &hi);
	assert_true(isnan(lo) && isnan(hi));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(quantiles), cmocka_unit_test(means),
		cmocka_unit_test(kendall), cmocka_unit_test(bootstrap) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
