/* Address prefixes: comparison and look-up. Private to the shaper. */
#ifndef SHAPER_PREFIX_H
#define SHAPER_PREFIX_H

#include "shaper/shaper.h"

/* Family, length and no bits beyond the length. */
int shape_prefix_check(const struct shape_prefix *p, struct bace_err *e);
bool shape_prefix_bit(const struct shape_prefix *p, unsigned bit);
/* By family, address, length: a covering prefix sorts before what it covers. */
int shape_prefix_cmp(const struct shape_prefix *a, const struct shape_prefix *b);
bool shape_prefix_covers(const struct shape_prefix *p, uint8_t family, const uint8_t *addr);

/* A prefix and the link that it belongs to. */
struct prefix_owner {
	struct shape_prefix prefix;
	int link;		/* index into shape_spec.links */
};

/* All prefixes of a spec, sorted; refuses overlaps between links and drops
 * what another prefix of the same link covers. Free *out with free(). */
int prefix_owners(const struct shape_spec *s, struct prefix_owner **out, size_t *n, struct bace_err *e);
/* Look-up in the sorted, disjoint array: index into links, or -1. */
int prefix_lookup(const struct prefix_owner *v, size_t n, uint8_t family, const uint8_t *addr);

#endif
