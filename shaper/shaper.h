/*
 * shaper: link description -> plan -> netlink; observe, diff, verify, restore.
 * Needs CAP_NET_ADMIN over the network namespace only where a function says so.
 *
 * A shape_spec describes what one shaping host (a gateway, or a host in host
 * mode) must do on its interfaces. The plan is the exact tc state that follows
 * from it. Latency is one-way, rates are L2 bits/s, sizes bytes, times ns.
 */
#ifndef BACE_SHAPER_H
#define BACE_SHAPER_H

#include <net/if.h>
#include <netinet/in.h>

#include "common/common.h"
#include "profiles/profiles.h"

#define SHAPE_HANDLE_MAJOR 0xbace	/* root qdisc "bace:" */
#define SHAPE_MINOR_DEFAULT 0x1		/* unshaped */
#define SHAPE_MINOR_BASE 0x10		/* class minor = region index + this */

/* One remote region as this host sees it. */
struct shape_link {
	char name[NAME_LEN];		/* of the remote region */
	uint16_t region;		/* its index: the class minor follows from it */
	uint16_t jitter_table;		/* JITTER_TABLE: index in the spec's tables */
	int n_prefixes;
	struct shape_prefix prefixes[SHAPE_PREFIXES_MAX];	/* of the remote region's hosts */
	/* towards it, at `egress`: */
	uint64_t rate_bps;		/* 0: not limited (no class) */
	uint64_t buffer_bytes;		/* leaf bfifo limit; 0: computed from rate, rtt_ns and message_bytes */
	/* from it, at `ingress`: */
	int64_t latency_ns;
	int64_t jitter_ns;
	enum jitter_dist jitter_dist;
	double loss;
	/* to compute the buffer and the delay queue's limit: */
	uint64_t reverse_rate_bps;	/* of the traffic that is delayed here */
	int64_t rtt_ns;
	uint64_t message_bytes;		/* largest message, framed, times jobs on the link; 0: unknown */
	struct shape_impair impair;	/* at `ingress` */
};

enum delay_kind { DELAY_NONE, DELAY_NETEM, DELAY_NFQUEUE };

struct shape_spec {
	char egress[IFNAMSIZ];		/* towards the other regions: HTB */
	char ingress[IFNAMSIZ];		/* towards this region's hosts: delay; "" = none */
	enum delay_kind delay;
	unsigned mtu;			/* bytes, of IP */
	uint32_t gso_max_bytes;		/* set on `egress`; 0: leave */
	bool fail_closed;		/* NFQUEUE rule without --queue-bypass (the lab) */
	/* Where the daemon guards its machine (its own network namespace is the
	 * machine's): what it refuses unless told otherwise. */
	bool allow_control_interface;	/* shape the interface of the default route */
	bool replace_foreign;		/* save, replace and later restore a root qdisc that is not a default */
	int n_links;
	struct shape_link *links;	/* owned by the caller */
	int n_tables;
	struct jitter_table *tables;	/* owned by the caller */
};

/* Of its own, with links and tables; -ENOMEM. */
int shape_spec_copy(struct shape_spec *to, const struct shape_spec *from);
/* Byte for byte: two that mean the same may be told apart by what is beyond their prefixes. */
bool shape_spec_is_same(const struct shape_spec *a, const struct shape_spec *b);
/* Links and tables that are malloc'd. */
void shape_spec_free(struct shape_spec *s);

/* What one class really is and did; read from the kernel. */
struct shape_stat {
	uint16_t region;
	uint64_t rate_bps;		/* read back */
	uint64_t bytes, packets;	/* sent through the HTB class, L2 */
	uint64_t drops;			/* the kernel's own counter: begins again at 2^32 */
	uint32_t backlog_bytes;
	int64_t latency_ns;		/* read back (netem) or configured (delay line) */
	uint64_t delay_packets, delay_drops;
};

struct shape_stats {
	int64_t at_ns;			/* CLOCK_MONOTONIC of the read-out */
	int n;
	struct shape_stat *v;		/* malloc'd, free with shape_stats_free */
	enum delay_kind delay;
	/* delay line, 0 with netem; lateness since the previous read-out: */
	int64_t lateness_p99_ns;
	int64_t lateness_mean_ns, lateness_max_ns;
	uint64_t lateness_n;
	bool delay_realtime;		/* the delay line runs with SCHED_FIFO */
	uint64_t queue_drops;		/* nfnetlink_queue drop columns */
	uint64_t user_drops;
	bool delay_alive;		/* false: the delay line died; the cell is invalid */
	uint64_t carrier_changes;	/* of its interfaces, up or down, since they were made */
	/* Somebody else changed what is ours, the delay line's rule too, and it was put back, so often. */
	uint64_t drift_repairs;
	/* Changes made by traces since the last plan, and how late: */
	uint64_t trace_changes;
	int64_t trace_late_p99_ns, trace_late_max_ns;
};

void shape_stats_free(struct shape_stats *s);

/* Which delay backend does this kernel have for this process? Probed in a
 * scratch namespace where that is possible, never guessed. *why says what was
 * tried (static string). */
