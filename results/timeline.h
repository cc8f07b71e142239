/* Private to results: the operations of a placement, and what they say about
 * where its time went. Times are testbed seconds unless a name says otherwise. */
#ifndef BACE_RESULTS_TIMELINE_H
#define BACE_RESULTS_TIMELINE_H

#include "results/store.h"

struct timeline_op {
	int stage, step, micro_batch;
	char kind;			/* 'F', 'B', 'W' */
	bool received;			/* the arrival of a message, not computation */
	double start, end, planned_end;
	double late;			/* received: beyond what the plan allows */
	double charged;			/* of it, what timeline_path found that a step waited for */
};

struct timeline {
	size_t n;
	struct timeline_op *ops;	/* by step, stage, start */
	int n_stages;
};

/* The measured operations of the steps first..last; simulated: the predicted
 * ones. n = 0: there are none. */
int timeline_load(struct store *s, int64_t placement, bool simulated, int first, int last,
		  struct timeline *out, struct bace_err *e);
void timeline_free(struct timeline *t);
/* One hop between regions in one direction, as event simulation planned it. */
struct hop_plan {
	int hop;
	bool forward;
	char src[64], dst[64];		/* regions */
	int sender, receiver;		/* stages */
	double message_bytes;
	double latency;
	double goodput_bps;		/* the job's share of the link */
	double link_goodput_bps;	/* all of it */
	double idle_window_bytes;	/* congestion window after a pause; 0: it is kept */
};
/* *out is free()d. n = 0: none. */
int timeline_hops(struct store *s, int64_t placement, const struct timeline *t, struct hop_plan **out, size_t *n,
		  struct bace_err *e);
/* The messages of a hop in order of their making; free()d. NULL: out of memory. */
struct timeline_op **timeline_messages(struct timeline *t, const struct hop_plan *h, size_t *n);
/* Fills `late`: replays every hop's messages over the link as it was planned,
 * first in first out. Messages within a region are never late. */
int timeline_replay(struct store *s, int64_t placement, struct timeline *t, struct bace_err *e);

/* The chain of operations and messages that one step waited for, end to start. */
struct path_time {
	double compute;		/* planned */
	double overrun;		/* computation that ended after its planned end */
	double transfer;	/* messages on the way, without `slower` */
	double slower;		/* messages beyond the plan */
	double wait;		/* nothing of the above */
};
/* false: the step is not in t. Fills `charged` of the step's messages. */
bool timeline_path(struct timeline *t, int step, struct path_time *out);

#endif
