/*
 * harness/policy: what turns a view of the cluster and a queue of jobs into
 * placements. A policy is a name, its parameters and one pure function; no
 * I/O (but `external`, which owns its child process), and no state but its own.
 *
 * Also the job model that policies, simulators and oracles share: per-stage
 * times, memory, k_min, K*, closed-form step time (design section 4).
 */
#ifndef BACE_POLICY_H
#define BACE_POLICY_H

#include "profiles/profiles.h"

/* ---- job model (source: design section 4; FLOP counts after Narayanan et
 * al., arXiv 2104.04473, memory after Korthikanti et al., arXiv 2205.05198) ---- */

/* The reference GPU, on which job times are stated: of the types that some
 * region has, the one with the most memory (so that "fits nowhere" means
 * nowhere), then the most numerous, then by name. */
struct job_model {
	int job;			/* index into experiment.jobs */
	int cls;			/* jobs with the same (model, m, beta) share a class */
	int k_min;			/* least k that fits the memory; 0: fits nowhere */
	int k_star;			/* argmin T(k), ties to fewer */
	int k_limit;			/* largest k ever considered */
	double ref_flops_eff;		/* of the reference GPU */
	double fwd_s;			/* whole model on one reference GPU, per micro-batch */
	double bwd_s;
	double boundary_bytes;		/* A */
	double computation_gpu_s;	/* m N (t_F + t_B) K* */
	double bandwidth_need_bps;	/* 8 A / t_F(K*) */
	int m;
	double steps;
	double step_star_s;		/* T(K*) at the nominal reference bandwidth, zero latency */
	const uint8_t *fits;		/* fits[k], k = 0..k_limit; owned by the model table */
};

struct job_class;			/* what all jobs of a class share; private */

struct job_models {
	const struct experiment *exp;	/* borrowed, must outlive this */
	int n;
	struct job_model *v;		/* one per job, same order */
	int ref_gpu;			/* index into cluster.gpus */
	int n_classes;
	struct job_class *classes;
};

/* Cost: one pass over the jobs; the tables are per class. Read-only afterwards,
 * so one table may serve many threads. A job that fits nowhere gets k_min = 0,
 * which is for the caller to refuse. -EINVAL: a job with m < 1, no GPU at all,
 * or a k_limit above 65536. */
int job_models_build(const struct experiment *e, struct job_models *out, struct bace_err *err);
void job_models_free(struct job_models *m);

struct stage_cost {
	double fwd_s, bwd_s;		/* one micro-batch on this stage */
};

/* Bytes that stage i of k holds: n_i (state * params / layers + live_i * a). */
double stage_memory_bytes(const struct experiment *e, const struct job_model *j, int k, int i);

/* Times of stage i of k: layers split as evenly as whole layers allow, odd
 * layers first; flops_eff of the GPU type of the region that holds it. */
struct stage_cost stage_cost(const struct experiment *e, const struct job_model *j, int k, int i,
			     const struct gpu_type *gpu);

/* ---- placements ---- */
struct placement_part {
	int region;
	int gpus;
};

/* An ordered path of regions. Stages are numbered along it. */
struct placement {
	int job;
	int n_parts;
	int n_gpus;			/* sum over parts = stages */
	struct placement_part *parts;	/* owned; placement_free */
};

void placement_free(struct placement *p);
int placement_copy(const struct placement *from, struct placement *to);
int placement_region_of_stage(const struct placement *p, int stage);
/* Goodput that a running placement asks of each inter-region link it crosses,
 * per direction: 8 A / (t_F + t_B), t the mean over its stages. */
double placement_demand_bps(const struct experiment *e, const struct job_models *m,
			    const struct placement *p);
/* What it reserves there: the demand, times the v messages of a micro-batch
 * under interleaved-1f1b, which also has a hop from the last stage back to the
 * first; where that is a link of its own it is reserved, too. 0 inside one region. */
double placement_reservation_bps(const struct experiment *e, const struct job_models *m,
				 const struct placement *p);
/* "ireland:2 > frankfurt:1" into a malloc'd string. */
char *placement_format(const struct cluster *c, const struct placement *p);

/* Bandwidth of a hop between two regions given link bandwidths; within a
 * region its own. */
struct hop_cost {
	double serialisation_s;		/* 8 A / goodput(b) */
	double latency_s;		/* one-way */
};

/* T = (m-1) tau + sum (t_F+t_B) + sum over hops and directions (L + 8A/b).
 * fwd[i], rev[i]: hop i in each direction, p-1 of them. */
