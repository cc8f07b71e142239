/* Orders of the queue, blocking and backfilling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tests/unit/policy/fixture.h"

/* One region of 4 GPUs; jobs "b" and "a" (arrival 0) and "c" (arrival 1). */
static void three_jobs(struct fixture *f)
{
	fix_init(f, 2);
	fix_region(f, 0, "r", 4, 0.1, 1e12);
	fix_region(f, 1, "s", 4, 0.1, 1e12);
	fix_link(f, 0, 1, 10e9, 0);
	fix_model(f, "slow", 4, 4, 8, 1e6, 1e9);
	fix_model(f, "fast", 4, 1, 2, 1e6, 1e9);	/* needs four times the bandwidth */
	fix_job(f, "b", 0, 4, 10, 0);	/* 4*10*12 = 480 GPU s */
	fix_job(f, "a", 0, 4, 20, 0);	/* 960 */
	fix_job(f, "c", 1, 4, 30, 1);	/* 360 */
	fix_ready(f);
}

static char first(struct fixture *f, const struct policy_spec *s)
{
	return fix_decide(f, s)[0];
}

static void test_plain_orders(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("lcf");

	three_jobs(&f);
	assert_int_equal(first(&f, &s), 'a');	/* (arrival, name) */
	s.has_order = true;
	s.order = ORDER_SJF;	/* N T(K*): b 10*(9+12), a twice that, c 30*(9+12)/4 */
	assert_int_equal(first(&f, &s), 'c');
	s.order = ORDER_SRTF;
	f.queued[0].remaining_steps = 1;	/* a */
	assert_int_equal(first(&f, &s), 'a');
	s.order = ORDER_SJF;	/* does not look at what remains */
	assert_int_equal(first(&f, &s), 'c');
	s.order = ORDER_LAS;
	f.queued[0].attained_gpu_s = 5;
	f.queued[1].attained_gpu_s = 5;
	assert_int_equal(first(&f, &s), 'c');
	f.queued[2].attained_gpu_s = 5;	/* all equal: as queued */
	assert_int_equal(first(&f, &s), 'a');
	fix_free(&f);
}

/*
 * I: 480, 960, 360 -> b 0.2, a 1, c 0. D: 8A/t_F(4): slow 8e6, fast 32e6 -> b 0, a 0, c 1.
 * alpha = 0: P = b 0.8, a 0, c 1.  alpha = 1: b 1, a 1, c 0.
 * alpha = x: b 0.8 + 0.2x, c 1 - x, so c before b for x < 1/6.
 */
static void test_priority(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace");

	three_jobs(&f);
	s.alpha = 0;
	assert_int_equal(first(&f, &s), 'c');
	s.alpha = 1;
	assert_int_equal(first(&f, &s), 'a');	/* ties with b: by name */
	s.alpha = 0.16;
	assert_int_equal(first(&f, &s), 'c');
	s.alpha = 0.17;
	assert_int_equal(first(&f, &s), 'b');
	/* from the view: reserved / capacity = 1/10, or 2/10 with twice the gain */
	s.alpha = NAN;
	f.reserved_bps[1] = f.reserved_bps[2] = 1e9;
	assert_int_equal(first(&f, &s), 'c');
	s.alpha_gain = 2;
	assert_int_equal(first(&f, &s), 'b');
	/* clipped to 1 */
	s.alpha_gain = 1000;
	assert_int_equal(first(&f, &s), 'a');
	/* ageing, 100 s a point: a has 0.1, c 0.9 */
	s.alpha_gain = 1;
	s.aging_s = 100;
	f.queued[0].waited_s = 81;
	assert_int_equal(first(&f, &s), 'a');
	f.queued[0].waited_s = 79;
	assert_int_equal(first(&f, &s), 'c');
	/* I follows what remains: c has none done, b all but one step */
	s.aging_s = 0;
	f.queued[1].remaining_steps = 1;	/* b: 48 GPU s */
	assert_int_equal(first(&f, &s), 'b');
	fix_free(&f);
}

