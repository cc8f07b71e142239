/*
 * Workers under a virtual clock: engines that play the stages of one pipeline,
 * joined by a network of their own, all of it advanced from event to event.
 * Times are whole ns, so that results can be compared exactly.
 */
#ifndef TESTS_WORKER_VIRTUAL_H
#define TESTS_WORKER_VIRTUAL_H

#include "workloads/worker/engine.h"

#define VSTAGES_MAX 1024

struct vpipe {
	struct schedule_spec schedule;
	int warmup_steps, steps, steady_ppm, steady_steps;
	enum timeline_kind timeline;
	int64_t duration[VSTAGES_MAX][3];	/* by op_kind */
	/* Hop h, both directions: forward, backward. */
	int64_t latency[VSTAGES_MAX][2], serialisation[VSTAGES_MAX][2];
	bool no_overlap;			/* hops must then be alike both ways */
	bool tcp[VSTAGES_MAX];			/* else local, which is alike both ways */
	int worker[VSTAGES_MAX];		/* that plays the stage */
	int replicas;				/* 0 or 1: one */
	/* Of the ring of a stage, from each replica to the next. */
	int64_t ring_latency[VSTAGES_MAX], ring_serialisation[VSTAGES_MAX];
	bool ring_tcp[VSTAGES_MAX];
	int64_t slower;				/* each replica's operations than those of the one before */
	bool own_clocks;			/* of the workers: each its own machine's */
	int64_t clock[VSTAGES_MAX];		/* by worker: ahead of the network's */
};

struct vnet;

/* Decides what becomes of a message on the network: true to lose it. */
typedef bool (*vnet_meddle)(void *arg, int hop, struct message *m);

struct vnet *vnet_create(const struct vpipe *p);
void vnet_destroy(struct vnet *v);
void vnet_meddle_with(struct vnet *v, vnet_meddle fn, void *arg);
/* Engines are told the time only every tick (0: exactly when due), and headers
 * of local hops come up to `late` later than they were sent. */
void vnet_host_is_late(struct vnet *v, int64_t tick, int64_t late, uint64_t seed);

/* Until all is done: 0; or nothing can happen any more: -EDEADLK; or -errno. */
int vnet_run(struct vnet *v, int64_t start, struct bace_err *e);

/* Of all replicas, one after the other. */
int vnet_n_workers(const struct vnet *v);
const struct engine *vnet_engine(const struct vnet *v, int worker);
int64_t vnet_clock(const struct vnet *v, int worker);	/* ahead of the network's */
const struct worker_spec *vnet_spec(const struct vnet *v, int worker);

/* The job's step: least start and greatest end (as planned) over all stages and
 * replicas, by the network's clock. */
void vnet_step(const struct vnet *v, int step, int64_t *start, int64_t *end);
/* The record of one operation or message of the first replica, by its worker's
 * clock; NULL: there is none. */
const struct op_record *vnet_op(const struct vnet *v, int kind, int stage, int chunk, int step,
				int micro_batch);

#endif
