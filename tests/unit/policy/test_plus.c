/* bace+: prediction, planning, waiting, promises, prices, growth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/oracle/oracle.h"
#include "harness/policy/predict.h"
#include "tests/unit/policy/instance.h"

/* ---- prediction ---- */

/* p stages in two regions, hop c there and back; t_F + t_B = 3 a stage. */
static void two_regions(struct fixture *f, int stages, int m, double latency_s)
{
	fix_init(f, 2);
	fix_region(f, 0, "a", stages, 0.1, 1e18);
	fix_region(f, 1, "b", stages, 0.1, 1e18);
	fix_link(f, 0, 1, 1e15, latency_s);
	fix_model(f, "net", stages, stages, 2 * stages, 1, 1e9);
	fix_job(f, "j", 0, m, 10, 0);
	fix_ready(f);
}

static struct policy *bound(struct fixture *f)
{
	struct policy_spec s = fix_spec("bace+");
	struct policy *p;
	struct bace_err err;

	assert_int_equal(policy_create(&s, 1, &p, &err), 0);
	assert_true(policy_reachable_gpus(p, &f->v, 0, &err) >= 0);
	situation_read(&p->f, &f->v, true, &p->now);
	return p;
}

/*
 * 1f1b, hop after stage i of p: the slot is 3 + 2c/live where live = p - i
 * micro-batches share the way to the end and back. Hop in the middle of 4:
 * stages 2, 3 behind it; stage 1 has 3 in flight: slot = max(3, (9 + 2c)/3).
 */
static void test_predict_by_hand(void **state)
{
	struct placement_part parts[] = { { 0, 2 }, { 1, 2 } };
	struct fixture f;
	struct policy *p;
	double got;

	two_regions(&f, 4, 100, 0.5);
	p = bound(&f);
	got = predict_step(p, &p->now, &f.models.classes[0], parts, 2, 4);
	/* 99 slots of 10/3, 12 of compute, 1 of latency */
	assert_true(fabs(got - (99 * 10.0 / 3 + 13)) < 1e-6);
	f.e.schedule = SCHED_GPIPE;	/* nothing is waited for but the end */
	got = predict_step(p, &p->now, &f.models.classes[0], parts, 2, 4);
	assert_true(fabs(got - (99 * 3 + 13)) < 1e-6);
	f.e.schedule = SCHED_EAGER_1F1B;	/* five in flight on stage 1: hidden */
	got = predict_step(p, &p->now, &f.models.classes[0], parts, 2, 4);
	assert_true(fabs(got - (99 * 3 + 13)) < 1e-6);
	policy_destroy(p);
	fix_free(&f);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Random placements of random clusters: prediction against the event simulation. */
static void test_predict_against_simulation(void **state)
{
	static const enum schedule_kind kinds[] = { SCHED_1F1B, SCHED_GPIPE, SCHED_EAGER_1F1B };
	static double error[2000];

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		int n = 0;

		for (int seed = 0; seed < 500; seed++) {
			struct policy_spec s = fix_spec("random");
			struct placement pl;
			struct bace_err err;
			struct policy *r, *p;
			struct oracle *o;
			struct fixture f;
			double sim, got, scratch[FIX_REGIONS * FIX_REGIONS];

			instance_build(&f, (uint64_t)seed, 2 + seed % 5, INSTANCE_MIXED * (seed & 1));
			f.e.schedule = kinds[k];
			assert_int_equal(policy_create(&s, (uint64_t)seed, &r, &err), 0);
			if (policy_decide(r, &f.v, &f.q, &pl, &err) == 1) {
				p = bound(&f);
				assert_int_equal(oracle_event_sim(kinds[k], 1, true, &o, &err), 0);
				got = predict_step(p, &p->now, &f.models.classes[f.models.v[pl.job].cls], pl.parts,
						   pl.n_parts, pl.n_gpus);
				assert_int_equal(predict_simulate(p, &p->now, o, pl.job, pl.parts, pl.n_parts,
								  pl.n_gpus, scratch, &sim, &err), 0);
				assert_int_equal(isinf(got), isinf(sim));
				if (!isinf(sim))
					error[n++] = fabs(got / sim - 1);
				oracle_destroy(o);
				policy_destroy(p);
				placement_free(&pl);
			}
			policy_destroy(r);
			fix_free(&f);
		}
		qsort(error, (size_t)n, sizeof(error[0]), by_value);
		print_message("%s: n = %d, median %.4f, 95 %% %.4f, max %.4f\n", schedule_name(kinds[k]), n,
			      error[n / 2], error[n * 95 / 100], error[n - 1]);
		assert_true(n > 400);
		assert_true(error[n / 2] < 0.002);
		assert_true(error[n * 95 / 100] < 0.15);
		assert_true(error[n - 1] < 0.25);
	}
}

