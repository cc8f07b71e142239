/* What tcp_info said about each tcp hop, and when. */
#ifndef BACE_WORKER_FLOWS_H
#define BACE_WORKER_FLOWS_H

#include "workloads/worker/hop.h"

struct flows;

/* What was read as a stage ended a step (< 0: warm-up). */
struct flow_row {
	int step;
	struct net_info t;
};

/* As worker.h has the "steps" of a flow. */
json_t *flow_rows_json(const struct flow_row *rows, int n);

/* hops is borrowed: [spec->n_hops], internal ones unused. */
int flows_create(const struct worker_spec *spec, const struct hop *hops, struct flows **out,
		 struct bace_err *e);
void flows_destroy(struct flows *f);
/* Counters from now on are of the measured part. */
void flows_start(struct flows *f);
/* The stage has ended a step (< 0: warm-up). */
void flows_step_ended(struct flows *f, int slot, int step);
/* The array of "flows"; all counters as they are now. */
json_t *flows_json(const struct flows *f);

#endif
