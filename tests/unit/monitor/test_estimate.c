/* Estimators on series whose answer is known: a link of 100 Mbit/s by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/common.h"
#include "harness/control/estimate.h"
#include "harness/control/internal.h"

#define RATE 100e6
#define MS 1000000ll

static void near_to(double value, double want, double fraction)
{
	if (!(fabs(value - want) <= fraction * fabs(want)))
		fail_msg("%.6g, wanted %.6g within %.1f %%", value, want, 100 * fraction);
}

/* ---- counters ---- */

/* A queue that sends `rate` while it is not empty. */
struct queue {
	double sent, backlog;
};

static void serve(struct queue *q, double rate, double seconds)
{
	double can = rate / 8 * seconds, does = q->backlog < can ? q->backlog : can;

	q->sent += does;
	q->backlog -= does;
}

static void test_counters_busy(void **state)
{
	struct estimate_counters c = { 0 };
	struct queue q = { .backlog = 1e9 };

	for (int i = 0; i < 10; i++) {
		bool fresh = estimate_counters(&c, i * 10 * MS, (uint64_t)q.sent, (uint64_t)q.backlog);

		assert_int_equal(fresh, i > 0);
		serve(&q, RATE, 0.01);
	}
	near_to(c.e.rate_bps, RATE, 1e-3);
	near_to(c.used_bps, RATE, 1e-3);
	assert_false(c.e.lower_bound);
	assert_int_equal(c.e.at_ns, 90 * MS);
}

/* Half of the rate passes and nothing ever waits: at least that much. */
static void test_counters_idle(void **state)
{
	struct estimate_counters c = { 0 };

	for (int i = 0; i < 10; i++)
		estimate_counters(&c, i * 10 * MS, (uint64_t)(i * RATE / 2 / 8 * 0.01), 0);
	assert_true(c.e.known && c.e.lower_bound);
	near_to(c.e.rate_bps, RATE / 2, 1e-3);
	/* Silence is no news: the estimate stays, and grows old. */
	for (int i = 10; i < 20; i++)
		assert_false(estimate_counters(&c, i * 10 * MS, (uint64_t)(9 * RATE / 2 / 8 * 0.01), 0));
	near_to(c.e.rate_bps, RATE / 2, 1e-3);
	assert_true(c.e.at_ns < 100 * MS);
	assert_true(c.used_bps == 0);
}

/* Messages with gaps between: an interval with a gap inside reads too low, the
 * most of the last four does not. Then the rate is halved: four busy intervals
 * later the view is right. */
static void test_counters_messages(void **state)
{
	struct estimate_counters c = { 0 };
	struct queue q = { 0 };
	double rate = RATE;
	int after = 0;

	for (int i = 0; i < 4000; i++) {
		if (i == 2000) {
			near_to(c.e.rate_bps, RATE, 0.02);
			rate = RATE / 2;
		}
		if (i % 100 == 0)
			q.backlog += 500000;	/* 40 ms at the full rate, every 100 ms */
		if (i % 7 == 0 && estimate_counters(&c, i * MS, (uint64_t)q.sent, (uint64_t)q.backlog) &&
		    i > 2000)
			after++;
		if (after == 5)
			near_to(c.e.rate_bps, RATE / 2, 0.02);
		serve(&q, rate, 0.001);
	}
	assert_true(after > 5);
	near_to(c.e.rate_bps, RATE / 2, 0.02);
}

/* What a token bucket lets through after a pause is no news; more than that is. */
static void test_counters_burst(void **state)
{
	struct estimate_counters c = { 0 };

	for (int i = 0; i < 5; i++)
		estimate_counters(&c, i * 10 * MS, (uint64_t)i * 125000, 1000000);
	near_to(c.e.rate_bps, RATE, 1e-9);
	assert_false(estimate_counters(&c, 50 * MS, 500000 + 128125, 0));
	near_to(c.e.rate_bps, RATE, 1e-9);
	assert_false(c.e.lower_bound);
	assert_true(estimate_counters(&c, 60 * MS, 628125 + 140000, 0));
	near_to(c.e.rate_bps, 1.12 * RATE, 1e-9);
	assert_true(c.e.lower_bound);
}

