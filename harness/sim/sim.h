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
 * Times in any one unit; results in the same. A message leaves when the
 * operation that made it ends, waits for its direction of the hop (first in,
 * first out; the two directions are independent), is `serialisation` long on it
 * and arrives `latency` later. */
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

/* Waiting split by what was waited for; the parts add up. */
struct wait_split {
	double compute;		/* the sender had not made it yet */
	double serialisation;		/* queueing for the link and being put on it */
	double latency;
};
enum wait_kind { WAIT_NONE, WAIT_COMPUTE, WAIT_SERIALISATION, WAIT_LATENCY };

/* One interval of a stage's timeline. */
struct timeline_op {
	int stage;
	uint8_t kind;			/* enum op_kind */
	uint8_t chunk;
	int32_t micro_batch;
	double start, end;
	double waited;			/* idle before start */
	uint8_t waited_for;		/* enum wait_kind: the largest part of split */
	struct wait_split split;
	double held;			/* no_overlap: after end, until its message has left */
};

/* Where the step went on one stage; all parts add up to step_time. */
struct stage_times {
	double busy;
	struct wait_split waiting;
	double held;			/* no_overlap: not computing, for its own message */
	double drained;			/* after its last operation */
};

struct pipeline_result {
	double step_time;
	double bubble;			/* 1 - busy / step, mean over stages */
	double *busy;			/* [stages], caller's array or NULL */
	double *waiting;		/* [stages], caller's array or NULL: step - busy */
	struct stage_times *stages;	/* [stages], caller's array or NULL */
	/* Called for every operation, in order per stage, if not NULL. */
	void (*on_op)(void *arg, const struct timeline_op *op);
	void *arg;
};

/* Exact. O(operations) time, O(stages) memory beside messages under way.
 * -EINVAL: the schedule, or a time that is negative or not a number;
 * -E2BIG: max_activations exceeded. An infinite serialisation (a dead link) is
 * allowed and gives an infinite step. */
int pipeline_simulate(const struct pipeline *p, struct pipeline_result *out, struct bace_err *err);

/* ---- several pipelines that share links ----
 *
 * Every job runs its pipeline again and again, the next step when all stages
 * are done with the last, until each has done warmup_steps + steps. Messages of
 * all jobs queue first in, first out for a link; a message holds the link for
 * its own serialisation. A hop direction with link -1 is the job's own.
 * A message that is made at the same time as another goes first if its job
 * stands first, then if its stage does. */
struct shared_pipeline {
	struct pipeline p;
	const int *fwd_link, *rev_link;	/* as fwd_latency: index of a link, or -1; NULL: all -1 */
	double start;			/* of the first step */
	/* Data parallelism: `replicas' pipelines that follow each other are one job,
	 * this being number `replica'; 0 or 1: alone. When a stage has ended a step's
	 * operations it sums its gradient with the same stage of the others, over a
	 * ring: 2 (replicas - 1) rounds, each of a part of the gradient to the next
	 * replica, sent when the one before has come. The stage ends the step with the
	 * last. A message's serialisation and latency, by stage, on ring_link. */
	int replicas, replica;
	const double *ring_latency, *ring_serialisation;
	const int *ring_link;		/* NULL: all -1 */
};

struct shared_result {
	double mean_step, median_step;	/* over `steps` steps after the warm-up */
	double first_step;		/* with warm-up; of replicas, first start to last end */
	double busy;			/* compute / step, mean over stages */
};

/* Exact. O(operations * log(stages of all jobs)). out[n]. With one job and one
 * step, first_step is pipeline_simulate's step_time, to the bit (unless a link
 * is named for two channels of that job). */
int pipelines_simulate_shared(int n, const struct shared_pipeline *jobs, int n_links, int warmup_steps,
			      int steps, struct shared_result *out, struct bace_err *err);

