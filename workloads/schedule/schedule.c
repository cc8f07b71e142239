#include "workloads/schedule/schedule.h"

#include <errno.h>
#include <limits.h>

/* state[]: forwards, backwards and weight operations done, and how many
 * forwards beyond the backwards a stage may be (its warm-up). */
enum { DONE_F, DONE_B, DONE_W, WARM };

#define CHUNKS_MAX 255		/* struct op */

int schedule_check(const struct schedule_spec *s, struct bace_err *e)
{
	if ((unsigned)s->kind > SCHED_ZB_H1)
		return bace_fail(e, EINVAL, "schedule %d: there is none of that number", (int)s->kind);
	if (s->stages < 1)
		return bace_fail(e, EINVAL, "stages = %d: must be at least 1", s->stages);
	if (s->micro_batches < 1)
		return bace_fail(e, EINVAL, "micro-batches = %d: must be at least 1", s->micro_batches);
	if (s->kind != SCHED_INTERLEAVED_1F1B) {
		if (s->chunks > 1)
			return bace_fail(e, EINVAL, "chunks = %d: only interleaved-1f1b has more than 1",
					 s->chunks);
		return 0;
	}
	if (s->chunks < 2 || s->chunks > CHUNKS_MAX)
		return bace_fail(e, EINVAL, "chunks = %d: interleaved-1f1b needs 2 to %d", s->chunks,
				 CHUNKS_MAX);
	if (s->micro_batches % s->stages)
		return bace_fail(e, EINVAL, "micro-batches = %d: interleaved-1f1b needs a multiple of "
				 "the %d stages", s->micro_batches, s->stages);
	if ((int64_t)s->micro_batches * s->chunks > INT_MAX)
		return bace_fail(e, EINVAL, "micro-batches = %d with %d chunks: too many",
				 s->micro_batches, s->chunks);
	return 0;
}

static int chunks_of(const struct schedule_spec *s)
{
	return s->kind == SCHED_INTERLEAVED_1F1B ? s->chunks : 1;
}

/* Forwards before the first forward that a backward follows. */
static int64_t warm_up(const struct schedule_spec *s, int stage)
{
	int64_t all = (int64_t)s->micro_batches * chunks_of(s), after = s->stages - 1 - stage, warm;

	switch (s->kind) {
	case SCHED_GPIPE:
		warm = all;
		break;
	case SCHED_EAGER_1F1B:
		warm = 2 * after;
		break;
	case SCHED_INTERLEAVED_1F1B:
		warm = 2 * after + (int64_t)(s->chunks - 1) * s->stages;
		break;
	default:
		warm = after;
	}
	return warm < all ? warm : all;
}

void schedule_begin(struct schedule_iter *it, const struct schedule_spec *s, int stage)
{
	*it = (struct schedule_iter){ .spec = *s, .stage = stage, .n = schedule_n_ops(s, stage) };
	it->state[WARM] = warm_up(s, stage);
}

/* The k-th forward or backward of an interleaved stage: p micro-batches of one
 * chunk, then p of the next; groups of p micro-batches one after the other. */
static void interleave(const struct schedule_spec *s, int64_t k, bool backward, struct op *out)
{
	int64_t p = s->stages, group = p * s->chunks, chunk = k % group / p;

	out->chunk = (uint8_t)(backward ? s->chunks - 1 - chunk : chunk);
	out->micro_batch = (int32_t)(k / group * p + k % p);
}

bool schedule_next(struct schedule_iter *it, struct op *out)
{
	const struct schedule_spec *s = &it->spec;
	int64_t *done = it->state, all = (int64_t)s->micro_batches * chunks_of(s), k;
	bool zb = s->kind == SCHED_ZB_H1;

	if (it->i == it->n)
		return false;
	it->i++;
	if (zb && done[DONE_W] < done[DONE_B] - it->stage) {
		out->kind = OP_WEIGHT;
		k = done[DONE_W]++;
	} else if (done[DONE_F] < all && done[DONE_F] - done[DONE_B] <= done[WARM]) {
		out->kind = OP_FORWARD;
		k = done[DONE_F]++;
	} else if (done[DONE_B] < all) {
		out->kind = OP_BACKWARD;
		k = done[DONE_B]++;
	} else {
		out->kind = OP_WEIGHT;
		k = done[DONE_W]++;
	}
	out->chunk = 0;
	out->micro_batch = (int32_t)k;
	if (s->kind == SCHED_INTERLEAVED_1F1B)
		interleave(s, k, out->kind == OP_BACKWARD, out);
	return true;
}

int64_t schedule_n_ops(const struct schedule_spec *s, int stage)
{
	int64_t all = (int64_t)s->micro_batches * chunks_of(s);

	return s->kind == SCHED_ZB_H1 ? 3 * all : 2 * all;
}

int schedule_live_activations(const struct schedule_spec *s, int stage)
{
	int64_t all = (int64_t)s->micro_batches * chunks_of(s), live = warm_up(s, stage) + 1;

	return (int)(live < all ? live : all);
}

int schedule_input_hop(const struct schedule_spec *s, int stage, const struct op *op)
{
	bool wraps = s->kind == SCHED_INTERLEAVED_1F1B;
	int last = s->stages - 1;

	if (op->kind == OP_FORWARD)
		return stage > 0 ? stage - 1 : wraps && op->chunk > 0 ? last : -1;
	if (op->kind != OP_BACKWARD)
		return -1;
	return stage < last ? stage : wraps && op->chunk < s->chunks - 1 ? last : -1;
}

int schedule_output_hop(const struct schedule_spec *s, int stage, const struct op *op)
{
	bool wraps = s->kind == SCHED_INTERLEAVED_1F1B;
	int last = s->stages - 1;

	if (op->kind == OP_FORWARD)
		return stage < last ? stage : wraps && op->chunk < s->chunks - 1 ? last : -1;
	if (op->kind != OP_BACKWARD)
		return -1;
	return stage > 0 ? stage - 1 : wraps && op->chunk > 0 ? last : -1;
}
