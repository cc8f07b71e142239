/* Small cases worked out by hand. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/cluster/scripted.h"

/* 2 GPUs, 100 steps of 1 s at busy 0.5: 2 * 70 W * 100 s = 14 kJ, at PUE 1 and
 * 1e-7 USD/J. */
static void one_job(void **state)
{
	struct env e;

	env_init(&e, 1);
	world_job(&e.w, "a", 0, 100, 5);
	script1(&e.p, 0, 0, 2);
	env_ok(&e);
	assert_true(e.r.jobs[0].finished);
	assert_true(e.r.jobs[0].start_s == 5 && e.r.jobs[0].finish_s == 105);
	assert_true(e.r.jobs[0].jct_s == 100 && e.r.jobs[0].waiting_s == 0);
	near(e.r.jobs[0].energy_j, 14000);
	near(e.r.jobs[0].cost_usd, 14000 * 1e-7);
	near(e.r.cost_usd, 14000 * 1e-7);
	assert_true(e.r.makespan_s == 100);
	near(e.r.gpu_utilisation, 0.5);
	/* T(K*) of m: 4 stages, 4 micro-batches of 2 s in all, hop 1 MB at the
	 * goodput of 1 Gbit/s. */
	double hop = 8e6 / goodput_bps(1e9, 1500);
	near(e.r.jobs[0].slowdown, 100 / (100 * (3 * 0.5 + 2 + 6 * hop)));
	assert_int_equal(e.r.n_moments, 1);
	env_free(&e);
}

/* 70 W each on 2 GPUs; 60 s at 1e-7, 40 s at -0.5e-7 USD/J; PUE 1.25. */
static void price_change(void **state)
{
	struct env e;

	env_init(&e, 1);
	e.w.e.cluster.regions[0].pue = 1.25;
	world_price(&e.w, 0, 2, (double[]){ 0, 60 }, (double[]){ 0.36, -0.18 }, 0);
	world_job(&e.w, "a", 0, 100, 0);
	script1(&e.p, 0, 0, 2);
	env_ok(&e);
	near(e.r.jobs[0].cost_usd, 140 * 1.25 * (60 * 1e-7 - 40 * 0.5e-7));
	near(e.r.jobs[0].energy_j, 14000);
	env_free(&e);
}

/* Period 100 s: 50 s at 1e-7, 50 s free; the job runs from 0 to 275. */
static void price_repeats(void **state)
{
	struct env e;

	env_init(&e, 1);
	world_price(&e.w, 0, 2, (double[]){ 0, 50 }, (double[]){ 0.36, 0 }, 100);
	world_job(&e.w, "a", 0, 275, 0);
	script1(&e.p, 0, 0, 1);
	env_ok(&e);
	near(e.r.jobs[0].cost_usd, 70 * 150 * 1e-7);
	env_free(&e);
}

/* 1 s a step until 50 s, then a quarter of the rate: 50 + 50 * 4. The change of
 * the other link, and one to the same rate, are nobody's business. */
static void link_change(void **state)
{
	const struct link_change changes[] = {
		{ 70, 2, 1, 5e8 }, { 50, 0, 1, 2.5e8 }, { 60, 0, 1, 2.5e8 } };
	struct env e;

	for (int separable = 0; separable < 2; separable++) {
		env_init(&e, 3);
		world_job(&e.w, "a", 0, 100, 0);
		script2(&e.p, 0, 0, 1, 1, 1);
		e.sim.separable = separable;
		e.sim.changes = changes;
		e.sim.n_changes = 3;
		env_ok(&e);
		assert_true(e.r.jobs[0].finish_s == 250);
		assert_true(e.r.jobs[0].mean_step_s == 2.5);
		assert_true(e.r.jobs[0].steps_done == 100);
		assert_int_equal(e.o.calls, 2);
		env_free(&e);
	}
}

/* Nothing gets through from 10 s to 30 s. */
static void link_down(void **state)
{
	const struct link_change changes[] = { { 10, 0, 1, 0 }, { 30, 0, 1, 1e9 } };
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 100, 0);
	script2(&e.p, 0, 0, 1, 1, 1);
	e.sim.changes = changes;
	e.sim.n_changes = 2;
	env_ok(&e);
	assert_true(e.r.jobs[0].finish_s == 120);
	/* 100 s at 70 W and 20 s at 20 W on 2 GPUs */
	near(e.r.jobs[0].energy_j, 2 * (7000 + 400));
	cluster_result_free(&e.r);
	e.p.calls = 0;
	e.sim.n_changes = 1;
	e.rc = cluster_simulate(&e.sim, &e.r, &e.err);
	assert_int_equal(e.rc, 0);
	assert_false(e.r.jobs[0].finished);
	assert_true(e.r.jobs[0].steps_done == 10);
	assert_true(isnan(e.r.jobs[0].finish_s) && e.r.jobs[0].start_s == 0);
	assert_int_equal(e.r.n_finished, 0);
	assert_true(isnan(e.r.mean_jct_s));
	env_free(&e);
}