double step_time_closed_form(int p, int m, const struct stage_cost *stages,
			     const struct hop_cost *fwd, const struct hop_cost *rev);

/* ---- what a policy sees ---- */
struct running_job {
	int job;
	const struct placement *placement;
	double remaining_steps;		/* now */
	double step_s;			/* at present; 0: started at this instant, not yet known */
};

struct view {
	const struct experiment *exp;	/* static facts: names, latencies, GPU types, PUE */
	const struct job_models *models;
	double now_s;
	const int *free_gpus;		/* [n_regions], exact */
	const double *price;		/* [n_regions] USD/kWh, maybe stale and noisy */
	const double *capacity_bps;	/* [n*n] L2, maybe stale and noisy, 0 = no link */
	const double *reserved_bps;	/* [n*n] goodput reserved by running jobs, exact */
	/* Exact, in order of start; filled where policy_wants_running, else NULL. */
	int n_running;
	const struct running_job *running;
};

struct queued_job {
	int job;
	double waited_s;
	double attained_gpu_s;		/* las */
	double remaining_steps;		/* srtf */
};

struct queue {
	int n;
	const struct queued_job *v;	/* in order of (arrival, name) */
};

struct policy;

/* 0 if the placement keeps every constraint, else -EINVAL naming the one it
 * breaks: the job waits in the queue, regions exist and appear once, at least
 * one GPU each and no more than are free, k <= the limit, every stage fits its
 * GPU, the schedule runs with k stages, consecutive regions are linked both
 * ways (interleaved: last and first too). q may be NULL: not checked. */
int placement_check(const struct view *v, const struct queue *q, const struct placement *p,
		    struct bace_err *err);

/* Resolves spec->name; unknown names are refused with the nearest known. A
 * policy belongs to one thread and remembers the experiment it last saw, by
 * address: destroy it before that experiment or its job models. */
int policy_create(const struct policy_spec *spec, uint64_t seed, struct policy **out,
		  struct bace_err *err);
void policy_destroy(struct policy *p);

/* Places at most one job: returns 1 and fills *out (caller frees), 0 when it
 * places nothing now, negative errno on failure. The event loop calls it again
 * with the updated view until it returns 0. */
int policy_decide(struct policy *p, const struct view *v, const struct queue *q,
		  struct placement *out, struct bace_err *err);

/* Does the policy look at view.running? */
bool policy_wants_running(const struct policy *p);

/* Elastic policies (spec.elastic): asked, with view.running filled, once
 * policy_decide places nothing, until this returns 0 too. 1: the running job
 * out->job is to be checkpointed, leave its GPUs and links and go on under *out
 * (caller frees): it holds those at once, but makes no step for the next
 * spec.restart_s seconds. Never called where policy_is_elastic is false. */
bool policy_is_elastic(const struct policy *p);
double policy_restart_s(const struct policy *p);
int policy_resize(struct policy *p, const struct view *v, const struct queue *q,
		  struct placement *out, struct bace_err *err);
/* As placement_check for such a placement: the job runs, and its own GPUs count as free. */
int placement_check_resize(const struct view *v, const struct placement *p, struct bace_err *err);

/* The largest k that the policy could ever give the job, i.e. what it gives on
 * the empty cluster with nominal links; 0: the job can never run under it. */
int policy_reachable_gpus(struct policy *p, const struct view *v, int job, struct bace_err *err);

/* What the placement reserves per direction on inter-region links (goodput
 * bits/s). For every policy placement_reservation_bps: the simulator asks the
 * policy, so that its tests may reserve what they like. */
double policy_reservation_bps(const struct policy *p, const struct view *v,
			      const struct placement *pl);

/* How often the policy failed to answer (external: time-out, garbage, exit;
 * logged as it happens, and the run went on), and the last reason, owned by
 * the policy. */
int64_t policy_failures(const struct policy *p, const char **last);

/* No policy can run all jobs for less electricity (USD; egress and bill_idle left
 * out); -INFINITY where some price is below zero. Jobs that fit nowhere count 0. */
double policy_cost_bound_usd(const struct experiment *e, const struct job_models *m);

/* For `bace policies`: every known policy with a one-line description. */
int policy_list(const char *const **names, const char *const **descriptions);

/* What the policy of that index does unless its spec says otherwise. */
struct policy_defaults {
	enum order_kind order;
	bool backfill;
};

struct policy_defaults policy_defaults(int index);

#endif
