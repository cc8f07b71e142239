/* What shaped links do to packets besides delaying them: order, loss, families,
 * limits. Counted, never timed. */
#include "tests/netns/shaper/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tests/netns/shaper/impair.h"

static pid_t daemon_pid;
static struct shaperd_client *client;

static int setup(void **state)
{
	network_up();
	daemon_pid = shaperd_start("g", "");
	client = connected();
	return 0;
}

static int teardown(void **state)
{
	shaperd_close(client);
	shaperd_stop(daemon_pid, SIGTERM);
	network_down();
	return 0;
}

static void plan(const struct shape_spec *s)
{
	planned(client, s);
}

/* Two interfaces, three families of traffic: only a's prefix is shaped. */
static void what_no_link_claims_is_not_shaped(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 1000000, 50000000);
	struct shape_stats before, after;

	sh("ip -n a addr add 192.168.9.10/24 dev eth0; ip -n g addr add 192.168.9.1/24 dev wan0");
	plan(&s);
	assert_int_equal(shaperd_stats(client, &before, NULL), 0);
	struct rtt r = ping("g", "192.168.9.10", 10, 20);
	assert_int_equal(r.received, 10);
	assert_true(r.min_ms < 50);
	assert_int_equal(shaperd_stats(client, &after, NULL), 0);
	assert_int_equal(before.v[0].packets, after.v[0].packets);
	assert_int_equal(before.v[0].delay_packets, after.v[0].delay_packets);
	shape_stats_free(&before);
	shape_stats_free(&after);
	sh("ip -n a addr del 192.168.9.10/24 dev eth0; ip -n g addr del 192.168.9.1/24 dev wan0");
}

/* A default class that took its length from the device would drop all, ARP first. */
static void a_device_without_a_queue_still_passes_arp(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 1000000, 5000000);

	sh("ip -n g link set wan0 txqueuelen 0");
	plan(&s);
	sh("ip -n g -4 neigh flush dev wan0; ip -n a -4 neigh flush dev eth0");
	assert_int_equal(ping("b", ADDR_A, 5, 20).received, 5);
	sh("ip -n g link set wan0 txqueuelen 1000");
}

static void ipv6_goes_through_the_class_and_the_delay(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 10000000, 5000000);
	struct shape_stats before, after;

	plan(&s);
	assert_int_equal(shaperd_stats(client, &before, NULL), 0);
	struct rtt r = ping("b", ADDR6_A, 4, 20);
	assert_int_equal(r.received, 4);
	assert_int_equal(shaperd_stats(client, &after, NULL), 0);
	assert_int_equal(after.v[0].packets - before.v[0].packets, r.sent);
	assert_in_range(after.v[0].delay_packets - before.v[0].delay_packets, 4, r.sent);
	shape_stats_free(&before);
	shape_stats_free(&after);
}

/* 20 -> 40 -> 20 Mbit/s and 10 -> 30 -> 10 ms below both rates: nothing is lost. */
static void change_in_mid_stream(void *arg)
{
	struct shape_spec *s = arg;

	for (int i = 0; i < 6; i++) {
		usleep(300000);
		s->links[0].rate_bps = i % 2 ? 20000000 : 40000000;
		s->links[0].reverse_rate_bps = s->links[0].rate_bps;
		s->links[0].buffer_bytes = 200000;
		s->links[0].latency_ns = i % 2 ? 10000000 : 30000000;
		plan(s);
	}
	usleep(300000);
}

static void a_change_in_place_loses_no_packet(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 20000000, 10000000);
	struct udp_result r;

	l.buffer_bytes = 200000;
	plan(&s);
	/* Towards a: the rate changes. */
	r = udp_stream("b", "a", ADDR_A, 10e6, 2.5, change_in_mid_stream, &s);
	print_message("rate changes: %llu sent, %llu received, %llu reordered\n", (unsigned long long)r.sent,
		      (unsigned long long)r.received, (unsigned long long)r.reordered);
	assert_int_equal(r.sent, r.received);
	assert_int_equal(r.reordered, 0);
	/* From a: the delay changes; the delay line also keeps the order when it
	 * falls, netem sorts by departure. */
	r = udp_stream("a", "b", ADDR_B, 5e6, 2.5, change_in_mid_stream, &s);
	print_message("delay changes: %llu sent, %llu received, %llu reordered\n", (unsigned long long)r.sent,
		      (unsigned long long)r.received, (unsigned long long)r.reordered);
	assert_int_equal(r.sent, r.received);
	if (backend == DELAY_NFQUEUE)
		assert_int_equal(r.reordered, 0);
}

