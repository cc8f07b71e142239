#include <math.h>

#include "common/common.h"

static void swap(double *a, double *b)
{
	double t = *a;

	*a = *b;
	*b = t;
}

/* Puts the kth smallest in its place, nothing larger before it (Hoare's select,
 * median of three). */
static double nth(double *v, size_t n, size_t k)
{
	size_t lo = 0, hi = n - 1;

	while (lo < hi) {
		size_t i = lo, j = hi, mid = lo + (hi - lo) / 2;
		double pivot;

		if (v[mid] < v[lo])
			swap(&v[mid], &v[lo]);
		if (v[hi] < v[lo])
			swap(&v[hi], &v[lo]);
		if (v[hi] < v[mid])
			swap(&v[hi], &v[mid]);
		pivot = v[mid];
		while (i <= j) {
			while (v[i] < pivot)
				i++;
			while (pivot < v[j])
				j--;
			if (i > j)
				break;
			swap(&v[i++], &v[j]);
			if (!j--)
				break;
		}
		if (j != SIZE_MAX && k <= j)
			hi = j;
		else if (k >= i)
			lo = i;
		else
			break;
	}
	return v[k];
}

double bace_quantile(double *v, size_t n, double q)
{
	double at, x, next = INFINITY;
	size_t i;

	if (!n || !(q >= 0 && q <= 1))
		return NAN;
	at = (double)(n - 1) * q;
	i = (size_t)at;
	x = nth(v, n, i);
	for (size_t j = i + 1; j < n; j++)
		next = fmin(next, v[j]);
	return i + 1 < n ? x + (at - (double)i) * (next - x) : x;
}
