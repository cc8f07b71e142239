/* A plan that stands: changes in place, traces, and what others do to it. */
#include "tests/netns/shaper/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pid_t daemon_pid;
static struct shaperd_client *client;

static int start(void **state)
{
	daemon_pid = shaperd_start("g", "");
	client = connected();
	return 0;
}

static int end(void **state)
{
	shaperd_close(client);
	client = NULL;
	return after_each(state);
}

static void plan(const struct shape_spec *s)
{
	planned(client, s);
}

static void change(struct shape_change c)
{
	struct bace_err e;

	if (shaperd_change(client, &c, 1, &e))
		fail_msg("%s", e.msg);
}

static struct shape_stats stats(void)
{
	struct shape_stats st;
	struct bace_err e;

	if (shaperd_stats(client, &st, &e))
		fail_msg("%s", e.msg);
	return st;
}

#define G "ip netns exec g "
#define RATE(text) G "tc class show dev wan0 | grep -q 'bace:11 .*rate " text " ceil " text " '"
#define LEAF G "tc qdisc show dev wan0 | grep -q 'qdisc bfifo 11: parent bace:11 '"

static bool has_rate(const char *text)
{
	return !sh_status(RATE("%s"), text, text);
}

/* Never early; and of several one is not so late that it could be another latency. */
static void assert_about(double min_ms, int ms)
{
	print_message("%d ms: %.2f ms at least\n", ms, min_ms);
	assert_true(min_ms >= ms && min_ms < ms + 14.5);
}

/* The kernel's netem, or what the delay line answers to ping. */
static void assert_latency_ms(int ms)
{
	if (backend == DELAY_NETEM)
		sh("ip netns exec g tc qdisc show dev lan0 | grep -q 'delay %dms'", ms);
	else
		assert_about(ping("b", ADDR_A, 10, 20).min_ms, ms);
}

/* ---- in place ---- */
/* What tc's own monitor sees between the two calls stands in /run/seen; marks on
 * lo tell that it listens, and that it has heard all. */
static void watch_tc(bool begin)
{
	if (begin)
		sh("ip netns exec g sh -c 'timeout 100 tc monitor >/run/seen 2>&1 & echo $! >/run/monitor'");
	sh("for i in $(seq 200); do ip netns exec g tc qdisc replace dev lo root pfifo limit %d; sleep 0.05; "
	   "grep -q 'limit %dp' /run/seen && break; done; grep -q 'limit %dp' /run/seen", begin ? 7 : 8, begin ? 7 : 8, begin ? 7 : 8);
	if (!begin)
		sh("kill $(cat /run/monitor); ip netns exec g tc qdisc del dev lo root");
}

static void a_change_is_one_message_and_the_plan_knows_of_it(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);

	plan(&s);
	assert_int_equal(ping("b", ADDR_A, 3, 20).received, 3);
	watch_tc(true);
	change((struct shape_change){ .region = 1, .set = SHAPE_SET_RATE, .rate_bps = 30000000 });
	watch_tc(false);
	sh("test $(grep -c '^class htb bace:11 ' /run/seen) = 1 && test $(grep -c -e 'qdisc .*bace:' -e '^filter' -e '^deleted class' /run/seen) = 0");
	assert_true(has_rate("30Mbit"));
	change((struct shape_change){ .region = 1, .set = SHAPE_SET_LATENCY | SHAPE_SET_LOSS, .latency_ns = 40000000 });
	assert_latency_ms(40);
	struct shape_stats st = stats();
	assert_int_equal(st.v[0].rate_bps, 30000000);
	assert_int_equal(st.v[0].latency_ns, 40000000);
	/* Counters ran on. */
	assert_true(st.v[0].packets >= 3);
	shape_stats_free(&st);
	/* The same plan again undoes the changes, one message each. */
	plan(&s);
	assert_true(has_rate("50Mbit"));
	assert_latency_ms(20);
}

static void a_latency_of_nothing_keeps_the_delay_queue(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);

	plan(&s);
	change((struct shape_change){ .region = 1, .set = SHAPE_SET_LATENCY, .latency_ns = 0 });
	assert_true(ping("b", ADDR_A, 5, 20).min_ms < 20);
	change((struct shape_change){ .region = 1, .set = SHAPE_SET_LATENCY, .latency_ns = 30000000 });
	assert_latency_ms(30);
}

static void refused(struct shape_change c, int errnum, const char *why)
{
	struct bace_err e = { 0 };

	assert_int_equal(shaperd_change(client, &c, 1, &e), -errnum);
	if (!strstr(e.msg, why))
		fail_msg("`%s' does not say `%s'", e.msg, why);
}

