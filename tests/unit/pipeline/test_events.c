/* Different stages and hops, blocking sends, limits, the timeline. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/pipeline/random.h"

#define RANDOM_PIPELINES 3000

static void equals_reference(void **state)
{
	struct bace_rng rng;

	bace_rng_init(&rng, 7, 0);
	for (int i = 0; i < RANDOM_PIPELINES; i++) {
		struct random_pipeline r;
		struct pipeline_result out = { 0 };
		struct bace_err e = { 0 };

		random_pipeline(&rng, i % 5, &r);
		if (pipeline_simulate(&r.p, &out, &e))
			fail_msg("%d: %s", i, e.msg);
		double want = reference_step_time(&r.p);

		if (!(fabs(out.step_time - want) <= 1e-9 * want))
			fail_msg("%d, %s: got %.15g, want %.15g", i, schedule_name(r.p.schedule.kind),
				 out.step_time, want);
	}
}

/* ---- the timeline ---- */

struct seen {
	const struct pipeline *p;
	double end[STAGES_MAX], busy[STAGES_MAX], waited[STAGES_MAX], held[STAGES_MAX];
	struct schedule_iter it[STAGES_MAX];
	int64_t n;
	double last;
};

static void on_op(void *arg, const struct timeline_op *t)
{
	struct seen *s = arg;
	struct op want;
	double parts = t->split.compute + t->split.serialisation + t->split.latency;
	double largest = fmax(t->split.compute, fmax(t->split.serialisation, t->split.latency));

	assert_true(schedule_next(&s->it[t->stage], &want));
	assert_int_equal(t->kind, want.kind);
	assert_int_equal(t->chunk, want.chunk);
	assert_int_equal(t->micro_batch, want.micro_batch);
	assert_true(t->waited >= 0 && t->held >= 0 && t->end >= t->start);
	assert_true(fabs(t->start - t->waited - s->end[t->stage]) < 1e-9);
	assert_true(fabs(parts - t->waited) < 1e-9);
	if (t->waited > 0)
		assert_true(largest == (t->waited_for == WAIT_COMPUTE ? t->split.compute :
					t->waited_for == WAIT_LATENCY ? t->split.latency :
					t->split.serialisation));
	else
		assert_int_equal(t->waited_for, WAIT_NONE);
	if (!s->p->no_overlap)
		assert_true(t->held == 0);
	s->end[t->stage] = t->end + t->held;
	s->busy[t->stage] += t->end - t->start;
	s->waited[t->stage] += t->waited;
	s->held[t->stage] += t->held;
	s->last = fmax(s->last, t->end);
	s->n++;
}

static void check_timeline(const struct random_pipeline *r)
{
	struct seen s = { .p = &r->p };
	double busy[STAGES_MAX], waiting[STAGES_MAX];
	struct stage_times stages[STAGES_MAX];
	struct pipeline_result out = { .busy = busy, .waiting = waiting, .stages = stages, .on_op = on_op,
				       .arg = &s }, plain = { 0 };
	int64_t n = 0;

	for (int i = 0; i < r->p.schedule.stages; i++) {
		schedule_begin(&s.it[i], &r->p.schedule, i);
		n += schedule_n_ops(&r->p.schedule, i);
	}
	assert_int_equal(pipeline_simulate(&r->p, &out, NULL), 0);
	assert_int_equal(pipeline_simulate(&r->p, &plain, NULL), 0);
	assert_true(plain.step_time == out.step_time && plain.bubble == out.bubble);
	assert_int_equal(s.n, n);
	assert_true(s.last == out.step_time);
	for (int i = 0; i < r->p.schedule.stages; i++) {
		const struct stage_times *t = &stages[i];
		double waited = t->waiting.compute + t->waiting.serialisation + t->waiting.latency;

		assert_true(fabs(t->busy - s.busy[i]) < 1e-9 && t->busy == busy[i]);
		assert_true(fabs(waited - s.waited[i]) < 1e-9 && fabs(t->held - s.held[i]) < 1e-9);
		assert_true(t->drained >= -1e-9);
		assert_true(fabs(t->busy + waited + t->held + t->drained - out.step_time) < 1e-9);
		assert_true(fabs(waiting[i] + busy[i] - out.step_time) < 1e-9);
	}
}

static void timeline_adds_up(void **state)
{
	struct bace_rng rng;

	bace_rng_init(&rng, 8, 0);
	for (int i = 0; i < 300; i++) {
		struct random_pipeline r;

		random_pipeline(&rng, i % 5, &r);
		check_timeline(&r);
	}
}

/* Two stages, two micro-batches, tF = 1, tB = 2, 0.5 on the link, 0.25 more to
 * arrive. By hand, 1f1b.
 * Overlapped: stage 1 does F0 1.75-2.75, B0 -4.75, F1 -5.75, B1 -7.75; its last
 * message arrives at 8.5, stage 0 ends at 10.5.
 * Blocking: F0 is on the link until 1.5, B0 until 5.25, so F1 5.25-6.25, B1
 * -8.25, arrives 9, stage 0 ends at 11. */
static struct pipeline two_stages(const double *one, const double *two, const double *latency,
				  const double *serialisation)
{
	return (struct pipeline){ .schedule = { SCHED_1F1B, 2, 2, 1 }, .tf = one, .tb = two,
		.fwd_latency = latency, .rev_latency = latency, .fwd_serialisation = serialisation,
		.rev_serialisation = serialisation };
}

