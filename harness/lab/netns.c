#include "harness/lab/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/bridge.h>
#include <netlink/route/link/veth.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define SELF_NETNS "/proc/thread-self/ns/net"

static int nl_fail(struct bace_err *e, int nlerr, const char *ns, const char *what)
{
	return bace_fail(e, nlerr == -NLE_NOMEM ? ENOMEM : nlerr == -NLE_PERM ? EPERM : EIO,
			 "namespace %s: %s: %s", ns, what, nl_geterror(nlerr));
}

static int open_socket(struct netns *n, struct bace_err *e)
{
	int rc;

	n->sk = nl_socket_alloc();
	if (!n->sk)
		return bace_fail(e, ENOMEM, "namespace %s: netlink socket: out of memory", n->name);
	rc = nl_connect(n->sk, NETLINK_ROUTE);
	if (rc < 0)
		return nl_fail(e, rc, n->name, "netlink socket");
	return 0;
}

int netns_current(struct netns *out, struct bace_err *e)
{
	*out = (struct netns){ .name = "supervisor" };
	out->fd = open(SELF_NETNS, O_RDONLY | O_CLOEXEC);
	if (out->fd < 0)
		return bace_fail_errno(e, errno, "open " SELF_NETNS);
	return open_socket(out, e);
}

int netns_enter(const struct netns *n, struct bace_err *e)
{
	if (setns(n->fd, CLONE_NEWNET))
		return bace_fail_errno(e, errno, "enter namespace %s", n->name);
	return 0;
}

int netns_show_interfaces(void)
{
	CLEANUP_CLOSE int groups = -1;
	char from[32];

	if (unshare(CLONE_NEWNS))
		return -errno;
	groups = open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		return -errno;
	/* By which hwloc knows what processors are allowed. */
	snprintf(from, sizeof(from), "/proc/self/fd/%d", groups);
	if (groups >= 0 && mount(from, "/sys/fs/cgroup", NULL, MS_BIND | MS_REC, NULL))
		return -errno;
	return 0;
}

void netns_close(struct netns *n)
{
	if (n->sk)
		nl_socket_free(n->sk);
	if (n->fd > 0)
		close(n->fd);
	*n = (struct netns){ 0 };
}

/* Runs while the thread is inside the new namespace. */
static int pin_and_open(const char *name, struct netns *out, struct bace_err *e)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd < 0)
		return bace_fail_errno(e, errno, "create %s", path);
	close(fd);
	if (mount(SELF_NETNS, path, "none", MS_BIND, NULL))
		return bace_fail_errno(e, errno, "bind %s", path);
	out->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (out->fd < 0)
		return bace_fail_errno(e, errno, "open %s", path);
	if (open_socket(out, e))
		return -EIO;
	return netns_up(out, "lo", e);
}

int netns_create(const char *name, struct netns *out, struct bace_err *e)
{
	CLEANUP_CLOSE int before = open(SELF_NETNS, O_RDONLY | O_CLOEXEC);
	int rc;

	*out = (struct netns){ .fd = -1 };
	snprintf(out->name, sizeof(out->name), "%s", name);
	if (before < 0)
		return bace_fail_errno(e, errno, "open " SELF_NETNS);
	if (unshare(CLONE_NEWNET))
		return bace_fail_errno(e, errno, "make network namespace %s", name);
	rc = pin_and_open(name, out, e);
	if (setns(before, CLONE_NEWNET) && !rc)
		rc = bace_fail_errno(e, errno, "leave namespace %s", name);
	if (rc)
		netns_close(out);
	return rc;
}

int netns_veth(struct netns *a, const char *name_a, struct netns *b, const char *name_b,
	       unsigned mtu, struct bace_err *e)
{
	struct rtnl_link *link = rtnl_link_veth_alloc();
	int rc;

	if (!link)
		return bace_fail(e, ENOMEM, "namespace %s: veth %s: out of memory", a->name, name_a);
	struct rtnl_link *peer = rtnl_link_veth_get_peer(link);

	rtnl_link_set_name(link, name_a);
	rtnl_link_set_name(peer, name_b);
	rtnl_link_set_mtu(link, mtu);
	rtnl_link_set_mtu(peer, mtu);
	rtnl_link_set_ns_fd(peer, b->fd);
	rc = rtnl_link_add(a->sk, link, NLM_F_CREATE | NLM_F_EXCL);
	rtnl_link_put(peer);
	rtnl_link_put(link);
	if (rc < 0) {
		char what[128];

		snprintf(what, sizeof(what), "veth %s to %s in %s", name_a, name_b, b->name);
		return nl_fail(e, rc, a->name, what);
	}
	return 0;
}

int netns_bridge(struct netns *n, const char *name, struct bace_err *e)
{
	int rc = rtnl_link_bridge_add(n->sk, name);

	if (rc < 0)
		return nl_fail(e, rc, n->name, "bridge");
	return netns_up(n, name, e);
}

static int change_link(struct netns *n, const char *ifname, bool up, const char *master,
		       struct bace_err *e)
{
	struct rtnl_link *old = NULL, *change = rtnl_link_alloc(), *m = NULL;
	char what[96];
	int rc = -NLE_NOMEM;

	snprintf(what, sizeof(what), "%s %s", up ? "set up" : "enslave", ifname);
	if (!change)
		goto out;
	rc = rtnl_link_get_kernel(n->sk, 0, ifname, &old);
	if (rc < 0)
		goto out;
	if (up)
		rtnl_link_set_flags(change, IFF_UP);
	if (master) {
		rc = rtnl_link_get_kernel(n->sk, 0, master, &m);
		if (rc < 0)
			goto out;
		rtnl_link_set_master(change, rtnl_link_get_ifindex(m));
	}
	rc = rtnl_link_change(n->sk, old, change, 0);
out:
	if (m)
		rtnl_link_put(m);
	if (old)
		rtnl_link_put(old);
	if (change)
		rtnl_link_put(change);
	return rc < 0 ? nl_fail(e, rc, n->name, what) : 0;
}

