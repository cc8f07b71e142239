#include <errno.h>
#include <linux/if_link.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "shaper/kernel.h"

#define GSO_IPV4_MAX_SIZE 63	/* IFLA_GSO_IPV4_MAX_SIZE, Linux 6.3; newer than many headers */
#define LINK_ATTRS (IFLA_MAX > GSO_IPV4_MAX_SIZE ? IFLA_MAX : GSO_IPV4_MAX_SIZE)

/* ---- interfaces ---- */
static void parse_slave_kind(const struct nlattr *linkinfo, struct if_info *i)
{
	const struct nlattr *tb[IFLA_INFO_MAX + 1];

	if (linkinfo && !attrs_parse(linkinfo, tb, IFLA_INFO_MAX) && tb[IFLA_INFO_SLAVE_KIND])
		attr_str(tb[IFLA_INFO_SLAVE_KIND], i->slave_kind, sizeof(i->slave_kind));
}

static int parse_link(const struct nlmsghdr *nlh, void *arg)
{
	struct if_info *i = arg;
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *tb[LINK_ATTRS + 1];

	if (nlh->nlmsg_type != RTM_NEWLINK || mnl_nlmsg_get_payload_len(nlh) < sizeof(*ifi) ||
	    attrs_parse_msg(nlh, sizeof(*ifi), tb, LINK_ATTRS))
		return -EBADMSG;
	i->ifindex = ifi->ifi_index;
	i->up = ifi->ifi_flags & IFF_UP;
	attr_u32(tb[IFLA_MTU], &i->mtu);
	attr_u32(tb[IFLA_TXQLEN], &i->txqlen);
	attr_u32(tb[IFLA_GSO_MAX_SIZE], &i->gso_max_bytes);
	attr_u32(tb[GSO_IPV4_MAX_SIZE], &i->gso_ipv4_max_bytes);
	attr_u32(tb[IFLA_NUM_TX_QUEUES], &i->n_tx_queues);
	attr_u32(tb[IFLA_CARRIER_CHANGES], &i->carrier_changes);
	attr_u32(tb[IFLA_MASTER], (uint32_t *)&i->master);
	attr_str(tb[IFLA_IFNAME], i->ifname, sizeof(i->ifname));
	parse_slave_kind(tb[IFLA_LINKINFO], i);
	return 0;
}

int kernel_if_info(struct netlink *nl, const char *ifname, struct if_info *out, struct bace_err *e)
{
	_Alignas(NLMSG_ALIGNTO) char buf[256] = { 0 };	/* what pads the name is sent, too */
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	int rc;

	*out = (struct if_info){ 0 };
	nlh->nlmsg_type = RTM_GETLINK;
	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, ifname);
	rc = netlink_ask(nl, nlh, parse_link, out, e);
	if (rc == -ENODEV)
		return bace_fail(e, ENODEV, "no interface `%s' here", ifname);
	return rc ? bace_err_context(e, "look up interface `%s'", ifname) : 0;
}

int kernel_set_gso_max(struct netlink *nl, const struct if_info *i, uint32_t bytes, uint32_t ipv4_bytes,
		       struct bace_err *e)
{
	_Alignas(NLMSG_ALIGNTO) char buf[256];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *ifi;

	nlh->nlmsg_type = RTM_NEWLINK;
	ifi = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifi));
	ifi->ifi_index = i->ifindex;
	mnl_attr_put_u32(nlh, IFLA_GSO_MAX_SIZE, bytes);
	if (ipv4_bytes)
		mnl_attr_put_u32(nlh, GSO_IPV4_MAX_SIZE, ipv4_bytes);
	if (netlink_ask(nl, nlh, NULL, NULL, e))
		return bace_err_context(e, "set gso_max_size %u on `%s'", bytes, i->ifname);
	return 0;
}

