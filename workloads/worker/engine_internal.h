/* Shared by engine.c and engine_life.c only. */
#ifndef BACE_WORKER_ENGINE_INTERNAL_H
#define BACE_WORKER_ENGINE_INTERNAL_H

#include "workloads/worker/engine.h"

struct arrival {
	struct message m;
	int64_t first, at;
};

/* One direction of one hop, at its receiving end here. */
struct inbox {
	struct arrival *v;		/* ring */
	uint32_t head, tail, cap;	/* cap: power of two */
	int64_t link_free;		/* local hops */
};

struct stage {
	const struct worker_stage_spec *spec;
	int slot;			/* index into spec->stages */
	struct schedule_iter it;
	struct op op;			/* running, or the next */
	int step;			/* of op, from 0 */
	bool more, running;
	int64_t free_at;
	int ended, passed, tokens;	/* steps ended, tokens passed on, tokens received */
	int64_t ended_at, token_at;
	struct step_record *record;	/* of the current step */
};

struct engine {
	const struct worker_spec *spec;
	struct engine_io io;
	struct compute *compute;
	struct stage *stages;
	struct inbox *fwd, *rev;	/* [spec->n_hops] */
	int64_t *out_free;		/* [2 * spec->n_hops]: when what was sent has left; forward first */
	int *hop_at;			/* [schedule.stages]: index into spec->hops, or -1 */
	int *stage_at;			/* [schedule.stages]: index into stages, or -1 */
	int n_left;			/* stages that have not passed their last token */
	bool going;
	int stretch_ppm;
	struct timeline timeline;
};

static inline int total_steps(const struct engine *en)
{
	return en->spec->warmup_steps + en->spec->steps;
}

static inline bool wraps(const struct engine *en)
{
	return en->spec->schedule.kind == SCHED_INTERLEAVED_1F1B;
}

static inline int last_stage(const struct engine *en)
{
	return en->spec->schedule.stages - 1;
}

/* Hop number that brings an operation its input; -1: none needed. */
int engine_input_hop(const struct engine *en, int stage, const struct op *op);
void engine_begin_step(struct engine *en, struct stage *st);

#endif
