/*
 * Private to harness/control. One thread runs the event loop and owns all that
 * is below but the task queue; the functions of control.h hand it tasks and
 * wait. Nothing in the loop blocks, everything in it has a time-out.
 */
#ifndef BACE_CONTROL_INTERNAL_H
#define BACE_CONTROL_INTERNAL_H

#include <pthread.h>

#include "agent/wire/wire.h"
#include "harness/control/control.h"

#define ANSWER_S 15.0		/* an agent's to any request but stop */
#define STOP_S 5.0

struct host;
struct proc;
struct watcher;
struct host_monitor;
struct divider;
struct script_run;
struct cell_run;
struct verify_run;

/* ---- tasks: what a caller waits for ---- */
struct task {
	struct task *next;
	void (*start)(struct controller *c, struct task *t);	/* in the loop */
	bool done;
	int rc;
	struct bace_err e;
};

void task_finish(struct controller *c, struct task *t, int rc);
/* From the caller's thread: runs it and waits. */
int task_run(struct controller *c, struct task *t, struct bace_err *e);

/* From the caller's thread: is all to end? */
bool controller_cancelled(struct controller *c);

/* ---- cell.c, verify.c: what of it runs, ends ---- */
void cell_cancel(struct controller *c);
void verify_cancel(struct controller *c);

/* ---- hosts ---- */

/* reply is borrowed, NULL after failure; called exactly once, from the loop. */
typedef void (*reply_fn)(void *arg, struct host *h, const json_t *reply, const struct bace_err *err);

struct request {
	struct request *next;
	struct host *host;
	json_int_t id;
	reply_fn fn;
	void *arg;
	struct event *timer;
	struct bace_err failed;		/* could not be sent */
	char type[16];
};

/* Its CLOCK_MONOTONIC against ours, by the exchange with the least round trip. */
struct host_clock {
	bool same_kernel;		/* the very same clock: offset 0 by definition */
	int n;				/* exchanges so far */
	int64_t sent_ns;
	int64_t rtt_ns, offset_ns;	/* of the best */
	int64_t best_at_ns;
	struct event *timer;
};

struct host {
	struct controller *c;
	const struct tb_host *spec;
	int index;
	struct wire_conn *conn;		/* NULL: not connected and accepted */
	json_t *inventory;
	json_int_t next_id;
	struct request *requests;
	int64_t offset_ns;		/* its CLOCK_MONOTONIC minus ours */
	bool planned;			/* its shaping is in force, as far as we know */
	char last_why[300];		/* why it is not there */
	struct host_clock clock;
	struct host_monitor *monitor;	/* NULL: never sampled */
	struct shape_spec now;		/* its plan with changed rates; n_links 0: as in spec */
	bool classes_sampled;		/* its agent reports its classes all the time */
};

struct controller {
	struct controller_config cfg;
	struct event_base *base;
	struct wire_server *server;
	pthread_t thread;
	bool thread_started;
	int wake;			/* eventfd */
	struct event *on_wake;
	pthread_mutex_t lock;		/* of tasks, and of task.done */
	pthread_cond_t finished;
	struct task *tasks, **last_task;
	bool quit;
	bool cancel;			/* the cell, or the verify, that runs is to end */
	struct cell_run *cell;
	struct verify_run *verify;
	char boot_id[64];
	int n_hosts;
	struct host *hosts;
	bool plan_wanted;		/* controller_plan was called: keep the plans in force */
	json_int_t next_cell;
	struct proc *procs;
	struct watcher *watchers;
	struct addr_region *addrs;	/* by address: whose traffic is it */
	struct script_run *script;	/* the one that runs */
	struct divider *divider;
	uint64_t probe_token;
	int period_ms[TB_SOURCES];	/* of the monitoring that was last turned on */
	int n_traces;
	const struct tb_trace *traces;
};

/* Positive, for what is only ours: a cell, a probe. */
json_int_t random_token(void);

bool host_ready(const struct host *h);
bool host_same_machine(const struct host *a, const struct host *b);
bool host_shapes(const struct host *h);		/* has a plan of its own */
/* Steals msg; adds its id. */
void host_request(struct host *h, json_t *msg, double timeout_s, reply_fn fn, void *arg);
/* Replies to requests with this arg are no longer wanted. */
void requests_cancel(struct controller *c, const void *arg);
/* ---- host.c, called by wire ---- */
void hosts_handlers(struct controller *c, struct wire_handlers *h);
int hosts_init(struct controller *c, struct bace_err *e);
void hosts_free(struct controller *c);

