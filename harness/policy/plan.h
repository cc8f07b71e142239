/*
 * What will be free when: the cluster as it empties, and as jobs that are
 * promised a later start fill it again. For bace+.
 */
#ifndef BACE_POLICY_PLAN_H
#define BACE_POLICY_PLAN_H

#include "harness/policy/internal.h"

#define PLAN_SLOTS 24		/* the nearest events; what comes after is not planned with */

/* From at_s to the next slot's at_s; the last holds for ever. */
struct plan_slot {
	double at_s;
	int *free_gpus;		/* [n] */
	double *residual;	/* [n*n] goodput */
};

struct plan {
	int n;			/* slots */
	struct plan_slot slot[PLAN_SLOTS];
	/* What holds throughout a stretch of time, for the search. */
	struct situation during;
	int *min_free;
	double *end_s;		/* scratch: ends of the running jobs */
	int *by_end, cap_running;
};

int plan_alloc(struct plan *p, const struct facts *f);
void plan_destroy(struct plan *p);
/* Slot 0 is now; one more for each end of a running job. -ENOMEM or 0. */
int plan_begin(struct plan *p, const struct policy *pol, const struct situation *now, const struct view *v);
/* p->during: the least of what is free from slot `from` for `length_s`. */
void plan_during(struct plan *p, const struct facts *f, const struct situation *now, int from,
		 double length_s);
/* Promises the parts from slot `from` for length_s. */
void plan_reserve(struct plan *p, const struct facts *f, int from, double length_s,
		  const struct placement *pl);
/* As if the running placement had never been. */
void plan_release(struct plan *p, const struct facts *f, const struct placement *pl);

#endif
