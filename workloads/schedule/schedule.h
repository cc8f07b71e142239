/*
 * workloads/schedule: one definition of every pipeline schedule, shared by the
 * worker that executes it and the simulator that predicts it. Pure.
 *
 * A pipeline has `stages` physical stages, `chunks` model chunks a stage (1
 * unless interleaved) and `micro_batches` micro-batches. Virtual stage
 * v = chunk * stages + stage; activations go from v to v+1, gradients back.
 */
#ifndef BACE_SCHEDULE_H
#define BACE_SCHEDULE_H

#include "common/common.h"
#include "profiles/profiles.h"

enum op_kind { OP_FORWARD, OP_BACKWARD, OP_WEIGHT };

struct op {
	uint8_t kind;		/* enum op_kind */
	uint8_t chunk;		/* 0 unless interleaved */
	int32_t micro_batch;
};

struct schedule_spec {
	enum schedule_kind kind;
	int stages;
	int micro_batches;
	int chunks;		/* v; 1 unless interleaved */
};

/*
 * Sources. gpipe: Huang et al., arXiv 1811.06965, backwards in the order of the
 * forwards. 1f1b and interleaved-1f1b: Narayanan et al., arXiv 2104.04473, in
 * Megatron-LM's order. eager-1f1b: 1f1b with 2(p-1-i) forwards before the first
 * backward of stage i. zb-h1: Qi et al., arXiv 2401.10241; stage i does W(j)
 * after B(j+i).
 */

/* -EINVAL with what is allowed: p >= 1, m >= 1, interleaved needs m % p == 0 and v >= 2. */
int schedule_check(const struct schedule_spec *s, struct bace_err *e);

/* Operations of one stage, in order. An iterator: O(1) memory, no allocation. */
struct schedule_iter {
	struct schedule_spec spec;
	int stage;
	int64_t i, n;		/* next operation, operations in all */
	int64_t state[4];	/* the generator's own */
};

void schedule_begin(struct schedule_iter *it, const struct schedule_spec *s, int stage);
bool schedule_next(struct schedule_iter *it, struct op *out);

/* Number of operations of a stage in one step. */
int64_t schedule_n_ops(const struct schedule_spec *s, int stage);
/* Peak number of activations (micro-batch x chunk) that stage holds between
 * their forward and their backward. What zb-h1 keeps on for W is not counted:
 * with it every stage holds at most what stage 0 does. */
int schedule_live_activations(const struct schedule_spec *s, int stage);

/* The hop that brings an operation its input, or takes its output away; -1: none.
 * Hop h joins stages h and h + 1; interleaved has one more, from the last stage
 * to the first. */
int schedule_input_hop(const struct schedule_spec *s, int stage, const struct op *op);
int schedule_output_hop(const struct schedule_spec *s, int stage, const struct op *op);

/* The part of a whole backward that is W, the gradient of the weights, which
 * zb-h1 does apart. Weights and inputs cost one forward each; with full
 * recomputation B does the forward again as well. */
static inline double schedule_weight_share(bool recompute)
{
	return recompute ? 1.0 / 3 : 1.0 / 2;
}

#endif
