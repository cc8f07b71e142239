/*
 * harness/lab: a cluster in one command. A lab is one supervisor, PID 1 of its
 * own pid, mount and network (not root: also user) namespace, holding named
 * network namespaces for hosts and gateways, real agents and shaperds. When it
 * ends, everything ends: nothing is on the machine's own network, and no file
 * on its disk, at any time.
 *
 * The outer process talks to the inner one as JSON lines, request and answer;
 * only the outer process opens the store. All quantities are testbed (scaled)
 * units unless a name says otherwise.
 */
#ifndef BACE_LAB_H
#define BACE_LAB_H

#include "harness/control/control.h"

/* ---- scale: design section 6 ---- */
/* Copies names, GPUs and prices by reference: free with cluster_scaled_free,
 * before `from`. */
int cluster_scaled(const struct cluster *from, double scale_bytes, double scale_time,
		   struct cluster *out);
void cluster_scaled_free(struct cluster *c);

/* ---- what is done to links that nobody is told of: pure ---- */
/* Jitter and loss, into the links of a scaled cluster. */
void lab_disturb(const struct testbed_spec *t, struct cluster *scaled);
/* The traces, scaled. -EINVAL: one cannot be read, or not be played on its link. */
int lab_traces(const struct experiment *exp, struct tb_trace **out, int *n, struct bace_err *e);
void lab_traces_free(struct tb_trace *v, int n);

/* ---- the network of a lab: pure ---- */
struct lab_host {
	char name[NAME_LEN];		/* "ireland-gw", "ireland-0" */
	int region;
	bool gateway;
	char addr[48];			/* on the emulated network; gateways: of lan0 */
	char mgmt[48];			/* on mgmt0 */
};

struct lab_net {
	int n_regions;
	int hosts_per_region;
	int n_hosts;
	struct lab_host *hosts;		/* gateways in order of region, then hosts region by region */
};

int lab_net_build(const struct cluster *c, int hosts_per_region, struct lab_net *out,
		  struct bace_err *e);
void lab_net_free(struct lab_net *n);

/* What decides buffers, windows and GSO. */
struct lab_traffic {
	uint64_t message_bytes;		/* largest framed message */
	uint64_t min_message_bytes;	/* smallest */
	int jobs_on_link;		/* at most this many share one */
	enum wan_mode wan;
	char congestion_control[16];
	uint64_t socket_buffer_bytes;	/* of hosts' sockets; 0: by wan */
};

int lab_topology_build(const struct cluster *scaled, const struct lab_net *net,
		       enum delay_kind delay, const struct lab_traffic *traffic,
		       struct tb_topology *out, struct bace_err *e);
void lab_topology_free(struct tb_topology *t);
/* Adds what a region's shaper does to the traffic with each other region; the
 * prefixes are the cluster's own (real), or a lab's. s->links is the caller's. */
int lab_shape_links(const struct cluster *scaled, int region, bool real, const struct lab_traffic *t,
		    struct shape_spec *s);
/* For a sending host's device. */
uint32_t lab_gso_max(const struct cluster *scaled, const struct lab_traffic *t);

/* Initial window, in segments, with which the first message of a link goes out
 * whole: (BDP over the RTT + largest message) / MSS. */
unsigned lab_initial_window(const struct cluster *scaled, int src, int dst,
			    const struct lab_traffic *traffic);
/* Maximum of tcp_rmem / tcp_wmem: 2 (BDP + largest message), over all links. */
uint64_t lab_socket_buffer_max(const struct cluster *scaled, const struct lab_traffic *traffic);

/* ---- backends ---- */
/* The best backend that this machine can do, or the one wanted; *why is a
 * malloc'd sentence. -ENOSYS when the wanted one cannot: err says what to
 * install. */
int lab_choose_backend(enum backend_kind wanted, enum backend_kind *chosen, char **why,
		       struct bace_err *e);

/* ---- a testbed, as the outer process sees it ---- */
struct testbed;

struct testbed_config {
	const char *self;		/* path of the bace executable */
	const char *exp_path;		/* the inner process loads the same file */
	enum backend_kind backend;	/* resolved */
	struct lab_traffic traffic;
	/* One line about what is being done; may be NULL. */
	void (*on_progress)(void *arg, const char *line);
	void *arg;
	/* Polled while waiting: true = give up (Ctrl-C); may be NULL. */
	bool (*cancelled)(void *arg);
};

int testbed_open(const struct testbed_config *cfg, struct testbed **out, struct bace_err *e);
/* Everything inside is gone when it returns. NULL is allowed. */
void testbed_close(struct testbed *t);
int testbed_run(struct testbed *t, const struct tb_cell *cell, struct tb_result *out,
		struct bace_err *e);
int testbed_verify(struct testbed *t, int n, struct tb_verify *pairs, double goodput_s,
		   struct bace_err *e);
/* Runs a script with no job beside it. */
int testbed_script(struct testbed *t, const struct tb_script *s, struct tb_log *out, struct bace_err *e);
/* controller_look. */
int testbed_look(struct testbed *t, double seconds, struct tb_view_link *out, struct bace_err *e);
int testbed_inventory(struct testbed *t, char **json, struct bace_err *e);
const struct lab_net *testbed_net(const struct testbed *t);
/* Index into lab_net.hosts of the host that holds a region's GPU number `gpu`. */
int lab_host_of(const struct lab_net *n, int region, int gpu);
/* Last lines that the inside wrote to its log, for a failure's report. */
const char *testbed_log_tail(const struct testbed *t);

/* Process 1 of its namespaces, as the caller's pid namespace numbers it. */
pid_t testbed_pid(const struct testbed *t);
/* To be called all the time while nothing is asked of it: takes what it logs, for
 * 100 ms at most. -EPIPE: it has ended, and why. */
int testbed_idle(struct testbed *t, struct bace_err *e);
/* Starts again what died in it, as every request does. */
int testbed_mend(struct testbed *t, struct bace_err *e);
/* Moves the caller, of one thread, into the user, mount and network namespaces of a
 * host of the lab whose process 1 is pid; its children also into its pid
 * namespace. It is named as the host, the hosts' names resolve, and /sys shows its
 * interfaces where that is allowed. -ENOENT: no such host; -ESRCH: no such lab. After another error the caller is somewhere between. */
int lab_enter(pid_t pid, const char *host, struct bace_err *e);

/* Path of a program of this project: beside `self`, or, when not installed, in
 * the build tree that self belongs to. */
int lab_find_program(const char *self, const char *name, char path[4096], struct bace_err *e);

/* Entry points of the re-executed bace (hidden subcommands). They return an
 * exit status. */
int lab_inner_main(int argc, char **argv);	/* PID 1 of the lab's namespaces */
int lab_uml_main(int argc, char **argv);	/* PID 1 around User-Mode Linux */
int lab_guest_main(int argc, char **argv);	/* init inside User-Mode Linux */

#endif
