/*
 * Replies of the kernel: the first byte says which reader, the next whether the
 * rest is a whole message or what follows a header that is in order. A reader
 * refuses, or what it says is within bounds.
 */
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/delay/nfqueue.h"
#include "shaper/kernel.h"
#include "shaper/snapshot.h"
#include "shaper/stats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define IFINDEX 3

static void check_tc(const struct nlmsghdr *nlh)
{
	struct bace_buf text = { 0 };
	struct stats_counters c;
	struct tcobj o;
	int rc = kernel_parse_tc(nlh, IFINDEX, &o);

	if (rc < 0 && rc != -EBADMSG && rc != -EINVAL)
		abort();
	if (!rc) {
		if (!memchr(o.kind_name, '\0', sizeof(o.kind_name)) || (o.kind == &kind_u32 && o.u.u32.n_keys > U32_KEYS_MAX))
			abort();
		if (!tcobj_equal(&o, &o) && o.kind)
			abort();
		tcobj_print(&o, "add", "eth0", &text);
	}
	if (mnl_nlmsg_get_payload_len(nlh) >= sizeof(struct tcmsg) && stats_parse(nlh, &c) != 0 &&
	    stats_parse(nlh, &c) != -EBADMSG)
		abort();
	bace_buf_free(&text);
}

static void check_packet(const struct nlmsghdr *nlh)
{
	struct nfqueue_packet p = { 0 };
	unsigned sum = 0;

	if (nfqueue_parse(nlh, &p))
		return;
	for (size_t i = 0; i < p.len; i++)
		sum += p.data[i];
	if (sum > 255 * p.len)
		abort();
}

/* The journal is not the kernel's, but it holds what the kernel said. */
static void check_snapshot(const uint8_t *data, size_t size)
{
	const uint8_t *p = data;
	struct snapshot s;

	if (snapshot_decode(&p, data + size, &s))
		return;
	for (size_t i = 0; i < s.n; i++)
		snapshot_tidy(&s.v[i]);
	snapshot_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint16_t types[] = { RTM_NEWQDISC, RTM_NEWTCLASS, RTM_NEWTFILTER, RTM_NEWLINK };
	struct nlmsghdr *nlh;
	struct tcmsg *tc;

	if (size < 2)
		return 0;
	nlh = calloc(1, sizeof(*nlh) + sizeof(*tc) + size);
	if (!nlh)
		return 0;
	nlh->nlmsg_type = types[data[0] & 3];
	if (data[1] & 1) {
		tc = mnl_nlmsg_get_payload(nlh);
		tc->tcm_ifindex = IFINDEX;
		tc->tcm_parent = 0xbace0000;
		tc->tcm_handle = 0xbace0010;
		memcpy(tc + 1, data + 2, size - 2);
		nlh->nlmsg_len = (uint32_t)(sizeof(*nlh) + sizeof(*tc) + size - 2);
	} else {
		memcpy(mnl_nlmsg_get_payload(nlh), data + 2, size - 2);
		nlh->nlmsg_len = (uint32_t)(sizeof(*nlh) + size - 2);
	}
	if (data[0] & 8) {
		check_snapshot(data + 2, size - 2);
	} else if (data[0] & 4) {
		nlh->nlmsg_type = NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET;
		check_packet(nlh);
	} else {
		check_tc(nlh);
	}
	free(nlh);
	return 0;
}