int netns_enslave(struct netns *n, const char *port, const char *bridge, struct bace_err *e)
{
	return change_link(n, port, false, bridge, e);
}

int netns_up(struct netns *n, const char *ifname, struct bace_err *e)
{
	return change_link(n, ifname, true, NULL, e);
}

static int ifindex_of(struct netns *n, const char *ifname, int *index, struct bace_err *e)
{
	struct rtnl_link *l = NULL;
	int rc = rtnl_link_get_kernel(n->sk, 0, ifname, &l);

	if (rc < 0)
		return nl_fail(e, rc, n->name, ifname);
	*index = rtnl_link_get_ifindex(l);
	rtnl_link_put(l);
	return 0;
}

int netns_addr(struct netns *n, const char *ifname, const char *addr, int prefix_len,
	       struct bace_err *e)
{
	struct rtnl_addr *a = NULL;
	struct nl_addr *local = NULL;
	int index = 0, rc;

	rc = ifindex_of(n, ifname, &index, e);
	if (rc)
		return rc;
	rc = nl_addr_parse(addr, AF_INET, &local);
	if (rc >= 0 && !(a = rtnl_addr_alloc()))
		rc = -NLE_NOMEM;
	if (rc >= 0) {
		nl_addr_set_prefixlen(local, prefix_len);
		rtnl_addr_set_ifindex(a, index);
		rtnl_addr_set_local(a, local);
		rc = rtnl_addr_add(n->sk, a, NLM_F_CREATE | NLM_F_EXCL);
	}
	if (a)
		rtnl_addr_put(a);
	if (local)
		nl_addr_put(local);
	return rc < 0 ? nl_fail(e, rc, n->name, addr) : 0;
}

/* By hand: libnl-route knows no string metric (congctl). */
static struct nl_msg *route_message(const char *dst, int prefix_len, const char *via,
				    const struct route_tcp *tcp)
{
	struct rtmsg rt = { .rtm_family = AF_INET, .rtm_dst_len = (unsigned char)prefix_len,
			    .rtm_table = RT_TABLE_MAIN, .rtm_protocol = RTPROT_STATIC,
			    .rtm_scope = RT_SCOPE_UNIVERSE, .rtm_type = RTN_UNICAST };
	struct nl_msg *m = nlmsg_alloc_simple(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE);
	struct in_addr to, gw;
	struct nlattr *metrics;

	if (!m || inet_pton(AF_INET, dst, &to) != 1 || inet_pton(AF_INET, via, &gw) != 1)
		goto fail;
	if (nlmsg_append(m, &rt, sizeof(rt), NLMSG_ALIGNTO) < 0 ||
	    nla_put(m, RTA_GATEWAY, sizeof(gw), &gw) < 0 ||
	    (prefix_len && nla_put(m, RTA_DST, sizeof(to), &to) < 0))
		goto fail;
	if (!tcp)
		return m;
	metrics = nla_nest_start(m, RTA_METRICS);
	if (!metrics)
		goto fail;
	if (tcp->initcwnd && nla_put_u32(m, RTAX_INITCWND, tcp->initcwnd) < 0)
		goto fail;
	if (tcp->initrwnd && nla_put_u32(m, RTAX_INITRWND, tcp->initrwnd) < 0)
		goto fail;
	if (tcp->congestion_control && tcp->congestion_control[0] &&
	    nla_put_string(m, RTAX_CC_ALGO, tcp->congestion_control) < 0)
		goto fail;
	nla_nest_end(m, metrics);
	return m;
fail:
	if (m)
		nlmsg_free(m);
	return NULL;
}

int netns_route(struct netns *n, const char *dst, int prefix_len, const char *via,
		const struct route_tcp *tcp, struct bace_err *e)
{
	struct nl_msg *m = route_message(dst, prefix_len, via, tcp);
	char what[96];
	int rc;

	if (!m)
		return bace_fail(e, EINVAL, "namespace %s: route to %s/%d via %s: bad address",
				 n->name, dst, prefix_len, via);
	rc = nl_send_sync(n->sk, m);	/* frees m */
	snprintf(what, sizeof(what), "route to %s/%d via %s%s%s", dst, prefix_len, via,
		 tcp && tcp->congestion_control ? " congctl " : "",
		 tcp && tcp->congestion_control ? tcp->congestion_control : "");
	return rc < 0 ? nl_fail(e, rc, n->name, what) : 0;
}

static int write_sysctl(const char *path, const char *value)
{
	CLEANUP_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, value, strlen(value)) < 0 ? -errno : 0;
}

int netns_sysctl(struct netns *n, const char *name, const char *value, struct bace_err *e)
{
	CLEANUP_CLOSE int before = open(SELF_NETNS, O_RDONLY | O_CLOEXEC);
	char path[160] = "/proc/sys/net/";
	size_t len = strlen(path);
	int rc;

	if (before < 0)
		return bace_fail_errno(e, errno, "open " SELF_NETNS);
	for (; *name && len < sizeof(path) - 1; name++)
		path[len++] = *name == '.' ? '/' : *name;
	path[len] = '\0';
	rc = netns_enter(n, e);
	if (rc)
		return rc;
	rc = write_sysctl(path, value);
	if (setns(before, CLONE_NEWNET))
		return bace_fail_errno(e, errno, "leave namespace %s", n->name);
	return rc ? bace_fail_errno(e, -rc, "namespace %s: write %s to %s", n->name, value, path) : 0;
}
