#include "shaper/delay/lateness.h"

#include <math.h>

#define SUB (1u << LATENESS_SUB_BITS)

static unsigned bucket_of(uint64_t ns)
{
	unsigned log2, i;

	if (ns < SUB)
		return (unsigned)ns;
	log2 = 63 - (unsigned)__builtin_clzll(ns);
	i = (log2 - LATENESS_SUB_BITS + 1) * SUB + (unsigned)(ns >> (log2 - LATENESS_SUB_BITS) & (SUB - 1));
	return i < LATENESS_BUCKETS ? i : LATENESS_BUCKETS - 1;
}

static int64_t upper_edge(unsigned i)
{
	unsigned shift;

	if (i < SUB)
		return i;
	shift = i / SUB - 1;
	return (int64_t)(((uint64_t)SUB + i % SUB + 1) << shift) - 1;
}

void lateness_add(struct lateness *l, int64_t ns)
{
	if (ns < 0)
		ns = 0;
	l->n++;
	l->buckets[bucket_of((uint64_t)ns)]++;
	if (ns > l->max_ns)
		l->max_ns = ns;
}

int64_t lateness_quantile_ns(const struct lateness *l, double q)
{
	uint64_t rank = (uint64_t)ceil(q * (double)l->n), seen = 0;

	for (unsigned i = 0; i < LATENESS_BUCKETS; i++) {
		seen += l->buckets[i];
		if (l->n && seen >= rank && seen) {
			int64_t edge = upper_edge(i);

			return edge < l->max_ns ? edge : l->max_ns;
		}
	}
	return 0;
}
