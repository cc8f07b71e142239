/* Private to results: the causes of a placement's slow messages. */
#ifndef BACE_RESULTS_SLOW_H
#define BACE_RESULTS_SLOW_H

#include "results/causes.h"
#include "results/timeline.h"

/* Splits what timeline_path charged to messages of t (replayed) into causes;
 * testbed seconds, over all steps of t. */
int timeline_causes(struct store *s, int64_t placement, struct timeline *t, double part[SLOW_CAUSES], struct bace_err *e);

#endif
