/* When has a pipeline settled? Pure. */
#ifndef BACE_WORKER_STEADY_H
#define BACE_WORKER_STEADY_H

#include "common/common.h"

#define STEADY_STEPS_MAX 64

/* The last step times, of one stage. */
struct steady {
	int n;				/* steps begun */
	int64_t begun[STEADY_STEPS_MAX + 1];	/* ring: step i at i % (MAX + 1) */
};

void steady_begin_step(struct steady *s, int64_t at);
/* Is each of the last k whole steps (k <= STEADY_STEPS_MAX) within ppm millionths
 * of their median? False while there are fewer. */
bool steady_reached(const struct steady *s, int k, int ppm);

#endif