/* ---- tc objects ---- */
static int parse_filter(const struct tcmsg *tc, struct tcobj *o)
{
	o->prio = (uint16_t)(tc->tcm_info >> 16);
	o->protocol = ntohs((uint16_t)(tc->tcm_info & 0xffff));
	/* The head of a priority, and a u32 root table, exist by themselves. */
	if (!tc->tcm_handle)
		return 1;
	if (o->kind == &kind_u32 && TC_U32_USERHTID(o->handle) >= 0x800) {
		if (!TC_U32_KEY(o->handle))
			return 1;
		o->handle |= TC_U32_ROOT;
	}
	return 0;
}

int kernel_parse_tc(const struct nlmsghdr *nlh, int ifindex, struct tcobj *o)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *tb[TCA_MAX + 1];
	int rc = 0;

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*tc))
		return -EBADMSG;
	if (tc->tcm_ifindex != ifindex)
		return 1;
	if (attrs_parse_msg(nlh, sizeof(*tc), tb, TCA_MAX))
		return -EBADMSG;
	memset(o, 0, sizeof(*o));
	o->type = nlh->nlmsg_type == RTM_NEWQDISC ? TCOBJ_QDISC
		  : nlh->nlmsg_type == RTM_NEWTCLASS ? TCOBJ_CLASS : TCOBJ_FILTER;
	o->parent = tc->tcm_parent;
	o->handle = o->kernel_handle = tc->tcm_handle;
	if (attr_str(tb[TCA_KIND], o->kind_name, sizeof(o->kind_name)))
		return -EBADMSG;
	o->kind = tckind_find(o->type, o->kind_name);
	if (o->type == TCOBJ_FILTER)
		rc = parse_filter(tc, o);
	/* HTB says "root" for the parent of a top class, and is told the qdisc. */
	if (o->type == TCOBJ_CLASS && o->parent == TC_H_ROOT)
		o->parent = TC_H_MAJ(o->handle);
	if (!rc && o->kind && o->kind->decode(tb[TCA_OPTIONS], o)) {
		o->kind = NULL;
		memset(&o->u, 0, sizeof(o->u));
	}
	return rc;
}

struct collect {
	struct if_state *to;
	size_t start;
};

static void collect_reset(void *arg)
{
	struct collect *c = arg;

	c->to->n = c->start;
}

static int collect(const struct nlmsghdr *nlh, void *arg)
{
	struct collect *c = arg;
	struct tcobj o;
	int rc = kernel_parse_tc(nlh, c->to->ifindex, &o);

	return rc ? (rc < 0 ? rc : 0) : if_state_add(c->to, &o);
}

int kernel_dump_tc(struct netlink *nl, uint16_t type, int ifindex, uint32_t parent, netlink_cb cb,
		   void (*reset)(void *), void *arg, struct bace_err *e)
{
	_Alignas(NLMSG_ALIGNTO) char buf[128];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct tcmsg *tc;

	nlh->nlmsg_type = type;
	tc = mnl_nlmsg_put_extra_header(nlh, sizeof(*tc));
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = parent;
	return netlink_dump(nl, nlh, cb, reset, arg, e);
}

static int dump(struct netlink *nl, uint16_t type, const struct if_info *i, uint32_t parent,
		struct if_state *to, struct bace_err *e)
{
	struct collect c = { .to = to, .start = to->n };

	if (kernel_dump_tc(nl, type, i->ifindex, parent, collect, collect_reset, &c, e))
		return bace_err_context(e, "read tc state of `%s'", i->ifname);
	return 0;
}

int kernel_observe(struct netlink *nl, const struct if_info *i, struct if_state *out, struct bace_err *e)
{
	int rc;

	*out = (struct if_state){ .ifindex = i->ifindex };
	memcpy(out->ifname, i->ifname, sizeof(out->ifname));
	rc = dump(nl, RTM_GETQDISC, i, 0, out, e);
	if (!rc && if_state_is_ours(out)) {
		rc = dump(nl, RTM_GETTCLASS, i, 0, out, e);
		if (!rc)
			rc = dump(nl, RTM_GETTFILTER, i, (uint32_t)SHAPE_HANDLE_MAJOR << 16, out, e);
	}
	if (rc)
		if_state_free(out);
	return rc;
}
