/* What the paths between real machines take by themselves is not added to the
 * links that are to be seen on them. */
#include <errno.h>
#include <stdlib.h>

#include "harness/launch/internal.h"

int launch_pairs(const struct tb_topology *t, struct tb_verify **out, int *n, struct bace_err *e)
{
	size_t most = (size_t)t->n_regions * (size_t)t->n_regions;
	CLEANUP_FREE bool *linked = calloc(most + 1, sizeof(*linked));

	*n = 0;
	*out = calloc(most + 1, sizeof(**out));
	if (!linked || !*out) {
		free(*out);
		*out = NULL;
		return bace_fail(e, ENOMEM, "paths of %d regions: out of memory", t->n_regions);
	}
	for (int i = 0; i < t->n_hosts; i++)
		for (int k = 0; k < t->hosts[i].shape.n_links; k++) {
			int here = t->hosts[i].region, there = t->hosts[i].shape.links[k].region;
			bool *seen = &linked[here < there ? here * t->n_regions + there : there * t->n_regions + here];

			if (!*seen)
				(*out)[(*n)++] = (struct tb_verify){ .src = here, .dst = there };
			*seen = true;
		}
	return 0;
}

static int64_t own_of(int n, const struct tb_verify *paths, int a, int b)
{
	for (int i = 0; i < n; i++)
		if ((paths[i].src == a && paths[i].dst == b) || (paths[i].src == b && paths[i].dst == a))
			return (int64_t)(paths[i].rtt_min_s * 1e9 / 2);
	return 0;
}

/* Of the link from src to dst. One that has no latency has none to give away; one that is
 * met by its path keeps a delay queue, for what changes in place. */
static int subtract(const struct tb_topology *t, int src, int dst, int64_t own_ns, int64_t *latency_ns, struct bace_err *e)
{
	char latency[BACE_FMT_MAX], own[BACE_FMT_MAX];

	if (!*latency_ns || !own_ns)
		return 0;
	if (*latency_ns < own_ns)
		return bace_fail(e, EINVAL, "the link from %s to %s is to have a latency of %s (scaled), below the %s that the path between "
				 "their hosts takes by itself (half of the least RTT, measured): a larger scale.time, or hosts that are nearer",
				 t->region_names[src], t->region_names[dst], bace_fmt_time(latency, (double)*latency_ns / 1e9),
				 bace_fmt_time(own, (double)own_ns / 1e9));
	*latency_ns = *latency_ns > own_ns ? *latency_ns - own_ns : 1;
	return 0;
}

int launch_subtract(int n, const struct tb_verify *paths, struct tb_topology *t, int n_traces, struct tb_trace *traces,
		    struct bace_err *e)
{
	int rc = 0;

	for (int i = 0; i < t->n_hosts; i++)
		for (int k = 0; k < t->hosts[i].shape.n_links && !rc; k++) {
			struct shape_link *l = &t->hosts[i].shape.links[k];
			int here = t->hosts[i].region;

			/* What comes in is delayed where it comes in. */
			rc = subtract(t, l->region, here, own_of(n, paths, here, l->region), &l->latency_ns, e);
		}
	for (int i = 0; i < n_traces; i++)
		for (size_t k = 0; k < traces[i].points.n && !rc; k++) {
			struct shape_change *c = &traces[i].points.v[k].to;
			int src = traces[i].src, dst = traces[i].dst;

			if (c->set & SHAPE_SET_LATENCY)
				rc = subtract(t, src, dst, own_of(n, paths, src, dst), &c->latency_ns, e);
		}
	return rc;
}

int launch_tell_paths(int n, const struct tb_verify *paths, const struct tb_topology *t, json_t *inventory)
{
	for (int i = 0; i < t->n_hosts; i++) {
		json_t *host = json_object_get(inventory, t->hosts[i].name), *own = json_object();

		for (int k = 0; k < n; k++) {
			int here = t->hosts[i].region;

			if (paths[k].src == here || paths[k].dst == here)
				json_object_set_new(own, t->region_names[paths[k].src == here ? paths[k].dst : paths[k].src],
						    json_real(paths[k].rtt_min_s / 2));
		}
		if (!host)
			json_decref(own);
		else if (json_object_set_new(host, "own_latency_s", own))
			return -ENOMEM;
	}
	return 0;
}
