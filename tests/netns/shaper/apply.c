/* What apply does, and what it leaves: judged by tc, ping and iptables. */
#include "tests/netns/shaper/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shaper/kernel.h"

static void reads_back_what_was_asked(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	pid_t d = shaperd_start("g", "");
	struct shaperd_client *c = connected();

	planned(c, &s);
	sh("ip netns exec g tc class show dev wan0 | grep -q 'class htb bace:11 root leaf 11: prio 0 rate 50Mbit ceil 50Mbit burst 30[0-9][0-9]b'");
	sh("ip netns exec g tc qdisc show dev wan0 | grep -q 'qdisc bfifo 11: parent bace:11 limit'");
	sh("ip netns exec g tc filter show dev wan0 | grep -q 'match 0a110000/ffff0000 at 16'");
	sh("ip netns exec g tc filter show dev wan0 | grep -q 'match fd000011/ffffffff at 24'");
	if (backend == DELAY_NETEM)
		sh("ip netns exec g tc qdisc show dev lan0 | grep -q 'qdisc netem 11: parent bace:11 limit [0-9]* delay 20ms'");
	else
		sh("ip netns exec g iptables-legacy-save | grep -q -e '-A BACE-DELAY -s 10.17.0.0/16 -j NFQUEUE --queue-num 47822$'");
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
}

static void a_second_apply_sends_nothing_and_counters_run_on(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 5000000);
	pid_t d = shaperd_start("g", "");
	struct shaperd_client *c = connected();
	struct shape_stats before, after;

	planned(c, &s);
	assert_true(shaperd_changes(c) > 0);
	struct rtt r = ping("b", ADDR_A, 5, 20);
	assert_int_equal(r.received, 5);
	assert_int_equal(shaperd_stats(c, &before, NULL), 0);
	assert_int_equal(before.n, 1);
	assert_int_equal(before.v[0].rate_bps, 50000000);
	assert_int_equal(before.v[0].latency_ns, 5000000);
	/* Echo requests of 84 bytes IP + 14 Ethernet. */
	assert_int_equal(before.v[0].bytes, r.sent * 98);
	assert_in_range(before.v[0].delay_packets, 5, r.sent);
	planned(c, &s);
	assert_int_equal(shaperd_changes(c), 0);
	struct rtt more = ping("b", ADDR_A, 1, 20);
	assert_int_equal(more.received, 1);
	assert_int_equal(shaperd_stats(c, &after, NULL), 0);
	assert_int_equal(after.v[0].bytes, (r.sent + more.sent) * 98);
	assert_in_range(after.v[0].delay_packets, 6, r.sent + more.sent);
	assert_true(after.delay_alive);
	shape_stats_free(&before);
	shape_stats_free(&after);
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
}

/* In the lab the delay line fails closed: no packet passes undelayed. */
static void a_dead_delay_line_is_never_quietly_fast(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	struct shaperd_client *c;
	pid_t d;

	if (backend == DELAY_NETEM)
		return;
	d = shaperd_start("g", "");
	c = connected();
	planned(c, &s);
	assert_int_equal(ping("b", ADDR_A, 2, 50).received, 2);
	shaperd_stop(d, SIGKILL);
	assert_int_equal(ping("b", ADDR_A, 2, 50).received, 0);
	shaperd_close(c);
	sh("ip netns exec g %s --clear -q", getenv("BACE_SHAPERD"));
	assert_int_equal(ping("b", ADDR_A, 2, 50).received, 2);
}

/* Of eth0 in b. iproute2 may be too old to show IPv4's own. */
static struct if_info gso_of_b(void)
{
	struct if_info info = { 0 };
	int fd[2];
	pid_t pid;

	assert_int_equal(pipe(fd), 0);
	pid = fork();
	if (!pid) {
		int ns = open("/run/netns/b", O_RDONLY | O_CLOEXEC);
		struct netlink nl;

		_exit(ns < 0 || setns(ns, CLONE_NEWNET) || netlink_open(&nl, NETLINK_ROUTE, NULL) ||
		      kernel_if_info(&nl, "eth0", &info, NULL) || write(fd[1], &info, sizeof(info)) != sizeof(info));
	}
	close(fd[1]);
	assert_int_equal(read(fd[0], &info, sizeof(info)), sizeof(info));
	close(fd[0]);
	waitpid(pid, NULL, 0);
	return info;
}

