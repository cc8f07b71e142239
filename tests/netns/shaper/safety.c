/* What shaping must refuse, and what it must put back, exactly. */
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

#define GUARDED "--guard yes --state /run/state"

static char *state_of(const char *dev)
{
	return sh_output("ip netns exec g sh -c 'tc -d qdisc show dev %s | sort; tc -d class show dev %s | sort; "
			 "for p in root 1: 1:1 1:10 1:20; do tc -d filter show dev %s parent $p; done' | "
			 "sed 's/fh 8[0-9a-f]*:/fh R:/; s/ht 8[0-9a-f]*/ht R/; s/refcnt [0-9]*//; "
			 "s/ direct_packets_stat [0-9]*//'", dev, dev, dev);
}

static void assert_same(const char *a, const char *b)
{
	if (strcmp(a, b))
		fail_msg("before:\n%s\nafter:\n%s", a, b);
}

static struct shape_spec insisting(struct shape_link *l)
{
	struct shape_spec s = spec_to_a(l, 50000000, 5000000);

	s.allow_control_interface = s.replace_foreign = true;
	return s;
}

/* An administrator's HTB with classes, leaves and filters of two families. */
static void admins_htb(void)
{
	sh("ip netns exec g sh -ec '"
	   "tc qdisc add dev wan0 root handle 1: htb default 20 r2q 7; "
	   "tc class add dev wan0 parent 1: classid 1:1 htb rate 900mbit ceil 900mbit; "
	   "tc class add dev wan0 parent 1:1 classid 1:10 htb rate 300mbit ceil 900mbit prio 1 burst 20k; "
	   "tc class add dev wan0 parent 1:1 classid 1:20 htb rate 50gbit ceil 60gbit quantum 3000; "
	   "tc qdisc add dev wan0 parent 1:10 handle 10: bfifo limit 123456; "
	   "tc filter add dev wan0 parent 1: protocol ip prio 5 u32 match ip dst 10.17.0.0/24 match ip dport 80 0xffff flowid 1:10; "
	   "tc filter add dev wan0 parent 1: protocol ipv6 prio 6 u32 match ip6 dst fd00:11::/32 flowid 1:20'");
}

static void no_qdisc(const char *dev)
{
	sh_status("ip netns exec g tc qdisc del dev %s root 2>/dev/null", dev);
}

static void apply_and_end(int signal, const char *dev)
{
	struct shape_link l;
	struct shape_spec s = insisting(&l);
	pid_t d = shaperd_start("g", GUARDED);
	struct shaperd_client *c = connected();

	snprintf(s.egress, sizeof(s.egress), "%s", dev);
	if (s.delay == DELAY_NETEM)
		s.delay = DELAY_NONE;
	l.latency_ns = s.delay == DELAY_NONE ? 0 : l.latency_ns;
	planned(c, &s);
	sh("ip netns exec g tc qdisc show dev %s | grep -q 'htb bace: root'", dev);
	if (signal) {
		shaperd_stop(d, signal);
		shaperd_close(c);
		if (signal == SIGKILL)
			sh("ip netns exec g %s --clear --state /run/state -q", getenv("BACE_SHAPERD"));
	} else {
		shaperd_close(c);
		shaperd_close(connected());
		shaperd_stop(d, SIGTERM);
	}
	/* Nothing is left to undo. */
	assert_int_not_equal(access("/run/state/journal", F_OK), 0);
}

static void put_back_after(int signal)
{
	CLEANUP_FREE char *before = NULL;
	CLEANUP_FREE char *after = NULL;

	admins_htb();
	before = state_of("wan0");
	assert_non_null(strstr(before, "1:10"));
	apply_and_end(signal, "wan0");
	after = state_of("wan0");
	assert_same(before, after);
	no_qdisc("wan0");
}

static void an_admins_htb_comes_back_when_the_lease_ends(void **state)
{
	put_back_after(0);
}

static void an_admins_htb_comes_back_after_sigterm(void **state)
{
	put_back_after(SIGTERM);
}

static void an_admins_htb_comes_back_after_a_crash(void **state)
{
	put_back_after(SIGKILL);
}

static void a_restarted_daemon_undoes_what_its_predecessor_left(void **state)
{
	struct shape_link l;
	struct shape_spec s = insisting(&l);
	CLEANUP_FREE char *before = NULL;
	CLEANUP_FREE char *after = NULL;
	struct shaperd_client *c;
	pid_t d;

	admins_htb();
	before = state_of("wan0");
	d = shaperd_start("g", GUARDED);
	c = connected();
	planned(c, &s);
	shaperd_stop(d, SIGKILL);
	shaperd_close(c);
	d = shaperd_start("g", GUARDED);
	shaperd_close(connected());
	after = state_of("wan0");
	assert_same(before, after);
	shaperd_stop(d, SIGTERM);
	no_qdisc("wan0");
}

