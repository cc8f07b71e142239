/*
 * The engine that executes a schedule: one state machine over any number of
 * stages, without clock or I/O of its own, so that tests drive it under a
 * virtual clock. Times are ns of one monotonic clock.
 *
 * An operation starts at max(its input's arrival, the PLANNED end of the one
 * before): lateness of the host does not accumulate.
 */
#ifndef BACE_WORKER_ENGINE_H
#define BACE_WORKER_ENGINE_H

#include "workloads/worker/worker.h"

struct message_id {
	int32_t step;			/* < 0: warm-up */
	int32_t micro_batch;
	uint8_t chunk;			/* of the sender */
};

struct op_record {
	int32_t stage, step, micro_batch;
	uint8_t kind;			/* 0 F, 1 B, 2 W, 3 activation, 4 gradient */
	int64_t start, end, planned_end;
};

struct step_record {
	int32_t stage, step;
	int64_t start, end, compute;
};

struct engine;

struct engine_io {
	/* A message for a hop that is not internal; made: planned end of the
	 * operation. hop: index into spec->hops. */
	int (*send)(void *arg, int hop, bool forward, const struct message_id *id, int64_t made,
		    struct bace_err *e);
	void *arg;
};

/* spec is borrowed and must outlive the engine. */
int engine_create(const struct worker_spec *spec, const struct engine_io *io, struct engine **out,
		  struct bace_err *e);
void engine_destroy(struct engine *en);

/* The first step begins at `at`. */
int engine_go(struct engine *en, int64_t at, struct bace_err *e);
/* A message came over a tcp hop (arrived = now), or the header of a local one
 * (arrived is ignored: the hop's own rate and latency decide). */
int engine_receive(struct engine *en, int hop, bool forward, const struct message_id *id,
		   int64_t made, int64_t arrived, struct bace_err *e);
/* Completes what should have ended by now. */
int engine_advance(struct engine *en, int64_t now, struct bace_err *e);
/* When the next operation ends; INT64_MAX: only a message can go on. */
int64_t engine_deadline(const struct engine *en);
bool engine_done(const struct engine *en);
/* What is being waited for, for a time-out's message. */
void engine_describe_wait(const struct engine *en, char *text, size_t size);

size_t engine_ops(const struct engine *en, const struct op_record **v);
size_t engine_steps(const struct engine *en, const struct step_record **v);

#endif
