/* Private to the cluster simulator: its state, and how its files divide it. */
#ifndef BACE_SIM_CLUSTER_H
#define BACE_SIM_CLUSTER_H

#include "harness/sim/sim.h"

/* ---- cluster_memo.c: answers of a separable oracle, by exact key ---- */
struct memo_entry {
	uint64_t hash;
	size_t key, value;		/* offsets */
	uint32_t key_len, n_values;
};

struct step_memo {
	uint32_t *slots;		/* entry + 1; 0: empty */
	size_t n_slots;
	struct memo_entry *v;
	size_t n, cap;
	int32_t *keys;
	size_t n_keys, cap_keys;
	struct step_estimate *values;
	size_t n_values, cap_values;
};

/* The remembered answer, valid until the next memo_add; NULL: none. */
const struct step_estimate *memo_find(const struct step_memo *m, const int32_t *key, size_t len);
int memo_add(struct step_memo *m, const int32_t *key, size_t len, const struct step_estimate *v, size_t n);

/* ---- cluster_view.c: what the policy is told ---- */
struct sim_view {
	const struct view_spec *spec;
	uint64_t seed;
	int n;				/* regions */
	int n_links;			/* present */
	bool noisy_links, noisy_prices;
	double *seen_price;		/* [n] delayed, exact */
	double *seen_until;		/* [n] time of truth when it next changes */
	double *seen_capacity;		/* [n*n] delayed, exact */
	double *price;			/* [n] told */
	double *capacity;		/* [n*n] told */
	int next_change;		/* first link change not yet seen */
	double draw;			/* number of the noise's redraw */
	double next_s;			/* when what is told next changes */
	unsigned n_looks;		/* of the reports that were told */
};

/* ---- cluster_running.c ---- */
struct running {
	int job, rank;
	int64_t started;		/* number of the start: order */
	double since_s;			/* left_steps is as of then */
	double left_steps;
	double resume_s;		/* no step before: it restarts after a move */
	double placed_steps;		/* left_steps when it came to its placement */
	double step_s, busy;		/* step_s = 0: not yet known */
	double finish_s;
	int heap_at;
	int prev, next;			/* in order of start */
	int first_crossing;		/* -1: one region only */
	uint32_t mark;
	bool dirty, fresh;
};

/* One job on one pair of regions, both directions. */
struct crossing {
	int slot;
	int pair;			/* lesser region * n + greater; -1: unused */
	int prev, next;			/* on the pair, in order of start */
	int sibling;			/* next of the same job, or of the free list */
	double bps;			/* reserved per direction */
};

struct sim {
	const struct cluster_sim *in;
	const struct experiment *exp;
	const struct cluster *c;
	struct cluster_result *out;
	double now_s;
	int n;				/* regions */

	int *by_rank, *rank;		/* jobs by (arrival, name); the inverse */
	int *by_name;			/* regions */
	int next_arrival;
	struct queued_job *queue;	/* by rank */
	int n_queue, cap_queue;
	int least_k;			/* least k_min of all jobs */
	bool elastic;			/* the policy moves running jobs */
	struct running_job *shown;	/* to policies that want it, else NULL */

	int *free_gpus;
	int total_free, total_gpus;
	double *free_since;		/* [n], for bill_idle */
	double *capacity;		/* [n*n] truth, L2 */
	double *reserved;		/* [n*n] goodput */
	bool egress;			/* some link costs */
	struct link_change *changes;	/* sorted */
	int next_change;
	struct sim_view view;

	struct running *run;		/* slots */
	int max_running, n_running;
	int *free_slot;			/* stack */
	int n_free_slot;
	int first_running, last_running;
	int64_t n_started;
	int *heap;			/* slots by (finish_s, rank) */
	struct crossing *cross;
	size_t n_cross, cap_cross;
	int free_cross;
	int *pair_first, *pair_last;	/* [n*n] */

	bool changed;			/* the moment, since the oracle was last asked */
	int *dirty;			/* slots to evaluate */
	int n_dirty;
	int *fresh;			/* slots placed at this instant */
	int n_fresh;
	int *group;			/* slots, scratch */
	uint32_t mark;
	const struct placement **placements;	/* scratch of a moment */
	struct step_estimate *estimates;
	struct step_memo *memo;		/* of the caller, or own_memo */
	struct step_memo *own_memo;
	int32_t *key;
	size_t n_key, cap_key;
	double first_arrival_s, last_s;	/* window of the makespan */
};

/* What the policy sees now. */
static inline struct view sim_view_of(const struct sim *s)
{
	return (struct view){ .exp = s->exp, .models = s->in->models, .now_s = s->now_s,
			      .free_gpus = s->free_gpus, .price = s->view.price,
			      .capacity_bps = s->view.capacity, .reserved_bps = s->reserved,
			      .n_running = s->shown ? s->n_running : 0, .running = s->shown };
}

/* ---- cluster_setup.c ---- */
int sim_setup(struct sim *s, struct bace_err *err);
void sim_teardown(struct sim *s);

int view_setup(struct sim *s, struct bace_err *err);
void view_teardown(struct sim *s);
/* Brings what is told up to now_s. */
void view_advance(struct sim *s);
uint64_t view_digest(const struct sim *s);

/* Takes the placement (owned by the outcome from here on). */
int running_start(struct sim *s, struct placement *p, struct bace_err *err);
void running_finish(struct sim *s, int slot);
/* Checkpoints the job, which goes on under p; takes p. */
int running_move(struct sim *s, int slot, struct placement *p, struct bace_err *err);
/* What is left at now_s, without settling. */
double running_left(const struct sim *s, int slot);
/* Work, energy and cost up to now_s. */
void running_settle(struct sim *s, int slot);
void running_set_step(struct sim *s, int slot, const struct step_estimate *e);
/* Marks every job on the pair for the oracle; true if there is one. */
bool running_touch_pair(struct sim *s, int pair);
void running_abandon(struct sim *s, int slot);
void idle_settle(struct sim *s, int region);

static inline int pair_of(const struct sim *s, int a, int b)
{
	return a < b ? a * s->n + b : b * s->n + a;
}

/* ---- cluster_steps.c: asks the oracle about what changed ---- */
int steps_update(struct sim *s, struct bace_err *err);
/* The step time of a placement in one region, if known; then its constraints
 * have been checked before, too. */
const struct step_estimate *steps_known(struct sim *s, const struct placement *p);

/* ---- cluster_result.c ---- */
int result_alloc(struct sim *s, struct bace_err *err);
/* Its outcome begins: written when the job arrives, so that a million of them
 * go through the cache once. */
void result_arrived(struct sim *s, int job);
int result_totals(struct sim *s, struct bace_err *err);

#endif
