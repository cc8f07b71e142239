/* A pipeline's timeline as an SVG chart. */
#ifndef BACE_CMD_GANTT_H
#define BACE_CMD_GANTT_H

#include "harness/sim/sim.h"

#define GANTT_MAX_OPS 50000	/* beyond this nothing can be told apart */

/* Collects a timeline: on_op of a pipeline_result, with the gantt as its arg. */
struct gantt {
	struct timeline_op *v;
	size_t n, cap;
	bool failed;			/* out of memory */
};

void gantt_on_op(void *gantt, const struct timeline_op *op);
int gantt_write(const struct gantt *g, const struct pipeline *p, const struct pipeline_result *r,
		const char *path, struct bace_err *e);
void gantt_free(struct gantt *g);

#endif
