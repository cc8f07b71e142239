/* Jitter distributions as tables in netem's units, used by both delay backends. */
#ifndef SHAPER_JITTER_H
#define SHAPER_JITTER_H

#include "shaper/shaper.h"

#define JITTER_SCALE 8192	/* one standard deviation (or half range) */
#define JITTER_TABLE 4096

/* Entries of the inverse cumulative distribution in units of jitter /
 * JITTER_SCALE; static, computed once. NULL (and *n = 0) for JITTER_NONE. */
const int16_t *jitter_table(enum jitter_dist d, int *n);

#endif
