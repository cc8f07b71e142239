/* Cells that run: what comes back is complete and adds up. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/control/fixture.h"
#include "workloads/schedule/schedule.h"

static void expect_valid(struct world *w, const struct tb_cell *cell, struct tb_result *r)
{
	struct bace_err e = { 0 };

	if (controller_run(w->controller, cell, r, &e))
		fail_msg("%s", e.msg);
	/* This machine may be busy with something else; all the rest must be right. */
	if (!r->valid && !strstr(r->invalid_why, "overloaded"))
		fail_msg("invalid: %s", r->invalid_why);
}

/* All steps there; each no faster than its operations in a row allow:
 * (m + p - 1)(tF + tB), where bubbles are not filled. */
static void check_steps(const struct tb_cell *cell, const struct tb_result *r, int job)
{
	const struct tb_job *j = &cell->jobs[job];
	int64_t slot = j->stages[0].fwd_ns + j->stages[0].bwd_ns;
	int64_t least = (j->micro_batches + (j->schedule >= SCHED_INTERLEAVED_1F1B ? 0 : j->n_stages - 1)) * slot;
	int n = 0;

	for (int i = 0; i < r->n_steps; i++) {
		const struct tb_step *s = &r->steps[i];

		if (s->job != job)
			continue;
		assert_int_equal(s->step, n - cell->warmup_steps);
		assert_true(s->end_ns - s->start_ns >= least);
		assert_true(s->compute_ns >= j->micro_batches * slot * j->n_stages);
		n++;
	}
	assert_int_equal(n, cell->warmup_steps + cell->steps);
}

static void check_ops(const struct tb_cell *cell, const struct tb_result *r)
{
	int64_t compute = 0, received = 0, sent = 0, want_compute = 0, want_received = 0;

	for (int i = 0; i < r->n_ops; i++) {
		if (r->ops[i].kind <= TB_WEIGHT)
			compute++;
		else if (r->ops[i].kind <= TB_RECV_GRADIENT)
			received++;
		else
			sent++;
		if (r->ops[i].end_ns < r->ops[i].start_ns)
			fail_msg("kind %d of stage %d, step %d, micro-batch %d: ended %lld ns before it began (planned %+lld ns)",
				 r->ops[i].kind, r->ops[i].stage, r->ops[i].step, r->ops[i].micro_batch,
				 (long long)(r->ops[i].start_ns - r->ops[i].end_ns),
				 (long long)(r->ops[i].planned_end_ns - r->ops[i].start_ns));
	}
	for (int j = 0; j < cell->n_jobs; j++) {
		const struct tb_job *job = &cell->jobs[j];
		struct schedule_spec s = { job->schedule, job->n_stages, job->micro_batches, job->chunks };

		for (int i = 0; i < job->n_stages; i++)
			want_compute += schedule_n_ops(&s, i);
		want_received += 2 * (job->n_stages * job->chunks - 1) * job->micro_batches;
	}
	assert_int_equal(compute, want_compute * (cell->warmup_steps + cell->steps));
	assert_int_equal(received, want_received * (cell->warmup_steps + cell->steps));
	/* In-process ones are not sent. */
	assert_int_equal(sent, cell->timeline_sends ? received : 0);
}

/* A row a step, whose bytes are those of a step's messages. */
static void check_flow_steps(const struct tb_cell *cell, const struct tb_result *r, int flow)
{
	const struct tb_job *j = &cell->jobs[0];
	uint64_t a_step = (uint64_t)j->micro_batches * j->hops[r->flows[flow].hop].bytes, sent = 0;
	int n = cell->warmup_steps + cell->steps;

	assert_int_equal(r->n_flow_steps, r->n_flows * n);
	for (int i = 0; i < n; i++) {
		const struct tb_flow_step *s = &r->flow_steps[flow * n + i];

		assert_int_equal(s->flow, flow);
		assert_int_equal(s->step, i - cell->warmup_steps);
		assert_true(s->rtt_us > 0 && s->min_rtt_us > 0 && s->min_rtt_us <= s->rtt_us * 8);
		assert_true(s->cwnd_bytes > 0);
		assert_true(s->delivery_rate_bps > 0);
		assert_true(s->rwnd_limited_us <= s->busy_us && s->sndbuf_limited_us <= s->busy_us);
		sent += s->bytes_sent;
	}
	/* What the kernel had yet to send at the end of the last step is in none. */
	assert_true(sent > (uint64_t)(n - 1) * a_step);
	assert_true(sent <= r->flows[flow].wire_bytes);
}

