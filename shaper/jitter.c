#include "shaper/jitter.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "profiles/names.h"

#define PARETO_A 3.0

static int16_t tables[JITTER_PARETONORMAL + 1][JITTER_ENTRIES];

static int16_t clamp(double v)
{
	return (int16_t)lround(fmin(fmax(v * JITTER_SCALE, INT16_MIN), INT16_MAX));
}

/* Inverse of the normal distribution function, by bisection: exact enough for
 * 16-bit entries and without constants to get wrong. */
static double normal_quantile(double p)
{
	double lo = -8, hi = 8;

	for (int i = 0; i < 60; i++) {
		double mid = (lo + hi) / 2;

		if (0.5 * erfc(-mid / M_SQRT2) < p)
			lo = mid;
		else
			hi = mid;
	}
	return (lo + hi) / 2;
}

/* Pareto with a = 3, centred and scaled to mean 0 as in iproute2's pareto.c. */
static double pareto_quantile(double p)
{
	return (pow(1 - p, -1 / PARETO_A) - 1.5) * (4.0 / 3.0);
}

/* iproute2's paretonormal: a quarter normal, three quarters pareto. */
static void fill(void)
{
	for (int i = 0; i < JITTER_ENTRIES; i++) {
		double p = (i + 0.5) / JITTER_ENTRIES;

		tables[JITTER_UNIFORM][i] = clamp(2 * p - 1);
		tables[JITTER_NORMAL][i] = clamp(normal_quantile(p));
		tables[JITTER_PARETO][i] = clamp(pareto_quantile(p));
		tables[JITTER_PARETONORMAL][i] = clamp(0.25 * normal_quantile(p) + 0.75 * pareto_quantile(p));
	}
}

const int16_t *jitter_table(enum jitter_dist d, int *n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (d == JITTER_NONE || d > JITTER_PARETONORMAL) {
		*n = 0;
		return NULL;
	}
	pthread_once(&once, fill);
	*n = JITTER_ENTRIES;
	return tables[d];
}

const int16_t *jitter_of_link(const struct shape_spec *s, const struct shape_link *l, int *n)
{
	const struct jitter_table *t;

	if (!l->jitter_ns || l->jitter_dist != JITTER_TABLE)
		return jitter_table(l->jitter_ns ? l->jitter_dist : JITTER_NONE, n);
	t = &s->tables[l->jitter_table];
	*n = t->n;
	return t->v;
}

bool jitter_is_same(const struct shape_spec *s, const struct shape_link *l, const struct shape_spec *t, const struct shape_link *m)
{
	int n_l, n_m;
	const int16_t *a = jitter_of_link(s, l, &n_l), *b = jitter_of_link(t, m, &n_m);

	return n_l == n_m && (a == b || !memcmp(a, b, (size_t)n_l * sizeof(*a)));
}

const char *jitter_tc_name(const struct shape_spec *s, const struct shape_link *l)
{
	if (!l->jitter_ns || l->jitter_dist == JITTER_NONE || l->jitter_dist == JITTER_UNIFORM)
		return NULL;
	return l->jitter_dist == JITTER_TABLE ? s->tables[l->jitter_table].name : jitter_names[l->jitter_dist];
}