/* ---- who wants to know when hosts come and fail; either function may be NULL,
 * and may remove its own watcher only ---- */
struct watcher {
	struct watcher *next;
	void (*on_ready)(struct watcher *w, struct host *h);
	void (*on_trouble)(struct watcher *w, struct host *h, const char *why);
	void *arg;
};

void watcher_add(struct controller *c, struct watcher *w);
void watcher_remove(struct controller *c, struct watcher *w);
/* Something on a connected host makes what runs now invalid. */
void host_trouble(struct host *h, const char *why);
/* "a: why; b (3 in all)": wanted hosts (NULL: any) that are not ready. Returns how many. */
int hosts_missing(struct controller *c, const bool *wanted, char *text, size_t cap);

/* ---- plan.c ---- */
void host_plan(struct host *h, reply_fn fn, void *arg);
/* Plans it anew, with nobody waiting: a failure is trouble. */
void host_put_back(struct host *h);

const struct shape_spec *host_shape(const struct host *h);

/* ---- clock.c ---- */
void clock_start(struct host *h);
void clock_stop(struct host *h);
json_t *clock_describe(const struct host *h);
/* Takes one exchange in; true: it is the best so far. Pure. */
bool clock_take(struct host_clock *k, int64_t sent_ns, int64_t remote_ns, int64_t received_ns);
/* By how much the offset may be wrong by now: half of the round trip, and drift.
 * INT64_MAX: never measured. */
int64_t clock_uncertainty_ns(const struct host_clock *k, int64_t now_ns);

/* ---- monitor.c: samples in, estimates out ---- */
int monitors_init(struct controller *c, struct bace_err *e);
void monitors_free(struct controller *c);
void monitor_take(struct host *h, const json_t *msg);
void monitor_host_lost(struct host *h);
/* Asks one host; counters in the answer are added to *sum. */
json_t *monitor_request(struct host *h, const struct tb_monitor *m, bool on);
int monitor_take_answer(struct host *h, const json_t *reply, struct tb_acted *sum, struct bace_err *e);
/* Bytes of probes that the answers counted for a directed pair of regions. */
uint64_t monitor_probe_bytes(const struct controller *c, int src, int dst);

/* ---- script.c ---- */
/* done is called from the loop, once, unless it was cancelled. failed: err. */
typedef void (*script_done_fn)(void *arg, const struct bace_err *err);
int script_start(struct controller *c, const struct tb_script *s, int64_t origin_ns, struct tb_log *out,
		 script_done_fn done, void *arg, struct bace_err *e);
/* To whom rates of timed compute are told; NULL: nobody. */
void script_set_stretch(struct controller *c, void (*fn)(void *arg, int ppm), void *arg);
/* Ends it; what it changed is put back. */
void script_cancel(struct controller *c);
/* An estimate of a link became new. */
void script_note(struct controller *c, int src, int dst, enum tb_method method, bool lower_bound,
		 double rate_bps, double error_bps);

/* ---- proc.c: a worker process somewhere ---- */
struct proc_ops {
	void (*on_launched)(struct proc *p, const json_t *answer);
	void (*on_event)(struct proc *p, const char *event, const json_t *line);
	/* why NULL: it ended with status 0; status: how it ended by itself, else -1.
	 * Not called for one that never ran. */
	void (*on_gone)(struct proc *p, const char *why, int status);
	/* Could not be launched, or broke the protocol. */
	void (*on_failed)(struct proc *p, const char *why);
};

struct proc {
	struct proc *next, **prev;	/* controller.procs while registered */
	struct host *host;
	json_int_t cell;
	int rank;
	char what[160];			/* "rank 3 (qwen-14b stage 2) on ie-0" */
	const char *program;		/* NULL: "worker" */
	const struct proc_ops *ops;
	void *owner;
	bool registered, gone;
	int n_stopped;			/* times that somebody stopped it, known when it ends */
	int slot, slots;
	struct bace_buf line;
};

/* Launches the worker with that config (stolen). */
void proc_launch(struct proc *p, json_t *config, const char *nic);
/* A line for its standard input (stolen); failures go to ops->on_failed. */
void proc_tell(struct proc *p, json_t *line);
void proc_forget(struct proc *p);
void procs_output(struct host *h, const json_t *msg);
void procs_exit(struct host *h, const json_t *msg);
void procs_host_lost(struct host *h, const char *why);

#endif
