#include "shaper/inspect.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/calc.h"
#include "shaper/delay/nfqueue.h"
#include "shaper/stats.h"

#define DESTINATION_V4 16
#define DESTINATION_V6 24

void shape_seen_free(struct shape_seen *s)
{
	for (size_t i = 0; i < s->n; i++) {
		for (size_t k = 0; k < s->v[i].n; k++)
			free(s->v[i].v[k].prefixes);
		free(s->v[i].v);
	}
	free(s->v);
	*s = (struct shape_seen){ 0 };
}

static bool is_region_minor(uint32_t handle)
{
	return TC_H_MAJ(handle) >> 16 == SHAPE_HANDLE_MAJOR && TC_H_MIN(handle) >= SHAPE_MINOR_BASE;
}

static struct shape_seen_class *class_of(struct shape_seen_if *i, uint32_t handle)
{
	size_t lo = 0, hi = i->n;
	uint32_t region = TC_H_MIN(handle) - SHAPE_MINOR_BASE;

	if (!is_region_minor(handle))
		return NULL;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (i->v[mid].region < region)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < i->n && i->v[lo].region == region ? &i->v[lo] : NULL;
}

/* ---- filters back to prefixes ---- */
static unsigned mask_bits(uint32_t mask_net)
{
	uint32_t mask = ntohl(mask_net);
	unsigned n = 0;

	while (mask & 0x80000000u) {
		mask <<= 1;
		n++;
	}
	return n;
}

/* False: not a match of an address from its first bit on. */
static bool prefix_of(const struct tcobj *o, struct shape_prefix *p, bool *by_source)
{
	const struct u32_filter *f = &o->u.u32;
	bool v6 = o->protocol == ETH_P_IPV6;
	int32_t first = f->n_keys ? f->keys[0].off : -1;

	*p = (struct shape_prefix){ .family = v6 ? AF_INET6 : AF_INET };
	if (f->n_keys > (v6 ? 4u : 1u) || (first != (v6 ? 8 : 12) && first != (v6 ? DESTINATION_V6 : DESTINATION_V4)))
		return false;
	*by_source = first < DESTINATION_V4;
	for (uint32_t k = 0; k < f->n_keys; k++) {
		if (f->keys[k].off != first + 4 * (int32_t)k)
			return false;
		memcpy(p->addr + 4 * k, &f->keys[k].val, 4);
		p->len = (uint8_t)(p->len + mask_bits(f->keys[k].mask));
	}
	return true;
}

