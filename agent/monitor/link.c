/* Counters of all interfaces but lo. */
#include <errno.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "agent/monitor/internal.h"

struct link_source {
	struct source base;
	struct mnl_socket *nl;
	struct bace_buf *rows;
};

static int on_attr(const struct nlattr *a, void *arg)
{
	const struct nlattr **tb = arg;

	if (mnl_attr_get_type(a) <= IFLA_MAX)
		tb[mnl_attr_get_type(a)] = a;
	return MNL_CB_OK;
}

static int on_link(const struct nlmsghdr *nlh, void *arg)
{
	struct link_source *s = arg;
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *tb[IFLA_MAX + 1] = { 0 };
	struct rtnl_link_stats64 st = { 0 };
	size_t n;

	if (ifi->ifi_flags & IFF_LOOPBACK)
		return MNL_CB_OK;
	mnl_attr_parse(nlh, sizeof(*ifi), on_attr, tb);
	if (!tb[IFLA_IFNAME] || !tb[IFLA_STATS64])
		return MNL_CB_OK;
	/* The kernel's struct may be longer or shorter than this header's. */
	n = mnl_attr_get_payload_len(tb[IFLA_STATS64]);
	memcpy(&st, mnl_attr_get_payload(tb[IFLA_STATS64]), n < sizeof(st) ? n : sizeof(st));
	row_str(s->rows, mnl_attr_get_str(tb[IFLA_IFNAME]), ' ');
	row_u64(s->rows, st.rx_bytes, ' ');
	row_u64(s->rows, st.tx_bytes, ' ');
	row_u64(s->rows, st.rx_packets, ' ');
	row_u64(s->rows, st.tx_packets, ' ');
	row_u64(s->rows, st.rx_dropped, ' ');
	row_u64(s->rows, st.tx_dropped, ';');
	return MNL_CB_OK;
}

static int link_read(struct source *base, bool full, struct bace_buf *rows, struct bace_err *e)
{
	struct link_source *s = (struct link_source *)base;
	char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *ifi;

	nlh->nlmsg_type = RTM_GETLINK;
	ifi = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifi));
	ifi->ifi_family = AF_UNSPEC;
	s->rows = rows;
	return nl_dump(s->nl, nlh, on_link, s, e);
}

static void link_destroy(struct source *base)
{
	struct link_source *s = (struct link_source *)base;

	if (s->nl)
		mnl_socket_close(s->nl);
	free(s);
}

static const struct source_ops ops = { .name = "link", .read = link_read, .destroy = link_destroy };

int source_link(struct monitor *m, struct source **out, struct bace_err *e)
{
	struct link_source *s = source_new(m, &ops, sizeof(*s), e);
	int rc;

	if (!s)
		return -ENOMEM;
	rc = nl_open(NETLINK_ROUTE, &s->nl, e);
	if (rc)
		link_destroy(&s->base);
	else
		*out = &s->base;
	return rc;
}
