/* What the event loop refuses, what it tells its observers, and jobs that move. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/cluster/scripted.h"

/* ---- refusals ---- */

static void refused(struct env *e, const char *what)
{
	env_run(e);
	assert_int_equal(e->rc, -EINVAL);
	if (!strstr(e->err.msg, what))
		fail_msg("`%s' does not say `%s'", e->err.msg, what);
	assert_null(e->r.jobs);
	env_free(e);
}

static void constraints(void **state)
{
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 10, 0);
	e.p.blind = true;
	script1(&e.p, 0, 0, 5);
	refused(&e, "only 4 are free");

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 10, 0);
	script2(&e.p, 0, 1, 1, 1, 1);
	refused(&e, "r1 appears twice");

	env_init(&e, 2);
	e.w.e.cluster.links[1 * 2 + 0].present = false;
	world_job(&e.w, "a", 0, 10, 0);
	script2(&e.p, 0, 0, 1, 1, 1);
	refused(&e, "no link both ways");

	env_init(&e, 2);
	e.w.e.cluster.gpus[0].memory_bytes = 1.5e9;
	world_job(&e.w, "a", 0, 10, 0);
	script1(&e.p, 0, 0, 2);
	refused(&e, "memory");

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 10, 0);
	script2(&e.p, 0, 0, 4, 1, 1);
	refused(&e, "5 stages: 1 to 4");

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 10, 0);
	script2(&e.p, 0, 0, 0, 1, 1);
	refused(&e, "at least 1");
}

/* Once the step time of a placement is known its check is short; it must still
 * see that GPUs are not free. */
static void constraints_again(void **state)
{
	struct env e;

	env_init(&e, 1);
	e.sim.separable = true;
	world_job(&e.w, "a", 0, 10, 0);
	world_job(&e.w, "b", 0, 10, 1);
	script1(&e.p, 0, 0, 3);
	script1(&e.p, 1, 0, 3);
	env_ok(&e);
	assert_true(e.r.jobs[1].start_s == 10);
	env_free(&e);

	env_init(&e, 1);
	e.sim.separable = true;
	world_job(&e.w, "a", 0, 10, 0);
	world_job(&e.w, "b", 0, 10, 20);
	world_job(&e.w, "c", 0, 10, 25);
	script1(&e.p, 0, 0, 4);
	script1(&e.p, 1, 0, 4);
	script1(&e.p, 2, 0, 4);
	e.p.blind = true;
	e.w.e.cluster.regions[0].n_gpus = 7;
	refused(&e, "only 3 are free");
}

static void bad_input(void **state)
{
	const struct link_change missing = { 1, 0, 0, 1e9 }, negative = { -1, 0, 1, 1e9 },
				 nan_rate = { 1, 0, 1, NAN };
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 0, 0);
	refused(&e, "job a: 0 steps");
	env_init(&e, 2);
	world_job(&e.w, "a", 0, 1, -1);
	refused(&e, "job a: arrival at -1 s");
	env_init(&e, 2);
	e.w.e.cluster.gpus[0].memory_bytes = 1;
	world_job(&e.w, "a", 0, 1, 0);
	refused(&e, "job a: fits no number of GPUs");
	for (int i = 0; i < 3; i++) {
		env_init(&e, 2);
		world_job(&e.w, "a", 0, 1, 0);
		e.sim.changes = (const struct link_change *[]){ &missing, &negative, &nan_rate }[i];
		e.sim.n_changes = 1;
		refused(&e, "link change 0");
	}
}

static void oracle_fails(void **state)
{
	struct env e;

	for (int at = 1; at <= 3; at++) {
		env_init(&e, 2);
		world_job(&e.w, "a", 0, 100, 0);
		world_job(&e.w, "b", 0, 100, 40);
		script2(&e.p, 0, 0, 1, 1, 1);
		script2(&e.p, 1, 0, 1, 1, 1);
		e.o.fail_at = at;
		env_run(&e);
		assert_int_equal(e.rc, -EIO);
		assert_string_equal(e.err.msg, "the testbed burns");
		assert_null(e.r.jobs);
		assert_int_equal(e.o.calls, at);
		env_free(&e);
	}
	env_init(&e, 1);
	world_job(&e.w, "a", 0, 100, 0);
	script1(&e.p, 0, 0, 1);
	e.o.step_s = NAN;
	env_run(&e);
	assert_int_equal(e.rc, -ERANGE);
	env_free(&e);
}