/* ---- planning ----
 *
 * 4 layers, t_F + t_B = 12/k: in one region T(4) = 3*3 + 12 = 21, T(2) = 30,
 * T(1) = 48 (m = 4, hops negligible).
 */

static struct placement_part held[1];
static struct placement holding;
static struct running_job running;

/* Job "r" runs on `gpus` of the region, for end_s more. */
static void run(struct fixture *f, int region, int gpus, double end_s)
{
	int job = f->e.n_jobs - 1;

	held[0] = (struct placement_part){ region, gpus };
	holding = (struct placement){ .job = job, .n_parts = 1, .n_gpus = gpus, .parts = held };
	running = (struct running_job){ .job = job, .placement = &holding, .remaining_steps = end_s, .step_s = 1 };
	f->free_gpus[region] = f->e.cluster.regions[region].n_gpus - gpus;
	f->v.n_running = 1;
	f->v.running = &running;
}

/* Region "a" (4 GPUs at 0.1), and "b" (4 at 0.2) if two; jobs j1, j2 of these
 * steps (0: none) and last "r", which is not in the queue. */
static void small(struct fixture *f, int regions, double steps1, double steps2)
{
	fix_init(f, regions);
	fix_region(f, 0, "a", 4, 0.1, 1e12);
	if (regions > 1) {
		fix_region(f, 1, "b", 4, 0.2, 1e12);
		fix_link(f, 0, 1, 1e12, 0);
	}
	fix_model(f, "net", 4, 4, 8, 1e6, 1e9);
	fix_job(f, "j1", 0, 4, steps1, 0);
	if (steps2 > 0)
		fix_job(f, "j2", 0, 4, steps2, 0);
	fix_job(f, "r", 0, 4, 1e6, 0);
	fix_ready(f);
	f->q.n--;
}

static void test_waits_where_that_ends_sooner(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace+");

	small(&f, 1, 10, 0);
	run(&f, 0, 3, 100);	/* 100 + 210 against 480 on the one GPU */
	assert_string_equal(fix_decide(&f, &s), "-");
	run(&f, 0, 3, 265);	/* 475: not 1 % less */
	assert_string_equal(fix_decide(&f, &s), "j1: a:1");
	run(&f, 0, 3, 300);
	assert_string_equal(fix_decide(&f, &s), "j1: a:1");
	run(&f, 0, 3, 100);	/* who does not know that r will end does not wait */
	f.v.running = NULL;
	f.v.n_running = 0;
	assert_string_equal(fix_decide(&f, &s), "j1: a:1");
	fix_free(&f);
}

/* j1 is promised the 4 GPUs from 100 s on; j2 may use one until then, no longer. */
static void test_backfill_keeps_promises(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace+");

	s.has_order = true;
	s.order = ORDER_FCFS;
	small(&f, 1, 10, 2);
	run(&f, 0, 3, 100);
	assert_string_equal(fix_decide(&f, &s), "j2: a:1");	/* 96 s */
	fix_free(&f);
	small(&f, 1, 10, 3);
	run(&f, 0, 3, 100);
	assert_string_equal(fix_decide(&f, &s), "-");		/* 144 s */
	s.has_backfill = true;
	s.backfill = false;
	fix_free(&f);
	small(&f, 1, 10, 2);
	run(&f, 0, 3, 100);
	assert_string_equal(fix_decide(&f, &s), "-");
	fix_free(&f);
}

/* Priority: j1 (long) 0, j2 (short) 1. aging_s is the longest run, 2100 s. */
static void test_nothing_starves(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace+");

	small(&f, 1, 100, 1);
	assert_memory_equal(fix_decide(&f, &s), "j2", 2);
	f.queued[0].waited_s = 2000;
	assert_memory_equal(fix_decide(&f, &s), "j2", 2);
	f.queued[0].waited_s = 2200;
	assert_memory_equal(fix_decide(&f, &s), "j1", 2);
	s.aging_s = 10000;
	assert_memory_equal(fix_decide(&f, &s), "j2", 2);
	fix_free(&f);
}

