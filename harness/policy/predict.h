/*
 * Step time of a placement under the schedule really run.
 *
 * predict_step: in closed form, O(regions). A stage can only start a forward
 * when one of the live_i micro-batches it may have in flight has come back, so
 * by Little's law the slot is at least (compute and hops from stage i to the
 * end and back) / live_i. For uniform stages and hops this gives the exact
 * 1f1b formula of design section 4 to within 2c/p.
 *
 * predict_simulate: by the event simulation itself, O(stages x micro-batches).
 */
#ifndef BACE_POLICY_PREDICT_H
#define BACE_POLICY_PREDICT_H

#include "harness/policy/internal.h"

struct oracle;

/* parts along the path, k GPUs in all; INFINITY if a hop carries nothing. */
double predict_step(const struct policy *p, const struct situation *s, const struct job_class *c,
		    const struct placement_part *parts, int n, int k);
/* By oracle_event_sim of the experiment's schedule, alone on the residual links. */
int predict_simulate(const struct policy *p, const struct situation *s, struct oracle *o, int job,
		     const struct placement_part *parts, int n, int k, double *capacity_scratch,
		     double *step_s, struct bace_err *err);

#endif
