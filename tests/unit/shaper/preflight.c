/* What `bace shape` says before it surprises: of which machine, which plan. */
#include "tests/unit/shaper/support.h"

#include <stdlib.h>

#include "harness/shape/shape.h"

static const struct shape_machine quiet = { .rcv_window_bytes = 1e12, .snd_window_bytes = 1e12 };

static bool says(const struct shape_spec *s, const struct shape_machine *m, const char *what)
{
	struct shape_notes n = { 0 };
	bool found = false;

	shape_notes_of(s, m, &n);
	for (size_t i = 0; i < n.n; i++)
		found |= strstr(n.v[i], what) != NULL;
	shape_notes_free(&n);
	return found;
}

/* Two links, of which the notes are that are looked for. */
static struct shape_spec spec(struct shape_link l[2], uint64_t rate_bps, int64_t rtt_ns)
{
	struct shape_spec s = test_spec(l, 2);

	for (int i = 0; i < 2; i++) {
		l[i].rate_bps = l[i].reverse_rate_bps = rate_bps;
		l[i].rtt_ns = rtt_ns;
	}
	return s;
}

/* Pitfall: HTB takes the place of mq, and one core's lock is the ceiling. */
static void the_ceiling_of_one_core_is_said(void **state)
{
	struct shape_link l[2];
	struct shape_spec s = spec(l, 2500000000, 1000000);

	assert_true(says(&s, &quiet, "the links add up to 5 Gbit/s; HTB has one lock and takes the place of mq"));
	s = spec(l, 1500000000, 1000000);
	assert_false(says(&s, &quiet, "HTB has one lock"));
}

/* Pitfall: tc is blamed for what the window limits. 1 Gbit/s over 80 ms is 10 MB. */
static void a_window_below_the_bdp_is_said_with_what_it_carries(void **state)
{
	struct shape_link l[2];
	struct shape_spec s = spec(l, 1000000000, 80000000);
	struct shape_machine m = quiet;

	m.rcv_window_bytes = 4e6;
	assert_true(says(&s, &m, "one TCP connection carries at most 400 Mbit/s: its window here is 4 MB, rate x RTT is 10 MB"));
	assert_true(says(&s, &m, "raise net.ipv4.tcp_rmem and tcp_wmem"));
	m = quiet;
	m.snd_window_bytes = 5e6;
	assert_true(says(&s, &m, "at most 500 Mbit/s"));
	m.snd_window_bytes = 10e6;
	assert_false(says(&s, &m, "at most"));
	/* A link that is not limited has no rate to fall short of. */
	s = spec(l, 0, 80000000);
	m.snd_window_bytes = 1000;
	assert_false(says(&s, &m, "at most"));
}

static void slow_start_after_idle_is_said(void **state)
{
	struct shape_link l[2];
	struct shape_spec s = spec(l, 10000000, 1000000);
	struct shape_machine m = quiet;

	s.gso_max_bytes = 4000;
	assert_false(says(&s, &m, ""));
	m.slow_start_after_idle = true;
	assert_true(says(&s, &m, "tcp_slow_start_after_idle is 1"));
}

static void a_gso_packet_that_takes_long_is_said(void **state)
{
	struct shape_link l[2];
	struct shape_spec s = spec(l, 10000000, 1000000);

	s.gso_max_bytes = 0;
	assert_true(says(&s, &quiet, "a GSO packet of"));
	s.gso_max_bytes = 4000;
	assert_false(says(&s, &quiet, "a GSO packet of"));
	l[1].loss = 0.01;
	s.delay = DELAY_NETEM;
	assert_true(says(&s, &quiet, "netem loses whole GSO packets"));
	s.delay = DELAY_NFQUEUE;
	assert_false(says(&s, &quiet, "netem loses whole GSO packets"));
}

static void what_ecn_marks_is_said(void **state)
{
	struct shape_link l[2];
	struct shape_spec s = spec(l, 10000000, 1000000);

	assert_false(says(&s, &quiet, "ecn"));
	l[1].impair.ecn = true;
	assert_true(says(&s, &quiet, "region-1: ecn marks what `loss' would drop; a full buffer of the link (bfifo) drops"));
}

