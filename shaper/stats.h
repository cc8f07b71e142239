/* Read-out of classes, delay queues and the delay line. Private to the shaper. */
#ifndef SHAPER_STATS_H
#define SHAPER_STATS_H

#include "shaper/kernel.h"

struct delay_line;

struct stats_counters {
	uint64_t bytes, packets;
	uint32_t drops, backlog;
};

/* TCA_STATS2 of a class or qdisc. -EBADMSG: there is none. */
int stats_parse(const struct nlmsghdr *nlh, struct stats_counters *c);

/* One entry a link of the spec, in its order. `line` may be NULL. */
int stats_read(struct netlink *nl, const struct shape_spec *spec, struct delay_line *line,
	       struct shape_stats *out, struct bace_err *e);

#endif
