/* Address prefixes: whose they are, look-up. Private to the shaper. */
#ifndef SHAPER_PREFIX_H
#define SHAPER_PREFIX_H

#include "shaper/shaper.h"

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
