/*
 * One pipeline, simulated exactly. Every channel has one sender, and a receiver
 * consumes its messages in the order in which they were sent, so no event queue
 * is needed: each stage advances through its own schedule as far as the
 * messages that it waits for are known. Time per operation is constant; memory
 * is a ring of messages under way per channel.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "harness/sim/pipeline_internal.h"

#define RING_START 16		/* power of two */

struct ring {
	struct message *v;
	bool own;			/* v is its own, no longer a piece of the arena */
	uint32_t head, tail, cap;	/* cap: power of two */
	double link_free;
	double latency, serialisation;
};

struct stage {
	struct schedule_iter it;
	struct op next;
	bool more;
	double free, last_end, busy, held;
	double duration[3];		/* by op_kind */
	struct wait_split waited;
};

struct sim {
	const struct pipeline *p;
	struct pipeline_result *out;
	int n, chunks, n_channels;
	bool detailed;			/* somebody asked what was waited for */
	struct stage *stages;
	struct ring *rings;		/* [n_channels] */
	struct message *arena;		/* RING_START for each */
};

static int ring_grow(struct ring *r)
{
	uint32_t n = r->tail - r->head, cap = 2 * r->cap;
	struct message *v = malloc(cap * sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		v[i] = r->v[(r->head + i) & (r->cap - 1)];
	if (r->own)
		free(r->v);
	r->v = v;
	r->own = true;
	r->head = 0;
	r->tail = n;
	r->cap = cap;
	return 0;
}

static enum wait_kind largest(const struct wait_split *w)
{
	if (w->compute >= w->serialisation && w->compute >= w->latency)
		return WAIT_COMPUTE;
	return w->serialisation >= w->latency ? WAIT_SERIALISATION : WAIT_LATENCY;
}

/* m: the input that was waited for, or NULL; ready: when the stage was free. */
static void account(struct sim *s, int stage, double ready, double start, double end,
		    const struct message *m)
{
	struct stage *st = &s->stages[stage];
	struct timeline_op t = { .stage = stage, .kind = st->next.kind, .chunk = st->next.chunk,
		.micro_batch = st->next.micro_batch, .start = start, .end = end,
		.waited = span(ready, start), .held = span(end, st->free) };

	if (m && start > ready) {
		t.split = wait_for(ready, m);
		t.waited_for = (uint8_t)largest(&t.split);
		st->waited.compute += t.split.compute;
		st->waited.serialisation += t.split.serialisation;
		st->waited.latency += t.split.latency;
	}
	st->held += t.held;
	if (s->out->on_op)
		s->out->on_op(s->out->arg, &t);
}

static double send(struct ring *out, double end)
{
	double left = later(end, out->link_free) + out->serialisation;

	out->link_free = left;
	out->v[out->tail++ & (out->cap - 1)] =
		(struct message){ .made = end, .left = left, .arrives = left + out->latency };
	return left;
}

/* Runs the stage as far as it goes. Returns operations done, or -1 when its
 * output ring is full. */
static int64_t advance(struct sim *s, int stage)
{
	struct stage *st = &s->stages[stage];
	int64_t done = 0;

	while (st->more) {
		int ci = input_channel(s->n, s->chunks, stage, &st->next);
		int co = output_channel(s->n, s->chunks, stage, &st->next);
		struct ring *in = ci >= 0 ? &s->rings[ci] : NULL, *out = co >= 0 ? &s->rings[co] : NULL;
		const struct message *m = NULL;
		double ready = st->free, start = ready, end;

		if (in && in->head == in->tail)
			break;
		if (out && out->tail - out->head == out->cap)
			return done ? done : -1;
		if (in) {
			m = &in->v[in->head++ & (in->cap - 1)];
			start = later(ready, m->arrives);
		}
		end = start + st->duration[st->next.kind];
		st->busy += st->duration[st->next.kind];
		st->free = st->last_end = end;
		if (out) {
			double left = send(out, end);

			if (s->p->no_overlap)
				st->free = left;
		}
		if (s->detailed)
			account(s, stage, ready, start, end, m);
		st->more = schedule_next(&st->it, &st->next);
		done++;
	}
	return done;
}

static int grow_full(struct sim *s)
{
	for (int i = 0; i < s->n_channels; i++) {
		struct ring *r = &s->rings[i];

		if (r->tail - r->head == r->cap && ring_grow(r))
			return -ENOMEM;
	}
	return 0;
}

static int run(struct sim *s, struct bace_err *e)
{
	for (;;) {
		int64_t done = 0;
		bool more = false, full = false;

		/* Forwards travel up and gradients down: sweep both ways. */
		for (int k = 0; k < 2 * s->n; k++) {
			int64_t n = advance(s, k < s->n ? k : 2 * s->n - 1 - k);

			full |= n < 0;
			done += n > 0 ? n : 0;
		}
		for (int k = 0; k < s->n; k++)
			more |= s->stages[k].more;
		if (!more)
			return 0;
		if (!done && full && grow_full(s))
			return bace_fail(e, ENOMEM, "pipeline of %d stages: out of memory", s->n);
		if (!done && !full)
			return bace_fail(e, EDEADLK, "the schedule deadlocks");
	}
}

static void destroy(struct sim *s)
{
	for (int i = 0; s->rings && i < s->n_channels; i++)
		if (s->rings[i].own)
			free(s->rings[i].v);
	free(s->arena);
	free(s->stages);
	free(s->rings);
}

static int setup(struct sim *s)
{
	const struct pipeline *p = s->p;

	s->stages = calloc((size_t)s->n, sizeof(*s->stages));
	s->rings = calloc((size_t)s->n_channels + 1, sizeof(*s->rings));
	s->arena = malloc(((size_t)s->n_channels * RING_START + 1) * sizeof(*s->arena));
	if (!s->stages || !s->rings || !s->arena)
		return -ENOMEM;
	for (int i = 0; i < s->n; i++) {
		struct stage *st = &s->stages[i];

		st->duration[OP_FORWARD] = p->tf[i] / s->chunks;
		st->duration[OP_BACKWARD] = p->tb[i] / s->chunks;
		st->duration[OP_WEIGHT] = p->tw ? p->tw[i] / s->chunks : 0;
		schedule_begin(&st->it, &p->schedule, i);
		st->more = schedule_next(&st->it, &st->next);
	}
	for (int i = 0; i < s->n_channels; i++) {
		struct ring *r = &s->rings[i];

		r->latency = i % 2 ? p->rev_latency[i / 2] : p->fwd_latency[i / 2];
		r->serialisation = i % 2 ? p->rev_serialisation[i / 2] : p->fwd_serialisation[i / 2];
		r->v = s->arena + (size_t)i * RING_START;
		r->cap = RING_START;
	}
	return 0;
}

static void summarise(struct sim *s)
{
	struct pipeline_result *out = s->out;
	double step = 0, busy = 0;

	for (int i = 0; i < s->n; i++) {
		step = later(step, s->stages[i].last_end);
		busy += s->stages[i].busy;
	}
	out->step_time = step;
	out->bubble = step > 0 ? 1 - busy / s->n / step : 0;
	for (int i = 0; i < s->n; i++) {
		const struct stage *st = &s->stages[i];

		if (out->busy)
			out->busy[i] = st->busy;
		if (out->waiting)
			out->waiting[i] = step - st->busy;
		if (out->stages)
			out->stages[i] = (struct stage_times){ .busy = st->busy, .waiting = st->waited,
				.held = st->held, .drained = span(st->free, step) };
	}
}

int pipeline_simulate(const struct pipeline *p, struct pipeline_result *out, struct bace_err *err)
{
	struct sim s = { .p = p, .out = out, .n = p->schedule.stages,
			 .detailed = out->on_op || out->stages };
	int rc = pipeline_check(p, err);

	if (rc)
		return rc;
	s.chunks = pipeline_chunks(p);
	s.n_channels = 2 * pipeline_hops(p);
	rc = setup(&s);
	rc = rc ? bace_fail(err, ENOMEM, "pipeline of %d stages: out of memory", s.n) : run(&s, err);
	if (!rc)
		summarise(&s);
	destroy(&s);
	return rc;
}
