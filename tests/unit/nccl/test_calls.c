/* The order of NCCL's calls: what one rank sends the other receives, in the same
 * order, and no two ranks wait for each other, even if no byte were buffered and
 * a send lasted until its receive was posted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "workloads/nccl/calls.h"

#define STAGES_MAX 9
#define GROUP_MAX 2

struct group {
	int n;
	struct call calls[GROUP_MAX];
	bool over[GROUP_MAX];
};

struct rank {
	struct worker_spec spec;
	struct worker_stage_spec stage;
	struct worker_hop_spec hops[2];
	struct group *groups;
	size_t n, cap, at;		/* at: the one that is carried out */
};

struct ring {
	int p;
	struct rank ranks[STAGES_MAX];
};

static void add_hop(struct rank *r, int hop, int stage)
{
	r->hops[r->spec.n_hops++] = (struct worker_hop_spec){ .hop = hop, .kind = HOP_NCCL,
		.role = hop == stage ? HOP_CONNECT : HOP_LISTEN, .bytes = 1000 };
}

/* As the transport does it: a send takes the receive behind it along, other
 * receives are groups of their own. */
static void make_groups(struct rank *r)
{
	struct group g = { 0 };
	struct calls it;
	struct call c;

	calls_begin(&it, &r->spec);
	while (calls_next(&it, &c)) {
		if (g.n && c.send) {
			assert_int_equal(BACE_PUSH(r->groups, r->n, r->cap, g), 0);
			g = (struct group){ 0 };
		}
		g.calls[g.n++] = c;
		if (c.send)
			continue;
		assert_int_equal(BACE_PUSH(r->groups, r->n, r->cap, g), 0);
		g = (struct group){ 0 };
	}
	if (g.n)
		assert_int_equal(BACE_PUSH(r->groups, r->n, r->cap, g), 0);
}

static void ring_make(struct ring *j, const struct schedule_spec *s, int steps)
{
	*j = (struct ring){ .p = s->stages };
	for (int i = 0; i < j->p; i++) {
		struct rank *r = &j->ranks[i];

		r->stage.stage = i;
		r->spec = (struct worker_spec){ .schedule = *s, .n_stages = 1, .stages = &r->stage, .hops = r->hops,
						.warmup_steps = 1, .steps = steps };
		if (i > 0)
			add_hop(r, i - 1, i);
		if (i < j->p - 1)
			add_hop(r, i, i);
		make_groups(r);
	}
}

static void ring_free(struct ring *j)
{
	for (int i = 0; i < j->p; i++)
		free(j->ranks[i].groups);
}

/* The first call of a rank's current group that waits for that peer, in that direction. */
static struct group *waits(struct ring *j, int rank, int peer, bool send, int *which)
{
	struct rank *r = &j->ranks[rank];
	struct group *g = r->at < r->n ? &r->groups[r->at] : NULL;

	for (int i = 0; g && i < g->n; i++) {
		if (g->over[i] || g->calls[i].send != send || calls_peer(&r->spec, g->calls[i].hop) != peer)
			continue;
		*which = i;
		return g;
	}
	return NULL;
}

static bool group_over(const struct group *g)
{
	for (int i = 0; i < g->n; i++)
		if (!g->over[i])
			return false;
	return true;
}

static void same_message(const struct ring *j, int from, const struct call *s, int to, const struct call *r)
{
	assert_int_equal(j->ranks[from].spec.hops[s->hop].hop, j->ranks[to].spec.hops[r->hop].hop);
	assert_int_equal(s->kind, r->kind);
	assert_int_equal(s->step, r->step);
	assert_int_equal(s->micro_batch, r->micro_batch);
}

/* Carries out what can be; false: nothing could. */
static bool turn(struct ring *j, size_t *moved)
{
	bool any = false;

	for (int a = 0; a < j->p; a++) {
		for (int b = 0; b < j->p; b++) {
			int i, k;
			struct group *s = a == b ? NULL : waits(j, a, b, true, &i);
			struct group *r = s ? waits(j, b, a, false, &k) : NULL;

			if (!r)
				continue;
			same_message(j, a, &s->calls[i], b, &r->calls[k]);
			s->over[i] = r->over[k] = any = true;
			++*moved;
		}
	}
	for (int a = 0; a < j->p; a++) {
		struct rank *r = &j->ranks[a];

		if (r->at < r->n && group_over(&r->groups[r->at]))
			r->at++;
	}
	return any;
}

static size_t messages(const struct schedule_spec *s, int steps)
{
	/* An activation, a gradient of each micro-batch, and a token. */
	return (size_t)steps * ((size_t)s->stages - 1) * (2 * (size_t)s->micro_batches + 1);
}

