/* Private to harness/run and harness/overhead: a moment as a cell of the testbed, and back. */
#ifndef BACE_RUN_CELL_H
#define BACE_RUN_CELL_H

#include "harness/run/run.h"

/* Everything is scaled here and nowhere else. */
int cell_build(const struct moment *m, const struct lab_net *net, const double *predicted_step_s,
	       struct tb_cell *out, struct bace_err *e);
void cell_free(struct tb_cell *c);

/* Parts of it, for other commands' cells. A hop of so many (scaled) bytes between two
 * regions; overlap: of the job. */
void cell_fill_hop(const struct experiment *exp, uint64_t bytes, bool overlap, int a, int b, struct tb_hop *h);
/* What the experiment's testbed says of every cell; no jobs, no time-out. */
void cell_settings(const struct experiment *exp, struct tb_cell *out);
/* Of a cell whose steps should take so long on the testbed, in all. */
double cell_timeout_s(double expected_s);

/* Ranks (worker processes) that the moment needs. */
int cell_ranks(const struct tb_cell *c);

/* What one job of a cell did; unscaled seconds. */
struct cell_steps {
	int n;			/* measured steps */
	double *step_s;		/* [n], freed by the caller, also after a failure */
	double median_s, p95_s, first_s;
	double compute_s;	/* mean per stage and step */
	double busy;		/* compute_s / step, over the measured steps */
};

/* Of a job that is replicas: of all of them, asked with the first. */
int cell_steps_of(const struct tb_cell *c, const struct tb_result *r, int job, double scale_time,
		  struct cell_steps *out, struct bace_err *e);

/* Largest and smallest message of the experiment, scaled; framed = with L2
 * headers of every segment. */
void traffic_of(const struct experiment *exp, const struct job_models *m, struct lab_traffic *out);

/* A further size of message, scaled. */
void traffic_add(const struct experiment *exp, uint64_t bytes, struct lab_traffic *t);

/* A lab of the experiment for such traffic, on the backend that is asked for or the experiment's;
 * enter: in namespaces of this machine (-ENOSYS: only User-Mode Linux could). *backend: static. */
int lab_open_for(const struct experiment *exp, const struct bare_options *o, const struct lab_traffic *traffic, bool enter,
		 struct testbed **out, const char **backend, struct bace_err *e);

/* -EINVAL when some message is too short for its link (design section 7). */
int check_message_sizes(const struct experiment *exp, const struct lab_traffic *t,
			struct bace_err *e);

#endif
