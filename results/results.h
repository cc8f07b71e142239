/*
 * results: the store (SQLite), statistics, comparison, export, plots and the
 * report. Rows are in unscaled seconds, bits/s, bytes, joules and USD unless a
 * name says otherwise.
 */
#ifndef BACE_RESULTS_H
#define BACE_RESULTS_H

#include "common/common.h"

/* ---- statistics: pure, over n doubles; inputs are not changed ---- */
double stats_mean(const double *v, size_t n);
double stats_median(const double *v, size_t n);		/* NAN for n = 0 */
double stats_quantile(const double *v, size_t n, double q);	/* type 7, as R and numpy */
/* Percentile bootstrap of a statistic, `resamples` draws, two-sided level e.g. 0.95. NAN, which
 * is printed as no interval: n is 0, or there is no memory. */
void stats_bootstrap(const double *v, size_t n, double (*statistic)(const double *, size_t),
		     int resamples, double level, uint64_t seed, double *lo, double *hi);
/* Kendall tau-b of two rankings; NAN when undefined. */
double stats_kendall(const double *a, const double *b, size_t n);

/* ---- the store ---- */
struct store;

/*
 * Opens or creates, with the folders above; migrates older schemas. -EUCLEAN:
 * damaged, or of something else; -EPROTO: of a newer bace; what is refused is
 * not touched. -EACCES, -EROFS: no permission; -EINVAL: not a file. Of whatever
 * reads or writes later, too: -ENOSPC: full, and nothing of the transaction is
 * kept; -EBUSY: another process held it for ten seconds; -EINVAL: a row breaks a
 * constraint (a placement that is not there, one of two that are the same); -EIO.
 */
int store_open(const char *path, struct store **out, struct bace_err *e);
/* To read; also where nothing can be written. All that is read is of one state,
 * that of the first look, though a run may be writing. -ENOENT; -EPROTO: an older
 * schema, and no permission to bring it up to date; -EACCES: a log beside it
 * cannot be read. */
int store_open_readonly(const char *path, struct store **out, struct bace_err *e);
void store_close(struct store *s);
/* Where results go unless --store says otherwise: results/bace.db under the
 * working directory when that directory is a source checkout, else
 * $XDG_DATA_HOME/bace/bace.db. malloc'd. */
char *store_default_path(void);

struct run_info {
	const char *command;		/* as typed */
	const char *experiment;		/* name */
	const char *config_text;
	uint64_t config_hash;
	uint64_t seed;
	const char *version, *kernel;
	const char *inventory_json;	/* hosts, sysctls; may be NULL */
	const char *backend, *backend_why;	/* NULL without testbed */
	const char *schedule;
	double scale_bytes, scale_time;
	const char *git_revision;	/* may be NULL */
};

/* Ids are short strings, sortable by time: "20261130-041520-7f3a". */
int store_run_begin(struct store *s, const struct run_info *r, char id[32], struct bace_err *e);
int store_run_set_inventory(struct store *s, const char *run, const char *json, struct bace_err *e);
int store_run_end(struct store *s, const char *run, const char *status, struct bace_err *e);

/* The files of a run's experiment in one text, which `bace run` takes as the
 * experiment it was. malloc'd. */
int store_run_config(struct store *s, const char *run, char **text, char **backend, struct bace_err *e);

/* One transaction a cell. A commit that fails has been rolled back. */
int store_begin(struct store *s, struct bace_err *e);
int store_commit(struct store *s, struct bace_err *e);
void store_rollback(struct store *s);