static void check_flows(const struct tb_cell *cell, const struct tb_result *r)
{
	const struct tb_job *j = &cell->jobs[0];
	uint64_t messages = (uint64_t)(cell->warmup_steps + cell->steps) * (uint64_t)j->micro_batches;

	assert_int_equal(r->n_flows, 2 * (j->n_stages - 1));
	for (int i = 0; i < r->n_flows; i++) {
		const struct tb_flow *f = &r->flows[i];

		assert_int_equal(f->src_region, f->forward ? f->hop : f->hop + 1);
		assert_int_equal(f->dst_region, f->forward ? f->hop + 1 : f->hop);
		assert_true(f->payload_bytes >= messages * j->hops[f->hop].bytes);
		assert_true(f->wire_bytes > f->payload_bytes);
		assert_true(f->congestion_control[0]);
		check_flow_steps(cell, r, i);
	}
}

static void test_pipeline(void **state)
{
	int64_t spread_ns;
	struct world w;
	struct tb_cell cell;
	struct tb_result r;

	world_open(&w, 3);
	world_agents(&w);
	cell_pipeline(&cell, "tiny", 3, 4, 10000000, 50000);
	expect_valid(&w, &cell, &r);
	check_steps(&cell, &r, 0);
	check_ops(&cell, &r);
	check_flows(&cell, &r);
	spread_ns = r.barrier_spread_ns;
	tb_result_free(&r);
	/* And again, with the same agents. */
	expect_valid(&w, &cell, &r);
	check_steps(&cell, &r, 0);
	/* All began at the very moment that they were told, unless this machine was busy twice. */
	assert_true(!spread_ns || !r.barrier_spread_ns);
	tb_result_free(&r);
	cell_release(&cell);
	world_close(&w);
}

/* Stages that share a worker, local hops, two jobs at once, every schedule that
 * the worker can play. */
static void test_shapes(void **state)
{
	static const enum schedule_kind kinds[] = { SCHED_GPIPE, SCHED_1F1B, SCHED_EAGER_1F1B, SCHED_ZB_H1,
		SCHED_INTERLEAVED_1F1B };
	struct world w;

	world_open(&w, 2);
	world_agents(&w);
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		struct tb_cell cell, other;
		struct tb_result r;
		struct tb_job jobs[2];

		cell_pipeline(&cell, "one", 4, 4, 5000000, 20000);
		cell_pipeline(&other, "two", 2, 4, 5000000, 20000);
		for (int i = 0; i < 4; i++) {	/* stages 0, 1 in one worker, 2 and 3 in two on one host */
			cell.jobs[0].stages[i].host = cell.jobs[0].stages[i].region = i / 2;
			cell.jobs[0].stages[i].worker = i < 2 ? 0 : i;
		}
		cell.jobs[0].hops[0] = cell.jobs[0].hops[2] = (struct tb_hop){ .local = true,
			.local_rate_bps = 1000000000, .local_latency_ns = 1000000, .bytes = 20000 };
		jobs[0] = cell.jobs[0];
		jobs[1] = other.jobs[0];
		jobs[0].schedule = jobs[1].schedule = kinds[k];
		jobs[0].chunks = jobs[1].chunks = kinds[k] == SCHED_INTERLEAVED_1F1B ? 2 : 1;

		struct tb_cell both = { .n_jobs = 2, .jobs = jobs, .warmup_steps = 0, .steps = 2,
					.timeout_s = 60 };

		expect_valid(&w, &both, &r);
		check_steps(&both, &r, 0);
		check_steps(&both, &r, 1);
		check_ops(&both, &r);
		/* Two network hops, both ways; interleaved: two more that go round. */
		assert_int_equal(r.n_flows, kinds[k] == SCHED_INTERLEAVED_1F1B ? 8 : 4);
		tb_result_free(&r);
		cell_release(&cell);
		cell_release(&other);
	}
	world_close(&w);
}

