/*
 * The one netfilter rule that sends packets from other regions to the delay
 * line: a chain of our own, jumped to from mangle PREROUTING, written by one
 * iptables-restore per address family. Private to the shaper.
 */
#ifndef SHAPER_DELAY_RULES_H
#define SHAPER_DELAY_RULES_H

#include "shaper/shaper.h"

struct delay_rules {
	bool v4, v6;			/* installed */
	char ifname[IFNAMSIZ];		/* of the jump */
	uint64_t digest;		/* of the text that was installed */
};

/* Puts or updates the rules; removes leftovers of an earlier process first. */
int delay_rules_install(struct delay_rules *r, const struct shape_spec *s, struct bace_err *e);
int delay_rules_remove(struct delay_rules *r, struct bace_err *e);
/* Removes rules that another, dead process left behind. */
int delay_rules_clear_leftovers(struct bace_err *e);

/* The text for one family, pure: chain, jump (if `jump`) and one rule per
 * prefix, or one for all when there are many. */
int delay_rules_text(const struct shape_spec *s, uint8_t family, bool jump, struct bace_buf *out);

#endif
