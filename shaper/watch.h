/*
 * Notices when somebody else changes tc state or takes an interface away, by
 * rtnetlink's notifications. Private to the shaper.
 */
#ifndef SHAPER_WATCH_H
#define SHAPER_WATCH_H

#include "shaper/netlink.h"

struct watch {
	struct netlink nl;	/* nl.sock NULL: not open */
	bool joined;
};

int watch_open(struct watch *w, struct bace_err *e);
void watch_close(struct watch *w);
int watch_fd(const struct watch *w);
/* Our own plan of ten thousand rules need not be told to us rule by rule. */
void watch_pause(struct watch *w);
int watch_resume(struct watch *w, struct bace_err *e);
/* Reads all that waits. Did anybody but `own_portid` change something on one of
 * the interfaces? True too when notifications were lost. */
bool watch_read(struct watch *w, unsigned own_portid, const int *ifindex, int n);
/* Is this message one of those? Pure. */
bool watch_concerns(const struct nlmsghdr *nlh, unsigned own_portid, const int *ifindex, int n);

#endif