/* Three replicas of two stages, a ring for each stage: who listens where, and
 * what becomes of the rings' rounds and bytes. */
static void test_replicas(void **state)
{
	enum { REPLICAS = 3, STAGES = 2, ROUNDS = 2 * (REPLICAS - 1) };
	struct tb_cell one[REPLICAS], cell;
	struct tb_hop rings[STAGES] = { { .bytes = 30000 }, { .bytes = 40000 } };
	struct tb_job jobs[REPLICAS];
	struct tb_result r;
	struct world w;
	int rounds = 0;

	world_open(&w, REPLICAS);
	world_agents(&w);
	for (int k = 0; k < REPLICAS; k++) {
		cell_pipeline(&one[k], "three", STAGES, 4, 2000000, 20000);
		jobs[k] = one[k].jobs[0];
		jobs[k].replicas = REPLICAS;
		jobs[k].replica = k;
		jobs[k].rings = rings;
		for (int i = 0; i < STAGES; i++)
			jobs[k].stages[i].host = jobs[k].stages[i].region = (k + i) % REPLICAS;
	}
	cell = (struct tb_cell){ .n_jobs = REPLICAS, .jobs = jobs, .warmup_steps = 1, .steps = 2, .timeout_s = 60 };
	expect_valid(&w, &cell, &r);
	for (int k = 0; k < REPLICAS; k++)
		check_steps(&cell, &r, k);
	for (int i = 0; i < r.n_ops; i++)
		rounds += r.ops[i].kind == TB_RECV_REDUCE;
	assert_int_equal(rounds, REPLICAS * STAGES * ROUNDS * 3);
	/* A hop and two rings with two ends each. */
	assert_int_equal(r.n_flows, REPLICAS * (2 + 2 * STAGES));
	for (int i = 0; i < r.n_flows; i++) {
		const struct tb_flow *f = &r.flows[i];
		int to = (f->job + (f->hop < STAGES ? 0 : f->forward ? 1 : REPLICAS - 1)) % REPLICAS;
		int stage = f->hop % STAGES, own = f->hop < STAGES && !f->forward ? stage + 1 : stage;
		int other = f->hop < STAGES ? STAGES - 1 - own : stage;

		assert_int_equal(f->src_region, (f->job + own) % REPLICAS);
		assert_int_equal(f->dst_region, (to + other) % REPLICAS);
		if (f->hop >= STAGES)
			assert_int_equal(f->payload_bytes, rings[stage].bytes * (f->forward ? 1 + 3 * ROUNDS : 1));
	}
	tb_result_free(&r);
	/* Not one after the other. */
	jobs[1].replica = 2;
	assert_int_equal(controller_run(w.controller, &cell, &r, &(struct bace_err){ 0 }), -EINVAL);
	for (int k = 0; k < REPLICAS; k++)
		cell_release(&one[k]);
	world_close(&w);
}

/* When the kernel had taken a message is known of every one, if it is asked for. */
static void test_sends(void **state)
{
	struct world w;
	struct tb_cell cell;
	struct tb_result r;

	world_open(&w, 3);
	world_agents(&w);
	cell_pipeline(&cell, "sends", 3, 4, 2000000, 20000);
	cell.timeline_sends = true;
	expect_valid(&w, &cell, &r);
	check_ops(&cell, &r);
	for (int i = 0; i < r.n_ops; i++) {
		const struct tb_op *o = &r.ops[i], *made = NULL;
		uint8_t by = o->kind == TB_SEND_ACTIVATION ? TB_FORWARD : TB_BACKWARD;

		if (o->kind != TB_SEND_ACTIVATION && o->kind != TB_SEND_GRADIENT)
			continue;
		for (int k = 0; k < r.n_ops && !made; k++)
			if (r.ops[k].kind == by && r.ops[k].stage == o->stage && r.ops[k].step == o->step &&
			    r.ops[k].micro_batch == o->micro_batch)
				made = &r.ops[k];
		assert_non_null(made);
		assert_int_equal(o->start_ns, made->planned_end_ns);
	}
	tb_result_free(&r);
	cell_release(&cell);
	world_close(&w);
}

