/*
 * The all-reduce of gradients that ends a step of a pipeline with replicas: for
 * each stage a ring over its replicas, 2(D - 1) rounds of a part of 1/D. What a
 * round needs is that the one before has come; a stage sends its first when it
 * has ended its own operations. Summing takes no time.
 */
#include <errno.h>

#include "workloads/worker/engine_internal.h"

static int send_round(struct engine *en, struct stage *st, struct bace_err *e)
{
	struct message m = { .kind = MESSAGE_REDUCE, .step = st->step - en->spec->warmup_steps,
			     .micro_batch = st->reduce.sent++, .made = st->reduce.at };

	return en->io.send(en->io.arg, st->ring_out, &m, e);
}

static int take(struct engine *en, struct stage *st, const struct arrival *a, struct bace_err *e)
{
	struct reduce *r = &st->reduce;
	int step = st->step - en->spec->warmup_steps;

	if (a->m.step != step || a->m.micro_batch != r->received)
		return bace_fail(e, EPROTO, "ring %d step %d: wanted round %d of step %d, got round %d of step %d",
				 st->spec->stage, step, r->received, step, a->m.micro_batch, a->m.step);
	timeline_add(&en->timeline, &(struct op_record){ .stage = st->spec->stage, .step = step,
		.micro_batch = r->received, .kind = WORKER_RECV_REDUCE, .start = a->m.made, .end = a->at,
		.third = a->first });
	r->received++;
	r->at = a->at > r->at ? a->at : r->at;
	return 0;
}

static int finish(struct engine *en, struct stage *st, int64_t now, struct bace_err *e)
{
	int rc;

	st->reduce.active = false;
	en->n_reducing--;
	st->free_at = st->ended_at = st->reduce.at;
	st->record->end = now;
	rc = engine_end_step(en, st, e);
	return rc ? rc : engine_try_start(en, st, e);
}

int reduce_go_on(struct engine *en, struct stage *st, int64_t now, struct bace_err *e)
{
	struct reduce *r = &st->reduce;
	int rounds = worker_ring_rounds(en->spec), rc = 0;

	while (!rc && r->active) {
		struct inbox *in = &en->fwd[st->ring_in];

		if (r->sent > r->received) {
			if (in->head == in->tail)
				return 0;
			rc = take(en, st, &in->v[in->head++ & (in->cap - 1)], e);
		} else if (r->at > now) {
			return 0;		/* engine_advance calls when it is time */
		} else if (r->received == rounds) {
			rc = finish(en, st, now, e);
		} else {
			rc = send_round(en, st, e);
		}
	}
	return rc;
}

int reduce_begin(struct engine *en, struct stage *st, int64_t now, struct bace_err *e)
{
	st->reduce = (struct reduce){ .active = true, .at = st->free_at };
	en->n_reducing++;
	return reduce_go_on(en, st, now, e);
}

static bool is_due(const struct reduce *r)
{
	return r->active && r->sent == r->received;
}

int64_t reduce_deadline(const struct engine *en)
{
	int64_t at = INT64_MAX;

	for (int i = 0; en->n_reducing && i < en->spec->n_stages; i++)
		if (is_due(&en->stages[i].reduce) && en->stages[i].reduce.at < at)
			at = en->stages[i].reduce.at;
	return at;
}

int reduce_advance(struct engine *en, int64_t now, struct bace_err *e)
{
	int rc = 0;

	for (int i = 0; !rc && en->n_reducing && i < en->spec->n_stages; i++)
		if (is_due(&en->stages[i].reduce) && en->stages[i].reduce.at <= now)
			rc = reduce_go_on(en, &en->stages[i], now, e);
	return rc;
}
