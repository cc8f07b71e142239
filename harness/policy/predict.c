#include "harness/policy/predict.h"

#include <math.h>

#include "harness/oracle/oracle.h"

/* A walk over the parts from the last stage to the first. */
struct walk {
	const struct policy *p;
	const struct situation *s;
	const struct job_class *c;
	struct pipeline_shape shape;
	int k;
	double compute_s;	/* of the stages behind, and */
	double hops_s;		/* of the hops behind, there and back */
	double slot_s;
};

static double layers_before(const struct walk *w, int stage)
{
	const struct job_class *c = w->c;
	int odd = c->layers % w->k;

	if (c->equal_split)
		return (double)c->layers * stage / w->k;
	return (double)(c->layers / w->k) * stage + (stage < odd ? stage : odd);
}

static void bound(struct walk *w, int stage, double compute_s, double hops_s)
{
	double live = model_live_micro_batches(&w->shape, w->k, stage);

	if (live < w->c->m)
		w->slot_s = fmax(w->slot_s, (compute_s + hops_s) / live);
}

/* Stages first..last of one region; ser_out: what the GPU itself is held for. */
static void walk_part(struct walk *w, int region, int first, int last)
{
	const struct facts *f = &w->p->f;
	double per_layer = w->c->total_s * f->slow[region] / w->c->layers;
	double ser = w->c->boundary_bits * f->intra_s_per_bit[region];
	double hop = 2 * (f->intra_latency_s[region] + ser);
	double held = f->exp->overlap ? 0 : 2 * ser;
	double compute = per_layer * (layers_before(w, last + 1) - layers_before(w, first));
	double at_last = per_layer * (layers_before(w, last + 1) - layers_before(w, last));
	double largest = per_layer * (layers_before(w, first + 1) - layers_before(w, first));

	/* Between its ends the bound is monotone: live and what is behind are linear. */
	bound(w, last, w->compute_s + at_last, w->hops_s);
	w->compute_s += compute;
	w->hops_s += (last - first) * hop;
	bound(w, first, w->compute_s, w->hops_s);
	w->slot_s = fmax(w->slot_s, largest + (last > first ? held : 0));
	if (last > first)
		w->slot_s = fmax(w->slot_s, ser);
}

static void walk_hop(struct walk *w, int a, int b)
{
	const struct facts *f = &w->p->f;
	int there = a * f->n + b, back = b * f->n + a;
	double out = w->c->boundary_bits / w->s->residual[there];
	double in = w->c->boundary_bits / w->s->residual[back];

	if (!(w->s->residual[there] > 0) || !(w->s->residual[back] > 0))
		out = in = INFINITY;
	w->hops_s += f->latency_s[there] + out + f->latency_s[back] + in;
	w->slot_s = fmax(w->slot_s, fmax(out, in));
	if (!f->exp->overlap)
		w->slot_s = fmax(w->slot_s, fmax(out, in) + w->c->total_s * f->slow[a] *
						class_largest_stage(w->c, w->k));
}

double predict_step(const struct policy *p, const struct situation *s, const struct job_class *c,
		    const struct placement_part *parts, int n, int k)
{
	const struct job like = { .model = c->model, .micro_batches = c->m, .micro_batch_size = c->beta };
	struct walk w = { .p = p, .s = s, .c = c, .shape = experiment_shape(p->f.exp, &like), .k = k };
	int last = k - 1;

	for (int i = n - 1; i >= 0; i--) {
		walk_part(&w, parts[i].region, last - parts[i].gpus + 1, last);
		last -= parts[i].gpus;
		if (i)
			walk_hop(&w, parts[i - 1].region, parts[i].region);
	}
	return (c->m - 1) * w.slot_s + w.compute_s + w.hops_s;
}

int predict_simulate(const struct policy *p, const struct situation *s, struct oracle *o, int job,
		     const struct placement_part *parts, int n, int k, double *capacity_scratch,
		     double *step_s, struct bace_err *err)
{
	struct placement pl = { .job = job, .n_parts = n, .n_gpus = k, .parts = (struct placement_part *)parts };
	const struct placement *one = &pl;
	struct step_estimate e = { 0 };
	int regions = p->f.n, rc;
	int hops = p->f.exp->schedule == SCHED_INTERLEAVED_1F1B ? n : n - 1;
	struct moment m = { .exp = p->f.exp, .models = p->f.models, .n = 1, .placements = &one,
			    .capacity_bps = capacity_scratch };

	for (int i = 0; i < hops; i++) {
		int a = parts[i].region, b = parts[(i + 1) % n].region;
		int there = a * regions + b, back = b * regions + a;

		if (a == b)
			continue;
		if (!(s->residual[there] > 0) || !(s->residual[back] > 0)) {
			*step_s = INFINITY;
			return 0;
		}
		capacity_scratch[there] = s->residual[there] / p->f.goodput_factor;
		capacity_scratch[back] = s->residual[back] / p->f.goodput_factor;
	}
	rc = o->step_times(o, &m, &e, err);
	*step_s = e.step_s;
	return rc;
}
