/*
 * harness/overhead: what monitoring costs and what it is good for. One running
 * pipeline on shaped links; monitoring is switched on (B) and off (A) between its
 * steps, in pairs whose order is drawn. Then the rate of a link is changed and
 * it is seen how long the view takes to say so.
 *
 * Times and rates are the testbed's (scaled).
 */
#ifndef BACE_OVERHEAD_H
#define BACE_OVERHEAD_H

#include "harness/lab/lab.h"

enum overhead_kind { OVERHEAD_OFF, OVERHEAD_COUNTERS, OVERHEAD_TCP_INFO, OVERHEAD_PROBE };

struct overhead_method {
	enum overhead_kind kind;
	uint64_t probe_bytes;		/* of one train */
	char name[32];			/* "off", "counters", "tcp_info", "probe 48 kB" */
};

/* "off", "counters", "tcp_info" or "probe:SIZE". */
int overhead_method_parse(const char *text, struct overhead_method *out, struct bace_err *e);

struct overhead_options {
	const char *self, *command, *store_path;
	bool has_backend;
	enum backend_kind backend;
	int n_methods;
	const struct overhead_method *methods;
	int n_periods;
	const int *periods_ms;
	int pairs;			/* of blocks, 2 or more */
	int block_steps;		/* 2 or more: the first of a block does not count */
	int inject_ppm;			/* lengthens the timed compute of B */
	bool detection;			/* change a link's rate, too */
	void (*on_progress)(void *arg, const char *line);	/* may be NULL */
	bool (*cancelled)(void *arg);	/* may be NULL */
	void *arg;
};

/* One method at one period; NAN: not known. */
struct overhead_row {
	const struct overhead_method *method;
	int period_ms;
	bool valid;
	char why[256];			/* it is not */
	int n_pairs, n_steps;		/* with steps that count */
	double inflation, lo, hi;	/* median of the pairs' differences, fraction; 95 %, of 6 pairs and more */
	double step_s;			/* median of A */
	double agent_cpu, agent_cpu_off;	/* of a core, mean over agents: B, A */
	double agent_rss_bytes;		/* the largest */
	double wire_bytes_ps, probe_bytes_ps;	/* all hosts, B */
	uint64_t dropped;
	int n_changes, n_detected, n_idle_changes, n_idle_detected;
	double detect_s, idle_detect_s;	/* median of those detected */
	double error, idle_error;	/* median |estimate / truth - 1| in the second half of each dwell */
	double dwell_s;			/* how long a change was waited for */
};

struct overhead_result {
	char run[32];
	char *placement, *backend_why;
	const char *backend, *job;
	char link[2 * NAME_LEN + 8];	/* "ireland > frankfurt" */
	int hosts;
	double predicted_step_s;
	double injected;		/* expected inflation by event simulation, fraction */
	int n;
	struct overhead_row *rows;
};

/* -EINVAL: no job of the experiment crosses a link. Rows that came about before
 * a failure are kept. */
int overhead_run(struct experiment *exp, const struct overhead_options *o, struct overhead_result *out,
		 struct bace_err *e);
void overhead_result_free(struct overhead_result *r);

/* ---- pure ---- */

struct overhead_schedule {
	struct tb_script script;
	int n_blocks;			/* 2 pairs; actions 0..n_blocks begin and end them */
	bool *is_b;
	double end_s;
	double dwell_s;
	int first_rate, n_rates;	/* actions that change the rate; the action after the last ends it */
};

/* Blocks from from_s on, of block_s each; then, if rate_bps, n_rates changes to
 * half and back. */
struct overhead_timing {
	double from_s, block_s, dwell_s;
	int pairs, n_rates, inject_ppm, src, dst;
	uint64_t rate_bps;
	uint64_t seed;
};

struct tb_monitor overhead_monitor(const struct overhead_method *m, int period_ms);
int overhead_schedule(const struct overhead_timing *t, const struct tb_monitor *m,
		      struct overhead_schedule *out, struct bace_err *e);
/* Without a job: on, half, back, off. */
int overhead_schedule_idle(const struct overhead_timing *t, const struct tb_monitor *m,
			   struct overhead_schedule *out, struct bace_err *e);
void overhead_schedule_free(struct overhead_schedule *s);

/* Fills what steps and counters say. seed: of the bootstrap. */
int overhead_judge_steps(const struct overhead_schedule *s, const struct tb_result *r, uint64_t seed,
			 struct overhead_row *row, struct bace_err *e);
/* How long after a change at `from_ns' the estimates (of one link, in order) were
 * within 10 % of the truth and stayed so for two more; NAN: not before until_ns. */
double overhead_detection_s(const struct tb_estimate *v, int n, int64_t from_ns, int64_t until_ns,
			    double truth_bps);
/* Detections and errors of all changes of a log. */
int overhead_judge_changes(const struct overhead_schedule *s, const struct tb_log *l, uint64_t rate_bps,
			   int *n_detected, double *median_s, double *error, struct bace_err *e);

#endif