enum delay_kind shape_probe_delay(const char **why);

/* ---- changes in place ----
 *
 * New values for one link of the plan: one message each, no packet is lost by
 * it, what is not set stays. The buffer stays as planned. Only what the plan
 * shapes can be changed: a rate where it set one, latency and loss where it
 * set one of the two. */
enum { SHAPE_SET_RATE = 1, SHAPE_SET_LATENCY = 2, SHAPE_SET_LOSS = 4 };

struct shape_change {
	uint16_t region;
	uint16_t set;			/* SHAPE_SET_* */
	uint64_t rate_bps;
	int64_t latency_ns;
	double loss;			/* 0..1; random */
};

/* ---- traces: changes over time ---- */
struct shape_trace_point {
	int64_t at_ns;			/* from the start, rising */
	struct shape_change to;		/* region ignored */
};

struct shape_trace {
	size_t n;
	struct shape_trace_point *v;	/* malloc'd; shape_trace_free */
	int64_t period_ns;		/* of one round, if it is to be looped; 0: it cannot be */
	size_t outages;			/* of a packet-delivery trace: one packet passes in each */
};

#define SHAPE_TRACE_POINTS_MAX 200000

/* From a file, which is either
 *   CSV with a line of column names: `t_s`, seconds from the start, and any of
 *     `rate`, `latency` (values with units: 20mbit, 38.2ms), `rate_bps`,
 *     `rate_mbit`, `latency_s`, `latency_ms` (plain numbers) and `loss` (0..1 or
 *     1.5%). An empty field leaves the value as it was. A round lasts until the
 *     last line plus the distance between the last two;
 *   or a Mahimahi packet-delivery trace: one time in ms a line, at each of which
 *     a packet of 1500 bytes can leave (1514 on L2), made into the mean rate of
 *     each `bin_ns` (0: 100 ms). A bin without any is an outage, in which HTB lets
 *     one packet pass. A round lasts until the last line's time.
 * -EINVAL: err is FILE:LINE: why. */
int shape_trace_read(const char *path, int64_t bin_ns, struct shape_trace *out, struct bace_err *e);
/* The same from memory; `name` stands for the file in messages. */
int shape_trace_parse(const char *text, size_t len, const char *name, int64_t bin_ns,
		      struct shape_trace *out, struct bace_err *e);
void shape_trace_free(struct shape_trace *t);
/* All that any point of it sets. */
unsigned shape_trace_sets(const struct shape_trace *t);

/* ---- one link shared by several hosts ----
 *
 * Divides `capacity_bps` among n hosts, max-min fair by demand, and what nobody
 * demands evenly, so that the parts always sum to the capacity and a host that
 * wakes up has something to begin with. A host's demand follows from its class
 * over the last period: all it can get if it had to queue, else somewhat more
 * than it sent. Nobody gets less than `floor_bps` unless there is not enough.
 * Nothing changes for n outside 1..SHAPE_SHARES_MAX or a period below 1 ns. Pure. */
#define SHAPE_SHARES_MAX 4096
struct shape_share {
	uint64_t sent_bytes;		/* by its class during the period */
	uint64_t backlog_bytes;		/* waiting in its class at the end */
	uint64_t rate_bps;		/* what it had; in and out */
};
void shape_divide(uint64_t capacity_bps, uint64_t floor_bps, int64_t period_ns, struct shape_share *v, int n);

/* ---- client of bace-shaperd: the lease is the open connection ---- */
struct shaperd_client;

/* Connects to the unix socket; the lease begins. */
int shaperd_connect(const char *socket_path, struct shaperd_client **out, struct bace_err *e);
/* Shaping reverts when the connection closes. NULL is allowed. */
void shaperd_close(struct shaperd_client *c);
int shaperd_fd(const struct shaperd_client *c);	/* readable with EOF: shaperd died */
/* Applies and reads back; idempotent. Blocks (milliseconds). */
int shaperd_plan(struct shaperd_client *c, const struct shape_spec *s, struct bace_err *e);
/* How many kernel objects the last shaperd_plan had to change; 0: all was so already,
 * or it failed. */
int shaperd_changes(const struct shaperd_client *c);
int shaperd_stats(struct shaperd_client *c, struct shape_stats *out, struct bace_err *e);
/* Changes links of the plan, each named once, in place and reads them back; all or
 * nothing. */
int shaperd_change(struct shaperd_client *c, const struct shape_change *v, int n, struct bace_err *e);
/* Plays a trace on one link of the plan, inside shaperd, until the next plan or
 * clear. Starts at start_real_ns (CLOCK_REALTIME, so that all hosts can start
 * together; 0: now), in the middle if that is past. A trace without points ends
 * the one that plays on this link; the link keeps its last values. */
int shaperd_trace(struct shaperd_client *c, uint16_t region, const struct shape_trace *t, bool loop,
		  int64_t start_real_ns, struct bace_err *e);
/* Renews the lease where shaperd runs with a deadline; so does every request. */
int shaperd_keepalive(struct shaperd_client *c, struct bace_err *e);
int shaperd_clear(struct shaperd_client *c, struct bace_err *e);

#endif
