/*
 * Inside harness/policy. Adding a policy: one file that defines a struct
 * policy_rule, its declaration below and its line in the table of policy.c.
 *
 * The driver (policy.c) owns what all policies share: the order of the queue,
 * blocking or backfilling, `start`, one attempt per class of job and call. A
 * rule only answers: where would this job run now?
 */
#ifndef BACE_POLICY_INTERNAL_H
#define BACE_POLICY_INTERNAL_H

#include "harness/policy/model.h"

/* What does not change while an experiment runs. */
struct facts {
	const struct experiment *exp;
	const struct job_models *models;
	int n;				/* regions */
	int *by_name;			/* regions in bytewise order of name */
	int *name_rank;			/* inverse of by_name */
	bool *linked;			/* [n*n] a link in both directions */
	double *latency_s;		/* [n*n] one-way */
	double *intra_s_per_bit;	/* [n] of a hop within the region */
	double *intra_latency_s;	/* [n] */
	double *slow;			/* [n] reference FLOP/s over the region's */
	int *gpu;			/* [n] GPU type */
	bool one_gpu_type;
	double goodput_factor;		/* goodput / L2 rate */
};

/* A view, worked up. */
struct situation {
	double now_s;
	const int *free_gpus;
	const double *price;
	double *unit_cost;		/* [n] price * PUE */
	int *by_cost;			/* regions by ascending unit cost, ties by name */
	int *cost_rank;			/* inverse of by_cost */
	double *capacity;		/* [n*n] goodput bits/s; 0 = no link */
	double *residual;		/* [n*n] capacity - reserved; <= 0 where no link */
	int total_free;
	bool idle;			/* every GPU of the cluster is free */
	bool links;			/* capacity and residual are filled */
	double load;			/* reserved / capacity over inter-region links */
};

/* An ordered set of regions while it grows. */
struct path {
	int n;
	int *region;
	int *cheap;			/* the same regions by ascending unit cost */
	bool *on;			/* [regions] */
	int gpus;			/* free along it */
	int gpu;			/* type with the least memory on it */
	double slow_min;		/* fastest GPU on it */
	double hop_sum_s;		/* sum over hops, both directions, of L + 8A/b */
	double ser_max_s;		/* largest 8A/b */
	double hop_max_s;		/* largest L + 8A/b */
	double width_bps;		/* smallest residual, either direction; INFINITY for one region */
};

/* A placement under consideration. */
struct choice {
	int n;				/* 0: none */
	struct placement_part *parts;	/* [regions] */
	int k;
	double step_s;			/* predicted, closed form */
	double cost_usd;		/* predicted, per step */
	double width_bps;
	double score;			/* the rule's own, smaller is better */
};

struct policy;

struct policy_rule {
	const char *name, *description;
	enum order_kind order;		/* unless the spec has one */
	bool backfill;			/* unless the spec says */
	bool uses_links;		/* wants situation.capacity and residual */
	bool per_job;			/* two jobs of one class may be answered differently */
	int (*create)(struct policy *p, struct bace_err *err);	/* may be NULL */
	void (*destroy)(struct policy *p);			/* may be NULL */
	int (*bind)(struct policy *p, struct bace_err *err);	/* may be NULL: new experiment */
	void (*unbind)(struct policy *p);			/* may be NULL */
	/* 1: p->best is where the job would run. 0: nowhere now. need > 0: wait
	 * until that many GPUs can be had (start = k_star). */
	int (*place)(struct policy *p, const struct situation *s, const struct queued_job *q, int need,
		     struct bace_err *err);
	bool wants_running;
	/* May be NULL: moves a running job; see policy_resize. */
	int (*resize)(struct policy *p, const struct view *v, const struct queue *q,
		      struct placement *out, struct bace_err *err);
	/* Instead of the driver's loop; may be NULL. */
	int (*decide)(struct policy *p, const struct view *v, const struct queue *q,
		      struct placement *out, struct bace_err *err);
};

struct policy {
	const struct policy_rule *rule;
	struct policy_spec spec;	/* command is ours */
	uint64_t seed;
	enum order_kind order;
	bool backfill;

	struct facts f;			/* of the experiment last seen */
	struct situation now, empty;	/* empty: the cluster with every GPU free */
	int *empty_free;
	double *empty_price;
	int *reach;			/* [classes] largest k ever, -1: not yet known */
	uint32_t *failed;		/* [classes] epoch in which it could not be placed */
	uint32_t epoch;
	struct path path;
	struct choice best, trial;