/* 10 s there and back: bandwidth suffices, so bace's rule sees no reason not to. */
static void test_sees_latency(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace");

	fix_init(&f, 2);
	fix_region(&f, 0, "a", 4, 0.1, 1e12);
	fix_region(&f, 1, "b", 4, 0.2, 1e12);
	fix_link(&f, 0, 1, 1e12, 5);
	fix_model(&f, "net", 8, 4, 8, 1e6, 1e9);
	fix_job(&f, "j", 0, 40, 10, 0);
	fix_ready(&f);
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > b:4");
	snprintf(s.name, sizeof(s.name), "bace+");
	assert_string_equal(fix_decide(&f, &s), "j: a:4");
	/* gpipe does not mind: 40 * 1.5 + ... against 40 * 3 + ... */
	f.e.schedule = SCHED_GPIPE;
	fix_ready(&f);
	assert_int_equal(strlen(fix_decide(&f, &s)), strlen("j: a:4 > b:4"));
	fix_free(&f);
}

/* The price over the run counts: a is cheap for 100 s and dear for 900. */
static void test_price_forecast(void **state)
{
	static double start[] = { 0, 100 }, usd[] = { 0.1, 0.9 };
	struct fixture f;
	struct policy_spec s = fix_spec("bace+");
	struct price_series flat;

	small(&f, 2, 10, 0);
	flat = f.e.cluster.regions[0].price;
	f.e.cluster.regions[0].price = (struct price_series){ 2, start, usd, 1000 };
	f.price[1] = 0.3;
	f.e.cluster.regions[1].price.usd_per_kwh[0] = 0.3;
	assert_string_equal(fix_decide(&f, &s), "j1: b:4");	/* 210 s at a: 0.52 on average */
	f.queued[0].remaining_steps = 3;			/* 63 s */
	assert_string_equal(fix_decide(&f, &s), "j1: a:4");
	f.e.cluster.regions[0].price = flat;
	fix_free(&f);
}

/* Of a series without period only what has been told counts: neither what comes
 * before a running job ends, nor what the view is too old to hold. */
static void test_price_forecast_knows_no_future(void **state)
{
	static double start[] = { 0, 10 }, usd[] = { 0.1, 0.1 };
	struct fixture f;
	struct policy_spec s = fix_spec("bace+");
	struct price_series flat;

	small(&f, 2, 100, 0);	/* 2100 s: worth 30 s of waiting for a */
	run(&f, 0, 4, 30);
	flat = f.e.cluster.regions[0].price;
	f.e.cluster.regions[0].price = (struct price_series){ 2, start, usd, 0 };
	assert_string_equal(fix_decide(&f, &s), "-");
	usd[1] = 9;
	assert_string_equal(fix_decide(&f, &s), "-");
	f.v.n_running = 0;	/* now 100 s, of which 90 were at 9 */
	f.free_gpus[0] = 4;
	f.v.now_s = 100;
	assert_string_equal(fix_decide(&f, &s), "j1: b:4");
	f.e.view.delay_s = 90;
	assert_string_equal(fix_decide(&f, &s), "j1: a:4");
	f.e.cluster.regions[0].price = flat;
	fix_free(&f);
}

static void test_egress(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace+");

	fix_init(&f, 3);
	for (int r = 0; r < 3; r++)
		fix_region(&f, r, (const char *[]){ "a", "b", "c" }[r], 4, 0.1, 1e12);
	for (int r = 0; r < 3; r++)
		fix_link(&f, r, (r + 1) % 3, 1e12, 0);
	fix_model(&f, "net", 8, 4, 8, 1e6, 1e9);
	fix_job(&f, "j", 0, 40, 10, 0);
	fix_ready(&f);
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > b:4");
	for (int r = 0; r < 3; r++)	/* whatever leaves b */
		f.e.cluster.links[1 * 3 + r].usd_per_byte = 1e-9;
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > c:4");
	fix_free(&f);
}

/* A long job waits a moment for the cheap region, a short one does not. */
static void test_waits_for_cheap_region(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace+");

	small(&f, 2, 100, 0);	/* 2100 s, 2 % is 42 */
	run(&f, 0, 4, 30);
	assert_string_equal(fix_decide(&f, &s), "-");
	run(&f, 0, 4, 50);
	assert_string_equal(fix_decide(&f, &s), "j1: b:4");
	s.prefer = PREFER_COST;	/* 20 % is 420 */
	assert_string_equal(fix_decide(&f, &s), "-");
	run(&f, 0, 4, 430);
	assert_string_equal(fix_decide(&f, &s), "j1: b:4");
	fix_free(&f);
}

