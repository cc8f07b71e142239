/* The two oracles that compute: closed form and event simulation. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "harness/oracle/shares.h"
#include "harness/sim/sim.h"

enum { TF, TB, TW, FWD_LATENCY, FWD_SERIALISATION, REV_LATENCY, REV_SERIALISATION, N_ARRAYS };

struct computed {
	struct oracle base;
	bool closed_form;
	enum schedule_kind schedule;	/* event-sim */
	int chunks;
	bool no_overlap;
	struct shares shares;
	size_t cap;			/* stages that the scratch arrays hold */
	struct stage_cost *stages;
	struct hop_cost *fwd, *rev;
	double *numbers;		/* N_ARRAYS of cap */
	void (*on_op)(void *arg, const struct timeline_op *op);	/* while operations are asked for */
	void *arg;
};

static void free_scratch(struct computed *o)
{
	free(o->stages);
	free(o->fwd);
	free(o->rev);
	free(o->numbers);
	o->stages = NULL;
	o->fwd = o->rev = NULL;
	o->numbers = NULL;
	o->cap = 0;
}

static void computed_destroy(struct oracle *base)
{
	struct computed *o = (struct computed *)base;

	free_scratch(o);
	shares_free(&o->shares);
	free(o);
}

static int reserve(struct computed *o, size_t n)
{
	size_t want = n + n / 2 + 8;

	if (n <= o->cap)
		return 0;
	free_scratch(o);
	o->stages = malloc(want * sizeof(*o->stages));
	o->fwd = malloc(want * sizeof(*o->fwd));
	o->rev = malloc(want * sizeof(*o->rev));
	o->numbers = malloc(N_ARRAYS * want * sizeof(*o->numbers));
	if (!o->stages || !o->fwd || !o->rev || !o->numbers) {
		free_scratch(o);
		return -ENOMEM;
	}
	o->cap = want;
	return 0;
}

/* Returns seconds of computation of one micro-batch, all stages. */
static double fill_stages(struct computed *o, const struct moment *m, const struct placement *p)
{
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
	return compute;
}

static int simulate(struct computed *o, const struct moment *m, const struct placement *p, double *step_s,
		    struct bace_err *e)
{
	bool wraps = o->schedule == SCHED_INTERLEAVED_1F1B, zb = o->schedule == SCHED_ZB_H1;
	double weight = zb ? schedule_weight_share(m->exp->models[m->exp->jobs[p->job].model].recompute) : 0;
	double *v[N_ARRAYS];
	struct pipeline_result r = { .on_op = o->on_op, .arg = o->arg };
	int rc;

	for (size_t i = 0; i < N_ARRAYS; i++)
		v[i] = o->numbers + i * o->cap;
	for (int i = 0; i < p->n_gpus; i++) {
		v[TF][i] = o->stages[i].fwd_s;
		v[TW][i] = o->stages[i].bwd_s * weight;
		v[TB][i] = o->stages[i].bwd_s - v[TW][i];
	}
	for (int i = 0; i < p->n_gpus - !wraps; i++) {
		v[FWD_LATENCY][i] = o->fwd[i].latency_s;
		v[FWD_SERIALISATION][i] = o->fwd[i].serialisation_s;
		v[REV_LATENCY][i] = o->rev[i].latency_s;
		v[REV_SERIALISATION][i] = o->rev[i].serialisation_s;
	}
	rc = pipeline_simulate(&(struct pipeline){
		.schedule = { o->schedule, p->n_gpus, m->models->v[p->job].m, o->chunks },
		.no_overlap = o->no_overlap, .tf = v[TF], .tb = v[TB], .tw = zb ? v[TW] : NULL,
		.fwd_latency = v[FWD_LATENCY], .fwd_serialisation = v[FWD_SERIALISATION],
		.rev_latency = v[REV_LATENCY], .rev_serialisation = v[REV_SERIALISATION] }, &r, e);
	*step_s = r.step_time;
	return rc;
}

static int estimate(struct computed *o, const struct moment *m, int which, struct step_estimate *out,
		    struct bace_err *e)
{
	const struct placement *p = m->placements[which];
	int n = m->models->v[p->job].m, rc = 0;
	double compute;

