/* The lab's network as a pure function of the cluster. Expected values are
 * worked out by hand from tests/common/cluster3.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "harness/lab/lab.h"
#include "tests/common/cluster3.h"

static const struct lab_traffic traffic = { .message_bytes = 500000, .min_message_bytes = 200000,
	.jobs_on_link = 2, .wan = WAN_STEADY, .congestion_control = "cubic" };

static void test_scale(void **state)
{
	struct cluster c = cluster3(), s;

	assert_int_equal(cluster_scaled(&c, 0.01, 0.5, &s), 0);
	/* rates x bytes / time, latencies x time */
	assert_int_equal(cluster_link(&s, 0, 1)->rate_bps, 2000000);
	assert_int_equal(cluster_link(&s, 0, 2)->latency_ns, 25000000);
	assert_true(s.regions[0].bandwidth_bps == 2e7);
	assert_int_equal(cluster_link(&c, 0, 1)->rate_bps, 100000000);
	cluster_scaled_free(&s);
}

static void test_hosts(void **state)
{
	struct cluster c = cluster3();
	struct lab_net n;
	struct bace_err e;

	assert_int_equal(lab_net_build(&c, 2, &n, &e), 0);
	assert_int_equal(n.n_hosts, 9);
	assert_string_equal(n.hosts[1].name, "b-gw");
	assert_true(n.hosts[1].gateway);
	assert_string_equal(n.hosts[3].name, "a-0");
	assert_string_equal(n.hosts[8].name, "c-1");
	assert_string_equal(n.hosts[8].addr, "10.18.0.11");
	assert_int_equal(lab_host_of(&n, 2, 1), 8);
	assert_int_equal(lab_host_of(&n, 2, 2), 7);
	for (int i = 0; i < n.n_hosts; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(n.hosts[i].mgmt, n.hosts[k].mgmt);
	lab_net_free(&n);
	assert_int_equal(lab_net_build(&c, 0, &n, &e), -EINVAL);
}

static void test_windows(void **state)
{
	struct cluster c = cluster3();

	/* a -> c: 100 Mbit/s x (50 + 20) ms = 875000 bytes in flight. */
	assert_int_equal(lab_initial_window(&c, 0, 2, &traffic), (875000 + 500000 + 1447) / 1448);
	/* The largest link decides, but never below 4 MiB. */
	assert_int_equal(lab_socket_buffer_max(&c, &traffic), 4 << 20);
	c.links[2].rate_bps = 10000000000;
	assert_int_equal(lab_socket_buffer_max(&c, &traffic), 2 * (87500000 + 500000));
}

static void test_topology(void **state)
{
	struct cluster c = cluster3();
	struct lab_net n;
	struct tb_topology t;
	struct bace_err e;

	c.links[1 * 3 + 2].present = false;	/* b -> c: one way only */
	assert_int_equal(lab_net_build(&c, 1, &n, &e), 0);
	assert_int_equal(lab_topology_build(&c, &n, DELAY_NETEM, &traffic, &t, &e), 0);
	assert_int_equal(t.n_hosts, 6);
	const struct shape_spec *gw_a = &t.hosts[0].shape;

	assert_string_equal(gw_a->egress, "wan0");
	assert_string_equal(gw_a->ingress, "lan0");
	assert_true(gw_a->fail_closed);
	assert_int_equal(gw_a->n_links, 2);
	const struct shape_link *to_c = &gw_a->links[1];

	assert_int_equal(to_c->region, 2);
	assert_int_equal(to_c->rate_bps, 100000000);
	/* What comes from c was 20 ms under way; what goes there takes 50 ms. */
	assert_int_equal(to_c->latency_ns, 20000000);
	assert_int_equal(to_c->rtt_ns, 70000000);
	assert_int_equal(to_c->message_bytes, 1000000);
	assert_int_equal(to_c->prefixes[0].addr[1], 18);
	/* And nothing of what lies behind a region's prefixes. */
	for (int i = 1; i < SHAPE_PREFIXES_MAX; i++)
		assert_memory_equal(&gw_a->links[0].prefixes[i], &(struct shape_prefix){ 0 }, sizeof(struct shape_prefix));
	/* b -> c is absent: no rate towards c, but its delay from c stays. */
	assert_int_equal(t.hosts[1].shape.links[1].rate_bps, 0);
	assert_int_equal(t.hosts[1].shape.links[1].latency_ns, 20000000);
	/* A host shapes nothing, but limits its GSO to 2 % of the smallest message. */
	assert_int_equal(t.hosts[3].shape.n_links, 0);
	assert_int_equal(t.hosts[3].shape.gso_max_bytes, 4000);
	lab_topology_free(&t);
	lab_net_free(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scale), cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_windows), cmocka_unit_test(test_topology),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
