/*
 * What a stage's operations cost: a vtable of asynchronous computation. An
 * operation is started at a time that may lie ahead, and is collected after it
 * has ended. One stage has at most one operation at a time.
 */
#ifndef BACE_WORKER_COMPUTE_H
#define BACE_WORKER_COMPUTE_H

#include "workloads/worker/worker.h"

struct work {
	int slot;			/* index of the stage in the spec */
	uint8_t kind;			/* enum op_kind */
	int64_t start;			/* not before; monotonic ns */
	int64_t duration;		/* as the spec has it */
};

struct finished {
	int slot;
	int64_t start, end;		/* timed: as planned; else as it was */
};

struct compute;

struct compute_ops {
	const char *name;
	int (*start)(struct compute *c, const struct work *w, struct bace_err *e);
	/* When collect will have something; INT64_MAX: unknown, fd says. */
	int64_t (*deadline)(const struct compute *c);
	/* One that has ended by now, earliest first: 1, 0 none, -errno. */
	int (*collect)(struct compute *c, int64_t now, struct finished *out, struct bace_err *e);
	/* Readable when something may have ended; -1: the deadline is enough. */
	int (*fd)(const struct compute *c);
	/* How it was calibrated, for the rank's report; NULL: nothing to say. */
	json_t *(*report)(const struct compute *c);
	void (*destroy)(struct compute *c);
};

struct compute {			/* the first member of each kind's own */
	const struct compute_ops *ops;
	/* Ends of operations are planned exactly, so what follows may be planned
	 * from them: lateness of the host does not add up. */
	bool timed;
};

/* A deadline in a heap. */
int compute_timed(const struct worker_spec *s, struct compute **out, struct bace_err *e);
/* Matrix products through OpenBLAS, a thread a stage. -ENOTSUP: built without. */
int compute_cpu(const struct worker_spec *s, struct compute **out, struct bace_err *e);

#endif
