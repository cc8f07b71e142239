/* Several pipelines that share links. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/pipeline/random.h"

static void one_job_is_the_pipeline(void **state)
{
	struct bace_rng rng;

	bace_rng_init(&rng, 9, 0);
	for (int i = 0; i < 1000; i++) {
		struct random_pipeline r;
		struct pipeline_result alone = { 0 };
		struct shared_pipeline job = { 0 };
		struct shared_result out;

		random_pipeline(&rng, i % 5, &r);
		job.p = r.p;
		assert_int_equal(pipeline_simulate(&r.p, &alone, NULL), 0);
		assert_int_equal(pipelines_simulate_shared(1, &job, 0, 0, 1, &out, NULL), 0);
		assert_true(out.first_step == alone.step_time);
		assert_true(out.median_step == alone.step_time && out.mean_step == alone.step_time);
		assert_true(fabs(out.busy - (1 - alone.bubble)) < 1e-9);
	}
}

/* A step that begins later takes as long: nothing is left over from the last. */
static void steps_repeat(void **state)
{
	struct bace_rng rng;

	bace_rng_init(&rng, 10, 0);
	for (int i = 0; i < 200; i++) {
		struct random_pipeline r;
		struct shared_pipeline job = { .start = 12.5 };
		struct shared_result out;

		random_pipeline(&rng, i % 5, &r);
		job.p = r.p;
		assert_int_equal(pipelines_simulate_shared(1, &job, 0, 1, 4, &out, NULL), 0);
		assert_true(fabs(out.mean_step - out.first_step) < 1e-9 * out.first_step);
		assert_true(fabs(out.median_step - out.first_step) < 1e-9 * out.first_step);
	}
}

/* Two stages, one micro-batch, everything takes 1, the link included. Both jobs
 * make their activation at 1: the first sends 1-2, the second 2-3, so they end
 * at 6 and 7. From then on they are out of each other's way: 6 each. */
static const double one[2] = { 1, 1 }, none[1] = { 0 };
static const int up[1] = { 0 }, down[1] = { 1 };

static struct shared_pipeline small(const double *serialisation)
{
	return (struct shared_pipeline){ .p = { .schedule = { SCHED_1F1B, 2, 1, 1 }, .tf = one, .tb = one,
		.fwd_latency = none, .rev_latency = none, .fwd_serialisation = serialisation,
		.rev_serialisation = serialisation }, .fwd_link = up, .rev_link = down };
}

static void two_jobs_by_hand(void **state)
{
	struct shared_pipeline jobs[2] = { small(one), small(one) };
	struct shared_result out[2];

	assert_int_equal(pipelines_simulate_shared(2, jobs, 2, 0, 1, out, NULL), 0);
	assert_true(out[0].first_step == 6 && out[1].first_step == 7);
	assert_int_equal(pipelines_simulate_shared(2, jobs, 2, 1, 3, out, NULL), 0);
	assert_true(out[0].first_step == 6 && out[1].first_step == 7);
	assert_true(out[0].median_step == 6 && out[1].median_step == 6);
	assert_true(fabs(out[0].busy - 2.0 / 6) < 1e-12);
	/* the second starts half a unit before: then it is the first on the link */
	jobs[1].start = -0.5;
	assert_int_equal(pipelines_simulate_shared(2, jobs, 2, 0, 1, out, NULL), 0);
	assert_true(out[1].first_step == 6 && out[0].first_step == 6.5);
}

/* Activations of one job and gradients of another on one link. */
static void opposite_directions_meet(void **state)
{
	struct shared_pipeline jobs[2] = { small(one), small(one) };
	struct shared_result out[2];

	/* job 1's path runs the other way: its activations use link 1, and its
	 * gradient, made at 4 as job 0's activation was at 1, finds link 0 free */
	jobs[1].fwd_link = down;
	jobs[1].rev_link = up;
	assert_int_equal(pipelines_simulate_shared(2, jobs, 2, 0, 1, out, NULL), 0);
	assert_true(out[0].first_step == 6 && out[1].first_step == 6);
	/* three later its activation and job 0's gradient are made at 4: job 0 first */
	jobs[1].start = 3;
	assert_int_equal(pipelines_simulate_shared(2, jobs, 2, 0, 1, out, NULL), 0);
	assert_true(out[0].first_step == 6 && out[1].first_step == 7);
}

/* No link carries more than its capacity: W steps of n jobs with m messages of
 * s seconds each take one of them at least W n m s. Alone is never slower. */
static void capacity_is_kept(void **state)
{
	enum { JOBS = 3, STEPS = 6 };
	struct bace_rng rng;

	bace_rng_init(&rng, 11, 0);
	for (int i = 0; i < 200; i++) {
		double s = 0.2 + bace_rng_uniform(&rng), worst = 0;
		const double serialisation[1] = { s };
		int m = 1 + (int)bace_rng_below(&rng, 12);
		struct shared_pipeline jobs[JOBS];
		struct shared_result out[JOBS], alone;

		for (int k = 0; k < JOBS; k++) {
			jobs[k] = small(serialisation);
			jobs[k].p.schedule.micro_batches = m;
		}
		assert_int_equal(pipelines_simulate_shared(JOBS, jobs, 2, 0, STEPS, out, NULL), 0);
		assert_int_equal(pipelines_simulate_shared(1, jobs, 2, 0, STEPS, &alone, NULL), 0);
		for (int k = 0; k < JOBS; k++) {
			worst = fmax(worst, out[k].mean_step);
			assert_true(out[k].mean_step >= alone.mean_step - 1e-9);
			assert_true(out[k].first_step >= alone.first_step - 1e-9);
		}
		assert_true(worst >= JOBS * m * s - 1e-9);
	}
}

