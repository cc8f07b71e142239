/* Links that a testbed disturbs: checked, kept with the run, and judged with
 * more patience. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "harness/run/internal.h"

int disturb_check(const struct experiment *exp, struct bace_err *e)
{
	struct tb_trace *v;
	int n, rc = lab_traces(exp, &v, &n, e);

	if (!rc)
		lab_traces_free(v, n);
	return rc;
}

const struct disturbance *disturbance_of(const struct experiment *exp, int src, int dst)
{
	for (int i = 0; i < exp->testbed.n_disturb; i++)
		if (exp->testbed.disturb[i].from == src && exp->testbed.disturb[i].to == dst)
			return &exp->testbed.disturb[i];
	return NULL;
}

#define LOOK_S 3.0		/* several trains of probes over every link */

/* What agents measure of every link, over the plan; 1 where they heard nothing. */
int read_reports(struct run *r, struct bace_err *e)
{
	const struct cluster *c = &r->exp->cluster;
	const struct testbed_spec *t = &r->exp->testbed;
	int n = c->n_regions, heard = 0, rc;

	r->reported = calloc((size_t)(n * n) + 1, sizeof(*r->reported));
	rc = r->reported ? bed_look(r->bed, LOOK_S, r->reported, e) : bace_fail(e, ENOMEM, "reports: out of memory");
	if (!rc)
		rc = store_begin(r->store, e);
	for (int i = 0; !rc && i < n * n; i++) {
		double planned = (double)c->links[i].rate_bps * t->scale_bytes / t->scale_time;

		if (c->links[i].present && isfinite(r->reported[i])) {
			rc = store_add_monitor_sample(r->store, r->id, &(struct monitor_row){ .at_s = 0, .method = "probe",
				.src = c->regions[i / n].name, .dst = c->regions[i % n].name, .quantity = "capacity_bps",
				.value = r->reported[i] }, e);
			r->reported[i] /= planned;
			heard++;
		} else {
			r->reported[i] = 1;
		}
	}
	if (rc) {
		store_rollback(r->store);
		return rc;
	}
	run_progress(r, "agents report on %d links", heard);
	return store_commit(r->store, e);
}

int record_disturbances(struct run *r, struct bace_err *e)
{
	static const char *const shape[] = { "none", "uniform", "normal", "pareto", "paretonormal" };
	const struct cluster *c = &r->exp->cluster;
	int rc = store_begin(r->store, e);

	for (int i = 0; !rc && i < r->exp->testbed.n_disturb; i++) {
		const struct disturbance *d = &r->exp->testbed.disturb[i];

		rc = store_add_disturbance(r->store, r->id, &(struct disturbance_row){
			.src = c->regions[d->from].name, .dst = c->regions[d->to].name,
			.jitter_s = (double)d->jitter_ns / 1e9, .jitter_distribution = shape[d->jitter_dist],
			.loss = d->loss, .trace = d->trace_path, .loop = d->loop }, e);
	}
	if (!rc)
		return store_commit(r->store, e);
	store_rollback(r->store);
	return rc;
}
