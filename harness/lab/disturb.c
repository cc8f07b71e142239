/* What is done to links that no policy and no simulation is told of. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/wire/wire.h"
#include "harness/lab/lab.h"

void lab_disturb(const struct testbed_spec *t, struct cluster *scaled)
{
	for (int i = 0; i < t->n_disturb; i++) {
		const struct disturbance *d = &t->disturb[i];
		struct link *l = &scaled->links[d->from * scaled->n_regions + d->to];

		if (d->jitter_ns) {
			l->jitter_ns = llround((double)d->jitter_ns * t->scale_time);
			l->jitter_dist = d->jitter_dist;
		}
		if (d->loss > 0)
			l->loss = d->loss;
	}
}

static void scale(const struct testbed_spec *t, struct shape_trace *x)
{
	for (size_t i = 0; i < x->n; i++) {
		struct shape_trace_point *p = &x->v[i];

		p->at_ns = llround((double)p->at_ns * t->scale_time);
		p->to.rate_bps = (uint64_t)llround((double)p->to.rate_bps * t->scale_bytes / t->scale_time);
		p->to.latency_ns = llround((double)p->to.latency_ns * t->scale_time);
	}
	x->period_ns = llround((double)x->period_ns * t->scale_time);
}

/* A shaper changes in place what its plan has; it adds nothing. */
static int check(const struct disturbance *d, const struct cluster *c, const struct shape_trace *x, struct bace_err *e)
{
	const struct link *l = cluster_link(c, d->from, d->to);
	bool delays = l->latency_ns || l->jitter_ns || l->loss > 0 || d->jitter_ns || d->loss > 0;

	if (!x->n)
		return bace_fail(e, EINVAL, "%s: changes nothing", d->trace_path);
	if (x->n > WIRE_TRACE_POINTS_MAX)
		return bace_fail(e, EINVAL, "%s: %zu changes, at most %d", d->trace_path, x->n, WIRE_TRACE_POINTS_MAX);
	if (d->loop && !x->period_ns)
		return bace_fail(e, EINVAL, "%s: a trace of one line has no length, and cannot be looped", d->trace_path);
	if ((shape_trace_sets(x) & (SHAPE_SET_LATENCY | SHAPE_SET_LOSS)) && !delays)
		return bace_fail(e, EINVAL, "%s: changes latency or loss from %s to %s, which has none: nothing delays "
				 "packets there; give the link a latency", d->trace_path, c->regions[d->from].name,
				 c->regions[d->to].name);
	if ((shape_trace_sets(x) & SHAPE_SET_RATE) && !l->rate_bps)
		return bace_fail(e, EINVAL, "%s: changes the rate from %s to %s, which is not limited", d->trace_path,
				 c->regions[d->from].name, c->regions[d->to].name);
	return 0;
}

int lab_traces(const struct experiment *exp, struct tb_trace **out, int *n, struct bace_err *e)
{
	const struct testbed_spec *t = &exp->testbed;
	int rc = 0;

	*n = 0;
	*out = calloc((size_t)t->n_disturb + 1, sizeof(**out));
	if (!*out)
		return bace_fail(e, ENOMEM, "traces: out of memory");
	for (int i = 0; !rc && i < t->n_disturb; i++) {
		const struct disturbance *d = &t->disturb[i];
		struct tb_trace *x = &(*out)[*n];

		if (!d->trace)
			continue;
		*x = (struct tb_trace){ .src = d->from, .dst = d->to, .loop = d->loop };
		rc = shape_trace_parse(d->trace, strlen(d->trace), d->trace_path, 0, &x->points, e);
		if (rc)
			break;
		(*n)++;
		rc = check(d, &exp->cluster, &x->points, e);
		scale(t, &x->points);
	}
	if (rc) {
		lab_traces_free(*out, *n);
		*out = NULL;
		*n = 0;
	}
	return rc;
}

void lab_traces_free(struct tb_trace *v, int n)
{
	for (int i = 0; v && i < n; i++)
		shape_trace_free(&v[i].points);
	free(v);
}