/* ---- the cluster (design section 6) ----
 *
 * Advances from event to event: completion, link change, view update, arrival.
 * All events of one instant are applied, in that order; then the policy is
 * called until it places nothing; then the oracle is asked, if the set of
 * running placements or the capacity of a link that some of them cross changed.
 * Jobs are not preempted, but an elastic policy may move one: it then holds the
 * new GPUs at once, at idle_ctx_w, and makes no step for restart_s. Free GPUs,
 * reservations and running jobs in the view are exact.
 *
 * view.delay_s: at t the policy sees links and prices as they were at
 * t - delay_s (before that: as at 0). Noise: value + x * scale, where scale is
 * the fraction times the mean over present links (regions, for prices), or with
 * `multiplicative` times the value itself; x is uniform in [-1, 1] or N(0, 1);
 * bias likewise. Between links x has the given correlation (Gaussian copula).
 * Draws depend on (seed, number of the redraw), not on what a policy did, so
 * policies are compared under the same noise.
 */

/* A change of a directed link's capacity at a time (traces). */
struct link_change {
	double at_s;
	int src, dst;
	double rate_bps;		/* L2; 0: nothing gets through */
};

/* What a separable oracle has answered; for several simulations with the same
 * oracle, job classes, regions and links, one after the other. */
struct step_memo;
struct step_memo *step_memo_new(void);	/* NULL: out of memory */
void step_memo_free(struct step_memo *m);

/* What monitors say of links; may change whenever the oracle is asked. */
struct link_reports {
	unsigned n_looks;		/* grows with each change */
	double *over_truth;		/* [n_regions^2] the capacity told, over the true one */
};

struct cluster_sim {
	const struct experiment *exp;
	const struct job_models *models;
	struct policy *policy;
	struct oracle *oracle;		/* the truth that advances jobs */
	/* The oracle's answer for a job depends only on its class, its placement
	 * and the jobs that it is connected to by shared links, as with closed-form
	 * and event-sim. The oracle is then asked only about such a group when it
	 * changed, and answers are remembered. False: always about all that run. */
	bool separable;
	struct step_memo *memo;		/* may be NULL: of this simulation only */
	uint64_t seed;			/* of view noise */
	int n_changes;
	const struct link_change *changes;	/* in any order */
	const struct link_reports *reports;	/* NULL: monitors say what is true */
	/* Observers, may be NULL. on_start: also after a move. */
	void (*on_start)(void *arg, double now_s, const struct placement *p, double predicted_step_s);
	void (*on_finish)(void *arg, double now_s, int job);
	/* placed_job: placed or moved; -1: neither. */
	void (*on_decision)(void *arg, double now_s, uint64_t view_digest, double latency_s, int placed_job);
	void *arg;
};

struct job_outcome {
	int job;
	bool finished;			/* false: the policy never placed it, or it stalled for good */
	double arrival_s, start_s, finish_s;	/* NAN: did not happen */
	double jct_s;			/* finish - arrival */
	double waiting_s;		/* start - arrival */
	double slowdown;		/* jct / (steps at K* on an empty cluster) */
	double energy_j;		/* at the GPUs, without PUE */
	double cost_usd;		/* energy with PUE and price, plus egress */
	double egress_usd;		/* part of cost_usd */
	double gpu_s;			/* GPU-seconds held */
	double steps_done;		/* fractional when it did not finish */
	double mean_step_s;		/* restarts included */
	int n_restarts;			/* moves of an elastic policy */
	struct placement placement;	/* the last; freed with cluster_result_free */
};

struct cluster_result {
	int n;
	int n_finished;			/* the means and quantiles are over these */
	struct job_outcome *jobs;	/* in order of experiment.jobs */
	double makespan_s;		/* first arrival to last event of a job */
	double mean_jct_s, median_jct_s, p95_jct_s;	/* NAN: none finished */
	double mean_waiting_s, p95_waiting_s, mean_slowdown;
	double energy_j, cost_usd;	/* sums over jobs, plus idle */
	double idle_energy_j, idle_cost_usd;	/* bill_idle: free GPUs at idle_ctx_w over the makespan */
	double gpu_utilisation;		/* GPU-seconds held / GPU-seconds there during the makespan */
	int max_queue;			/* most jobs that waited when the policy was called */
	int64_t n_events;		/* instants */
	int64_t n_moments;		/* questions to the oracle */
	int64_t n_decisions;		/* calls of the policy */
};

/* 0, or -errno: -EINVAL for jobs, link changes or placements that break a
 * constraint (named), else what the policy or the oracle returned. On failure
 * *out is empty and nothing is leaked. */