static void test_start_k_star(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace+");

	small(&f, 1, 10, 0);
	run(&f, 0, 2, 1e9);
	assert_string_equal(fix_decide(&f, &s), "j1: a:2");
	s.start = START_K_STAR;
	assert_string_equal(fix_decide(&f, &s), "-");
	fix_free(&f);
}

static const char *resize(struct fixture *f, const struct policy_spec *s)
{
	static char text[512];
	struct placement pl;
	struct bace_err err = { 0 };
	struct policy *p;
	int rc;

	assert_int_equal(policy_create(s, 1, &p, &err), 0);
	assert_true(policy_wants_running(p));
	rc = policy_resize(p, &f->v, &f->q, &pl, &err);
	snprintf(text, sizeof(text), "%s", rc < 0 ? err.msg : "-");
	if (rc > 0) {
		CLEANUP_FREE char *where = placement_format(&f->e.cluster, &pl);

		snprintf(text, sizeof(text), "%s: %s", f->e.jobs[pl.job].name, where);
		assert_int_equal(placement_check_resize(&f->v, &pl, &err), 0);
		placement_free(&pl);
	}
	policy_destroy(p);
	return text;
}

/* r runs on 2 of 4 GPUs, 30 s a step; on 4 it would take 21. Restart: 120 s. */
static void test_grow(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace+");

	small(&f, 1, 10, 0);
	s.elastic = true;
	s.restart_s = 120;
	run(&f, 0, 2, 100);
	running.step_s = 30;
	f.q.n = 0;
	assert_string_equal(resize(&f, &s), "r: a:4");	/* 3000 against 120 + 2100 */
	running.remaining_steps = 20;			/* 600 against 120 + 420 */
	assert_string_equal(resize(&f, &s), "-");
	running.remaining_steps = 100;
	s.restart_s = 800;
	assert_string_equal(resize(&f, &s), "-");
	s.restart_s = 120;
	f.q.n = 1;					/* someone waits for those GPUs */
	assert_string_equal(resize(&f, &s), "-");
	f.q.n = 0;
	s.elastic = false;
	assert_string_equal(resize(&f, &s), "-");
	s.elastic = true;
	f.v.n_running = 0;				/* nothing to grow */
	assert_string_equal(resize(&f, &s), "-");
	fix_free(&f);
}

/* With growth to come a job starts on what there is: see the first test. */
static void test_elastic_does_not_wait(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace+");

	small(&f, 1, 10, 0);
	s.elastic = true;
	s.restart_s = 10;
	run(&f, 0, 3, 100);	/* 2 steps of 48 s till then, worth 42 s on 4 GPUs */
	assert_string_equal(fix_decide(&f, &s), "j1: a:1");
	s.restart_s = 50;
	assert_string_equal(fix_decide(&f, &s), "-");
	fix_free(&f);
}

static void test_resize_constraints(void **state)
{
	struct placement_part parts[] = { { 0, 4 } };
	struct placement pl = { .job = 1, .n_parts = 1, .n_gpus = 4, .parts = parts };
	struct fixture f;
	struct bace_err err;

	small(&f, 1, 10, 0);
	run(&f, 0, 2, 100);
	assert_int_equal(placement_check_resize(&f.v, &pl, &err), 0);
	f.free_gpus[0] = 1;
	assert_int_equal(placement_check_resize(&f.v, &pl, &err), -22);
	assert_non_null(strstr(err.msg, "only 3 are free"));
	pl.job = 0;
	assert_int_equal(placement_check_resize(&f.v, &pl, &err), -22);
	assert_non_null(strstr(err.msg, "not running"));
	fix_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_predict_by_hand),
		cmocka_unit_test(test_predict_against_simulation),
		cmocka_unit_test(test_waits_where_that_ends_sooner),
		cmocka_unit_test(test_backfill_keeps_promises),
		cmocka_unit_test(test_nothing_starves),
		cmocka_unit_test(test_sees_latency),
		cmocka_unit_test(test_price_forecast),
		cmocka_unit_test(test_price_forecast_knows_no_future),
		cmocka_unit_test(test_egress),
		cmocka_unit_test(test_waits_for_cheap_region),
		cmocka_unit_test(test_start_k_star),
		cmocka_unit_test(test_grow),
		cmocka_unit_test(test_elastic_does_not_wait),
		cmocka_unit_test(test_resize_constraints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