static void gso_max_size_is_set_and_put_back(void **state)
{
	struct shape_spec s = { .egress = "eth0", .mtu = 1500, .gso_max_bytes = 5000 };
	pid_t d = shaperd_start("b", "");
	struct shaperd_client *c = connected();
	struct if_info before, after;

	/* As hosts with BIG TCP have it, where this kernel and iproute2 can. */
	sh_status("ip -n b link set eth0 gso_max_size 150000 2>/dev/null");
	before = gso_of_b();

	planned(c, &s);
	sh("ip -n b -d link show eth0 | grep -q 'gso_max_size 5000 '");
	planned(c, &s);
	assert_int_equal(shaperd_changes(c), 0);
	s.gso_max_bytes = 3000;
	planned(c, &s);
	sh("ip -n b -d link show eth0 | grep -q 'gso_max_size 3000 '");
	shaperd_close(c);
	shaperd_close(connected());
	after = gso_of_b();
	print_message("gso_max_size %u, IPv4 %u\n", after.gso_max_bytes, after.gso_ipv4_max_bytes);
	assert_int_equal(before.gso_max_bytes, after.gso_max_bytes);
	assert_int_equal(before.gso_ipv4_max_bytes, after.gso_ipv4_max_bytes);
	shaperd_stop(d, SIGTERM);
}

static void bad_plans_change_nothing(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	pid_t d = shaperd_start("g", "--iface wan0,lan0,nosuch0 --prefix 10.0.0.0/8 --prefix fd00::/8");
	CLEANUP_FREE char *before = tc_state();
	CLEANUP_FREE char *after = NULL;
	struct shaperd_client *c = connected();
	struct bace_err e;

	snprintf(s.egress, sizeof(s.egress), "nosuch0");
	assert_int_equal(shaperd_plan(c, &s, &e), -ENODEV);
	assert_non_null(strstr(e.msg, "nosuch0"));
	/* Also where the delay line alone has to do with it. */
	l.rate_bps = 0;
	if (backend == DELAY_NFQUEUE)
		assert_int_equal(shaperd_plan(c, &s, &e), -ENODEV);
	l.rate_bps = 50000000;
	snprintf(s.egress, sizeof(s.egress), "lo");
	assert_int_equal(shaperd_plan(c, &s, &e), -EACCES);
	snprintf(s.egress, sizeof(s.egress), "wan0");
	l.prefixes[0] = (struct shape_prefix){ .family = AF_INET, .len = 16, .addr = { 192, 168 } };
	assert_int_equal(shaperd_plan(c, &s, &e), -EACCES);
	l.prefixes[0] = (struct shape_prefix){ .family = AF_INET, .len = 16, .addr = { 10, 17 } };
	l.loss = 2;
	assert_int_equal(shaperd_plan(c, &s, &e), -EINVAL);
	memset(l.name, 'x', sizeof(l.name));
	assert_int_equal(shaperd_plan(c, &s, &e), -EINVAL);
	after = tc_state();
	assert_same_state(before, after);
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
}

/* What is not the name of an interface would be more of iptables-restore's input. */
static void a_rule_of_others_survives_a_forged_name(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 0, 20000000);
	pid_t d = shaperd_start("g", "");
	struct shaperd_client *c = connected();
	struct bace_err e;

	if (backend == DELAY_NFQUEUE)
		sh("ip netns exec g iptables-legacy -t mangle -A PREROUTING -s 192.0.2.1 -j ACCEPT");
	snprintf(s.egress, sizeof(s.egress), "x\n-F\n#");
	assert_int_equal(shaperd_plan(c, &s, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "malformed"));
	if (backend == DELAY_NFQUEUE)
		sh("ip netns exec g iptables-legacy -t mangle -D PREROUTING -s 192.0.2.1 -j ACCEPT");
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
}

