#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "workloads/schedule/schedule.h"

static const int sizes[][2] = { { 1, 1 }, { 1, 7 }, { 2, 1 }, { 2, 2 }, { 3, 2 }, { 4, 4 }, { 4, 12 },
				{ 5, 20 }, { 7, 3 }, { 8, 64 }, { 16, 16 } };

static struct schedule_spec spec(enum schedule_kind kind, int p, int m, int v)
{
	return (struct schedule_spec){ .kind = kind, .stages = p, .micro_batches = m, .chunks = v };
}

/* "F0 F1 B0 ..." of a stage; chunks as "F0.1". */
static void text_of(const struct schedule_spec *s, int stage, char *out, size_t size)
{
	struct schedule_iter it;
	struct op op;
	size_t n = 0;

	*out = '\0';
	for (schedule_begin(&it, s, stage); schedule_next(&it, &op) && n < size;) {
		n += (size_t)snprintf(out + n, size - n, "%s%c%d", n ? " " : "", "FBW"[op.kind],
				      op.micro_batch);
		if (s->chunks > 1 && n < size)
			n += (size_t)snprintf(out + n, size - n, ".%d", op.chunk);
	}
}

static void check_order(enum schedule_kind kind, int p, int m, int v, int stage, const char *want)
{
	struct schedule_spec s = spec(kind, p, m, v);
	char got[1024];

	text_of(&s, stage, got, sizeof(got));
	assert_string_equal(got, want);
}

/* By the definitions: GPipe (arXiv 1811.06965) with backwards in the order of
 * the forwards; PipeDream-Flush 1F1B (arXiv 2104.04473): p-1-i forwards first;
 * eager: 2(p-1-i). */
