#include "harness/policy/hampath.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

static double join(const struct hampath *h, double edge, double rest)
{
	return h->bottleneck ? fmax(edge, rest) : edge + rest;
}

static double *cell(const struct hampath *h, uint32_t set, int start)
{
	return &h->cost[(size_t)set * (size_t)h->n + (size_t)start];
}

int hampath_solve(struct hampath *h, int n, const double *w, bool bottleneck)
{
	if (n > h->cap) {
		double *cost = realloc(h->cost, sizeof(*cost) * ((size_t)n << n));

		if (!cost)
			return -ENOMEM;
		h->cost = cost;
		h->cap = n;
	}
	h->n = n;
	h->w = w;
	h->bottleneck = bottleneck;
	for (uint32_t set = 1; set < 1u << n; set++) {
		for (int j = 0; j < n; j++) {
			uint32_t rest = set & ~(1u << j);
			double best = INFINITY;

			if (rest == set)
				continue;
			if (!rest)
				best = 0;
			for (uint32_t s = rest; s; s &= s - 1) {
				int i = __builtin_ctz(s);

				best = fmin(best, join(h, w[j * n + i], *cell(h, rest, i)));
			}
			*cell(h, set, j) = best;
		}
	}
	return 0;
}

double hampath_cost(const struct hampath *h, uint32_t set)
{
	double best = INFINITY;

	for (uint32_t s = set; s; s &= s - 1)
		best = fmin(best, *cell(h, set, __builtin_ctz(s)));
	return best;
}

void hampath_path(const struct hampath *h, uint32_t set, int *out)
{
	double target = hampath_cost(h, set);
	int at = -1;

	for (int len = 0; set; len++) {
		for (uint32_t s = set; s; s &= s - 1) {
			int i = __builtin_ctz(s);
			double c = *cell(h, set, i);

			if (at >= 0)
				c = join(h, h->w[at * h->n + i], c);
			if (c > target)
				continue;
			/* A bottleneck may be spent anywhere; a sum must be met exactly. */
			if (!h->bottleneck)
				target = *cell(h, set, i);
			at = out[len] = i;
			break;
		}
		set &= ~(1u << at);
	}
}

void hampath_free(struct hampath *h)
{
	free(h->cost);
	*h = (struct hampath){ 0 };
}
