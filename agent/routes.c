/* How this host reaches others, as the kernel would route a packet now. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

#include <libmnl/libmnl.h>

#include "agent/monitor/monitor.h"
#include "common/json.h"

struct route {
	char dev[IFNAMSIZ];		/* "": there is none */
	uint32_t initcwnd, initrwnd;	/* segments; 0: the kernel's default */
};

static int on_metric(const struct nlattr *a, void *arg)
{
	struct route *r = arg;

	if (mnl_attr_validate(a, MNL_TYPE_U32) < 0)
		return MNL_CB_OK;	/* one is a word */
	if (mnl_attr_get_type(a) == RTAX_INITCWND)
		r->initcwnd = mnl_attr_get_u32(a);
	else if (mnl_attr_get_type(a) == RTAX_INITRWND)
		r->initrwnd = mnl_attr_get_u32(a);
	return MNL_CB_OK;
}

static int on_attr(const struct nlattr *a, void *arg)
{
	struct route *r = arg;

	if (mnl_attr_get_type(a) == RTA_OIF && mnl_attr_validate(a, MNL_TYPE_U32) >= 0 &&
	    !if_indextoname(mnl_attr_get_u32(a), r->dev))
		r->dev[0] = '\0';
	if (mnl_attr_get_type(a) == RTA_METRICS)
		return mnl_attr_parse_nested(a, on_metric, r);
	return MNL_CB_OK;
}

static int on_route(const struct nlmsghdr *nlh, void *arg)
{
	return nlh->nlmsg_type == RTM_NEWROUTE ? mnl_attr_parse(nlh, sizeof(struct rtmsg), on_attr, arg) : MNL_CB_OK;
}

/* An address that there is no route to, or that is none, leaves *out empty. */
static void look_up(struct mnl_socket *s, const char *addr, unsigned seq, struct route *out)
{
	_Alignas(NLMSG_ALIGNTO) char buf[8192];
	uint8_t bytes[16];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct rtmsg *rt;
	ssize_t n;

	*out = (struct route){ 0 };
	nlh->nlmsg_type = RTM_GETROUTE;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	nlh->nlmsg_seq = seq;
	rt = mnl_nlmsg_put_extra_header(nlh, sizeof(*rt));
	rt->rtm_family = inet_pton(AF_INET, addr, bytes) == 1 ? AF_INET : AF_INET6;
	if (rt->rtm_family == AF_INET6 && inet_pton(AF_INET6, addr, bytes) != 1)
		return;
	rt->rtm_dst_len = rt->rtm_family == AF_INET ? 32 : 128;
	mnl_attr_put(nlh, RTA_DST, rt->rtm_dst_len / 8, bytes);
	if (mnl_socket_sendto(s, nlh, nlh->nlmsg_len) < 0)
		return;
	do
		n = mnl_socket_recvfrom(s, buf, sizeof(buf));
	while (n < 0 && errno == EINTR);
	if (n > 0)
		mnl_cb_run(buf, (size_t)n, seq, mnl_socket_get_portid(s), on_route, out);
}

/* "10.1.2.3:4567", "[fd00::1]:4567" without the port. */
static void without_port(const char *text, char addr[64])
{
	const char *colon = strrchr(text, ':');
	bool brackets = text[0] == '[';

	snprintf(addr, 64, "%.*s", colon ? (int)(colon - text) - (brackets ? 2 : 0) : 0, text + (brackets ? 1 : 0));
}

int routes_describe(const char *controller, const json_t *addrs, json_t **answer, struct bace_err *e)
{
	json_t *routes = json_array();
	struct mnl_socket *s = NULL;
	const json_t *v;
	struct route r;
	char addr[64];
	size_t i;
	int rc = nl_open(NETLINK_ROUTE, &s, e);

	if (rc) {
		bace_err_context(e, "routes");
		json_decref(routes);
		return rc;
	}
	json_array_foreach(addrs, i, v) {
		look_up(s, json_string_value(v), (unsigned)i + 1, &r);
		json_array_append_new(routes, json_pack("{s:o,s:I,s:I}", "dev", json_text(r.dev), "initcwnd",
			(json_int_t)r.initcwnd, "initrwnd", (json_int_t)r.initrwnd));
	}
	without_port(controller, addr);
	look_up(s, addr, (unsigned)i + 1, &r);
	mnl_socket_close(s);
	*answer = json_pack("{s:o,s:o}", "control", json_text(r.dev), "routes", routes);
	return *answer ? 0 : bace_fail(e, ENOMEM, "routes: out of memory");
}
