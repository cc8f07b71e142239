/*
 * Three ways to estimate what a link can carry, from what can be seen of it.
 * Pure: fed with a time series, no clock, no I/O. Rates are bits/s at layer 2,
 * times ns of one monotonic clock, in order.
 *
 * An estimate that is a lower bound says "at least": traffic was never seen
 * waiting, so more might have passed.
 */
#ifndef BACE_CONTROL_ESTIMATE_H
#define BACE_CONTROL_ESTIMATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ESTIMATE_RING 4

struct estimate {
	bool known, lower_bound;
	double rate_bps;
	/* Half the spread of what it rests on, 0: one sample; probe: the standard error
	 * of the last train. */
	double error_bps;
	int64_t at_ns;			/* when it last rested on something new */
};
/* Did more pass than an exact estimate and its error allow? Not what a token bucket
 * lets through at once after a pause. */
bool estimate_exceeds(double passed_bps, double rate_bps, double error_bps);

struct estimate_ring {			/* the last few rates */
	int n, next;
	double v[ESTIMATE_RING];
};

/* ---- counters: bytes that left a queue, and what waits in it ----
 *
 * Between two reads with a backlog at both ends the link was, in all likelihood,
 * busy throughout: what passed is its rate. A gap in between makes it too low,
 * never too high: the most of the last ESTIMATE_RING is taken. */
struct estimate_counters {
	struct estimate e;
	double used_bps;		/* between the last two reads */
	bool has_last;
	int64_t last_ns;
	uint64_t last_bytes;
	uint64_t last_backlog;
	struct estimate_ring ring;
};

/* True: the estimate rests on something new. */
bool estimate_counters(struct estimate_counters *c, int64_t at_ns, uint64_t bytes, uint64_t backlog);

/* ---- tcp_info: of all sockets of one host towards one region ----
 *
 * Feed each socket that changed between begin and end. A socket's rate is the greater of the
 * kernel's delivery rate (which, for a message shorter than the bandwidth-delay
 * product, counts a round trip as time spent) and what was acknowledged between
 * two reads. Sockets that moved share the link: their rates are added. Either
 * overshoots when acknowledgements come in clumps: the upper median of the last
 * ESTIMATE_RING is taken. */
#define ESTIMATE_SOCKETS 64

struct estimate_tcp {
	struct estimate e;
	double used_bps;
	double l2_per_goodput;		/* (MTU + 14) / (MTU - 52) */
	int64_t now_ns;
	double sum_bps, acked_bps;
	bool moved, limited;
	struct estimate_socket {
		uint64_t id, acked;
		int64_t at_ns, changed_ns;
		bool waiting;
	} sockets[ESTIMATE_SOCKETS];
	int n_sockets;
	struct estimate_ring ring;
};

struct estimate_socket_sample {
	uint64_t id;			/* inode */
	uint64_t acked_bytes, delivery_bps, unacked_segs, notsent_bytes;
	bool app_limited;
};

void estimate_tcp_begin(struct estimate_tcp *t, int64_t at_ns);
void estimate_tcp_socket(struct estimate_tcp *t, const struct estimate_socket_sample *s);
bool estimate_tcp_end(struct estimate_tcp *t);

/* ---- probe: a train of n packets of equal size, sent back to back ----
 *
 * They leave the bottleneck at its rate: the slope of bytes over arrival times,
 * by least squares, without the packets that its token bucket let through at
 * once. The median of the last three trains. */
#define ESTIMATE_PROBE_SKIP 3

/* at_ns[]: arrivals, in order; false: no rate can be told from them. */
bool estimate_train(const int64_t *at_ns, int n, unsigned l2_bytes_each, double *rate_bps,
		    double *error_bps);

struct estimate_probe {
	struct estimate e;
	struct estimate_ring ring;
};

bool estimate_probe(struct estimate_probe *p, int64_t at_ns, const int64_t *arrival_ns, int n,
		    unsigned l2_bytes_each);

/* ---- estimate_counters.c, used by all ---- */
void estimate_ring_add(struct estimate_ring *r, double v);
/* Of the last n (all, if there are fewer); between two the greater. */
double estimate_ring_median(const struct estimate_ring *r, int n);
void estimate_ring_range(const struct estimate_ring *r, double *least, double *most);

#endif
