/*
 * What all jobs of one class (model, m, beta) share: times, memory fit and the
 * answers to "how many GPUs" that every policy asks again and again.
 */
#ifndef BACE_POLICY_MODEL_H
#define BACE_POLICY_MODEL_H

#include "harness/policy/policy.h"

struct job_class {
	int model, m, beta;
	int layers;
	bool equal_split;		/* k may exceed the layers: stages are equal fractions */
	int k_limit;
	int k_min, k_star;		/* on the reference GPU */
	double fwd_s, bwd_s, total_s;	/* whole model on the reference GPU; total = fwd + bwd */
	double boundary_bits;		/* 8 A */
	double step_star_s;
	uint8_t *fits;			/* [n_gpus][k_limit + 1], one row per GPU type */
	int *k_best;			/* same shape: argmin of nominal T over fitting k' <= k; 0: none */
};

static inline const uint8_t *class_fits(const struct job_class *c, int gpu)
{
	return c->fits + (size_t)gpu * (size_t)(c->k_limit + 1);
}

static inline int class_k_best(const struct job_class *c, int gpu, int k)
{
	return c->k_best[(size_t)gpu * (size_t)(c->k_limit + 1) + (size_t)k];
}

/* Fraction of the model on the largest of k stages. */
static inline double class_largest_stage(const struct job_class *c, int k)
{
	if (c->equal_split)
		return 1.0 / k;
	return (double)((c->layers + k - 1) / k) / c->layers;
}

static inline const struct job_class *class_of(const struct job_models *m, int job)
{
	return &m->classes[m->v[job].cls];
}

#endif
