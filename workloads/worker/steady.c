#include "workloads/worker/steady.h"

#include <stdlib.h>

#define CAP (STEADY_STEPS_MAX + 1)

void steady_begin_step(struct steady *s, int64_t at)
{
	s->begun[s->n++ % CAP] = at;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

bool steady_reached(const struct steady *s, int k, int ppm)
{
	int64_t v[STEADY_STEPS_MAX];
	double median;

	if (k < 1 || s->n <= k)
		return false;
	for (int i = 0; i < k; i++) {
		int end = s->n - 1 - i;

		v[i] = s->begun[end % CAP] - s->begun[(end - 1) % CAP];
	}
	qsort(v, (size_t)k, sizeof(*v), by_value);
	median = k % 2 ? (double)v[k / 2] : ((double)v[k / 2 - 1] + (double)v[k / 2]) / 2;
	return median - (double)v[0] <= median * ppm / 1e6 && (double)v[k - 1] - median <= median * ppm / 1e6;
}