static void blocking_sends(void **state)
{
	const double one[2] = { 1, 1 }, two[2] = { 2, 2 }, latency[1] = { 0.25 }, serialisation[1] = { 0.5 };
	struct pipeline p = two_stages(one, two, latency, serialisation);
	struct stage_times t[2];
	struct pipeline_result r = { .stages = t };

	assert_int_equal(pipeline_simulate(&p, &r, NULL), 0);
	assert_true(fabs(r.step_time - 10.5) < 1e-12);
	assert_true(t[0].held == 0 && t[1].held == 0);
	p.no_overlap = true;
	assert_int_equal(pipeline_simulate(&p, &r, NULL), 0);
	assert_true(fabs(r.step_time - 11) < 1e-12);
	assert_true(fabs(t[0].held - 1) < 1e-12 && fabs(t[1].held - 1) < 1e-12);
	/* stage 1 waits 1 for F0 to be computed, 0.5 for the link, 0.25 for latency */
	assert_true(fabs(t[1].waiting.compute - 1) < 1e-12);
	assert_true(fabs(t[1].waiting.serialisation - 0.5) < 1e-12);
	assert_true(fabs(t[1].waiting.latency - 0.25) < 1e-12);
	assert_true(fabs(t[1].drained - 2.25) < 1e-12);
}

/* A slower direction only matters in that direction. */
static void directions_are_apart(void **state)
{
	const double one[2] = { 1, 1 }, none[1] = { 0 }, slow[1] = { 3 };
	struct pipeline p = two_stages(one, one, none, none);
	struct pipeline_result r = { 0 };

	p.schedule.micro_batches = 1;
	p.fwd_latency = slow;
	assert_int_equal(pipeline_simulate(&p, &r, NULL), 0);
	assert_true(r.step_time == 7);
	p.rev_serialisation = slow;
	assert_int_equal(pipeline_simulate(&p, &r, NULL), 0);
	assert_true(r.step_time == 10);
}

/* ---- refusals ---- */

static void activation_limit(void **state)
{
	const double t[4] = { 1, 1, 1, 1 }, none[4] = { 0 };
	struct pipeline p = two_stages(t, t, none, none);
	struct pipeline_result r = { 0 };
	struct bace_err e = { 0 };

	p.schedule = (struct schedule_spec){ SCHED_1F1B, 4, 16, 1 };
	p.max_activations = 4;
	assert_int_equal(pipeline_simulate(&p, &r, &e), 0);
	p.max_activations = 3;
	assert_int_equal(pipeline_simulate(&p, &r, &e), -E2BIG);
	assert_non_null(strstr(e.msg, "stage 0 holds 4 activations under 1f1b, the limit is 3"));
	p.schedule.kind = SCHED_GPIPE;
	p.max_activations = 15;
	assert_int_equal(pipeline_simulate(&p, &r, &e), -E2BIG);
	assert_non_null(strstr(e.msg, "holds 16 activations under gpipe"));
	p.schedule.kind = SCHED_EAGER_1F1B;
	p.max_activations = 6;
	assert_int_equal(pipeline_simulate(&p, &r, &e), -E2BIG);
	p.max_activations = 7;
	assert_int_equal(pipeline_simulate(&p, &r, &e), 0);
	p.max_activations = -1;
	assert_int_equal(pipeline_simulate(&p, &r, &e), -EINVAL);
}

static void bad_numbers(void **state)
{
	const double bad[] = { NAN, -1, INFINITY, -INFINITY };
	const double t[2] = { 1, 1 }, none[1] = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const double stage[2] = { 1, bad[i] }, hop[1] = { bad[i] };
		struct pipeline p[] = { two_stages(stage, t, none, none), two_stages(t, stage, none, none),
					two_stages(t, t, hop, none), two_stages(t, t, none, hop) };

		for (size_t k = 0; k < ARRAY_LEN(p); k++) {
			struct pipeline_result r = { 0 };
			struct bace_err e = { 0 };
			/* a link that passes nothing is no error: the step never ends */
			bool dead = k == 3 && bad[i] == INFINITY;

			assert_int_equal(pipeline_simulate(&p[k], &r, &e), dead ? 0 : -EINVAL);
			if (dead)
				assert_true(isinf(r.step_time) && r.bubble == 1);
			else
				assert_non_null(strstr(e.msg, "must be"));
		}
	}
}

/* Behind a dead link: parts are infinite or 0, never undefined, and add up all the same. */
static void dead_link_adds_up(void **state)
{
	const double t[2] = { 1, 1 }, none[1] = { 0 }, dead[1] = { INFINITY };

	for (int k = 0; k < 4; k++) {
		struct pipeline p = two_stages(t, t, none, none);
		struct stage_times parts[2];
		struct pipeline_result r = { .stages = parts };
		struct bace_err e = { 0 };

		p.schedule.micro_batches = 3;
		p.no_overlap = k & 1;
		if (k & 2)
			p.rev_serialisation = dead;
		else
			p.fwd_serialisation = dead;
		assert_int_equal(pipeline_simulate(&p, &r, &e), 0);
		assert_true(isinf(r.step_time));
		for (int i = 0; i < 2; i++) {
			const struct wait_split *w = &parts[i].waiting;
			double sum = parts[i].busy + w->compute + w->serialisation + w->latency + parts[i].held +
				parts[i].drained;

			assert_true(sum == r.step_time);
			assert_true(w->compute >= 0 && w->latency >= 0 && parts[i].held >= 0 && parts[i].drained >= 0);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_reference), cmocka_unit_test(timeline_adds_up),
		cmocka_unit_test(blocking_sends), cmocka_unit_test(directions_are_apart),
		cmocka_unit_test(activation_limit), cmocka_unit_test(bad_numbers),
		cmocka_unit_test(dead_link_adds_up),
	};

	return cmocka_run_group_tests_name("pipeline-events", tests, NULL, NULL);
}
