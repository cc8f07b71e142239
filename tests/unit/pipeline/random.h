/* Random pipelines for tests, and an evaluation of them of its own. */
#ifndef TESTS_PIPELINE_RANDOM_H
#define TESTS_PIPELINE_RANDOM_H

#include "harness/sim/sim.h"

#define STAGES_MAX 16

struct random_pipeline {
	struct pipeline p;
	double numbers[7][STAGES_MAX];
};

/* Every schedule, different stages and hops; kind < 0: any. r->p points into r. */
void random_pipeline(struct bace_rng *rng, int kind, struct random_pipeline *r);

/* Step time from the definition: start and arrival of every (kind, virtual
 * stage, micro-batch) looked up by name, in whole tables. */
double reference_step_time(const struct pipeline *p);

#endif
