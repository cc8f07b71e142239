/* Private to harness/run: the points of a fidelity run, and their paths. Pure. */
#ifndef BACE_RUN_FIDELITY_H
#define BACE_RUN_FIDELITY_H

#include "harness/run/run.h"

/* Fills stage times and points, without paths and predictions. */
int fidelity_points(const struct experiment *exp, const struct job_models *m,
		    const struct fidelity_options *o, struct fidelity *out, struct bace_err *e);

/* Bytes that a round of the ring of a stage moves, unscaled. */
double fidelity_part_bytes(const struct fidelity_point *p);

/* A path through regions for each replica, every region once: hop p->hop of the
 * first has p->latency_ns, all other hops, and those between replicas of a stage,
 * the least latency; over no link, either way, that `used` names. used:
 * [n_regions^2], and gets the paths' links. False: there is none. */
bool fidelity_path(const struct cluster *c, bool *used, struct fidelity_point *p);

/* sim_s of a point that has its path. */
int fidelity_predict(const struct experiment *exp, const struct job_models *m, struct fidelity_point *p,
		     struct bace_err *e);

/* Goodput of a link in seconds a message. */
double fidelity_serialisation_s(const struct experiment *exp, const struct job_models *m, int src, int dst);
int64_t fidelity_near_ns(const struct cluster *c);
double fidelity_weight_s(const struct experiment *exp, enum schedule_kind k, double bwd_s);

#endif