/* a alone 1 s a step; from 40 s with b on the same link, 2 s each: a does 40 +
 * 60 steps by 160 s, b has done 60 by then and does the rest at 1 s: 200 s. */
static void sharing(void **state)
{
	struct env e;

	for (int separable = 0; separable < 2; separable++) {
		env_init(&e, 2);
		world_job(&e.w, "a", 0, 100, 0);
		world_job(&e.w, "b", 0, 100, 40);
		script2(&e.p, 0, 0, 1, 1, 1);
		script2(&e.p, 1, 0, 1, 1, 1);
		e.p.reserve_bps = 1e8 / 3;
		e.sim.separable = separable;
		env_ok(&e);
		assert_true(e.r.jobs[0].finish_s == 160);
		assert_true(e.r.jobs[1].finish_s == 200);
		/* alone, both, alone again: the third is known when separable */
		assert_int_equal(e.o.calls, separable ? 2 : 3);
		assert_int_equal(e.o.asked[1], 2);
		env_free(&e);
	}
}

/* Reservations are returned to the last bit, in any order of leaving. */
static void reservations(void **state)
{
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 10, 0);
	world_job(&e.w, "b", 0, 10, 1);
	world_job(&e.w, "c", 0, 10, 100);
	script2(&e.p, 0, 0, 1, 1, 1);
	script2(&e.p, 1, 1, 2, 0, 1);
	script2(&e.p, 2, 0, 1, 1, 1);
	e.p.reserve_bps = 1e9 / 3;
	env_ok(&e);
	assert_int_equal(e.r.n_finished, 3);
	assert_true(e.p.last_reserved == 0);
	env_free(&e);
}

/* An interleaved pipeline also sends from its last region to its first; what it
 * reserves there is returned when it ends. */
static void reserves_the_way_back(void **state)
{
	struct env e;

	for (int wraps = 0; wraps < 2; wraps++) {
		env_init(&e, 3);
		e.w.e.schedule = wraps ? SCHED_INTERLEAVED_1F1B : SCHED_1F1B;
		e.w.e.interleave = 1 + wraps;
		world_job(&e.w, "a", 0, 10, 0);
		world_job(&e.w, "b", 0, 1, 5);
		script(&e.p, 0, 3, (struct placement_part[]){ { 0, 2 }, { 1, 1 }, { 2, 1 } });
		e.p.reserve_bps = 1e9 / 3;
		env_ok(&e);
		/* The last call is for b, which stays in the queue: after a's end. */
		assert_true(e.p.last_back == 0 && e.p.last_reserved == 0);
		assert_true(e.p.seen_back[1] == (wraps ? e.p.reserve_bps : 0));
		env_free(&e);
	}
}

/* b arrives, a ends, and the link that b uses halves, all at 100 s: b starts
 * then, on the GPUs of a, at the halved rate, and the oracle is asked once. */
static void simultaneous(void **state)
{
	const struct link_change change = { 100, 0, 1, 5e8 };
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "b", 0, 10, 100);
	world_job(&e.w, "a", 0, 100, 0);
	script2(&e.p, 1, 0, 2, 1, 2);
	script2(&e.p, 0, 0, 2, 1, 2);
	e.sim.changes = &change;
	e.sim.n_changes = 1;
	env_ok(&e);
	assert_true(e.r.jobs[0].start_s == 100 && e.r.jobs[0].finish_s == 120);
	assert_int_equal(e.o.calls, 2);
	assert_int_equal(e.o.asked[1], 1);
	env_free(&e);
}

/* The price falls at 3600 s; the policy, which waits for it, hears 10 s later. */
static void view_delay(void **state)
{
	const struct link_change changes[] = { { 7000, 0, 1, 2e9 } };
	struct env e;

	env_init(&e, 2);
	e.w.e.view.delay_s = 10;
	world_price(&e.w, 0, 2, (double[]){ 0, 3600 }, (double[]){ 0.36, 0.09 }, 0);
	world_job(&e.w, "a", 0, 100, 0);
	world_job(&e.w, "b", 0, 100, 5);
	script1(&e.p, 0, 0, 2);
	e.p.script[0].max_price = 0.1;
	script2(&e.p, 1, 0, 2, 1, 1);
	e.p.script[1].min_rate = 2e9;
	e.sim.changes = changes;
	e.sim.n_changes = 1;
	env_ok(&e);
	assert_true(e.r.jobs[0].start_s == 3610);
	/* the truth, not the view, is billed */
	near(e.r.jobs[0].cost_usd, 140 * 100 * 0.25e-7);
	assert_true(e.r.jobs[1].start_s == 7010);
	assert_true(e.r.jobs[1].finish_s == 7010 + 100 * 0.5);
	assert_true(e.p.seen[0] == 0.36 && e.p.seen_at[0] == 0);
	env_free(&e);
}