int cluster_simulate(const struct cluster_sim *s, struct cluster_result *out, struct bace_err *err);
void cluster_result_free(struct cluster_result *r);

/* ---- sweeps: policies x seeds x computed oracles, on many threads ----
 *
 * Cell i is seed i / (n_policies * n_oracles), then policy, then oracle; its
 * numbers depend on the experiment, the options and i alone, so a sweep may be
 * spread over threads and shards and put together again bit for bit. */
enum sweep_metric {
	METRIC_MEAN_JCT, METRIC_MEDIAN_JCT, METRIC_P95_JCT,	/* seconds */
	METRIC_MEAN_WAITING, METRIC_P95_WAITING,		/* seconds */
	METRIC_SLOWDOWN, METRIC_UTILISATION,			/* ratios */
	METRIC_ENERGY, METRIC_COST, METRIC_MAKESPAN,		/* J, USD, s */
	METRIC_FINISHED,					/* jobs */
	METRIC_FAILURES,					/* of an external policy to answer */
	N_METRICS
};
extern const char *const sweep_metric_name[N_METRICS];

struct sweep_options {
	int n_seeds, n_threads;		/* 0 threads: as many as the process may run on */
	int shard, n_shards;		/* 1..n; 0 of 0: all */
	bool closed_form, event_sim;
	/* Drawn anew for every seed, beside view noise and what a policy draws: */
	bool resample;			/* as many jobs, with replacement from the experiment's */
	double mean_gap_s;		/* > 0: Poisson arrivals, in an order drawn */
	void (*on_progress)(void *arg, int done, int total);	/* may be NULL; from the calling thread */
	void *arg;
};

struct sweep_cell {
	bool done;			/* false: of another shard */
	double metric[N_METRICS];	/* NAN: undefined */
	char *error;			/* why there are no numbers; NULL: there are */
	double *jct_s, *cost_usd;	/* [n_jobs], of one-seed sweeps only, in order of the config */
};

struct sweep {
	char experiment[NAME_LEN];
	uint64_t config_hash, seed;	/* of the first seed; the next is one more */
	int n_jobs, n_seeds, n_policies, n_oracles, n_cells;
	int shard, n_shards;
	bool resample, varies;		/* varies: seeds differ at all */
	double mean_gap_s;
	double cost_bound_usd;		/* policy_cost_bound_usd; NAN: none, or jobs are drawn */
	char (*policies)[NAME_LEN];	/* labels */
	char oracles[2][NAME_LEN];
	struct sweep_cell *cells;
};

static inline const struct sweep_cell *sweep_at(const struct sweep *s, int seed, int policy, int oracle)
{
	return &s->cells[(seed * s->n_policies + policy) * s->n_oracles + oracle];
}

/* A policy that fails is an error of its cell, and the others go on. */
int sweep_run(const struct experiment *exp, const struct sweep_options *o, struct sweep *out,
	      struct bace_err *err);
void sweep_free(struct sweep *s);
/* A shard as a file, numbers exact; written beside and renamed into place. */
int sweep_write(const struct sweep *s, const char *path, struct bace_err *err);
/* -EINVAL when it is no such file. */
int sweep_read(const char *path, struct sweep *out, struct bace_err *err);
/* Moves the cells of `from` into `to`; -EINVAL when they are of different
 * sweeps, or both have a cell. */
int sweep_merge(struct sweep *to, struct sweep *from, struct bace_err *err);

/* ---- the published figures (design section 11) ----
 *
 * Scenarios drawn from the stated ranges; in each, every policy on every variant
 * of the cluster, for three arms: the default choices with either start rule,
 * and one draw of the choices that the sources leave open. */
enum claims_policy {
	CLAIMS_BACE, CLAIMS_LCF, CLAIMS_LDF, CLAIMS_CR_LCF, CLAIMS_CR_LDF,
	CLAIMS_NO_PRIORITY, CLAIMS_NO_PATHFINDER, CLAIMS_NO_COST_MIN, CLAIMS_POLICIES
};
enum claims_variant {
	CLAIMS_PLAIN, CLAIMS_LINKS_03, CLAIMS_LINKS_15, CLAIMS_GPUS_05, CLAIMS_GPUS_125, CLAIMS_JOBS_24,
	CLAIMS_VARIANTS
};
enum claims_arm { CLAIMS_K_MIN, CLAIMS_K_STAR, CLAIMS_SWEPT, CLAIMS_ARMS };