/* wan0 was given back by the second plan, so what its admin then did stays. */
static void what_was_given_back_is_left_alone_after_a_crash(void **state)
{
	struct shape_link l;
	struct shape_spec s = insisting(&l);
	struct shaperd_client *c;
	pid_t d;

	sh("ip netns exec g tc qdisc replace dev wan0 root handle 7: pfifo limit 77");
	d = shaperd_start("g", GUARDED);
	c = connected();
	l.latency_ns = 0;
	planned(c, &s);
	s = (struct shape_spec){ .egress = "lan0", .mtu = 1500 };
	planned(c, &s);
	sh("ip netns exec g tc qdisc show dev wan0 | grep -q 'pfifo 7: root .*limit 77p'");
	sh("ip netns exec g tc qdisc replace dev wan0 root handle 9: pfifo limit 99");
	shaperd_stop(d, SIGKILL);
	shaperd_close(c);
	sh("ip netns exec g %s --clear --state /run/state -q", getenv("BACE_SHAPERD"));
	sh("ip netns exec g tc qdisc show dev wan0 | grep -q 'pfifo 9: root .*limit 99p'");
	no_qdisc("wan0");
}

/* A veth with four queues has mq at its root, like a server's NIC. */
static void many_queues_keep_their_leaves(const char *leaf)
{
	CLEANUP_FREE char *before = NULL;
	CLEANUP_FREE char *after = NULL;

	sh("ip -n g link add mq0 numtxqueues 4 type veth peer name mq1 numtxqueues 4; ip -n g link set mq0 up; ip -n g link set mq1 up");
	before = state_of("mq0");
	apply_and_end(SIGKILL, "mq0");
	after = state_of("mq0");
	assert_same(before, after);
	free(before);
	free(after);
	sh("ip netns exec g sh -ec 'tc qdisc replace dev mq0 root handle 1: mq; "
	   "for i in 1 2 3 4; do tc qdisc replace dev mq0 parent 1:$i handle 1$i: %s; done'", leaf);
	before = state_of("mq0");
	assert_non_null(strstr(before, "qdisc mq 1: root"));
	apply_and_end(SIGKILL, "mq0");
	after = state_of("mq0");
	assert_same(before, after);
	sh("ip -n g link del mq0");
}

static void mq_and_its_leaves_come_back(void **state)
{
	many_queues_keep_their_leaves("pfifo limit 777");
	if (backend == DELAY_NETEM)
		many_queues_keep_their_leaves("fq_codel limit 5000 target 7ms interval 90ms flows 512 quantum 3000 noecn");
}

static void other_qdiscs_come_back_with_their_options(void **state)
{
	static const char *const everywhere[] = { "pfifo limit 321", "bfifo limit 54321",
						  "tbf rate 50mbit burst 20k latency 30ms" };
	static const char *const uml[] = { "fq limit 3000 flow_limit 200 quantum 4000 initial_quantum 20000 maxrate 200mbit nopacing",
					   "prio bands 4 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 3",
					   "netem delay 30ms loss 1%" };
	size_t n = ARRAY_LEN(everywhere) + (backend == DELAY_NETEM ? ARRAY_LEN(uml) : 0);

	for (size_t i = 0; i < n; i++) {
		const char *what = i < ARRAY_LEN(everywhere) ? everywhere[i] : uml[i - ARRAY_LEN(everywhere)];
		CLEANUP_FREE char *before = NULL;
		CLEANUP_FREE char *after = NULL;

		sh("ip netns exec g tc qdisc replace dev wan0 root handle 7: %s", what);
		before = state_of("wan0");
		apply_and_end(i % 2 ? SIGKILL : SIGTERM, "wan0");
		after = state_of("wan0");
		assert_same(before, after);
		no_qdisc("wan0");
	}
}

/* The kernel does not show a distribution table; a size table is not among the options. */
static void what_cannot_be_put_back_is_not_taken_away(void **state)
{
	static const char *const qdiscs[][2] = {
		{ "netem delay 30ms 3ms distribution normal", "netem" },
		{ "stab overhead 24 pfifo limit 9", "a size table" },
	};
	struct shape_link l;
	struct shape_spec s = insisting(&l);
	struct shaperd_client *c;
	struct bace_err e;
	pid_t d;

	d = shaperd_start("g", GUARDED);
	c = connected();
	for (size_t i = backend == DELAY_NETEM ? 0 : 1; i < ARRAY_LEN(qdiscs); i++) {
		CLEANUP_FREE char *before = NULL;
		CLEANUP_FREE char *after = NULL;

		sh("ip netns exec g tc qdisc replace dev wan0 root handle 7: %s", qdiscs[i][0]);
		before = state_of("wan0");
		assert_int_equal(shaperd_plan(c, &s, &e), -ENOTSUP);
		assert_non_null(strstr(e.msg, qdiscs[i][1]));
		after = state_of("wan0");
		assert_same(before, after);
		no_qdisc("wan0");
	}
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
}

