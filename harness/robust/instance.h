/* Private to robust: one seed of one world. */
#ifndef BACE_ROBUST_INSTANCE_H
#define BACE_ROBUST_INSTANCE_H

#include "harness/robust/robust.h"
#include "harness/sim/sim.h"

/* What all instances of a run share. */
struct setting {
	const struct experiment *exp;
	const struct robust_options *o;
	double least_delay_s;			/* least above 0; INFINITY: none */
	struct price_series *flat, *hourly;	/* [regions], owned */
};

int setting_init(struct setting *s, const struct experiment *exp, const struct robust_options *o,
		 struct bace_diags *diags, struct bace_err *err);
void setting_free(struct setting *s);

struct instance {
	struct experiment e;	/* view is the caller's to set */
	struct job_models models;
	struct link_change *changes;
	int n_changes;
	struct price_series *series;
	int redraws;
};

/* The same seed draws the same jobs, arrivals and links in every world. */
int instance_build(struct instance *s, const struct setting *from, const struct robust_world *w, uint64_t seed,
		struct bace_err *err);
void instance_free(struct instance *s);

#endif
