/*
 * The kernel's tc objects in one comparable form: what a plan asks for, what a
 * dump shows and what a snapshot keeps are all arrays of struct tcobj. Private
 * to the shaper.
 */
#ifndef SHAPER_TCOBJ_H
#define SHAPER_TCOBJ_H

#include <linux/netlink.h>
#include <net/if.h>

#include "common/common.h"

#define U32_KEYS_MAX 4
#define U32_HTID_ROOT 0xfffu	/* stands for "the root table of this priority" */
#define NETEM_TABLE_MAX 16384
#define HTB_VERSION 3

enum tcobj_type { TCOBJ_QDISC, TCOBJ_CLASS, TCOBJ_FILTER };

struct htb_root {
	uint32_t default_minor;
	uint32_t direct_qlen_pkts;
};

/* Rates are bytes/s; bursts are times in ticks of 64 ns, as the kernel keeps them. */
struct htb_class {
	uint64_t rate_bytes_ps, ceil_bytes_ps;
	uint32_t burst_ticks, cburst_ticks;
	uint32_t quantum_bytes;
	uint32_t prio;
};

struct fifo {
	uint32_t limit;		/* bytes (bfifo) or packets (pfifo) */
};

/* Probabilities and correlations are fractions of 2^32 - 1. */
struct netem {
	int64_t latency_ns, jitter_ns;
	uint32_t limit_pkts;
	uint32_t loss, duplicate, gap;
	uint32_t delay_corr, loss_corr, duplicate_corr;
	uint32_t reorder, reorder_corr;
	uint32_t corrupt, corrupt_corr;
	uint64_t rate_bytes_ps;
	uint32_t ecn;
	uint32_t loss_model;	/* enum loss_model */
	uint32_t loss_p[5];
	uint64_t seed;		/* 0: the kernel's own */
};

struct u32_key {
	uint32_t val, mask;	/* network order */
	int32_t off;		/* from the network header */
};

/* A hash table (divisor > 0), or a node that ends in a class or links to a table. */
struct u32_filter {
	uint32_t divisor;
	uint32_t classid;
	uint32_t link;		/* table handle */
	uint32_t hash_mask;	/* network order, for the linked table */
	int32_t hash_off;
	uint32_t n_keys;
	struct u32_key keys[U32_KEYS_MAX];
};

struct tcobj {
	enum tcobj_type type;
	uint32_t parent;
	uint32_t handle;	/* u32: table, bucket and node; root tables as U32_HTID_ROOT */
	uint32_t kernel_handle;	/* filters, observed only: as the kernel numbers it */
	uint16_t prio;		/* filters */
	uint16_t protocol;	/* filters, host order */
	const struct tckind *kind;	/* NULL: one that we do not plan */
	char kind_name[16];
	/* netem only and write-only in the kernel: never compared with a dump. */
	const int16_t *table;	/* borrowed */
	int n_table;
	const char *table_name;	/* borrowed; tc's, NULL: tc has none for it */
	union {
		struct htb_root htb_root;
		struct htb_class htb_class;
		struct fifo fifo;
		struct netem netem;
		struct u32_filter u32;
	} u;
};

/* One kind of qdisc, class or filter. Adding one touches its file and the
 * table in kinds.c. */
struct tckind {
	const char *name;
	enum tcobj_type type;
	bool can_change;	/* parameters change in place */
	void (*encode)(const struct tcobj *o, struct nlmsghdr *nlh);	/* puts TCA_OPTIONS */
	/* From TCA_OPTIONS, which may be NULL. -EINVAL: not one of ours. */
	int (*decode)(const struct nlattr *options, struct tcobj *o);
	int (*print)(const struct tcobj *o, struct bace_buf *b);	/* tc's words */
};

extern const struct tckind kind_htb_root, kind_htb_class, kind_bfifo, kind_pfifo, kind_netem,
	kind_u32;

const struct tckind *tckind_find(enum tcobj_type type, const char *name);

/* Type, priority and handle: the same object of an interface has the same. */
uint64_t tcobj_key(const struct tcobj *o);
/* Same object, same parameters, as far as the kernel shows them and `want' asks for any. */
bool tcobj_equal(const struct tcobj *want, const struct tcobj *have);

/* Arguments of tc: "qdisc replace dev wan0 root handle bace: htb default 1". */
int tcobj_print(const struct tcobj *o, const char *verb, const char *ifname, struct bace_buf *b);

/* ---- a whole interface ---- */
struct if_state {
	char ifname[IFNAMSIZ];
	int ifindex;		/* 0 in a plan */
	size_t n, cap;
	struct tcobj *v;
};

void if_state_free(struct if_state *s);
int if_state_add(struct if_state *s, const struct tcobj *o);
const struct tcobj *if_state_root(const struct if_state *s);	/* NULL: none */
/* Is the root qdisc of this interface ours, by its handle and kind? */
bool if_state_is_ours(const struct if_state *s);

#endif
