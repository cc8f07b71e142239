/*
 * harness/sim: the pipeline event simulator and the cluster event loop. Pure
 * and deterministic: same input, same bits.
 */
#ifndef BACE_SIM_H
#define BACE_SIM_H

#include "harness/oracle/oracle.h"
#include "harness/policy/policy.h"
#include "workloads/schedule/schedule.h"

/* ---- one pipeline (design section 4, "Step time, event simulation") ----
 * Times in any one unit; results in the same. */
struct pipeline {
	struct schedule_spec schedule;
	const double *tf, *tb, *tw;	/* per stage and micro-batch; [stages]; tw may be NULL (0).
					   interleaved: time of the whole stage, a chunk takes 1/v */
	const double *fwd_latency, *fwd_serialisation;	/* hop i: stage i -> i+1; [stages-1];
							   interleaved: [stages], the last wraps round */
	const double *rev_latency, *rev_serialisation;	/* hop i: stage i+1 -> i */
	bool no_overlap;		/* sender's GPU is held until its message has left */
	int max_activations;		/* per stage; 0: unlimited; exceeding it is -E2BIG with the number */
};

/* One interval of a stage's timeline. */
struct timeline_op {
	int stage;
	uint8_t kind;			/* enum op_kind */
	uint8_t chunk;
	int32_t micro_batch;
	double start, end;
	double waited;			/* idle before start */
	uint8_t waited_for;		/* enum wait_kind */
};
enum wait_kind { WAIT_NONE, WAIT_COMPUTE, WAIT_SERIALISATION, WAIT_LATENCY };

struct pipeline_result {
	double step_time;
	double bubble;			/* 1 - busy / step, mean over stages */
	double *busy;			/* [stages], caller's array or NULL */
	double *waiting;		/* [stages], caller's array or NULL */
	/* Called for every operation, in order per stage, if not NULL. */
	void (*on_op)(void *arg, const struct timeline_op *op);
	void *arg;
};

int pipeline_simulate(const struct pipeline *p, struct pipeline_result *out, struct bace_err *err);

/* ---- the cluster (design section 6) ---- */

/* A change of a directed link's capacity at a time (traces). */
struct link_change {
	double at_s;
	int src, dst;
	double rate_bps;		/* L2 */
};

struct cluster_sim {
	const struct experiment *exp;
	const struct job_models *models;
	struct policy *policy;
	struct oracle *oracle;		/* the truth that advances jobs */
	uint64_t seed;			/* of view noise */
	int n_changes;
	const struct link_change *changes;
	/* Observers, may be NULL. A placement is final when on_start is called. */
	void (*on_start)(void *arg, double now_s, const struct placement *p, double predicted_step_s);
	void (*on_finish)(void *arg, double now_s, int job);
	void (*on_decision)(void *arg, double now_s, uint64_t view_digest, double latency_s, int placed_job);
	void *arg;
};

struct job_outcome {
	int job;
	bool finished;
	double arrival_s, start_s, finish_s;
	double jct_s;			/* finish - arrival */
	double waiting_s;		/* start - arrival */
	double slowdown;		/* jct / (steps at K* on an empty cluster) */
	double energy_j;		/* at the GPUs, without PUE */
	double cost_usd;		/* energy with PUE and price, plus egress */
	double mean_step_s;
	struct placement placement;	/* freed with cluster_result_free */
};

struct cluster_result {
	int n;
	struct job_outcome *jobs;	/* in order of experiment.jobs */
	double makespan_s;
	double mean_jct_s, median_jct_s, p95_jct_s;
	double energy_j, cost_usd;
	double gpu_utilisation;		/* GPU-seconds held / GPU-seconds there until makespan */
	int64_t n_events, n_moments, n_decisions;
};

int cluster_simulate(const struct cluster_sim *s, struct cluster_result *out, struct bace_err *err);
void cluster_result_free(struct cluster_result *r);

#endif
