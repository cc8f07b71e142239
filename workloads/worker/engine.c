#include "workloads/worker/engine_internal.h"

#include <errno.h>
#include <stdlib.h>

#define MADE_AHEAD_MAX_NS (1000ll * 3600 * 1000000000)

/* ---- where messages come from and go to ---- */

int engine_input_hop(const struct engine *en, int stage, const struct op *op)
{
	return schedule_input_hop(&en->spec->schedule, stage, op);
}

/* The chunk of the stage that a message comes from. */
static int sender_chunk(const struct engine *en, int hop, const struct op *op)
{
	if (!wraps(en) || hop != last_stage(en))
		return op->chunk;
	return op->kind == OP_FORWARD ? op->chunk - 1 : op->chunk + 1;
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

/* When a message that was made at `made` has left a local link. */
static int64_t leave_link(const struct worker_hop_spec *h, int64_t made, int64_t *link_free)
{
	int64_t leave = made > *link_free ? made : *link_free;

	if (h->rate_bps)
		leave += (int64_t)((double)h->bytes * 8e9 / (double)h->rate_bps + 0.5);
	*link_free = leave;
	return leave;
}

/* ---- starting operations ---- */

static int check_wanted(struct engine *en, struct stage *st, int hop,
			const struct message *m, struct bace_err *e)
{
	enum message_kind kind = st->op.kind == OP_FORWARD ? MESSAGE_ACTIVATION : MESSAGE_GRADIENT;
	int chunk = sender_chunk(en, hop, &st->op), step;

	/* Stage 0 says by its first message that the warm-up is over. */
	if (en->spec->steady_ppm && m->step == 0 && st->step < en->spec->warmup_steps && st->it.i == 1 &&
	    st->passed == st->ended)
		engine_skip_warmup(en, st);
	step = st->step - en->spec->warmup_steps;
	if (m->step == step && m->micro_batch == st->op.micro_batch && m->chunk == chunk)
		return 0;
	return bace_fail(e, EPROTO, "hop %d step %d: stage %d wanted the %s of step %d micro-batch %d chunk "
			 "%d, got step %d micro-batch %d chunk %d", hop, step, st->spec->stage,
			 message_name(kind), step, st->op.micro_batch, chunk, m->step, m->micro_batch, m->chunk);
}

static void record_arrival(struct engine *en, const struct stage *st, const struct arrival *a)
{
	uint8_t kind = st->op.kind == OP_FORWARD ? WORKER_RECV_ACTIVATION : WORKER_RECV_GRADIENT;

	timeline_add(&en->timeline, &(struct op_record){ .stage = st->spec->stage, .step = a->m.step,
		.micro_batch = a->m.micro_batch, .kind = kind, .chunk = st->op.chunk, .start = a->m.made,
		.end = a->at, .third = a->first });
}

int engine_try_start(struct engine *en, struct stage *st, struct bace_err *e)
{
	int hop, chunks = wraps(en) ? en->spec->schedule.chunks : 1, rc;
	bool forward = st->op.kind == OP_FORWARD;
	int64_t ready = st->free_at, duration;

	if (!en->going || st->running || !st->more)
		return 0;
	hop = engine_input_hop(en, st->spec->stage, &st->op);
	if (hop >= 0) {
		struct inbox *in = &(forward ? en->fwd : en->rev)[en->hop_at[hop]];
		struct arrival *a;

		if (in->head == in->tail)
			return 0;
		a = &in->v[in->head++ & (in->cap - 1)];
		rc = check_wanted(en, st, hop, &a->m, e);
		if (rc)
			return rc;
		record_arrival(en, st, a);
		if (a->at > ready)
			ready = a->at;
	}
	st->running = true;
	duration = st->spec->duration_ns[st->op.kind] / chunks;
	duration += duration * en->stretch_ppm / 1000000;
	return en->compute->ops->start(en->compute, &(struct work){ .slot = st->slot, .kind = st->op.kind,
		.start = ready, .duration = duration }, e);
}

void engine_stretch(struct engine *en, int ppm)
{
	en->stretch_ppm = ppm;
}

/* ---- steps ---- */

void engine_skip_warmup(struct engine *en, struct stage *st)
{
	int n = en->spec->warmup_steps - st->step;

	/* All that counts steps: nothing of the one before is under way any more. */
	st->step += n;
	st->ended += n;
	st->passed += n;
	st->tokens += st->spec->stage < last_stage(en) ? n : 0;
	st->record->step = 0;
	en->skipped = n;
}

static void consider_steady(struct engine *en, struct stage *st)
{
	const struct worker_spec *s = en->spec;

	steady_begin_step(&en->steady, st->free_at);
	if (s->steady_ppm && st->step < s->warmup_steps && steady_reached(&en->steady, s->steady_steps, s->steady_ppm))
		engine_skip_warmup(en, st);
}

int engine_skipped(const struct engine *en)
{
	return en->skipped;
}

void engine_begin_step(struct engine *en, struct stage *st)
{
	schedule_begin(&st->it, &en->spec->schedule, st->spec->stage);
	st->more = schedule_next(&st->it, &st->op);
	st->record = &en->timeline.steps[en->timeline.n_steps++];
	*st->record = (struct step_record){ .stage = st->spec->stage,
		.step = st->step - en->spec->warmup_steps, .start = -1 };
}

static int deliver(struct engine *en, int hop, const struct message *m, int64_t first, int64_t arrived,
		   struct bace_err *e);

/* Passes the token of the step on, if the stage has it and has ended the step. */
static int pass_token(struct engine *en, struct stage *st, struct bace_err *e)
{
	int stage = st->spec->stage;
	struct message m = { .kind = MESSAGE_TOKEN, .step = st->passed - en->spec->warmup_steps,
			     .made = st->ended_at };

	if (st->passed == st->ended || (stage < last_stage(en) && st->tokens == st->passed))
		return 0;
	if (stage < last_stage(en) && st->token_at > m.made)
		m.made = st->token_at;
	if (++st->passed == total_steps(en))
		en->n_left--;
	if (stage == 0) {
		if (m.made > st->free_at)
			st->free_at = m.made;
		if (st->passed == total_steps(en))
			return 0;
		engine_begin_step(en, st);
		consider_steady(en, st);
		return engine_try_start(en, st, e);
	}
	int hop = en->hop_at[stage - 1];

	if (en->spec->hops[hop].role == HOP_INTERNAL)
		return deliver(en, hop, &m, m.made, m.made, e);
	return en->io.send(en->io.arg, hop, &m, e);
}

static int take_token(struct engine *en, struct stage *st, const struct message *m, int64_t at, int hop,
		      struct bace_err *e)
{
	int wanted = st->tokens - en->spec->warmup_steps;

	/* No stage is more than one step ahead of the stage before it. */
	if (m->step != wanted || st->tokens != st->passed)
		return bace_fail(e, EPROTO, "hop %d step %d: the end of step %d came, wanted that of step %d",
				 en->spec->hops[hop].hop, st->step - en->spec->warmup_steps, m->step, wanted);
	st->tokens++;
	st->token_at = at;
	return pass_token(en, st, e);
}

int engine_end_step(struct engine *en, struct stage *st, struct bace_err *e)
{
	int step = st->step - en->spec->warmup_steps;

	st->ended++;
	st->step++;
	if (en->io.step_ended)
		en->io.step_ended(en->io.arg, st->slot, step);
	/* Stage 0 begins the next one when it has the token. */
	if (st->spec->stage > 0 && st->step < total_steps(en))
		engine_begin_step(en, st);
	return pass_token(en, st, e);
}

/* ---- messages ---- */

static int deliver(struct engine *en, int hop, const struct message *m, int64_t first, int64_t arrived,
		   struct bace_err *e)
{
	const struct worker_hop_spec *h = &en->spec->hops[hop];
	bool forward = message_is_forward(m->kind);
	struct inbox *in = &(forward ? en->fwd : en->rev)[hop];
	struct stage *st = &en->stages[en->stage_at[forward ? worker_hop_to(en->spec, h->hop) :
						    worker_hop_from(en->spec, h->hop)]];
	int64_t now = arrived;

	if (h->kind == HOP_LOCAL && m->kind == MESSAGE_TOKEN)
		arrived = (m->made > in->link_free ? m->made : in->link_free) + h->latency_ns;
	else if (h->kind == HOP_LOCAL)
		arrived = leave_link(h, m->made, &in->link_free) + h->latency_ns;
	if (m->kind == MESSAGE_TOKEN)
		return take_token(en, st, m, arrived, hop, e);
	if (h->kind == HOP_LOCAL)
		first = arrived;
	if (inbox_push(in, &(struct arrival){ .m = *m, .first = first, .at = arrived }))
		return bace_fail(e, ENOMEM, "hop %d: out of memory", h->hop);
	if (m->kind == MESSAGE_REDUCE)
		return reduce_go_on(en, st, now, e);
	return engine_try_start(en, st, e);
}

int engine_receive(struct engine *en, int hop, const struct message *m, int64_t first, int64_t arrived,
		   struct bace_err *e)
{
	const struct worker_hop_spec *h = &en->spec->hops[hop];
	bool forward = message_is_forward(m->kind);
	int to = forward ? worker_hop_to(en->spec, h->hop) : worker_hop_from(en->spec, h->hop);
	struct message now = *m;

	if (en->stage_at[to] < 0)
		return bace_fail(e, EPROTO, "hop %d step %d: a message for stage %d, which is not here", h->hop,
				 m->step, to);
	/* Another machine's clock says nothing here. On one clock a token, or what a
	 * stage held back, may lie ahead by what links take. */
	if (!en->spec->shared_clock)
		now.made = first;
	else if (m->made < 0 || m->made - arrived > MADE_AHEAD_MAX_NS)
		return bace_fail(e, EPROTO, "hop %d step %d: a message that was made at an impossible time", h->hop, m->step);
	return deliver(en, hop, &now, first, arrived, e);
}

/* Without overlap: the stage goes on when its message has left, by the rate of
 * the link that it takes. */
static void hold(struct engine *en, struct stage *st, int hop, bool forward, int64_t end)
{
	const struct worker_hop_spec *h = &en->spec->hops[hop];
	uint64_t rate = forward || h->kind == HOP_LOCAL ? h->rate_bps : h->reverse_rate_bps;
	int64_t *free_at = &en->out_free[2 * hop + !forward];
	int64_t left = end > *free_at ? end : *free_at;

	if (rate)
		left += (int64_t)((double)h->bytes * 8e9 / (double)rate + 0.5);
	*free_at = st->free_at = st->ended_at = left;
	if (left > st->record->end)
		st->record->end = left;
}

static int send_output(struct engine *en, struct stage *st, const struct op *op, int64_t end,
		       struct bace_err *e)
{
	int number = schedule_output_hop(&en->spec->schedule, st->spec->stage, op), hop;
	struct message m = { .kind = op->kind == OP_FORWARD ? MESSAGE_ACTIVATION : MESSAGE_GRADIENT,
		.step = st->step - en->spec->warmup_steps, .micro_batch = op->micro_batch,
		.chunk = op->chunk, .made = end };

	if (number < 0)
		return 0;
	hop = en->hop_at[number];
	if (!en->spec->overlap)
		hold(en, st, hop, op->kind == OP_FORWARD, end);
	if (en->spec->hops[hop].role == HOP_INTERNAL)
		return deliver(en, hop, &m, end, end, e);
	return en->io.send(en->io.arg, hop, &m, e);
}

void engine_sent(struct engine *en, int hop, const struct message *m, int64_t now)
{
	static const uint8_t kinds[MESSAGE_KINDS] = { [MESSAGE_ACTIVATION] = WORKER_SEND_ACTIVATION,
		[MESSAGE_GRADIENT] = WORKER_SEND_GRADIENT, [MESSAGE_REDUCE] = WORKER_SEND_REDUCE };
	int number = en->spec->hops[hop].hop;
	bool forward = message_is_forward(m->kind);

	if (!en->timeline.sends || !kinds[m->kind])
		return;
	timeline_add(&en->timeline, &(struct op_record){
		.stage = forward ? worker_hop_from(en->spec, number) : worker_hop_to(en->spec, number), .step = m->step,
		.micro_batch = m->micro_batch, .chunk = m->chunk, .kind = kinds[m->kind], .start = m->made,
		.end = now, .third = now });
}

/* ---- the loop's calls ---- */

static int complete(struct engine *en, const struct finished *f, int64_t now, struct bace_err *e)
{
	struct stage *st = &en->stages[f->slot];
	int64_t seen = en->compute->timed ? now : f->end;
	struct op was = st->op;
	int rc;

	st->running = false;
	st->free_at = f->end;
	timeline_add(&en->timeline, &(struct op_record){ .stage = st->spec->stage,
		.step = st->step - en->spec->warmup_steps, .micro_batch = st->op.micro_batch,
		.kind = st->op.kind, .chunk = st->op.chunk, .start = f->start, .end = seen, .third = f->end });
	if (st->record->start < 0)
		st->record->start = f->start;
	st->record->end = seen;
	st->record->compute += f->end - f->start;
	st->ended_at = f->end;
	/* First what is next: the output may come back to this very stage. */
	st->more = schedule_next(&st->it, &st->op);
	rc = send_output(en, st, &was, f->end, e);
	if (rc)
		return rc;
	if (!st->more)
		rc = en->spec->replicas > 1 ? reduce_begin(en, st, now, e) : engine_end_step(en, st, e);
	return rc ? rc : engine_try_start(en, st, e);
}

int engine_advance(struct engine *en, int64_t now, struct bace_err *e)
{
	struct finished f;
	int rc;

	while ((rc = en->compute->ops->collect(en->compute, now, &f, e)) > 0) {
		rc = complete(en, &f, now, e);
		if (rc)
			return rc;
	}
	return rc ? rc : reduce_advance(en, now, e);
}

int64_t engine_deadline(const struct engine *en)
{
	int64_t compute = en->compute->ops->deadline(en->compute), ring = reduce_deadline(en);

	return compute < ring ? compute : ring;
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
		if (en->stages[i].spec->stage == 0)
			steady_begin_step(&en->steady, at);
		rc = engine_try_start(en, &en->stages[i], e);
		if (rc)
			return rc;
	}
	return 0;
}
