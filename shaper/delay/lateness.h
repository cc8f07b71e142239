/* Quantiles of non-negative times: log-linear buckets, 3 % wide. */
#ifndef SHAPER_DELAY_LATENESS_H
#define SHAPER_DELAY_LATENESS_H

#include "common/common.h"

#define LATENESS_SUB_BITS 5
#define LATENESS_BUCKETS (40 << LATENESS_SUB_BITS)

struct lateness {
	uint64_t n;
	int64_t max_ns;
	uint64_t buckets[LATENESS_BUCKETS];
};

void lateness_add(struct lateness *l, int64_t ns);	/* negative counts as 0 */
/* Upper edge of the bucket that holds the quantile, at most the maximum; 0 if empty. */
int64_t lateness_quantile_ns(const struct lateness *l, double q);

#endif
