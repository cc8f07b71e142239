/* The lives of a worker: a rank of a pipeline, or one end of a probe. Return 0
 * or -errno with e filled; they send their own "done". */
#ifndef BACE_WORKER_RANK_H
#define BACE_WORKER_RANK_H

#include "workloads/worker/events.h"

int rank_run(const json_t *spec, struct commands *c, struct bace_err *e);
int probe_server(const json_t *spec, struct commands *c, struct bace_err *e);
int probe_client(const json_t *spec, struct commands *c, struct bace_err *e);

#endif
