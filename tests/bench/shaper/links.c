/*
 * How exact links are and what the delay line carries: judged by iperf3, ping
 * and a numbered UDP stream. usage: bench-shaper-links [nfqueue|netem]
 */
#include "tests/netns/shaper/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/bench/table.h"

#define FRAMING (1514.0 / 1448)	/* TCP with timestamps, MTU 1500 */
#define ROUNDS 3

static struct shaperd_client *client;

static void plan(const struct shape_spec *s)
{
	struct bace_err e;

	if (shaperd_plan(client, s, &e))
		fail_msg("%s", e.msg);
}

/* No slow start, and nothing that only stood in a buffer when the flow ended. */
static double steady_bps(int seconds, uint64_t window_bytes)
{
	char options[64];

	snprintf(options, sizeof(options), "-C cubic -w %llu", (unsigned long long)window_bytes);
	return iperf3_received("b", "a", ADDR_A, seconds, options) * FRAMING;
}

/* A window that the buffer has room for keeps the link busy and loses nothing:
 * what is sent again is of the rate and not of the goodput, and what waits for
 * it at the receiver comes in lumps. And a packet more or less in the time that
 * is counted must be below a quarter of what is asked. */
static void rates(void)
{
	static const struct {
		uint64_t bps;
		const char *what;
		double within;
	} rows[] = {
		{ 1000000, "TCP at 1 Mbit/s (set rate)", 0.01 },
		{ 10000000, "TCP at 10 Mbit/s (set rate)", 0.005 },
		{ 100000000, "TCP at 100 Mbit/s (set rate)", 0.005 },
		{ 1000000000, "TCP at 1 Gbit/s (set rate)", 0.005 },
		{ 2000000000, "TCP at 2 Gbit/s (set rate)", 0.005 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct shape_link l;
		struct shape_spec s = spec_to_a(&l, rows[i].bps, 0);
		double v[ROUNDS];
		uint64_t window = rows[i].bps / 8 / 50 + 65536;	/* 20 ms, and one large packet */
		bool slow = rows[i].bps <= 10000000;

		l.buffer_bytes = 4 * window;
		plan(&s);
		sh("ip -n b link set eth0 gso_max_size %d", slow ? 2048 : 65536);
		for (int k = 0; k < ROUNDS; k++)
			v[k] = steady_bps(rows[i].bps < 10000000 ? 12 : 5, window) / 1e6;
		table_row(rows[i].what, "Mbit/s", figure_of(v, ROUNDS), figure_one((double)rows[i].bps / 1e6),
			  (struct asked){ ASKED_RATIO_WITHIN, rows[i].within });
	}
	sh("ip -n b link set eth0 gso_max_size 65536");
}

/* Packets of 1042 bytes at three times the rate, first to last arrival; each round by
 * as many as it got out. */
static void message(uint64_t rate_bps, double bytes, const char *what)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, rate_bps, 0);
	double v[5], seconds = bytes * 8 / (3.0 * (double)rate_bps), packets = bytes / 1042;

	l.buffer_bytes = 4000000;
	plan(&s);
	for (int k = 0; k < 5; k++) {
		struct udp_result r = udp_stream("b", "a", ADDR_A, 3.0 * (double)rate_bps, seconds, NULL, NULL);

		double n = (double)r.received;

		v[k] = (n - 1) * 8e6 / r.bps * packets / n;
	}
	table_row(what, "ms", figure_of(v, 5), figure_one(bytes * 8e3 / (double)rate_bps),
		  (struct asked){ ASKED_RATIO_WITHIN, 0.02 });
}

/* 1 % and, of netem, 0.1 ms; of a process that has to be woken half a millisecond. Path excluded. */
static void round_trip(const char *what, double ms, double asked_ms)
{
	double ms_more = backend == DELAY_NETEM && !getenv("BACE_IN_UML") ? 0.1 : 0.5;

	table_row(what, "ms", figure_one(ms), figure_one(asked_ms), (struct asked){ ASKED_WITHIN, 0.01 * asked_ms + ms_more });
}

static void round_trips(void)
{
	static const double latencies_ms[] = { 1, 5, 20, 77, 300 };
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 1000000000, 0);
	double path;

	plan(&s);
	path = ping("b", ADDR_A, 50, 20).median_ms;
	table_row("RTT of the path", "ms", figure_one(path), (struct figure){ 0 }, (struct asked){ 0 });
	for (size_t i = 0; i < ARRAY_LEN(latencies_ms); i++) {
		char what[64];

		l.latency_ns = (int64_t)(latencies_ms[i] * 1e6);
		plan(&s);
		snprintf(what, sizeof(what), "RTT - path, %g ms asked", latencies_ms[i]);
		round_trip(what, ping("b", ADDR_A, 30, 30).median_ms - path, latencies_ms[i]);
	}
}

static void fill_the_line(void *seconds)
{
	sh("ip netns exec b iperf3 -s -1 -D >/dev/null");
	await_listener("b", 5201);
	sh("ip netns exec a iperf3 -C cubic -b 1G -t %d -c " ADDR_B " >/dev/null 2>&1 &", *(int *)seconds);
}

