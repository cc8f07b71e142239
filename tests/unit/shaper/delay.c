#include "tests/unit/shaper/support.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "shaper/delay/fate.h"
#include "shaper/delay/lateness.h"
#include "shaper/delay/rules.h"
#include "shaper/delay/schedule.h"
#include "shaper/jitter.h"

static void packets_leave_by_due_time_across_links(void **state)
{
	struct delay_schedule s;
	struct held_packet p;
	struct bace_rng r;
	int64_t last = 0;
	uint32_t next_id[5] = { 0 };
	size_t n = 0;

	bace_rng_init(&r, 5, 0);
	assert_int_equal(delay_schedule_init(&s, 5), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		int link = (int)bace_rng_below(&r, 5);

		assert_int_equal(delay_schedule_push(&s, link, (int64_t)bace_rng_below(&r, 1000000), (uint32_t)link << 24 | i), 0);
		if (i % 3 == 0 && delay_schedule_pop(&s, delay_schedule_next_ns(&s), &p))
			n++;
	}
	while (delay_schedule_pop(&s, INT64_MAX - 1, &p)) {
		uint32_t link = p.id >> 24;

		assert_true(p.due_ns >= last);
		last = p.due_ns;
		/* Within a link in the order in which they came. */
		assert_true((p.id & 0xffffff) >= next_id[link]);
		next_id[link] = p.id & 0xffffff;
		n++;
	}
	assert_int_equal(n, 20000);
	assert_int_equal(delay_schedule_next_ns(&s), INT64_MAX);
	delay_schedule_free(&s);
}

/* A delay that falls from 80 to 20 ms must not let new packets overtake. */
static void a_falling_delay_keeps_order(void **state)
{
	struct delay_schedule s;
	struct held_packet p;

	assert_int_equal(delay_schedule_init(&s, 1), 0);
	delay_schedule_push(&s, 0, 80, 1);
	delay_schedule_push(&s, 0, 21, 2);
	delay_schedule_push(&s, 0, 90, 3);
	assert_false(delay_schedule_pop(&s, 79, &p));
	assert_true(delay_schedule_pop(&s, 80, &p));
	assert_int_equal(p.id, 1);
	assert_true(delay_schedule_pop(&s, 80, &p));
	assert_int_equal(p.id, 2);
	assert_false(delay_schedule_pop(&s, 89, &p));
	delay_schedule_free(&s);
}

static void held_packets_move_to_a_new_schedule(void **state)
{
	struct delay_schedule a, b;
	struct held_packet p;

	assert_int_equal(delay_schedule_init(&a, 2), 0);
	assert_int_equal(delay_schedule_init(&b, 3), 0);
	for (uint32_t i = 0; i < 200; i++)
		delay_schedule_push(&a, 1, 100 + i, i);
	assert_int_equal(delay_schedule_move(&a, 1, &b, 2), 0);
	for (uint32_t i = 0; i < 200; i++) {
		assert_true(delay_schedule_pop(&b, 1000, &p));
		assert_int_equal(p.id, i);
		assert_int_equal(p.due_ns, 100 + i);
	}
	delay_schedule_free(&a);
	delay_schedule_free(&b);
}

static struct fate fate_of(struct shape_link *l)
{
	struct fate f;
	int n;
	const int16_t *table = jitter_table(l->jitter_dist, &n);

	memset(&f, 0, sizeof(f));
	l->impair.seed = 42;
	fate_configure(&f, l, table, n, true);
	return f;
}

/* 1 % of 200,000: mean 2000, standard deviation 44.5; 99 % within 2.576 of it. */
static void random_loss_is_binomial(void **state)
{
	struct shape_link l = { .loss = 0.01 };
	struct fate f = fate_of(&l);
	int lost = 0;

	for (int i = 0; i < 200000; i++)
		lost += fate_lost(&f);
	assert_in_range(lost, 2000 - 115, 2000 + 115);
}