/* ---- rows: NAN is stored as NULL, a NULL text too ---- */
struct link_truth_row {
	const char *src, *dst;
	double rate_bps, latency_s, jitter_s, loss;	/* unscaled */
	double scaled_rate_bps, scaled_latency_s;
	double buffer_bytes;		/* as asked for; 0: computed */
	/* What the testbed made of it; NAN: nothing. */
	double burst_bytes, queue_bytes, gso_max_bytes, initcwnd_segments, delay_limit_packets;
};
struct disturbance_row {		/* beyond link_truth; unscaled */
	const char *src, *dst, *jitter_distribution, *trace;	/* trace: path, may be NULL */
	double jitter_s, loss;
	bool loop;
};
struct plan_check_row {			/* verification of one directed link, testbed units */
	const char *src, *dst;
	double planned_rtt_s, rtt_min_s, rtt_median_s, rtt_p99_s;
	double planned_goodput_bps, goodput_bps;	/* 0: not measured */
};
struct placement_row {			/* one placement of one policy */
	const char *policy, *job;
	const char *placement;		/* "ireland:2 > frankfurt:1" */
	int stages, micro_batches;
	const char *moment;		/* canonical key: what ran beside it */
	int jobs_at_once;
	double closed_form_s, event_sim_s;	/* predicted step times; NAN: not computed */
	bool valid;
	const char *invalid_why;	/* or skipped because */
	int n_steps;			/* measured */
	double measured_median_s, measured_p95_s, measured_first_s;	/* NAN: not measured */
	double compute_s;		/* measured mean compute per stage and step */
	double delay_lateness_p99_s;	/* of the cell's delay lines, testbed time; NAN: none */
};
struct step_row {			/* unscaled */
	int64_t placement_id;
	int step;			/* < 0: warm-up */
	double step_s, compute_s, stall_s;
};
struct transfer_row {			/* testbed units, as counted */
	int64_t placement_id;
	int hop;
	const char *src, *dst;
	bool forward;
	double payload_bytes, wire_bytes, retrans_bytes, tc_bytes;
	double rtt_s, min_rtt_s;
	const char *congestion_control;
	bool valid;
	double planned_goodput_bps;	/* the job's share of the link by event simulation; 0: all of it */
	double idle_window_bytes;	/* congestion window after a pause; 0: it is kept */
};
struct transfer_step_row {		/* testbed units; of one step, or as it was at its end */
	int64_t placement_id;
	int hop, step;
	bool forward, app_limited;
	double sent_bytes, retrans_bytes, busy_s, rwnd_limited_s, sndbuf_limited_s;
	double cwnd_bytes, rtt_s, min_rtt_s, delivery_rate_bps;
};
struct op_row {				/* one operation of the timeline, testbed seconds from the cell's start */
	int64_t placement_id;
	int stage, step, micro_batch;
	const char *kind;		/* "F", "B", "W", "recvF", "recvB", "sendF", "sendB" */
	double start_s, end_s, planned_end_s;
};
struct job_outcome_row {
	const char *policy, *oracle, *job;
	bool finished;
	double arrival_s, start_s, finish_s, jct_s, waiting_s, slowdown;
	double energy_j, cost_usd, mean_step_s;
	const char *placement;
};
struct decision_row {
	const char *policy, *oracle;
	double at_s;
	uint64_t view_digest;
	double latency_s;
	const char *job;		/* placed or moved, or NULL */
};
struct skip_row {			/* what was skipped, and why */
	const char *policy, *what, *why;
};

struct monitor_row {
	double at_s;			/* testbed time since the run began */
	const char *method;		/* "counters", "tcp_info", "probe" */
	const char *src, *dst;		/* regions; may be NULL */
	const char *quantity;		/* its name ends in the unit: "goodput_bps", "power_w" */
	double value;
};
struct energy_row {
	const char *host, *source, *device;	/* "nvml", "GPU 0" */
	double start_s, end_s, energy_j;
};
struct comparison_row {			/* one figure of bace overhead, robust, claims, rerun */
	const char *kind;		/* that command's name */
	const char *subject, *against;	/* method, policy or figure; baseline or run, may be NULL */
	const char *metric;		/* its unit in the name */
	double x, y;			/* where in the grid; NAN: none */
	double value, lo, hi;		/* lo, hi: 95 % interval, NAN: none */
	int n;
	const char *published, *verdict;	/* may be NULL */
};

int store_add_link_truth(struct store *s, const char *run, const struct link_truth_row *r, struct bace_err *e);
int store_add_disturbance(struct store *s, const char *run, const struct disturbance_row *r, struct bace_err *e);
int store_add_plan_check(struct store *s, const char *run, const struct plan_check_row *r, struct bace_err *e);
int store_add_placement(struct store *s, const char *run, const struct placement_row *r, int64_t *id, struct bace_err *e);
/* The last n valid rows of that moment that a policy has, with all that belongs to them. */
int store_drop_placements(struct store *s, const char *run, const char *policy, const char *moment, int n,
			  struct bace_err *e);
