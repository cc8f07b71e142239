#include "workloads/worker/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct arrival {
	struct message_id id;
	int64_t made, at;
};

/* One direction of one hop, at its receiving end here. */
struct inbox {
	struct arrival *v;		/* ring */
	uint32_t head, tail, cap;	/* cap: power of two */
	int64_t link_free;		/* local hops */
};

struct stage {
	const struct worker_stage_spec *spec;
	struct schedule_iter it;
	struct op op;			/* running, or the next */
	int step;			/* of op */
	bool more, running;
	int64_t free_at, start, planned_end;
	struct step_record *record;	/* of the current step */
};

struct engine {
	const struct worker_spec *spec;
	struct engine_io io;
	struct stage *stages;
	struct inbox *fwd, *rev;	/* [spec->n_hops] */
	int *hop_at;			/* [schedule.stages]: index into spec->hops, or -1 */
	int *stage_at;			/* [schedule.stages]: index into stages, or -1 */
	int *heap;			/* running stages, earliest planned end first */
	int n_heap, n_left;		/* stages not yet finished */
	bool going;
	struct op_record *ops;
	size_t n_ops, cap_ops;
	struct step_record *steps;
	size_t n_steps, cap_steps;
};

/* ---- heap ---- */

static bool earlier(const struct engine *en, int a, int b)
{
	const struct stage *x = &en->stages[a], *y = &en->stages[b];

	return x->planned_end < y->planned_end ||
	       (x->planned_end == y->planned_end && x->spec->stage < y->spec->stage);
}

static void heap_push(struct engine *en, int stage)
{
	int i = en->n_heap++;

	for (; i > 0 && earlier(en, stage, en->heap[(i - 1) / 2]); i = (i - 1) / 2)
		en->heap[i] = en->heap[(i - 1) / 2];
	en->heap[i] = stage;
}

static int heap_pop(struct engine *en)
{
	int top = en->heap[0], last = en->heap[--en->n_heap], i = 0;

	for (;;) {
		int child = 2 * i + 1;

		if (child >= en->n_heap)
			break;
		if (child + 1 < en->n_heap && earlier(en, en->heap[child + 1], en->heap[child]))
			child++;
		if (!earlier(en, en->heap[child], last))
			break;
		en->heap[i] = en->heap[child];
		i = child;
	}
	en->heap[i] = last;
	return top;
}

/* ---- where messages come from and go to ---- */

static bool wraps(const struct engine *en)
{
	return en->spec->schedule.kind == SCHED_INTERLEAVED_1F1B;
}

/* Hop number that brings an operation its input; -1: none needed. */
static int input_hop(const struct engine *en, int stage, const struct op *op)
{
	int last = en->spec->schedule.stages - 1, chunks = en->spec->schedule.chunks;

	if (op->kind == OP_FORWARD)
		return stage > 0 ? stage - 1 : wraps(en) && op->chunk > 0 ? last : -1;
	if (op->kind != OP_BACKWARD)
		return -1;
	return stage < last ? stage : wraps(en) && op->chunk < chunks - 1 ? last : -1;
}

static int output_hop(const struct engine *en, int stage, const struct op *op)
{
	int last = en->spec->schedule.stages - 1, chunks = en->spec->schedule.chunks;

	if (op->kind == OP_FORWARD)
		return stage < last ? stage : wraps(en) && op->chunk < chunks - 1 ? last : -1;
	if (op->kind != OP_BACKWARD)
		return -1;
	return stage > 0 ? stage - 1 : wraps(en) && op->chunk > 0 ? last : -1;
}

