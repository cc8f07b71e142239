/*
 * harness/oracle: what turns the set of running placements into step times.
 * closed-form and event-sim are computed here; `measured` is made by the
 * controller, behind the same vtable.
 */
#ifndef BACE_ORACLE_H
#define BACE_ORACLE_H

#include "harness/policy/policy.h"

/* All jobs that run at one moment, and the truth of that moment. */
struct moment {
	const struct experiment *exp;
	const struct job_models *models;
	int n;
	const struct placement *const *placements;	/* in order of start */
	const double *capacity_bps;	/* [n_regions^2], L2, true */
};

struct step_estimate {
	double step_s;			/* unscaled seconds */
	double busy;			/* compute seconds / step seconds, mean over ranks, 0..1 */
};

struct oracle {
	const char *name;
	/* out[i] for placements[i]. */
	int (*step_times)(struct oracle *o, const struct moment *m, struct step_estimate *out,
			  struct bace_err *err);
	void (*destroy)(struct oracle *o);
};

/*
 * The two oracles that compute. Pure; each has scratch of its own, so one serves
 * one thread. A link without capacity gives an infinite step (busy 0).
 *
 * closed-form (design section 4, hidden communication):
 *   tau = max(max_i (t_F,i + t_B,i), max over hops and directions 8A/b)
 *   T = (m-1) tau + sum_i (t_F,i + t_B,i) + sum over hops, both ways (L + 8A/b)
 * whatever the schedule. O(stages) a job.
 * event-sim: the named schedule, operation by operation (pipeline_simulate).
 * zb-h1 splits the backward by schedule_weight_share. O(m stages) a job.
 * b of both: moment_link_goodput_bps.
 */
int oracle_closed_form(struct oracle **out, struct bace_err *err);
int oracle_event_sim(enum schedule_kind schedule, int interleave, bool overlap, struct oracle **out,
		     struct bace_err *err);
static inline void oracle_destroy(struct oracle *o)
{
	if (o)
		o->destroy(o);
}

/* One operation of one step as event-sim predicts it, or a message: from when it
 * was made to its arrival at `stage`. Unscaled seconds from the step's start. */
struct predicted_op {
	int stage, micro_batch;
	uint8_t kind;			/* enum op_kind; of a message: of the operation that made it */
	bool received;
	double start_s, end_s;
};
/* Every operation and message of placements[which]; in order within a stage.
 * o is of oracle_event_sim. */
int oracle_event_sim_ops(struct oracle *o, const struct moment *m, int which,
			 void (*on_op)(void *arg, const struct predicted_op *op), void *arg,
			 struct bace_err *err);

/* Boundary i of a path: between parts i and i + 1; the last one, where the
 * schedule wraps (interleaved-1f1b), between the last part and the first. With
 * two parts that is the only boundary again, turned round. */
static inline int path_boundaries(const struct placement *p, bool wraps)
{
	return wraps && p->n_parts > 2 ? p->n_parts : p->n_parts - 1;
}

/* Goodput that placements[which] has of the directed link src -> dst: capacity
 * minus what max-min sharing gives the others; alone, or not on its way, all of
 * it. Every job on a link, in either direction of its path, demands
 * 8A/(t_F+t_B), with interleaved-1f1b v times that: each chunk sends. NAN: out
 * of memory. */
double moment_link_goodput_bps(const struct moment *m, int which, int src, int dst);

/* Hop costs of one placement in both directions at this moment; arrays of
 * n_gpus - 1. Latency and bandwidth are the truth, unscaled. Hops within a
 * region have its own bandwidth each. -ENOMEM. */
int moment_hops(const struct moment *m, int which, struct hop_cost *fwd, struct hop_cost *rev);
/* The same and one more, from the last stage to the first: arrays of n_gpus. */
int moment_hops_wrapped(const struct moment *m, int which, struct hop_cost *fwd, struct hop_cost *rev);

/* Canonical key of a moment: equal moments, equal text, whatever the order and
 * the names of the jobs. "MODEL (m, beta, F, B, A) @ PATH; ..." sorted, then " | "
 * and the regions used, " | " and the links used, with what is true of them.
 * malloc'd; NULL: out of memory. */
char *moment_key(const struct moment *m);
/* Where each placement stands in the key; of those that are alike, in the moment's
 * order. place: [n]. -ENOMEM. */
int moment_order(const struct moment *m, int *place);

#endif