static int add_prefix(struct shape_seen_class *c, const struct shape_prefix *p)
{
	struct shape_prefix *v;

	/* A short prefix stands in several buckets of a table. */
	for (int i = 0; i < c->n_prefixes; i++)
		if (!shape_prefix_cmp(&c->prefixes[i], p))
			return 0;
	if (c->n_prefixes == c->cap_prefixes) {
		int cap = c->cap_prefixes ? 2 * c->cap_prefixes : 4;

		v = realloc(c->prefixes, (size_t)cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		c->prefixes = v;
		c->cap_prefixes = cap;
	}
	c->prefixes[c->n_prefixes++] = *p;
	return 0;
}

/* ---- an interface ---- */
static int by_region(const void *a, const void *b)
{
	const struct shape_seen_class *x = a, *y = b;

	return (int)x->region - (int)y->region;
}

static int take_classes(const struct if_state *s, struct shape_seen_if *i)
{
	for (size_t k = 0; k < s->n; k++) {
		const struct tcobj *o = &s->v[k];
		struct shape_seen_class c = { 0 };

		if (o->type != TCOBJ_CLASS || o->kind != &kind_htb_class || !is_region_minor(o->handle))
			continue;
		c.region = (uint16_t)(TC_H_MIN(o->handle) - SHAPE_MINOR_BASE);
		c.rate_bps = 8 * o->u.htb_class.rate_bytes_ps;
		if (c.rate_bps == CALC_UNSHAPED_BPS)
			c.rate_bps = 0;
		if (BACE_PUSH(i->v, i->n, i->cap, c))
			return -ENOMEM;
	}
	if (i->n)
		qsort(i->v, i->n, sizeof(*i->v), by_region);
	return 0;
}

static int take_leaves_and_filters(const struct if_state *s, struct shape_seen_if *i)
{
	for (size_t k = 0; k < s->n; k++) {
		const struct tcobj *o = &s->v[k];
		bool filter = o->type == TCOBJ_FILTER && o->kind == &kind_u32;
		struct shape_seen_class *c = class_of(i, filter ? o->u.u32.classid : o->parent);
		struct shape_prefix p;
		bool by_source;

		if (!c || o->type == TCOBJ_CLASS)
			continue;
		if (o->kind == &kind_bfifo) {
			c->buffer_bytes = o->u.fifo.limit;
		} else if (o->kind == &kind_netem) {
			c->netem = true;
			c->latency_ns = o->u.netem.latency_ns;
			c->jitter_ns = o->u.netem.jitter_ns;
			c->loss = (double)o->u.netem.loss / UINT32_MAX;
		} else if (filter && prefix_of(o, &p, &by_source)) {
			c->by_source = by_source;
			if (add_prefix(c, &p))
				return -ENOMEM;
		}
	}
	return 0;
}

struct counting {
	int ifindex;
	struct shape_seen_if *i;
	uint64_t *netem_drops;	/* by class */
};

/* Sets and adds nothing, since a dump may begin again. */
static int on_counters(const struct nlmsghdr *nlh, void *arg)
{
	const struct counting *to = arg;
	struct stats_counters n;
	struct shape_seen_class *c;
	struct tcobj o;
	int rc = kernel_parse_tc(nlh, to->ifindex, &o);

	if (rc)
		return rc < 0 ? rc : 0;
	c = class_of(to->i, o.type == TCOBJ_QDISC ? o.parent : o.handle);
	if (!c || (o.type == TCOBJ_QDISC && o.kind != &kind_netem))
		return 0;
	rc = stats_parse(nlh, &n);
	if (rc)
		return rc;
	if (o.type == TCOBJ_QDISC) {
		to->netem_drops[c - to->i->v] = n.drops;
		return 0;
	}
	c->bytes = n.bytes;
	c->packets = n.packets;
	c->backlog_bytes = n.backlog;
	c->drops = n.drops;
	return 0;
}

static int count(struct netlink *nl, int ifindex, struct shape_seen_if *i, struct bace_err *e)
{
	CLEANUP_FREE uint64_t *netem_drops = calloc(i->n + 1, sizeof(*netem_drops));
	struct counting to = { .ifindex = ifindex, .i = i, .netem_drops = netem_drops };
	int rc;

	if (!netem_drops)
		return bace_fail(e, ENOMEM, "out of memory");
	rc = kernel_dump_tc(nl, RTM_GETTCLASS, ifindex, 0, on_counters, NULL, &to, e);
	if (!rc)
		rc = kernel_dump_tc(nl, RTM_GETQDISC, ifindex, 0, on_counters, NULL, &to, e);
	for (size_t k = 0; k < i->n; k++)
		i->v[k].drops += netem_drops[k];
	return rc;
}

static int inspect_one(struct netlink *nl, const char *ifname, struct shape_seen *out, struct bace_err *e)
{
	struct shape_seen_if i = { 0 };
	struct if_state s = { 0 };
	struct if_info info;
	int rc = kernel_if_info(nl, ifname, &info, e);

	if (!rc)
		rc = kernel_observe(nl, &info, &s, e);
	if (rc || !if_state_is_ours(&s)) {
		if_state_free(&s);
		return rc == -ENODEV ? 0 : rc;
	}
	snprintf(i.ifname, sizeof(i.ifname), "%s", ifname);
	if (take_classes(&s, &i) || take_leaves_and_filters(&s, &i) || BACE_PUSH(out->v, out->n, out->cap, i)) {
		for (size_t k = 0; k < i.n; k++)
			free(i.v[k].prefixes);
		free(i.v);
		if_state_free(&s);
		return bace_fail(e, ENOMEM, "out of memory");
	}
	if_state_free(&s);
	return count(nl, info.ifindex, &out->v[out->n - 1], e);
}

int shape_inspect(struct shape_seen *out, struct bace_err *e)
{
	struct if_nameindex *all = if_nameindex();
	struct netlink nl;
	int rc = netlink_open(&nl, NETLINK_ROUTE, e);

	*out = (struct shape_seen){ 0 };
	if (!rc) {
		for (struct if_nameindex *i = all; i && i->if_index && !rc; i++)
			rc = inspect_one(&nl, i->if_name, out, e);
		netlink_close(&nl);
	}
	if_freenameindex(all);
	out->queue_bound = !nfqueue_read_drops(&out->queue_drops, &out->user_drops);
	if (rc)
		shape_seen_free(out);
	return rc;
}
