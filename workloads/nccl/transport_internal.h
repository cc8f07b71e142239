/* Shared by transport.c, transport_comm.c and transport_report.c only. */
#ifndef BACE_NCCL_TRANSPORT_INTERNAL_H
#define BACE_NCCL_TRANSPORT_INTERNAL_H

#include "workloads/nccl/groups.h"
#include "workloads/nccl/log.h"
#include "workloads/nccl/power.h"
#include "workloads/nccl/sockets.h"
#include "workloads/nccl/transport.h"
#include "workloads/worker/flows.h"

/* In order. */
enum transport_state {
	TRANSPORT_NEW, TRANSPORT_INIT, TRANSPORT_WARMING, TRANSPORT_WARM, TRANSPORT_GOING,
	TRANSPORT_CLOSING, TRANSPORT_CLOSED,
};

struct carried {			/* by one hop, sent by this end */
	uint64_t bytes, messages;
	char peer[64];			/* its address */
	struct sockets_count sockets;
	struct flow_row *rows;		/* [steps of the run]; NULL: not an nccl hop */
	int n_rows;
};

struct transport {
	struct mover base;
	const struct worker_spec *spec;
	struct loop *loop;
	const struct hop_events *events;
	enum transport_state state;
	struct watch tick;
	int64_t period;			/* of the timer */
	ncclComm_t comm;
	struct groups *groups;
	struct calls calls;
	struct call next;
	bool more;			/* next is one */
	struct carried *carried;	/* [spec->n_hops] */
	int log_fd;			/* a file in memory that NCCL writes to */
	off_t log_at;
	struct nccl_log log;
	char interface[96];		/* "eth0:10.1.2.3" */
	int device;
	char bus[32];
	struct power *power;		/* NULL: no counter */
	double energy_j;		/* at the start; then of the run; < 0: not known */
	int64_t energy_ns;		/* likewise */
};

int transport_watch(struct transport *t, struct bace_err *e);

/* ---- transport_comm.c ---- */
int transport_create(const struct worker_spec *spec, struct loop *loop, const struct hop_events *events,
		     struct mover **out, struct bace_err *e);
void transport_destroy(struct mover *mover);
int transport_read_peers(struct transport *t, const json_t *cmd, struct bace_err *e);
int transport_comm_init(struct transport *t, const json_t *cmd, struct bace_err *e);
/* 1: it is there, 0: not yet. */
int transport_comm_ready(struct transport *t, struct bace_err *e);
/* Moves on to TRANSPORT_CLOSED when the communicator has ended. */
int transport_comm_closed(struct transport *t, struct bace_err *e);

/* ---- transport_report.c ---- */
int transport_check_log(struct transport *t, struct bace_err *e);
/* Adds what NCCL's log said last to an error of NCCL's; returns -e->errnum. */
int transport_explain(struct transport *t, struct bace_err *e);
/* Reads the counters of the peers' sockets; bytes that are not acknowledged yet. */
uint64_t transport_count(struct transport *t);
/* Reads them, for each hop's row of the step. */
void transport_step_ended(struct mover *mover, int step);
void transport_power_start(struct transport *t);
void transport_power_stop(struct transport *t);
int transport_report(const struct mover *mover, json_t *flows, json_t *done, struct bace_err *e);

#endif
