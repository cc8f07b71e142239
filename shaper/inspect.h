/*
 * What the kernel shows of shaping, whoever set it up: found by its handle.
 * And what a plan means, in tc's words. Public, as shaper.h.
 */
#ifndef SHAPER_INSPECT_H
#define SHAPER_INSPECT_H

#include "shaper/shaper.h"

/* One class on one interface. */
struct shape_seen_class {
	uint16_t region;		/* class minor - SHAPE_MINOR_BASE */
	int n_prefixes, cap_prefixes;
	struct shape_prefix *prefixes;	/* that lead to it; malloc'd */
	bool by_source;			/* they are sources: this is the side that delays */
	uint64_t rate_bps;		/* of the class; 0: does not limit */
	uint64_t buffer_bytes;		/* of its bfifo; 0: none */
	bool netem;
	int64_t latency_ns, jitter_ns;	/* of its netem */
	double loss;			/* of its netem, random */
	uint64_t bytes, packets, drops;	/* drops: of class and leaf */
	uint32_t backlog_bytes;
};

struct shape_seen_if {
	char ifname[IFNAMSIZ];
	size_t n, cap;
	struct shape_seen_class *v;	/* by region */
};

struct shape_seen {
	size_t n, cap;
	struct shape_seen_if *v;	/* interfaces whose root is bace: */
	bool queue_bound;		/* a delay line reads NFQUEUE 0xbace */
	uint64_t queue_drops, user_drops;	/* of it */
};

/* Needs no privilege. Free with shape_seen_free. */
int shape_inspect(struct shape_seen *out, struct bace_err *e);
void shape_seen_free(struct shape_seen *s);

/* What was computed for a link, never left to a default. */
struct shape_computed {
	uint64_t burst_bytes;
	uint32_t quantum_bytes;
	uint64_t buffer_bytes;
	uint32_t delay_limit_pkts;
};
void shape_compute(const struct shape_spec *s, const struct shape_link *l, struct shape_computed *out);
/* The buffer that would be computed for a link, whatever the file gives it; 0: no rate. */
uint64_t shape_buffer_wanted(const struct shape_spec *s, const struct shape_link *l);

/* Can the plan be made at all, by the delay backend that the spec names? Pure.
 * -EINVAL, -ENOTSUP: the reason. */
int shape_check(const struct shape_spec *s, struct bace_err *e);
/* The interfaces of the spec: there, up, no slave of a bond? -ENODEV, -ENETDOWN, -EINVAL. */
int shape_check_interfaces(const struct shape_spec *s, struct bace_err *e);
/* Does the way to `addr` (text) leave by an interface of the spec? 1, 0 or -errno. */
int shape_carries(const struct shape_spec *s, const char *addr, struct bace_err *e);

/* Prefixes to which this machine's way leaves by another interface than the egress that
 * limits their link: what is sent there is not shaped. */
struct shape_stray {
	int n;				/* 0: none, or no such interface here */
	char name[NAME_LEN];		/* of the first one's region */
	struct shape_prefix prefix;
	char ifname[IFNAMSIZ];		/* by which it leaves */
};
int shape_find_stray(const struct shape_spec *s, struct shape_stray *out, struct bace_err *e);

/* The plan as a shell script of tc commands; what tc cannot say is in comments. */
int shape_render_tc(const struct shape_spec *s, struct bace_buf *out, struct bace_err *e);

/* What would have to be done to make the kernel look like the plan, one line
 * each: "frankfurt: tc class change ...". *n = 0: nothing differs. */
int shape_diff(const struct shape_spec *s, struct bace_buf *out, size_t *n, struct bace_err *e);

/* Which kinds of qdisc and filter that plans are made of does this kernel lack?
 * Names of modules separated by spaces, "" for none. Tried in a scratch
 * namespace; -EPERM: none could be made. */
int shape_missing_modules(enum delay_kind delay, char *buf, size_t cap);

#endif
