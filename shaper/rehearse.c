#include <errno.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>

#include "shaper/scratch.h"
#include "shaper/snapshot.h"

/* A veth with as many queues as the real interface, so that mq has its leaves. */
static int add_device(struct netlink *nl, const struct snapshot *s, struct bace_err *e)
{
	_Alignas(NLMSG_ALIGNTO) char buf[512] = { 0 };	/* what pads names is sent, too */
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct nlattr *info;

	nlh->nlmsg_type = RTM_NEWLINK;
	nlh->nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL;
	struct ifinfomsg *ifi = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifi));
	ifi->ifi_flags = ifi->ifi_change = IFF_UP;
	mnl_attr_put_strz(nlh, IFLA_IFNAME, "rehearse0");
	if (s->n_tx_queues > 1)
		mnl_attr_put_u32(nlh, IFLA_NUM_TX_QUEUES, s->n_tx_queues);
	info = mnl_attr_nest_start(nlh, IFLA_LINKINFO);
	mnl_attr_put_strz(nlh, IFLA_INFO_KIND, "veth");
	mnl_attr_nest_end(nlh, info);
	return netlink_ask(nl, nlh, NULL, NULL, e);
}

static int rehearse_here(const void *snapshot, struct bace_err *e)
{
	struct netlink nl;
	int rc = netlink_open(&nl, NETLINK_ROUTE, e);

	if (rc)
		return rc;
	rc = add_device(&nl, snapshot, e);
	if (!rc)
		rc = snapshot_build_on(&nl, snapshot, "rehearse0", e);
	netlink_close(&nl);
	return rc;
}

int snapshot_rehearse(const struct snapshot *s, struct bace_err *e)
{
	struct bace_err inner = { 0 };

	if (snapshot_hides_something(s))
		return bace_fail(e, ENOTSUP, "the netem qdisc of `%s' has a jitter, whose distribution the kernel does not show: it could not be put back, so remove it yourself first",
				 s->ifname);
	if (s->incomplete)
		return bace_fail(e, ENOTSUP, "the %s qdisc of `%s' has more than bace can keep (a size table, a shared block, a class of a kind that Linux has given up): it could not be put back, so remove it yourself first",
				 snapshot_root_kind(s), s->ifname);
	if (!scratch_run(rehearse_here, s, &inner))
		return 0;
	return bace_fail(e, ENOTSUP, "the %s qdisc of `%s' could not be put back exactly afterwards (%s): remove it yourself first",
			 snapshot_root_kind(s), s->ifname, inner.msg);
}
