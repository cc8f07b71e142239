/* Private to results: predicted against measured. */
#ifndef BACE_RESULTS_COMPARE_H
#define BACE_RESULTS_COMPARE_H

#include "results/causes.h"
#include "results/table.h"
#include "results/timeline.h"

/* Why a placement's step takes longer than event simulation says; seconds,
 * unscaled, means over the steps looked at. The parts add up to the gap. */
struct gap {
	int n_steps;		/* 0: no timeline was kept */
	double measured_s, event_sim_s;
	double overrun_s;	/* computation that ended late, on the critical path */
	double transfer_s;	/* messages slower than the plan, on the critical path */
	double why_s[SLOW_CAUSES];	/* adds up to transfer_s */
	double waiting_s;	/* another order of operations, and waits for nothing of the above */
	double unexplained_s;	/* of the measured step, what the chain of operations does not cover */
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

/* Why messages were slower, a row a placement whose operations were looked at. */
int why_table(const struct placement_ref *v, const struct gap *gaps, size_t n, struct table *t);

/* ---- jobs and policies by each oracle ---- */
enum compared_metric { COMPARED_JCT, COMPARED_ENERGY, COMPARED_COST, COMPARED_METRICS };	/* s, J, USD */
enum compared_oracle { COMPARED_CLOSED, COMPARED_SIM, COMPARED_MEASURED, COMPARED_ORACLES };

struct job_compared {		/* NAN: that oracle was not run, or the job did not finish by it */
	char policy[64], job[64];
	double v[COMPARED_METRICS][COMPARED_ORACLES];
};

struct policy_compared {
	char policy[64];
	int n;			/* jobs */
	double v[COMPARED_METRICS][COMPARED_ORACLES];	/* JCT: mean; energy, cost: sum */
	double error[COMPARED_METRICS], lo[COMPARED_METRICS], hi[COMPARED_METRICS];	/* mean over jobs */
};

/* Of the rows of one job of one policy. */
#define OUTCOME_BY(oracle, column) "max(CASE oracle WHEN '" oracle "' THEN " column " END)"

/* The jobs that finished by measurement. *out is free()d. */
int compared_jobs(struct store *s, const char *run, const struct run_filter *f, struct job_compared **out,
		  size_t *n, struct bace_err *e);
int compared_policies(const struct job_compared *v, size_t n, const struct compare_options *o,
		      struct policy_compared **out, size_t *n_out, struct bace_err *e);
int print_compared_jobs(const struct job_compared *v, size_t n, FILE *to, bool color, int width);
int print_compared_policies(const struct policy_compared *v, size_t n, FILE *to, bool color, int width);

#endif
