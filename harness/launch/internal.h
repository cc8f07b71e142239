/* Private to harness/launch. */
#ifndef BACE_LAUNCH_INTERNAL_H
#define BACE_LAUNCH_INTERNAL_H

#include <sys/types.h>

#include "agent/wire/wire.h"
#include "harness/launch/launch.h"

#define LAUNCH_ARGS_MAX 48

/* Strings of one command line; freed together. */
struct launch_args {
	int n;
	char *v[LAUNCH_ARGS_MAX + 1];	/* ends with NULL */
	bool failed;			/* memory, or too many */
};

void args_add(struct launch_args *a, const char *fmt, ...) BACE_PRINTF(2, 3);
void args_free(struct launch_args *a);
/* The agent's own command line, for one host; key: a path on that host, or "-". */
void args_agent(struct launch_args *a, const struct launch_options *o, const struct cluster_host *h, const char *key);

struct launcher {
	const char *name;
	double wait_s;			/* for all agents to connect */
	/* Can it work here? NULL: always. */
	int (*check)(const struct launch_options *o, const struct cluster *c, struct bace_err *e);
	/* The local process that is the agent of this host; its standard input
	 * carries the host's key. NULL: the user starts it. */
	void (*command)(struct launch_args *a, const struct launch_options *o, const struct cluster_host *h);
	/* Before anything is started; NULL: nothing to say. */
	void (*announce)(const struct launch_config *cfg);
};

extern const struct launcher launcher_manual, launcher_ssh, launcher_slurm;
const struct launcher *launcher_of(enum launcher_kind k);

/* ---- steady.c ---- */
/* These add a line of what is to be known, or nothing where all is well. c: scaled;
 * inventory: the host's, as controller_inventory has it. */
/* What its settings and routes lack of `wan = "steady"'. */
void launch_steady_host(const struct cluster *c, const struct lab_traffic *t, const struct cluster_host *h,
			const json_t *inventory, struct bace_buf *out);
/* That it shapes the interface by which its agent reaches the controller. */
void launch_control_interface(const struct tb_host *h, const json_t *inventory, struct bace_buf *out);
/* Whose GSO packets nobody bounds. */
void launch_unbounded(const struct cluster *c, const struct lab_traffic *t, struct bace_buf *out);

/* ---- paths.c ---- */
/* The pairs of regions between which a link is shaped, each once, to be measured; free *out. */
int launch_pairs(const struct tb_topology *t, struct tb_verify **out, int *n, struct bace_err *e);
/* Takes half of each pair's least RTT off the latency of its links, in plans and in traces.
 * -EINVAL: a link is to be shorter than its path. */
int launch_subtract(int n, const struct tb_verify *paths, struct tb_topology *t, int n_traces, struct tb_trace *traces,
		    struct bace_err *e);
/* Adds to each host of an inventory what the paths of its region take: "own_latency_s", by region. */
int launch_tell_paths(int n, const struct tb_verify *paths, const struct tb_topology *t, json_t *inventory);

/* ---- one process a host ---- */
struct hands;

/* Starts nothing yet. */
int hands_open(const struct launch_config *cfg, const uint8_t master[WIRE_KEY_BYTES], struct hands **out,
	       struct bace_err *e);
/* Starts the processes that do not run. */
int hands_start(struct hands *h, struct bace_err *e);
/* Takes up what they wrote and which have ended: 0 when all run, else how many
 * do not, with one of them and its last words in e. */
int hands_tend(struct hands *h, struct bace_err *e);
/* Lets go of all, and waits for their end: at most 3 s, then kills. */
void hands_close(struct hands *h);

#endif
