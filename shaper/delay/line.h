/*
 * The NFQUEUE delay line: packets that arrive from another region wait here
 * for the rest of that link's latency. A thread of its own, because a dump of
 * ten thousand classes or a slow client must not make packets late; and because
 * only it is to run with real-time priority. Private to the shaper.
 */
#ifndef SHAPER_DELAY_LINE_H
#define SHAPER_DELAY_LINE_H

#include "shaper/shaper.h"

struct delay_line;

struct delay_link_stat {
	uint16_t region;
	uint64_t packets, lost, overflowed;
	size_t held;
};

struct delay_line_stats {
	bool alive;
	char why_dead[200];
	uint64_t unmatched;		/* from no known region: passed at once */
	uint64_t packets_timed;
	int64_t lateness_p99_ns, lateness_mean_ns, lateness_max_ns;	/* since the last reset */
	uint64_t queue_drops, user_drops, stale_verdicts;
	bool realtime;			/* runs with SCHED_FIFO */
	int n_links;
	struct delay_link_stat *links;	/* free() */
};

/* Binds the queue in the caller's network namespace and starts the thread. */
int delay_line_start(const struct shape_spec *s, uint32_t max_pkts, struct delay_line **out,
		     struct bace_err *e);
/* New parameters for packets from now on; what is held leaves when it was due.
 * Packets held for a link that is no longer there leave at once. */
int delay_line_update(struct delay_line *d, const struct shape_spec *s, uint32_t max_pkts,
		      struct bace_err *e);
/* New latency, jitter, loss of one link, for packets from now on. */
void delay_line_change(struct delay_line *d, const struct shape_link *l);
int delay_line_set_max(struct delay_line *d, uint32_t max_pkts, struct bace_err *e);
int delay_line_stats(struct delay_line *d, bool reset, struct delay_line_stats *out);
/* Lets everything that is held go, then ends. NULL is allowed. */
void delay_line_stop(struct delay_line *d);
/* Readable when the thread has died. */
int delay_line_fd(const struct delay_line *d);

#endif
