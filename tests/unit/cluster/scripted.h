/*
 * A scripted policy and a scripted oracle, so that only the event loop is under
 * test: policy_decide and its like are scripted.c's own.
 */
#ifndef TEST_CLUSTER_SCRIPTED_H
#define TEST_CLUSTER_SCRIPTED_H

#include "tests/unit/cluster/world.h"

struct policy {
	int n;
	struct {
		int job;
		double from_s;		/* not before */
		double max_price;	/* not while the view's price in the first region is higher; 0: any */
		double min_rate;	/* not while the view's capacity of the first hop is lower */
		int n_parts;
		struct placement_part parts[4];
	} script[8];
	int n_moves;
	struct {
		int job;
		double from_s;
		struct placement_part to;
		bool done;
	} moves[4];
	double restart_s;
	bool restless;
	double seen_left[8];
	bool blind;			/* places also where no GPU is free */
	double reserve_bps;
	int calls;
	double seen[8], seen_at[8];	/* price of region 0, per call */
	double last_reserved;		/* region 0 -> 1 */
	double last_back, seen_back[8];	/* region 0 -> 2; per call */
};

void script(struct policy *p, int job, int n_parts, const struct placement_part *parts);
void script1(struct policy *p, int job, int region, int gpus);
void script2(struct policy *p, int job, int a, int ga, int b, int gb);

/* The scripted oracle: 1 s a step; over a link, 1 s at 1 Gbit/s times the number
 * of jobs on it. */
struct fixed {
	struct oracle base;
	double step_s, busy;
	int calls, fail_at;
	int asked[16];			/* jobs, per call */
};

struct env {
	struct world w;
	struct policy p;
	struct fixed o;
	struct cluster_result r;
	struct cluster_sim sim;
	int rc;
	struct bace_err err;
};

void env_init(struct env *e, int n_regions);
void env_run(struct env *e);
void env_ok(struct env *e);
void env_free(struct env *e);

#define near(a, b) assert_true(fabs((a) - (b)) <= 1e-12 * fabs((double)(b)))

#endif