static void known_orders(void **state)
{
	check_order(SCHED_GPIPE, 2, 3, 1, 0, "F0 F1 F2 B0 B1 B2");
	check_order(SCHED_1F1B, 3, 4, 1, 0, "F0 F1 F2 B0 F3 B1 B2 B3");
	check_order(SCHED_1F1B, 3, 4, 1, 1, "F0 F1 B0 F2 B1 F3 B2 B3");
	check_order(SCHED_1F1B, 3, 4, 1, 2, "F0 B0 F1 B1 F2 B2 F3 B3");
	check_order(SCHED_1F1B, 4, 2, 1, 0, "F0 F1 B0 B1");
	check_order(SCHED_EAGER_1F1B, 3, 6, 1, 0, "F0 F1 F2 F3 F4 B0 F5 B1 B2 B3 B4 B5");
	check_order(SCHED_EAGER_1F1B, 3, 6, 1, 1, "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
	check_order(SCHED_EAGER_1F1B, 3, 3, 1, 2, "F0 B0 F1 B1 F2 B2");
}

/* W(j) after B(j + s) on stage s (ZB-H1, arXiv 2401.10241). */
static void zb_h1_order(void **state)
{
	check_order(SCHED_ZB_H1, 3, 4, 1, 0, "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
	check_order(SCHED_ZB_H1, 3, 4, 1, 1, "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
	check_order(SCHED_ZB_H1, 3, 4, 1, 2, "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
}

/* Megatron-LM's order (schedules.py, get_model_chunk_id; arXiv 2104.04473,
 * section 2.2): p micro-batches of one chunk, then p of the next; warm-up
 * 2(p-1-i) + (v-1)p. */
static void interleaved_order(void **state)
{
	check_order(SCHED_INTERLEAVED_1F1B, 2, 4, 2, 0,
		    "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
	check_order(SCHED_INTERLEAVED_1F1B, 2, 4, 2, 1,
		    "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
}

/* Every operation once; B after its F, W after its B; what is held at the peak
 * is what schedule_live_activations says. */
static void check_stage(const struct schedule_spec *s, int stage)
{
	int v = s->kind == SCHED_INTERLEAVED_1F1B ? s->chunks : 1, live = 0, peak = 0;
	size_t all = (size_t)s->micro_batches * (size_t)v;
	CLEANUP_FREE uint8_t *done = calloc(all, 1);
	struct schedule_iter it;
	struct op op;
	int64_t n = 0;

	for (schedule_begin(&it, s, stage); schedule_next(&it, &op); n++) {
		assert_in_range(op.micro_batch, 0, s->micro_batches - 1);
		assert_in_range(op.chunk, 0, v - 1);
		uint8_t *d = &done[(size_t)op.chunk * (size_t)s->micro_batches + (size_t)op.micro_batch];
		/* the operations of one micro-batch and chunk come in order, F = 0, B = 1, W = 2 */
		assert_int_equal(*d, op.kind);
		++*d;
		live += op.kind == OP_FORWARD ? 1 : op.kind == OP_BACKWARD ? -1 : 0;
		peak = live > peak ? live : peak;
	}
	assert_int_equal(n, schedule_n_ops(s, stage));
	assert_int_equal(n, all * (s->kind == SCHED_ZB_H1 ? 3 : 2));
	assert_false(schedule_next(&it, &op));
	assert_int_equal(peak, schedule_live_activations(s, stage));
	assert_int_equal(live, 0);
}

static void every_operation_once(void **state)
{
	for (int kind = SCHED_GPIPE; kind <= SCHED_ZB_H1; kind++) {
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			struct schedule_spec s = spec((enum schedule_kind)kind, sizes[i][0], sizes[i][1], 1);

			if (kind == SCHED_INTERLEAVED_1F1B)
				s.chunks = 2 + (int)i % 3;
			if (schedule_check(&s, NULL))
				continue;
			for (int stage = 0; stage < s.stages; stage++)
				check_stage(&s, stage);
		}
	}
}

/* Activations held: m for gpipe, min(m, p-i) for 1f1b and zb-h1,
 * min(m, 2(p-1-i)+1) for eager-1f1b. */
static void live_activations(void **state)
{
	struct schedule_spec s = spec(SCHED_GPIPE, 4, 6, 1);

	assert_int_equal(schedule_live_activations(&s, 3), 6);
	s.kind = SCHED_1F1B;
	assert_int_equal(schedule_live_activations(&s, 0), 4);
	assert_int_equal(schedule_live_activations(&s, 3), 1);
	s.kind = SCHED_ZB_H1;
	assert_int_equal(schedule_live_activations(&s, 1), 3);
	s.kind = SCHED_EAGER_1F1B;
	assert_int_equal(schedule_live_activations(&s, 0), 6);
	assert_int_equal(schedule_live_activations(&s, 1), 5);
	assert_int_equal(schedule_live_activations(&s, 3), 1);
	s = spec(SCHED_INTERLEAVED_1F1B, 4, 8, 2);
	assert_int_equal(schedule_live_activations(&s, 0), 11);	/* 2 * 3 + 4 + 1 */
	assert_int_equal(schedule_live_activations(&s, 3), 5);
}

static void refuse(enum schedule_kind kind, int p, int m, int v, const char *part)
{
	struct schedule_spec s = spec(kind, p, m, v);
	struct bace_err e = { 0 };

	assert_int_equal(schedule_check(&s, &e), -EINVAL);
	if (!strstr(e.msg, part))
		fail_msg("`%s' does not say `%s'", e.msg, part);
}

static void bad_specs(void **state)
{
	struct schedule_spec good = spec(SCHED_INTERLEAVED_1F1B, 4, 8, 2);

	refuse(SCHED_1F1B, 0, 4, 1, "stages = 0");
	refuse(SCHED_1F1B, -3, 4, 1, "stages = -3");
	refuse(SCHED_GPIPE, 4, 0, 1, "micro-batches = 0");
	refuse(SCHED_1F1B, 4, 4, 2, "only interleaved-1f1b");
	refuse(SCHED_INTERLEAVED_1F1B, 4, 8, 1, "chunks = 1");
	refuse(SCHED_INTERLEAVED_1F1B, 4, 8, 300, "chunks = 300");
	refuse(SCHED_INTERLEAVED_1F1B, 4, 6, 2, "multiple of");
	refuse(SCHED_INTERLEAVED_1F1B, 2, 2000000000, 4, "too many");
	refuse((enum schedule_kind)17, 4, 8, 1, "schedule");
	assert_int_equal(schedule_check(&good, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_orders), cmocka_unit_test(zb_h1_order),
		cmocka_unit_test(interleaved_order), cmocka_unit_test(every_operation_once),
		cmocka_unit_test(live_activations), cmocka_unit_test(bad_specs),
	};

	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
