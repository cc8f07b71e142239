/* Private to harness/control: the state of one running cell. */
#ifndef BACE_CONTROL_CELL_H
#define BACE_CONTROL_CELL_H

#include "harness/control/internal.h"

struct cell_rank {
	struct proc proc;
	struct cell_run *run;
	int job, worker, host, region;
	int n_stages;			/* played here */
	int first_stage;
	int n_listening, n_ports;	/* ports wanted, ports reported */
	bool launched, ready, done, exited;
	int64_t go_ns, late_ns;		/* told to start, on its clock; and started so much later */
	int64_t lateness_p99_ns;
};

struct cell_hop {			/* per job and hop */
	int from, to;			/* ranks; equal: internal */
	int port;			/* of `to`; 0: not known yet */
};

struct cell_job {
	int *rank_of_stage;
	struct cell_hop *hops;
	struct cell_hop *rings;		/* [n_stages], from here; NULL: no replicas */
	char nccl_id[257];		/* as its first stage said it; "": not yet, or not wanted */
};

/* In order. FAILING waits a moment for a better reason than the first one. */
enum cell_phase {
	PHASE_PREPARE, PHASE_LAUNCH, PHASE_BEFORE, PHASE_CONNECT, PHASE_START, PHASE_RUN, PHASE_AFTER,
	PHASE_FAILING, PHASE_STOP, PHASE_OVER,
};

enum cell_readout { READ_BEFORE, READ_START, READ_AFTER, N_READOUTS };

struct cell_run {
	struct task task;
	struct controller *c;
	const struct tb_cell *cell;
	struct tb_result *out;
	json_int_t id;
	json_int_t token;		/* by which its ranks know each other */
	enum cell_phase phase;
	int waiting;			/* answers, in the phases that count them */
	struct event *timer;		/* of the phase */
	int64_t deadline_ns;		/* of the whole */
	struct watcher watcher;
	bool *needed;			/* [n_hosts] */
	int n_ranks;
	struct cell_rank *ranks;
	struct cell_job *jobs;
	struct shape_stats *stats[N_READOUTS];	/* [n_hosts] each; v NULL: not read */
	size_t cap_ops, cap_flows, cap_flow_steps;
	int severity;			/* of the reason in out->invalid_why */
	bool scripted;			/* the cell's script runs */
	json_t **energy[2];		/* [n_hosts] answers, before and after; NULL: no counters */
	uint64_t *probe_base;		/* [n_regions^2], bytes of probes before it; NULL: no script */
};

/* ---- cell_spec.c: pure ---- */
int cell_ranks_build(struct cell_run *r, struct bace_err *e);
/* In the loop: agents that come back say anew what their hosts are. */
void cell_give_slots(struct cell_run *r);
void cell_ranks_free(struct cell_run *r);
json_t *cell_rank_config(const struct cell_run *r, const struct cell_rank *k);
json_t *cell_rank_connects(const struct cell_run *r, const struct cell_rank *k);
/* The job of the next replica; of one alone, itself. */
int cell_next_replica(const struct cell_run *r, int job);
/* The hop, or ring, of that number that the rank connects, or (listens) listens
 * at; NULL: none. */
struct cell_hop *cell_hop_at(const struct cell_run *r, const struct cell_rank *k, int number, bool listens);
/* Do the job's ranks, of all replicas, read one clock? */
bool cell_shares_clock(const struct cell_run *r, int job);
/* Gateways of regions that exchange traffic, and hosts with ranks. */
void cell_mark_needed(struct cell_run *r);
/* Does the host's shaping carry traffic of this cell? */
bool cell_reads(const struct cell_run *r, const struct host *h);

/* ---- cell_nccl.c: jobs whose hops NCCL carries ---- */
bool cell_is_nccl(const struct cell_run *r, int job);
void cell_nccl_prepare(struct cell_run *r);
/* These add what such a rank is told, and return the object. */
json_t *cell_nccl_config(const struct cell_run *r, const struct cell_rank *k, json_t *config);
json_t *cell_nccl_connects(const struct cell_run *r, const struct cell_rank *k, json_t *command);
int cell_nccl_take_id(struct cell_rank *k, const json_t *line, struct bace_err *e);

/* ---- cell_result.c: what ranks report -> tb_result ---- */
int cell_take_done(struct cell_run *r, struct cell_rank *k, const json_t *line, struct bace_err *e);
int cell_finish_steps(struct cell_run *r, struct bace_err *e);

/* ---- cell_script.c ---- */
/* Starts the cell's script, if it has one, at the ranks' first step. */
int cell_script_start(struct cell_run *r, int64_t at_ns, struct bace_err *e);
void cell_script_end(struct cell_run *r);
/* Bytes of probes and of their answers on a link during the cell. */
uint64_t cell_probe_bytes(const struct cell_run *r, int src, int dst);

/* ---- cell_trace.c ---- */
/* Plays the controller's traces from the ranks' first step on. */
int cell_traces_start(struct cell_run *r, int64_t at_ns, struct bace_err *e);
void cell_traces_end(struct cell_run *r);
/* Does some trace lose packets where this host delays them? */
bool cell_trace_loses(const struct cell_run *r, const struct host *h);

/* ---- cell_energy.c ---- */
/* Asks the hosts with ranks that have counters; each adds to r->waiting. */
void cell_energy_ask(struct cell_run *r);
int cell_energy_finish(struct cell_run *r, struct bace_err *e);

/* ---- cell_ranks.c: in the phases of these names ---- */
void cell_launch(struct cell_run *r);
void cell_connect(struct cell_run *r);
void cell_go(struct cell_run *r);

/* What was counted towards a region; NULL: nothing. */
const struct shape_stat *cell_class_of(const struct shape_stats *s, int region);

/* ---- cell_loss.c ---- */
/* Do `lost' packets fit a loss of that share of all, each by itself, when `came' more
 * came through? bundle: so many of those at most may have been one to what loses them.
 * Pure. */
bool cell_loss_as_asked(double loss, double came, double lost, double bundle);
/* Of the links that end at this host, those that are to lose packets. */
void cell_check_loss(struct cell_run *r, const struct host *h);

/* ---- cell.c ---- */
/* One of the counters that it waited for is there. */
void cell_counted(struct cell_run *r);
/* The cell goes on where it waited for this. */
void cell_advance(struct cell_run *r);
/* The cell ends, invalid; the heaviest reason is kept. */
void cell_fail(struct cell_run *r, int severity, const char *why);

/* ---- cell_check.c: is it valid? ---- */
int cell_check(struct cell_run *r, struct bace_err *e);

/* Reasons for invalidity: what happened, against what followed from it. */
enum { SEVERITY_CONSEQUENCE = 1, SEVERITY_CAUSE = 2 };
/* A failed check, without ending the cell. */
void cell_invalid(struct cell_run *r, int severity, const char *fmt, ...) BACE_PRINTF(3, 4);

#endif
