#include "workloads/worker/engine_internal.h"

#include <errno.h>
#include <stdlib.h>

/* ---- what is being waited for ---- */

static bool over_network(const struct engine *en, int number)
{
	return number >= 0 && en->spec->hops[en->hop_at[number]].role != HOP_INTERNAL;
}

/* The hop that a stage waits at; -1: none. */
static int waits_at(const struct engine *en, const struct stage *st)
{
	int stage = st->spec->stage;

	if (st->running)
		return -1;
	if (st->more)
		return engine_input_hop(en, stage, &st->op);
	return st->passed < st->ended && stage < last_stage(en) ? stage : -1;
}

static int waits_in_ring(const struct engine *en, const struct stage *st, double seconds, struct bace_err *e)
{
	return bace_fail(e, ETIMEDOUT, "ring %d step %d: round %d of %d did not come from replica %d within %.1f s",
			 st->spec->stage, st->step - en->spec->warmup_steps, st->reduce.received + 1,
			 worker_ring_rounds(en->spec), (en->spec->replica + en->spec->replicas - 1) % en->spec->replicas,
			 seconds);
}

int engine_waited(const struct engine *en, int64_t waited_ns, struct bace_err *e)
{
	const struct stage *st = NULL;
	int hop = -1;

	/* One that waits for another worker explains those that wait for it. */
	for (int i = 0; i < en->spec->n_stages; i++) {
		int at = waits_at(en, &en->stages[i]);

		if (at < 0 || (st && (over_network(en, hop) || !over_network(en, at))))
			continue;
		st = &en->stages[i];
		hop = at;
	}
	double seconds = (double)waited_ns / 1e9;

	for (int i = 0; !st && en->n_reducing && i < en->spec->n_stages; i++)
		if (en->stages[i].reduce.active)
			return waits_in_ring(en, &en->stages[i], seconds, e);
	if (!st)
		return bace_fail(e, ETIMEDOUT, "step %d is not done after %.1f s",
				 en->stages[0].step - en->spec->warmup_steps, seconds);
	int step = st->step - en->spec->warmup_steps;

	if (!st->more)
		return bace_fail(e, ETIMEDOUT, "hop %d step %d: stage %d did not end the step within %.1f s",
				 hop, step - 1, st->spec->stage + 1, seconds);
	return bace_fail(e, ETIMEDOUT, "hop %d step %d: no %s of micro-batch %d for stage %d within %.1f s", hop,
			 step, message_name(st->op.kind == OP_FORWARD ? MESSAGE_ACTIVATION : MESSAGE_GRADIENT),
			 st->op.micro_batch, st->spec->stage, seconds);
}

/* ---- life ---- */

static void index_stages(struct engine *en)
{
	const struct worker_spec *s = en->spec;

	for (int i = 0; i < s->schedule.stages; i++)
		en->hop_at[i] = en->stage_at[i] = -1;
	for (int i = 0; i < s->n_hops; i++)
		if (!worker_is_ring(s, s->hops[i].hop))
			en->hop_at[s->hops[i].hop] = i;
	for (int i = 0; i < s->n_stages; i++) {
		en->stage_at[s->stages[i].stage] = i;
		en->stages[i].spec = &s->stages[i];
		en->stages[i].slot = i;
		en->stages[i].ring_in = en->stages[i].ring_out = -1;
	}
	for (int i = 0; i < s->n_hops; i++) {
		struct stage *st;

		if (!worker_is_ring(s, s->hops[i].hop))
			continue;
		st = &en->stages[en->stage_at[worker_hop_from(s, s->hops[i].hop)]];
		*(s->hops[i].role == HOP_CONNECT ? &st->ring_out : &st->ring_in) = i;
	}
}

static int allocate(struct engine *en, struct bace_err *e)
{
	size_t p = (size_t)en->spec->schedule.stages, n = (size_t)en->spec->n_stages;
	size_t hops = (size_t)en->spec->n_hops + 1;

	en->stages = calloc(n, sizeof(*en->stages));
	en->fwd = calloc(hops, sizeof(*en->fwd));
	en->rev = calloc(hops, sizeof(*en->rev));
	en->out_free = calloc(2 * hops, sizeof(*en->out_free));
	en->hop_at = calloc(p, sizeof(int));
	en->stage_at = calloc(p, sizeof(int));
	if (!en->stages || !en->fwd || !en->rev || !en->out_free || !en->hop_at || !en->stage_at)
		return bace_fail(e, ENOMEM, "engine of %zu stages: out of memory", n);
	return timeline_init(&en->timeline, en->spec, e);
}

int engine_create(const struct worker_spec *spec, const struct engine_io *io, struct compute *compute,
		  struct engine **out, struct bace_err *e)
{
	struct engine *en = calloc(1, sizeof(*en));
	int rc;

	if (!en)
		return bace_fail(e, ENOMEM, "engine: out of memory");
	en->spec = spec;
	en->io = *io;
	en->compute = compute;
	en->n_left = spec->n_stages;
	rc = allocate(en, e);
	if (rc) {
		engine_destroy(en);
		return rc;
	}
	index_stages(en);
	for (int i = 0; i < spec->n_stages; i++)
		engine_begin_step(en, &en->stages[i]);
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
	free(en->out_free);
	free(en->hop_at);
	free(en->stage_at);
	timeline_free(&en->timeline);
	free(en);
}

int engine_step_at(const struct engine *en, int hop)
{
	int number = en->spec->hops[hop].hop;
	int slot = en->stage_at[worker_hop_from(en->spec, number)];

	if (slot < 0)
		slot = en->stage_at[worker_hop_to(en->spec, number)];
	return en->stages[slot].step - en->spec->warmup_steps;
}

const struct timeline *engine_timeline(const struct engine *en)
{
	return &en->timeline;
}
