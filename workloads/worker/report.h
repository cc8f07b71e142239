/* The "done" event of a rank. */
#ifndef BACE_WORKER_REPORT_H
#define BACE_WORKER_REPORT_H

#include "workloads/worker/engine.h"
#include "workloads/worker/flows.h"

/* flows: of all hops; more: an object whose members are added; started: when this
 * rank began. */
int report_done(const struct engine *en, const json_t *flows, const json_t *more, int64_t started,
		struct bace_err *e);

#endif
