/* Private to the claims: one scenario, and what is made of it. */
#ifndef BACE_SIM_CLAIMS_H
#define BACE_SIM_CLAIMS_H

#include "harness/sim/sim.h"

#define CLAIMS_MAX_JOBS 24

/* What is drawn once, for all arms and variants. */
struct draw {
	const struct experiment *base;
	int *gpus;			/* [regions] */
	double *bandwidth_bps, *price;	/* [regions] */
	int model[CLAIMS_MAX_JOBS], dataset[CLAIMS_MAX_JOBS];
	double gap[CLAIMS_MAX_JOBS];	/* exponential, mean 1 */
};

/* An experiment made of a draw, for one set of choices and one variant. */
struct scene {
	struct experiment e;
	struct job_models models;
	double zero;			/* start of every price series */
};

int draw_alloc(struct draw *d, const struct experiment *base);
void draw_free(struct draw *d);
void draw_scenario(struct draw *d, struct bace_rng *r);

/* The models too; -ENOMEM, or -EINVAL as job_models_build. */
int scene_build(struct scene *s, const struct draw *d, const int *choice, enum claims_variant v,
		struct bace_err *err);
void scene_free(struct scene *s);
/* Does every job fit on some number of the cluster's GPUs? */
bool scene_fits(const struct scene *s);
enum schedule_kind choice_schedule(const int *choice);
double choice_alpha(const int *choice);
void scene_inputs(const struct scene *s, const int *choice, double *input);	/* [CLAIMS_INPUTS] */

#endif
