#include "tests/netns/shaper/impair.h"

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

#include "tests/netns/shaper/support.h"

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

/* Of n packets with probability p, no further off than once in a million runs, where
 * `alike' packets in a row say as much as one. */
static void assert_share(const char *what, double seen, double n, double p, double alike)
{
	print_message("%s: %.0f of %.0f, %.0f expected\n", what, seen, n, p * n);
	assert_true(fabs(seen - p * n) <= 4.9 * sqrt(n * alike * p * (1 - p)) + 1);
}

static struct udp_result stream(const struct shape_spec *s)
{
	planned(client, s);
	return udp_stream("a", "b", ADDR_B, 8e6, 2, NULL, NULL);
}

static void duplicates_come_twice(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 100000000, 1000000);
	struct udp_result r;

	l.impair.duplicate = 0.3;
	r = stream(&s);
	assert_share("duplicates", (double)r.received - (double)r.sent, (double)r.sent, 0.3, 1);
}

static double checksum_errors(void)
{
	CLEANUP_FREE char *text = sh_output("ip netns exec b awk '/^Udp:/ { if (!n) n = split($0, name); else split($0, v) } "
					    "END { for (i in name) if (name[i] == \"InCsumErrors\") print v[i] }' /proc/net/snmp");

	return strtod(text, NULL);
}

/* One bit of each: the receiver's checksums find it wherever it is not in the frame's head. */
static void corrupt_packets_fail_their_checksums(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 100000000, 1000000);
	double before = checksum_errors();
	struct udp_result r;

	l.impair.corrupt = 0.3;
	r = stream(&s);
	/* 14 of 1042 bytes are the frame's head, 20 IP's, whose own checksum is counted elsewhere. */
	assert_share("corrupt", checksum_errors() - before, (double)r.sent, 0.3 * 1008 / 1042, 1);
	assert_true(r.received < r.sent);
}

/* Both chains lose a fifth. */
static void bursts_lose_what_their_chain_says(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 100000000, 1000000);
	struct udp_result r;

	l.impair.loss_model = LOSS_GILBERT_ELLIOTT;
	memcpy(l.impair.loss_p, (double[]){ 0.05, 0.2, 1, 0, 0 }, sizeof(l.impair.loss_p));
	r = stream(&s);
	/* The state of a packet is the next one's with 1 - 0.05 - 0.2. */
	assert_share("Gilbert-Elliott", (double)(r.sent - r.received), (double)r.sent, 0.2, 1.75 / 0.25);
	l.impair.loss_model = LOSS_4STATE;
	memcpy(l.impair.loss_p, (double[]){ 0.1, 0.5, 0, 0.05, 0 }, sizeof(l.impair.loss_p));
	r = stream(&s);
	assert_share("four states", (double)(r.sent - r.received), (double)r.sent, 0.2, 1.4 / 0.6);
}

/* By tc, on an interface of its own. */
static bool kernel_mixes_duplicates(void)
{
	return !sh_status("ip netns add t && tc='tc -n t' && $tc qdisc add dev lo root handle 1: htb && "
			  "$tc class add dev lo parent 1: classid 1:1 htb rate 1gbit && $tc class add dev lo parent 1: classid 1:2 htb rate 1gbit && "
			  "$tc qdisc add dev lo parent 1:1 netem delay 1ms && $tc qdisc add dev lo parent 1:2 netem delay 1ms duplicate 50%%");
}

/* Pitfall: kernels that forbid a duplicating netem beside another say so in words of trees. */
static void duplicates_beside_another_link_are_made_or_refused(void **state)
{
	bool mixes = kernel_mixes_duplicates();
	struct shape_link l[2];
	struct shape_spec s = spec_to_a(&l[0], 100000000, 1000000);
	CLEANUP_FREE char *before = NULL, *after = NULL;
	struct bace_err e = { 0 };
	int rc;

	sh("ip netns del t");
	s.links = l;
	l[1] = l[0];
	l[1].region = 2;
	snprintf(l[1].name, sizeof(l[1].name), "c");
	l[1].prefixes[0].addr[1] = 18;
	l[1].prefixes[1].addr[3] = 0x12;
	s.n_links = 2;
	planned(client, &s);
	before = tc_state();
	l[1].impair.duplicate = 0.3;
	rc = shaperd_plan(client, &s, &e);
	print_message("this kernel %s: %s\n", mixes ? "mixes them" : "does not mix them", rc ? e.msg : "taken");
	assert_int_equal(rc, mixes ? 0 : -ENOTSUP);
	if (mixes)
		return;
	assert_non_null(strstr(e.msg, "link `c': this kernel's netem does not duplicate packets beside another link's"));
	after = tc_state();
	assert_same_state(before, after);
}

int impair_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(duplicates_come_twice),
		cmocka_unit_test(corrupt_packets_fail_their_checksums),
		cmocka_unit_test(bursts_lose_what_their_chain_says),
		cmocka_unit_test(duplicates_beside_another_link_are_made_or_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