static void refused(struct shaperd_client *c, const struct shape_spec *s, int errnum, const char *why)
{
	struct bace_err e;

	assert_int_equal(shaperd_plan(c, s, &e), -errnum);
	if (!strstr(e.msg, why))
		fail_msg("`%s' does not say `%s'", e.msg, why);
}

static void a_guarded_daemon_refuses_what_could_hurt(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 5000000);
	pid_t d = shaperd_start("g", GUARDED);
	struct shaperd_client *c = connected();
	struct bace_err e;

	sh("ip -n g route add default via 10.17.0.10 dev wan0");
	refused(c, &s, EISCONN, "default route");
	sh("ip -n g route del default; ip -n g -6 route add default via fd00:11::10 dev wan0");
	refused(c, &s, EISCONN, "default route");
	if (backend == DELAY_NFQUEUE) {
		l.rate_bps = 0;
		refused(c, &s, EISCONN, "default route");
		l.rate_bps = 50000000;
	}
	s.allow_control_interface = true;
	planned(c, &s);
	assert_int_equal(shaperd_clear(c, &e), 0);
	sh("ip -n g -6 route del default");

	sh("ip netns exec g tc qdisc replace dev wan0 root handle 7: pfifo limit 9");
	refused(c, &s, EEXIST, "--replace");
	sh("ip netns exec g tc qdisc show dev wan0 | grep -q 'pfifo 7: root'");
	no_qdisc("wan0");

	sh("ip -n g link set wan0 down");
	refused(c, &s, ENETDOWN, "is down");
	sh("ip -n g link set wan0 up");

	if (backend == DELAY_NETEM) {
		sh("ip -n g link add bond0 type bond; ip -n g link add p0 type veth peer name p1; ip -n g link set p0 master bond0; ip -n g link set p0 up");
		snprintf(s.egress, sizeof(s.egress), "p0");
		refused(c, &s, EINVAL, "bond");
		sh("ip -n g link del p0; ip -n g link del bond0");
	}
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
}

/* With the capabilities that the systemd unit leaves it, and no other. */
static pid_t start_as_service(const char *wrapper, const char *options)
{
	CLEANUP_FREE char *caps = sh_output("sed -n 's/^CapabilityBoundingSet=//p' %s | tr 'A-Z ' 'a-z,' | "
					    "sed 's/cap_/+/g' | tr -d '\n'", getenv("BACE_SHAPERD_UNIT"));
	char words[512];

	assert_non_null(strstr(caps, "+net_admin"));
	snprintf(words, sizeof(words), "%s setpriv --bounding-set -all,%s", wrapper, caps);
	return shaperd_start_by(words, options);
}

static void the_services_capabilities_are_enough(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	pid_t d = start_as_service("ip netns exec g", GUARDED);
	struct shaperd_client *c = connected();
	struct bace_err e;

	planned(c, &s);
	assert_true(ping("b", ADDR_A, 3, 20).min_ms >= 20);
	if (shaperd_clear(c, &e))
		fail_msg("%s", e.msg);
	assert_true(ping("b", ADDR_A, 3, 20).min_ms < 20);
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
}

/* Beside PID 1 of the sandbox the service may not look at PID 1's namespace: it
 * must not take that for another one's. */
static void a_daemon_that_cannot_tell_is_guarded(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 0);
	struct shaperd_client *c;
	pid_t d;

	sh("ip link add gw0 type veth peer name gw1; ip link set gw0 up; ip addr add 10.99.0.1/24 dev gw0; "
	   "ip route add default via 10.99.0.2 dev gw0");
	d = start_as_service("", "");
	c = connected();
	snprintf(s.egress, sizeof(s.egress), "gw0");
	s.ingress[0] = '\0';
	refused(c, &s, EISCONN, "default route");
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
	sh("ip link del gw0");
}

static int body(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(an_admins_htb_comes_back_when_the_lease_ends, after_each),
		cmocka_unit_test_teardown(an_admins_htb_comes_back_after_sigterm, after_each),
		cmocka_unit_test_teardown(an_admins_htb_comes_back_after_a_crash, after_each),
		cmocka_unit_test_teardown(a_restarted_daemon_undoes_what_its_predecessor_left, after_each),
		cmocka_unit_test_teardown(what_was_given_back_is_left_alone_after_a_crash, after_each),
		cmocka_unit_test_teardown(mq_and_its_leaves_come_back, after_each),
		cmocka_unit_test_teardown(other_qdiscs_come_back_with_their_options, after_each),
		cmocka_unit_test_teardown(what_cannot_be_put_back_is_not_taken_away, after_each),
		cmocka_unit_test_teardown(a_guarded_daemon_refuses_what_could_hurt, after_each),
		cmocka_unit_test_teardown(the_services_capabilities_are_enough, after_each),
		cmocka_unit_test_teardown(a_daemon_that_cannot_tell_is_guarded, after_each),
	};

	return cmocka_run_group_tests(tests, with_network, without_network);
}

int main(int argc, char **argv)
{
	return sandbox_main(argc, argv, body);
}
