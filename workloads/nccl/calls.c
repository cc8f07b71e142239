#include "workloads/nccl/calls.h"

static int stage_of(const struct worker_spec *s)
{
	return s->stages[0].stage;
}

/* Index into spec->hops of an nccl hop by its number; -1: none. */
static int find_hop(const struct worker_spec *s, int number)
{
	for (int i = 0; i < s->n_hops; i++)
		if (s->hops[i].hop == number && s->hops[i].kind == HOP_NCCL)
			return i;
	return -1;
}

int calls_peer(const struct worker_spec *spec, int hop)
{
	int number = spec->hops[hop].hop;

	return number == stage_of(spec) ? (number + 1) % spec->schedule.stages : number;
}

void calls_begin(struct calls *c, const struct worker_spec *spec)
{
	int stage = stage_of(spec), stages = spec->schedule.stages;

	*c = (struct calls){ .spec = spec };
	c->hop_at[0] = (int8_t)find_hop(spec, (stage + stages - 1) % stages);
	c->hop_at[1] = (int8_t)find_hop(spec, stage);
	schedule_begin(&c->it, &spec->schedule, stage);
}

static void add(struct calls *c, bool send, int number, enum message_kind kind, const struct op *op)
{
	int hop = number < 0 ? -1 : c->hop_at[number == stage_of(c->spec)];

	if (hop < 0)
		return;
	c->next[c->n++] = (struct call){ .send = send, .hop = hop, .kind = kind,
		.step = c->step - c->spec->warmup_steps, .micro_batch = op->micro_batch,
		.chunk = send ? op->chunk : 0 };
}

/* Tokens go from each stage to the one before it, from the last to the first. */
static void end_step(struct calls *c)
{
	static const struct op none;
	int stage = stage_of(c->spec);

	if (stage < c->spec->schedule.stages - 1)
		add(c, false, stage, MESSAGE_TOKEN, &none);
	if (stage > 0)
		add(c, true, stage - 1, MESSAGE_TOKEN, &none);
	c->step++;
	schedule_begin(&c->it, &c->spec->schedule, stage);
}

bool calls_next(struct calls *c, struct call *out)
{
	const struct schedule_spec *s = &c->spec->schedule;
	int stage = stage_of(c->spec);

	while (c->i == c->n) {
		enum message_kind kind;
		struct op op;

		c->i = c->n = 0;
		if (c->step == c->spec->warmup_steps + c->spec->steps)
			return false;
		if (!schedule_next(&c->it, &op)) {
			end_step(c);
			continue;
		}
		kind = op.kind == OP_FORWARD ? MESSAGE_ACTIVATION : MESSAGE_GRADIENT;
		add(c, false, schedule_input_hop(s, stage, &op), kind, &op);
		add(c, true, schedule_output_hop(s, stage, &op), kind, &op);
	}
	*out = c->next[c->i++];
	return true;
}
