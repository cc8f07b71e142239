/* Private to the pipeline simulators: who sends what to whom. */
#ifndef BACE_SIM_PIPELINE_INTERNAL_H
#define BACE_SIM_PIPELINE_INTERNAL_H

#include "harness/sim/sim.h"

/* Schedule, times and activation limit. -EINVAL or -E2BIG, naming the figure. */
int pipeline_check(const struct pipeline *p, struct bace_err *err);

static inline int pipeline_chunks(const struct pipeline *p)
{
	return p->schedule.kind == SCHED_INTERLEAVED_1F1B ? p->schedule.chunks : 1;
}

/* Hop i joins stages i and (i + 1) % n; only interleaved has the n-th. */
static inline int pipeline_hops(const struct pipeline *p)
{
	return p->schedule.kind == SCHED_INTERLEAVED_1F1B ? p->schedule.stages : p->schedule.stages - 1;
}

/* A channel is one direction of a hop: hop i forward is channel 2i, reverse
 * 2i + 1. -1: the operation has no input (output) from another operation of
 * another stage. */
static inline int input_channel(int n, int chunks, int stage, const struct op *op)
{
	if (op->kind == OP_FORWARD) {
		if (stage > 0)
			return 2 * (stage - 1);
		return op->chunk > 0 ? 2 * (n - 1) : -1;
	}
	if (op->kind != OP_BACKWARD)
		return -1;
	if (stage < n - 1)
		return 2 * stage + 1;
	return op->chunk < chunks - 1 ? 2 * (n - 1) + 1 : -1;
}

static inline int output_channel(int n, int chunks, int stage, const struct op *op)
{
	if (op->kind == OP_FORWARD) {
		if (stage < n - 1)
			return 2 * stage;
		return op->chunk < chunks - 1 ? 2 * (n - 1) : -1;
	}
	if (op->kind != OP_BACKWARD)
		return -1;
	if (stage > 0)
		return 2 * (stage - 1) + 1;
	return op->chunk > 0 ? 2 * (n - 1) + 1 : -1;
}

/* A message's way: end of the operation that made it, last bit on the link, at
 * the receiver. */
struct message {
	double made, left, arrives;
};

static inline double later(double a, double b)
{
	return a > b ? a : b;
}

/* Between two times that never come, behind a dead link, nothing lies. */
static inline double span(double from, double to)
{
	return to == from ? 0 : to - from;
}

/* What a stage that was ready at `ready` waited for until the message came. */
static inline struct wait_split wait_for(double ready, const struct message *m)
{
	double made = later(ready, m->made), left = later(ready, m->left);

	return (struct wait_split){ .compute = span(ready, made), .serialisation = span(made, left),
				    .latency = span(left, later(ready, m->arrives)) };
}

#endif
