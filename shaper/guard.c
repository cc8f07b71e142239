#include "shaper/guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/stat.h>

int guard_check_usable(const struct if_info *i, struct bace_err *e)
{
	if (!i->up)
		return bace_fail(e, ENETDOWN, "interface `%s' is down: bring it up first (ip link set %s up)",
				 i->ifname, i->ifname);
	if (!strcmp(i->slave_kind, "bond") || !strcmp(i->slave_kind, "team"))
		return bace_fail(e, EINVAL, "interface `%s' is a slave of a %s: shape the %s itself, or the other slaves go unshaped",
				 i->ifname, i->slave_kind, i->slave_kind);
	return 0;
}

struct default_routes {
	int ifindex;
	bool found;
};

static bool multipath_uses(const struct nlattr *a, int ifindex)
{
	const char *p = mnl_attr_get_payload(a);
	size_t n = mnl_attr_get_payload_len(a);

	while (n >= sizeof(struct rtnexthop)) {
		const struct rtnexthop *hop = (const void *)p;
		size_t len = RTNH_ALIGN(hop->rtnh_len);

		if (hop->rtnh_len < sizeof(*hop) || len > n)
			return false;
		if (hop->rtnh_ifindex == ifindex)
			return true;
		p += len;
		n -= len;
	}
	return false;
}

static int on_route(const struct nlmsghdr *nlh, void *arg)
{
	struct default_routes *d = arg;
	const struct rtmsg *rt = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *tb[RTA_MAX + 1];
	uint32_t oif = 0;

	if (nlh->nlmsg_type != RTM_NEWROUTE || mnl_nlmsg_get_payload_len(nlh) < sizeof(*rt) ||
	    attrs_parse_msg(nlh, sizeof(*rt), tb, RTA_MAX))
		return -EBADMSG;
	if (rt->rtm_dst_len || rt->rtm_type != RTN_UNICAST)
		return 0;
	if (tb[RTA_OIF] && attr_u32(tb[RTA_OIF], &oif))
		return -EBADMSG;
	if ((int)oif == d->ifindex || (tb[RTA_MULTIPATH] && multipath_uses(tb[RTA_MULTIPATH], d->ifindex)))
		d->found = true;
	return 0;
}

int guard_check_default_route(struct netlink *nl, const struct if_info *i, struct bace_err *e)
{
	static const uint8_t families[] = { AF_INET, AF_INET6 };
	struct default_routes d = { .ifindex = i->ifindex };

	for (size_t k = 0; k < ARRAY_LEN(families); k++) {
		_Alignas(NLMSG_ALIGNTO) char buf[128];
		struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
		struct rtmsg *rt;
		int rc;

		nlh->nlmsg_type = RTM_GETROUTE;
		rt = mnl_nlmsg_put_extra_header(nlh, sizeof(*rt));
		rt->rtm_family = families[k];
		rc = netlink_dump(nl, nlh, on_route, NULL, &d, e);
		/* A kernel without IPv6 has no routes of it. */
		if (rc && families[k] == AF_INET)
			return bace_err_context(e, "read the routes");
	}
	if (d.found)
		return bace_fail(e, EISCONN, "interface `%s' carries the default route: shaping it could cut this machine off; "
				 "--allow-control-interface if that is meant", i->ifname);
	return 0;
}

static int on_lookup(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[RTA_MAX + 1];
	uint32_t oif = 0;

	if (nlh->nlmsg_type != RTM_NEWROUTE || attrs_parse_msg(nlh, sizeof(struct rtmsg), tb, RTA_MAX))
		return -EBADMSG;
	if (tb[RTA_OIF] && attr_u32(tb[RTA_OIF], &oif))
		return -EBADMSG;
	*(int *)arg = (int)oif;
	return 0;
}

int guard_route_interface(struct netlink *nl, const char *addr, int *ifindex, struct bace_err *e)
{
	_Alignas(NLMSG_ALIGNTO) char buf[256];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct rtmsg *rt;
	uint8_t bytes[16];
	int rc;

	*ifindex = 0;
	nlh->nlmsg_type = RTM_GETROUTE;
	rt = mnl_nlmsg_put_extra_header(nlh, sizeof(*rt));
	rt->rtm_family = inet_pton(AF_INET, addr, bytes) == 1 ? AF_INET
			 : inet_pton(AF_INET6, addr, bytes) == 1 ? AF_INET6 : AF_UNSPEC;
	if (rt->rtm_family == AF_UNSPEC)
		return bace_fail(e, EINVAL, "`%s' is not an address", addr);
	rt->rtm_dst_len = rt->rtm_family == AF_INET ? 32 : 128;
	mnl_attr_put(nlh, RTA_DST, rt->rtm_dst_len / 8, bytes);
	rc = netlink_ask(nl, nlh, on_lookup, ifindex, e);
	if (rc == -ENETUNREACH || rc == -EHOSTUNREACH)
		return 0;
	return rc ? bace_err_context(e, "look up the route to %s", addr) : 0;
}

bool guard_is_machine_namespace(void)
{
	struct stat mine, init;

	/* Without CAP_SYS_PTRACE PID 1's cannot be looked at: then it counts as ours. */
	return stat("/proc/self/ns/net", &mine) || stat("/proc/1/ns/net", &init) ||
	       (mine.st_ino == init.st_ino && mine.st_dev == init.st_dev);
}
