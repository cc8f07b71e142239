/* Jitter distributions as tables in netem's units, used by both delay backends. */
#ifndef SHAPER_JITTER_H
#define SHAPER_JITTER_H

#include "shaper/shaper.h"

#define JITTER_SCALE 8192	/* one standard deviation (or half range) */
#define JITTER_ENTRIES 4096	/* of a table that we compute */

/* Entries of the inverse cumulative distribution in units of jitter /
 * JITTER_SCALE; static, computed once. NULL (and *n = 0) for JITTER_NONE. */
const int16_t *jitter_table(enum jitter_dist d, int *n);
/* The table of a link with jitter, also where it is from a file: then the spec's. */
const int16_t *jitter_of_link(const struct shape_spec *s, const struct shape_link *l, int *n);
/* Do two links, each of its spec, have the same distribution? */
bool jitter_is_same(const struct shape_spec *s, const struct shape_link *l, const struct shape_spec *t, const struct shape_link *m);
/* What tc calls it: "normal", or the name of the file; NULL: tc does without a table. */
const char *jitter_tc_name(const struct shape_spec *s, const struct shape_link *l);

#endif
