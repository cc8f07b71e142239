/* A controller in this process and true agents, with true or false workers, on
 * the loopback interface: every host is an address of 127/8. */
#ifndef TEST_CONTROL_FIXTURE_H
#define TEST_CONTROL_FIXTURE_H

#include <sys/types.h>

#include "agent/wire/wire.h"
#include "harness/control/control.h"

#define WORLD_HOSTS_MAX 8

struct world {
	char dir[64], key_path[96];
	uint8_t key[WIRE_KEY_BYTES];
	struct tb_topology topo;
	struct tb_host hosts[WORLD_HOSTS_MAX];
	char names[WORLD_HOSTS_MAX][NAME_LEN];
	struct controller *controller;
	pid_t agents[WORLD_HOSTS_MAX];
	const char *worker_dir;
	const char *shaperd;			/* of the agents; NULL: none */
	/* In an agent's process, before it is one; may be NULL. */
	void (*machine)(const struct world *w, int i);
};

/* Set by main from its arguments: bace-agent, directory of bace-worker, of the false one. */
extern const char *agent_path, *worker_dir, *bad_worker_dir;
/* main's argument check; 0: go on. */
int fixture_args(int argc, char **argv);

/* n hosts "h0".. in regions of their own; no agents yet. */
void world_open(struct world *w, int n);
void world_close(struct world *w);
void world_agent(struct world *w, int i);		/* starts one */
/* Which connects to another port than our controller's. */
void world_agent_at(struct world *w, int i, uint16_t port);
void world_agents(struct world *w);			/* all, and waits for them */
void world_kill_agent(struct world *w, int i, int sig);	/* and reaps, if it ends by that */

/* Pids of the agent's children. */
int world_children(const struct world *w, int i, pid_t *pids, int max);
bool pid_alive(pid_t pid);
/* Polls for some seconds. */
bool pid_gone(pid_t pid);

/* VmHWM, VmRSS: kiB. */
long memory_kib(pid_t pid, const char *what);
/* What an agent may ever have needed, whatever is done to it. */
#define AGENT_MEMORY_MAX_KIB (32 * 1024)
void check_agent_memory(pid_t pid, const char *after);

/* One job, one stage a host, hops over the network. Owns its arrays: cell_free. */
void cell_pipeline(struct tb_cell *c, const char *name, int stages, int micro_batches, int64_t fwd_ns,
		   uint64_t bytes);
void cell_release(struct tb_cell *c);

/* Calls fn(arg) in a thread after so many seconds, while a cell runs. */
struct later;
struct later *later(double seconds, void (*fn)(void *arg), void *arg);
/* The same, so long after host i has begun its ranks. */
struct later *later_at_work(struct world *w, int i, double seconds, void (*fn)(void *arg), void *arg);
void later_join(struct later *l);

#endif
