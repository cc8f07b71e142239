/*
 * Host mode: hosts without a gateway share their region's links. Real agents and
 * shaperds, the launcher's topology, the controller's division; iperf3 judges.
 *
 *   s1 s2 s3 (region a) --+-- d1 d2 (region b)       one switch, the controller at it
 *
 * usage: test-agent-shared AGENT SHAPERD WORKER [exact]     exact: within 3 %, on an idle machine;
 * else that what the division is for is seen at all.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <jansson.h>

#include "agent/wire/wire.h"
#include "harness/lab/sandbox.h"
#include "harness/launch/launch.h"

#define N 5
#define SWITCH "10.15.0.1"
#define THERE_BPS 60000000ull
#define BACK_BPS 40000000ull
#define LATENCY_NS 5000000
#define FRAMING (1514.0 / 1448)
#define SLICE_S 0.5
#define TRIES 5

static const char *const names[N] = { "s1", "s2", "s3", "d1", "d2" };
static const char *agent_path, *shaperd_path;
static enum delay_kind delay;
static bool exact;

static struct world {
	struct region regions[2];
	struct link links[4];
	struct cluster_host hosts[N];
	struct cluster cluster;
	struct tb_topology topo;
	uint8_t key[WIRE_KEY_BYTES];
	struct controller *controller;
	pid_t pids[2 * N];
	int n_pids;
} w;

static void must(int rc, const struct bace_err *e)
{
	if (rc)
		fail_msg("%s", e->msg);
}

static void sh(const char *fmt, ...) BACE_PRINTF(1, 2);

static void sh(const char *fmt, ...)
{
	char cmd[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	if (system(cmd))
		fail_msg("failed: %s", cmd);
}

static void spawn(char *const argv[])
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(argv[0], argv);
		_exit(127);
	}
	w.pids[w.n_pids++] = pid;
}

static void describe(void)
{
	w.cluster = (struct cluster){ .n_regions = 2, .regions = w.regions, .links = w.links, .mtu = 1500,
				      .n_hosts = N, .hosts = w.hosts };
	for (int r = 0; r < 2; r++) {
		snprintf(w.regions[r].name, NAME_LEN, "%c", 'a' + r);
		w.regions[r].n_prefixes = 1;
		w.regions[r].prefixes[0] = (struct shape_prefix){ .family = AF_INET, .len = 16,
								  .addr = { 10, (uint8_t)(16 + r) } };
	}
	w.links[1] = (struct link){ .present = true, .rate_bps = THERE_BPS, .latency_ns = LATENCY_NS };
	w.links[2] = (struct link){ .present = true, .rate_bps = BACK_BPS, .latency_ns = LATENCY_NS };
	for (int i = 0; i < N; i++) {
		struct cluster_host *h = &w.hosts[i];

		snprintf(h->name, sizeof(h->name), "%s", names[i]);
		h->region = i >= 3;
		snprintf(h->address, sizeof(h->address), "10.%d.0.1%c", 16 + h->region, names[i][1]);
		snprintf(h->egress, sizeof(h->egress), "eth0");
		snprintf(h->shaperd, sizeof(h->shaperd), "/run/%s.sock", names[i]);
	}
}

/* The bridge has an address of its own: else it changes with its ports, and who
 * has asked for it already sends to the old one. */
static void network_up(void)
{
	sh("set -e; ip link set lo up; ip link add br0 address 02:00:00:00:00:01 type bridge; ip addr add " SWITCH "/8 dev br0; ip link set br0 up");
	for (int i = 0; i < N; i++)
		sh("set -e; ip netns add %1$s; ip link add p-%1$s type veth peer name eth0 netns %1$s\n"
		   "ip link set p-%1$s master br0 up; ip -n %1$s addr add %2$s/8 dev eth0\n"
		   "ip -n %1$s link set eth0 up; ip -n %1$s link set lo up\n"
		   "ip netns exec %1$s ping -qc1 -w5 " SWITCH " >/dev/null", names[i], w.hosts[i].address);
}

