/*
 * What the delay line knows of its links: everything that follows from a spec,
 * replaced as a whole by the next. Private to the delay line.
 */
#ifndef SHAPER_DELAY_LINK_SET_H
#define SHAPER_DELAY_LINK_SET_H

#include "shaper/delay/fate.h"
#include "shaper/delay/line.h"
#include "shaper/delay/schedule.h"
#include "shaper/prefix.h"

struct link_set {
	int n_links;
	uint16_t *regions;
	struct fate *fates;
	struct delay_link_stat *stats;
	size_t n_owners;
	struct prefix_owner *owners;
	struct delay_schedule schedule;
	struct shape_spec tables;	/* no links: what jitter is drawn from */
};

struct link_set *link_set_new(const struct shape_spec *s, struct bace_err *e);
void link_set_free(struct link_set *ls);	/* NULL is allowed */
/* Index of the link of this region, or -1; `ls' may be NULL. */
int link_set_find(const struct link_set *ls, uint16_t region);
/* Parameters of all links of `to', made for s; random states, counters and held
 * packets of regions that stay come from `from' (may be NULL). */
int link_set_carry_over(struct link_set *from, struct link_set *to, const struct shape_spec *s);
void link_set_configure(struct link_set *ls, int i, const struct shape_link *l, bool fresh);

#endif
