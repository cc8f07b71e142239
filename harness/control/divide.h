/* Private to harness/control: the capacity of links that hosts share. */
#ifndef BACE_CONTROL_DIVIDE_H
#define BACE_CONTROL_DIVIDE_H

#include "harness/control/internal.h"

/* After the hosts, before the loop runs. */
int divider_init(struct controller *c, struct bace_err *e);
void divider_free(struct controller *c);
/* How many hosts of `src` shape the link to `dst`: they share its capacity, of
 * which the plan of each has an even part. */
int divider_sharers(const struct controller *c, int src, int dst);
/* Does it share a link? */
bool divider_watches(const struct host *h);
/* Adds to what the agent is asked to sample what the division needs. */
void divider_wants(const struct host *h, struct tb_monitor *m);
/* Its plan is in force, anew. */
void divider_planned(struct host *h);

#endif
