/*
 * Groups of NCCL calls on one stream: queued, issued one after another, carried
 * out in that order. Nothing here blocks; groups_poll is called until what was
 * queued has ended.
 */
#ifndef BACE_NCCL_GROUPS_H
#define BACE_NCCL_GROUPS_H

#include "workloads/nccl/calls.h"
#include "workloads/nccl/cuda.h"

#define GROUP_CALLS_MAX 4

struct group {
	int n;
	struct call calls[GROUP_CALLS_MAX];
	struct header headers[GROUP_CALLS_MAX];	/* of sends: filled by the caller; of receives: as received */
};

struct groups;

/* Allocates the GPU's buffers, a message each way for each nccl hop. */
int groups_create(const struct worker_spec *spec, struct groups **out, struct bace_err *e);
/* The communicator, borrowed, before the first group. */
void groups_use(struct groups *g, ncclComm_t comm);
/* Its kernels must have ended, or never been. */
void groups_destroy(struct groups *g);

int groups_add(struct groups *g, const struct group *group, struct bace_err *e);
/* Issues what can be issued now. */
int groups_issue(struct groups *g, struct bace_err *e);
/* Goes on. 1: the oldest group has ended and is in *done (call again), 0: nothing
 * yet, -errno: the error names the hop where it can. */
int groups_poll(struct groups *g, struct group *done, struct bace_err *e);

bool groups_idle(const struct groups *g);	/* all that was added has ended */
bool groups_issuing(const struct groups *g);	/* NCCL is still taking one */

#endif
