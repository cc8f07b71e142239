/* The "done" event of a rank. */
#ifndef BACE_WORKER_REPORT_H
#define BACE_WORKER_REPORT_H

#include "workloads/worker/hop.h"

int report_done(const struct worker_spec *s, const struct engine *en, struct hop_conn *conns,
		int64_t started, struct bace_err *e);

#endif