static void start_host(int i)
{
	char to[64], ns[32];

	snprintf(ns, sizeof(ns), "--net=/run/netns/%s", names[i]);
	snprintf(to, sizeof(to), SWITCH ":%u", controller_port(w.controller));
	spawn((char *[]){ "nsenter", ns, (char *)shaperd_path, "--socket", w.hosts[i].shaperd, NULL });
	spawn((char *[]){ "nsenter", ns, (char *)agent_path, "--controller", to, "--key", "/run/key", "--name",
			  w.hosts[i].name, "--shaperd", w.hosts[i].shaperd, NULL });
}

static int setup(void **state)
{
	static const struct lab_traffic traffic = { .message_bytes = 250000, .min_message_bytes = 200000,
		.jobs_on_link = 1, .wan = WAN_STEADY, .congestion_control = "cubic" };
	struct bace_err e = { 0 };

	describe();
	network_up();
	must(wire_key_generate("/run/key", &e), &e);
	must(wire_key_load("/run/key", w.key, &e), &e);
	must(launch_topology(&w.cluster, &traffic, delay, &(struct launch_options){ 0 }, &w.topo, &e), &e);
	must(controller_open(&(struct controller_config){ .listen_addr = SWITCH, .master_key = w.key,
		.topo = &w.topo, .heartbeat_dead_s = 5 }, &w.controller, &e), &e);
	for (int i = 0; i < N; i++)
		start_host(i);
	must(controller_wait_hosts(w.controller, 30, &e), &e);
	must(controller_plan(w.controller, &e), &e);
	return 0;
}

static int teardown(void **state)
{
	controller_close(w.controller);
	for (int i = 0; i < w.n_pids; i++)
		kill(w.pids[i], SIGTERM);
	for (int i = 0; i < w.n_pids; i++)
		waitpid(w.pids[i], NULL, 0);
	lab_topology_free(&w.topo);
	return 0;
}

/* ---- flows ---- */

static void flow(int id, const char *from, const char *to, const char *addr, int seconds)
{
	sh("ip netns exec %s iperf3 -s -1 -D -J -i %g -p %d >/dev/null; until ip netns exec %s ss -Hltn 'sport = :%d' | "
	   "grep -q .; do sleep 0.02; done", to, SLICE_S, 5300 + id, to, 5300 + id);
	sh("ip netns exec %s iperf3 -J --get-server-output -C cubic -i %g -t %d -p %d -c %s >/run/f%d 2>&1 &", from,
	   SLICE_S, seconds, 5300 + id, addr, id);
}

static double in_slice(json_t *root, double from_s)
{
	const json_t *interval;
	size_t k;

	json_array_foreach(json_object_get(json_object_get(root, "server_output_json"), "intervals"), k, interval) {
		const json_t *sum = json_object_get(interval, "sum");

		if (fabs(json_number_value(json_object_get(sum, "start")) - from_s) < SLICE_S / 2)
			return json_number_value(json_object_get(sum, "bits_per_second")) * FRAMING;
	}
	return 0;
}

/* L2 rate at the receiver of the flow, slice by slice, from its own start. */
static void received(int id, double *bps, int n)
{
	char path[32];
	json_t *root;

	snprintf(path, sizeof(path), "/run/f%d", id);
	/* Written at its end, on a busy machine a while after the flow's. */
	for (int tries = 0; !(root = json_load_file(path, 0, NULL)) && tries < 300; tries++)
		usleep(100000);
	if (!root)
		fail_msg("iperf3 of flow %d left no report", id);
	for (int i = 0; i < n; i++)
		bps[i] = in_slice(root, i * SLICE_S);
	json_decref(root);
}

