/* Is what was measured of a link what was asked for? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "harness/run/internal.h"
#include "tests/unit/policy/fixture.h"

/* Region 0 to 1: 20 ms there and back, 100 Mbit/s. */
static void two_regions(struct fixture *f, int verify_s)
{
	fix_init(f, 2);
	fix_region(f, 0, "a", 1, 0.1, 1e9);
	fix_region(f, 1, "b", 1, 0.1, 1e9);
	fix_link(f, 0, 1, 100e6, 0.01);
	f->e.testbed = (struct testbed_spec){ .scale_bytes = 1, .scale_time = 1, .verify_s = verify_s };
}

static bool planned(const struct fixture *f, double rtt_s, double goodput_bps)
{
	return link_as_planned(&f->e, &(struct tb_verify){ .src = 0, .dst = 1, .planned_rtt_s = 0.02,
		.planned_goodput_bps = 100e6, .rtt_median_s = rtt_s, .goodput_bps = goodput_bps });
}

static void within_tolerance(void **state)
{
	struct fixture f;

	two_regions(&f, 1);
	assert_true(planned(&f, 0.0209, 96e6));
	assert_false(planned(&f, 0.022, 96e6));
	assert_false(planned(&f, 0.02, 94e6));
	assert_false(planned(&f, 0.02, 106e6));
	fix_free(&f);
}

/* Measured, and nothing came through; or never measured. */
static void no_goodput(void **state)
{
	struct fixture f;

	two_regions(&f, 1);
	assert_false(planned(&f, 0.02, 0));
	f.e.testbed.verify_s = 0;
	assert_true(planned(&f, 0.02, 0));
	fix_free(&f);
}

static void loss_and_jitter_of_the_profile(void **state)
{
	struct fixture f;

	two_regions(&f, 1);
	f.e.cluster.links[2].loss = 0.01;	/* of the way back */
	assert_true(planned(&f, 0.02, 40e6));
	assert_false(planned(&f, 0.024, 100e6));
	f.e.cluster.links[2].loss = 0;
	f.e.cluster.links[1].jitter_ns = 3000000;
	assert_true(planned(&f, 0.0239, 40e6));
	assert_false(planned(&f, 0.0245, 100e6));
	/* The testbed's takes its place. */
	struct disturbance d = { .from = 0, .to = 1, .jitter_ns = 1000000 };

	f.e.testbed.n_disturb = 1;
	f.e.testbed.disturb = &d;
	assert_true(planned(&f, 0.0219, 100e6));
	assert_false(planned(&f, 0.0225, 100e6));
	f.e.cluster.links[1].jitter_ns = 0;
	d = (struct disturbance){ .from = 1, .to = 0, .loss = 0.02 };
	assert_true(planned(&f, 0.02, 40e6));
	fix_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(within_tolerance), cmocka_unit_test(no_goodput),
		cmocka_unit_test(loss_and_jitter_of_the_profile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