/* A delay that binary fractions cannot hold: the change is seen at the first
 * instant of its own, once. */
static void view_delay_rounding(void **state)
{
	struct env e;

	env_init(&e, 1);
	e.w.e.view.delay_s = 0.1;
	world_price(&e.w, 0, 3, (double[]){ 0, 0.7, 1.1 }, (double[]){ 3, 2, 1 }, 1.3);
	world_job(&e.w, "a", 0, 1, 0);
	script1(&e.p, 0, 0, 1);
	e.p.script[0].max_price = 1.5;
	env_ok(&e);
	assert_int_equal(e.p.calls, 3);
	assert_true(e.p.seen[1] == 2 && e.p.seen[2] == 1);
	assert_true(e.r.jobs[0].start_s == 1.1 + 0.1);
	env_free(&e);
}

/* Idle from the first arrival to the last completion: 4 GPUs, 2 of them busy
 * from 10 to 110; r1 idle throughout. */
static void bill_idle(void **state)
{
	struct env e;

	env_init(&e, 2);
	e.w.e.bill_idle = true;
	world_price(&e.w, 1, 2, (double[]){ 0, 60 }, (double[]){ 0.36, 0.72 }, 0);
	world_job(&e.w, "a", 0, 100, 10);
	script1(&e.p, 0, 0, 2);
	env_ok(&e);
	near(e.r.idle_energy_j, 20.0 * (2 * 100 + 4 * 100));
	near(e.r.idle_cost_usd, 20.0 * (2 * 100 * 1e-7 + 4 * (50 * 1e-7 + 50 * 2e-7)));
	near(e.r.cost_usd, e.r.jobs[0].cost_usd + e.r.idle_cost_usd);
	env_free(&e);
}

/* 10 steps x 4 micro-batches x 1 MB, there at 1e-9 and back at 2e-9 USD/byte. */
static void egress(void **state)
{
	struct env e;

	env_init(&e, 2);
	e.w.e.cluster.links[0 * 2 + 1].usd_per_byte = 1e-9;
	e.w.e.cluster.links[1 * 2 + 0].usd_per_byte = 2e-9;
	world_job(&e.w, "a", 0, 10, 0);
	script2(&e.p, 0, 0, 1, 1, 1);
	env_ok(&e);
	near(e.r.jobs[0].egress_usd, 10 * 4 * 1e6 * 3e-9);
	near(e.r.jobs[0].cost_usd, 10 * 4 * 1e6 * 3e-9 + 140 * 10 * 1e-7);
	env_free(&e);
}

/* JCTs 10, 20, 30, 40: type-7 quantiles. */
static void totals(void **state)
{
	struct env e;

	env_init(&e, 1);
	world_job(&e.w, "c", 0, 30, 0);
	world_job(&e.w, "a", 0, 10, 0);
	world_job(&e.w, "d", 0, 40, 0);
	world_job(&e.w, "b", 0, 20, 0);
	for (int i = 0; i < 4; i++)
		script1(&e.p, i, 0, 1);
	env_ok(&e);
	near(e.r.mean_jct_s, 25);
	near(e.r.median_jct_s, 25);
	near(e.r.p95_jct_s, 38.5);
	near(e.r.gpu_utilisation, 100.0 / 160);
	near(e.r.energy_j, 100 * 70);
	env_free(&e);
}

static void never_placed(void **state)
{
	struct env e;

	env_init(&e, 1);
	/* news for ever, and never a placement */
	world_price(&e.w, 0, 2, (double[]){ 0, 1800 }, (double[]){ 0.1, 0.2 }, 3600);
	world_job(&e.w, "a", 0, 10, 0);
	world_job(&e.w, "b", 0, 10, 0);
	script1(&e.p, 1, 0, 4);
	env_ok(&e);
	assert_false(e.r.jobs[0].finished);
	assert_true(isnan(e.r.jobs[0].start_s) && isnan(e.r.jobs[0].jct_s));
	assert_true(e.r.jobs[0].cost_usd == 0);
	assert_true(e.r.jobs[1].finished);
	assert_int_equal(e.r.n_finished, 1);
	assert_true(e.r.makespan_s == 10);
	env_free(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_job),
		cmocka_unit_test(price_change),
		cmocka_unit_test(price_repeats),
		cmocka_unit_test(link_change),
		cmocka_unit_test(link_down),
		cmocka_unit_test(sharing),
		cmocka_unit_test(reservations),
		cmocka_unit_test(reserves_the_way_back),
		cmocka_unit_test(simultaneous),
		cmocka_unit_test(view_delay),
		cmocka_unit_test(view_delay_rounding),
		cmocka_unit_test(bill_idle),
		cmocka_unit_test(egress),
		cmocka_unit_test(totals),
		cmocka_unit_test(never_placed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