static void ping_in_mid_stream(void *arg)
{
	usleep(500000);
	*(struct rtt *)arg = ping("b", ADDR_A, 20, 40);
}

/* Pitfall: a delay with a rate of its own beside the link's lets packets come seconds
 * late. From a comes four times the link's rate, which only a's own gateway limits. */
static void the_delay_is_no_second_bottleneck(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 2000000, 20000000);
	struct udp_result u;
	struct rtt r;

	plan(&s);
	u = udp_stream("a", "b", ADDR_B, 8e6, 2, ping_in_mid_stream, &r);
	print_message("under load: RTT %.1f ms, %llu of %llu packets\n", r.median_ms, (unsigned long long)u.received,
		      (unsigned long long)u.sent);
	assert_int_equal(u.sent, u.received);
	assert_int_equal(r.received, 20);
	/* With the link's rate in it, a second of this is three seconds late. */
	assert_true(r.median_ms < 1000);
}

static void jitter_alone_keeps_order(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 100000000, 20000000);
	struct udp_result r;

	l.jitter_ns = 8000000;
	l.jitter_dist = JITTER_NORMAL;
	plan(&s);
	r = udp_stream("a", "b", ADDR_B, 8e6, 1, NULL, NULL);
	assert_int_equal(r.sent, r.received);
	assert_int_equal(r.reordered, 0);
}

/* Two numbers: half of the packets early, half late, by all of the jitter; then
 * another table and nothing else that differs. */
static void jitter_follows_the_table(void **state)
{
	struct jitter_table *t = calloc(1, sizeof(*t));
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 100000000, 100000000);
	struct rtt r;

	*t = (struct jitter_table){ .name = "late", .n = 2, .v = { 8192, 8192 } };
	l.jitter_ns = 80000000;
	l.jitter_dist = JITTER_TABLE;
	s.n_tables = 1;
	s.tables = t;
	plan(&s);
	r = ping("b", ADDR_A, 6, 20);
	assert_int_equal(r.received, 6);
	assert_true(r.min_ms > 179);
	*t = (struct jitter_table){ .name = "early", .n = 3, .v = { -8192, -8192, -8192 } };
	plan(&s);
	r = ping("b", ADDR_A, 6, 250);
	assert_int_equal(r.received, 6);
	print_message("early: %.1f ms\n", r.min_ms);
	assert_true(r.min_ms > 19 && r.min_ms < 170);
	plan(&s);
	assert_int_equal(shaperd_changes(client), 0);
	free(t);
}

static void packets_overtake_only_when_asked(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 100000000, 20000000);
	struct udp_result r;

	l.impair.reorder = 0.2;
	plan(&s);
	r = udp_stream("a", "b", ADDR_B, 4e6, 1, NULL, NULL);
	assert_int_equal(r.sent, r.received);
	/* One in five goes at once; how many of those before it count as late
	 * depends on how evenly this machine sends. */
	assert_true(r.reordered > r.sent / 20);
}

/* 5 % of n: within the 99.9 % binomial interval. */
static void loss_is_what_was_asked(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 100000000, 1000000);
	struct udp_result r;
	double lost, expected;

	l.loss = 0.05;
	/* netem takes a seed only since Linux 6.7. */
	l.impair.seed = backend == DELAY_NFQUEUE ? 20240607 : 0;
	plan(&s);
	r = udp_stream("a", "b", ADDR_B, 8e6, 3, NULL, NULL);
	lost = (double)(r.sent - r.received);
	expected = 0.05 * (double)r.sent;
	print_message("%.0f of %llu lost, %.0f expected\n", lost, (unsigned long long)r.sent, expected);
	assert_true(fabs(lost - expected) <= 3.291 * sqrt(expected * 0.95) + 1);
}

