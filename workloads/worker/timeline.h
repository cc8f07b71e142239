/* What happened when: buffers that are allocated, and their pages touched,
 * before time counts. Adding is a few stores. */
#ifndef BACE_WORKER_TIMELINE_H
#define BACE_WORKER_TIMELINE_H

#include "workloads/worker/worker.h"

struct op_record {
	int32_t stage, step, micro_batch;	/* step < 0: warm-up */
	uint8_t kind;			/* enum worker_op_kind */
	uint8_t chunk;
	int64_t start, end, third;	/* worker.h says what they are */
};

struct step_record {
	int32_t stage, step;
	int64_t start, end, compute;
};

struct timeline {
	struct op_record *ops;
	size_t n_ops, cap_ops;
	struct step_record *steps;
	size_t n_steps, cap_steps;
	bool sends;			/* are wanted */
};

int timeline_init(struct timeline *t, const struct worker_spec *s, struct bace_err *e);
void timeline_free(struct timeline *t);
void timeline_add(struct timeline *t, const struct op_record *op);

#endif
