/* What agents measure of the links, for policies that are told that in place of
 * the truth: once before the first decision, and again after every cell. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "harness/run/internal.h"

#define LOOK_S 3.0		/* several trains of probes over every link */

static int keep(struct run *r, int at, double now_s, const struct tb_view_link *v, struct bace_err *e)
{
	static const char *const method[] = { [TB_COUNTERS] = "counters", [TB_TCP_INFO] = "tcp_info", [TB_PROBE] = "probe" };
	const struct cluster *c = &r->exp->cluster;
	const struct {
		const char *quantity;
		double value;
	} row[] = { { "capacity_bps", v->capacity_bps }, { "error_bps", v->error_bps }, { "age_s", v->age_s } };
	int rc = 0;

	for (size_t i = 0; !rc && i < ARRAY_LEN(row); i++)
		rc = store_add_monitor_sample(r->store, r->id, &(struct monitor_row){ .at_s = now_s,
			.method = method[v->method], .src = c->regions[at / c->n_regions].name,
			.dst = c->regions[at % c->n_regions].name, .quantity = row[i].quantity,
			.value = row[i].value }, e);
	return rc;
}

/* A link that nothing was heard of stays as it was last told: planned, at first. */
static int take(struct run *r, const struct tb_view_link *v, struct bace_err *e)
{
	const struct cluster *c = &r->exp->cluster;
	const struct testbed_spec *t = &r->exp->testbed;
	double now_s = (double)(bace_mono_ns() - r->began_ns) / 1e9, least = INFINITY, most = 0;
	int heard = 0, rc = 0;

	for (int i = 0; !rc && i < c->n_regions * c->n_regions; i++) {
		double planned = (double)c->links[i].rate_bps * t->scale_bytes / t->scale_time;

		if (!c->links[i].present || !v[i].known || v[i].lower_bound)
			continue;
		r->reports.over_truth[i] = v[i].capacity_bps / planned;
		least = fmin(least, r->reports.over_truth[i]);
		most = fmax(most, r->reports.over_truth[i]);
		heard++;
		rc = keep(r, i, now_s, &v[i], e);
	}
	if (rc)
		return rc;
	if (heard)
		run_progress(r, "agents report on %d of %d links: %.2f to %.2f of what is planned", heard,
			     r->n_links, least, most);
	else
		run_progress(r, "agents report on no link");
	r->reports.n_looks++;
	return 0;
}

int reports_look(struct run *r, struct bace_err *e)
{
	size_t n = (size_t)(r->exp->cluster.n_regions * r->exp->cluster.n_regions);
	CLEANUP_FREE struct tb_view_link *v = calloc(n + 1, sizeof(*v));
	int rc;

	if (!r->reports.over_truth) {
		r->reports.over_truth = calloc(n + 1, sizeof(double));
		for (size_t i = 0; r->reports.over_truth && i < n; i++) {
			r->reports.over_truth[i] = 1;
			r->n_links += r->exp->cluster.links[i].present;
		}
	}
	if (!v || !r->reports.over_truth)
		return bace_fail(e, ENOMEM, "reports: out of memory");
	rc = bed_look(r->bed, LOOK_S, v, e);
	if (!rc)
		rc = store_begin(r->store, e);
	if (rc)
		return rc;
	rc = take(r, v, e);
	if (!rc)
		return store_commit(r->store, e);
	store_rollback(r->store);
	return rc;
}
