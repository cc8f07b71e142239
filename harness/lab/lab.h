/*
 * harness/lab: a cluster in one command. A lab is one supervisor, PID 1 of its
 * own pid, mount and network (not root: also user) namespace, holding named
 * network namespaces for hosts and gateways, real agents and shaperds. When it
 * ends, everything ends: nothing is on the machine's own network at any time.
 *
 * The outer process talks to the inner one over a testbed: request and answer
 * as JSON lines; only the outer process opens the store.
 */
#ifndef BACE_LAB_H
#define BACE_LAB_H

#include "harness/control/control.h"

/* ---- the network of a lab: pure ---- */
struct lab_host {
	char name[NAME_LEN];		/* "ireland-gw", "ireland-0" */
	int region;
	bool gateway;
	char addr[16];			/* on the emulated network: 10.(16+region).0.(10+i) */
	char mgmt[16];			/* on mgmt0: 10.15.0.(10+index) */
};

struct lab_net {
	int n_regions;
	int n_hosts;
	struct lab_host *hosts;		/* gateways first, then hosts region by region */
};

int lab_net_build(const struct cluster *c, int hosts_per_region, struct lab_net *out);
void lab_net_free(struct lab_net *n);

/* Links already in testbed units. message_bytes: largest framed message times
 * jobs on a link; min_message_bytes: smallest. */
int lab_topology_build(const struct cluster *scaled, const struct lab_net *net,
		       enum delay_kind delay, uint64_t message_bytes, uint64_t min_message_bytes,
		       struct tb_topology *out, struct bace_err *e);
void lab_topology_free(struct tb_topology *t);

/* ---- backends ---- */
/* The best backend that this machine can do; *why is a malloc'd sentence. */
int lab_choose_backend(enum backend_kind wanted, enum backend_kind *chosen, char **why,
		       struct bace_err *e);

/* ---- a testbed, as the outer process sees it ---- */
struct testbed;

struct testbed_config {
	const char *exp_path;		/* the inner process loads the same file */
	enum backend_kind backend;	/* resolved */
	const char *run_dir;		/* exists; for sockets, keys, logs */
	uint64_t message_bytes, min_message_bytes;	/* scaled */
	void (*on_progress)(void *arg, const char *line);	/* may be NULL */
	void *arg;
};

int testbed_open(const struct testbed_config *cfg, struct testbed **out, struct bace_err *e);
void testbed_close(struct testbed *t);	/* everything inside is gone when it returns */
int testbed_run(struct testbed *t, const struct tb_cell *cell, struct tb_result *out,
		struct bace_err *e);
int testbed_verify(struct testbed *t, int n, struct tb_verify *pairs, double goodput_s,
		   struct bace_err *e);
int testbed_inventory(struct testbed *t, char **json, struct bace_err *e);
/* Host that plays a stage: region, and which of its GPUs. Index into topology.hosts. */
int testbed_host_of(const struct testbed *t, int region, int gpu);

/* The inner process: serves requests on `in`, answers on `out`, until EOF.
 * Runs as PID 1 of the lab's namespaces. Returns an exit status. */
int lab_inner_main(int in, int out, int argc, char **argv);

#endif