/* Share of time in the bad state p/(p+r); lost there with 1-h. */
static void gilbert_elliott_has_its_stationary_loss(void **state)
{
	struct shape_link l = { .impair = { .loss_model = LOSS_GILBERT_ELLIOTT, .loss_p = { 0.01, 0.09, 0.5, 0 } } };
	struct fate f = fate_of(&l);
	int lost = 0, n = 400000;

	for (int i = 0; i < n; i++)
		lost += fate_lost(&f);
	assert_true(fabs((double)lost / n - 0.1 * 0.5) < 0.004);
}

static void the_four_state_model_loses_in_bursts(void **state)
{
	/* p13 = 0.01, p31 = 0.2, no gaps within bursts, p14 = 0: share p13/(p13+p31). */
	struct shape_link l = { .impair = { .loss_model = LOSS_4STATE, .loss_p = { 0.01, 0.2, 0, 0, 0 } } };
	struct fate f = fate_of(&l);
	int lost = 0, runs = 0, n = 400000;
	bool before = false;

	for (int i = 0; i < n; i++) {
		bool now = fate_lost(&f);

		lost += now;
		runs += now && !before;
		before = now;
	}
	assert_true(fabs((double)lost / n - 0.01 / 0.21) < 0.003);
	assert_true(fabs((double)lost / runs - 5) < 0.3);
}

static void jitter_spreads_around_the_latency(void **state)
{
	struct shape_link l = { .latency_ns = 20000000, .jitter_ns = 2000000, .jitter_dist = JITTER_NORMAL };
	struct fate f = fate_of(&l);
	double sum = 0, squares = 0;
	int n = 100000;

	for (int i = 0; i < n; i++) {
		double d = (double)(fate_delay_ns(&f) - 20000000) / 1e6;

		sum += d;
		squares += d * d;
	}
	assert_true(fabs(sum / n) < 0.03);
	assert_true(fabs(sqrt(squares / n) - 2) < 0.03);
}

static void the_same_seed_gives_the_same_fates(void **state)
{
	struct shape_link l = { .latency_ns = 20000000, .jitter_ns = 1000000, .jitter_dist = JITTER_UNIFORM, .loss = 0.5 };
	struct fate a = fate_of(&l), b = fate_of(&l);

	for (int i = 0; i < 1000; i++) {
		assert_int_equal(fate_lost(&a), fate_lost(&b));
		assert_int_equal(fate_delay_ns(&a), fate_delay_ns(&b));
	}
}

static void reordered_packets_go_at_once(void **state)
{
	struct shape_link l = { .latency_ns = 1000, .impair = { .reorder = 0.25 } };
	struct fate f = fate_of(&l);
	int at_once = 0;

	for (int i = 0; i < 40000; i++)
		at_once += !fate_delay_ns(&f);
	assert_in_range(at_once, 9700, 10300);
}

/* Runs of packets that overtake: 2 at a half without correlation; with 0.9 the
 * numbers cross the half with probability acos(0.9)/pi = 0.144, so about 7. */
static void correlated_overtaking_comes_in_runs(void **state)
{
	static const double corr[] = { 0, 0.9 }, mean[] = { 2, 7 };

	for (size_t k = 0; k < ARRAY_LEN(corr); k++) {
		struct shape_link l = { .latency_ns = 1000, .impair = { .reorder = 0.5, .reorder_corr = corr[k] } };
		struct fate f = fate_of(&l);
		int at_once = 0, runs = 0;
		bool before = false;

		for (int i = 0; i < 100000; i++) {
			bool now = !fate_delay_ns(&f);

			at_once += now;
			runs += now && !before;
			before = now;
		}
		assert_true(fabs((double)at_once / runs / mean[k] - 1) < 0.15);
	}
}

static void what_a_delay_line_cannot_do_is_refused(void **state)
{
	struct bace_err e;

	assert_int_equal(fate_check(&(struct shape_link){ .impair.duplicate = 0.1 }, &e), -ENOTSUP);
	assert_non_null(strstr(e.msg, "duplicate"));
	assert_int_equal(fate_check(&(struct shape_link){ .impair.corrupt = 0.1 }, &e), -ENOTSUP);
	assert_int_equal(fate_check(&(struct shape_link){ .impair.ecn = true }, &e), -ENOTSUP);
	assert_int_equal(fate_check(&(struct shape_link){ .loss = 0.1, .impair.reorder = 0.1 }, &e), 0);
}

