/* What NCCL reads from its environment, set before it is first called. */
#ifndef BACE_NCCL_ENV_H
#define BACE_NCCL_ENV_H

#include <net/if.h>

#include "workloads/worker/worker.h"

/* Keeps NCCL on kernel sockets of the interface that has spec->nccl.addr, makes
 * this rank a host of its own, and lets it write its log to fd. Settings of
 * NCCL's that were in the environment, or in the user's file, are dropped; what
 * /etc/nccl.conf has is warned of. */
int nccl_env_set(const struct worker_spec *spec, int log_fd, char ifname[IF_NAMESIZE], struct bace_err *e);

#endif