/* Any spread is a steady state: the warm-up takes what is compared, and one more
 * step that is in the making; what is left out has no row. */
static void test_steady_state(void **state)
{
	struct world w;
	struct tb_cell cell;
	struct tb_result r;

	world_open(&w, 2);
	world_agents(&w);
	cell_pipeline(&cell, "steady", 2, 2, 2000000, 20000);
	cell.warmup_steps = 20;
	cell.steady_ppm = 1000000;
	cell.steady_steps = 3;
	expect_valid(&w, &cell, &r);
	assert_in_range(r.n_steps, cell.steps + 3, cell.steps + 19);
	for (int i = 0; i < r.n_steps; i++)
		assert_int_equal(r.steps[i].step, i < r.n_steps - cell.steps ? i - 20 : i - (r.n_steps - cell.steps));
	assert_int_equal(r.n_flow_steps, r.n_flows * r.n_steps);
	tb_result_free(&r);
	cell_release(&cell);
	world_close(&w);
}

static void test_one_stage(void **state)
{
	struct world w;
	struct tb_cell cell;
	struct tb_result r;

	world_open(&w, 1);
	world_agents(&w);
	cell_pipeline(&cell, "alone", 1, 8, 5000000, 20000);
	expect_valid(&w, &cell, &r);
	check_steps(&cell, &r, 0);
	assert_int_equal(r.n_flows, 0);
	tb_result_free(&r);
	cell_release(&cell);
	world_close(&w);
}

static void test_bad_cells(void **state)
{
	struct bace_err e = { 0 };
	struct world w;
	struct tb_cell cell;
	struct tb_result r;

	world_open(&w, 2);
	world_agents(&w);
	cell_pipeline(&cell, "bad", 2, 2, 1000000, 1000);
	cell.jobs[0].stages[1].host = 9;
	assert_int_equal(controller_run(w.controller, &cell, &r, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "no host 9"));
	cell.jobs[0].stages[1].host = 1;
	cell.jobs[0].stages[1].worker = 0;
	assert_int_equal(controller_run(w.controller, &cell, &r, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "two hosts"));
	cell.jobs[0].stages[1].worker = 1;
	w.hosts[1].gateway = true;
	assert_int_equal(controller_run(w.controller, &cell, &r, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "gateway"));
	w.hosts[1].gateway = false;
	cell.timeout_s = 0;
	assert_int_equal(controller_run(w.controller, &cell, &r, &e), -EINVAL);
	cell.timeout_s = 60;
	expect_valid(&w, &cell, &r);
	tb_result_free(&r);
	cell_release(&cell);
	world_close(&w);
}

