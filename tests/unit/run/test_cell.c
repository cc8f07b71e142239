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
	testbed_of(&f);
	assert_int_equal(job_models_build(&f.e, &f.models, &e), 0);
	struct moment m = { .exp = &f.e, .models = &f.models, .n = 1, .placements = list };

	assert_int_equal(cell_build(&m, &net, predicted, &cell, &e), 0);
	assert_int_equal(cell.jobs[0].n_stages, 4);
	assert_int_equal(cell.jobs[0].stages[0].host, 0);
	/* Its GPUs are dealt to its two hosts in turn, from the first. */
	assert_int_equal(cell.jobs[0].stages[1].host, 2 * LAST);
	assert_int_equal(cell.jobs[0].stages[2].host, 2 * LAST + 1);
	assert_int_equal(cell.jobs[0].stages[3].host, 2 * LAST);
	cell_free(&cell);
	fix_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_last_region) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
