/* The two oracles that compute: closed form and event simulation. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "harness/oracle/oracle.h"
#include "harness/sim/sim.h"

struct computed {
	struct oracle base;
	enum schedule_kind schedule;
	int chunks;
	bool no_overlap;
	int cap;			/* stages that the scratch arrays hold */
	struct stage_cost *stages;
	struct hop_cost *fwd, *rev;
	double *numbers;		/* 7 arrays of cap */
};

static void computed_destroy(struct oracle *base)
{
	struct computed *o = (struct computed *)base;

	free(o->stages);
	free(o->fwd);
	free(o->rev);
	free(o->numbers);
	free(o);
}

static int reserve(struct computed *o, int n, struct bace_err *e)
{
	size_t want = (size_t)n + (size_t)n / 2 + 8;

	if (n < o->cap)
		return 0;
	free(o->stages);
	free(o->fwd);
	free(o->rev);
	free(o->numbers);
	o->stages = malloc(want * sizeof(*o->stages));
	o->fwd = malloc(want * sizeof(*o->fwd));
	o->rev = malloc(want * sizeof(*o->rev));
	o->numbers = malloc(7 * want * sizeof(*o->numbers));
	o->cap = o->stages && o->fwd && o->rev && o->numbers ? (int)want : 0;
	return o->cap ? 0 : bace_fail(e, ENOMEM, "oracle of %d stages: out of memory", n);
}

static double fill(struct computed *o, const struct moment *m, int which)
{
	const struct placement *p = m->placements[which];
	const struct cluster *c = &m->exp->cluster;
	double compute = 0;
	int stage = 0;

	for (int part = 0; part < p->n_parts; part++) {
		const struct gpu_type *gpu = &c->gpus[c->regions[p->parts[part].region].gpu];

		for (int i = 0; i < p->parts[part].gpus; i++, stage++) {
			o->stages[stage] = stage_cost(m->exp, &m->models->v[p->job], p->n_gpus, stage, gpu);
			compute += o->stages[stage].fwd_s + o->stages[stage].bwd_s;
		}
	}
	moment_hops(m, which, o->fwd, o->rev);
	return compute;
}

/* step_s by closed form or by simulation */
static int simulate(struct computed *o, int p, int m, double *step_s, struct bace_err *e)
{
	double *v = o->numbers;
	size_t n = (size_t)o->cap;
	struct pipeline pipe = {
		.schedule = { o->schedule, p, m, o->chunks }, .no_overlap = o->no_overlap,
		.tf = v, .tb = v + n, .tw = NULL, .fwd_latency = v + 3 * n,
		.fwd_serialisation = v + 4 * n, .rev_latency = v + 5 * n,
		.rev_serialisation = v + 6 * n };
	struct pipeline_result r = { 0 };
	int rc;

	for (int i = 0; i < p; i++) {
		v[i] = o->stages[i].fwd_s;
		v[n + (size_t)i] = o->stages[i].bwd_s;
	}
	/* zb-h1 splits the backward into the gradient of the input and of the
	 * weights, half each: two matrix products of the same size. */
	if (o->schedule == SCHED_ZB_H1) {
		for (int i = 0; i < p; i++)
			v[2 * n + (size_t)i] = v[n + (size_t)i] /= 2;
		pipe.tw = v + 2 * n;
	}
	/* Interleaved has one hop more: from the last stage to the first. */
	for (int i = 0; i < p - (o->schedule != SCHED_INTERLEAVED_1F1B); i++) {
		v[3 * n + (size_t)i] = o->fwd[i].latency_s;
		v[4 * n + (size_t)i] = o->fwd[i].serialisation_s;
		v[5 * n + (size_t)i] = o->rev[i].latency_s;
		v[6 * n + (size_t)i] = o->rev[i].serialisation_s;
	}
	rc = pipeline_simulate(&pipe, &r, e);
	*step_s = r.step_time;
	return rc;
}

static void wrap_hop(struct computed *o, const struct moment *m, int which)
{
	const struct placement *p = m->placements[which];
	struct placement_part ends[2] = { p->parts[p->n_parts - 1], p->parts[0] };
	struct placement ring = { .job = p->job, .n_parts = 2, .n_gpus = 2, .parts = ends };
	const struct placement *one = &ring;
	struct moment alone = *m;

	ends[0].gpus = ends[1].gpus = 1;
	if (p->n_parts < 2) {
		/* within one region the way back is as any other hop */
		struct hop_cost local = p->n_gpus > 1 ? o->fwd[0] : (struct hop_cost){ 0 };

		o->fwd[p->n_gpus - 1] = o->rev[p->n_gpus - 1] = local;
		return;
	}
	/* The others' share of that link is taken as the link's own. */
	alone.n = 1;
	alone.placements = &one;
	moment_hops(&alone, 0, &o->fwd[p->n_gpus - 1], &o->rev[p->n_gpus - 1]);
}

static int estimate(struct computed *o, const struct moment *m, int which, bool closed_form,
		    struct step_estimate *out, struct bace_err *e)
{
	const struct placement *p = m->placements[which];
	int micro_batches = m->models->v[p->job].m;
	double compute;
	int rc = reserve(o, p->n_gpus + 1, e);

	if (rc)
		return rc;
	compute = fill(o, m, which);
	if (closed_form) {
		out->step_s = step_time_closed_form(p->n_gpus, micro_batches, o->stages, o->fwd, o->rev);
	} else {
		if (o->schedule == SCHED_INTERLEAVED_1F1B)
			wrap_hop(o, m, which);
		rc = simulate(o, p->n_gpus, micro_batches, &out->step_s, e);
		if (rc)
			return bace_err_context(e, "%s", m->exp->jobs[p->job].name);
	}
	if (!isfinite(out->step_s) || out->step_s <= 0)
		return bace_fail(e, ENETUNREACH, "%s: its step would never end: a link on its path has no "
				 "capacity left", m->exp->jobs[p->job].name);
	out->busy = micro_batches * compute / p->n_gpus / out->step_s;
	return 0;
}

static int closed_form_times(struct oracle *o, const struct moment *m, struct step_estimate *out,
			     struct bace_err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < m->n; i++)
		rc = estimate((struct computed *)o, m, i, true, &out[i], e);
	return rc;
}

static int event_sim_times(struct oracle *o, const struct moment *m, struct step_estimate *out,
			   struct bace_err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < m->n; i++)
		rc = estimate((struct computed *)o, m, i, false, &out[i], e);
	return rc;
}

static int create(struct computed c, struct oracle **out, struct bace_err *e)
{
	struct computed *o = malloc(sizeof(*o));

	if (!o)
		return bace_fail(e, ENOMEM, "oracle: out of memory");
	*o = c;
	o->base.destroy = computed_destroy;
	*out = &o->base;
	return 0;
}

int oracle_closed_form(struct oracle **out, struct bace_err *e)
{
	return create((struct computed){ .base = { .name = "closed-form",
		.step_times = closed_form_times } }, out, e);
}

int oracle_event_sim(enum schedule_kind schedule, int interleave, bool overlap, struct oracle **out,
		     struct bace_err *e)
{
	return create((struct computed){ .base = { .name = "event-sim", .step_times = event_sim_times },
		.schedule = schedule, .chunks = schedule == SCHED_INTERLEAVED_1F1B ? interleave : 1,
		.no_overlap = !overlap }, out, e);
}
