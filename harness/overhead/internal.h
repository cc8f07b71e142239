/* Private to harness/overhead: one execution. */
#ifndef BACE_OVERHEAD_INTERNAL_H
#define BACE_OVERHEAD_INTERNAL_H

#include "harness/oracle/oracle.h"
#include "harness/overhead/overhead.h"
#include "results/results.h"

struct overhead_run {
	struct experiment *exp;
	const struct overhead_options *o;
	struct overhead_result *out;
	struct job_models models;
	struct placement placement;
	struct lab_traffic traffic;
	enum backend_kind backend;
	struct testbed *testbed;
	struct store *store;
	struct tb_cell cell;
	double step_s;			/* predicted, testbed seconds */
	int src, dst;			/* the link that is changed */
	uint64_t rate_bps;		/* L2, testbed */
};

/* ---- store.c ---- */
int overhead_store_begin(struct overhead_run *r, struct bace_err *e);
int overhead_store_row(struct overhead_run *r, const struct overhead_row *row, struct bace_err *e);
/* Returns rc, or why the end could not be kept. */
int overhead_store_end(struct overhead_run *r, int rc, struct bace_err *e);

#endif
