#include "shaper/watch.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

static const int groups[] = { RTNLGRP_TC, RTNLGRP_LINK };

int watch_open(struct watch *w, struct bace_err *e)
{
	*w = (struct watch){ 0 };
	return netlink_open(&w->nl, NETLINK_ROUTE, e);
}

void watch_close(struct watch *w)
{
	netlink_close(&w->nl);
	w->joined = false;
}

int watch_fd(const struct watch *w)
{
	return w->nl.sock ? mnl_socket_get_fd(w->nl.sock) : -1;
}

static int drain(struct watch *w, char *buf, size_t cap)
{
	ssize_t n;

	do
		n = recv(watch_fd(w), buf, cap, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : (int)n;
}

void watch_pause(struct watch *w)
{
	if (!w->nl.sock || !w->joined)
		return;
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		mnl_socket_setsockopt(w->nl.sock, NETLINK_DROP_MEMBERSHIP, (void *)&groups[i], sizeof(groups[i]));
	w->joined = false;
}

int watch_resume(struct watch *w, struct bace_err *e)
{
	_Alignas(NLMSG_ALIGNTO) char buf[8192];

	if (!w->nl.sock || w->joined)
		return 0;
	/* What came before the pause is about what has been read back since. */
	while (drain(w, buf, sizeof(buf)) > 0)
		;
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		if (mnl_socket_setsockopt(w->nl.sock, NETLINK_ADD_MEMBERSHIP, (void *)&groups[i], sizeof(groups[i])) < 0)
			return bace_fail_errno(e, errno, "subscribe to changes of tc state");
	w->joined = true;
	return 0;
}

bool watch_concerns(const struct nlmsghdr *nlh, unsigned own_portid, const int *ifindex, int n)
{
	int changed = 0;

	if (nlh->nlmsg_pid == own_portid)
		return false;
	switch (nlh->nlmsg_type) {
	case RTM_NEWQDISC:
	case RTM_DELQDISC:
	case RTM_NEWTCLASS:
	case RTM_DELTCLASS:
	case RTM_NEWTFILTER:
	case RTM_DELTFILTER:
		if (mnl_nlmsg_get_payload_len(nlh) >= sizeof(struct tcmsg))
			changed = ((const struct tcmsg *)mnl_nlmsg_get_payload(nlh))->tcm_ifindex;
		break;
	case RTM_DELLINK:
		if (mnl_nlmsg_get_payload_len(nlh) >= sizeof(struct ifinfomsg))
			changed = ((const struct ifinfomsg *)mnl_nlmsg_get_payload(nlh))->ifi_index;
		break;
	default:
		return false;
	}
	for (int i = 0; i < n; i++)
		if (ifindex[i] == changed)
			return true;
	return false;
}

bool watch_read(struct watch *w, unsigned own_portid, const int *ifindex, int n)
{
	_Alignas(NLMSG_ALIGNTO) char buf[16384];
	bool foreign = false;
	int got;

	while ((got = drain(w, buf, sizeof(buf))) > 0)
		for (const struct nlmsghdr *nlh = (void *)buf; mnl_nlmsg_ok(nlh, got); nlh = mnl_nlmsg_next(nlh, &got))
			foreign |= watch_concerns(nlh, own_portid, ifindex, n);
	return foreign || got == -ENOBUFS;
}
