/* Private to harness/run: what one execution holds. */
#ifndef BACE_RUN_INTERNAL_H
#define BACE_RUN_INTERNAL_H

#include "harness/run/bed.h"
#include "harness/run/cell.h"
#include "harness/run/run.h"

/* What was measured of one placement. */
struct measured_job {
	double median_s, p95_s, first_s, compute_s, busy;
	int n_steps;
	double *step_s;
};

/* Jobs that share links and were measured together. */
struct measured_moment {
	char *key;
	bool valid;
	char why[256];
	int n;
	struct measured_job *jobs;	/* in order of the key */
	int *written;			/* [n_policies] times each has its rows, from before it is tried again */
	double delay_late_s;		/* 99th percentile of its cell's delay lines, testbed time; NAN: none */
};

/* One call of a policy. */
struct decided {
	double at_s, latency_s;
	uint64_t view_digest;
	int job;			/* placed or moved; -1: none */
};

struct run {
	const struct experiment *exp;
	const struct run_options *o;
	struct job_models models;
	struct lab_traffic traffic;
	struct store *store;
	char id[32];
	char resumed[32];		/* the run that this one goes on with; "": none */
	int64_t began_ns;
	enum backend_kind backend;
	char *backend_why;
	char *settings;			/* canonical text of all that a measurement depends on but the moment */
	struct bed *bed;
	struct oracle *closed_form, *event_sim;
	const char *policy;		/* label of the one being run */
	int at;				/* its number */
	bool again;			/* it is tried once more */
	const char *oracle;		/* name of the one being run */
	size_t n_decisions, cap_decisions;
	struct decided *decisions;	/* of the policy being run */
	bool decisions_lost;		/* for lack of memory */
	size_t n_moments, cap_moments;
	struct measured_moment *moments;
	struct link_reports reports;	/* over_truth is NULL until agents were asked */
	int n_links;			/* present; counted with the first report */
	uint8_t *used;			/* [n_regions^2]: some placement crosses this link */
	int n_bad;			/* links out of tolerance, policies that failed */
	int n_spoilt;			/* of them, policies that ended at a cell that did not count */
	int n_unanswered;		/* simulations in which a policy did not answer */
	int n_unfinished;		/* simulations in which some job never finished */
	double most_packets;		/* a second, of any moment simulated */
	const char *busiest;		/* label of the policy whose it is; NULL: none */
	int64_t look_until_ns;		/* simulate for no longer; 0: to the end */
	int n_cells;			/* run on the testbed */
	int cells_expected;
};

/* Jobs of a moment that share links, directly or through others: what one of
 * them does, the others can feel. Between two such groups nothing is shared, so
 * a group's step times hold in every moment in which it runs as it is. */
struct group {
	int n;
	int *which;			/* indices into the moment */
	const struct placement **placements;
	int *place;			/* [n] where each stands in the key */
	char *key;
};
void groups_free(struct group *g, int n);
/* How many, or -errno. */
int groups_of(const struct moment *m, struct group **out, struct bace_err *e);
/* Event simulation that counts the cells that the testbed will take. */
int counting_oracle(struct run *r, struct oracle **out, struct bace_err *e);

/* Tells the observer about the cell that begins, and how it ended. */
void status_begin(struct run *r, const struct moment *m, const struct tb_cell *cell,
		  const struct step_estimate *predicted);
void status_end(struct run *r, const struct moment *m, const struct tb_cell *cell, const struct tb_result *res,
		const struct step_estimate *predicted);

void run_progress(const struct run *r, const char *fmt, ...) BACE_PRINTF(2, 3);

/* The oracle that asks the testbed; borrowed by the event loop, owned by r. */
int measured_oracle(struct run *r, struct oracle **out, struct bace_err *e);
void measured_moments_free(struct run *r);
/* Rows of the current policy's first try that its second did not come through. */
int measured_forget(struct run *r, struct bace_err *e);
/* 0 if found in this run, or (reuse) in the store. */
const struct measured_moment *measured_find(const struct run *r, const char *key);

/* ---- simulate.c ---- */
/* A policy that fails is a row that says so, and the others go on; one that ended
 * at a cell that did not count is tried once more, after them. */
int simulate_all(struct run *r, struct oracle *o, struct bace_err *e);

/* ---- settings.c ---- */
/* Canonical text of all that a measurement depends on but its moment, the same
 * for other policies; malloc'd, NULL: out of memory. */
char *run_settings(const struct run *r);
/* -EINVAL: the run that is resumed measured under others. */
int settings_check_resumed(struct run *r, struct bace_err *e);

/* ---- preflight.c ---- */
/* Packets that a lab carries at that moment, on average while pipelines are full;
 * NAN: out of memory. Pure. */
double moment_packets_per_s(const struct moment *m, const struct lab_traffic *t);
/* false: so many processors carry them. Pure. */
bool packets_note(const struct testbed_spec *t, const char *policy, double packets_per_s, int n_processors,
		  char *buf, size_t cap);
/* Keeps the most that was seen, and whose it is. */
void preflight_see(struct run *r, const struct moment *m);
/* By simulating all policies but external ones, until then. */
void preflight_simulate(struct run *r, int64_t until_ns);
void preflight_packets(const struct run *r, enum backend_kind backend, run_note_fn *note, void *arg);
void preflight_buffers(const struct experiment *exp, const struct lab_traffic *t, run_note_fn *note, void *arg);

/* ---- computed.c ---- */
/* Of one directed link, in testbed units; NAN: nothing was computed. */
struct link_computed {
	double burst_bytes, queue_bytes, gso_max_bytes, initcwnd_segments, delay_limit_packets;
};
/* out: [n_regions^2]. */
int links_computed(const struct run *r, struct link_computed *out, struct bace_err *e);

/* ---- rows; each is a transaction of its own ---- */
int record_truth(struct run *r, struct bace_err *e);
int record_verify(struct run *r, int n, const struct tb_verify *v, struct bace_err *e);
/* ---- run.c ---- */
/* Is what was measured of a link what the experiment asks for? Pure. */
bool link_as_planned(const struct experiment *exp, const struct tb_verify *v);
/* ---- disturb.c ---- */
int disturb_check(const struct experiment *exp, struct bace_err *e);
/* NULL: that link is as planned. */
const struct disturbance *disturbance_of(const struct experiment *exp, int src, int dst);
int record_disturbances(struct run *r, struct bace_err *e);
/* ---- reports.c ---- */
/* Has agents look at all links; r->reports is what they say. */
int reports_look(struct run *r, struct bace_err *e);

/* With what the policy decided. */
int record_outcomes(struct run *r, const struct cluster_result *res, struct bace_err *e);
/* Of a simulation that has no outcomes. */
int record_decisions(struct run *r, struct bace_err *e);
int record_skip(struct run *r, const char *policy, const char *what, const char *why,
		struct bace_err *e);
/* Rows of some jobs of a moment; cell and result are NULL when they were known. */
struct moment_rows {
	const struct moment *moment;
	int n;
	const int *which;		/* [n] indices into the moment, the cell and the estimates */
	const int *place;		/* [n] and into what was measured */
	const struct measured_moment *measured;
	const struct step_estimate *closed_form, *event_sim;
	const struct tb_cell *cell;
	const struct tb_result *result;
};
/* What counters of energy the hosts of a cell have. */
int record_energy(struct run *r, const struct tb_result *res, struct bace_err *e);
int record_moment(struct run *r, const struct moment_rows *rows, struct bace_err *e);

#endif