/* Pitfall: a wrong egress shapes nothing, and nobody says so. */
static void a_way_past_the_egress_is_said(void **state)
{
	struct shape_link l[2];
	struct shape_spec s = spec(l, 10000000, 1000000);
	struct shape_machine m = quiet;

	assert_false(says(&s, &m, "the way to"));
	m.stray = (struct shape_stray){ .n = 1, .name = "region-1", .ifname = "eth7", .prefix = l[1].prefixes[0] };
	assert_true(says(&s, &m, "region-1: the way to 10.17.0.0/16 leaves by eth7, not by wan0: what is sent there is not shaped (see"));
	m.stray.n = 3;
	assert_true(says(&s, &m, "is not shaped, nor to 2 more prefixes"));
}

/* Pitfall: "Specified qdisc kind is unknown" helps nobody. */
static void a_missing_module_is_named_with_its_package(void **state)
{
	static const struct {
		const char *os_release, *package;
	} v[] = {
		{ "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n", "install linux-image-amd64" },
		{ "ID=ubuntu\nID_LIKE=debian\n", "install linux-modules-extra-$(uname -r)" },
		{ "NAME=\"Linux Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "install linux-modules-extra-$(uname -r)" },
		{ "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "install kernel-modules-extra" },
		{ "ID=fedora\n", "install kernel-modules-extra" },
		{ "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "install kernel-default" },
		{ "ID=arch", "install linux (and reboot" },
		{ "ID=debianish\nVARIANT_ID=debian\n", "install the package with your kernel's further modules" },
		{ "", "install the package with your kernel's further modules" },
		{ NULL, "install the package with your kernel's further modules" },
	};
	struct shape_link l[2];
	struct shape_spec s = spec(l, 10000000, 1000000);
	char hint[400];

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		struct shape_machine m = quiet;

		shape_module_hint("sch_netem", v[i].os_release, hint, sizeof(hint));
		if (!strstr(hint, "this kernel has no sch_netem; ") || !strstr(hint, v[i].package))
			fail_msg("%zu: %s", i, hint);
		m.os_release = (char *)v[i].os_release;
		assert_false(says(&s, &m, "this kernel has no"));
		strcpy(m.missing, "sch_netem");
		assert_true(says(&s, &m, v[i].package));
	}
}

/* 10 Mbit/s over 80 ms hold 100 kB, 1.2 messages of 250 kB 300 kB. */
static void a_buffer_below_what_is_needed_is_said(void **state)
{
	struct shape_link l[2];
	struct shape_spec s = spec(l, 10000000, 80000000);

	s.gso_max_bytes = 4000;
	l[0].buffer_bytes = 299999;
	assert_false(says(&s, &quiet, ""));
	l[0].message_bytes = 250000;
	assert_true(says(&s, &quiet, "a buffer of 300 kB is less than rate x RTT or than 1.2 messages need, 300 kB"));
	l[0].buffer_bytes = 300000;
	assert_false(says(&s, &quiet, ""));
	l[0].message_bytes = 50000;
	l[0].buffer_bytes = 99999;
	assert_true(says(&s, &quiet, "need, 100 kB"));
	l[0].buffer_bytes = 0;
	assert_false(says(&s, &quiet, ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_ceiling_of_one_core_is_said),
		cmocka_unit_test(a_window_below_the_bdp_is_said_with_what_it_carries),
		cmocka_unit_test(slow_start_after_idle_is_said),
		cmocka_unit_test(a_gso_packet_that_takes_long_is_said),
		cmocka_unit_test(what_ecn_marks_is_said),
		cmocka_unit_test(a_way_past_the_egress_is_said),
		cmocka_unit_test(a_buffer_below_what_is_needed_is_said),
		cmocka_unit_test(a_missing_module_is_named_with_its_package),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
