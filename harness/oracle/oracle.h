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

int oracle_closed_form(struct oracle **out, struct bace_err *err);
int oracle_event_sim(enum schedule_kind schedule, int interleave, bool overlap, struct oracle **out,
		     struct bace_err *err);
static inline void oracle_destroy(struct oracle *o)
{
	if (o)
		o->destroy(o);
}

/* Goodput left to placements[which] on the directed link src -> dst: capacity
 * minus what max-min sharing (demand 8A/(t_F+t_B) each) gives the others. */
double moment_link_goodput_bps(const struct moment *m, int which, int src, int dst);

/* Hop costs of one placement in both directions at this moment; arrays of
 * n_gpus - 1. Latency and bandwidth are the truth, unscaled. */
void moment_hops(const struct moment *m, int which, struct hop_cost *fwd, struct hop_cost *rev);

/* Canonical key of a moment: equal moments, equal text. Names, not indices;
 * placements sorted; malloc'd. For the store's cache of measurements. */
char *moment_key(const struct moment *m);

#endif
