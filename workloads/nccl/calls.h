/*
 * The order in which a rank calls NCCL. A communicator's calls are carried out
 * in the order in which they were made, group after group, and a group is over
 * when all in it is: so a receive may not be posted before a send that could be
 * ready earlier. The order follows from the schedule alone: for each operation
 * the receive of its input, then the send of its output; at the end of a step
 * the token's. A group is a send and the receive that follows it next.
 *
 * Every receive is thus posted as early as it can be without holding up a send,
 * and the receive of each end's steady state stands in one group with the send
 * that the other end waits for. Pure.
 */
#ifndef BACE_NCCL_CALLS_H
#define BACE_NCCL_CALLS_H

#include "workloads/worker/message.h"

struct call {
	bool send;
	int hop;			/* index into spec->hops */
	enum message_kind kind;
	int32_t step, micro_batch;	/* step < 0: warm-up */
	uint8_t chunk;			/* of the sender; not known of a receive: 0 */
};

/* An iterator: O(1) memory, no allocation. Only hops of kind nccl are in it. */
struct calls {
	const struct worker_spec *spec;
	struct schedule_iter it;
	int step;			/* from 0 */
	struct call next[2];
	int n, i;			/* of next */
	int8_t hop_at[2];		/* index into spec->hops of hop stage - 1, hop stage; -1: not nccl */
};

/* spec plays one stage; borrowed. */
void calls_begin(struct calls *c, const struct worker_spec *spec);
bool calls_next(struct calls *c, struct call *out);

/* Rank, which is the stage, at the other end of a hop. */
int calls_peer(const struct worker_spec *spec, int hop);

#endif