static void what_is_not_shaped_cannot_be_changed(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 0);
	struct shape_change two[2] = { { .region = 1, .set = SHAPE_SET_RATE, .rate_bps = 10000000 },
				       { .region = 2, .set = SHAPE_SET_RATE, .rate_bps = 10000000 } };
	struct bace_err e;

	refused(two[0], ENOENT, "nothing is shaped");
	plan(&s);
	refused(two[1], ENOENT, "region number 2");
	refused((struct shape_change){ .region = 1, .set = SHAPE_SET_LATENCY, .latency_ns = 5 }, EINVAL, "neither latency");
	refused((struct shape_change){ .region = 1, .set = SHAPE_SET_RATE, .rate_bps = 7999 }, EINVAL, "8 kbit/s");
	refused((struct shape_change){ .region = 1, .set = SHAPE_SET_RATE, .rate_bps = 0 }, EINVAL, "8 kbit/s");
	/* One of two is wrong: neither is made. */
	assert_int_equal(shaperd_change(client, two, 2, &e), -ENOENT);
	/* Nor twice at once: which of the two would hold? */
	two[1] = (struct shape_change){ .region = 1, .set = SHAPE_SET_RATE, .rate_bps = 20000000 };
	assert_int_equal(shaperd_change(client, two, 2, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "twice"));
	assert_true(has_rate("50Mbit"));
	s = spec_to_a(&l, 0, 20000000);
	plan(&s);
	refused(two[0], EINVAL, "does not limit");
}

/* ---- what others do ---- */
static void an_interface_that_was_down_is_counted(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	struct shape_stats before, after;

	plan(&s);
	before = stats();
	after = stats();
	assert_int_equal(after.carrier_changes, before.carrier_changes);
	shape_stats_free(&after);
	sh("ip -n g link set wan0 down; ip -n g link set wan0 up");
	after = stats();
	assert_true(after.carrier_changes > before.carrier_changes);
	shape_stats_free(&before);
	shape_stats_free(&after);
}

static uint64_t repairs(void)
{
	struct shape_stats st = stats();
	uint64_t n = st.drift_repairs;

	shape_stats_free(&st);
	return n;
}

/* Does it to what is shaped; one change may be seen, and repaired, twice. */
static void repaired(const char *command, const char *then)
{
	uint64_t before = repairs();
	int rc = -1;

	sh("%s", command);
	for (int i = 0; i < 500 && repairs() <= before; i++)
		usleep(20000);
	assert_true(repairs() > before);
	for (int i = 0; i < 500 && (rc = sh_status("%s", then)); i++)
		usleep(20000);
	if (rc)
		fail_msg("repaired after `%s', but not: %s", command, then);
}

static void foreign_changes_are_put_back_and_counted(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);

	plan(&s);
	repaired(G "tc class change dev wan0 parent bace: classid bace:11 htb rate 1gbit", RATE("50Mbit"));
	repaired(G "tc filter del dev wan0 parent bace: prio 1", G "tc filter show dev wan0 | grep -q 'match 0a110000/ffff0000 at 16'");
	repaired(G "tc qdisc del dev wan0 root", RATE("50Mbit"));
	repaired(G "tc qdisc replace dev wan0 root pfifo limit 17", RATE("50Mbit"));
	/* A leaf under a number of the kernel's, and one of a kind that plans do not have. */
	repaired(G "tc qdisc replace dev wan0 parent bace:11 pfifo limit 17", LEAF);
	if (backend == DELAY_NETEM) {
		repaired(G "tc qdisc replace dev wan0 parent bace:11 fq_codel", LEAF);
		repaired(G "tc qdisc change dev lan0 handle 11: parent bace:11 netem delay 1ms",
			 G "tc qdisc show dev lan0 | grep -q 'delay 20ms'");
	}
	/* A change in place is part of the plan that is put back. */
	change((struct shape_change){ .region = 1, .set = SHAPE_SET_RATE, .rate_bps = 30000000 });
	repaired(G "tc class change dev wan0 parent bace: classid bace:11 htb rate 1gbit", RATE("30Mbit"));
}

/* The same plan again is not compared with the kernel while nobody changed anything; somebody does. */
static void the_same_plan_again_sees_what_others_did(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	struct bace_err e;

	for (int i = 0; i < 4; i++) {
		plan(&s);
		assert_true(!i || !shaperd_changes(client));
	}
	/* What comes soon after a repair waits for the next one: the plan is first. */
	for (int i = 0; i < 4; i++) {
		sh(G "tc class change dev wan0 parent bace: classid bace:11 htb rate 1gbit");
		plan(&s);
		assert_true(has_rate("50Mbit"));
	}
	plan(&s);
	plan(&s);
	sh("ip -n g link set wan0 down");
	assert_int_equal(shaperd_plan(client, &s, &e), -ENETDOWN);
	assert_non_null(strstr(e.msg, "wan0"));
	sh("ip -n g link set wan0 up");
	plan(&s);
	/* A change in place makes it another plan. */
	change((struct shape_change){ .region = 1, .set = SHAPE_SET_RATE, .rate_bps = 30000000 });
	plan(&s);
	assert_true(shaperd_changes(client) > 0);
	assert_true(has_rate("50Mbit"));
}

