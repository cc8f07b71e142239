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

/* Every field a number of its own, so that none can stand for another. */
static void fill_hops(struct tb_hop *h, int n, int *k)
{
	for (int i = 0; i < n; i++, *k += 10)
		h[i] = (struct tb_hop){ .local = i % 2, .local_rate_bps = (uint64_t)*k + 1, .local_latency_ns = *k + 2,
			.bytes = (uint64_t)*k + 3, .rate_bps = (uint64_t)*k + 4, .reverse_rate_bps = (uint64_t)*k + 5,
			.latency_ns = *k + 6, .reverse_latency_ns = 5000000000 + *k };
}

static void same_hops(const struct tb_hop *got, const struct tb_hop *want, int n)
{
	for (int i = 0; i < n; i++) {
		assert_int_equal(got[i].local, want[i].local);
		assert_int_equal(got[i].local_rate_bps, want[i].local_rate_bps);
		assert_int_equal(got[i].local_latency_ns, want[i].local_latency_ns);
		assert_int_equal(got[i].bytes, want[i].bytes);
		assert_int_equal(got[i].rate_bps, want[i].rate_bps);
		assert_int_equal(got[i].reverse_rate_bps, want[i].reverse_rate_bps);
		assert_int_equal(got[i].latency_ns, want[i].latency_ns);
		assert_int_equal(got[i].reverse_latency_ns, want[i].reverse_latency_ns);
	}
}

static void same_job(const struct tb_job *got, const struct tb_job *want)
{
	assert_string_equal(got->name, want->name);
	assert_int_equal(got->schedule, want->schedule);
	assert_int_equal(got->chunks, want->chunks);
	assert_int_equal(got->micro_batches, want->micro_batches);
	assert_int_equal(got->overlap, want->overlap);
	assert_int_equal(got->hidden, want->hidden);
	assert_int_equal(got->n_stages, want->n_stages);
	assert_int_equal(got->replicas, want->replicas);
	assert_int_equal(got->replica, want->replica);
	for (int i = 0; i < want->n_stages; i++) {
		assert_int_equal(got->stages[i].host, want->stages[i].host);
		assert_int_equal(got->stages[i].region, want->stages[i].region);
		assert_int_equal(got->stages[i].worker, want->stages[i].worker);
		assert_int_equal(got->stages[i].fwd_ns, want->stages[i].fwd_ns);
		assert_int_equal(got->stages[i].bwd_ns, want->stages[i].bwd_ns);
		assert_int_equal(got->stages[i].w_ns, want->stages[i].w_ns);
	}
	same_hops(got->hops, want->hops, tb_hops(want));
	assert_int_equal(got->rings != NULL, want->rings != NULL);
	if (want->rings)
		same_hops(got->rings, want->rings, want->n_stages);
}

static void same_script(const struct tb_script *got, const struct tb_script *want)
{
	for (int i = 0; i < TB_SOURCES; i++)
		assert_int_equal(got->monitor.period_ms[i], want->monitor.period_ms[i]);
	assert_int_equal(got->monitor.push_ms, want->monitor.push_ms);
	assert_int_equal(got->monitor.probe_packets, want->monitor.probe_packets);
	assert_int_equal(got->n, want->n);
	for (int i = 0; i < want->n; i++) {
		const struct tb_action *g = &got->actions[i], *w = &want->actions[i];

		assert_int_equal(g->kind, w->kind);
		assert_true(g->at_s == w->at_s && g->on == w->on);
		assert_int_equal(g->stretch_ppm, w->stretch_ppm);
		assert_int_equal(g->src, w->src);
		assert_int_equal(g->dst, w->dst);
		assert_int_equal(g->rate_bps, w->rate_bps);
	}
}

static void test_cell(void **state)
{
	struct tb_stage stages[] = { { 3, 4, 0, 50000000, 100000000, 7 }, { 14, 11, 1, 60000000, 120000000, 8 },
				     { 24, 21, 2, 1, 2, 9 } };
	struct tb_hop hops[3], hops_2[3], rings_0[3], rings_1[3];
	struct tb_job jobs[] = {
		{ .name = "qwen-14b", .schedule = SCHED_INTERLEAVED_1F1B, .chunks = 5, .micro_batches = 8, .overlap = true, .hidden = 5120,
		  .n_stages = 3, .stages = stages, .hops = hops, .replicas = 2, .replica = 0, .rings = rings_0 },
		{ .name = "qwen-14b", .schedule = SCHED_INTERLEAVED_1F1B, .chunks = 5, .micro_batches = 8,
		  .n_stages = 3, .stages = stages, .hops = hops_2, .replicas = 2, .replica = 1, .rings = rings_1 },
		{ .name = "gemma", .schedule = SCHED_EAGER_1F1B, .chunks = 1, .micro_batches = 6, .n_stages = 2,
		  .stages = stages + 1, .hops = hops } };
	struct tb_action acts[] = { { .kind = TB_ACT_MONITOR, .at_s = 0.25, .on = true, .stretch_ppm = 31 },
				    { .kind = TB_ACT_RATE, .at_s = 1.5, .src = 32, .dst = 33, .rate_bps = 5000000034 } };
	struct tb_script script = { .monitor = { .push_ms = 41, .probe_packets = 42 }, .n = 2, .actions = acts };
	struct tb_cell in = { .n_jobs = 3, .jobs = jobs, .warmup_steps = 51, .steps = 52, .steady_ppm = 53,
		.steady_steps = 54, .congestion_control = "cubic", .transport = TRANSPORT_NCCL, .compute = COMPUTE_ON_CPU,
		.sockets_per_hop = 55, .timeline_sends = true, .timeout_s = 12.5, .script = &script }, out;
	struct bace_err e = { 0 };
	int k = 1000;

	for (int i = 0; i < TB_SOURCES; i++)
		script.monitor.period_ms[i] = 60 + i;
	fill_hops(hops, 3, &k);
	fill_hops(hops_2, 3, &k);
	fill_hops(rings_0, 3, &k);
	fill_hops(rings_1, 3, &k);
	json_t *j = codec_cell(&in);

	assert_int_equal(codec_cell_read(j, &out, &e), 0);
	assert_int_equal(out.n_jobs, 3);
	for (int i = 0; i < 3; i++)
		same_job(&out.jobs[i], &jobs[i]);
	assert_int_equal(out.warmup_steps, 51);
	assert_int_equal(out.steps, 52);
	assert_int_equal(out.steady_ppm, 53);
	assert_int_equal(out.steady_steps, 54);
	assert_string_equal(out.congestion_control, "cubic");
	assert_int_equal(out.transport, TRANSPORT_NCCL);
	assert_int_equal(out.compute, COMPUTE_ON_CPU);
	assert_int_equal(out.sockets_per_hop, 55);
	assert_true(out.timeline_sends);
	assert_true(out.timeout_s == 12.5);
	assert_non_null(out.script);
	same_script(out.script, &script);
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