/* All equal: every normalised term is 0 and the queue's order stands. */
static void test_priority_of_equals(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace");

	three_jobs(&f);
	for (int i = 0; i < 3; i++) {
		f.e.jobs[i].model = 0;
		f.e.jobs[i].steps = 10;
	}
	fix_ready(&f);
	assert_int_equal(first(&f, &s), 'a');
	fix_free(&f);
}

/* "a" (first) needs 6 GPUs where only single regions of 4 are free. */
static void test_backfill(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("lcf");

	fix_init(&f, 1);
	fix_region(&f, 0, "r", 6, 0.1, 1e12);
	fix_model(&f, "big", 6, 4, 8, 1e6, 590e9);	/* 98 GB a layer */
	fix_model(&f, "small", 4, 1, 2, 1e6, 1e9);
	fix_job(&f, "a", 0, 4, 10, 0);
	fix_job(&f, "b", 1, 4, 10, 0);
	fix_ready(&f);
	assert_int_equal(f.models.v[0].k_min, 6);
	f.free_gpus[0] = 4;
	assert_string_equal(fix_decide(&f, &s), "-");	/* the head blocks */
	s.has_backfill = true;
	s.backfill = true;
	assert_string_equal(fix_decide(&f, &s), "b: r:4");
	s = fix_spec("bace");
	assert_string_equal(fix_decide(&f, &s), "b: r:4");
	s.has_order = true;
	s.order = ORDER_FCFS;
	assert_string_equal(fix_decide(&f, &s), "b: r:4");
	s.has_backfill = true;
	s.backfill = false;
	assert_string_equal(fix_decide(&f, &s), "-");
	fix_free(&f);
}

/* Every rule with every order and start answers with something valid. external's
 * order is its program's. */
static void test_cross_product(void **state)
{
	const char *const *names, *const *descriptions;
	int n = policy_list(&names, &descriptions);
	struct fixture f;

	three_jobs(&f);
	for (int i = 0; i < n; i++) {
		if (!strcmp(names[i], "external"))
			continue;
		for (int o = ORDER_FCFS; o <= ORDER_BACE; o++) {
			for (int start = START_K_MIN; start <= START_K_STAR; start++) {
				struct policy_spec s = fix_spec(names[i]);

				s.has_order = true;
				s.order = o;
				s.start = start;
				s.alpha = 1;
				const char *got = fix_decide(&f, &s);
				const char *want = o == ORDER_SJF || o == ORDER_SRTF ? "c: " : "a: ";

				if (strncmp(got, want, 3))
					fail_msg("%s, order %d: %s", names[i], o, got);
			}
		}
	}
	fix_free(&f);
}

/* A long queue comes out in order: drain 60 jobs one by one. */
static void test_long_queue(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("lcf");
	char name[NAME_LEN];
	double last = 0;

	fix_init(&f, 1);
	fix_region(&f, 0, "r", 4, 0.1, 1e12);
	fix_model(&f, "m", 4, 4, 8, 1e6, 1e9);
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "j%02d", i);
		fix_job(&f, name, 0, 4, 1 + (i * 37) % 60, 0);
	}
	fix_ready(&f);
	s.has_order = true;
	s.order = ORDER_SJF;
	for (int left = 60; left; left--) {
		char got[64];
		int at = 0;

		snprintf(got, sizeof(got), "%.3s", fix_decide(&f, &s));
		while (strcmp(f.e.jobs[f.queued[at].job].name, got))
			at++;
		assert_true(f.e.jobs[f.queued[at].job].steps > last);
		last = f.e.jobs[f.queued[at].job].steps;
		memmove(&f.queued[at], &f.queued[at + 1], sizeof(f.queued[0]) * (size_t)(left - at - 1));
		f.q.n--;
	}
	fix_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_orders),
		cmocka_unit_test(test_priority),
		cmocka_unit_test(test_priority_of_equals),
		cmocka_unit_test(test_backfill),
		cmocka_unit_test(test_cross_product),
		cmocka_unit_test(test_long_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