/* Nobody is told when iptables' rules go, as by a firewall's reload. */
static void the_delay_lines_rule_comes_back(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);

	if (backend == DELAY_NETEM)
		return;
	plan(&s);
	/* The next plan finds it. */
	sh("ip netns exec g iptables-legacy -t mangle -F");
	plan(&s);
	assert_true(shaperd_changes(client) > 0);
	assert_latency_ms(20);
	plan(&s);
	assert_int_equal(shaperd_changes(client), 0);
	/* And so does the watch. */
	repaired(G "ip6tables-legacy -t mangle -D BACE-DELAY 1",
		 G "ip6tables-legacy-save -t mangle | grep -q -e '-A BACE-DELAY -s fd00:11::/32 -j NFQUEUE'");
	repaired(G "iptables-legacy -t mangle -F; " G "iptables-legacy -t mangle -X BACE-DELAY",
		 G "iptables-legacy-save -t mangle | grep -q -e '-A BACE-DELAY -s 10.17.0.0/16 -j NFQUEUE'");
	assert_latency_ms(20);
}

static void what_is_not_ours_may_change(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);

	plan(&s);
	plan(&s);
	change((struct shape_change){ .region = 1, .set = SHAPE_SET_RATE, .rate_bps = 30000000 });
	sh("ip netns exec g tc qdisc add dev lo root pfifo limit 5; sleep 0.3");
	assert_int_equal(repairs(), 0);
	sh("ip netns exec g tc qdisc del dev lo root");
}

static void a_shaped_interface_that_goes_loses_the_lease(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 0);
	struct bace_err e;
	int rc = 0;

	sh("ip -n g link add dum0 type veth peer name dum1; ip -n g link set dum0 up");
	snprintf(s.egress, sizeof(s.egress), "dum0");
	plan(&s);
	assert_int_equal(shaperd_keepalive(client, &e), 0);
	sh("ip -n g link del dum0");
	for (int i = 0; i < 250 && !(rc = shaperd_keepalive(client, &e)); i++)
		usleep(20000);
	assert_int_equal(rc, -EIO);
	assert_non_null(strstr(e.msg, "dum0"));
}

/* ---- traces ---- */
/* 20 and 40 Mbit/s, 10 and 30 ms, in turn. */
static struct shape_trace flapping(struct shape_trace_point *v, size_t n, int64_t step_ns)
{
	for (size_t i = 0; i < n; i++)
		v[i] = (struct shape_trace_point){
			.at_ns = step_ns * (int64_t)i,
			.to = { .set = SHAPE_SET_RATE | SHAPE_SET_LATENCY, .rate_bps = i % 2 ? 40000000 : 20000000,
				.latency_ns = i % 2 ? 30000000 : 10000000 } };
	return (struct shape_trace){ .n = n, .v = v, .period_ns = step_ns * (int64_t)n };
}

static void play(const struct shape_trace *t, bool loop, int64_t start_real_ns)
{
	struct bace_err e;

	if (shaperd_trace(client, 1, t, loop, start_real_ns, &e))
		fail_msg("%s", e.msg);
}

static uint64_t trace_changes(void)
{
	struct shape_stats st = stats();
	uint64_t n = st.trace_changes;

	print_message("%llu changes by the trace, p99 %.3f ms late, most %.3f ms\n", (unsigned long long)n,
		      (double)st.trace_late_p99_ns / 1e6, (double)st.trace_late_max_ns / 1e6);
	shape_stats_free(&st);
	return n;
}

static void a_trace_changes_ten_times_a_second_and_loses_no_packet(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 20000000, 10000000);
	struct shape_trace_point v[4];
	struct shape_trace t = flapping(v, 4, 100000000), none = { 0 };
	struct udp_result r;
	struct bace_err e;

	l.buffer_bytes = 200000;
	plan(&s);
	play(&t, true, 0);
	/* Towards a the rate changes, from a the latency. */
	r = udp_stream("b", "a", ADDR_A, 10e6, 1, NULL, NULL);
	assert_int_equal(r.sent, r.received);
	assert_int_equal(r.reordered, 0);
	r = udp_stream("a", "b", ADDR_B, 5e6, 1, NULL, NULL);
	assert_int_equal(r.sent, r.received);
	assert_int_equal(r.reordered, 0);
	/* Late ones are made into one, on a slow machine. */
	assert_true(trace_changes() >= 10);
	/* Nobody else was at work. */
	assert_int_equal(repairs(), 0);
	/* A plan that fails leaves it playing: here at its last step. */
	s.gso_max_bytes = 1u << 30;
	assert_true(shaperd_plan(client, &s, &e) < 0);
	uint64_t so_far = trace_changes();
	for (int i = 0; i < 250 && trace_changes() < so_far + 2; i++)
		usleep(20000);
	assert_true(trace_changes() >= so_far + 2);
	play(&none, false, 0);
	uint64_t n = trace_changes();
	usleep(400000);
	assert_int_equal(trace_changes(), n);
}