/* ---- observers ---- */

struct seen {
	int starts, finishes, decisions, placed;
	double start_step;
	double finish_s;
};

static void on_start(void *arg, double now_s, const struct placement *p, double step_s)
{
	struct seen *s = arg;

	s->starts++;
	s->start_step = step_s;
	assert_true(p->n_gpus == 2);
}

static void on_finish(void *arg, double now_s, int job)
{
	struct seen *s = arg;

	s->finishes++;
	s->finish_s = now_s;
}

static void on_decision(void *arg, double now_s, uint64_t digest, double latency_s, int placed)
{
	struct seen *s = arg;

	s->decisions++;
	s->placed += placed >= 0;
	assert_true(latency_s >= 0);
}

static void observers(void **state)
{
	struct seen seen = { 0 };
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 10, 0);
	script2(&e.p, 0, 0, 1, 1, 1);
	e.sim.on_start = on_start;
	e.sim.on_finish = on_finish;
	e.sim.on_decision = on_decision;
	e.sim.arg = &seen;
	env_ok(&e);
	assert_int_equal(seen.starts, 1);
	assert_int_equal(seen.finishes, 1);
	assert_int_equal(seen.placed, 1);
	assert_int_equal(seen.decisions, e.r.n_decisions);
	assert_true(seen.start_step == 1 && seen.finish_s == 10);
	env_free(&e);
}

/* a and b in r0 from 0; b ends at 50 and a, with 50 of 100 steps left, moves from
 * 2 GPUs there to 4 in r1, where a price twice as high applies from 60 s on. It
 * restarts for 20 s at 20 W a GPU and goes on until 120 s. */
static void elastic(void **state)
{
	struct env e;

	for (int separable = 0; separable < 2; separable++) {
		env_init(&e, 2);
		e.sim.separable = separable;
		world_price(&e.w, 1, 2, (double[]){ 0, 60 }, (double[]){ 0.36, 0.72 }, 0);
		world_job(&e.w, "a", 0, 100, 0);
		world_job(&e.w, "b", 0, 50, 0);
		script1(&e.p, 0, 0, 2);
		script1(&e.p, 1, 0, 2);
		e.p.n_moves = 1;
		e.p.moves[0].from_s = 50;
		e.p.moves[0].to = (struct placement_part){ 1, 4 };
		e.p.restart_s = 20;
		env_ok(&e);
		assert_true(e.r.jobs[0].start_s == 0 && e.r.jobs[0].finish_s == 120);
		assert_int_equal(e.r.jobs[0].n_restarts, 1);
		assert_int_equal(e.r.jobs[0].placement.n_gpus, 4);
		near(e.r.jobs[0].gpu_s, 2 * 50 + 4 * 70);
		near(e.r.jobs[0].energy_j, 140 * 50 + 80 * 20 + 280 * 50);
		near(e.r.jobs[0].cost_usd, 1e-7 * (140 * 50 + 80 * 10) + 2e-7 * (80 * 10 + 280 * 50));
		assert_true(e.r.jobs[1].finish_s == 50);
		env_free(&e);
	}
}

static void elastic_refused(void **state)
{
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 100, 0);
	script1(&e.p, 0, 0, 2);
	e.p.n_moves = 1;
	e.p.moves[0].to = (struct placement_part){ 1, 5 };
	refused(&e, "5 GPUs in r1: only 4 are free");

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 100, 0);
	script1(&e.p, 0, 0, 2);
	e.p.n_moves = 1;
	e.p.restless = true;
	e.p.moves[0].to = (struct placement_part){ 1, 4 };
	env_run(&e);
	assert_int_equal(e.rc, -ELOOP);
	env_free(&e);
}

static void no_jobs(void **state)
{
	struct env e;

	env_init(&e, 1);
	env_ok(&e);
	assert_int_equal(e.r.n, 0);
	assert_true(e.r.makespan_s == 0 && e.r.cost_usd == 0);
	assert_int_equal(e.o.calls, 0);
	env_free(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constraints),
		cmocka_unit_test(constraints_again),
		cmocka_unit_test(bad_input),
		cmocka_unit_test(oracle_fails),
		cmocka_unit_test(observers),
		cmocka_unit_test(elastic),
		cmocka_unit_test(elastic_refused),
		cmocka_unit_test(no_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
