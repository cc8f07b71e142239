/*
 * Host mode: three hosts of region A, each shaping its own egress, share the
 * one link from A to B by what each wants; nobody else is touched.
 *
 *   s1 s2 s3 (10.16.0.11-13) --+-- d1 d2 (10.17.0.11-12)       one switch
 *
 * usage: netns-shaper-shared nfqueue [RATE]      of the link; 60mbit. How well it is
 * used, and how evenly, is judged only with RATE: an idle machine's matter.
 */
#include "tests/netns/shaper/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOSTS 3
#define PERIOD_NS 100000000ll
#define FRAMING (1514.0 / 1448)
#define TRIES 3

struct sender {
	pid_t daemon;
	struct shaperd_client *client;
	uint64_t bytes;		/* counted by its class so far */
	uint64_t rate_bps;	/* what it was last told */
};

static struct sender senders[HOSTS];
static uint64_t capacity = 60000000;
static bool exact;

static void switch_up(void)
{
	sh("set -e; for n in sw s1 s2 s3 d1 d2; do ip netns add $n; ip -n $n link set lo up; done\n"
	   "ip -n sw link add br0 type bridge; ip -n sw link set br0 up\n"
	   "for x in s1:10.16.0.11 s2:10.16.0.12 s3:10.16.0.13 d1:10.17.0.11 d2:10.17.0.12; do n=${x%%%%:*}\n"
	   "  ip link add p-$n netns sw type veth peer name eth0 netns $n\n"
	   "  ip -n sw link set p-$n master br0 up; ip -n $n addr add ${x##*:}/8 dev eth0; ip -n $n link set eth0 up\n"
	   "done\n"
	   "for n in s1 s2 s3; do ip netns exec $n ping -qc1 -w5 10.17.0.11 >/dev/null; done");
}

static void must(int rc, const struct bace_err *e)
{
	if (rc)
		fail_msg("%s", e->msg);
}

static pid_t start_daemon(int i)
{
	pid_t pid = fork();

	if (!pid) {
		char ns[8], path[32];

		snprintf(ns, sizeof(ns), "s%d", i + 1);
		snprintf(path, sizeof(path), "/run/s%d", i + 1);
		execlp("ip", "ip", "netns", "exec", ns, getenv("BACE_SHAPERD"), "--socket", path, "-q", (char *)NULL);
		_exit(127);
	}
	return pid;
}

static void shape(int i)
{
	struct shape_link l = { .name = "b", .region = 1, .n_prefixes = 1,
				.prefixes = { { .family = AF_INET, .len = 16, .addr = { 10, 17 } } },
				.rate_bps = capacity / HOSTS, .buffer_bytes = 150000 + capacity / 2000 };
	const struct shape_spec s = { .egress = "eth0", .mtu = 1500, .n_links = 1, .links = &l };
	char path[32];
	struct bace_err e;
	int rc = -1;

	snprintf(path, sizeof(path), "/run/s%d", i + 1);
	for (int k = 0; k < 250 && (rc = shaperd_connect(path, &senders[i].client, &e)); k++)
		usleep(20000);
	must(rc, &e);
	must(shaperd_plan(senders[i].client, &s, &e), &e);
}

static int setup(void **state)
{
	switch_up();
	for (int i = 0; i < HOSTS; i++)
		senders[i].daemon = start_daemon(i);
	for (int i = 0; i < HOSTS; i++)
		shape(i);
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < HOSTS; i++) {
		shaperd_close(senders[i].client);
		kill(senders[i].daemon, SIGTERM);
		waitpid(senders[i].daemon, NULL, 0);
	}
	return 0;
}

/* What the controller does every 100 ms: counters in, rates out. */
static void divide(int64_t period_ns)
{
	struct shape_share v[HOSTS];
	struct bace_err e;

	for (int i = 0; i < HOSTS; i++) {
		struct shape_stats st;

		must(shaperd_stats(senders[i].client, &st, &e), &e);
		v[i] = (struct shape_share){ .sent_bytes = st.v[0].bytes - senders[i].bytes,
					     .backlog_bytes = st.v[0].backlog_bytes, .rate_bps = st.v[0].rate_bps };
		senders[i].bytes = st.v[0].bytes;
		shape_stats_free(&st);
	}
	shape_divide(capacity, capacity / 100, period_ns, v, HOSTS);
	for (int i = 0; i < HOSTS; i++) {
		const struct shape_change c = { .region = 1, .set = SHAPE_SET_RATE, .rate_bps = v[i].rate_bps };

		must(shaperd_change(senders[i].client, &c, 1, &e), &e);
		senders[i].rate_bps = v[i].rate_bps;
	}
}

