/* Links that a testbed disturbs: checked, kept with the run, and judged with
 * more patience. */
#include <errno.h>
#include <stdlib.h>

#include "harness/run/internal.h"
#include "profiles/names.h"

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

int record_disturbances(struct run *r, struct bace_err *e)
{
	const struct cluster *c = &r->exp->cluster;
	int rc = store_begin(r->store, e);

	for (int i = 0; !rc && i < r->exp->testbed.n_disturb; i++) {
		const struct disturbance *d = &r->exp->testbed.disturb[i];

		rc = store_add_disturbance(r->store, r->id, &(struct disturbance_row){
			.src = c->regions[d->from].name, .dst = c->regions[d->to].name,
			.jitter_s = (double)d->jitter_ns / 1e9, .jitter_distribution = jitter_names[d->jitter_dist],
			.loss = d->loss, .trace = d->trace_path, .loop = d->loop }, e);
	}
	if (!rc)
		return store_commit(r->store, e);
	store_rollback(r->store);
	return rc;
}
