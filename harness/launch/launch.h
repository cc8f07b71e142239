/*
 * harness/launch: an experiment on real machines. The hosts of the cluster file
 * get an agent each, by a launcher, and the controller runs in this process.
 *
 * A launcher starts one local process a host ("ssh", "srun") whose end is the
 * end of that agent; `manual` starts none and says what is to be typed. Agents
 * are tied to their launcher by their standard input: when this process ends,
 * however it ends, they end, and with them their workers and their shaping.
 */
#ifndef BACE_LAUNCH_H
#define BACE_LAUNCH_H

#include "harness/lab/lab.h"

enum launcher_kind { LAUNCH_LAB, LAUNCH_MANUAL, LAUNCH_SSH, LAUNCH_SLURM };

struct launch_options {
	enum launcher_kind kind;
	const char *controller;		/* ADDR:PORT that the agents connect to, and that is listened on */
	const char *key_path;		/* the master key */
	const char *agent_path;		/* of bace-agent on the hosts */
	bool allow_control_interface;	/* shape the interface of the default route, too */
	bool replace_foreign;		/* save, replace and put back a root qdisc that somebody made */
	double wait_s;			/* for all agents to connect; 0: the launcher's default */
};

const char *launcher_name(enum launcher_kind k);
int launcher_from_name(const char *name, enum launcher_kind *out);
/* Can this launcher work here, with this cluster? -EINVAL: bad input; -ENOSYS:
 * the environment cannot. */
int launch_check(const struct launch_options *o, const struct cluster *c, struct bace_err *e);

/* Who is there, for cell_build; free with lab_net_free. */
int launch_net(const struct cluster *c, struct lab_net *out, struct bace_err *e);
/* What each host shapes: gateways, and hosts of regions without one, which share
 * their region's links (harness/control divides them). */
int launch_topology(const struct cluster *scaled, const struct lab_traffic *t, enum delay_kind delay,
		    const struct launch_options *o, struct tb_topology *out, struct bace_err *e);

struct launch_config {
	const struct launch_options *o;
	const struct experiment *exp;	/* what it disturbs; borrowed */
	const struct cluster *cluster;	/* as in the file, unscaled; borrowed */
	double scale_bytes, scale_time;
	struct lab_traffic traffic;
	enum backend_kind backend;	/* netem or nfqueue: the hosts' delay */
	void (*on_progress)(void *arg, const char *line);	/* may be NULL */
	bool (*cancelled)(void *arg);				/* may be NULL */
	void *arg;
};

/* A testbed of real hosts; the functions are those of lab.h's testbed. */
struct launched;

int launched_open(const struct launch_config *cfg, struct launched **out, struct bace_err *e);
void launched_close(struct launched *l);	/* NULL is allowed */
int launched_run(struct launched *l, const struct tb_cell *cell, struct tb_result *out, struct bace_err *e);
int launched_verify(struct launched *l, int n, struct tb_verify *pairs, double goodput_s, struct bace_err *e);
int launched_look(struct launched *l, double seconds, struct tb_view_link *out, struct bace_err *e);
int launched_inventory(struct launched *l, char **json, struct bace_err *e);
const struct lab_net *launched_net(const struct launched *l);
/* What hosts lack of the experiment's `wan', a line a host, as it was when they were
 * brought up; NULL: there is no number i. */
const char *launched_lacks(const struct launched *l, size_t i);

#endif