static int inbox_push(struct inbox *b, const struct arrival *a)
{
	if (b->tail - b->head == b->cap) {
		uint32_t cap = b->cap ? 2 * b->cap : 16, n = b->tail - b->head;
		struct arrival *v = malloc(cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		for (uint32_t i = 0; i < n; i++)
			v[i] = b->v[(b->head + i) & (b->cap - 1)];
		free(b->v);
		*b = (struct inbox){ .v = v, .tail = n, .cap = cap, .link_free = b->link_free };
	}
	b->v[b->tail++ & (b->cap - 1)] = *a;
	return 0;
}

static void record_op(struct engine *en, const struct stage *st, uint8_t kind, int micro_batch,
		      int64_t start, int64_t end, int64_t planned_end)
{
	if (en->n_ops == en->cap_ops)
		return;
	en->ops[en->n_ops++] = (struct op_record){ .stage = st->spec->stage,
		.step = st->step - en->spec->warmup_steps, .micro_batch = micro_batch, .kind = kind,
		.start = start, .end = end, .planned_end = planned_end };
}

/* ---- the state machine ---- */

static int check_id(const struct engine *en, const struct stage *st, int hop, bool forward,
		    const struct message_id *id, struct bace_err *e)
{
	int step = st->step - en->spec->warmup_steps;

	if (id->step == step && id->micro_batch == st->op.micro_batch)
		return 0;
	return bace_fail(e, EPROTO, "stage %d: hop %d: wanted the %s of step %d micro-batch %d, got "
			 "step %d micro-batch %d", st->spec->stage, hop,
			 forward ? "activation" : "gradient", step, st->op.micro_batch, id->step,
			 id->micro_batch);
}

/* Starts the stage's next operation if its input is there. */
static int try_start(struct engine *en, struct stage *st, struct bace_err *e)
{
	int hop = input_hop(en, st->spec->stage, &st->op);
	bool forward = st->op.kind == OP_FORWARD;
	int64_t ready = st->free_at;

	if (st->running || !st->more)
		return 0;
	if (hop >= 0) {
		struct inbox *in = &(forward ? en->fwd : en->rev)[en->hop_at[hop]];
		struct arrival *a;
		int rc;

		if (in->head == in->tail)
			return 0;
		a = &in->v[in->head++ & (in->cap - 1)];
		rc = check_id(en, st, hop, forward, &a->id, e);
		if (rc)
			return rc;
		record_op(en, st, forward ? 3 : 4, a->id.micro_batch, a->made, a->at, a->at);
		if (a->at > ready)
			ready = a->at;
	}
	int chunks = wraps(en) ? en->spec->schedule.chunks : 1;

	st->start = ready;
	st->planned_end = ready + st->spec->duration_ns[st->op.kind] / chunks;
	st->running = true;
	heap_push(en, (int)(st - en->stages));
	return 0;
}

static int deliver(struct engine *en, int hop, bool forward, const struct message_id *id,
		   int64_t made, int64_t arrived, struct bace_err *e)
{
	const struct worker_hop_spec *h = &en->spec->hops[hop];
	struct inbox *in = &(forward ? en->fwd : en->rev)[hop];
	int to = forward ? (h->hop + 1) % en->spec->schedule.stages : h->hop;

	if (h->kind == HOP_LOCAL) {
		int64_t leave = made > in->link_free ? made : in->link_free;

		if (h->rate_bps)
			leave += (int64_t)((double)h->bytes * 8e9 / (double)h->rate_bps + 0.5);
		in->link_free = leave;
		arrived = leave + h->latency_ns;
	}
	if (en->stage_at[to] < 0)
		return bace_fail(e, EPROTO, "hop %d: a message for stage %d, which is not here", h->hop, to);
	if (inbox_push(in, &(struct arrival){ .id = *id, .made = made, .at = arrived }))
		return bace_fail(e, ENOMEM, "hop %d: out of memory", h->hop);
	return en->going ? try_start(en, &en->stages[en->stage_at[to]], e) : 0;
}

int engine_receive(struct engine *en, int hop, bool forward, const struct message_id *id,
		   int64_t made, int64_t arrived, struct bace_err *e)
{
	return deliver(en, hop, forward, id, made, arrived, e);
}

static int send_output(struct engine *en, struct stage *st, struct bace_err *e)
{
	int number = output_hop(en, st->spec->stage, &st->op), hop;
	bool forward = st->op.kind == OP_FORWARD;
	struct message_id id = { .step = st->step - en->spec->warmup_steps,
		.micro_batch = st->op.micro_batch, .chunk = st->op.chunk };

	if (number < 0)
		return 0;
	hop = en->hop_at[number];
	if (en->spec->hops[hop].role == HOP_INTERNAL)
		return deliver(en, hop, forward, &id, st->planned_end, st->planned_end, e);
	return en->io.send(en->io.arg, hop, forward, &id, st->planned_end, e);
}

static void begin_step(struct engine *en, struct stage *st)
{
	schedule_begin(&st->it, &en->spec->schedule, st->spec->stage);
	st->more = schedule_next(&st->it, &st->op);
	st->record = &en->steps[en->n_steps++];
	*st->record = (struct step_record){ .stage = st->spec->stage,
		.step = st->step - en->spec->warmup_steps, .start = -1 };
}

static void next_op(struct engine *en, struct stage *st)
{
	st->more = schedule_next(&st->it, &st->op);
	if (st->more)
		return;
	if (++st->step < en->spec->warmup_steps + en->spec->steps)
		begin_step(en, st);
	else
		en->n_left--;
}

static int complete(struct engine *en, struct stage *st, int64_t now, struct bace_err *e)
{
	int rc;

	st->running = false;
	st->free_at = st->planned_end;
	record_op(en, st, st->op.kind, st->op.micro_batch, st->start, now, st->planned_end);
	if (st->record->start < 0)
		st->record->start = st->start;
	st->record->end = now;
	st->record->compute += st->planned_end - st->start;
	rc = send_output(en, st, e);
	if (rc)
		return rc;
	next_op(en, st);
	return try_start(en, st, e);
}

int engine_advance(struct engine *en, int64_t now, struct bace_err *e)
{
	while (en->n_heap && en->stages[en->heap[0]].planned_end <= now) {
		int rc = complete(en, &en->stages[heap_pop(en)], now, e);

		if (rc)
			return rc;
	}
	return 0;
}

int64_t engine_deadline(const struct engine *en)
{
	return en->n_heap ? en->stages[en->heap[0]].planned_end : INT64_MAX;
}

bool engine_done(const struct engine *en)
{
	return en->going && !en->n_left;
}

int engine_go(struct engine *en, int64_t at, struct bace_err *e)
{
	en->going = true;
	for (int i = 0; i < en->spec->n_stages; i++) {
		int rc;

		en->stages[i].free_at = at;
		rc = try_start(en, &en->stages[i], e);
		if (rc)
			return rc;
	}
	return 0;
}

void engine_describe_wait(const struct engine *en, char *text, size_t size)
{
	for (int i = 0; i < en->spec->n_stages; i++) {
		const struct stage *st = &en->stages[i];

		if (!st->more || st->running)
			continue;
		snprintf(text, size, "stage %d waits at hop %d for the %s of step %d micro-batch %d",
			 st->spec->stage, input_hop(en, st->spec->stage, &st->op),
			 st->op.kind == OP_FORWARD ? "activation" : "gradient",
			 st->step - en->spec->warmup_steps, st->op.micro_batch);
		return;
	}
	snprintf(text, size, "nothing is waited for");
}

size_t engine_ops(const struct engine *en, const struct op_record **v)
{
	*v = en->ops;
	return en->n_ops;
}

size_t engine_steps(const struct engine *en, const struct step_record **v)
{
	*v = en->steps;
	return en->n_steps;
}

/* ---- life ---- */

static int index_hops(struct engine *en, struct bace_err *e)
{
	const struct worker_spec *s = en->spec;

	for (int i = 0; i < s->schedule.stages; i++)
		en->hop_at[i] = en->stage_at[i] = -1;
	for (int i = 0; i < s->n_hops; i++)
		en->hop_at[s->hops[i].hop] = i;
	for (int i = 0; i < s->n_stages; i++) {
		int stage = s->stages[i].stage, last = s->schedule.stages - 1;

		en->stage_at[stage] = i;
		if ((stage > 0 && en->hop_at[stage - 1] < 0) || (stage < last && en->hop_at[stage] < 0) ||
		    (wraps(en) && (!stage || stage == last) && en->hop_at[last] < 0))
			return bace_fail(e, EINVAL, "stage %d: a hop of it is not in the spec", stage);
	}
	return 0;
}

int engine_create(const struct worker_spec *spec, const struct engine_io *io, struct engine **out,
		  struct bace_err *e)
{
	struct engine *en = calloc(1, sizeof(*en));
	size_t p = (size_t)spec->schedule.stages, n = (size_t)spec->n_stages;
	size_t all = (size_t)(spec->warmup_steps + spec->steps), ops = 0;
	int rc;

	if (!en)
		return bace_fail(e, ENOMEM, "engine: out of memory");
	en->spec = spec;
	en->io = *io;
	en->n_left = spec->n_stages;
	for (int i = 0; i < spec->n_stages; i++)
		ops += (size_t)schedule_n_ops(&spec->schedule, spec->stages[i].stage);
	en->cap_ops = 2 * ops * all;	/* an operation has at most one message */
	en->cap_steps = n * all;
	en->stages = calloc(n, sizeof(*en->stages));
	en->fwd = calloc((size_t)spec->n_hops + 1, sizeof(*en->fwd));
	en->rev = calloc((size_t)spec->n_hops + 1, sizeof(*en->rev));
	en->hop_at = calloc(p, sizeof(int));
	en->stage_at = calloc(p, sizeof(int));
	en->heap = calloc(n, sizeof(int));
	en->ops = calloc(en->cap_ops, sizeof(*en->ops));
	en->steps = calloc(en->cap_steps, sizeof(*en->steps));
	if (!en->stages || !en->fwd || !en->rev || !en->hop_at || !en->stage_at || !en->heap ||
	    !en->ops || !en->steps) {
		engine_destroy(en);
		return bace_fail(e, ENOMEM, "engine of %zu operations: out of memory", en->cap_ops);
	}
	/* Touched now, so that no page is faulted in while time counts. */
	memset(en->ops, 0, en->cap_ops * sizeof(*en->ops));
	rc = index_hops(en, e);
	if (rc) {
		engine_destroy(en);
		return rc;
	}
	for (int i = 0; i < spec->n_stages; i++) {
		en->stages[i].spec = &spec->stages[i];
		begin_step(en, &en->stages[i]);
	}
	*out = en;
	return 0;
}

void engine_destroy(struct engine *en)
{
	for (int i = 0; i < en->spec->n_hops; i++) {
		if (en->fwd)
			free(en->fwd[i].v);
		if (en->rev)
			free(en->rev[i].v);
	}
	free(en->stages);
	free(en->fwd);
	free(en->rev);
	free(en->hop_at);
	free(en->stage_at);
	free(en->heap);
	free(en->ops);
	free(en->steps);
	free(en);
}
