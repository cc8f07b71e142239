/* What must not be shaped without being asked twice. Private to the shaper. */
#ifndef SHAPER_GUARD_H
#define SHAPER_GUARD_H

#include "shaper/kernel.h"

/* Is it up, and not the slave of a bond or team? */
int guard_check_usable(const struct if_info *i, struct bace_err *e);
/* Does a default route leave by it? */
int guard_check_default_route(struct netlink *nl, const struct if_info *i, struct bace_err *e);
/* By which interface does this machine reach `addr` (text, either family)?
 * *ifindex = 0: no route. */
int guard_route_interface(struct netlink *nl, const char *addr, int *ifindex, struct bace_err *e);
/* Does this process stand in the machine's own network namespace (that of PID 1)?
 * True also where it cannot tell. */
bool guard_is_machine_namespace(void);

#endif
