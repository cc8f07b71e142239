/* What the testbed makes of each link, beside what it was asked for: from the plans
 * that it is sent. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "harness/run/internal.h"
#include "shaper/inspect.h"

/* What one host's plan does to the links of its region; of hosts that share them,
 * the last one's part. */
static void take_plan(const struct tb_host *h, int n, struct link_computed *out)
{
	const struct shape_spec *s = &h->shape;

	for (int i = 0; i < s->n_links; i++) {
		const struct shape_link *l = &s->links[i];
		struct link_computed *to = &out[h->region * n + l->region], *from = &out[l->region * n + h->region];
		struct shape_computed c;

		shape_compute(s, l, &c);
		if (l->rate_bps) {
			to->burst_bytes = (double)c.burst_bytes;
			to->queue_bytes = (double)c.buffer_bytes;
		}
		if (c.delay_limit_pkts)
			from->delay_limit_packets = c.delay_limit_pkts;
	}
	for (int q = 0; !h->gateway && s->gso_max_bytes && q < n; q++)
		out[h->region * n + q].gso_max_bytes = s->gso_max_bytes;
}

static int plans_of(const struct run *r, const struct cluster *scaled, struct tb_topology *out, struct bace_err *e)
{
	enum delay_kind delay = r->backend == BACKEND_NFQUEUE ? DELAY_NFQUEUE : DELAY_NETEM;
	struct lab_net net;
	int rc;

	if (r->o->launch)
		return launch_topology(scaled, &r->traffic, delay, r->o->launch, out, e);
	rc = lab_net_build(scaled, r->exp->testbed.hosts_per_region, &net, e);
	if (rc)
		return rc;
	rc = lab_topology_build(scaled, &net, delay, &r->traffic, out, e);
	lab_net_free(&net);
	return rc;
}

int links_computed(const struct run *r, struct link_computed *out, struct bace_err *e)
{
	const struct testbed_spec *t = &r->exp->testbed;
	struct tb_topology plans = { 0 };
	struct cluster scaled;
	int n = r->exp->cluster.n_regions, rc;

	for (int i = 0; i < n * n; i++)
		out[i] = (struct link_computed){ NAN, NAN, NAN, NAN, NAN };
	if (!r->exp->oracle_measured)
		return 0;
	if (cluster_scaled(&r->exp->cluster, t->scale_bytes, t->scale_time, &scaled))
		return bace_fail(e, ENOMEM, "links: out of memory");
	lab_disturb(t, &scaled);
	rc = plans_of(r, &scaled, &plans, e);
	for (int i = 0; !rc && i < plans.n_hosts; i++)
		take_plan(&plans.hosts[i], n, out);
	/* Routes of real hosts are their administrators'. */
	for (int i = 0; !rc && i < n * n && !r->o->launch && t->wan == WAN_STEADY; i++)
		if (scaled.links[i].present)
			out[i].initcwnd_segments = lab_initial_window(&scaled, i / n, i % n, &r->traffic);
	lab_topology_free(&plans);
	cluster_scaled_free(&scaled);
	return rc;
}
