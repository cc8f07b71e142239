/* What a spec means: computed values, tc commands, differences. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/pkt_sched.h>
#include <string.h>

#include "shaper/calc.h"
#include "shaper/delay/nfqueue.h"
#include "shaper/delay/rules.h"
#include "shaper/guard.h"
#include "shaper/inspect.h"

void shape_compute(const struct shape_spec *s, const struct shape_link *l, struct shape_computed *out)
{
	*out = (struct shape_computed){ 0 };
	if (l->rate_bps) {
		out->burst_bytes = calc_burst_bytes(l->rate_bps, s->mtu);
		out->quantum_bytes = calc_quantum_bytes(out->burst_bytes, s->mtu);
		out->buffer_bytes = plan_buffer_bytes(s, l);
	}
	if (plan_link_is_delayed(l))
		out->delay_limit_pkts = plan_delay_limit_pkts(l);
}

uint64_t shape_buffer_wanted(const struct shape_spec *s, const struct shape_link *l)
{
	struct shape_link without = *l;
	struct shape_computed c;

	without.buffer_bytes = 0;
	shape_compute(s, &without, &c);
	return c.buffer_bytes;
}

int shape_check(const struct shape_spec *s, struct bace_err *e)
{
	struct shape_plan p;
	int rc = plan_build(s, &p, e);

	if (rc)
		return rc;
	plan_free(&p);
	return spec_check_backend(s, e);
}

/* ---- interfaces ---- */
static int check_one(struct netlink *nl, const char *ifname, struct bace_err *e)
{
	struct if_info i;
	int rc = kernel_if_info(nl, ifname, &i, e);

	return rc ? rc : guard_check_usable(&i, e);
}

int shape_check_interfaces(const struct shape_spec *s, struct bace_err *e)
{
	struct netlink nl;
	int rc = netlink_open(&nl, NETLINK_ROUTE, e);

	if (rc)
		return rc;
	rc = check_one(&nl, s->egress, e);
	if (!rc && s->ingress[0] && strcmp(s->ingress, s->egress))
		rc = check_one(&nl, s->ingress, e);
	netlink_close(&nl);
	return rc;
}

int shape_carries(const struct shape_spec *s, const char *addr, struct bace_err *e)
{
	char name[IFNAMSIZ] = "";
	struct netlink nl;
	int ifindex = 0, rc = netlink_open(&nl, NETLINK_ROUTE, e);

	if (rc)
		return rc;
	rc = guard_route_interface(&nl, addr, &ifindex, e);
	netlink_close(&nl);
	if (rc || !ifindex || !if_indextoname((unsigned)ifindex, name))
		return rc;
	return !strcmp(name, s->egress) || !strcmp(name, s->ingress);
}

/* The first host of the prefix: its bare address may be a broadcast address. */
static void host_of(const struct shape_prefix *p, char text[INET6_ADDRSTRLEN])
{
	size_t n = p->family == AF_INET ? 4 : 16;
	uint8_t addr[16];

	memcpy(addr, p->addr, sizeof(addr));
	if (p->len < 8 * n)
		addr[n - 1] |= 1;
	inet_ntop(p->family, addr, text, INET6_ADDRSTRLEN);
}

static void look_up(struct netlink *nl, int egress, const struct shape_link *l, const struct shape_prefix *p, struct shape_stray *out)
{
	char addr[INET6_ADDRSTRLEN], name[IFNAMSIZ];
	int way = 0;

	host_of(p, addr);
	/* Where there is no way nothing goes unshaped. */
	if (guard_route_interface(nl, addr, &way, NULL) || !way || way == egress || !if_indextoname((unsigned)way, name))
		return;
	if (out->n++)
		return;
	memcpy(out->name, l->name, sizeof(out->name));
	memcpy(out->ifname, name, sizeof(out->ifname));
	out->prefix = *p;
}

int shape_find_stray(const struct shape_spec *s, struct shape_stray *out, struct bace_err *e)
{
	int egress = (int)if_nametoindex(s->egress), rc;
	struct netlink nl;

	*out = (struct shape_stray){ 0 };
	if (!egress)
		return 0;
	rc = netlink_open(&nl, NETLINK_ROUTE, e);
	if (rc)
		return rc;
	for (int i = 0; i < s->n_links; i++)
		for (int k = 0; k < s->links[i].n_prefixes && s->links[i].rate_bps; k++)
			look_up(&nl, egress, &s->links[i], &s->links[i].prefixes[k], out);
	netlink_close(&nl);
	return 0;
}

/* ---- tc commands ---- */
static int render_side(const struct if_state *s, struct bace_buf *out)
{
	int rc = 0;

	for (size_t i = 0; i < s->n && !rc; i++) {
		bool root = s->v[i].parent == TC_H_ROOT;

		rc = bace_buf_addf(out, "tc ");
		if (!rc)
			rc = tcobj_print(&s->v[i], root ? "replace" : "add", s->ifname, out);
		if (!rc)
			rc = bace_buf_addf(out, "\n");
	}
	return rc;
}