static double median(const double *v, int n)
{
	double sorted[64];

	memcpy(sorted, v, (size_t)n * sizeof(*v));
	qsort(sorted, (size_t)n, sizeof(*sorted), bace_by_double);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* Else above `least` of it, what it was without the division. */
static bool near(double bps, double want, double least)
{
	return exact ? fabs(bps / want - 1) <= 0.03 : bps > least * want && bps < 1.1 * want;
}

/* Noise comes in bursts: after so many tries. */
static void pause_after(int k)
{
	sleep(k < 3 ? (unsigned)k : 10);
}

/* Three for 5 s, then s3 stops; the others go on for 5 more. */
static bool three_then_two(void)
{
	double x[3][20], three[6], two[6], mean[3] = { 0 }, sum = 0, squares = 0, jain;

	flow(0, "s1", "d1", "10.17.0.11", 10);
	flow(1, "s2", "d2", "10.17.0.12", 10);
	flow(2, "s3", "d1", "10.17.0.11", 5);
	sleep(12);
	for (int i = 0; i < 3; i++)
		received(i, x[i], i < 2 ? 20 : 10);
	for (int k = 0; k < 6; k++) {
		three[k] = x[0][k + 3] + x[1][k + 3] + x[2][k + 3];
		for (int i = 0; i < 3; i++)
			mean[i] += x[i][k + 3] / 6;
		/* s3 began 0.4 s after s1 and so ends at its 5.4 s; 1 s later all is taken. */
		two[k] = x[0][k + 13] + x[1][k + 13];
	}
	for (int i = 0; i < 3; i++) {
		sum += mean[i];
		squares += mean[i] * mean[i];
	}
	jain = sum * sum / (3 * squares);
	print_message("three: %.4f of the link, Jain %.4f; two: %.4f of it, %.4f in the first half second\n",
		      median(three, 6) / (double)THERE_BPS, jain, median(two, 6) / (double)THERE_BPS,
		      two[0] / (double)THERE_BPS);
	/* Each had a third; two of three thirds are no more than 0.67. */
	return near(median(three, 6), THERE_BPS, 0.6) && jain >= (exact ? 0.95 : 0.8) && near(median(two, 6), THERE_BPS, 0.8) &&
	       (!exact || two[0] > 0.9 * (double)THERE_BPS);
}

static void test_shared_by_demand(void **state)
{
	bool good = false;

	for (int k = 0; k < TRIES && !good; k++) {
		pause_after(k);
		good = three_then_two();
	}
	assert_true(good);
}

/* d1 alone gets the whole link back, of which its plan had half, however full
 * the link there is; but for the acknowledgements of what comes from there, 66
 * bytes for every second packet. */
static bool reverse(void)
{
	const double left = (double)BACK_BPS - (double)THERE_BPS * 66 / (2 * 1514);
	double back[12];

	flow(0, "s1", "d1", "10.17.0.11", 7);
	flow(1, "d1", "s2", "10.16.0.12", 6);
	sleep(8);
	received(1, back, 12);
	print_message("reverse: %.4f of what is left of the link\n", median(back + 3, 8) / left);
	/* Of its plan's half. */
	return near(median(back + 3, 8), left, 0.7);
}

static void test_reverse(void **state)
{
	bool good = false;

	for (int k = 0; k < TRIES && !good; k++) {
		pause_after(k);
		good = reverse();
	}
	assert_true(good);
}

static int body(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_shared_by_demand), cmocka_unit_test(test_reverse) };

	return cmocka_run_group_tests(tests, setup, teardown) ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct bace_err e = { 0 };
	const char *why;
	int rc;

	if (argc != 4 && argc != 5)
		return 2;
	exact = argc == 5;
	agent_path = argv[1];
	shaperd_path = argv[2];
	delay = shape_probe_delay(&why) == DELAY_NFQUEUE ? DELAY_NFQUEUE : DELAY_NONE;
	if (system("command -v iperf3 >/dev/null")) {
		puts("skipped: iperf3 is not installed");
		return 77;
	}
	if (delay == DELAY_NONE) {
		printf("skipped: %s; hosts without a gateway need NFQUEUE\n", why);
		return 77;
	}
	rc = sandbox_probe(body, &e);
	if (rc < 0) {
		printf("skipped: %s\n", e.msg);
		return 77;
	}
	return rc;
}