/* Does this kernel's netem take a seed? Since Linux 6.7. */
static bool netem_takes_seeds(void)
{
	struct utsname u;
	int major = 0, minor = 0;

	assert_int_equal(uname(&u), 0);
	assert_int_equal(sscanf(u.release, "%d.%d", &major, &minor), 2);
	return major > 6 || (major == 6 && minor >= 7);
}

/* Pitfall: what the kernel does not know it ignores; read-back notices. */
static void a_seed_is_taken_or_refused_never_ignored(void **state)
{
	bool takes = backend == DELAY_NFQUEUE || netem_takes_seeds();
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 100000000, 1000000);
	struct bace_err e = { 0 };
	int rc;

	l.loss = 0.01;
	l.impair.seed = 7;
	rc = shaperd_plan(client, &s, &e);
	print_message("a seed is to be %s: %s\n", takes ? "taken" : "refused", rc ? e.msg : "it was taken");
	assert_int_equal(rc, takes ? 0 : -ENOTSUP);
	if (!takes)
		assert_non_null(strstr(e.msg, "seed"));
	/* Taken means shown: the plan is compared with what the kernel has. */
	if (takes) {
		plan(&s);
		assert_int_equal(shaperd_changes(client), 0);
	}
}

/* Pitfall: what an earlier setting had and the next does not must be gone. */
static void an_impairment_that_is_dropped_is_gone(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 100000000, 20000000);
	struct udp_result r;

	l.loss = 0.5;
	l.jitter_ns = 5000000;
	l.jitter_dist = JITTER_PARETO;
	l.impair.reorder = 0.5;
	if (backend == DELAY_NETEM) {
		l.impair.duplicate = 0.2;
		l.impair.corrupt = 0.2;
	}
	plan(&s);
	s = spec_to_a(&l, 100000000, 20000000);
	plan(&s);
	if (backend == DELAY_NETEM)
		/* The rate is the one that never limits and keeps the order. */
		sh("ip netns exec g tc qdisc show dev lan0 | grep 'netem 11: parent bace:11 limit' > /run/netem; cat /run/netem;"
		   "grep -q 'delay 20ms *rate 4Tbit' /run/netem; ! grep -q -e loss -e dup -e reorder -e corrupt /run/netem");
	r = udp_stream("a", "b", ADDR_B, 4e6, 1, NULL, NULL);
	assert_int_equal(r.sent, r.received);
	assert_int_equal(r.reordered, 0);
}

/* 80 -> 20 ms in mid-stream: what is sent later does not come earlier. */
static void let_the_latency_fall(void *arg)
{
	struct shape_spec *s = arg;

	usleep(500000);
	s->links[0].latency_ns = 20000000;
	plan(s);
	usleep(500000);
}

static void a_falling_latency_keeps_order(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 100000000, 80000000);
	struct udp_result r;

	plan(&s);
	r = udp_stream("a", "b", ADDR_B, 8e6, 1.2, let_the_latency_fall, &s);
	assert_int_equal(r.sent, r.received);
	assert_int_equal(r.reordered, 0);
}

/* Above 34.36 Gbit/s bytes/s no longer fit into 32 bits. */
static void fast_classes_read_back_as_asked(void **state)
{
	static const char *const names[] = { "1Gbit", "10Gbit", "40Gbit", "100Gbit", "400Gbit" };
	static const uint64_t rates[] = { 1000000000, 10000000000, 40000000000, 100000000000, 400000000000 };

	for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
		struct shape_link l;
		struct shape_spec s = spec_to_a(&l, rates[i], 0);
		struct shape_stats st;

		plan(&s);
		sh("ip netns exec g tc class show dev wan0 | grep -q 'bace:11 .*rate %s ceil %s '", names[i], names[i]);
		assert_int_equal(shaperd_stats(client, &st, NULL), 0);
		assert_int_equal(st.v[0].rate_bps, rates[i]);
		shape_stats_free(&st);
	}
}

