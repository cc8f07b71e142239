/*
 * The kernel's side: interfaces, the tc objects on them, and plan steps as
 * messages. Private to the shaper. Needs CAP_NET_ADMIN to change anything.
 */
#ifndef SHAPER_KERNEL_H
#define SHAPER_KERNEL_H

#include "shaper/netlink.h"
#include "shaper/plan.h"

struct if_info {
	int ifindex;
	char ifname[IFNAMSIZ];
	bool up;
	unsigned mtu;
	uint32_t txqlen;
	uint32_t gso_max_bytes;
	uint32_t gso_ipv4_max_bytes;	/* 0: the kernel has none of its own for IPv4 */
	uint32_t n_tx_queues;
	uint32_t carrier_changes;	/* up or down, since it was made */
	int master;		/* 0: none */
	char slave_kind[16];	/* "bond", "bridge", ... of the master; "" */
};

/* -ENODEV with a clear message if there is none of that name. */
int kernel_if_info(struct netlink *nl, const char *ifname, struct if_info *out, struct bace_err *e);
/* For all families; ipv4_bytes 0: what that makes of IPv4's own. Linux 6.3 lowers it
 * along, and does not raise it along beyond 65536. */
int kernel_set_gso_max(struct netlink *nl, const struct if_info *i, uint32_t bytes, uint32_t ipv4_bytes,
		       struct bace_err *e);

/* Asks for the interface's objects of one type (RTM_GETQDISC, RTM_GETTCLASS,
 * RTM_GETTFILTER; parent 0: of all), as netlink_dump. */
int kernel_dump_tc(struct netlink *nl, uint16_t type, int ifindex, uint32_t parent, netlink_cb cb,
		   void (*reset)(void *), void *arg, struct bace_err *e);

/* Everything at the root of the interface: qdiscs, classes and, where the root
 * is ours, filters. */
int kernel_observe(struct netlink *nl, const struct if_info *i, struct if_state *out, struct bace_err *e);

/* From one RTM_NEWQDISC, RTM_NEWTCLASS or RTM_NEWTFILTER message. 0; 1: not
 * worth keeping (another interface, a u32 root table); -EBADMSG. */
int kernel_parse_tc(const struct nlmsghdr *nlh, int ifindex, struct tcobj *o);

int kernel_put_step(struct netlink_batch *b, int ifindex, const struct plan_step *s);

/* Makes the interface look like `want`: observe, one batch, observe again and
 * compare; puts back what was there when something fails. *n_sent (may be
 * NULL): how many messages changed something. */
int kernel_apply(struct netlink *nl, const struct if_state *want, size_t *n_sent, struct bace_err *e);

#endif