int store_add_step(struct store *s, const struct step_row *r, struct bace_err *e);
int store_add_transfer(struct store *s, const struct transfer_row *r, struct bace_err *e);
int store_add_transfer_step(struct store *s, const struct transfer_step_row *r, struct bace_err *e);
int store_add_op(struct store *s, const struct op_row *r, struct bace_err *e);
/* The same operation as event simulation predicts it, from the step's start;
 * planned_end_s is not used. One step is enough for the report. */
int store_add_sim_op(struct store *s, const struct op_row *r, struct bace_err *e);
int store_add_monitor_sample(struct store *s, const char *run, const struct monitor_row *r, struct bace_err *e);
int store_add_energy(struct store *s, const char *run, const struct energy_row *r, struct bace_err *e);
int store_add_comparison(struct store *s, const char *run, const struct comparison_row *r, struct bace_err *e);
int store_add_job_outcome(struct store *s, const char *run, const struct job_outcome_row *r, struct bace_err *e);
int store_add_decision(struct store *s, const char *run, const struct decision_row *r, struct bace_err *e);
int store_add_skip(struct store *s, const char *run, const struct skip_row *r, struct bace_err *e);

/* Last valid measurement of a moment under the same testbed settings
 * (settings: canonical text, hashed into the key by the caller), of one run, or
 * of any (run: NULL). Fills at most n values, one per placement in key order.
 * Returns 1 found, 0 not. */
int store_find_moment(struct store *s, const char *run, const char *settings, const char *moment, int n,
		      double *median_step_s, double *busy, struct bace_err *e);
/* How many moments a run has under the settings; *other: settings of another one of
 * its moments, malloc'd, NULL: there is none. */
int store_count_moments(struct store *s, const char *run, const char *settings, int *n, char **other,
			struct bace_err *e);
/* Gives a run what another measured under the settings. */
int store_copy_moments(struct store *s, const char *from, const char *to, const char *settings, struct bace_err *e);
int store_add_moment(struct store *s, const char *run, const char *settings, const char *moment,
		     int n, const double *median_step_s, const double *busy, struct bace_err *e);

/* The full id of a run: itself, a prefix that only one has, or "last".
 * -ENOENT: none; err names the nearest. */
int store_find_run(struct store *s, const char *given, char id[32], struct bace_err *e);
/* Whose rows a run has, by its full id: "run" (also until there are any),
 * "robust", "overhead" or "claims". */
int store_run_kind(struct store *s, const char *run, char kind[16], struct bace_err *e);
/* run_info.config_hash of a run, by its full id. */
int store_run_config_hash(struct store *s, const char *run, uint64_t *hash, struct bace_err *e);

/* ---- looking after it ---- */
/* Prints what is wrong and what is in it. */
int store_check(struct store *s, FILE *to, bool json, int *n_problems, struct bace_err *e);

/* A run goes when all that are given mean it; a live one never does, and one whose
 * process cannot be seen from here ("running?", another container's) only by name. */
struct gc_options {
	const char *run;
	const char *status;	/* done, failed, interrupted, killed */
	double older_s;		/* NAN: of any age */
	bool timelines;		/* only the operations go, the run stays */
	bool dry_run;
};
struct gc_result {
	size_t n;
	char **ids;		/* what went, or would */
	int64_t bytes_before, bytes_after;
	struct bace_err not_compact;	/* errnum not 0: the runs went, the space was not given back */
};
/* Without any of run, status and older_s nothing goes, the file is made compact. */
int store_gc(struct store *s, const struct gc_options *o, struct gc_result *out, struct bace_err *e);
void gc_result_free(struct gc_result *r);

/* Sums over a policy's jobs by one oracle; NAN when one did not finish.
 * -ENODATA: that oracle was not run. */
int store_policy_totals(struct store *s, const char *run, const char *policy, const char *oracle, double *jct_s,
			double *cost_usd, struct bace_err *e);

