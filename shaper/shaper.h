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
	int n_prefixes;
	struct shape_prefix prefixes[4];	/* of the remote region's hosts */
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
	unsigned mtu;
	uint32_t gso_max_bytes;		/* set on `egress`; 0: leave */
	bool fail_closed;		/* NFQUEUE rule without --queue-bypass (the lab) */
	/* Where the daemon guards its machine (its own network namespace is the
	 * machine's): what it refuses unless told otherwise. */
	bool allow_control_interface;	/* shape the interface of the default route */
	bool replace_foreign;		/* save, replace and later restore a root qdisc that is not a default */
	int n_links;
	struct shape_link *links;	/* owned by the caller */
};

/* What one class really is and did; read from the kernel. */
struct shape_stat {
	uint16_t region;
	uint64_t rate_bps;		/* read back */
	uint64_t bytes, packets;	/* sent through the HTB class, L2 */
	uint64_t drops;
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
};

void shape_stats_free(struct shape_stats *s);

/* Which delay backend does this kernel have for this process? Probed in a
 * scratch namespace where that is possible, never guessed. *why says what was
 * tried (static string). */
enum delay_kind shape_probe_delay(const char **why);

/* ---- client of bace-shaperd: the lease is the open connection ---- */
struct shaperd_client;

/* Connects to the unix socket; the lease begins. */
int shaperd_connect(const char *socket_path, struct shaperd_client **out, struct bace_err *e);
/* Shaping reverts when the connection closes. NULL is allowed. */
void shaperd_close(struct shaperd_client *c);
int shaperd_fd(const struct shaperd_client *c);	/* readable with EOF: shaperd died */
/* Applies and reads back; idempotent. Blocks (milliseconds). */
int shaperd_plan(struct shaperd_client *c, const struct shape_spec *s, struct bace_err *e);
/* How many kernel objects the last shaperd_plan had to change; 0: all was so already. */
int shaperd_changes(const struct shaperd_client *c);
int shaperd_stats(struct shaperd_client *c, struct shape_stats *out, struct bace_err *e);
/* Renews the lease where shaperd runs with a deadline; so does every request. */
int shaperd_keepalive(struct shaperd_client *c, struct bace_err *e);
int shaperd_clear(struct shaperd_client *c, struct bace_err *e);

#endif
