#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/common.h"

struct good {
	const char *text;
	uint64_t value;
};

struct bad {
	const char *text;
	const char *said;	/* must be part of the message */
	int errnum;
};

static const struct good good_rates[] = {
	{ "25gbit", 25000000000 },
	{ "25Gbit/s", 25000000000 },
	{ "4.24 Gbit/s", 4240000000 },
	{ "2.5mbit", 2500000 },
	{ "800kbit", 800000 },
	{ "1500bit", 1500 },
	{ "1.6tbit", 1600000000000 },
	{ "  100mbit ", 100000000 },
	{ "0bit", 0 },
	/* beyond 32 bits of bytes, and beyond what a double holds exactly */
	{ "34.359738369gbit", 34359738369 },
	{ "9007199254740993bit", UINT64_C(9007199254740993) },
	{ "9007199.254740993gbit", UINT64_C(9007199254740993) },
	{ "18446744073709551615bit", UINT64_MAX },
};

static const struct bad bad_rates[] = {
	{ "10Gb", "ambiguous (bits or bytes?): write 10gbit", 22 },
	{ "25 gbps", "write 25gbit", 22 },
	{ "3GB/s", "write 3gbit", 22 },
	{ "1M", "write 1mbit", 22 },
	{ "1e400gbit", "has an exponent", 22 },
	{ "1e3mbit", "has an exponent", 22 },
	{ "-5gbit", "negative: write a rate like 25gbit", 22 },
	{ "+5gbit", "has a sign: write 5gbit", 22 },
	{ "25", "has no unit: write 25 followed by one of bit, kbit, mbit, gbit, tbit", 22 },
	{ "25 ", "has no unit", 22 },
	{ "", "empty: write a rate like 25gbit", 22 },
	{ "gbit", "does not begin with a number", 22 },
	{ "inf", "not a finite number", 22 },
	{ "NaN gbit", "not a finite number", 22 },
	{ "1,5gbit", "has a comma", 22 },
	{ "1.gbit", "no digit after the point", 22 },
	{ ".5gbit", "does not begin with a number", 22 },
	{ "1..5gbit", "no digit after the point", 22 },
	{ "0x10gbit", "unknown unit", 22 },
	{ "10gibt", "write 10gbit", 22 },
	{ "10furlong", "use one of bit, kbit", 22 },
	{ "10gbit per second and then some more text", "unknown unit", 22 },
	{ "0.1bit", "less than 1 bit/s", 22 },
	{ "0.0000000000001tbit", "more than 12 decimals", 22 },
	{ "18446744073709551616bit", "too large", 34 },
	{ "99999999999999999999999999999999999999999999gbit", "too large", 34 },
	{ "18446744073709551615tbit", "too large", 34 },
};

static const struct good good_times[] = {
	{ "38.2ms", 38200000 }, { "38.225ms", 38225000 }, { "1.5s", 1500000000 },
	{ "200us", 200000 },	{ "200µs", 200000 },	  { "15ns", 15 },
	{ "2h", 7200000000000 }, { "3min", 180000000000 }, { "1d", 86400000000000 },
	{ "0s", 0 },		{ "1.5ns", 2 },		  { "9223372036854775807ns", INT64_MAX },
};

static const struct bad bad_times[] = {
	{ "5", "has no unit: write 5 followed by one of ns, us, ms, s, min, h, d", 22 },
	{ "5m", "write 5min", 22 },
	{ "5 sec", "write 5s", 22 },
	{ "5MS", "write 5ms", 22 },
	{ "-1ms", "negative", 22 },
	{ "0.4ns", "less than 1 ns", 22 },
	{ "9223372036854775808ns", "too large: at most 106751 days", 34 },
	{ "106752d", "too large", 34 },
};

static const struct good good_sizes[] = {
	{ "500kB", 500000 },	{ "4MB", 4000000 },  { "1.5GB", 1500000000 },
	{ "64KiB", 65536 },	{ "1MiB", 1048576 }, { "2GiB", UINT64_C(2147483648) },
	{ "1500B", 1500 },	{ "38 GB", UINT64_C(38000000000) },
	{ "1TiB", UINT64_C(1099511627776) }, { "0.5KiB", 512 },
};

static const struct bad bad_sizes[] = {
	{ "500", "has no unit", 22 },
	{ "10Gb", "ambiguous (bits or bytes?): write 10GB for bytes", 22 },
	{ "500KB", "write 500kB", 22 },
	{ "3kib", "write 3KiB", 22 },
	{ "3M", "write 3MB", 22 },
	{ "25gbit", "unknown unit", 22 },
	{ "16777217TiB", "too large", 34 },
};

static void expect_bad(const struct bad *b, int rc, const struct bace_err *e)
{
	if (rc != -b->errnum || e->errnum != b->errnum || !strstr(e->msg, b->said))
		fail_msg("\"%s\": %d \"%s\", expected %d \"%s\"", b->text, rc, e->msg, -b->errnum, b->said);
}

