/* The "done" event of a rank. */
#ifndef BACE_WORKER_REPORT_H
#define BACE_WORKER_REPORT_H

#include "workloads/worker/engine.h"
#include "workloads/worker/flows.h"

/* started: when this rank began. */
int report_done(const struct engine *en, const struct flows *f, int64_t started, struct bace_err *e);

#endif
