#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/results.h"

double stats_mean(const double *v, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i];
	return n ? sum / (double)n : NAN;
}

double stats_quantile(const double *v, size_t n, double q)
{
	CLEANUP_FREE double *copy = malloc((n ? n : 1) * sizeof(*copy));

	if (!n || !copy)
		return NAN;
	memcpy(copy, v, n * sizeof(*copy));
	return bace_quantile(copy, n, q);
}

double stats_median(const double *v, size_t n)
{
	return stats_quantile(v, n, 0.5);
}

void stats_bootstrap(const double *v, size_t n, double (*statistic)(const double *, size_t),
		     int resamples, double level, uint64_t seed, double *lo, double *hi)
{
	CLEANUP_FREE double *draw = malloc((n ? n : 1) * sizeof(*draw));
	CLEANUP_FREE double *values = malloc((size_t)(resamples > 0 ? resamples : 1) * sizeof(*values));
	struct bace_rng r;

	*lo = *hi = NAN;
	if (!n || resamples < 1 || !draw || !values)
		return;
	bace_rng_init(&r, seed, n);
	for (int k = 0; k < resamples; k++) {
		for (size_t i = 0; i < n; i++)
			draw[i] = v[bace_rng_below(&r, n)];
		values[k] = statistic(draw, n);
	}
	*lo = bace_quantile(values, (size_t)resamples, (1 - level) / 2);
	*hi = bace_quantile(values, (size_t)resamples, (1 + level) / 2);
}

double stats_kendall(const double *a, const double *b, size_t n)
{
	double concordant = 0, only_a = 0, only_b = 0;

	for (size_t i = 0; i < n; i++) {
		for (size_t k = i + 1; k < n; k++) {
			int x = (a[i] > a[k]) - (a[i] < a[k]), y = (b[i] > b[k]) - (b[i] < b[k]);

			concordant += x * y;
			only_a += x != 0;
			only_b += y != 0;
		}
	}
	return only_a > 0 && only_b > 0 ? concordant / sqrt(only_a * only_b) : NAN;
}
