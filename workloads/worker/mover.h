/*
 * What carries the messages of hops that are not sockets of this process's own
 * loop: another transport, seen from a rank. It watches the rank's loop, tells
 * the rank what came by its hop_events, and fails a turn of the loop when it
 * cannot go on.
 */
#ifndef BACE_WORKER_MOVER_H
#define BACE_WORKER_MOVER_H

#include "workloads/worker/compute.h"
#include "workloads/worker/hop.h"

struct mover;

struct mover_ops {
	const char *name;
	/* spec, loop and events are borrowed and outlive it. May send events. */
	int (*create)(const struct worker_spec *spec, struct loop *loop, const struct hop_events *events,
		      struct mover **out, struct bace_err *e);
	/* The command "connect". */
	int (*connect)(struct mover *m, const json_t *cmd, struct bace_err *e);
	/* Every hop has carried a message each way. */
	bool (*warm)(const struct mover *m);
	/* Messages may come and go from now on. */
	int (*go)(struct mover *m, struct bace_err *e);
	int (*send)(struct mover *m, int hop, const struct message *msg, struct bace_err *e);
	/* The rank's stage has ended a step. */
	void (*step_ended)(struct mover *m, int step);
	/* All is sent and, as far as can be seen, acknowledged. */
	bool (*drained)(struct mover *m);
	/* The orderly end begins; then, whether it has come. */
	int (*close)(struct mover *m, struct bace_err *e);
	bool (*closed)(const struct mover *m);
	/* -ETIMEDOUT: what it waits for; not asked between go and drained. */
	int (*waited)(const struct mover *m, int64_t waited_ns, struct bace_err *e);
	/* Adds its flows to the array, and what else there is to the object. */
	int (*report)(const struct mover *m, json_t *flows, json_t *done, struct bace_err *e);
	/* Also in the middle of anything; bounded in time. */
	void (*destroy)(struct mover *m);
};

struct mover {				/* the first member of each kind's own */
	const struct mover_ops *ops;
};

/* What a program can beyond sockets and timed compute; NULL: not. */
struct rank_kinds {
	const struct mover_ops *mover;
	int (*cuda)(const struct worker_spec *s, struct compute **out, struct bace_err *e);
};

#endif
