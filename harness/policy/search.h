/*
 * bace+'s search for one job in one situation: paths grown from every region
 * over the widest link, the quickest link, and to the cheapest region; every
 * useful k; three ways to share k out; the best by a given objective, and the cheapest close to it.
 */
#ifndef BACE_POLICY_SEARCH_H
#define BACE_POLICY_SEARCH_H

#include "harness/policy/internal.h"

#define SEARCH_PATH_MAX 8	/* regions on a path: each WAN hop more costs, none helps beyond */
#define SEARCH_KEEP 6		/* candidates kept for the event simulation */

struct candidate {
	int n, k;
	struct placement_part parts[SEARCH_PATH_MAX];
	double step_s;			/* predicted */
	double length_s;		/* steps * step_s */
	double cost_usd;		/* of the whole run */
	double objective_s;		/* length_s * (1 + k * gpu_price) */
};

struct search {
	struct policy *p;
	const struct situation *s;	/* free GPUs, residual links, forecast unit cost and its order */
	const struct job_class *c;
	double steps;
	double gpu_price;		/* what a GPU second is worth to those who wait, in seconds */
	int least, most;		/* k */
	double limit_s;			/* how bad an objective may be for less money */
	/* out: ascending by objective */
	int n_best;
	struct candidate best[SEARCH_KEEP];
	int n_cheap;			/* ascending by cost */
	struct candidate cheap[SEARCH_KEEP];
};

/* Fills best[]; false: no k fits. */
bool search_run(struct search *x);
/* After search_run: fills cheap[] with what keeps limit_s. */
void search_cheapest(struct search *x);
/* Fills cost_usd for the situation's unit costs and the links' egress prices. */
void search_cost(const struct search *x, struct candidate *c);

#endif