/* netem's own limit is 1000 packets; 5 Gbit/s x 40 ms are 16,500. */
static void a_long_fat_link_drops_nothing_in_its_delay(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 5000000000, 40000000);
	struct shape_stats st;

	plan(&s);
	if (backend == DELAY_NETEM)
		sh("test $(ip netns exec g tc qdisc show dev lan0 | sed -n 's/.*netem 11:.* limit \\([0-9]*\\) .*/\\1/p') -ge 16513");
	if (getenv("BACE_IN_UML"))
		udp_stream("a", "b", ADDR_B, 8e6, 1, NULL, NULL);
	else
		iperf3_tcp("a", "b", ADDR_B, 2, "-C cubic");
	assert_int_equal(shaperd_stats(client, &st, NULL), 0);
	assert_true(st.v[0].delay_packets > 100);
	assert_int_equal(st.v[0].delay_drops, 0);
	assert_int_equal(st.queue_drops + st.user_drops, 0);
	shape_stats_free(&st);
}

/* Everything between regions is lost; whoever controls this host is not. */
static void total_loss_leaves_the_control_path_alone(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 10000000, 500000000);

	sh("ip -n a addr add 192.168.9.10/24 dev eth0; ip -n g addr add 192.168.9.1/24 dev wan0");
	l.loss = 1;
	plan(&s);
	assert_int_equal(ping("b", ADDR_A, 5, 20).received, 0);
	struct rtt r = ping("g", "192.168.9.10", 10, 20);
	assert_int_equal(r.received, 10);
	/* Not behind the link's half second. */
	assert_true(r.min_ms < 500);
	sh("ip -n a addr del 192.168.9.10/24 dev eth0; ip -n g addr del 192.168.9.1/24 dev wan0");
}

/* Pitfall: with IPv6 shaped by destination, neighbour discovery must not be. */
static void link_local_ipv6_is_free(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 10000, 0);
	struct shape_stats before, after;

	plan(&s);
	assert_int_equal(shaperd_stats(client, &before, NULL), 0);
	/* To all nodes, and to a alone, which has to be found first; both answer. */
	sh("ip -n g -6 neigh flush dev wan0; ip netns exec g ping -6 -qc1 -w5 ff02::1%%wan0 >/dev/null");
	sh("a=$(ip -n a -6 -o addr show dev eth0 scope link | sed 's/.*inet6 \\([^/]*\\).*/\\1/'); test \"$a\"; "
	   "ip -n g -6 neigh flush dev wan0; ip netns exec g ping -6 -qc1 -w5 \"$a%%wan0\" >/dev/null");
	assert_int_equal(shaperd_stats(client, &after, NULL), 0);
	assert_int_equal(before.v[0].packets, after.v[0].packets);
	shape_stats_free(&before);
	shape_stats_free(&after);
}

static int body(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_no_link_claims_is_not_shaped),
		cmocka_unit_test(a_device_without_a_queue_still_passes_arp),
		cmocka_unit_test(ipv6_goes_through_the_class_and_the_delay),
		cmocka_unit_test(a_change_in_place_loses_no_packet),
		cmocka_unit_test(the_delay_is_no_second_bottleneck),
		cmocka_unit_test(jitter_alone_keeps_order),
		cmocka_unit_test(jitter_follows_the_table),
		cmocka_unit_test(packets_overtake_only_when_asked),
		cmocka_unit_test(loss_is_what_was_asked),
		cmocka_unit_test(a_seed_is_taken_or_refused_never_ignored),
		cmocka_unit_test(an_impairment_that_is_dropped_is_gone),
		cmocka_unit_test(a_falling_latency_keeps_order),
		cmocka_unit_test(fast_classes_read_back_as_asked),
		cmocka_unit_test(a_long_fat_link_drops_nothing_in_its_delay),
		cmocka_unit_test(total_loss_leaves_the_control_path_alone),
		cmocka_unit_test(link_local_ipv6_is_free),
	};

	int failed = cmocka_run_group_tests(tests, setup, teardown);

	return failed + (backend == DELAY_NETEM ? impair_tests() : 0);
}

int main(int argc, char **argv)
{
	return sandbox_main(argc, argv, body);
}
