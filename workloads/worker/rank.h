/* The lives of a worker: a rank of a pipeline, or one end of a probe. Return 0
 * or -errno with e filled; they send their own "done". */
#ifndef BACE_WORKER_RANK_H
#define BACE_WORKER_RANK_H

#include "workloads/worker/events.h"
#include "workloads/worker/mover.h"

int rank_run(const json_t *spec, struct commands *c, const struct rank_kinds *kinds, struct bace_err *e);
int probe_server(const json_t *spec, struct commands *c, struct bace_err *e);
int probe_client(const json_t *spec, struct commands *c, struct bace_err *e);

/* All of main but its name and what it can. Returns the exit status. */
int worker_main(int argc, char **argv, const char *program, const struct rank_kinds *kinds);

#endif
