/* The event loop again, as plainly as it can be written: everything is computed
 * anew at every instant. No noise in the view. */
#ifndef TEST_CLUSTER_REFERENCE_H
#define TEST_CLUSTER_REFERENCE_H

#include "harness/sim/sim.h"

struct reference_job {
	bool placed, finished;
	double start_s, finish_s, energy_j, cost_usd;
	char *where;
};

/* jobs: [n_jobs], where freed by the caller. */
int reference_simulate(const struct cluster_sim *s, struct reference_job *jobs, struct bace_err *err);

#endif
