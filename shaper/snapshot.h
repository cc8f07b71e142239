/*
 * Somebody else's tc state on an interface: kept as the kernel dumps it,
 * tried out in a scratch namespace before it is given up, put back exactly.
 * Private to the shaper. Needs CAP_NET_ADMIN.
 */
#ifndef SHAPER_SNAPSHOT_H
#define SHAPER_SNAPSHOT_H

#include "shaper/kernel.h"

struct snapshot_object {
	enum tcobj_type type;
	uint32_t parent, handle, info;	/* as in struct tcmsg */
	uint32_t chain;			/* filters */
	char kind[16];
	uint32_t n_options;		/* bytes of TCA_OPTIONS' payload */
	uint8_t *options;		/* owned; NULL: there were none */
};

/* In an order in which they can be created. n = 0: only kernel defaults, which
 * come back by themselves when the root is deleted. */
struct snapshot {
	char ifname[IFNAMSIZ];
	uint32_t n_tx_queues;
	bool incomplete;		/* there is more than is kept here: not on disk */
	size_t n, cap;
	struct snapshot_object *v;
};

void snapshot_free(struct snapshot *s);

/* What stands at the root of the interface, unless it is ours. */
int snapshot_take(struct netlink *nl, const struct if_info *i, struct snapshot *out, struct bace_err *e);
bool snapshot_equal(const struct snapshot *a, const struct snapshot *b);

/* Is there something that a dump does not show? */
bool snapshot_hides_something(const struct snapshot *s);

/* Builds it in a namespace of its own and compares: -ENOTSUP says that, and
 * roughly why, it could not be put back. Leaves nothing. */
int snapshot_rehearse(const struct snapshot *s, struct bace_err *e);

/* Puts it at the root of the interface, whatever is there, and compares. */
int snapshot_restore(struct netlink *nl, const struct snapshot *s, struct bace_err *e);

/* The same on any interface: for the rehearsal. */
int snapshot_build_on(struct netlink *nl, const struct snapshot *s, const char *ifname, struct bace_err *e);

/* Turns an object as it is dumped into one as it is asked for; the kernel then
 * shows it the same again. */
void snapshot_tidy(struct snapshot_object *o);
/* Changes the options of a copy where the kernel rounds what it is told. */
void snapshot_untidy(struct snapshot_object *o);

/* "htb", "fq", ...: of the root. */
const char *snapshot_root_kind(const struct snapshot *s);

/* To and from bytes, for the journal. */
int snapshot_encode(const struct snapshot *s, struct bace_buf *out);
/* Takes one snapshot from *p, advances it. -EBADMSG: damaged; nothing to free then. */
int snapshot_decode(const uint8_t **p, const uint8_t *end, struct snapshot *out);

#endif