static void test_rates(void **state)
{
	struct bace_err e;
	uint64_t v;

	for (size_t i = 0; i < ARRAY_LEN(good_rates); i++) {
		if (bace_parse_rate_bps(good_rates[i].text, &v, &e))
			fail_msg("\"%s\": %s", good_rates[i].text, e.msg);
		assert_int_equal(v, good_rates[i].value);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad_rates); i++) {
		v = 77;
		expect_bad(&bad_rates[i], bace_parse_rate_bps(bad_rates[i].text, &v, &e), &e);
		assert_int_equal(v, 77);
	}
	assert_int_equal(bace_parse_rate_bps("x", &v, NULL), -22);
}

static void test_times(void **state)
{
	struct bace_err e;
	int64_t v;

	for (size_t i = 0; i < ARRAY_LEN(good_times); i++) {
		if (bace_parse_time_ns(good_times[i].text, &v, &e))
			fail_msg("\"%s\": %s", good_times[i].text, e.msg);
		assert_int_equal(v, good_times[i].value);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad_times); i++)
		expect_bad(&bad_times[i], bace_parse_time_ns(bad_times[i].text, &v, &e), &e);
}

static void test_sizes(void **state)
{
	struct bace_err e;
	uint64_t v;

	for (size_t i = 0; i < ARRAY_LEN(good_sizes); i++) {
		if (bace_parse_size_bytes(good_sizes[i].text, &v, &e))
			fail_msg("\"%s\": %s", good_sizes[i].text, e.msg);
		assert_int_equal(v, good_sizes[i].value);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad_sizes); i++)
		expect_bad(&bad_sizes[i], bace_parse_size_bytes(bad_sizes[i].text, &v, &e), &e);
}

static void test_whole(void **state)
{
	static const char *const bad[] = { "", "x", "1x", "1.0", "-1", "+1", " 1", "1 ", "0x10", "18446744073709551616",
		"2", "4294967297" };
	uint64_t v = 77;
	int n = 77;

	assert_true(bace_parse_whole("18446744073709551615", 0, UINT64_MAX, &v) && v == UINT64_MAX);
	assert_true(bace_parse_int("2147483647", 1, INT_MAX, &n) && n == INT_MAX);
	assert_true(bace_parse_int("3", 3, 5, &n) && n == 3);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (bace_parse_int(bad[i], 3, INT_MAX, &n))
			fail_msg("`%s'", bad[i]);
	assert_int_equal(n, 3);
}

static void test_formats(void **state)
{
	char b[BACE_FMT_MAX];

	assert_string_equal(bace_fmt_rate(b, 4.24e9), "4.24 Gbit/s");
	assert_string_equal(bace_fmt_rate(b, 999.96e6), "1 Gbit/s");
	assert_string_equal(bace_fmt_rate(b, 1500), "1.5 kbit/s");
	assert_string_equal(bace_fmt_rate(b, 0), "0 bit/s");
	assert_string_equal(bace_fmt_rate(b, -2e6), "-2 Mbit/s");
	assert_string_equal(bace_fmt_time(b, 0.0382), "38.2 ms");
	assert_string_equal(bace_fmt_time(b, 0), "0 s");
	assert_string_equal(bace_fmt_time(b, 15e-9), "15 ns");
	assert_string_equal(bace_fmt_time(b, 0.99999999), "1 s");
	assert_string_equal(bace_fmt_time(b, 119), "119 s");
	assert_string_equal(bace_fmt_time(b, 150), "2.5 min");
	assert_string_equal(bace_fmt_time(b, 3 * 3600.0), "3 h");
	assert_string_equal(bace_fmt_time(b, 7 * 86400.0), "7 d");
	assert_string_equal(bace_fmt_size(b, 500e3), "500 kB");
	assert_string_equal(bace_fmt_size(b, 41943040), "41.94 MB");
	assert_string_equal(bace_fmt_size(b, 25000e12), "25000 TB");
	assert_non_null(strstr(bace_fmt_time(b, INFINITY), "inf"));
	/* The longest that any double gives must fit. */
	assert_true(strlen(bace_fmt_time(b, -1.7976931348623157e308)) < BACE_FMT_MAX);
}

/* What was printed reads back to within the four digits that are printed. */
static void test_format_reads_back(void **state)
{
	struct bace_rng r;
	char b[BACE_FMT_MAX];
	struct bace_err e;

	bace_rng_init(&r, 1, 1);
	for (int i = 0; i < 2000; i++) {
		double v = pow(10, 13 * bace_rng_uniform(&r));
		uint64_t u;
		int64_t ns;

		assert_int_equal(bace_parse_rate_bps(bace_fmt_rate(b, v), &u, &e), 0);
		assert_true(fabs((double)u - v) <= v * 5.1e-4 + 0.51);
		assert_int_equal(bace_parse_size_bytes(bace_fmt_size(b, v), &u, &e), 0);
		assert_true(fabs((double)u - v) <= v * 5.1e-4 + 0.51);
		assert_int_equal(bace_parse_time_ns(bace_fmt_time(b, v / 1e9), &ns, &e), 0);
		assert_true(fabs((double)ns - v) <= v * 5.1e-4 + 0.51);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rates),	cmocka_unit_test(test_times),
		cmocka_unit_test(test_sizes),	cmocka_unit_test(test_formats),
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_format_reads_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
