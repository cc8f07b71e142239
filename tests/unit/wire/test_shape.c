/* Plans and counters as JSON: nothing is lost, and what is out of range is
 * refused with the field's name. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/wire/wire.h"

static struct shape_link links[2];

static struct jitter_table table = { .name = "mine", .n = 3, .v = { -8192, 0, 32767 } };

static struct shape_spec example(void)
{
	struct shape_spec s = { .egress = "wan0", .ingress = "lan0", .delay = DELAY_NFQUEUE, .mtu = 1500,
		.gso_max_bytes = 4242, .fail_closed = true, .replace_foreign = true, .n_links = 2,
		.links = links, .n_tables = 1, .tables = &table };

	memset(links, 0, sizeof(links));
	links[0] = (struct shape_link){ .name = "tokyo", .region = 3, .n_prefixes = 2,
		.rate_bps = 93190000, .buffer_bytes = 123456, .latency_ns = 77000000, .jitter_ns = 5,
		.jitter_dist = JITTER_PARETO, .loss = 0.001, .reverse_rate_bps = 1000000007,
		.rtt_ns = 155000001, .message_bytes = 210000,
		.impair = { .jitter_corr = 0.25, .loss_model = LOSS_GILBERT_ELLIOTT, .loss_corr = 0.5,
			.loss_p = { 0.1, 0.2, 0.3, 0.4, 0.5 }, .duplicate = 0.01, .duplicate_corr = 0.02,
			.corrupt = 0.03, .corrupt_corr = 0.04, .reorder = 0.05, .reorder_corr = 0.06,
			.reorder_gap = 7, .ecn = true, .seed = UINT64_MAX - 3 } };
	shape_prefix_parse("10.19.0.0/16", &links[0].prefixes[0], NULL);
	shape_prefix_parse("fd00:3::/48", &links[0].prefixes[1], NULL);
	snprintf(links[1].name, sizeof(links[1].name), "ireland");
	links[1].region = 40000;
	links[1].jitter_dist = JITTER_TABLE;
	return s;
}

static void test_shape(void **state)
{
	struct shape_spec in = example(), out;
	struct bace_err e = { 0 };
	json_t *j = wire_encode_shape(&in);

	assert_int_equal(wire_decode_shape(j, &out, &e), 0);
	assert_int_equal(out.n_links, 2);
	for (int i = 0; i < 2; i++)
		assert_memory_equal(&out.links[i], &links[i], sizeof(links[i]));
	assert_memory_equal(&out.tables[0], &table, sizeof(table));
	free(out.links);
	free(out.tables);
	out.links = in.links;
	out.tables = in.tables;
	assert_memory_equal(&out, &in, sizeof(in));
	json_decref(j);
}

/* A value for one field of the spec, or (link = true) of its first link. */
static void refuse(bool in_link, const char *key, json_t *value)
{
	struct shape_spec in = example(), out;
	struct bace_err e = { 0 };
	json_t *j = wire_encode_shape(&in);
	json_t *o = in_link ? json_array_get(json_object_get(j, "links"), 0) : j;

	if (value)
		json_object_set_new(o, key, value);
	else
		json_object_del(o, key);
	if (wire_decode_shape(j, &out, &e) == 0)
		fail_msg("%s: taken", key);
	if (!strstr(e.msg, key))
		fail_msg("`%s' does not name %s", e.msg, key);
	json_decref(j);
}

static json_t *too_many_prefixes(void)
{
	json_t *a = json_array();

	for (int i = 0; i <= SHAPE_PREFIXES_MAX; i++)
		json_array_append_new(a, json_string("10.0.0.0/8"));
	return a;
}

