#include "tests/unit/pipeline/random.h"

#include <math.h>
#include <stdlib.h>

static double draw(struct bace_rng *rng, double mean)
{
	/* A quarter are zero, so that ties and free hops occur. */
	return bace_rng_below(rng, 4) ? mean * bace_rng_uniform(rng) : 0;
}

void random_pipeline(struct bace_rng *rng, int kind, struct random_pipeline *r)
{
	int p = 1 + (int)bace_rng_below(rng, STAGES_MAX - 1), m = 1 + (int)bace_rng_below(rng, 40);
	enum schedule_kind k = (enum schedule_kind)(kind < 0 ? (int)bace_rng_below(rng, 5) : kind);
	bool interleaved = k == SCHED_INTERLEAVED_1F1B;

	for (int i = 0; i < STAGES_MAX; i++) {
		for (int v = 0; v < 3; v++)
			r->numbers[v][i] = 0.1 + bace_rng_uniform(rng);
		for (int v = 3; v < 7; v++)
			r->numbers[v][i] = draw(rng, 1.5);
	}
	r->p = (struct pipeline){
		.schedule = { .kind = k, .stages = p, .micro_batches = interleaved ? p * (1 + m % 4) : m,
			      .chunks = interleaved ? 2 + m % 3 : 1 },
		.tf = r->numbers[0], .tb = r->numbers[1], .tw = k == SCHED_ZB_H1 ? r->numbers[2] : NULL,
		.fwd_latency = r->numbers[3], .fwd_serialisation = r->numbers[4],
		.rev_latency = r->numbers[5], .rev_serialisation = r->numbers[6],
		.no_overlap = bace_rng_below(rng, 4) == 0 };
}

/* [direction][virtual stage][micro-batch] of the receiver; NAN: not yet */
struct tables {
	double *arrives[2];
	double link_free[2][STAGES_MAX];
	int virtual_stages, m;
};

static double *cell(struct tables *t, bool backward, int virtual_stage, int micro_batch)
{
	return &t->arrives[backward][virtual_stage * t->m + micro_batch];
}

/* Does the operation at once if it can be done; returns whether. */
static bool try_op(const struct pipeline *p, struct tables *t, int stage, const struct op *op, double *free_at)
{
	int n = p->schedule.stages, at = op->chunk * n + stage, chunks = t->virtual_stages / n;
	bool backward = op->kind == OP_BACKWARD, first = backward ? at == t->virtual_stages - 1 : at == 0;
	bool last = backward ? at == 0 : at == t->virtual_stages - 1;
	double start = *free_at;

	if (op->kind == OP_WEIGHT) {
		*free_at += p->tw[stage] / chunks;
		return true;
	}
	if (!first) {
		double arrives = *cell(t, backward, at, op->micro_batch);

		if (isnan(arrives))
			return false;
		start = fmax(start, arrives);
	}
	*free_at = start + (backward ? p->tb : p->tf)[stage] / chunks;
	if (last)
		return true;
	int to = backward ? at - 1 : at + 1, hop = backward ? to % n : stage;
	const double *serialisation = backward ? p->rev_serialisation : p->fwd_serialisation;
	const double *latency = backward ? p->rev_latency : p->fwd_latency;
	double left = fmax(*free_at, t->link_free[backward][hop]) + serialisation[hop];

	t->link_free[backward][hop] = left;
	*cell(t, backward, to, op->micro_batch) = left + latency[hop];
	if (p->no_overlap)
		*free_at = left;
	return true;
}

double reference_step_time(const struct pipeline *p)
{
	int n = p->schedule.stages, v = p->schedule.kind == SCHED_INTERLEAVED_1F1B ? p->schedule.chunks : 1;
	struct tables t = { .virtual_stages = n * v, .m = p->schedule.micro_batches };
	size_t cells = (size_t)t.virtual_stages * (size_t)t.m;
	struct schedule_iter it[STAGES_MAX];
	struct op next[STAGES_MAX];
	bool more[STAGES_MAX], any = true;
	double free_at[STAGES_MAX] = { 0 }, end = 0;

	for (int d = 0; d < 2; d++) {
		t.arrives[d] = malloc(cells * sizeof(double));
		for (size_t i = 0; i < cells; i++)
			t.arrives[d][i] = NAN;
	}
	for (int i = 0; i < n; i++) {
		schedule_begin(&it[i], &p->schedule, i);
		more[i] = schedule_next(&it[i], &next[i]);
	}
	while (any) {
		any = false;
		for (int i = n - 1; i >= 0; i--) {
			if (!more[i] || !try_op(p, &t, i, &next[i], &free_at[i]))
				continue;
			more[i] = schedule_next(&it[i], &next[i]);
			any = true;
		}
	}
	/* Nothing is sent after the last operation of a step ends. */
	for (int i = 0; i < n; i++)
		end = more[i] ? NAN : fmax(end, free_at[i]);
	free(t.arrives[0]);
	free(t.arrives[1]);
	return end;
}
