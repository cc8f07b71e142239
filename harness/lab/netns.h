/* Private to harness/lab: named network namespaces and what is in them. Needs
 * root over the current user namespace, and a private mount namespace with a
 * tmpfs on /run. */
#ifndef BACE_LAB_NETNS_H
#define BACE_LAB_NETNS_H

#include <netlink/netlink.h>

#include "common/common.h"

struct netns {
	char name[64];
	int fd;			/* of the namespace */
	struct nl_sock *sk;	/* opened inside it */
};

/* Makes /run/netns/NAME; lo is up. */
int netns_create(const char *name, struct netns *out, struct bace_err *e);
/* The namespace that the caller is in. */
int netns_current(struct netns *out, struct bace_err *e);
void netns_close(struct netns *n);
/* Moves the calling thread in. */
int netns_enter(const struct netns *n, struct bace_err *e);
/* In a process of its own that has entered one: /sys becomes a mount of its own and
 * shows the namespace's interfaces, whose speed NCCL reads there. -errno: it may
 * not. */
int netns_show_interfaces(void);

/* IPv4 addresses are dotted quads. */
int netns_veth(struct netns *a, const char *name_a, struct netns *b, const char *name_b,
	       unsigned mtu, struct bace_err *e);
int netns_bridge(struct netns *n, const char *name, struct bace_err *e);
int netns_enslave(struct netns *n, const char *port, const char *bridge, struct bace_err *e);
int netns_up(struct netns *n, const char *ifname, struct bace_err *e);
int netns_addr(struct netns *n, const char *ifname, const char *addr, int prefix_len,
	       struct bace_err *e);

struct route_tcp {		/* as route attributes; 0 and "" are not sent */
	unsigned initcwnd, initrwnd;
	const char *congestion_control;
};

int netns_route(struct netns *n, const char *dst, int prefix_len, const char *via,
		const struct route_tcp *tcp, struct bace_err *e);
/* Writes net.NAME (dots or slashes) inside the namespace; what: for the error. */
int netns_sysctl(struct netns *n, const char *name, const char *value, struct bace_err *e);

#endif