static void check(const struct schedule_spec *s, int steps)
{
	struct bace_err e;
	struct ring j;
	size_t moved = 0;

	if (schedule_check(s, &e))
		return;
	ring_make(&j, s, steps);
	while (turn(&j, &moved))
		;
	for (int i = 0; i < j.p; i++)
		if (j.ranks[i].at < j.ranks[i].n)
			fail_msg("%s p %d m %d: rank %d stands at group %zu of %zu", schedule_name(s->kind), s->stages,
				 s->micro_batches, i, j.ranks[i].at, j.ranks[i].n);
	/* 1 warm-up step. */
	assert_int_equal(moved, messages(s, steps + 1));
	ring_free(&j);
}

static void no_rank_waits_for_ever(void **state)
{
	static const int micro_batches[] = { 1, 2, 3, 4, 6, 8, 16, 24 };

	for (int kind = SCHED_GPIPE; kind <= SCHED_ZB_H1; kind++) {
		/* Its ranks would: spec_nccl.c refuses it. */
		if (kind == SCHED_INTERLEAVED_1F1B)
			continue;
		for (int p = 1; p < STAGES_MAX; p++)
			for (size_t i = 0; i < ARRAY_LEN(micro_batches); i++)
				check(&(struct schedule_spec){ .kind = (enum schedule_kind)kind, .stages = p,
					.micro_batches = micro_batches[i], .chunks = 1 }, 2);
	}
}

static const struct call *call_at(const struct rank *r, size_t n)
{
	size_t k = 0;

	for (size_t i = 0; i < r->n; i++)
		for (int c = 0; c < r->groups[i].n; c++)
			if (k++ == n)
				return &r->groups[i].calls[c];
	return NULL;
}

/* Stage 1 of 3, 1f1b, 3 micro-batches, worked out by hand: F0 F1 B0 F2 B1 B2. */
static void middle_stage_by_hand(void **state)
{
	static const struct { bool send; int hop, kind, micro_batch; size_t group; } want[] = {
		{ false, 0, MESSAGE_ACTIVATION, 0, 0 },
		{ true, 1, MESSAGE_ACTIVATION, 0, 1 }, { false, 0, MESSAGE_ACTIVATION, 1, 1 },
		{ true, 1, MESSAGE_ACTIVATION, 1, 2 }, { false, 1, MESSAGE_GRADIENT, 0, 2 },
		{ true, 0, MESSAGE_GRADIENT, 0, 3 }, { false, 0, MESSAGE_ACTIVATION, 2, 3 },
		{ true, 1, MESSAGE_ACTIVATION, 2, 4 }, { false, 1, MESSAGE_GRADIENT, 1, 4 },
		{ true, 0, MESSAGE_GRADIENT, 1, 5 }, { false, 1, MESSAGE_GRADIENT, 2, 5 },
		{ true, 0, MESSAGE_GRADIENT, 2, 6 }, { false, 1, MESSAGE_TOKEN, 0, 6 },
		{ true, 0, MESSAGE_TOKEN, 0, 7 }, { false, 0, MESSAGE_ACTIVATION, 0, 7 },
	};
	struct ring j;
	const struct rank *r;

	ring_make(&j, &(struct schedule_spec){ .kind = SCHED_1F1B, .stages = 3, .micro_batches = 3, .chunks = 1 }, 1);
	r = &j.ranks[1];
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		const struct call *c = call_at(r, i);

		assert_non_null(c);
		assert_int_equal(c->send, want[i].send);
		assert_int_equal(r->hops[c->hop].hop, want[i].hop);
		assert_int_equal(c->kind, want[i].kind);
		assert_int_equal(c->micro_batch, want[i].micro_batch);
		assert_int_equal(c->step, i + 1 < ARRAY_LEN(want) ? -1 : 0);
		assert_ptr_equal(c, &r->groups[want[i].group].calls[c != &r->groups[want[i].group].calls[0]]);
	}
	ring_free(&j);
}

/* Hops of other kinds have no part in it. */
static void only_its_own_hops(void **state)
{
	struct ring j;
	struct calls it;
	struct call c;
	int n = 0;

	ring_make(&j, &(struct schedule_spec){ .kind = SCHED_1F1B, .stages = 3, .micro_batches = 4, .chunks = 1 }, 1);
	j.ranks[1].hops[1].kind = HOP_LOCAL;
	calls_begin(&it, &j.ranks[1].spec);
	while (calls_next(&it, &c)) {
		assert_int_equal(c.hop, 0);
		assert_int_equal(c.send, c.kind != MESSAGE_ACTIVATION);
		n++;
	}
	/* 4 activations, 4 gradients and a token, twice. */
	assert_int_equal(n, 18);
	ring_free(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_rank_waits_for_ever),
		cmocka_unit_test(middle_stage_by_hand),
		cmocka_unit_test(only_its_own_hops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
