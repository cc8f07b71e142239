/*
 * The engine that executes a schedule: one state machine over any number of
 * stages, over asynchronous computation and transport, without clock or I/O of
 * its own, so that tests drive it under a virtual clock. Times are ns of one
 * monotonic clock.
 *
 * An operation starts at max(its input's arrival, the end of the one before);
 * with timed compute that end is the planned one: lateness of the host does not
 * accumulate.
 *
 * Steps are separated by a flush that costs a step nothing: a stage that has
 * ended a step and has the token of the stage after it passes one to the stage
 * before it, behind its last gradient; stage 0 begins the next step at the later
 * of its own end and the token. Where the last gradient already implies that
 * all stages have ended (all schedules but zb-h1) the token is there before
 * stage 0 itself ends.
 */
#ifndef BACE_WORKER_ENGINE_H
#define BACE_WORKER_ENGINE_H

#include "workloads/worker/compute.h"
#include "workloads/worker/message.h"
#include "workloads/worker/timeline.h"

struct engine;

struct engine_io {
	/* Sends over a hop that is not internal (index into spec->hops). */
	int (*send)(void *arg, int hop, const struct message *m, struct bace_err *e);
	/* A stage (index into spec->stages) has ended a step; may be NULL. */
	void (*step_ended)(void *arg, int slot, int step);
	void *arg;
};

/* spec has passed worker_spec_check; it and compute are borrowed and must outlive
 * the engine. -E2BIG: the timeline would be too long. */
int engine_create(const struct worker_spec *spec, const struct engine_io *io, struct compute *compute,
		  struct engine **out, struct bace_err *e);
void engine_destroy(struct engine *en);

/* The first step begins at `at`. */
int engine_go(struct engine *en, int64_t at, struct bace_err *e);
/* A message's first and last byte came over a tcp hop; of a local one, when its
 * header came (the hop's own rate and latency say when it arrives). */
int engine_receive(struct engine *en, int hop, const struct message *m, int64_t first, int64_t arrived,
		   struct bace_err *e);
/* The kernel has taken a message's last byte. */
void engine_sent(struct engine *en, int hop, const struct message *m, int64_t now);
/* From the next operation on, timed compute takes ppm millionths longer: a known
 * slowdown, to show what a measurement resolves. */
void engine_stretch(struct engine *en, int ppm);
/* Completes what has ended by now. */
int engine_advance(struct engine *en, int64_t now, struct bace_err *e);
/* When the next operation ends; INT64_MAX: only a message, or the compute's fd,
 * can go on. */
int64_t engine_deadline(const struct engine *en);
bool engine_done(const struct engine *en);

/* Warm-up steps that were left out, as far as the stages here know. */
int engine_skipped(const struct engine *en);
/* The step (< 0: warm-up) that the stage at this end of the hop is in. */
int engine_step_at(const struct engine *en, int hop);
/* -ETIMEDOUT, and what is being waited for: "hop 2 step 3: no activation ...". */
int engine_waited(const struct engine *en, int64_t waited_ns, struct bace_err *e);

const struct timeline *engine_timeline(const struct engine *en);

#endif
