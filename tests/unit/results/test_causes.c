/* Why messages are slow: by hand, and from rows that labs recorded. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/common.h"
#include "results/causes.h"
#include "results/spans.h"

static void near(double got, double want)
{
	if (!(fabs(got - want) < 1e-9))
		fail_msg("%.12g is not %.12g", got, want);
}

/* One message of 100 kB over 20 Mbit/s (40 ms) and a round trip of 80 ms, which
 * holds 200 kB: 1 s late. */
static struct slow_flow flow(void)
{
	return (struct slow_flow){ .late_s = 1, .extra_s = 1, .known = true, .window_bytes = 300e3, .rtt_s = 0.08,
		.messages = 1, .message_bytes = 100e3, .goodput_bps = 20e6 };
}

static void one_cause_each(void **state)
{
	struct slow_flow f = flow();
	double part[SLOW_CAUSES];

	slow_split(&f, part);
	near(part[SLOW_OTHER], 1);
	f = flow();
	f.limited_s = 1.5;	/* held up also in what was planned */
	slow_split(&f, part);
	near(part[SLOW_BUFFER], 1);
	f = flow();
	f.others_s = 1;
	slow_split(&f, part);
	near(part[SLOW_CONTENTION], 1);
	f = flow();
	f.window_bytes = 14480;
	slow_split(&f, part);
	near(part[SLOW_CWND], 1);
	f = flow();
	f.retrans_bytes = 1448;	/* and then a time-out */
	slow_split(&f, part);
	near(part[SLOW_RETRANSMISSION], 1);
}

/* A window that holds the message, or the path, limits nothing. */
static void windows_that_suffice(void **state)
{
	double enough[] = { 100e3, 200e3 };
	double part[SLOW_CAUSES];

	for (size_t i = 0; i < ARRAY_LEN(enough); i++) {
		struct slow_flow f = flow();

		f.message_bytes = i ? 1e6 : 100e3;
		f.window_bytes = enough[i];
		slow_split(&f, part);
		near(part[SLOW_CWND], 0);
		near(part[SLOW_OTHER], 1);
		f.window_bytes = enough[i] - 1;
		slow_split(&f, part);
		near(part[SLOW_CWND], 1);
	}
}

static void several_at_once(void **state)
{
	struct slow_flow f = flow();
	double part[SLOW_CAUSES];

	/* 0.3 s of buffer, 0.2 s of others, 0.5 s that nothing explains. */
	f.limited_s = 0.3;
	f.others_s = 0.2;
	slow_split(&f, part);
	near(part[SLOW_BUFFER], 0.3);
	near(part[SLOW_CONTENTION], 0.2);
	near(part[SLOW_OTHER], 0.5);
	/* More than there is: in proportion. */
	f.limited_s = 3;
	f.others_s = 1;
	slow_split(&f, part);
	near(part[SLOW_BUFFER], 0.75);
	near(part[SLOW_CONTENTION], 0.25);
	/* Of all messages 2 s longer, half of them what a step waited for. */
	f.extra_s = 2;
	f.limited_s = 0.4;
	f.others_s = 0;
	slow_split(&f, part);
	near(part[SLOW_BUFFER], 0.2);
	near(part[SLOW_OTHER], 0.8);
}

/* A lost segment of a message: a round trip of 0.08 s and 1448 bytes again; a
 * window of 20 kB sends 20, 40 and 80 kB with pauses of 0.072 and 0.064 s. */
static void loss_and_a_window_cut(void **state)
{
	struct slow_flow f = flow();
	double part[SLOW_CAUSES], again = 0.08 + 1448 * 8 / 20e6;

	f.retrans_bytes = 1448;
	f.window_bytes = 20e3;
	f.late_s = f.extra_s = 0.5;
	slow_split(&f, part);
	near(part[SLOW_CWND], 0.072 + 0.064);
	near(part[SLOW_RETRANSMISSION], 0.5 - part[SLOW_CWND]);
	assert_true(part[SLOW_RETRANSMISSION] > again);
	/* Many segments of one message cost one round trip. */
	f.window_bytes = 300e3;
	f.retrans_bytes = 10 * 1448;
	f.late_s = f.extra_s = 0.01;
	slow_split(&f, part);
	near(part[SLOW_RETRANSMISSION], 0.01);
}

