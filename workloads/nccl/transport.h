/*
 * workloads/nccl: hops carried by NCCL, and computation on the GPU: what
 * bace-worker-nccl has beyond bace-worker. One communicator a job, one rank of it
 * a worker, configured not to block; everything is polled from the rank's loop by
 * a timer, so that a peer that is gone, or silent, is noticed by the deadlines
 * that hold for sockets too. (A host function on the stream would wake the loop
 * without polling, but holds the stream up, and says nothing when NCCL hangs; a
 * thread that spins would take the core that NCCL's own thread needs.)
 */
#ifndef BACE_NCCL_TRANSPORT_H
#define BACE_NCCL_TRANSPORT_H

#include "workloads/worker/mover.h"

extern const struct mover_ops nccl_mover;

/* Matrix products, repeated to an operation's duration. Durations come out as
 * they do on a GPU that may be shared; they are measured. */
int compute_cuda(const struct worker_spec *s, struct compute **out, struct bace_err *e);

#endif