/* The last step fails, all others have been made: more than any device can send at
 * once is refused by the kernel. */
static void a_partial_failure_is_undone(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	pid_t d = shaperd_start("g", "");
	CLEANUP_FREE char *foreign = NULL;
	CLEANUP_FREE char *good = NULL;
	CLEANUP_FREE char *after = NULL;
	struct shaperd_client *c = connected();
	struct bace_err e;

	/* As the first plan: what stood before it comes back. */
	sh("ip netns exec g tc qdisc replace dev wan0 root handle 7: pfifo limit 77; ip netns exec g iptables-legacy -t mangle -L -n >/dev/null; "
	   "ip netns exec g ip6tables-legacy -t mangle -L -n >/dev/null");
	foreign = tc_state();
	s.replace_foreign = true;
	s.gso_max_bytes = 1u << 30;
	assert_true(shaperd_plan(c, &s, &e) < 0);
	assert_non_null(strstr(e.msg, "gso_max_size"));
	assert_null(strstr(e.msg, "could not be"));
	after = tc_state();
	assert_same_state(foreign, after);
	/* And as a later one: what it changed of the first. */
	s.gso_max_bytes = 0;
	planned(c, &s);
	good = tc_state();
	l.rate_bps = 10000000;
	l.latency_ns = 500000000;
	l.n_prefixes = 1;
	s.gso_max_bytes = 1u << 30;
	assert_true(shaperd_plan(c, &s, &e) < 0);
	assert_non_null(strstr(e.msg, "gso_max_size"));
	assert_null(strstr(e.msg, "could not be"));
	free(after);
	after = tc_state();
	assert_same_state(good, after);
	assert_true(ping("b", ADDR_A, 3, 20).min_ms < 500);
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
}

static void links_come_and_go_in_place(void **state)
{
	struct shape_link l[12];
	struct shape_spec s = spec_to_a(l, 50000000, 5000000);
	pid_t d = shaperd_start("g", "");
	struct shaperd_client *c = connected();
	CLEANUP_FREE char *one = NULL;
	CLEANUP_FREE char *after = NULL;

	planned(c, &s);
	one = tc_state();
	for (int i = 1; i < 12; i++) {
		l[i] = l[0];
		l[i].region = (uint16_t)(i + 1);
		l[i].prefixes[0].addr[1] = (uint8_t)(17 + i);
		l[i].prefixes[1].addr[3] = (uint8_t)(17 + i);
	}
	/* 12 prefixes are hashed, one stands in a list. */
	s.n_links = 12;
	planned(c, &s);
	assert_int_equal(ping("b", ADDR_A, 2, 20).received, 2);
	assert_int_equal(ping("b", ADDR6_A, 2, 20).received, 2);
	sh("ip netns exec g tc class show dev wan0 | grep -q bace:1c");
	planned(c, &s);
	assert_int_equal(shaperd_changes(c), 0);
	s.n_links = 11;
	planned(c, &s);
	assert_int_equal(ping("b", ADDR_A, 2, 20).received, 2);
	s.n_links = 1;
	planned(c, &s);
	after = tc_state();
	assert_same_state(one, after);
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
}

static int body(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(reads_back_what_was_asked, after_each),
		cmocka_unit_test_teardown(a_second_apply_sends_nothing_and_counters_run_on, after_each),
		cmocka_unit_test_teardown(a_dead_delay_line_is_never_quietly_fast, after_each),
		cmocka_unit_test_teardown(gso_max_size_is_set_and_put_back, after_each),
		cmocka_unit_test_teardown(bad_plans_change_nothing, after_each),
		cmocka_unit_test_teardown(a_rule_of_others_survives_a_forged_name, after_each),
		cmocka_unit_test_teardown(a_partial_failure_is_undone, after_each),
		cmocka_unit_test_teardown(links_come_and_go_in_place, after_each),
	};

	return cmocka_run_group_tests(tests, with_network, without_network);
}

int main(int argc, char **argv)
{
	return sandbox_main(argc, argv, body);
}
