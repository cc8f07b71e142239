/* What the outer and the inner process tell each other comes over unchanged,
 * and what is malformed is refused. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "harness/lab/codec.h"

static void test_cell(void **state)
{
	struct tb_stage stages[] = { { 3, 0, 0, 50000000, 100000000 }, { 4, 1, 1, 60000000, 120000000 },
				     { 4, 1, 2, 1, 2 } };
	struct tb_hop hops[] = { { .bytes = 210000 },
		{ .local = true, .local_rate_bps = 5000000000, .local_latency_ns = 7, .bytes = 9 } };
	struct tb_job job = { .name = "qwen-14b", .schedule = SCHED_EAGER_1F1B, .chunks = 1,
		.micro_batches = 8, .overlap = true, .n_stages = 3, .stages = stages, .hops = hops };
	struct tb_cell in = { .n_jobs = 1, .jobs = &job, .warmup_steps = 1, .steps = 3,
		.congestion_control = "cubic", .timeout_s = 12.5 }, out;
	struct bace_err e = { 0 };
	json_t *j = codec_cell(&in);

	assert_int_equal(codec_cell_read(j, &out, &e), 0);
	assert_int_equal(out.n_jobs, 1);
	assert_string_equal(out.jobs[0].name, "qwen-14b");
	assert_int_equal(out.jobs[0].schedule, SCHED_EAGER_1F1B);
	assert_int_equal(out.jobs[0].n_stages, 3);
	assert_int_equal(out.jobs[0].stages[1].host, 4);
	assert_int_equal(out.jobs[0].stages[1].region, 1);
	assert_int_equal(out.jobs[0].stages[1].worker, 1);
	assert_int_equal(out.jobs[0].stages[1].fwd_ns, 60000000);
	assert_int_equal(out.jobs[0].stages[1].bwd_ns, 120000000);
	assert_int_equal(out.jobs[0].hops[0].bytes, 210000);
	assert_false(out.jobs[0].hops[0].local);
	assert_int_equal(out.jobs[0].hops[1].local_rate_bps, 5000000000);
	assert_int_equal(out.jobs[0].hops[1].local_latency_ns, 7);
	assert_true(out.timeout_s == 12.5);
	codec_cell_free(&out);
	/* One hop too few. */
	json_array_remove(json_object_get(json_array_get(json_object_get(j, "jobs"), 0), "hops"), 0);
	assert_int_equal(codec_cell_read(j, &out, &e), -EPROTO);
	codec_cell_free(&out);
	json_decref(j);
	j = json_pack("{s:s}", "jobs", "none");
	assert_int_equal(codec_cell_read(j, &out, &e), -EPROTO);
	codec_cell_free(&out);
	json_decref(j);
}

static void test_result(void **state)
{
	struct tb_step steps[] = { { 0, -1, 1, 2, 3 }, { 0, 0, 10000000000, 20000000000, 5 } };
	struct tb_op ops[] = { { 0, 2, 1, 7, TB_RECV_GRADIENT, 5, 6, 4 } };
	struct tb_flow flows[] = { { .job = 0, .hop = 1, .src_region = 2, .dst_region = 0,
		.forward = true, .payload_bytes = 1ull << 40, .wire_bytes = 77, .retrans_bytes = 3,
		.rtt_us = 4000, .min_rtt_us = 3999, .congestion_control = "cubic" } };
	struct tb_link_check links[] = { { 2, 0, 1000, 1001, 2, true } };
	struct tb_flow_step flow_steps[] = { { .flow = 0, .step = 3, .bytes_sent = 1ull << 41, .retrans_bytes = 1,
		.delivery_rate_bps = 2, .cwnd_bytes = 3, .busy_us = 4, .rwnd_limited_us = 5, .sndbuf_limited_us = 6,
		.rtt_us = 7, .min_rtt_us = 8, .app_limited = true } };
	struct tb_result in = { .valid = false, .invalid_why = "shaperd of a-gw died", .n_steps = 2,
		.steps = steps, .n_ops = 1, .ops = ops, .n_flows = 1, .flows = flows, .n_links = 1, .n_flow_steps = 1, .flow_steps = flow_steps,
		.links = links, .barrier_spread_ns = 11, .lateness_p99_ns = 12,
		.delay_lateness_p99_ns = 13 }, out;
	struct bace_err e = { 0 };
	json_t *j = codec_result(&in);

	assert_int_equal(codec_result_read(j, &out, &e), 0);
	assert_false(out.valid);
	assert_string_equal(out.invalid_why, in.invalid_why);
	assert_int_equal(out.n_steps, 2);
	assert_int_equal(out.steps[0].step, -1);
	assert_int_equal(out.steps[1].end_ns, 20000000000);
	assert_int_equal(out.ops[0].kind, TB_RECV_GRADIENT);
	assert_int_equal(out.ops[0].planned_end_ns, 4);
	assert_int_equal(out.flows[0].payload_bytes, 1ull << 40);
	assert_string_equal(out.flows[0].congestion_control, "cubic");
	assert_int_equal(out.n_flow_steps, 1);
	assert_memory_equal(out.flow_steps, flow_steps, offsetof(struct tb_flow_step, app_limited));
	assert_true(out.flow_steps[0].app_limited);
	assert_true(out.links[0].valid);
	assert_int_equal(out.delay_lateness_p99_ns, 13);
	tb_result_free(&out);
	json_array_clear(json_object_get(j, "flows"));
	assert_int_equal(codec_result_read(j, &out, &e), -EPROTO);	/* a step of no flow */
	json_array_clear(json_object_get(j, "flow_steps"));
	assert_int_equal(codec_result_read(j, &out, &e), 0);
	tb_result_free(&out);
	json_array_append_new(json_object_get(j, "steps"), json_string("x"));
	assert_int_equal(codec_result_read(j, &out, &e), -EPROTO);
	json_decref(j);
}

static void test_verify(void **state)
{
	struct tb_verify in[2] = { { .src = 1, .dst = 2, .rtt_median_s = 0.04, .goodput_bps = 1e8 },
				   { .src = 2, .dst = 1, .planned_rtt_s = 0.5 } }, out[2];
	struct bace_err e = { 0 };
	json_t *j = codec_verify(2, in);

	assert_int_equal(codec_verify_read(j, 2, out, &e), 0);
	assert_memory_equal(in, out, sizeof(in));
	assert_int_equal(codec_verify_read(j, 1, out, &e), -EPROTO);
	json_decref(j);
}

static void test_view(void **state)
{
	struct tb_view_link in[2] = { { .known = true, .lower_bound = true, .method = TB_PROBE, .capacity_bps = 1e8,
		.error_bps = 2, .used_bps = 3, .age_s = 0.5 }, { .age_s = NAN } }, out[2];
	struct bace_err e = { 0 };
	json_t *j = codec_view(2, in);

	assert_int_equal(codec_view_read(j, 2, out, &e), 0);
	assert_true(out[0].known && out[0].lower_bound && out[0].method == TB_PROBE);
	assert_true(out[0].capacity_bps == 1e8 && out[0].error_bps == 2 && out[0].used_bps == 3 && out[0].age_s == 0.5);
	assert_false(out[1].known);
	assert_int_equal(codec_view_read(j, 3, out, &e), -EPROTO);
	json_array_set_new(json_array_get(j, 0), 0, json_integer(TB_METHODS));
	assert_int_equal(codec_view_read(j, 2, out, &e), -EPROTO);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cell), cmocka_unit_test(test_result), cmocka_unit_test(test_verify),
		cmocka_unit_test(test_view),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
