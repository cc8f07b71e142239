/*
 * Private to bace-agent: one unprivileged daemon per host, one event loop. It
 * connects out to the controller, asks bace-shaperd for shaping, and launches
 * the workers that are installed beside it, nothing else.
 */
#ifndef BACE_AGENT_H
#define BACE_AGENT_H

#include <net/if.h>
#include <sched.h>
#include <sys/types.h>

#include <event2/bufferevent.h>
#include <event2/event.h>

#include "agent/wire/wire.h"

struct lease;
struct binder;
struct worker;
struct monitor;
struct metrics;

struct agent_config {
	char host[256];			/* the controller's */
	uint16_t port;
	char name[WIRE_NAME_MAX + 1];
	uint8_t key[WIRE_KEY_BYTES];
	const char *shaperd_path;	/* NULL: this host shapes nothing */
	bool leash;			/* end with standard input */
	const char *worker_dir;		/* from the command line, never from the wire */
	bool has_metrics;
	char metrics_addr[64];
	uint16_t metrics_port;
};

struct agent {
	struct agent_config cfg;
	struct event_base *base;
	struct wire_conn *conn;		/* NULL: not connected */
	bool accepted;			/* the controller answered the hello */
	uint32_t session;		/* counts connections: late answers find no reader */
	struct event *reconnect, *on_leash, *on_child, *on_term[2];
	double backoff_s;
	char last_why[500];		/* logged once, not at every attempt */
	struct lease *lease;
	struct binder *binder;
	struct worker *workers;
	int n_workers;
	struct stop_request *stops;
	struct monitor *monitor;
	struct metrics *metrics;	/* NULL: not asked for */
	uint16_t trace_region;		/* a trace that is still coming, in pieces */
	struct shape_trace trace;
};

/* ---- session.c ---- */
void session_start(struct agent *a);
/* Sends an event if there is a session; steals msg. */
void session_event(struct agent *a, json_t *msg);
/* Answers a request of that session, if it is still the same. */
void session_answer(struct agent *a, uint32_t session, json_int_t id, json_t *body,
		    const struct bace_err *e);

/* ---- requests.c ---- */
void request_handle(struct agent *a, const char *type, json_int_t id, const json_t *msg);
/* What was begun and not ended: the session is over. */
void requests_forget(struct agent *a);

/* ---- lease.c: the client of bace-shaperd, in a thread: its calls block ---- */
int lease_open(struct agent *a, struct lease **out, struct bace_err *e);
void lease_close(struct lease *l);
/* Takes spec's links. Answered through session_answer. */
void lease_plan(struct lease *l, json_int_t id, struct shape_spec *spec);
void lease_stats(struct lease *l, json_int_t id);
/* Statistics for the monitor, if there is a lease and none is asked for already. */
void lease_sample(struct lease *l);
/* Take what they are given. */
void lease_change(struct lease *l, json_int_t id, struct shape_change *v, int n);
void lease_trace(struct lease *l, json_int_t id, const struct wire_trace *head, struct shape_trace *t);
/* Shaping reverts. id 0: nobody waits for an answer. */
void lease_drop(struct lease *l, json_int_t id);

/* ---- workers.c, output.c, children.c ---- */
struct launch {
	json_int_t cell;
	int rank;
	int slot, slots;	/* which of the ranks on this machine, for spreading; 0 of 0: not bound */
	const char *program;	/* "worker" or "worker-nccl" */
	const json_t *config;	/* first line of its standard input */
	char nic[64];		/* address that it will use; "" unknown */
};

int workers_init(struct agent *a, struct bace_err *e);
int worker_launch(struct agent *a, const struct launch *l, json_t **answer, struct bace_err *e);
int worker_tell(struct agent *a, json_int_t cell, int rank, const json_t *line, struct bace_err *e);
/* Kills the cell's workers (0: all); answers when they are gone. id 0: nobody waits. */
void workers_stop(struct agent *a, json_int_t cell, json_int_t id);
/* Calls fn with the process id of each. */
void workers_each(const struct agent *a, void (*fn)(void *arg, pid_t pid), void *arg);
/* Kills, waits for all that they left behind too, frees: at the end of the process. */
void workers_end(struct agent *a);
/* Part of it: forgets them. */
void workers_free(struct agent *a);

/* ---- spawn.c ---- */
struct spawned {
	pid_t pid;
	int in, out, err;	/* this end of its standard streams, non-blocking */
	bool bound;		/* to these processors, as the kernel has it */
};

/* Each worker takes three files of this process. Once, at the start. */
#define SPAWN_FILES 8192
void spawn_raise_files(void);
/* cpus: to be bound to; NULL: all that this process may use. */
int spawn_worker(const char *path, const cpu_set_t *cpus, struct spawned *out, struct bace_err *e);

/* ---- bind.c: which cores a rank gets (hwloc) ---- */
int binder_open(struct binder **out, struct bace_err *e);
void binder_close(struct binder *b);
/* True: *cpus is to be applied. text says what was chosen and why, for the record. */
bool binder_choose(struct binder *b, int slot, int slots, const char *nic_addr, cpu_set_t *cpus,
		   char *text, size_t cap);
json_t *binder_describe(struct binder *b);

/* ---- metrics.c: GET /metrics in Prometheus' text format ---- */
/* "PORT" (on 127.0.0.1) or "ADDRESS:PORT". */
int metrics_parse(const char *text, char addr[64], uint16_t *port, struct bace_err *e);
int metrics_open(struct agent *a, const char *addr, uint16_t port, struct metrics **out, struct bace_err *e);
void metrics_close(struct metrics *m);

/* ---- routes.c ---- */
/* By which interface, and with which initial windows, this host reaches those
 * addresses and the controller ("ADDRESS:PORT"). */
int routes_describe(const char *controller, const json_t *addrs, json_t **answer, struct bace_err *e);

/* ---- inventory.c ---- */
/* What takes long is tried once, before the controller waits for a hello: what tc
 * can do here (in a namespace of its own), and whether there are GPUs. */
void inventory_probe(void);
json_t *inventory(struct agent *a);
/* Part of it: of that list (may be NULL), as many as the hello has room for. */
json_t *inventory_interfaces(const struct if_nameindex *all, int *left_out);
/* Drops what makes the array longer: offloads and GSO sizes of the last ones, then the
 * last themselves; how many of these. Pure. */
int inventory_fit(json_t *interfaces, size_t most_bytes);

#endif