static void test_counters_anew(void **state)
{
	struct estimate_counters c = { 0 };

	estimate_counters(&c, 0, 1000000, 1);
	assert_true(estimate_counters(&c, 10 * MS, 1125000, 1));
	near_to(c.e.rate_bps, RATE, 1e-9);
	/* The class was made anew: less than before, no rate of minus so much. */
	assert_false(estimate_counters(&c, 20 * MS, 5000, 1));
	assert_true(estimate_counters(&c, 30 * MS, 130000, 1));
	near_to(c.e.rate_bps, RATE, 1e-9);
	/* The same moment twice says nothing. */
	assert_false(estimate_counters(&c, 30 * MS, 999999, 1));
}

/* ---- tcp_info ---- */

static void test_tcp_shared(void **state)
{
	struct estimate_tcp t = { .l2_per_goodput = 1514.0 / 1448 };

	/* Two sockets share the link evenly and always have more to send. */
	for (int i = 1; i <= 5; i++) {
		estimate_tcp_begin(&t, i * 10 * MS);
		for (uint64_t id = 1; id <= 2; id++)
			estimate_tcp_socket(&t, &(struct estimate_socket_sample){ .id = id,
				.acked_bytes = (uint64_t)i * 62500, .delivery_bps = 50000000, .unacked_segs = 10 });
		assert_int_equal(estimate_tcp_end(&t), i > 1);
	}
	near_to(t.e.rate_bps, RATE * 1514 / 1448, 1e-3);
	near_to(t.used_bps, RATE * 1514 / 1448, 1e-3);
	assert_false(t.e.lower_bound);
	/* Neither moves: no news. */
	estimate_tcp_begin(&t, 60 * MS);
	assert_false(estimate_tcp_end(&t));
	near_to(t.e.rate_bps, RATE * 1514 / 1448, 1e-3);
}

/* A message of less than the bandwidth-delay product: the kernel's rate counts
 * the round trip as time spent, what was acknowledged does not. */
static void test_tcp_short_messages(void **state)
{
	struct estimate_tcp t = { .l2_per_goodput = 1 };
	uint64_t acked = 0;

	for (int i = 1; i <= 40; i++) {
		bool arriving = i % 10 >= 4 && i % 10 < 6;	/* 20 ms of every 100 */

		acked += arriving ? 125000 : 0;
		estimate_tcp_begin(&t, i * 10 * MS);
		estimate_tcp_socket(&t, &(struct estimate_socket_sample){ .id = 7, .acked_bytes = acked,
			.delivery_bps = 33000000, .app_limited = true, .unacked_segs = i % 10 < 5 ? 5 : 0 });
		estimate_tcp_end(&t);
	}
	near_to(t.e.rate_bps, RATE, 1e-3);
}

static void test_tcp_limited_by_application(void **state)
{
	struct estimate_tcp t = { .l2_per_goodput = 1 };

	for (int i = 1; i <= 5; i++) {
		estimate_tcp_begin(&t, i * 10 * MS);
		estimate_tcp_socket(&t, &(struct estimate_socket_sample){ .id = 1,
			.acked_bytes = (uint64_t)i * 12500, .delivery_bps = 10000000, .app_limited = true });
		estimate_tcp_end(&t);
	}
	assert_true(t.e.known && t.e.lower_bound);
	near_to(t.e.rate_bps, RATE / 10, 1e-3);
}

/* More sockets than there are places: old ones make room. */
static void test_tcp_many(void **state)
{
	struct estimate_tcp t = { .l2_per_goodput = 1 };

	for (uint64_t i = 1; i <= 10 * ESTIMATE_SOCKETS; i++) {
		estimate_tcp_begin(&t, (int64_t)i * 10 * MS);
		estimate_tcp_socket(&t, &(struct estimate_socket_sample){ .id = i, .acked_bytes = 1000,
			.delivery_bps = 1000 });
		estimate_tcp_end(&t);
	}
	assert_int_equal(t.n_sockets, ESTIMATE_SOCKETS);
}

/* ---- probe ---- */

