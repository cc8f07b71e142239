/*
 * harness/run: one execution of an experiment. Predicts every policy with the
 * computed oracles, proves the emulated network, measures every moment on the
 * testbed, and keeps all of it in the store.
 */
#ifndef BACE_RUN_H
#define BACE_RUN_H

#include "harness/lab/lab.h"
#include "harness/oracle/oracle.h"
#include "harness/sim/sim.h"
#include "results/results.h"

/* Where a run is: a cell that begins (n_steps = 0) or has ended. */
struct run_status {
	int cell, cells;		/* from 1; about how many in all */
	const char *policy;
	int ranks, n_steps;		/* measured */
	int n_jobs;
	struct run_status_job {
		char what[200];		/* "llama-70b on ireland:2 > frankfurt:3" */
		double predicted_s, step_s;	/* unscaled; NAN: none */
	} *jobs;
	const char *invalid_why;	/* NULL: it counts, or has not ended */
	char link[120];			/* the busiest; "": none was used */
	double link_share;		/* of its rate, over the cell's steps */
};

struct run_options {
	const char *self;		/* path of the bace executable */
	const char *command;		/* as typed */
	const char *store_path;
	bool has_backend;		/* else the experiment's */
	enum backend_kind backend;
	bool reuse;			/* answer known moments from earlier runs in the store */
	bool keep_timeline;		/* write every operation's row */
	void (*on_progress)(void *arg, const char *line);	/* may be NULL */
	void (*on_status)(void *arg, const struct run_status *s);	/* may be NULL */
	bool (*cancelled)(void *arg);	/* may be NULL */
	void *arg;
};

/* Returns 0 when every policy was run by every oracle asked for and every cell
 * was valid; -EBADMSG when some were not (the store says which, and why);
 * -ECANCELED; other -errno when nothing could be run. *id is the run's, also
 * after a failure (empty when none was begun). */
int run_experiment(const struct experiment *exp, const struct run_options *o, char id[32],
		   struct bace_err *e);

/* -EINVAL with what to change: what a run of it would refuse before it begins. */
int run_check(const struct experiment *exp, struct bace_err *e);

#endif