	double aging_s;			/* of the spec, unless the rule knows better */
	double *key;			/* [queue_cap] scratch of the order */
	int *heap;
	int queue_cap;

	int64_t failures;		/* of external programs */
	char last_failure[256];
	void *priv;			/* of the rule, per policy */
	void *scratch;			/* of the rule, per experiment */
};

extern const struct policy_rule rule_bace, rule_lcf, rule_ldf, rule_cr_lcf, rule_cr_ldf, rule_atlas_dc,
	rule_dtfm, rule_random, rule_optimal, rule_external, rule_bace_plus;

/* ---- situation.c ---- */
int policy_bind(struct policy *p, const struct view *v, struct bace_err *err);
void policy_unbind(struct policy *p);
void situation_read(const struct facts *f, const struct view *v, bool links, struct situation *s);

/* After unit_cost has changed. */
void situation_sort(const struct facts *f, struct situation *s);

/* ---- policy.c ---- */
/* What start = k_star asks for: 0 unless the job has to wait for more GPUs. */
int policy_needed(struct policy *p, const struct queued_job *q, struct bace_err *err);
/* p->best as the job's placement; 1. */
int policy_emit(const struct policy *p, int job, struct placement *out, struct bace_err *err);

static inline const struct job_class *queued_class(const struct policy *p, const struct queued_job *q)
{
	return class_of(p->f.models, q->job);
}

/* ---- order.c: the queue, first to last ---- */
struct order {
	const struct queue *q;
	const double *key;		/* NULL: as queued */
	int *heap;
	int n, next;
};

int order_begin(struct policy *p, const struct situation *s, const struct queue *q, struct order *o,
		struct bace_err *err);
int order_next(struct order *o);	/* index into the queue, -1 at the end */

/* ---- path.c ---- */
void path_start(const struct facts *f, const struct situation *s, struct path *p, int region);
/* Appends a region behind the end; c gives the bytes that cross the hop. */
void path_extend(const struct facts *f, const struct situation *s, const struct job_class *c,
		 struct path *p, int region);
void path_clear(struct path *p);
/* Drops the regions appended since the copy `before` was taken. */
void path_restore(struct path *p, const struct path *before);
/* One GPU, and what the region has beyond it as far as *rest goes. */
int path_share(const struct situation *s, int region, int *rest);
bool path_closes(const struct facts *f, const struct path *p);
/* Does an extension to region with width_bps keep the stall rule everywhere? */
bool path_may_extend(const struct facts *f, const struct situation *s, const struct job_class *c,
		     enum stall_rule rule, const struct path *p, int region, double width_bps);
double link_width(const struct facts *f, const struct situation *s, int a, int b);
/* Largest k <= k whose slot still hides the hops of the path under the rule. */
int stall_cap(const struct job_class *c, enum stall_rule rule, const struct path *p, int k);

/* ---- cost_min.c ---- */
/* k = argmin T(k) over the k that fit, least <= k <= most, and where the GPUs
 * come from. Fills all of out but parts and n; false if no k fits. */
bool cost_min(const struct policy *p, const struct situation *s, const struct job_class *c,
	      const struct path *path, int least, int most, struct choice *out);
/* Writes out->parts for out->k GPUs. */
void cost_min_parts(const struct policy *p, const struct situation *s, const struct path *path,
		    struct choice *out);
/* Lower bound on T(k') for every k' <= k on the path and its extensions, with
 * GPUs no faster than slow: fewer never shorten the largest stage. */
double step_bound(const struct job_class *c, const struct path *path, int k, double slow);
/* Is a better than b under the policy's `prefer` (b->n == 0: always)? */
bool choice_better(const struct policy *p, const struct choice *a, const struct choice *b);
/* Cost-Min on the path; keeps the result in p->best if it is better. */
void consider(struct policy *p, const struct situation *s, const struct job_class *c,
	      const struct path *path, int need, int most);

/* ---- tree.c: grow = "tree" ---- */
int tree_bind(struct policy *p, struct bace_err *err);
void tree_unbind(struct policy *p);
int tree_search(struct policy *p, const struct situation *s, const struct job_class *c, int seed,
		int need, struct bace_err *err);

/* ---- fill.c: baselines that take regions in some order ---- */
/* Single region: k GPUs. */
void choose_single(struct policy *p, int region, int k);
/* The path takes what is free, in order, up to the best k; true if some k >= need fits. */
bool choose_fill(struct policy *p, const struct situation *s, const struct job_class *c,
		 struct path *path, int need);

#endif
