/*
 * Private to the oracles: what every running job gets of every link that it
 * crosses, for a whole moment at once.
 */
#ifndef BACE_ORACLE_SHARES_H
#define BACE_ORACLE_SHARES_H

#include "harness/oracle/oracle.h"

/* One job on one directed link. */
struct crossing {
	int link;			/* src * n_regions + dst */
	int next;			/* on the same link, in order of start; -1 */
	double demand_bps, goodput_bps;
};

/* Reused from moment to moment: {0} to begin with, shares_free at the end. */
struct shares {
	const struct moment *m;
	struct crossing *v;
	size_t n, cap;
	size_t *first;			/* [placements] of each one's crossings */
	size_t cap_first;
	int *head;			/* [regions^2], crossings + 1; all 0 between uses */
	size_t cap_head;
	double *scratch;		/* demands of one link */
	size_t cap_scratch;
};

/* chunks: of interleaved-1f1b, which also goes from the last region to the first
 * and sends every micro-batch as often over each hop; else 1. O(crossings), and
 * on a link over capacity as often as there are distinct demands below the
 * fair share. -ENOMEM. */
int shares_compute(struct shares *s, const struct moment *m, int chunks);
void shares_free(struct shares *s);

/* Fills the hops of one placement: n_gpus - 1, one more if it wraps. */
void shares_hops(const struct shares *s, int which, bool wraps, struct hop_cost *fwd, struct hop_cost *rev);

/* The level to which max-min sharing fills demands on a capacity: everyone gets
 * the lesser of demand and level. INFINITY: all are satisfied. */
double max_min_level(double capacity, const double *demand, size_t n);

static inline int moment_chunks(const struct moment *m)
{
	return m->exp->schedule == SCHED_INTERLEAVED_1F1B ? m->exp->interleave : 1;
}

#endif