static void a_trace_begins_at_its_time_and_ends_with_its_last_line(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 5000000);
	struct shape_trace_point v[3];
	struct shape_trace t = flapping(v, 3, 10000000);

	plan(&s);
	int64_t start_ns = bace_wall_ns() + 1500000000;
	play(&t, false, start_ns);
	uint64_t early = trace_changes();
	/* A slow machine comes too late to see it wait. */
	assert_true(!early || bace_wall_ns() >= start_ns);
	for (int i = 0; i < 250 && trace_changes() < 3; i++)
		usleep(20000);
	assert_true(has_rate("20Mbit"));
	assert_latency_ms(10);
	/* Joined in the middle: past points are made up for at once. */
	t = flapping(v, 2, 3600000000000);
	play(&t, true, bace_wall_ns() - 5400000000000);
	for (int i = 0; i < 250 && !has_rate("40Mbit"); i++)
		usleep(20000);
	assert_true(has_rate("40Mbit"));
	/* A plan ends it. */
	t = flapping(v, 2, 50000000);
	play(&t, true, 0);
	plan(&s);
	usleep(200000);
	assert_true(has_rate("50Mbit"));
}

static void a_trace_that_cannot_be_played_changes_nothing(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 0);
	struct shape_trace_point v[2];
	struct shape_trace t = flapping(v, 2, 100000000);
	struct bace_err e;

	plan(&s);
	assert_int_equal(shaperd_trace(client, 1, &t, false, 0, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "latency"));
	assert_int_equal(shaperd_trace(client, 9, &t, false, 0, &e), -ENOENT);
	v[0].to.set = v[1].to.set = SHAPE_SET_RATE;
	v[0].at_ns = 1;
	v[1].at_ns = 0;
	assert_int_equal(shaperd_trace(client, 1, &t, false, 0, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "back in time"));
	v[0].at_ns = 0;
	t.period_ns = 0;
	assert_int_equal(shaperd_trace(client, 1, &t, true, 0, &e), -EINVAL);
	assert_true(has_rate("50Mbit"));
	/* Times of a clock that is not of this world. */
	assert_int_equal(shaperd_trace(client, 1, &t, false, INT64_MIN, &e), -EINVAL);
	assert_int_equal(shaperd_trace(client, 1, &t, false, INT64_MAX, &e), -EINVAL);
	t.period_ns = INT64_MAX;
	assert_int_equal(shaperd_trace(client, 1, &t, true, 0, &e), -EINVAL);
	v[1].at_ns = INT64_MAX;
	assert_int_equal(shaperd_trace(client, 1, &t, false, 0, &e), -EINVAL);
	/* The connection is still good. */
	assert_int_equal(shaperd_keepalive(client, &e), 0);
}

static int body(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_change_is_one_message_and_the_plan_knows_of_it, start, end),
		cmocka_unit_test_setup_teardown(a_latency_of_nothing_keeps_the_delay_queue, start, end),
		cmocka_unit_test_setup_teardown(what_is_not_shaped_cannot_be_changed, start, end),
		cmocka_unit_test_setup_teardown(foreign_changes_are_put_back_and_counted, start, end),
		cmocka_unit_test_setup_teardown(the_same_plan_again_sees_what_others_did, start, end),
		cmocka_unit_test_setup_teardown(the_delay_lines_rule_comes_back, start, end),
		cmocka_unit_test_setup_teardown(what_is_not_ours_may_change, start, end),
		cmocka_unit_test_setup_teardown(a_shaped_interface_that_goes_loses_the_lease, start, end),
		cmocka_unit_test_setup_teardown(a_trace_changes_ten_times_a_second_and_loses_no_packet, start, end),
		cmocka_unit_test_setup_teardown(a_trace_begins_at_its_time_and_ends_with_its_last_line, start, end),
		cmocka_unit_test_setup_teardown(a_trace_that_cannot_be_played_changes_nothing, start, end),
		/* The last: going down takes addresses along. */
		cmocka_unit_test_setup_teardown(an_interface_that_was_down_is_counted, start, end),
	};

	return cmocka_run_group_tests(tests, with_network, without_network);
}

int main(int argc, char **argv)
{
	return sandbox_main(argc, argv, body);
}