static void test_shape_ranges(void **state)
{
	refuse(false, "egress", json_string("a-name-of-16-byt"));
	refuse(false, "egress", json_string("wan0\n"));
	refuse(false, "egress", json_integer(1));
	refuse(false, "delay", json_integer(3));
	refuse(false, "delay", json_integer(-1));
	refuse(false, "mtu", json_integer(65537));
	refuse(false, "mtu", json_real(1500.0));
	refuse(false, "gso_max_bytes", json_integer(1ll << 32));
	refuse(false, "fail_closed", json_integer(1));
	refuse(false, "links", json_object());
	refuse(false, "command", json_string("reboot"));
	refuse(false, "ingress", NULL);
	refuse(true, "region", json_integer(65536));
	refuse(true, "rate_bps", json_integer(-1));
	refuse(true, "rate_bps", json_integer(INT64_MAX));
	refuse(true, "latency_ns", json_integer(-1));
	refuse(true, "latency_ns", json_integer(3600000000001));
	refuse(true, "loss", json_real(1.5));
	refuse(true, "loss", json_string("0.1"));
	refuse(true, "jitter_dist", json_integer(6));
	refuse(true, "jitter_table", json_integer(64));
	refuse(false, "tables", json_pack("[{s:s,s:[i]}]", "name", "t", "v", 32768));
	refuse(false, "tables", json_pack("[{s:s,s:[f]}]", "name", "t", "v", 1.0));
	refuse(true, "prefixes", too_many_prefixes());
	refuse(true, "name", json_string("a-name-that-has-more-than-forty-seven-characters"));
	refuse(true, "impair", json_array());
	refuse(true, "latency_ns", NULL);
}

static void test_prefix_refused(void **state)
{
	struct shape_spec in = example(), out;
	struct bace_err e = { 0 };
	json_t *j = wire_encode_shape(&in);

	json_array_set_new(json_object_get(json_array_get(json_object_get(j, "links"), 0), "prefixes"), 0,
			   json_string("10.19.0.0/33"));
	assert_true(wire_decode_shape(j, &out, &e) < 0);
	assert_non_null(strstr(e.msg, "plan: link 0"));
	json_decref(j);
}

static void test_stats(void **state)
{
	static struct shape_stat v[] = {
		{ 3, 93190000, 123456789012345, 42, 7, 1500, 77000000, 99, 1 },
		{ 4, 0, 0, 0, 0, 0, 0, 0, 0 },
	};
	struct shape_stats in = { .at_ns = 1234567890123, .n = 2, .v = v, .delay = DELAY_NETEM,
		.lateness_p99_ns = 81000, .lateness_mean_ns = -12, .lateness_max_ns = 2700000,
		.lateness_n = 5, .delay_realtime = true, .queue_drops = 1, .user_drops = 2,
		.delay_alive = true, .carrier_changes = 8, .drift_repairs = 3, .trace_changes = 4, .trace_late_p99_ns = 5,
		.trace_late_max_ns = 6 }, out;
	struct bace_err e = { 0 };
	json_t *j = wire_encode_stats(&in);

	assert_int_equal(wire_decode_stats(j, &out, &e), 0);
	assert_int_equal(out.n, 2);
	assert_memory_equal(&out.v[0], &v[0], sizeof(v[0]));
	assert_memory_equal(&out.v[1], &v[1], sizeof(v[1]));
	assert_int_equal(out.at_ns, in.at_ns);
	assert_int_equal(out.lateness_mean_ns, -12);
	assert_int_equal(out.lateness_p99_ns, 81000);
	assert_true(out.delay_realtime && out.delay_alive);
	assert_int_equal(out.queue_drops, 1);
	assert_int_equal(out.user_drops, 2);
	assert_int_equal(out.carrier_changes, 8);
	assert_int_equal(out.drift_repairs, 3);
	assert_int_equal(out.trace_changes, 4);
	assert_int_equal(out.trace_late_p99_ns, 5);
	assert_int_equal(out.trace_late_max_ns, 6);
	shape_stats_free(&out);
	json_object_set_new(json_array_get(json_object_get(j, "classes"), 1), "bytes", json_integer(-1));
	assert_true(wire_decode_stats(j, &out, &e) < 0);
	assert_non_null(strstr(e.msg, "bytes"));
	json_decref(j);
}

