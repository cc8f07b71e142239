/* Shared by engine.c and engine_life.c only. */
#ifndef BACE_WORKER_ENGINE_INTERNAL_H
#define BACE_WORKER_ENGINE_INTERNAL_H

#include "workloads/worker/engine.h"
#include "workloads/worker/steady.h"

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

/* The all-reduce that ends a step. In turn a round is sent and one received; `at':
 * when the next can be sent or, after the last, the step ends. */
struct reduce {
	bool active;
	int sent, received;
	int64_t at;
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
	int ring_out, ring_in;		/* index into spec->hops; -1: no ring */
	struct reduce reduce;
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
	int n_reducing;			/* stages */
	bool going;
	int stretch_ppm;
	int skipped;			/* warm-up steps */
	struct steady steady;		/* of stage 0, if it is here */
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
/* The stage leaves the rest of the warm-up out. */
void engine_skip_warmup(struct engine *en, struct stage *st);
/* The stage has ended the step's operations and its all-reduce. */
int engine_end_step(struct engine *en, struct stage *st, struct bace_err *e);
/* Starts the stage's next operation if its input is there. */
int engine_try_start(struct engine *en, struct stage *st, struct bace_err *e);

/* ---- reduce.c ---- */
int reduce_begin(struct engine *en, struct stage *st, int64_t now, struct bace_err *e);
/* A round has come, or it is time. */
int reduce_go_on(struct engine *en, struct stage *st, int64_t now, struct bace_err *e);
int64_t reduce_deadline(const struct engine *en);
int reduce_advance(struct engine *en, int64_t now, struct bace_err *e);

#endif