static void own_links_do_not_meet(void **state)
{
	struct bace_rng rng;

	bace_rng_init(&rng, 12, 0);
	for (int i = 0; i < 100; i++) {
		struct random_pipeline r[3];
		struct shared_pipeline jobs[3] = { 0 };
		struct shared_result out[3];

		for (int k = 0; k < 3; k++) {
			random_pipeline(&rng, -1, &r[k]);
			jobs[k].p = r[k].p;
		}
		assert_int_equal(pipelines_simulate_shared(3, jobs, 0, 0, 1, out, NULL), 0);
		for (int k = 0; k < 3; k++) {
			struct pipeline_result alone = { 0 };

			assert_int_equal(pipeline_simulate(&r[k].p, &alone, NULL), 0);
			assert_true(out[k].first_step == alone.step_time);
		}
	}
}

/* A job behind a dead link never ends; the other goes on. */
static void dead_links(void **state)
{
	const double dead[1] = { INFINITY };
	struct shared_pipeline jobs[2] = { small(dead), small(one) };
	struct shared_result out[2];

	assert_int_equal(pipelines_simulate_shared(2, jobs, 2, 0, 2, out, NULL), 0);
	assert_true(isinf(out[0].mean_step) && out[0].busy == 0);
	assert_true(out[1].mean_step == 6);
}

static void bad_input(void **state)
{
	const int nowhere[1] = { 2 };
	struct shared_pipeline job = small(one);
	struct shared_result out;
	struct bace_err e = { 0 };

	assert_int_equal(pipelines_simulate_shared(1, &job, 2, 0, 0, &out, &e), -EINVAL);
	assert_int_equal(pipelines_simulate_shared(1, &job, 2, -1, 1, &out, &e), -EINVAL);
	job.fwd_link = nowhere;
	assert_int_equal(pipelines_simulate_shared(1, &job, 2, 0, 1, &out, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "pipeline 0, hop 0: no link 2"));
	job = small(one);
	job.start = NAN;
	assert_int_equal(pipelines_simulate_shared(1, &job, 2, 0, 1, &out, &e), -EINVAL);
	job = small(one);
	job.p.schedule.micro_batches = 0;
	assert_int_equal(pipelines_simulate_shared(1, &job, 2, 0, 1, &out, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "pipeline 0: micro-batches = 0"));
	assert_int_equal(pipelines_simulate_shared(0, NULL, 0, 0, 1, NULL, &e), 0);
}

/* Replicas of one job follow each other, in order, and are alike. */
static void bad_replicas(void **state)
{
	const double stages[3] = { 1, 1, 1 };
	const int nowhere[2] = { -1, 7 };

	for (int k = 0; k < 6; k++) {
		struct shared_pipeline jobs[2] = { small(one), small(one) };
		struct shared_result out[2];
		struct bace_err e = { 0 };

		for (int i = 0; i < 2; i++) {
			jobs[i].replicas = 2;
			jobs[i].replica = i;
			jobs[i].ring_latency = jobs[i].ring_serialisation = one;
		}
		switch (k) {
		case 1: jobs[0].replica = 1; break;		/* the wrong way round */
		case 2: jobs[1].replica = 2; break;
		case 3: jobs[1].replicas = 3; break;
		case 4:						/* of other stages */
			jobs[1].p.schedule.stages = 3;
			jobs[1].p.tf = jobs[1].p.tb = stages;
			jobs[1].fwd_link = jobs[1].rev_link = NULL;
			jobs[1].p.fwd_latency = jobs[1].p.rev_latency = stages;
			jobs[1].p.fwd_serialisation = jobs[1].p.rev_serialisation = stages;
			jobs[1].ring_latency = jobs[1].ring_serialisation = stages;
			break;
		case 5: jobs[1].ring_link = nowhere; break;
		}
		assert_int_equal(pipelines_simulate_shared(2, jobs, 2, 0, 1, out, &e), k ? -EINVAL : 0);
		if (k)
			assert_non_null(strstr(e.msg, k == 5 ? "ring 1: no link 7" : "follow each other and be alike"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_job_is_the_pipeline), cmocka_unit_test(steps_repeat),
		cmocka_unit_test(two_jobs_by_hand), cmocka_unit_test(opposite_directions_meet),
		cmocka_unit_test(capacity_is_kept), cmocka_unit_test(own_links_do_not_meet),
		cmocka_unit_test(dead_links), cmocka_unit_test(bad_input),
		cmocka_unit_test(bad_replicas),
	};

	return cmocka_run_group_tests_name("pipeline-shared", tests, NULL, NULL);
}
