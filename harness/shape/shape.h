/*
 * harness/shape: what the `bace shape` commands are made of: from a shape file
 * and a host's name to a spec; in words; preflight; probes and their verdicts;
 * the process that holds the lease.
 */
#ifndef BACE_HARNESS_SHAPE_H
#define BACE_HARNESS_SHAPE_H

#include <jansson.h>

#include "shaper/inspect.h"

/* ---- from file to spec ---- */

/* Index of the host of this name (NULL: this machine's, or the only one). */
int shape_find_host(const struct shape_file *f, const char *name, int *host, struct bace_err *e);
/* What that host does: a link towards every other region with a path either
 * way. `delay` must not be AUTO's meaning: shape_choose_delay. Free it by
 * shape_spec_free, also after a failure. */
int shape_spec_of(const struct shape_file *f, int host, enum delay_kind delay, struct shape_spec *out,
		  struct bace_err *e);
/* Without a controller each of a region's hosts has an even part of its links,
 * so that together they never send more: how many parts. A gateway has them whole. */
int shape_hosts_sharing(const struct shape_file *f, int region);
/* The delay backend for this file on this machine, and why (static string). */
enum delay_kind shape_choose_delay(const struct shape_file *f, int host, const char **why);

/* ---- in words ---- */
json_t *shape_plan_json(const struct shape_file *f, int host, const struct shape_spec *s, const char *why);
int shape_plan_text(const struct shape_file *f, int host, const struct shape_spec *s, const char *why,
		    struct bace_buf *out);
/* What the kernel shows; names from `f` (may be NULL). `held`: the holder's
 * answer (may be NULL). */
json_t *shape_show_json(const struct shape_seen *seen, const struct shape_file *f, const json_t *held);
int shape_show_text(const struct shape_seen *seen, const struct shape_file *f, const json_t *held,
		    struct bace_buf *out);

/* ---- preflight: what may surprise, one line each ---- */
struct shape_notes {
	size_t n, cap;
	char **v;			/* owned */
};

/* What a preflight looks at, of the network namespace that it is read in. */
struct shape_machine {
	char missing[128];		/* kernel modules that the plan needs, separated by spaces */
	char *os_release;		/* malloc'd; NULL: not known */
	double rcv_window_bytes, snd_window_bytes;	/* the largest that TCP makes them; 0: not known */
	bool slow_start_after_idle;
	struct shape_stray stray;
};
void shape_machine_read(const struct shape_spec *s, struct shape_machine *out);
void shape_machine_free(struct shape_machine *m);
/* Pure. */
void shape_notes_of(const struct shape_spec *s, const struct shape_machine *m, struct shape_notes *out);
void shape_preflight(const struct shape_spec *s, struct shape_notes *out);
/* "this kernel has no ...; install ...", by this distribution's names. Pure. */
void shape_module_hint(const char *modules, const char *os_release, char *buf, size_t cap);
/* -ENOSYS, err names the package: this kernel lacks what the plan is made of. */
int shape_check_modules(const struct shape_spec *s, struct bace_err *e);
void shape_notes_free(struct shape_notes *n);

/* ---- the holder of the lease ---- */
struct shape_hold {
	const char *self;		/* path of bace: bace-shaperd stands beside it */
	const char *socket;		/* of a running bace-shaperd; NULL: find it, or start one */
	double for_s;			/* revert after; 0: at the end of the process */
	bool detach;
	bool allow_control_interface, replace_foreign;
};

/* Applies and holds: returns when it was reverted, or at once in the parent of a
 * detached holder, or when the holder there was took the new spec. `said` is
 * called once, when it is applied, with how many kernel objects changed. */
int shape_hold(const struct shape_hold *h, const struct shape_spec *s, void (*said)(void *arg, const char *how, int changes),
	       void *arg, struct bace_err *e);
/* Asks the holder in this network namespace. -ENOENT: there is none. */
int shape_held(json_t **out, struct bace_err *e);
/* Has the holder play a trace on its link to `region`; one without points ends
 * what plays there. As shaperd_trace. */
int shape_play(const char *region, const struct shape_trace *t, bool loop, int64_t start_real_ns, struct bace_err *e);
/* Ends the holder, or what a dead one left; *how says which (static string). */
int shape_release(const char *self, const char **how, struct bace_err *e);

/* ---- probes ---- */
#define SHAPE_PORT 7411

/* Answers probes until a signal. */
int shape_respond(const char *addr, int port, bool quiet, struct bace_err *e);

struct shape_interval {
	double value, low, high;	/* 95 % */
};

struct shape_probe {
	const char *addr;
	int port;
	int rtt_samples;
	int connections;
	double seconds;			/* of goodput, each direction; 0: none */
	double udp_bps[2];		/* payload, forward and reverse; 0: none */
	int udp_bytes[2];		/* of payload a packet; 8 to 1000 */
	double udp_seconds[2];
};

struct shape_measured {
	int rtt_sent, rtt_received;
	double rtt_min_s, rtt_p99_s;
	struct shape_interval rtt_median_s;
	struct shape_interval goodput_bps[2];	/* forward, reverse; of intervals of 100 ms */
	uint64_t udp_sent[2], udp_received[2], udp_reordered[2];
};

int shape_probe_run(const struct shape_probe *p, struct shape_measured *out, struct bace_err *e);
int shape_probe_rtt(const struct shape_probe *p, struct shape_measured *out, struct bace_err *e);

/* Measures the least RTT to each region's `probe', and takes half of it for the
 * own latency of both its paths. The spec is to be made anew then. -EINVAL: a
 * link's latency is below that; -EEXIST: something is shaped here. */
int shape_measure_paths(struct shape_file *f, int host, const struct shape_spec *s, int port,
			void (*said)(const char *region, double rtt_min_s), struct bace_err *e);

/* ---- verdicts (pure) ---- */
enum shape_verdict { SHAPE_WITHIN, SHAPE_OUT, SHAPE_UNDECIDED };
/* Within: all of the interval is in what is allowed; out: nothing of it is; else
 * it was not measured long enough, or on too busy a machine. */
enum shape_verdict shape_judge(const struct shape_interval *seen, double low, double high);
double shape_planned_loss(const struct shape_path *p);
/* What a loss is judged by: its interval must have something of this in it. */
struct shape_interval shape_loss_allowed(double planned);
/* How well a loss must be known to be judged: half of its interval at most so wide. */
double shape_loss_half_most(double planned);
/* Packets that make it so, with some to spare. */
double shape_loss_packets(const struct shape_path *p);
/* Out: the interval does not have the planned loss in it, or, where none is planned,
 * begins above what counts as none. Undecided: nothing was sent, or too little to know. */
enum shape_verdict shape_judge_loss(const struct shape_interval *seen, double planned, uint64_t sent);
/* Two-sided 99 % interval of the loss of n packets of which k were lost, wider
 * where losses come in bursts. */
struct shape_interval shape_loss_interval(const struct shape_path *p, uint64_t sent, uint64_t received);
struct shape_interval shape_median_interval(double *v, int n);	/* sorts */
/* Student's, of values in order of time, by the means of ten batches where there are
 * 20 values and more; wider where they follow each other. */
struct shape_interval shape_mean_interval(const double *v, int n);

#endif