/* ---- output ---- */
/* What of a run to show; NULL: all. */
struct run_filter {
	const char *policy, *job;
};

/* Where a run is asked for below, store_find_run's forms are taken. */

/* The summary tables of a run as text. color: ANSI allowed. width: columns to
 * stay within, 0: as wide as it gets (a pipe). */
int results_print_run_part(struct store *s, const char *run, const struct run_filter *f, FILE *to,
			   bool color, int width, struct bace_err *e);
int results_print_run_part_json(struct store *s, const char *run, const struct run_filter *f, FILE *to,
				struct bace_err *e);
int results_print_run(struct store *s, const char *run, FILE *to, bool color, int width, struct bace_err *e);
int results_print_run_json(struct store *s, const char *run, FILE *to, struct bace_err *e);
/* The newest first. */
struct runs_filter {
	const char *experiment, *status;	/* NULL: any; status "killed" is known too */
	int limit;				/* 0: all */
};
int results_print_runs(struct store *s, const struct runs_filter *f, FILE *to, bool json, bool color,
		       int width, struct bace_err *e);

enum export_format { EXPORT_CSV, EXPORT_JSON, EXPORT_NDJSON };
struct export_options {
	enum export_format format;
	const char *dir;	/* one file a table there (json: one in all); NULL: to the stream */
	const char *table;	/* only this one; NULL: all */
};
/* Column names carry units; numbers have 12 significant digits; NULL is an
 * empty field or null. CSV after RFC 4180. */
int results_export(struct store *s, const char *run, const struct export_options *o, FILE *to,
		   struct bace_err *e);
/* Every table and column with unit and meaning, from the schema itself. */
int results_print_dictionary(struct store *s, FILE *to, bool json, bool color, int width,
			     struct bace_err *e);
/* Chrome trace-event JSON for Perfetto: a process a region's host, a thread a
 * stage, a flow a message, a counter a link. -ENODATA: no timeline was kept. */
int results_write_trace(struct store *s, const char *run, FILE *to, struct bace_err *e);

struct compare_options {
	struct run_filter filter;
	uint64_t seed;		/* of the bootstrap */
	int resamples;
};
/* What `bace compare` concludes; fractions. */
struct compare_summary {
	size_t n;
	double median_abs, worst_abs;
};
int results_compare(struct store *s, const char *run, const struct compare_options *o, FILE *to, bool json,
		    bool color, int width, struct compare_summary *out, struct bace_err *e);

struct diff_options {
	uint64_t seed;		/* of the bootstrap */
	int resamples;
	bool record;		/* keep the figures with run b, kind "rerun" */
};
struct diff_summary {
	size_t n;		/* placements that both measured */
	double median_abs, worst_abs;	/* |b / a - 1| of the median step time */
};
/* What is different in how two runs came about, and how far b's step times,
 * completion times and costs are from a's. */
int results_diff(struct store *s, const char *a, const char *b, const struct diff_options *o, FILE *to,
		 bool json, bool color, int width, struct diff_summary *out, struct bace_err *e);

/* The same placements in two runs at different scales: unscaled measured step
 * times side by side; *worst_abs is the largest |second / first - 1|. */
int results_compare_scales(struct store *s, const char *first, const char *second, FILE *to, bool json, bool color,
			   int width, double *worst_abs, struct bace_err *e);

/* The results of another simulator (CSV, and placements as JSON: docs/compare.md)
 * beside what the run measured of the same placements. -EINVAL: bad file. */
int results_compare_own(struct store *s, const char *run, const char *csv, const char *placements,
			const struct compare_options *o, FILE *to, bool json, bool color, int width,
			struct compare_summary *out, struct bace_err *e);

/* One self-contained HTML file; plots by gnuplot (SVG inside; without gnuplot
 * the file says so and has the tables). Written whole or not at all. */
int results_write_reports(struct store *s, const char *const *runs, size_t n, const char *path,
			  struct bace_err *e);
/* `bace overhead': inflation against detection delay, as an SVG file. -ENODATA:
 * nothing was detected. */
int results_write_overhead_plot(struct store *s, const char *run, const char *path, struct bace_err *e);
int results_write_report(struct store *s, const char *run, const char *path, struct bace_err *e);

#endif