	if (reserve(o, (size_t)p->n_gpus + 1))
		return bace_fail(e, ENOMEM, "step time on %d GPUs: out of memory", p->n_gpus);
	compute = fill_stages(o, m, p);
	shares_hops(&o->shares, which, !o->closed_form && o->schedule == SCHED_INTERLEAVED_1F1B, o->fwd, o->rev);
	if (o->closed_form)
		out->step_s = step_time_closed_form(p->n_gpus, n, o->stages, o->fwd, o->rev);
	else
		rc = simulate(o, m, p, &out->step_s, e);
	if (rc)
		return bace_err_context(e, "%s", m->exp->jobs[p->job].name);
	out->busy = isinf(out->step_s) ? 0 : fmin(1, n * compute / p->n_gpus / out->step_s);
	return 0;
}

static int step_times(struct oracle *base, const struct moment *m, struct step_estimate *out,
		      struct bace_err *e)
{
	struct computed *o = (struct computed *)base;
	int rc = 0;

	if (shares_compute(&o->shares, m, o->closed_form ? moment_chunks(m) : o->chunks))
		return bace_fail(e, ENOMEM, "step times of %d jobs: out of memory", m->n);
	for (int i = 0; !rc && i < m->n; i++)
		rc = estimate(o, m, i, &out[i], e);
	return rc;
}

/* ---- the operations behind a step ---- */

/* Messages of one stage leave in the order in which its operations end. */
struct op_reader {
	const struct computed *o;
	void (*on_op)(void *arg, const struct predicted_op *op);
	void *arg;
	int n, chunks;
	double *fwd_free, *rev_free;	/* [n]: when the stage's link is free again */
};

static double send(double made_s, const struct hop_cost *hop, double *link_free)
{
	*link_free = fmax(made_s, *link_free) + hop->serialisation_s;
	return *link_free + hop->latency_s;
}

static void send_on(struct op_reader *r, const struct timeline_op *op)
{
	struct predicted_op m = { .micro_batch = op->micro_batch, .kind = op->kind, .received = true,
				  .start_s = op->end };
	bool forward = op->kind == OP_FORWARD;
	int next = op->stage + (forward ? 1 : -1);
	bool wraps = next < 0 || next == r->n;

	/* Round the end to the next chunk, unless it was the last. */
	if (op->kind == OP_WEIGHT || (wraps && op->chunk == (forward ? r->chunks - 1 : 0)))
		return;
	m.stage = (next + r->n) % r->n;
	m.end_s = forward ? send(op->end, &r->o->fwd[op->stage], &r->fwd_free[op->stage]) :
			    send(op->end, &r->o->rev[m.stage], &r->rev_free[op->stage]);
	r->on_op(r->arg, &m);
}

static void read_op(void *arg, const struct timeline_op *op)
{
	struct op_reader *r = arg;

	r->on_op(r->arg, &(struct predicted_op){ .stage = op->stage, .micro_batch = op->micro_batch,
		.kind = op->kind, .start_s = op->start, .end_s = op->end });
	send_on(r, op);
}

int oracle_event_sim_ops(struct oracle *base, const struct moment *m, int which,
			 void (*on_op)(void *arg, const struct predicted_op *op), void *arg, struct bace_err *e)
{
	struct computed *o = (struct computed *)base;
	size_t n = (size_t)m->placements[which]->n_gpus;
	CLEANUP_FREE double *link_free = calloc(2 * n + 1, sizeof(*link_free));
	struct op_reader r = { o, on_op, arg, (int)n, o->chunks, link_free, link_free + n };
	struct step_estimate ignored;
	int rc;

	if (!link_free || shares_compute(&o->shares, m, o->chunks))
		return bace_fail(e, ENOMEM, "operations of %d jobs: out of memory", m->n);
	o->on_op = read_op;
	o->arg = &r;
	rc = estimate(o, m, which, &ignored, e);
	o->on_op = NULL;
	return rc;
}

static int create(const struct computed *c, struct oracle **out, struct bace_err *e)
{
	struct computed *o = malloc(sizeof(*o));

	if (!o)
		return bace_fail(e, ENOMEM, "oracle: out of memory");
	*o = *c;
	o->base.step_times = step_times;
	o->base.destroy = computed_destroy;
	*out = &o->base;
	return 0;
}

int oracle_closed_form(struct oracle **out, struct bace_err *e)
{
	return create(&(struct computed){ .base.name = "closed-form", .closed_form = true, .chunks = 1 }, out, e);
}

int oracle_event_sim(enum schedule_kind schedule, int interleave, bool overlap, struct oracle **out,
		     struct bace_err *e)
{
	return create(&(struct computed){ .base.name = "event-sim", .schedule = schedule,
		.chunks = schedule == SCHED_INTERLEAVED_1F1B ? interleave : 1,
		.no_overlap = !overlap }, out, e);
}