/* The open choices; a choice is the index of one of its levels. */
enum claims_choice {
	CHOICE_START, CHOICE_K_LIMIT, CHOICE_ORACLE, CHOICE_FLOPS, CHOICE_M, CHOICE_ARRIVALS, CHOICE_ALPHA,
	CLAIMS_CHOICES
};
#define CLAIMS_LEVELS 4
extern const char *const claims_choice_name[CLAIMS_CHOICES];
extern const char *const claims_level_name[CLAIMS_CHOICES][CLAIMS_LEVELS];	/* NULL: fewer levels */
int claims_levels(enum claims_choice c);

/* What may explain a difference: the choices as ranks, and facts of the draw. */
enum claims_input {
	INPUT_START, INPUT_K_LIMIT, INPUT_EVENT_SIM, INPUT_EAGER, INPUT_FLOPS, INPUT_M, INPUT_POISSON,
	INPUT_ALPHA, INPUT_GPUS, INPUT_LARGEST, INPUT_BANDWIDTH, INPUT_PRICE_SPREAD, INPUT_LARGEST_PRICE,
	INPUT_LONG_JOBS, INPUT_LONGEST_SHARE, CLAIMS_INPUTS
};
extern const char *const claims_input_name[CLAIMS_INPUTS];

struct claims_score {			/* NAN: some job was never placed */
	double jct_s, median_jct_s;	/* sum and median over jobs */
	double cost_usd;
};

struct claims_scenario {
	int redraws;			/* draws thrown away because a job fitted nowhere */
	int choice_redraws;		/* draws of choices under which one did */
	int choice[CLAIMS_CHOICES];	/* of CLAIMS_SWEPT */
	double input[CLAIMS_INPUTS];	/* NAN: does not apply */
	struct claims_score score[CLAIMS_ARMS][CLAIMS_VARIANTS][CLAIMS_POLICIES];
	char *error;			/* NULL: none */
};

/* One published figure, for one baseline or ablation. */
struct claims_figure {
	const char *text;		/* the published statement */
	const char *detail;		/* which baseline or ablation */
	enum claims_variant variant;
	enum claims_policy a, b;
	enum { FIGURE_GAIN, FIGURE_EXCESS } form;	/* 1 - a/b; a/b - 1 */
	bool cost;			/* else JCT */
	double lo, hi;			/* published, as fractions */
	bool point;			/* one number published; lo, hi: half to one and a half times it */
};
extern const struct claims_figure claims_figures[];
extern const int n_claims_figures;

double claims_value(const struct claims_figure *f, const struct claims_scenario *s, enum claims_arm arm);
/* The same of the median JCT. */
double claims_median_value(const struct claims_figure *f, const struct claims_scenario *s,
			   enum claims_arm arm);

struct claims {
	int n;
	uint64_t seed;
	struct claims_scenario *scenarios;
};

struct claims_options {
	int n_scenarios, n_threads;
	uint64_t seed;
	void (*on_progress)(void *arg, int done, int total);	/* may be NULL */
	void *arg;
};

/* base gives regions, latencies, PUE, the GPU and the models; GPUs a region,
 * bandwidths, prices, jobs and data sets are drawn. */
int claims_run(const struct experiment *base, const struct claims_options *o, struct claims *out,
	       struct bace_err *err);
void claims_free(struct claims *c);

/* Spearman's rho, ties at their mean rank, over pairs of which neither is NAN;
 * NAN: fewer than three, or one of them constant. */
double rank_correlation(const double *x, const double *y, int n);

/* ---- work on many threads ----
 * Calls work(arg, i) once for each i in 0..n-1, each from some thread. Returns
 * after the last. threads = 0: as many as the process may run on. */
int pool_run(int n, int threads, void (*work)(void *arg, int i), void *arg,
	     void (*on_progress)(void *arg, int done, int total), void *progress_arg,
	     struct bace_err *err);

#endif
