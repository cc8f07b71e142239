/*
 * Job traces: drawn from a shape, or taken from public ones, and turned into
 * jobs that do the same work. A trace says when a job came, how many GPUs it had
 * and for how long; here a scheduler chooses the GPUs, so a job gets a model by
 * the GPUs it had and as many steps as its GPU-seconds amount to.
 */
#ifndef BACE_SIM_TRACEGEN_H
#define BACE_SIM_TRACEGEN_H

#include "profiles/profiles.h"

#define TRACE_MAX_JOBS 50000	/* a jobs file of 8 MiB */
#define TRACE_MAX_GPUS 65536
#define TRACE_MAX_SIZES 16	/* different numbers of GPUs in a shape */
#define TRACE_MAX_DIAGS 20	/* then reading stops */

struct trace_job {
	char name[NAME_LEN];
	double arrival_s;		/* from the first */
	int gpus;
	double duration_s;
	int model;			/* index into the models it was given; trace_assign */
	double steps;
	bool is_small;			/* its GPU-seconds are less than half a step */
};

struct trace {
	struct trace_job *v;
	size_t n, cap;
};

void trace_free(struct trace *t);

/* ---- drawn ---- */
enum trace_arrivals { ARRIVALS_POISSON, ARRIVALS_BURSTY, ARRIVALS_AT_ONCE };

/*
 * Durations: least + log-normal of the given median and sigma, drawn again above
 * `most`. Bursty: bursts of a geometric number of jobs (mean `burst`), a
 * twentieth of the mean gap between its jobs, exponential gaps between the
 * starts of bursts; the mean gap is the same.
 * The defaults have the shape of the 60-job list of SymbioticLab's Tiresias
 * simulator: GPUs 1, 2, 4, 8 in 30:10:10:10; duration min 121, median 125, mean
 * 178, p90 209, max 1800 s; mean gap 30.2 s.
 */
struct trace_shape {
	int n_jobs;
	uint64_t seed;
	enum trace_arrivals arrivals;
	double gap_s;			/* mean, between arrivals */
	double burst;			/* mean jobs a burst, at least 1 */
	int n_sizes;
	int gpus[TRACE_MAX_SIZES];
	double weight[TRACE_MAX_SIZES];
	double least_s, median_s, sigma, most_s;
};

struct trace_shape trace_shape_default(void);
/* Jobs in order of arrival, named j1, j2, ... with leading zeros. -EINVAL says
 * which figure is wrong. */
int trace_draw(const struct trace_shape *s, struct trace *out, struct bace_err *e);

/* ---- taken ---- */
enum trace_column { COL_NAME, COL_ARRIVAL, COL_GPUS, COL_DURATION, COL_START, COL_END, COL_STATE,
		    N_TRACE_COLUMNS };

/* Names of a CSV file's columns; "" where there is none. The duration is end
 * minus start where a row has both, else the duration column. */
struct trace_columns {
	char name[N_TRACE_COLUMNS][64];
};

struct trace_skipped {
	size_t no_gpu;			/* CPU jobs */
	size_t never_ran;		/* no duration or 0 */
	size_t not_completed;		/* with only_completed */
};

/* "csv" (what `bace trace-gen --csv` writes), "helios" (cluster_log.csv of
 * SenseTime's Helios, SC '21), "acme" (trace_seren.csv and trace_kalos.csv of
 * Shanghai AI Lab's Acme, NSDI '24). false: none of that name. */
bool trace_columns_known(const char *layout, struct trace_columns *out);
/* "arrival=submitted,gpus=n": replaces columns. Keys: name, arrival, gpus,
 * duration, start, end, state. */
int trace_columns_set(struct trace_columns *c, const char *mapping, struct bace_err *e);

/* Times are seconds or dates ("2020-06-09 18:41:01", with a zone or UTC).
 * -EINVAL with diagnostics: a column is missing; a name twice, or not a name;
 * not a number, negative, out of range. Jobs in order of (arrival, name). */
int trace_read_csv(const char *path, const struct trace_columns *c, bool only_completed, struct trace *out,
		   struct trace_skipped *skipped, struct bace_diags *d, struct bace_err *e);
/* cluster_job_log of Microsoft's Philly (ATC '19), JSON: GPUs of the last
 * attempt, durations of all that ended. */
int trace_read_philly(const char *path, bool only_completed, struct trace *out, struct trace_skipped *skipped,
		      struct bace_diags *d, struct bace_err *e);

/* "2020-06-09 18:41:01", also with T, fractions, Z, +08:00; or a number of
 * seconds. false: neither. */
bool trace_parse_time(const char *text, double *seconds, bool *is_date);

/* Orders by (arrival, name) and lets the first arrive at 0; on request keeps the
 * first n only (0: all). */
void trace_normalise(struct trace *t, size_t keep);

/* ---- into jobs ---- */
struct trace_work {
	int n_models;
	const struct model *models;	/* for 1 GPU, 2, up to 4, up to 8, ...; the last for all above */
	int micro_batches, micro_batch_size;
	double flops_eff;		/* of the GPUs that the trace ran on */
};

/* Steps such that m * steps * (t_F + t_B) on one such GPU are the job's
 * GPU-seconds, at least 1. -EINVAL names the figure. */
int trace_assign(struct trace *t, const struct trace_work *w, struct bace_err *e);

/* A jobs file; `about`: lines for its head, without the #. */
int trace_write_cfg(const struct trace *t, const struct trace_work *w, const char *about, FILE *to,
		    struct bace_err *e);
int trace_write_csv(const struct trace *t, const struct trace_work *w, FILE *to, struct bace_err *e);

#endif
