/*
 * How fast rules are laid, changed and read: ours beside `tc` for the same
 * state. Root, or user namespaces. usage: bench-shaper-rules
 */
#include "tests/netns/shaper/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shaper/kernel.h"
#include "tests/bench/table.h"

#define LINKS 1000
#define LINKS_MOST 10000
#define ROUNDS 9

static struct shape_link *links;
static struct shaperd_client *client;
static pid_t daemon_pid;

/* n links with one /32 each, region 1 being a's. */
static struct shape_spec spec_of(int n)
{
	struct shape_spec s = spec_to_a(links, 40000000000ull, 0);

	s.delay = DELAY_NONE;
	for (int i = 1; i < n; i++) {
		links[i] = links[0];
		links[i].region = (uint16_t)(1 + i);
		links[i].n_prefixes = 1;
		links[i].prefixes[0] = (struct shape_prefix){
			.family = AF_INET, .len = 32, .addr = { 10, 32, (uint8_t)(i >> 8), (uint8_t)i } };
		snprintf(links[i].name, sizeof(links[i].name), "r%d", i);
	}
	s.n_links = n;
	return s;
}

static void must(int rc, const struct bace_err *e)
{
	if (rc)
		fail_msg("%s", e->msg);
}

/* ---- in the library, in g ---- */
static void enter_g(void)
{
	int fd = open("/run/netns/g", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0 && !setns(fd, CLONE_NEWNET));
	close(fd);
}

static void write_batch(const struct if_state *want, const char *path)
{
	struct if_state nothing = { 0 };
	struct plan_steps steps;
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	memcpy(nothing.ifname, want->ifname, sizeof(nothing.ifname));
	assert_int_equal(plan_diff(want, &nothing, &steps), 0);
	for (size_t i = 0; i < steps.n; i++) {
		struct bace_buf b = { 0 };

		assert_int_equal(plan_step_print(&steps.v[i], want->ifname, &b), 0);
		fprintf(f, "%s\n", b.p);
		bace_buf_free(&b);
	}
	fclose(f);
	plan_steps_free(&steps);
}

static void install_and_repeat(void)
{
	struct shape_spec s = spec_of(LINKS);
	double ours[ROUNDS], peer[ROUNDS], again[ROUNDS];
	struct shape_plan p;
	struct netlink nl;
	struct bace_err e;
	size_t sent = 0, sent_again = 0;

	must(netlink_open(&nl, NETLINK_ROUTE, &e), &e);
	must(plan_build(&s, &p, &e), &e);
	write_batch(&p.egress, "/run/batch");
	for (int i = 0; i < ROUNDS; i++) {
		double t = now_ms();

		must(kernel_apply(&nl, &p.egress, &sent, &e), &e);
		ours[i] = now_ms() - t;
		t = now_ms();
		must(kernel_apply(&nl, &p.egress, &sent_again, &e), &e);
		again[i] = now_ms() - t;
		assert_int_equal(sent_again, 0);
		sh("tc qdisc del dev wan0 root");
		t = now_ms();
		sh("tc -batch /run/batch");
		peer[i] = now_ms() - t;
		sh("tc qdisc del dev wan0 root");
	}
	printf("%zu messages for %d links\n", sent, LINKS);
	table_row("install 1,000 rules, read back (tc -batch)", "ms", figure_of(ours, ROUNDS), figure_of(peer, ROUNDS),
		  (struct asked){ ASKED_RATIO_MOST, 1.0 / 3 });
	table_row("apply again, unchanged: 0 messages", "ms", figure_of(again, ROUNDS), (struct figure){ 0 },
		  (struct asked){ ASKED_MOST, 2 });
	plan_free(&p);
	netlink_close(&nl);
}

/* What installing n rules takes, and reading them back. */
static void growth(void)
{
	for (int n = 100; n <= LINKS_MOST; n *= 10) {
		struct shape_spec s = spec_of(n);
		double ms[5];
		struct shape_plan p;
		struct netlink nl;
		struct bace_err e;
		size_t sent;

		must(netlink_open(&nl, NETLINK_ROUTE, &e), &e);
		must(plan_build(&s, &p, &e), &e);
		for (int i = 0; i < 5; i++) {
			double t = now_ms();

			must(kernel_apply(&nl, &p.egress, &sent, &e), &e);
			ms[i] = now_ms() - t;
			sh("tc qdisc del dev wan0 root");
		}
		table_growth("install and read back", "rules", n, figure_of(ms, 5).median, "ms");
		plan_free(&p);
		netlink_close(&nl);
	}
}

