/* Private to harness/run: the testbed of a run, a lab or real hosts. */
#ifndef BACE_RUN_BED_H
#define BACE_RUN_BED_H

#include "harness/launch/launch.h"

struct bed;

struct bed_config {
	struct testbed_config lab;		/* of either: experiment, traffic, progress */
	const struct experiment *exp;
	const struct launch_options *launch;	/* NULL: a lab */
};

int bed_open(const struct bed_config *cfg, struct bed **out, struct bace_err *e);
void bed_close(struct bed *b);			/* NULL is allowed */
int bed_run(struct bed *b, const struct tb_cell *cell, struct tb_result *out, struct bace_err *e);
int bed_verify(struct bed *b, int n, struct tb_verify *pairs, double goodput_s, struct bace_err *e);
/* controller_look. */
int bed_look(struct bed *b, double seconds, struct tb_view_link *out, struct bace_err *e);
int bed_inventory(struct bed *b, char **json, struct bace_err *e);
const struct lab_net *bed_net(const struct bed *b);
/* launched_lacks; nothing of a lab. */
const char *bed_lacks(const struct bed *b, size_t i);
/* The last lines of a lab's log, for a failure's report; "" of real hosts, whose
 * errors carry their own. */
const char *bed_log_tail(const struct bed *b);

#endif