/* Of a link from a that carries 1 Gbit/s and stands in no buffer: a limits itself. */
static void round_trips_under_load(void)
{
	static const double latencies_ms[] = { 5, 20, 77 };
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 4000000000, 0);
	int seconds = 6;
	double path;

	plan(&s);
	path = ping("b", ADDR_A, 50, 20).median_ms;
	for (size_t i = 0; i < ARRAY_LEN(latencies_ms); i++) {
		char what[64];

		l.latency_ns = (int64_t)(latencies_ms[i] * 1e6);
		plan(&s);
		fill_the_line(&seconds);
		usleep(1500000);
		snprintf(what, sizeof(what), "RTT - path, %g ms asked, 1 Gbit/s through it", latencies_ms[i]);
		round_trip(what, ping("b", ADDR_A, 100, 30).median_ms - path, latencies_ms[i]);
		sleep(2);
	}
}

/* TCP in turn without the link and with it, where the first start_s seconds do not
 * count; Gbit/s. */
static void unshaped_and_shaped(const char *from, const char *to, const char *addr, const struct shape_spec *spec,
				int start_s, struct figure *unshaped, struct figure *shaped)
{
	double bare[ROUNDS], with[ROUNDS];
	char options[32];

	snprintf(options, sizeof(options), "-O %d -C cubic", start_s);
	for (int i = 0; i < ROUNDS; i++) {
		shaperd_clear(client, NULL);
		bare[i] = iperf3_tcp(from, to, addr, 3, "-O 1 -C cubic") / 1e9;
		plan(spec);
		with[i] = iperf3_tcp(from, to, addr, start_s + 2, options) / 1e9;
	}
	*unshaped = figure_of(bare, ROUNDS);
	*shaped = figure_of(with, ROUNDS);
}

/* 5 Gbit/s over 40 ms, no buffer given: computed, and nothing is dropped but by it. */
static void long_fat_link(void)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 5000000000, 40000000);
	struct figure bare, shaped;

	unshaped_and_shaped("b", "a", ADDR_A, &s, 4, &bare, &shaped);
	/* Where the machine can carry it. */
	table_row("TCP at 5 Gbit/s, RTT 40 ms (goodput of that rate)", "Gbit/s", shaped, figure_one(5 / FRAMING),
		  bare.median > 5 ? (struct asked){ ASKED_RATIO_LEAST, 0.9 } : (struct asked){ 0 });
}

static void delay_line(void)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 0, 20000000);
	struct figure bare, shaped;

	l.reverse_rate_bps = 20000000000;
	/* The kernel's 6 MB are 2.4 Gbit/s at 20 ms. */
	sh("for n in a b; do ip netns exec $n sysctl -qw net.ipv4.tcp_rmem='4096 131072 134217728' "
	   "net.ipv4.tcp_wmem='4096 131072 134217728'; done");
	unshaped_and_shaped("a", "b", ADDR_B, &s, 2, &bare, &shaped);
	/* 5 Gbit/s, or 40 % of the unshaped veth, whichever is less. */
	table_row("20 ms delay, TCP (unshaped veth)", "Gbit/s", shaped, bare,
		  shaped.median >= 5 ? (struct asked){ ASKED_LEAST, 5 } : (struct asked){ ASKED_RATIO_LEAST, 0.4 });
}

static void trace(void)
{
	struct shape_trace_point v[2] = { { 0, { .set = SHAPE_SET_RATE, .rate_bps = 20000000 } },
					  { 100000000, { .set = SHAPE_SET_RATE, .rate_bps = 40000000 } } };
	const struct shape_trace t = { .n = 2, .v = v, .period_ns = 200000000 };
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 20000000, 0);
	struct shape_stats st;
	struct bace_err e;

	plan(&s);
	if (shaperd_trace(client, 1, &t, true, 0, &e))
		fail_msg("%s", e.msg);
	sleep(10);
	if (shaperd_stats(client, &st, &e))
		fail_msg("%s", e.msg);
	table_row("trace, 10 changes/s: p99 of lateness", "ms", figure_one((double)st.trace_late_p99_ns / 1e6),
		  (struct figure){ 0 }, (struct asked){ ASKED_MOST, 2 });
	shape_stats_free(&st);
}

static void bench(void **state)
{
	struct bace_err e;
	pid_t daemon;

	network_up();
	daemon = shaperd_start("g", "");
	if (shaperd_connect(SOCKET, &client, &e))
		fail_msg("%s", e.msg);
	table_head("links: medians, one run; peer: the ideal");
	rates();
	message(10000000, 250000, "250 kB at 10 Mbit/s");
	message(100000000, 500000, "500 kB at 100 Mbit/s");
	round_trips();
	round_trips_under_load();
	delay_line();
	long_fat_link();
	trace();
	CLEANUP_FREE char *kb = sh_output("awk '/^VmHWM/ { print $2 }' /proc/%d/status", daemon);
	table_row("bace-shaperd, most memory", "MiB", figure_one(strtod(kb, NULL) / 1024), (struct figure){ 0 },
		  (struct asked){ ASKED_MOST, 64 });
	shaperd_close(client);
	shaperd_stop(daemon, SIGTERM);
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
