/* Trace files: what is taken and what is refused, with the line. */
#include "tests/unit/shaper/support.h"

#include <errno.h>
#include <stdlib.h>

static struct shape_trace good(const char *text, int64_t bin_ns)
{
	struct shape_trace t;
	struct bace_err e;

	if (shape_trace_parse(text, strlen(text), "t.csv", bin_ns, &t, &e))
		fail_msg("%s", e.msg);
	return t;
}

static void bad(const char *text, const char *says)
{
	struct shape_trace t;
	struct bace_err e = { 0 };

	assert_int_equal(shape_trace_parse(text, strlen(text), "t.csv", 0, &t, &e), -EINVAL);
	assert_null(t.v);
	if (!strstr(e.msg, says) || strchr(e.msg, '\n'))
		fail_msg("`%s' does not say `%s'", e.msg, says);
}

static void csv_with_units_and_gaps(void **state)
{
	struct shape_trace t = good("# a comment\n t_s , rate,latency,loss\n0,20mbit,10ms,0\n\n0.5,,12.5ms,\r\n2,1gbit,,1.5%\n", 0);

	assert_int_equal(t.n, 3);
	assert_int_equal(t.v[0].to.set, SHAPE_SET_RATE | SHAPE_SET_LATENCY | SHAPE_SET_LOSS);
	assert_int_equal(t.v[0].to.rate_bps, 20000000);
	assert_int_equal(t.v[1].at_ns, 500000000);
	assert_int_equal(t.v[1].to.set, SHAPE_SET_LATENCY);
	assert_int_equal(t.v[1].to.latency_ns, 12500000);
	assert_int_equal(t.v[2].to.set, SHAPE_SET_RATE | SHAPE_SET_LOSS);
	assert_true(t.v[2].to.loss > 0.01499 && t.v[2].to.loss < 0.01501);
	/* The last line lasts as long as the one before it. */
	assert_int_equal(t.period_ns, 3500000000);
	assert_int_equal(shape_trace_sets(&t), SHAPE_SET_RATE | SHAPE_SET_LATENCY | SHAPE_SET_LOSS);
	shape_trace_free(&t);
}

static void plain_numbers_have_their_unit_in_the_column(void **state)
{
	struct shape_trace t = good("latency_ms,t_s,rate_mbit\n38.2,1,2.5\n", 0);

	assert_int_equal(t.n, 1);
	assert_int_equal(t.v[0].at_ns, 1000000000);
	assert_int_equal(t.v[0].to.latency_ns, 38200000);
	assert_int_equal(t.v[0].to.rate_bps, 2500000);
	/* One line has no length: it cannot be looped. */
	assert_int_equal(t.period_ns, 0);
	shape_trace_free(&t);
	t = good("t_s,rate_bps,latency_s\n0,100000000000,0.25\n", 0);
	assert_int_equal(t.v[0].to.rate_bps, 100000000000);
	assert_int_equal(t.v[0].to.latency_ns, 250000000);
	shape_trace_free(&t);
}

static void bad_csv_is_refused_with_its_line(void **state)
{
	bad("", "t.csv: an empty trace");
	bad("\n# nothing\n", "an empty trace");
	bad("t_s,rate\n", "no line after");
	bad("t_s\n0\n", "nothing to change");
	bad("rate,latency\n1mbit,1ms\n", "no column `t_s'");
	bad("t_s,rte\n0,1mbit\n", "did you mean `rate'");
	bad("t_s,rate,rate\n0,1mbit,1mbit\n", "twice");
	bad("t_s,rate,rate_mbit\n0,1mbit,1\n", "different units");
	bad("t_s,rate\n0,20mbit\n1,30mbit\n0.5,10mbit\n", "t.csv:4: t_s = 0.5: time goes backwards");
	bad("t_s,rate\n0,20mbit\n0,30mbit\n", "two lines for one time");
	bad("t_s,rate\n-1,20mbit\n", "t.csv:2: t_s = `-1'");
	bad("t_s,rate\nnan,20mbit\n", "nan");
	bad("t_s,rate\n1e999,20mbit\n", "t_s");
	bad("t_s,rate\n,20mbit\n", "t_s");
	bad("t_s,rate\n0,20\n", "rate");
	bad("t_s,rate\n0,10Gb\n", "rate");
	bad("t_s,rate\n0,1e400gbit\n", "rate");
	bad("t_s,rate\n0,0bit\n", "outage");
	bad("t_s,rate_mbit\n0,nan\n", "rate_mbit");
	bad("t_s,rate_mbit\n0,5000001\n", "4 Tbit/s");
	bad("t_s,latency_ms\n0,61000\n", "0 to 60 s");
	bad("t_s,loss\n0,1.01\n", "loss");
	bad("t_s,loss\n0,101%\n", "loss");
	bad("t_s,loss\n0,-0.1\n", "loss");
	bad("t_s,loss\n0,0.1,7\n", "more than 2 fields");
	bad("t_s,rate,loss\n0,1mbit\n", "2 fields: the first line names 3");
	bad("0,1mbit\n", "must name the columns");
}

static void deliveries_become_rates(void **state)
{
	/* 100 ms: 4 packets, an outage of 200 ms, then 2 packets in 50 ms. */
	struct shape_trace t = good("10\n50\n50\n100\n310\n350\n", 0);

	assert_int_equal(t.n, 3);
	assert_int_equal(t.v[0].at_ns, 0);
	assert_int_equal(t.v[0].to.rate_bps, 4 * 1514 * 8 * 10);
	assert_int_equal(t.v[1].at_ns, 100000000);
	/* One packet passes, which takes the whole outage. */
	assert_int_equal(t.v[1].to.rate_bps, 1514 * 8 * 5);
	assert_int_equal(t.outages, 1);
	assert_int_equal(t.v[2].at_ns, 300000000);
	assert_int_equal(t.v[2].to.rate_bps, 2 * 1514 * 8 * 20);
	assert_int_equal(t.period_ns, 350000000);
	shape_trace_free(&t);
	/* Steady deliveries are one rate. */
	t = good("1\n2\n3\n4\n5\n6\n7\n8\n", 2000000);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.v[0].to.rate_bps, 1514 * 8 * 1000);
	shape_trace_free(&t);
}

static void bad_deliveries_are_refused(void **state)
{
	bad("5\n4\n", "t.csv:2: 4: time goes backwards");
	bad("5\nx\n", "t.csv:2");
	bad("5.5\n", "whole milliseconds");
	bad("-5\n", "whole milliseconds");
	bad("0\n0\n", "no time in this trace");
	bad("99999999999999999999\n", "whole milliseconds");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_with_units_and_gaps),
		cmocka_unit_test(plain_numbers_have_their_unit_in_the_column),
		cmocka_unit_test(bad_csv_is_refused_with_its_line),
		cmocka_unit_test(deliveries_become_rates),
		cmocka_unit_test(bad_deliveries_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
