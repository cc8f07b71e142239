/* A moment as a cell of the testbed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "harness/run/cell.h"
#include "tests/unit/policy/fixture.h"

#define LAST (REGIONS_MAX - 1)

static void testbed_of(struct fixture *f)
{
	f->e.testbed = (struct testbed_spec){ .ranks = RANKS_STAGE, .scale_bytes = 1, .scale_time = 1, .steps = 3,
					      .warmup_steps = 1, .hosts_per_region = 2 };
}

/* Hosts launched by ssh or Slurm may be of as many regions as a cluster has. */
static void the_last_region(void **state)
{
	struct lab_host hosts[2 * REGIONS_MAX] = { 0 };
	struct lab_net net = { .n_regions = REGIONS_MAX, .hosts_per_region = 2, .n_hosts = ARRAY_LEN(hosts),
			       .hosts = hosts };
	struct placement_part parts[] = { { 0, 1 }, { LAST, 3 } };
	struct placement p = { .n_parts = 2, .parts = parts, .n_gpus = 4 };
	const struct placement *list[] = { &p };
	const double predicted[] = { 1 };
	struct bace_err e = { 0 };
	struct fixture f;
	struct tb_cell cell;

	fix_init(&f, REGIONS_MAX);
	for (int i = 0; i < REGIONS_MAX; i++)
		fix_region(&f, i, "r", 4, 0.1, 1e9);
	for (int i = 0; i < 2 * REGIONS_MAX; i++)
		hosts[i].region = i / 2;
	fix_link(&f, 0, LAST, 1e8, 0.01);
	fix_model(&f, "M", 8, 1, 2, 1e6, 1e9);
	fix_job(&f, "j", 0, 4, 10, 0);
	f.e.models[0].hidden = 5120;
	testbed_of(&f);
	assert_int_equal(job_models_build(&f.e, &f.models, &e), 0);
	struct moment m = { .exp = &f.e, .models = &f.models, .n = 1, .placements = list };

	assert_int_equal(cell_build(&m, &net, predicted, &cell, &e), 0);
	assert_int_equal(cell.jobs[0].n_stages, 4);
	assert_int_equal(cell.jobs[0].hidden, 5120);
	assert_int_equal(cell.jobs[0].stages[0].host, 0);
	/* Its GPUs are dealt to its two hosts in turn, from the first. */
	assert_int_equal(cell.jobs[0].stages[1].host, 2 * LAST);
	assert_int_equal(cell.jobs[0].stages[2].host, 2 * LAST + 1);
	assert_int_equal(cell.jobs[0].stages[3].host, 2 * LAST);
	cell_free(&cell);
	fix_free(&f);
}

/* Scaled: twice the bytes in four times the time, so half the rate. What workers know
 * of a link makes their sockets hold what it needs: not where the experiment says what
 * they hold, unless stages are held as long as the link takes. */
static void hops_and_settings(void **state)
{
	struct fixture f;
	struct tb_cell cell;
	struct tb_hop h;

	fix_init(&f, 2);
	for (int i = 0; i < 2; i++)
		fix_region(&f, i, "r", 1, 0.1, 1e9);
	fix_link_one_way(&f, 0, 1, 100e6, 0.01);
	fix_link_one_way(&f, 1, 0, 50e6, 0.02);
	testbed_of(&f);
	f.e.testbed.scale_bytes = 2;
	f.e.testbed.scale_time = 4;
	for (int known = 0; known < 3; known++) {
		f.e.testbed.socket_buffer_bytes = known < 2 ? 1000000 : 0;
		cell_fill_hop(&f.e, 777, known == 0, 0, 1, &h);
		assert_true(h.bytes == 777 && !h.local);
		assert_in_range(h.rate_bps, known ? 49999990 : 0, known ? 50000010 : 0);
		assert_in_range(h.reverse_rate_bps, known ? 24999990 : 0, known ? 25000010 : 0);
		assert_int_equal(h.latency_ns, known ? 40000000 : 0);
		assert_int_equal(h.reverse_latency_ns, known ? 80000000 : 0);
	}
	cell_fill_hop(&f.e, 777, true, 1, 1, &h);
	assert_true(h.local && !h.rate_bps);
	assert_in_range(h.local_rate_bps, 499999900, 500000100);
	f.e.testbed.transport = TRANSPORT_NCCL;
	f.e.testbed.compute = COMPUTE_ON_CPU;
	f.e.testbed.sockets_per_hop = 3;
	f.e.testbed.timeline = TIMELINE_WITH_SENDS;
	f.e.testbed.steady_within = 0.01;
	f.e.testbed.steady_steps = 5;
	snprintf(f.e.testbed.congestion_control, sizeof(f.e.testbed.congestion_control), "cubic");
	f.e.testbed.wan = WAN_STOCK;
	cell_settings(&f.e, &cell);
	assert_true(cell.transport == TRANSPORT_NCCL && cell.compute == COMPUTE_ON_CPU && cell.sockets_per_hop == 3);
	assert_true(cell.timeline_sends);
	assert_true(cell.warmup_steps == 1 && cell.steps == 3 && cell.steady_ppm == 10000 && cell.steady_steps == 5);
	assert_string_equal(cell.congestion_control, "");
	f.e.testbed.wan = WAN_STEADY;
	cell_settings(&f.e, &cell);
	assert_string_equal(cell.congestion_control, "cubic");
	fix_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_last_region), cmocka_unit_test(hops_and_settings) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
