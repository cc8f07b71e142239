/*
 * One pipeline, simulated exactly. Every link direction has one sender, and a
 * receiver consumes its messages in the order in which they were sent, so no
 * event queue is needed: each stage advances through its own schedule as far
 * as the messages that it waits for are known. Time per operation is constant;
 * memory is O(p) rings of messages that are under way.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "harness/sim/sim.h"

#define RING_START 64		/* power of two */

struct message {
	double made, left, arrives;	/* producer's end, last bit on the link, at the receiver */
};

struct ring {
	struct message *v;
	uint32_t head, tail, cap;	/* cap: power of two */
	double link_free;
	double latency, serialisation;
};

struct stage {
	struct schedule_iter it;
	struct op next;
	bool more;
	double free, busy, last_end;
	double duration[3];		/* by op_kind */
};

struct sim {
	const struct pipeline *p;
	struct pipeline_result *out;
	int n;				/* stages */
	int n_hops;			/* stages - 1, or stages when the last wraps round */
	bool wraps;
	struct stage *stages;
	struct ring *fwd, *rev;		/* [n_hops]; hop i joins stage i and (i + 1) % n */
};

static int ring_grow(struct ring *r)
{
	uint32_t n = r->tail - r->head, cap = r->cap ? 2 * r->cap : RING_START;
	struct message *v = malloc(cap * sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		v[i] = r->v[(r->head + i) & (r->cap - 1)];
	free(r->v);
	*r = (struct ring){ .v = v, .tail = n, .cap = cap, .link_free = r->link_free,
			    .latency = r->latency, .serialisation = r->serialisation };
	return 0;
}

/* The ring that brings an operation its input; NULL when it needs none. */
static struct ring *input_of(const struct sim *s, int stage, const struct op *op)
{
	int chunks = s->wraps ? s->p->schedule.chunks : 1;

	if (op->kind == OP_FORWARD) {
		if (stage > 0)
			return &s->fwd[stage - 1];
		return op->chunk > 0 ? &s->fwd[s->n - 1] : NULL;
	}
	if (op->kind != OP_BACKWARD)
		return NULL;
	if (stage < s->n - 1)
		return &s->rev[stage];
	return op->chunk < chunks - 1 ? &s->rev[s->n - 1] : NULL;
}

/* The ring that an operation's output goes into; NULL when it has none. */
static struct ring *output_of(const struct sim *s, int stage, const struct op *op)
{
	int chunks = s->wraps ? s->p->schedule.chunks : 1;

	if (op->kind == OP_FORWARD) {
		if (stage < s->n - 1)
			return &s->fwd[stage];
		return op->chunk < chunks - 1 ? &s->fwd[s->n - 1] : NULL;
	}
	if (op->kind != OP_BACKWARD)
		return NULL;
	if (stage > 0)
		return &s->rev[stage - 1];
	return op->chunk > 0 ? &s->rev[s->n - 1] : NULL;
}

/* What most of the wait from `from` to the message's arrival was for. */
static enum wait_kind reason(double from, const struct message *m)
{
	double compute = fmax(0, m->made - from);
	double serial = fmax(0, m->left - fmax(from, m->made));
	double latency = fmax(0, m->arrives - fmax(from, m->left));

	if (compute >= serial && compute >= latency)
		return WAIT_COMPUTE;
	return serial >= latency ? WAIT_SERIALISATION : WAIT_LATENCY;
}

static void report(struct sim *s, int stage, double start, double end, const struct message *in)
{
	const struct stage *st = &s->stages[stage];
	struct timeline_op t = { .stage = stage, .kind = st->next.kind, .chunk = st->next.chunk,
		.micro_batch = st->next.micro_batch, .start = start, .end = end,
		.waited = start - st->free };

	if (t.waited > 0 && in)
		t.waited_for = reason(st->free, in);
	s->out->on_op(s->out->arg, &t);
}

static void send(struct sim *s, struct stage *st, struct ring *out, double end)
{
	double leave = fmax(end, out->link_free) + out->serialisation;

	out->link_free = leave;
	out->v[out->tail++ & (out->cap - 1)] =
		(struct message){ .made = end, .left = leave, .arrives = leave + out->latency };
	if (s->p->no_overlap)
		st->free = leave;
}

/* Runs the stage as far as it goes. Returns operations done, or -1 when an
 * output ring is full. */
static int64_t advance(struct sim *s, int stage)
{
	struct stage *st = &s->stages[stage];
	int64_t done = 0;

	while (st->more) {
		struct ring *in = input_of(s, stage, &st->next), *out = output_of(s, stage, &st->next);
		const struct message *m = NULL;
		double start = st->free;

		if (in && in->head == in->tail)
			break;
		if (out && out->tail - out->head == out->cap)
			return done ? done : -1;
		if (in) {
			m = &in->v[in->head & (in->cap - 1)];
			start = fmax(start, m->arrives);
		}
		double duration = st->duration[st->next.kind], end = start + duration;

		if (s->out->on_op)
			report(s, stage, start, end, m);
		if (in)
			in->head++;
		st->busy += duration;
		st->free = st->last_end = end;
		if (out)
			send(s, st, out, end);
		st->more = schedule_next(&st->it, &st->next);
		done++;
	}
	return done;
}

static int grow_full(struct sim *s)
{
	for (int i = 0; i < s->n_hops; i++) {
		struct ring *pair[2] = { &s->fwd[i], &s->rev[i] };

		for (int k = 0; k < 2; k++)
			if (pair[k]->tail - pair[k]->head == pair[k]->cap && ring_grow(pair[k]))
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
		for (int pass = 0; pass < 2; pass++) {
			for (int k = 0; k < s->n; k++) {
				int64_t n = advance(s, pass ? s->n - 1 - k : k);

				full |= n < 0;
				done += n > 0 ? n : 0;
			}
		}
		for (int k = 0; k < s->n; k++)
			more |= s->stages[k].more;
		if (!more)
			return 0;
		if (!done && full && grow_full(s))
			return bace_fail(e, ENOMEM, "pipeline of %d stages: out of memory", s->n);
		if (!done && !full)
			return bace_fail(e, EINVAL, "the schedule deadlocks");
	}
}

static void destroy(struct sim *s)
{
	for (int i = 0; i < s->n_hops; i++) {
		if (s->fwd)
			free(s->fwd[i].v);
		if (s->rev)
			free(s->rev[i].v);
	}
	free(s->stages);
	free(s->fwd);
	free(s->rev);
}

static int check_activations(const struct pipeline *p, struct bace_err *e)
{
	for (int i = 0; p->max_activations && i < p->schedule.stages; i++) {
		int live = schedule_live_activations(&p->schedule, i);

		if (live > p->max_activations)
			return bace_fail(e, E2BIG, "stage %d holds %d activations under %s, the limit is %d",
					 i, live, schedule_name(p->schedule.kind), p->max_activations);
	}
	return 0;
}

static int setup(struct sim *s, struct bace_err *e)
{
	const struct pipeline *p = s->p;
	double chunks = s->wraps ? p->schedule.chunks : 1;

	s->stages = calloc((size_t)s->n, sizeof(*s->stages));
	s->fwd = calloc((size_t)s->n_hops + 1, sizeof(*s->fwd));
	s->rev = calloc((size_t)s->n_hops + 1, sizeof(*s->rev));
	if (!s->stages || !s->fwd || !s->rev)
		goto nomem;
	for (int i = 0; i < s->n; i++) {
		struct stage *st = &s->stages[i];

		st->duration[OP_FORWARD] = p->tf[i] / chunks;
		st->duration[OP_BACKWARD] = p->tb[i] / chunks;
		st->duration[OP_WEIGHT] = p->tw ? p->tw[i] / chunks : 0;
		schedule_begin(&st->it, &p->schedule, i);
		st->more = schedule_next(&st->it, &st->next);
	}
	for (int i = 0; i < s->n_hops; i++) {
		s->fwd[i].latency = p->fwd_latency[i];
		s->fwd[i].serialisation = p->fwd_serialisation[i];
		s->rev[i].latency = p->rev_latency[i];
		s->rev[i].serialisation = p->rev_serialisation[i];
		if (ring_grow(&s->fwd[i]) || ring_grow(&s->rev[i]))
			goto nomem;
	}
	return 0;
nomem:
	return bace_fail(e, ENOMEM, "pipeline of %d stages: out of memory", s->n);
}

static void summarise(struct sim *s)
{
	double step = 0, busy = 0;

	for (int i = 0; i < s->n; i++) {
		step = fmax(step, s->stages[i].last_end);
		busy += s->stages[i].busy;
	}
	s->out->step_time = step;
	s->out->bubble = step > 0 ? 1 - busy / s->n / step : 0;
	for (int i = 0; i < s->n; i++) {
		if (s->out->busy)
			s->out->busy[i] = s->stages[i].busy;
		if (s->out->waiting)
			s->out->waiting[i] = step - s->stages[i].busy;
	}
}

int pipeline_simulate(const struct pipeline *p, struct pipeline_result *out, struct bace_err *err)
{
	struct sim s = { .p = p, .out = out, .n = p->schedule.stages };
	int rc = schedule_check(&p->schedule, err);

	if (!rc)
		rc = check_activations(p, err);
	if (rc)
		return rc;
	s.wraps = p->schedule.kind == SCHED_INTERLEAVED_1F1B;
	s.n_hops = s.wraps ? s.n : s.n - 1;
	rc = setup(&s, err);
	if (!rc)
		rc = run(&s, err);
	if (!rc)
		summarise(&s);
	destroy(&s);
	return rc;
}
