/*
 * A sandbox of the test's own (user, network, mount and pid namespaces, gone
 * when the test ends, however it ends) with a small network in it:
 *
 *   a (10.17.0.10) -- wan0 g lan0 -- b (10.16.0.10)        IPv6 fd00:11::10, fd00:10::10
 *
 * g is the gateway that is shaped: towards a at wan0, delay of what comes from a.
 */
#ifndef TESTS_NETNS_SHAPER_SUPPORT_H
#define TESTS_NETNS_SHAPER_SUPPORT_H

#include <sys/types.h>

#include "shaper/shaper.h"

#define ADDR_A "10.17.0.10"
#define ADDR_B "10.16.0.10"
#define ADDR6_A "fd00:11::10"
#define ADDR6_B "fd00:10::10"
#define SOCKET "/run/shaperd"

/* Which backend the tests run with: from argv[1], "netem" or "nfqueue". */
extern enum delay_kind backend;

/* Enters the sandbox and runs `body` in it; returns the exit status of the
 * program: 77 where namespaces or the backend are refused (and prints why). In
 * User-Mode Linux nothing is refused, so there it is a failure. */
int sandbox_main(int argc, char **argv, int (*body)(void));

void network_up(void);
void network_down(void);
/* The same around a group of tests. */
int with_network(void **state);
int without_network(void **state);

/* Run a shell command; fails the test unless it succeeds. */
void sh(const char *fmt, ...) BACE_PRINTF(1, 2);
int sh_status(const char *fmt, ...) BACE_PRINTF(1, 2);
/* Its standard output; free(). */
char *sh_output(const char *fmt, ...) BACE_PRINTF(1, 2);

/* bace-shaperd in namespace `ns`, listening at SOCKET. */
pid_t shaperd_start(const char *ns, const char *options);
/* The same started by other words than `ip netns exec NS`. */
pid_t shaperd_start_by(const char *wrapper, const char *options);
void shaperd_stop(pid_t pid, int signal);
/* To the one at SOCKET, which may be undoing the last lease; fails the test. */
struct shaperd_client *connected(void);
/* Plans, or fails the test with the reason. */
void planned(struct shaperd_client *c, const struct shape_spec *s);
/* After a test, however it ended: no daemon, and g without shaping. */
int after_each(void **state);

/* One link to a's region (number 1), both families. */
struct shape_spec spec_to_a(struct shape_link *link, uint64_t rate_bps, int64_t latency_ns);

struct rtt {
	int sent, received;
	double min_ms, median_ms;
};
struct rtt ping(const char *from, const char *to, int count, int interval_ms);

/* Until somebody listens there, or the test has failed. */
void await_listener(const char *ns, int port);
/* Goodput in bits/s at the receiver, by iperf3. */
double iperf3_tcp(const char *from_ns, const char *to_ns, const char *addr, int seconds, const char *options);
/* The same by the receiver's own intervals, without the first second and what comes
 * after the end. */
double iperf3_received(const char *from_ns, const char *to_ns, const char *addr, int seconds, const char *options);

struct udp_result {
	uint64_t sent, received, reordered;
	double bps;	/* payload received */
};
struct udp_result udp_stream(const char *from_ns, const char *to_ns, const char *addr, double bps, double seconds,
			     void (*meanwhile)(void *), void *arg);

/* All of tc and the mangle tables in g, as text; malloc'd. */
char *tc_state(void);
/* Else fails, after a diff. */
void assert_same_state(const char *a, const char *b);

#endif