static void divide_for(double seconds)
{
	int64_t last = bace_mono_ns(), end = last + (int64_t)(seconds * 1e9);

	while (bace_mono_ns() < end) {
		int64_t now;

		usleep(PERIOD_NS / 1000);
		now = bace_mono_ns();
		divide(now - last);
		last = now;
	}
}

/* One flow, in the background; its report goes to /run/f<i>. */
static void flow(int i, const char *to, int seconds)
{
	sh("ip netns exec %s iperf3 -s -1 -D -J -i 0.5 -p %d >/dev/null", to, 5300 + i);
	await_listener(to, 5300 + i);
	sh("ip netns exec s%d iperf3 -J --get-server-output -C cubic -i 0.5 -t %d -p %d -c 10.17.0.1%c >/run/f%d 2>&1 &", i + 1,
	   seconds, 5300 + i, to[1], i);
}

/* Received between two moments of the flow, by the receiver's own report. */
static double received_bps(int i, double from_s, double to_s)
{
	char path[32];
	json_t *root, *interval;
	double bytes = 0, seconds = 0;
	size_t k;

	snprintf(path, sizeof(path), "/run/f%d", i);
	/* iperf3 writes it at its end, on a busy machine a while after the flow's. */
	for (int tries = 0; !(root = json_load_file(path, 0, NULL)) && tries < 300; tries++)
		usleep(100000);
	assert_non_null(root);
	json_array_foreach(json_object_get(json_object_get(root, "server_output_json"), "intervals"), k, interval) {
		const json_t *sum = json_object_get(interval, "sum");
		double start = json_number_value(json_object_get(sum, "start"));

		if (start < from_s - 0.05 || start >= to_s - 0.05)
			continue;
		bytes += json_number_value(json_object_get(sum, "bytes"));
		seconds += json_number_value(json_object_get(sum, "seconds"));
	}
	json_decref(root);
	return seconds > 0 ? bytes * 8 / seconds * FRAMING : 0;
}

static bool near_capacity(double bps)
{
	return fabs(bps / (double)capacity - 1) <= 0.03;
}

/* Three for 5 s, then s3 stops: from 1 s later the other two have all. */
static bool three_then_two(void)
{
	double x[HOSTS], sum = 0, squares = 0, jain, two, told;

	flow(0, "d1", 10);
	flow(1, "d2", 10);
	flow(2, "d1", 5);
	divide_for(8);
	told = (double)(senders[0].rate_bps + senders[1].rate_bps) / (double)capacity;
	divide_for(4);
	for (int i = 0; i < HOSTS; i++) {
		x[i] = received_bps(i, 1.5, 4.5);
		sum += x[i];
		squares += x[i] * x[i];
	}
	jain = sum * sum / (HOSTS * squares);
	/* The flows began a third of a second apart. */
	two = received_bps(0, 7, 9.5) + received_bps(1, 7, 9.5);
	print_message("three: %.4f of the link, Jain %.4f; two: %.4f of it, told %.4f\n", sum / (double)capacity,
		      jain, two / (double)capacity, told);
	/* Never more than the link, but for what was read late; and what s3 does not want, the others are given. */
	if (sum > 1.15 * (double)capacity || two > 1.15 * (double)capacity || told < 0.9)
		return false;
	if (sum < 0.5 * (double)capacity || two < 0.5 * (double)capacity)
		return false;
	return !exact || (near_capacity(sum) && jain >= 0.95 && near_capacity(two));
}

static void a_link_is_shared_by_demand(void **state)
{
	bool good = false;

	for (int k = 0; k < TRIES && !good; k++)
		good = three_then_two();
	assert_true(good);
}

/* From B to A nothing is shaped, whatever the link from A to B carries. */
static void the_reverse_direction_is_untouched(void **state)
{
	CLEANUP_FREE char *classes = sh_output("ip netns exec d1 tc class show dev eth0");
	double bps;

	assert_string_equal(classes, "");
	flow(0, "d1", 4);
	bps = iperf3_tcp("d1", "s2", "10.16.0.12", 2, "-C cubic");
	print_message("reverse: %.0f Mbit/s beside a link of %.0f\n", bps / 1e6, capacity / 1e6);
	/* Shaped, it would be the link's. */
	assert_true(bps > (exact ? 2 : 1.05) * (double)capacity);
}

static int body(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_link_is_shared_by_demand),
		cmocka_unit_test(the_reverse_direction_is_untouched),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

int main(int argc, char **argv)
{
	exact = argc > 2;
	if (exact && bace_parse_rate_bps(argv[2], &capacity, NULL))
		return 2;
	return sandbox_main(argc, argv, body);
}
