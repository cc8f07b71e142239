/*
 * Shortest Hamiltonian paths over subsets of up to HAMPATH_MAX members, exact
 * (Held and Karp 1962): the sum, or the largest, of symmetric edge weights.
 * O(2^n n^2) time, O(2^n n) memory, kept between calls.
 */
#ifndef BACE_POLICY_HAMPATH_H
#define BACE_POLICY_HAMPATH_H

#include <stdbool.h>
#include <stdint.h>

#define HAMPATH_MAX 16

struct hampath {
	int n;
	bool bottleneck;	/* largest edge instead of the sum */
	const double *w;	/* [n*n] symmetric; INFINITY: no edge */
	double *cost;		/* [2^n][n] best path over the set that starts at the member */
	int cap;		/* n that cost has room for */
};

/* Solves every subset. -ENOMEM or 0; w is borrowed until the next solve. */
int hampath_solve(struct hampath *h, int n, const double *w, bool bottleneck);
/* Cost of the best path over the set; INFINITY: none. */
double hampath_cost(const struct hampath *h, uint32_t set);
/* The path of that cost that comes first in lexicographic order of members. */
void hampath_path(const struct hampath *h, uint32_t set, int *out);
void hampath_free(struct hampath *h);

#endif
