/*
 * Private to results: why messages took longer than planned. Pure.
 *
 * What the kernel says of a sender (tcp_info), what the links carried meanwhile,
 * and what is left, for one hop in one direction over one step:
 *   buffer          time in which the receiver's window or the sender's own buffer
 *                   held it up (rwnd_limited, sndbuf_limited)
 *   contention      time in which the link carried other flows, beyond what was planned
 *   retransmission  a round trip for each segment lost, of one message at most one,
 *                   and the bytes sent again
 *   cwnd            where the congestion window holds neither a message nor the path's
 *                   bandwidth-delay product: all that is left; if segments were lost,
 *                   what slow start from that window takes, and the rest (time-outs)
 *                   is retransmission's
 *   other           nothing that TCP knows of: a link slower than planned, jitter, a
 *                   late delay line; and all of what came early
 */
#ifndef BACE_RESULTS_CAUSES_H
#define BACE_RESULTS_CAUSES_H

#include <stdbool.h>

enum slow_cause { SLOW_CWND, SLOW_BUFFER, SLOW_CONTENTION, SLOW_RETRANSMISSION, SLOW_OTHER, SLOW_CAUSES };
extern const char *const slow_cause_name[SLOW_CAUSES];

/* Seconds and bytes of the testbed. */
struct slow_flow {
	double late_s;		/* to be split: of the messages that a step waited for */
	double extra_s;		/* beyond the plan, with some message under way; of all messages */
	bool known;		/* what follows was read */
	double limited_s;	/* rwnd_limited and sndbuf_limited */
	double retrans_bytes;
	double window_bytes;	/* with which a message begins; 0: not known */
	double rtt_s;		/* of an empty path */
	double others_s;	/* the link carried others', beyond what was planned */
	int messages;
	double message_bytes;
	double goodput_bps;	/* of the whole link */
};

/* The parts add up to late_s. */
void slow_split(const struct slow_flow *f, double part[SLOW_CAUSES]);
/* The one with the largest part; SLOW_CAUSES: none is above 0. */
enum slow_cause slow_main_cause(const double part[SLOW_CAUSES]);

#endif
