/*
 * The one netfilter rule that sends packets from other regions to the delay
 * line: a chain of our own, jumped to from mangle PREROUTING, written by one
 * iptables-restore per address family. Private to the shaper.
 */
#ifndef SHAPER_DELAY_RULES_H
#define SHAPER_DELAY_RULES_H

#include "shaper/shaper.h"

/* Of a legacy table; all 0: not known. */
struct rules_mark {
	unsigned entries, bytes;
};

struct delay_family {
	bool installed;
	int n_rules;			/* in our chain */
	struct rules_mark mark;		/* of the table as we left it */
};

struct delay_rules {
	struct delay_family v4, v6;
	char ifname[IFNAMSIZ];		/* of the jump */
	uint64_t digest;		/* of the text that was installed */
};

static inline bool delay_rules_installed(const struct delay_rules *r)
{
	return r->v4.installed || r->v6.installed;
}

/* Puts or updates the rules; removes leftovers of an earlier process first, and
 * puts them again if somebody took them away. *n_changes (may be NULL) is raised if
 * they did not stand as they are to. */
int delay_rules_install(struct delay_rules *r, const struct shape_spec *s, size_t *n_changes, struct bace_err *e);
/* Does what was installed still stand? 1; 0: no, and r no longer says so; -errno. */
int delay_rules_stand(struct delay_rules *r, struct bace_err *e);
int delay_rules_remove(struct delay_rules *r, struct bace_err *e);
/* Removes rules that another, dead process left behind. */
int delay_rules_clear_leftovers(struct bace_err *e);

/* Pure: in iptables-save's words, the jump, and so many rules in our chain? */
bool delay_rules_in(const char *saved, const char *ifname, int n_rules);

/* Entries and size of the family's legacy mangle table, which is made if there is none. */
int rules_mark_read(uint8_t family, struct rules_mark *m);

/* The text for one family, pure: chain, jump (if `jump`) and one rule per
 * prefix, or one for all when there are many. */
int delay_rules_text(const struct shape_spec *s, uint8_t family, bool jump, struct bace_buf *out);

#endif