static void early_or_unknown(void **state)
{
	struct slow_flow f = flow();
	double part[SLOW_CAUSES];

	f.late_s = -0.2;
	f.limited_s = 1;
	slow_split(&f, part);
	near(part[SLOW_OTHER], -0.2);
	near(part[SLOW_BUFFER], 0);
	assert_int_equal(slow_main_cause(part), SLOW_CAUSES);
	f = flow();
	f.known = false;
	f.limited_s = 1;
	f.others_s = 0.4;
	slow_split(&f, part);
	near(part[SLOW_BUFFER], 0);
	near(part[SLOW_CONTENTION], 0.4);
	near(part[SLOW_OTHER], 0.6);
	assert_int_equal(slow_main_cause(part), SLOW_OTHER);
}

/* Rows of one hop and step of labs in which that cause was provoked, one link of
 * 20 Mbit/s, messages of 100 kB: what the store had of them. */
static void recorded(void **state)
{
	static const struct {
		enum slow_cause cause;
		struct slow_flow f;
	} rows[] = {
		{ SLOW_RETRANSMISSION, { 1.55931, 1.67744, 1, 0, 11584, 4344, 0.079841, 0, 2, 100000, 19128137 } },
		{ SLOW_RETRANSMISSION, { 3.40654, 3.72452, 1, 0, 15928, 2896, 0.079855, 0, 3, 100028, 19128137 } },
		{ SLOW_CONTENTION, { 0.146979, 0.146979, 1, 0, 0, 364896, 0.079922, 0.146451, 6, 100000, 19128137 } },
		{ SLOW_CONTENTION, { 0.0988517, 0.0988517, 1, 0, 0, 419920, 0.079922, 0.0956479, 6, 100000, 19128137 } },
		{ SLOW_CWND, { 0.143689, 0.160288, 1, 0, 0, 14480, 0.080224, 0, 2, 100000, 19128137 } },
		{ SLOW_CWND, { 0.142645, 0.145666, 1, 0, 0, 14480, 0.080217, 0, 3, 100028, 19128137 } },
		{ SLOW_BUFFER, { 1.53671, 1.65485, 1, 1.852, 0, 305528, 0.079839, 0, 2, 100000, 19128137 } },
		{ SLOW_BUFFER, { 2.87486, 3.19287, 1, 1.86, 0, 305528, 0.079807, 0, 3, 100028, 19128137 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		double part[SLOW_CAUSES], sum = 0;

		slow_split(&rows[i].f, part);
		assert_int_equal(slow_main_cause(part), rows[i].cause);
		for (int k = 0; k < SLOW_CAUSES; k++)
			sum += part[k];
		near(sum, rows[i].f.late_s);
	}
}

static void intervals(void **state)
{
	struct spans a = { 0 }, b = { 0 };

	assert_int_equal(spans_add(&a, 5, 6), 0);
	assert_int_equal(spans_add(&a, 1, 3), 0);
	assert_int_equal(spans_add(&a, 2, 4), 0);
	assert_int_equal(spans_add(&a, 7, 7), 0);
	near(spans_merge(&a), 4);
	assert_int_equal(a.n, 2);
	assert_int_equal(spans_add(&b, 0, 1.5), 0);
	assert_int_equal(spans_add(&b, 3.5, 5.5), 0);
	spans_merge(&b);
	near(spans_common(&a, &b), 0.5 + 0.5 + 0.5);
	near(spans_common(&b, &a), 1.5);
	spans_free(&a);
	near(spans_common(&a, &b), 0);
	spans_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(one_cause_each), cmocka_unit_test(windows_that_suffice),
		cmocka_unit_test(several_at_once), cmocka_unit_test(loss_and_a_window_cut),
		cmocka_unit_test(early_or_unknown), cmocka_unit_test(recorded), cmocka_unit_test(intervals) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
