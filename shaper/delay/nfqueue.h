/* nfnetlink_queue: bind a queue, read packets, answer with verdicts. */
#ifndef SHAPER_DELAY_NFQUEUE_H
#define SHAPER_DELAY_NFQUEUE_H

#include "common/common.h"
#include "shaper/netlink.h"

#define NFQUEUE_NUMBER 0xbace

struct nfqueue {
	struct netlink nl;
	char *verdicts;		/* packed, not yet sent */
	size_t n_verdicts;
	uint64_t stale_verdicts;	/* refused by the kernel: the packet was gone */
};

struct nfqueue_packet {
	uint32_t id;
	uint16_t protocol;	/* ETH_P_*, host order */
	int64_t arrival_real_ns;	/* 0: not known */
	const uint8_t *data;	/* from the network header */
	size_t len;
};

/* In the calling thread's network namespace. */
int nfqueue_open(struct nfqueue *q, uint32_t max_pkts, struct bace_err *e);
void nfqueue_close(struct nfqueue *q);
/* Not waited for: whether the kernel took it comes with the packets. */
int nfqueue_set_max(struct nfqueue *q, uint32_t max_pkts, struct bace_err *e);
int nfqueue_fd(const struct nfqueue *q);

/* From one message that is no packet: a verdict that came too late is counted, a
 * refused length is -errno. */
int nfqueue_take_error(struct nfqueue *q, const struct nlmsghdr *nlh);

/* From one message; 1: not a packet. */
int nfqueue_parse(const struct nlmsghdr *nlh, struct nfqueue_packet *p);

/* Queues a verdict (NF_ACCEPT, NF_DROP); sends when full. */
int nfqueue_verdict(struct nfqueue *q, uint32_t id, uint32_t verdict);
int nfqueue_flush(struct nfqueue *q);

/* Drop columns of /proc/net/netfilter/nfnetlink_queue for our queue; 0s and
 * -ENOENT when it is not bound. */
int nfqueue_read_drops(uint64_t *queue_drops, uint64_t *user_drops);

#endif