static void test_changes(void **state)
{
	const struct shape_change in[] = {
		{ .region = 3, .set = SHAPE_SET_RATE | SHAPE_SET_LOSS, .rate_bps = 400000000000, .loss = 0.25 },
		{ .region = 5, .set = SHAPE_SET_LATENCY, .latency_ns = 38200000 } };
	struct shape_change *out;
	struct bace_err e = { 0 };
	json_t *j = wire_encode_changes(in, 2);
	int n;

	assert_int_equal(wire_decode_changes(j, &out, &n, &e), 0);
	assert_int_equal(n, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(out[i].region, in[i].region);
		assert_int_equal(out[i].set, in[i].set);
		assert_int_equal(out[i].rate_bps, in[i].rate_bps);
		assert_int_equal(out[i].latency_ns, in[i].latency_ns);
		assert_true(out[i].loss == in[i].loss);
	}
	free(out);
	json_object_set_new(json_array_get(j, 0), "loss", json_real(1.01));
	assert_true(wire_decode_changes(j, &out, &n, &e) < 0);
	assert_non_null(strstr(e.msg, "loss"));
	json_decref(j);
	assert_true(wire_decode_changes(json_null(), &out, &n, &e) < 0);
}

static void test_trace(void **state)
{
	struct shape_trace_point v[] = { { 0, { .set = SHAPE_SET_RATE, .rate_bps = 10000000 } },
					 { 1500000001, { .set = SHAPE_SET_LOSS, .loss = 0.5 } } };
	const struct shape_trace in = { .n = 2, .v = v, .period_ns = 3000000002 };
	const struct wire_trace head = { .region = 7, .loop = true, .start_real_ns = 1234567890123456789,
					 .start_mono_ns = 98765432109876 };
	struct wire_trace got = { 0 };
	struct shape_trace out;
	struct bace_err e = { 0 };
	json_t *j = wire_encode_trace(&head, &in);

	assert_int_equal(wire_decode_trace(j, &got, &out, &e), 0);
	assert_true(got.region == 7 && got.loop && got.start_real_ns == head.start_real_ns &&
		    got.start_mono_ns == head.start_mono_ns);
	assert_int_equal(out.n, 2);
	assert_int_equal(out.period_ns, in.period_ns);
	assert_int_equal(out.v[0].to.rate_bps, 10000000);
	assert_int_equal(out.v[0].to.set, SHAPE_SET_RATE);
	assert_int_equal(out.v[1].at_ns, 1500000001);
	assert_true(out.v[1].to.loss == 0.5);
	shape_trace_free(&out);
	json_array_append_new(json_object_get(j, "points"), json_integer(3));
	assert_true(wire_decode_trace(j, &got, &out, &e) < 0);
	json_decref(j);
}

/* A piece of a trace passes whatever an agent limits, with the longest of values. */
static void test_trace_piece_fits(void **state)
{
	const struct wire_limits limits = WIRE_AGENT_LIMITS;
	struct shape_trace in = { .n = WIRE_TRACE_PIECE_MAX, .v = calloc(WIRE_TRACE_PIECE_MAX, sizeof(*in.v)) };
	const struct wire_trace head = { .region = 7, .more = true };
	struct wire_trace got;
	struct shape_trace out;
	struct bace_err e = { 0 };
	json_t *j, *back;
	char *text;

	for (size_t i = 0; i < in.n; i++)
		in.v[i] = (struct shape_trace_point){ 100000000000000000ll - WIRE_TRACE_PIECE_MAX + (int64_t)i,
			{ .set = SHAPE_SET_RATE | SHAPE_SET_LATENCY | SHAPE_SET_LOSS, .rate_bps = 1000000000000ull,
			  .latency_ns = 3600000000000, .loss = 1.2345678901234567e-11 } };
	j = json_pack("{s:i,s:s,s:i,s:o}", "v", 1, "type", "trace", "id", 1, "trace", wire_encode_trace(&head, &in));
	text = json_dumps(j, JSON_COMPACT);
	assert_true(strlen(text) <= limits.max_frame);
	if (wire_parse(text, strlen(text), &limits, &back, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(wire_decode_trace(json_object_get(back, "trace"), &got, &out, &e), 0);
	assert_true(got.more && out.n == in.n);
	shape_trace_free(&out);
	shape_trace_free(&in);
	json_decref(back);
	json_decref(j);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shape),
		cmocka_unit_test(test_shape_ranges),
		cmocka_unit_test(test_prefix_refused),
		cmocka_unit_test(test_stats),
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_trace),
		cmocka_unit_test(test_trace_piece_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