static void test_train_exact(void **state)
{
	int64_t at[32];
	double rate, error;

	/* The first three at once: the token bucket. */
	for (int i = 0; i < 32; i++)
		at[i] = i < 3 ? i * 1000 : (i - 2) * 121120;
	assert_true(estimate_train(at, 32, 1514, &rate, &error));
	near_to(rate, RATE, 1e-6);
	assert_true(error < 1e-6 * rate);
}

/* Released every 0.3 ms, as a delay line with that lateness does. */
static void test_train_clumped(void **state)
{
	int64_t at[64];
	double rate, error;

	for (int i = 0; i < 64; i++)
		at[i] = (i * 121120 + 299999) / 300000 * 300000;
	assert_true(estimate_train(at, 64, 1514, &rate, &error));
	near_to(rate, RATE, 0.02);
	assert_true(error > 0 && error < 0.05 * rate);
}

static void test_train_useless(void **state)
{
	int64_t same[16] = { 0 }, two[2] = { 0, 100 };
	double rate, error;

	assert_false(estimate_train(same, 16, 1514, &rate, &error));
	assert_false(estimate_train(two, 2, 1514, &rate, &error));
	assert_false(estimate_train(two, 0, 1514, &rate, &error));
}

static void train(int64_t *at, int n, double rate, struct bace_rng *r)
{
	at[0] = 0;
	for (int i = 1; i < n; i++)
		at[i] = at[i - 1] + (int64_t)(1514 * 8e9 / rate * (1 + 0.2 * (bace_rng_uniform(r) - 0.5)));
}

/* One train that went wrong does not move the median; a new rate does, with the
 * second train. */
static void test_probe_median(void **state)
{
	struct estimate_probe p = { 0 };
	struct bace_rng r;
	int64_t at[32];

	bace_rng_init(&r, 1, 0);
	for (int i = 0; i < 3; i++) {
		train(at, 32, RATE, &r);
		assert_true(estimate_probe(&p, i * 100 * MS, at, 32, 1514));
	}
	near_to(p.e.rate_bps, RATE, 0.03);
	train(at, 32, 10 * RATE, &r);
	estimate_probe(&p, 300 * MS, at, 32, 1514);
	near_to(p.e.rate_bps, RATE, 0.03);
	for (int i = 0; i < 3; i++) {
		train(at, 32, RATE / 2, &r);
		estimate_probe(&p, (400 + i * 100) * MS, at, 32, 1514);
		if (i == 1)
			near_to(p.e.rate_bps, RATE / 2, 0.03);
	}
}

/* ---- clock ---- */

/* The other clock is 5 s ahead. Queues on the way there, or back, shift a middle
 * by half of what they cost: the quickest exchange has the least of it. */
static void test_clock(void **state)
{
	struct host_clock k = { 0 };
	int64_t ahead = 5000 * MS;

	assert_true(clock_take(&k, 0, ahead + 30 * MS, 40 * MS));	/* 30 there, 10 back */
	assert_int_equal(k.offset_ns, ahead + 10 * MS);
	assert_int_equal(k.rtt_ns, 40 * MS);
	assert_true(llabs(k.offset_ns - ahead) <= k.rtt_ns / 2);
	assert_false(clock_take(&k, 100 * MS, ahead + 110 * MS, 150 * MS));
	assert_true(clock_take(&k, 200 * MS, ahead + 210 * MS, 221 * MS));
	assert_int_equal(k.rtt_ns, 21 * MS);
	assert_true(llabs(k.offset_ns - ahead) <= k.rtt_ns / 2);
	/* A clock that went backwards is no exchange. */
	assert_false(clock_take(&k, 300 * MS, ahead, 299 * MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counters_busy), cmocka_unit_test(test_counters_idle),
		cmocka_unit_test(test_counters_messages), cmocka_unit_test(test_counters_anew), cmocka_unit_test(test_counters_burst),
		cmocka_unit_test(test_tcp_shared), cmocka_unit_test(test_tcp_short_messages),
		cmocka_unit_test(test_tcp_limited_by_application), cmocka_unit_test(test_tcp_many),
		cmocka_unit_test(test_train_exact), cmocka_unit_test(test_train_clumped),
		cmocka_unit_test(test_train_useless), cmocka_unit_test(test_probe_median),
		cmocka_unit_test(test_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