/* ---- through bace-shaperd ---- */
static void one_of_a_thousand(void)
{
	struct shape_spec s = spec_of(LINKS);
	double ours[101], peer[ROUNDS], stats[101], stats_peer[ROUNDS], plan[ROUNDS];
	struct bace_err e;

	must(shaperd_plan(client, &s, &e), &e);
	for (int i = 0; i < ROUNDS; i++) {
		double t = now_ms();

		must(shaperd_plan(client, &s, &e), &e);
		plan[i] = now_ms() - t;
		assert_int_equal(shaperd_changes(client), 0);
	}
	for (int i = 0; i < 101; i++) {
		const struct shape_change c = { .region = 500, .set = SHAPE_SET_RATE, .rate_bps = 1000000000ull + (uint64_t)i };
		struct shape_stats st;
		double t = now_ms();

		must(shaperd_change(client, &c, 1, &e), &e);
		ours[i] = now_ms() - t;
		t = now_ms();
		must(shaperd_stats(client, &st, &e), &e);
		stats[i] = now_ms() - t;
		assert_int_equal(st.n, LINKS);
		shape_stats_free(&st);
	}
	for (int i = 0; i < ROUNDS; i++) {
		double t = now_ms();

		/* What is there already: the daemon has nothing to repair. */
		sh("tc -s class show dev wan0 > /run/classes");
		stats_peer[i] = now_ms() - t;
		t = now_ms();
		sh("tc qdisc show dev lo > /dev/null");
		peer[i] = now_ms() - t;
	}
	table_row("the same plan through bace-shaperd", "ms", figure_of(plan, ROUNDS), (struct figure){ 0 }, (struct asked){ ASKED_MOST, 2 });
	table_row("change one link of 1,000 (one tc process)", "ms", figure_of(ours, 101), figure_of(peer, ROUNDS),
		  (struct asked){ ASKED_MOST, 1 });
	table_row("statistics of 1,000 classes (tc -s)", "ms", figure_of(stats, 101), figure_of(stats_peer, ROUNDS),
		  (struct asked){ ASKED_MOST, 1 });
}

static void with_prefixes(int n, struct figure *gbps, double *rtt_ms)
{
	struct shape_spec s = spec_of(n);
	double bps[5];
	struct bace_err e;

	must(shaperd_plan(client, &s, &e), &e);
	for (int i = 0; i < 5; i++)
		bps[i] = iperf3_tcp("b", "a", ADDR_A, 3, "-O 1") / 1e9;
	*gbps = figure_of(bps, 5);
	*rtt_ms = ping("b", ADDR_A, 200, 5).median_ms;
}

static void many_prefixes(void)
{
	struct figure one, many;
	double rtt_one, rtt_many;

	with_prefixes(1, &one, &rtt_one);
	with_prefixes(10000, &many, &rtt_many);
	table_row("10,000 destination prefixes: TCP (1 prefix)", "Gbit/s", many, one,
		  (struct asked){ ASKED_RATIO_LEAST, 0.95 });
	table_row("10,000 destination prefixes: RTT (1 prefix)", "ms", figure_one(rtt_many), figure_one(rtt_one),
		  (struct asked){ ASKED_ABOVE_MOST, 0.05 });
}

static void memory(void)
{
	CLEANUP_FREE char *kb = sh_output("awk '/^VmHWM/ { print $2 }' /proc/%d/status", daemon_pid);

	table_row("bace-shaperd, most memory, 10,000 links", "MiB", figure_one(strtod(kb, NULL) / 1024), (struct figure){ 0 },
		  (struct asked){ ASKED_MOST, 64 });
}

static void bench(void **state)
{
	links = calloc(LINKS_MOST, sizeof(*links));
	assert_non_null(links);
	network_up();
	daemon_pid = shaperd_start("g", "");
	enter_g();
	table_head("rules: medians, one run");
	install_and_repeat();
	growth();
	must(shaperd_connect(SOCKET, &client, NULL), &(struct bace_err){ .msg = "connect" });
	one_of_a_thousand();
	many_prefixes();
	memory();
	shaperd_close(client);
	shaperd_stop(daemon_pid, SIGTERM);
	free(links);
}

static int body(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(bench) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	return sandbox_main(argc, argv, body);
}