static void quantiles_are_right_within_a_bucket(void **state)
{
	static struct lateness l;

	assert_int_equal(lateness_quantile_ns(&l, 0.99), 0);
	for (int i = 1; i <= 100000; i++)
		lateness_add(&l, i * 10);
	assert_true(fabs((double)lateness_quantile_ns(&l, 0.99) / 990000 - 1) < 0.035);
	assert_true(fabs((double)lateness_quantile_ns(&l, 0.5) / 500000 - 1) < 0.035);
	assert_int_equal(lateness_quantile_ns(&l, 1), 1000000);
	lateness_add(&l, -5);
	lateness_add(&l, INT64_MAX);
	assert_int_equal(l.max_ns, INT64_MAX);
}

static void rules_name_prefixes_and_close_or_bypass(void **state)
{
	struct shape_link l[2];
	struct shape_spec s = test_spec(l, 2);
	struct bace_buf b = { 0 };

	l[1].prefixes[0] = (struct shape_prefix){ .family = AF_INET6, .len = 32, .addr = { 0xfd, 0, 0, 0x11 } };
	s.fail_closed = true;
	assert_int_equal(delay_rules_text(&s, AF_INET, true, &b), 0);
	assert_string_equal(b.p, "*mangle\n:BACE-DELAY - [0:0]\n-A PREROUTING -i wan0 -j BACE-DELAY\n"
				 "-A BACE-DELAY -s 10.16.0.0/16 -j NFQUEUE --queue-num 47822\nCOMMIT\n");
	bace_buf_free(&b);
	s.fail_closed = false;
	assert_int_equal(delay_rules_text(&s, AF_INET6, false, &b), 0);
	assert_string_equal(b.p, "*mangle\n:BACE-DELAY - [0:0]\n"
				 "-A BACE-DELAY -s fd00:11::/32 -j NFQUEUE --queue-num 47822 --queue-bypass\nCOMMIT\n");
	bace_buf_free(&b);
}

static void a_rule_that_is_gone_is_missed(void **state)
{
	static const char saved[] = "*mangle\n:PREROUTING ACCEPT [0:0]\n:BACE-DELAY - [0:0]\n-A PREROUTING -i wan0 -j BACE-DELAY\n"
				    "-A BACE-DELAY -s 10.16.0.0/16 -j NFQUEUE --queue-num 47822\n"
				    "-A BACE-DELAY -s 10.17.0.0/16 -j NFQUEUE --queue-num 47822\nCOMMIT\n";

	assert_true(delay_rules_in(saved, "wan0", 2));
	assert_false(delay_rules_in(saved, "wan0", 3));
	assert_false(delay_rules_in(saved, "wan0", 1));
	assert_false(delay_rules_in(saved, "wan", 2));
	assert_false(delay_rules_in(saved, "wan01", 2));
	assert_false(delay_rules_in("", "wan0", 0));
	assert_false(delay_rules_in("*mangle\n:BACE-DELAY - [0:0]\n-A BACE-DELAY -j NFQUEUE --queue-num 47822\nCOMMIT\n", "wan0", 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_leave_by_due_time_across_links),
		cmocka_unit_test(a_falling_delay_keeps_order),
		cmocka_unit_test(held_packets_move_to_a_new_schedule),
		cmocka_unit_test(random_loss_is_binomial),
		cmocka_unit_test(gilbert_elliott_has_its_stationary_loss),
		cmocka_unit_test(the_four_state_model_loses_in_bursts),
		cmocka_unit_test(jitter_spreads_around_the_latency),
		cmocka_unit_test(the_same_seed_gives_the_same_fates),
		cmocka_unit_test(reordered_packets_go_at_once),
		cmocka_unit_test(correlated_overtaking_comes_in_runs),
		cmocka_unit_test(what_a_delay_line_cannot_do_is_refused),
		cmocka_unit_test(quantiles_are_right_within_a_bucket),
		cmocka_unit_test(rules_name_prefixes_and_close_or_bypass),
		cmocka_unit_test(a_rule_that_is_gone_is_missed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
