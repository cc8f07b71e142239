/* Private to results: predicted against measured. */
#ifndef BACE_RESULTS_COMPARE_H
#define BACE_RESULTS_COMPARE_H

#include "results/timeline.h"

/* Why a placement's step takes longer than event simulation says; seconds,
 * unscaled, means over the steps looked at. The parts add up to the gap. */
struct gap {
	int n_steps;		/* 0: no timeline was kept */
	double measured_s, event_sim_s;
	double overrun_s;	/* computation that ended late, on the critical path */
	double transfer_s;	/* messages slower than the plan, on the critical path */
	double waiting_s;	/* the rest: order of operations, start of the step */
};

int placement_gap(struct store *s, int64_t placement, struct gap *out, struct bace_err *e);

struct placement_ref {
	int64_t id;
	char policy[64], job[64], placement[160];
	double closed_form_s, event_sim_s, median_s, p95_s;
	int n_steps;
};

/* The valid measured placements that have rows of their own, each moment's job once. */
int measured_placements(struct store *s, const char *run, const struct run_filter *f,
			struct placement_ref **out, size_t *n, struct bace_err *e);

#endif
