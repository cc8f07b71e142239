/*
 * harness/run: one execution of an experiment. Predicts every policy with the
 * computed oracles, proves the emulated network, measures every moment on the
 * testbed, and keeps all of it in the store.
 */
#ifndef BACE_RUN_H
#define BACE_RUN_H

#include "harness/launch/launch.h"
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
	const struct launch_options *launch;	/* NULL: a lab */
	const char *resume;		/* an earlier run, whose cells are not run again */
	bool reuse;			/* answer known moments from earlier runs in the store */
	bool reports;			/* policies are told what agents measure of links, with the view's delay and noise */
	bool keep_timeline;		/* write every operation's row */
	void (*on_progress)(void *arg, const char *line);	/* may be NULL */
	void (*on_status)(void *arg, const struct run_status *s);	/* may be NULL */
	bool (*cancelled)(void *arg);	/* may be NULL */
	void *arg;
};

/* Returns 0 when every policy was run by every oracle asked for, all jobs
 * finished and every cell counted in the end; -ENOTEMPTY when some job did not
 * finish, -ENOMSG when a policy left a question without an answer, -EBADMSG when a
 * policy, link or cell failed (the store says which, and why);
 * -ECANCELED; other -errno when nothing could be run. *id is the run's, also
 * after a failure (empty when none was begun). */
int run_experiment(const struct experiment *exp, const struct run_options *o, char id[32],
		   struct bace_err *e);

/* -EINVAL with what to change: what a run of it would refuse before it begins. */
int run_check(const struct experiment *exp, struct bace_err *e);

/* What two cores carried of a lab's packets, each: so many a second. */
#define RUN_PACKETS_PER_PROCESSOR 15500

/* What a measured run allows and may surprise, a sentence each: bottleneck queues
 * that are too small, more packets a second than a lab on this machine carries.
 * Simulates all policies but external ones, for two seconds at most. */
typedef void run_note_fn(void *arg, const char *text);
void run_notes(const struct experiment *exp, run_note_fn *note, void *arg);

/* ---- a lab in which nothing runs, to look into ---- */
struct bare_options {
	const char *self;		/* path of the bace executable */
	bool has_backend;		/* else the experiment's */
	enum backend_kind backend;
	void (*on_progress)(void *arg, const char *line);	/* may be NULL */
	bool (*cancelled)(void *arg);	/* may be NULL */
	void *arg;
};

/* The links of the experiment, its buffers and windows; *backend: static. -ENOSYS:
 * the machine cannot, or only in User-Mode Linux, which nobody can enter. */
int bare_open(const struct experiment *exp, const struct bare_options *o, struct testbed **out, const char **backend,
	      struct bace_err *e);

/* ---- fidelity: pipelines with one slow hop, measured and simulated ----
 *
 * A stage is one layer of the model of the experiment's first job, each on a
 * region of its own. The cluster's least latency is the near one; a point has
 * exactly one hop that is farther. Times are unscaled seconds. Points whose
 * paths share no link run at once. */
#define FIDELITY_STAGES_MAX 64

struct fidelity_point {
	enum schedule_kind schedule;
	int chunks;			/* 1 unless interleaved */
	int stages, micro_batches;
	int hop;			/* the slow one; -1: none is */
	bool overlap;
	int64_t latency_ns;		/* of it, one-way */
	double c_s;			/* latency and serialisation of the slow hop */
	double sim_s;			/* event simulation */
	double measured_s;		/* median of the steps; NAN: not measured */
	int n_steps;
	bool valid;
	char why[256];			/* if not valid */
	int replicas;			/* that sum their gradients in rings of near hops; 1: alone */
	double gradient_bytes;		/* of a stage */
	int path[FIDELITY_STAGES_MAX];	/* regions, replica by replica */
};

struct fidelity {
	double fwd_s, bwd_s, serialisation_s, near_s;	/* of a stage, a message, a near hop */
	const char *backend;
	int n;
	struct fidelity_point *v;
};

struct fidelity_options {
	const char *self;
	bool has_backend;		/* else the experiment's */
	enum backend_kind backend;
	int n_schedules, n_stages, n_micro_batches;
	const enum schedule_kind *schedules;
	const int *stages, *micro_batches;
	/* curve: the hop in the middle, all latencies that there are; else every hop,
	 * with the latencies that bring c nearest to (t_F + t_B) / 2 from below and
	 * from above. */
	bool curve;
	bool overlap;
	int replicas;			/* 1: none; stages * replicas: at most FIDELITY_STAGES_MAX */
	double gradient_bytes;		/* of a stage, unscaled; 0: the model's */
	int tries;			/* of a cell that the machine was too busy for */
	int at_once;			/* points; 0: as many as have room, 1 in User-Mode Linux */
	int sample;			/* > 0: so many points, evenly from all */
	void (*on_progress)(void *arg, const char *line);	/* may be NULL */
	bool (*cancelled)(void *arg);				/* may be NULL */
	void *arg;
};

/* 0 also when points are invalid: they say so. What cannot be (interleaved with
 * m no multiple of p) is left out. -EINVAL: the cluster has no such paths. */
int fidelity_run(const struct experiment *exp, const struct fidelity_options *o, struct fidelity *out,
		 struct bace_err *e);
void fidelity_free(struct fidelity *f);

/* ---- p2p: one link, by message size; testbed (scaled) units ---- */
struct p2p_row {
	uint64_t bytes;
	double one_way_s, one_way_p95_s, planned_one_way_s;	/* half of there and back */
	double goodput_bps, planned_goodput_bps;		/* of `messages' on end */
	int messages;
};

struct p2p {
	const char *backend;
	int n;
	struct p2p_row *rows;
};

struct p2p_options {
	const char *self;
	bool has_backend;		/* else the experiment's */
	enum backend_kind backend;
	int src, dst;			/* regions */
	int n_sizes;
	const uint64_t *sizes;		/* 64 and more */
	bool (*cancelled)(void *arg);	/* may be NULL */
	void *arg;
};

int p2p_run(const struct experiment *exp, const struct p2p_options *o, struct p2p *out, struct bace_err *e);
void p2p_free(struct p2p *p);

/* ---- allreduce: a ring of regions, by size; testbed (scaled) units ---- */
struct allreduce_row {
	uint64_t bytes;			/* of the buffer that is summed */
	double time_s, time_p95_s;	/* from one end to the next: median */
	double planned_s;		/* 2 (D - 1) rounds over the links */
	int n;
};

struct allreduce {
	const char *backend;
	int n;
	struct allreduce_row *rows;
};

struct allreduce_options {
	const char *self;
	bool has_backend;		/* else the experiment's */
	enum backend_kind backend;
	int n_regions;
	const int *regions;		/* the ring, each once */
	int n_sizes;
	const uint64_t *sizes;		/* 64 a region and more */
	bool (*cancelled)(void *arg);	/* may be NULL */
	void *arg;
};

int allreduce_run(const struct experiment *exp, const struct allreduce_options *o, struct allreduce *out,
		  struct bace_err *e);
void allreduce_free(struct allreduce *a);

#endif