static int render_line(const struct shape_spec *s, struct bace_buf *out)
{
	char time[BACE_FMT_MAX];
	int rc = bace_buf_addf(out, "# Delay and loss of what comes in are bace-shaperd's, behind an NFQUEUE rule in\n"
			       "# mangle PREROUTING of %s: no tc command can say it.\n", s->egress);

	for (int i = 0; i < s->n_links && !rc; i++)
		if (plan_link_is_delayed(&s->links[i]))
			rc = bace_buf_addf(out, "#   from %s: %s one way\n", s->links[i].name,
					   bace_fmt_time(time, (double)s->links[i].latency_ns / 1e9));
	return rc;
}

int shape_render_tc(const struct shape_spec *s, struct bace_buf *out, struct bace_err *e)
{
	struct shape_plan p;
	int rc = shape_check(s, e);

	if (!rc)
		rc = plan_build(s, &p, e);
	if (rc)
		return rc;
	rc = render_side(&p.egress, out);
	if (!rc)
		rc = render_side(&p.ingress, out);
	plan_free(&p);
	if (!rc && s->gso_max_bytes)
		rc = bace_buf_addf(out, "ip link set dev %s gso_max_size %u\n", s->egress, s->gso_max_bytes);
	if (!rc && s->delay == DELAY_NFQUEUE && plan_delays(s))
		rc = render_line(s, out);
	return rc ? bace_fail(e, -rc, "out of memory") : 0;
}

/* ---- differences ---- */
static const char *link_name(const struct shape_spec *s, const struct tcobj *o)
{
	uint32_t handle = o->type == TCOBJ_FILTER ? o->u.u32.classid
			  : o->type == TCOBJ_CLASS ? o->handle : o->parent;

	for (int i = 0; i < s->n_links; i++)
		if (TC_H_MIN(handle) == SHAPE_MINOR_BASE + (uint32_t)s->links[i].region)
			return s->links[i].name;
	return s->egress;
}

static int diff_side(struct netlink *nl, const struct shape_spec *s, const struct if_state *want,
		     struct bace_buf *out, size_t *n, struct bace_err *e)
{
	struct plan_steps steps = { 0 };
	struct if_state now = { 0 };
	struct if_info info;
	int rc = 0;

	if (!want->ifname[0])
		return 0;
	rc = kernel_if_info(nl, want->ifname, &info, e);
	if (!rc)
		rc = kernel_observe(nl, &info, &now, e);
	if (rc)
		return rc;
	rc = plan_diff(want, &now, &steps);
	for (size_t i = 0; i < steps.n && !rc; i++) {
		rc = bace_buf_addf(out, "%s: tc ", link_name(s, steps.v[i].o));
		if (!rc)
			rc = plan_step_print(&steps.v[i], want->ifname, out);
		if (!rc)
			rc = bace_buf_addf(out, "\n");
	}
	*n += steps.n;
	plan_steps_free(&steps);
	if_state_free(&now);
	return rc ? bace_fail(e, -rc, "compare tc state of `%s'", want->ifname) : 0;
}

static int diff_gso(struct netlink *nl, const struct shape_spec *s, struct bace_buf *out, size_t *n, struct bace_err *e)
{
	struct if_info info;
	int rc;

	if (!s->gso_max_bytes)
		return 0;
	rc = kernel_if_info(nl, s->egress, &info, e);
	if (rc || info.gso_max_bytes == s->gso_max_bytes)
		return rc;
	++*n;
	return bace_buf_addf(out, "%s: ip link set dev %s gso_max_size %u (it is %u)\n", s->egress, s->egress,
			     s->gso_max_bytes, info.gso_max_bytes);
}

int shape_diff(const struct shape_spec *s, struct bace_buf *out, size_t *n, struct bace_err *e)
{
	uint64_t queue_drops, user_drops;
	struct shape_plan p;
	struct netlink nl;
	int rc = shape_check(s, e);

	*n = 0;
	if (!rc)
		rc = plan_build(s, &p, e);
	if (rc)
		return rc;
	rc = netlink_open(&nl, NETLINK_ROUTE, e);
	if (!rc) {
		rc = diff_side(&nl, s, &p.egress, out, n, e);
		if (!rc && strcmp(p.ingress.ifname, p.egress.ifname))
			rc = diff_side(&nl, s, &p.ingress, out, n, e);
		if (!rc)
			rc = diff_gso(&nl, s, out, n, e);
		netlink_close(&nl);
	}
	plan_free(&p);
	if (!rc && s->delay == DELAY_NFQUEUE && plan_delays(s) && nfqueue_read_drops(&queue_drops, &user_drops)) {
		++*n;
		rc = bace_buf_addf(out, "%s: no delay line reads NFQUEUE %u: what comes in is not delayed\n", s->egress,
				   NFQUEUE_NUMBER);
	}
	return rc;
}
