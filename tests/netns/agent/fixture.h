/* Three regions as namespaces with true shaperds and agents; the controller in
 * this process, which is PID 1 of a sandbox. */
#ifndef TESTS_NETNS_AGENT_FIXTURE_H
#define TESTS_NETNS_AGENT_FIXTURE_H

#include <sys/types.h>

#include "agent/wire/wire.h"
#include "harness/lab/build.h"

#define HOSTS 6			/* gateways a b c, then hosts a b c */

struct world {
	struct cluster cluster;
	struct lab_net net;
	struct lab lab;
	struct tb_topology topo;
	struct controller *controller;
	uint8_t key[WIRE_KEY_BYTES];
	pid_t agents[HOSTS], shaperds[HOSTS];
};

extern const char *agent_path, *shaperd_path, *worker_dir;
extern enum delay_kind delay;

struct CMUnitTest;
/* Runs each test (up to one without a function) with a world of its own as its
 * state; status of the program, 77 with the reason where namespaces are refused. */
int fixture_main(int argc, char **argv, const struct CMUnitTest *tests);

void world_up(struct world *w);		/* all started, planned */
void world_down(struct world *w);
void world_agent(struct world *w, int i);
void world_shaperd(struct world *w, int i);
/* SIGKILL, and reaped. */
void world_kill(pid_t *pid);
/* First child of a process; 0: none. */
pid_t first_child(pid_t pid);

/* Runs a command in host i's namespace; its output into text. */
int run_in(const struct world *w, int i, const char *command, char *text, size_t cap);
bool is_shaped(const struct world *w, int i);
/* Polls for some seconds. */
bool becomes_unshaped(const struct world *w, int i);

/* One job, a stage in each region. cell_release when done. */
void cell_across(struct tb_cell *c, int micro_batches, int64_t fwd_ns, uint64_t bytes);
void cell_release(struct tb_cell *c);

void expect_valid(struct world *w, const struct tb_cell *cell, struct tb_result *r);
void expect_invalid(struct world *w, const struct tb_cell *cell, const char *why);

#endif