static void test_verify(void **state)
{
	struct tb_verify pairs[6] = { { 0, 1 }, { 1, 0 }, { 0, 2 }, { 2, 0 }, { 1, 2 }, { 2, 1 } };
	struct bace_err e = { 0 };
	struct world w;

	world_open(&w, 3);
	world_agents(&w);
	if (controller_verify(w.controller, 6, pairs, 0.3, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < 6; i++) {
		assert_true(pairs[i].rtt_min_s > 0);
		assert_true(pairs[i].rtt_median_s >= pairs[i].rtt_min_s);
		assert_true(pairs[i].rtt_p99_s >= pairs[i].rtt_median_s);
		assert_true(pairs[i].goodput_bps > 0);
	}
	assert_int_equal(controller_verify(w.controller, 0, pairs, 0, &e), 0);
	pairs[0].dst = 7;
	assert_int_equal(controller_verify(w.controller, 1, pairs, 0, &e), -EINVAL);
	world_close(&w);
}

static void zone_write(const struct world *w, const char *file, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/intel-rapl:0/%s", w->dir, file);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* 3 J on, over the end of its range: 10 J. */
static void use_energy(void *arg)
{
	zone_write(arg, "energy_uj", "1000000\n");
}

static void test_energy(void **state)
{
	struct world w;
	struct tb_cell cell;
	struct tb_result r;
	struct later *l;
	char cmd[160];

	world_open(&w, 2);
	snprintf(cmd, sizeof(cmd), "mkdir %s/intel-rapl:0", w.dir);
	assert_int_equal(system(cmd), 0);
	zone_write(&w, "name", "package-0\n");
	zone_write(&w, "max_energy_range_uj", "10000000\n");
	zone_write(&w, "energy_uj", "8000000\n");
	setenv("BACE_POWERCAP", w.dir, 1);
	world_agents(&w);
	unsetenv("BACE_POWERCAP");
	cell_pipeline(&cell, "energy", 2, 4, 50000000, 1000);	/* 3 s and more */
	l = later(2.0, use_energy, &w);
	expect_valid(&w, &cell, &r);
	later_join(l);
	assert_int_equal(r.n_energy, 2);
	for (int i = 0; i < 2; i++) {
		assert_string_equal(r.energy[i].source, "rapl");
		assert_string_equal(r.energy[i].device, "intel-rapl:0 package-0");
		assert_true(r.energy[i].energy_j == 3);
		assert_true(r.energy[i].seconds > 2.5 && r.energy[i].seconds < 60);
	}
	assert_string_equal(r.energy[1].host, "h1");
	tb_result_free(&r);
	cell_release(&cell);
	snprintf(cmd, sizeof(cmd), "rm -r %s/intel-rapl:0", w.dir);
	assert_int_equal(system(cmd), 0);
	world_close(&w);
}

static void test_inventory(void **state)
{
	struct bace_err e = { 0 };
	CLEANUP_FREE char *text = NULL;
	json_t *j, *h, *i, *lo = NULL;
	struct world w;
	size_t k;

	world_open(&w, 2);
	world_agents(&w);
	assert_int_equal(controller_inventory(w.controller, &text, &e), 0);
	j = json_loads(text, 0, NULL);
	h = json_object_get(j, "h1");
	assert_true(json_string_length(json_object_get(h, "kernel")) > 0);
	assert_true(json_string_length(json_object_get(json_object_get(h, "versions"), "openssl")) > 0);
	assert_true(json_integer_value(json_object_get(json_object_get(h, "topology"), "processors")) > 0);
	assert_true(json_string_length(json_object_get(json_object_get(h, "sysctls"),
						       "net/ipv4/tcp_congestion_control")) > 0);
	/* Offloads decide how bursty losses are: lo has them everywhere. */
	json_array_foreach(json_object_get(h, "interfaces"), k, i)
		if (!strcmp(json_string_value(json_object_get(i, "name")), "lo"))
			lo = i;
	assert_true(json_integer_value(json_object_get(lo, "gso_max_bytes")) >= 1500);
	assert_non_null(strstr(json_string_value(json_object_get(lo, "offloads")), "gso"));
	/* All hosts are at addresses of lo. */
	h = json_object_get(h, "routes");
	assert_string_equal(json_string_value(json_object_get(h, "control")), "lo");
	assert_int_equal(json_object_size(json_object_get(h, "to")), 1);
	h = json_object_get(json_object_get(h, "to"), "region-0");
	assert_string_equal(json_string_value(json_object_get(h, "dev")), "lo");
	assert_int_equal(json_integer_value(json_object_get(h, "initcwnd")), 0);
	json_decref(j);
	world_close(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pipeline), cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_replicas), cmocka_unit_test(test_one_stage), cmocka_unit_test(test_bad_cells),
		cmocka_unit_test(test_sends), cmocka_unit_test(test_steady_state),
		cmocka_unit_test(test_verify),	 cmocka_unit_test(test_inventory),
		cmocka_unit_test(test_energy),
	};

	return fixture_args(argc, argv) ? 2 : cmocka_run_group_tests(tests, NULL, NULL);
}
