/* The gap of a pipeline worked out by hand: two stages, one micro-batch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fixture.h"
#include "results/compare.h"

#define SCALE 0.5

static void near(double got, double want)
{
	if (!(fabs(got - want) < 1e-9))
		fail_msg("%.12g is not %.12g", got, want);
}

static void op(struct store *s, int64_t id, int stage, const char *kind, double start, double end, double planned)
{
	struct bace_err e;

	assert_int_equal(store_add_op(s, &(struct op_row){ .placement_id = id, .stage = stage, .kind = kind,
		.start_s = start, .end_s = end, .planned_end_s = planned }, &e), 0);
}

/*
 * Messages: 1 s each by plan (0.75 s of bytes, 0.25 s of latency). F0 runs 0..1,
 * ends 0.02 late. Its message arrives at 2.12: 0.12 after the plan, 0.02 of it the
 * host's. F1 2.12..3.12, B1 3.12..4.12 on time. The gradient arrives at 5.12, as
 * planned. B0 starts 0.05 after that, 5.17..6.17, ends 0.03 late.
 * Step 6.20: computation 4, late 0.05, messages 2 + 0.10 slower, waiting 0.05.
 */
static int64_t build(struct store *s)
{
	struct bace_err e;
	char run[32];
	int64_t id;

	assert_int_equal(store_run_begin(s, &(struct run_info){ .experiment = "x", .scale_time = SCALE }, run, &e), 0);
	for (int back = 0; back < 2; back++)
		assert_int_equal(store_add_link_truth(s, run, &(struct link_truth_row){ .src = back ? "b" : "a",
			.dst = back ? "a" : "b", .scaled_rate_bps = 8e6 * 1514 / 1448, .scaled_latency_s = 0.25 }, &e), 0);
	assert_int_equal(store_add_placement(s, run, &(struct placement_row){ .policy = "p", .job = "j",
		.placement = "a:1 > b:1", .stages = 2, .micro_batches = 1, .moment = "m", .closed_form_s = 10,
		.event_sim_s = 6 / SCALE, .valid = true, .n_steps = 1, .measured_median_s = 6.2 / SCALE }, &id, &e), 0);
	assert_int_equal(store_add_step(s, &(struct step_row){ .placement_id = id, .step = 0,
		.step_s = 6.24 / SCALE }, &e), 0);
	/* Two messages of 0.75e6 bytes in each direction: one warms the hop. */
	for (int f = 0; f < 2; f++)
		assert_int_equal(store_add_transfer(s, &(struct transfer_row){ .placement_id = id, .hop = 0,
			.src = f ? "a" : "b", .dst = f ? "b" : "a", .forward = f, .payload_bytes = 1.5e6, .valid = true },
			&e), 0);
	/* The first message was held up by the receiver's window for 0.06 s. What is
	 * sent at a stage's end, as the gradient is, is counted with its next step. */
	for (int f = 0; f < 2; f++)
		assert_int_equal(store_add_transfer_step(s, &(struct transfer_step_row){ .placement_id = id, .forward = f,
			.rwnd_limited_s = f ? 0.06 : 0, .busy_s = 1.5, .cwnd_bytes = 4e6, .min_rtt_s = 0.5 }, &e), 0);
	op(s, id, 0, "F", 0, 1.02, 1);
	op(s, id, 1, "recvF", 1, 2.12, 2.12);
	op(s, id, 1, "F", 2.12, 3.12, 3.12);
	op(s, id, 1, "B", 3.12, 4.12, 4.12);
	op(s, id, 0, "recvB", 4.12, 5.12, 5.12);
	op(s, id, 0, "B", 5.17, 6.20, 6.17);
	return id;
}

static void by_hand(void **state)
{
	CLEANUP_FREE char *path = fixture_path("gap.db");
	struct timeline t;
	struct path_time p;
	struct gap g;
	struct store *s;
	struct bace_err e;
	int64_t id;

	assert_int_equal(store_open(path, &s, &e), 0);
	id = build(s);
	assert_int_equal(timeline_load(s, id, false, 0, 10, &t, &e), 0);
	assert_int_equal(t.n, 6);
	assert_int_equal(timeline_replay(s, id, &t, &e), 0);
	assert_true(timeline_path(&t, 0, &p));
	near(p.compute, 4);
	near(p.overrun, 0.05);
	near(p.slower, 0.10);
	near(p.transfer, 2);
	near(p.wait, 0.05);
	assert_false(timeline_path(&t, 1, &p));
	timeline_free(&t);
	assert_int_equal(placement_gap(s, id, &g, &e), 0);
	assert_int_equal(g.n_steps, 1);
	/* The ranks timed 0.04 more than the chain of operations covers. */
	near(g.measured_s, 6.24 / SCALE);
	near(g.unexplained_s, 0.04 / SCALE);
	near(g.overrun_s, 0.05 / SCALE);
	near(g.transfer_s, 0.10 / SCALE);
	near(g.why_s[SLOW_BUFFER], 0.06 / SCALE);
	near(g.why_s[SLOW_OTHER], 0.04 / SCALE);
	near(g.why_s[SLOW_CWND] + g.why_s[SLOW_CONTENTION] + g.why_s[SLOW_RETRANSMISSION], 0);
	/* 0.2 in all: 0.05 late, 0.10 slower, 0.05 waiting. */
	near(g.waiting_s, 0.05 / SCALE);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(by_hand) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
