/* The warm-up that ends when steps have settled. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/worker/virtual.h"
#include "workloads/worker/steady.h"

static struct steady steps(int n, const int64_t *durations)
{
	struct steady s = { 0 };
	int64_t at = 5000;

	steady_begin_step(&s, at);
	for (int i = 0; i < n; i++)
		steady_begin_step(&s, at += durations[i]);
	return s;
}

static void what_is_steady(void **state)
{
	static const int64_t settles[] = { 5000, 3000, 1100, 1000, 1019, 1000, 1020 };
	struct steady s = steps(2, settles);

	assert_false(steady_reached(&s, 3, 1000000));		/* too few */
	s = steps(5, settles);
	assert_false(steady_reached(&s, 3, 20000));		/* 1100, 1000, 1019 */
	assert_true(steady_reached(&s, 2, 20000));
	assert_true(steady_reached(&s, 3, 80000));
	s = steps(7, settles);
	assert_true(steady_reached(&s, 3, 20000));		/* median 1019 */
	assert_true(steady_reached(&s, 4, 20000));		/* median 1009.5 */
	assert_false(steady_reached(&s, 4, 9000));
	assert_false(steady_reached(&s, 5, 20000));
}

static void forgets_old_steps(void **state)
{
	struct steady s = { 0 };
	int64_t at = 0;

	for (int i = 0; i < 10 * STEADY_STEPS_MAX; i++)
		steady_begin_step(&s, at += i < 9 * STEADY_STEPS_MAX - 2 ? i : 700);
	assert_true(steady_reached(&s, STEADY_STEPS_MAX, 1));
}

/* Every stage made the same steps: the last ones of the warm-up are missing. */
static void check(const struct vnet *v, const struct vpipe *p, int warmup)
{
	for (int w = 0; w < vnet_n_workers(v); w++) {
		const struct timeline *t = engine_timeline(vnet_engine(v, w));
		int n = vnet_spec(v, w)->n_stages, seen = 0;

		assert_int_equal(t->n_steps, (size_t)(n * (warmup + p->steps)));
		assert_int_equal(engine_skipped(vnet_engine(v, w)), p->warmup_steps - warmup);
		for (size_t i = 0; i < t->n_steps; i++) {
			assert_true(t->steps[i].step < warmup - p->warmup_steps || t->steps[i].step >= 0);
			assert_true(t->steps[i].end > t->steps[i].start);
			seen += t->steps[i].step >= 0;
		}
		assert_int_equal(seen, n * p->steps);
	}
	for (int step = 0; step < p->steps; step++) {
		int64_t start, end, next, dummy;

		vnet_step(v, step, &start, &end);
		assert_true(end > start);
		if (step + 1 < p->steps) {
			vnet_step(v, step + 1, &next, &dummy);
			assert_true(next >= end);
		}
	}
}

static void run_with(enum schedule_kind kind, int workers, int ppm, int steps_compared, int late, int want_warmup)
{
	struct vpipe *p = calloc(1, sizeof(*p));
	struct bace_err e = { 0 };
	struct vnet *v;

	*p = (struct vpipe){ .schedule = { kind, 4, 4, kind == SCHED_INTERLEAVED_1F1B ? 2 : 1 }, .warmup_steps = 12,
		.steps = 3, .steady_ppm = ppm, .steady_steps = steps_compared, .timeline = TIMELINE_OPS };
	for (int i = 0; i < 4; i++) {
		p->duration[i][OP_FORWARD] = 1000 + 200 * i;
		p->duration[i][OP_BACKWARD] = 2000;
		p->latency[i][0] = p->latency[i][1] = 300;
		p->serialisation[i][0] = p->serialisation[i][1] = 100;
		p->worker[i] = workers == 1 ? 0 : workers == 2 ? i / 2 : i;
		p->tcp[i] = workers == 4;
	}
	v = vnet_create(p);
	if (late)
		vnet_host_is_late(v, late, late, 3);
	if (vnet_run(v, 1000, &e))
		fail_msg("%s", e.msg);
	check(v, p, want_warmup);
	vnet_destroy(v);
	free(p);
}

static void ends_the_warmup(void **state)
{
	for (int kind = SCHED_GPIPE; kind <= SCHED_ZB_H1; kind++)
		for (int workers = 1; workers <= 4; workers *= 2)
			for (int k = 2; k <= 5; k++)
				run_with((enum schedule_kind)kind, workers, 1000, k, 0, k);
}

/* Over TCP on a host that notices late, steps differ: the most is made. */
static void takes_the_most_otherwise(void **state)
{
	run_with(SCHED_1F1B, 4, 1, 11, 1777, 12);
	run_with(SCHED_1F1B, 4, 0, 0, 0, 12);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_steady), cmocka_unit_test(forgets_old_steps), cmocka_unit_test(ends_the_warmup),
		cmocka_unit_test(takes_the_most_otherwise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
