#include "shaper/plan.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_sched.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/calc.h"
#include "shaper/jitter.h"

#define ROOT ((uint32_t)SHAPE_HANDLE_MAJOR << 16)
#define DIRECT_QLEN_PKTS 1000
#define DEFAULT_LEAF_PKTS 10000
#define QUEUE_LIMIT_MIN 60000
#define UNKNOWN_RATE_BPS (CALC_UNSHAPED_BPS / 10)	/* of what comes in, for queues that must not drop */
/* A rate that never limits, in netem: with one, packets leave in the order in
 * which they came, whatever the jitter, and also when the latency falls. */
#define NETEM_ORDER_BYTES_PS (CALC_RATE_MAX_BPS / 8)

static uint32_t minor_of(const struct shape_link *l)
{
	return SHAPE_MINOR_BASE + l->region;
}

bool plan_link_is_delayed(const struct shape_link *l)
{
	const struct shape_impair *x = &l->impair;

	return l->latency_ns || l->jitter_ns || l->loss > 0 || x->loss_model != LOSS_RANDOM ||
	       x->duplicate > 0 || x->corrupt > 0 || x->reorder > 0;
}

uint64_t plan_buffer_bytes(const struct shape_spec *s, const struct shape_link *l)
{
	if (l->buffer_bytes)
		return l->buffer_bytes;
	return calc_buffer_bytes(l->rate_bps, l->rtt_ns, l->message_bytes, s->gso_max_bytes, s->mtu);
}

uint32_t plan_delay_limit_pkts(const struct shape_link *l)
{
	uint64_t rate = l->reverse_rate_bps ? l->reverse_rate_bps : UNKNOWN_RATE_BPS;

	return calc_delay_limit_pkts(rate, l->latency_ns + 4 * l->jitter_ns);
}

bool plan_delays(const struct shape_spec *s)
{
	for (int i = 0; i < s->n_links; i++)
		if (plan_link_is_delayed(&s->links[i]))
			return true;
	return false;
}

static struct tcobj object(enum tcobj_type type, const struct tckind *kind, uint32_t parent, uint32_t handle)
{
	struct tcobj o;

	/* Padding too: objects are compared as bytes. */
	memset(&o, 0, sizeof(o));
	o.type = type;
	o.parent = parent;
	o.handle = handle;
	o.kind = kind;
	snprintf(o.kind_name, sizeof(o.kind_name), "%s", kind->name);
	return o;
}

static struct tcobj class_object(uint32_t minor, uint64_t rate_bps, unsigned mtu)
{
	struct tcobj o = object(TCOBJ_CLASS, &kind_htb_class, ROOT, ROOT | minor);
	struct htb_class *c = &o.u.htb_class;
	uint64_t burst = calc_burst_bytes(rate_bps, mtu);

	c->rate_bytes_ps = c->ceil_bytes_ps = rate_bps / 8;
	c->burst_ticks = c->cburst_ticks = calc_bytes_ticks(burst, c->rate_bytes_ps);
	c->quantum_bytes = calc_quantum_bytes(burst, mtu);
	return o;
}

static int add_class(struct if_state *to, uint32_t minor, uint64_t rate_bps, unsigned mtu)
{
	const struct tcobj o = class_object(minor, rate_bps, mtu);

	return if_state_add(to, &o);
}

struct tcobj plan_link_class(const struct shape_spec *s, const struct shape_link *l)
{
	return class_object(minor_of(l), l->rate_bps, s->mtu);
}

static int add_fifo(struct if_state *to, const struct tckind *kind, uint32_t minor, uint32_t limit)
{
	struct tcobj o = object(TCOBJ_QDISC, kind, ROOT | minor, minor << 16);

	o.u.fifo.limit = limit;
	return if_state_add(to, &o);
}

/* Root and default class; everything that no filter claims stays unshaped. */
static int add_root(struct if_state *to, unsigned mtu)
{
	struct tcobj o = object(TCOBJ_QDISC, &kind_htb_root, TC_H_ROOT, ROOT);
	int rc;

	o.u.htb_root.default_minor = SHAPE_MINOR_DEFAULT;
	o.u.htb_root.direct_qlen_pkts = DIRECT_QLEN_PKTS;
	rc = if_state_add(to, &o);
	if (!rc)
		rc = add_class(to, SHAPE_MINOR_DEFAULT, CALC_UNSHAPED_BPS, mtu);
	return rc ? rc : add_fifo(to, &kind_pfifo, SHAPE_MINOR_DEFAULT, DEFAULT_LEAF_PKTS);
}

static uint32_t fraction(double p)
{
	return (uint32_t)llround(p * UINT32_MAX);
}

static void set_impair(const struct shape_link *l, struct netem *n)
{
	const struct shape_impair *x = &l->impair;

	n->loss = x->loss_model == LOSS_RANDOM ? fraction(l->loss) : 0;
	n->loss_corr = fraction(x->loss_corr);
	n->delay_corr = fraction(x->jitter_corr);
	n->loss_model = x->loss_model;
	if (x->loss_model != LOSS_RANDOM)
		for (size_t i = 0; i < ARRAY_LEN(n->loss_p); i++)
			n->loss_p[i] = fraction(x->loss_p[i]);
	/* The kernel keeps h itself where people say 1-h. */
	if (x->loss_model == LOSS_GILBERT_ELLIOTT)
		n->loss_p[2] = fraction(1 - x->loss_p[2]);
	n->duplicate = fraction(x->duplicate);
	n->duplicate_corr = fraction(x->duplicate_corr);
	n->corrupt = fraction(x->corrupt);
	n->corrupt_corr = fraction(x->corrupt_corr);
	n->reorder = fraction(x->reorder);
	n->reorder_corr = fraction(x->reorder_corr);
	if (n->reorder)
		n->gap = x->reorder_gap ? x->reorder_gap : 1;
	n->ecn = x->ecn;
	n->seed = x->seed;
}

struct tcobj plan_link_netem(const struct shape_spec *s, const struct shape_link *l)
{
	struct tcobj o = object(TCOBJ_QDISC, &kind_netem, ROOT | minor_of(l), minor_of(l) << 16);
	struct netem *n = &o.u.netem;

	n->latency_ns = l->latency_ns;
	n->jitter_ns = l->jitter_ns;
	n->limit_pkts = plan_delay_limit_pkts(l);
	set_impair(l, n);
	if (!n->reorder)
		n->rate_bytes_ps = NETEM_ORDER_BYTES_PS;
	o.table = jitter_of_link(s, l, &o.n_table);
	o.table_name = jitter_tc_name(s, l);
	return o;
}

static int add_netem(struct if_state *to, const struct shape_spec *s, const struct shape_link *l)
{
	const struct tcobj o = plan_link_netem(s, l);

	return if_state_add(to, &o);
}

static int build_egress(const struct shape_spec *s, struct if_state *to, struct bace_err *e)
{
	int rc = add_root(to, s->mtu);

	for (int i = 0; i < s->n_links && !rc; i++) {
		const struct shape_link *l = &s->links[i];

		if (!l->rate_bps)
			continue;
		rc = add_class(to, minor_of(l), l->rate_bps, s->mtu);
		if (!rc)
			rc = add_fifo(to, &kind_bfifo, minor_of(l), (uint32_t)plan_buffer_bytes(s, l));
	}
	if (rc)
		return bace_fail(e, -rc, "out of memory");
	return plan_add_filters(s, PLAN_BY_DESTINATION, to, e);
}

static int build_ingress(const struct shape_spec *s, struct if_state *to, struct bace_err *e)
{
	int rc = add_root(to, s->mtu);

	for (int i = 0; i < s->n_links && !rc; i++) {
		const struct shape_link *l = &s->links[i];

		if (!plan_link_is_delayed(l))
			continue;
		rc = add_class(to, minor_of(l), CALC_UNSHAPED_BPS, s->mtu);
		if (!rc)
			rc = add_netem(to, s, l);
	}
	if (rc)
		return bace_fail(e, -rc, "out of memory");
	return plan_add_filters(s, PLAN_BY_SOURCE, to, e);
}

uint32_t plan_queue_limit(const struct shape_spec *s)
{
	uint64_t sum = QUEUE_LIMIT_MIN;

	for (int i = 0; i < s->n_links; i++)
		if (plan_link_is_delayed(&s->links[i]))
			sum += plan_delay_limit_pkts(&s->links[i]);
	return sum > INT32_MAX ? INT32_MAX : (uint32_t)sum;
}

int plan_build(const struct shape_spec *s, struct shape_plan *out, struct bace_err *e)
{
	struct bace_err scratch;
	bool any_rate = false, any_delay;
	int rc;

	e = e ? e : &scratch;
	*out = (struct shape_plan){ 0 };
	rc = spec_check(s, e);
	if (rc)
		return rc;
	any_delay = plan_delays(s);
	for (int i = 0; i < s->n_links; i++)
		any_rate |= s->links[i].rate_bps > 0;
	if (any_delay && s->delay == DELAY_NETEM && !strcmp(s->egress, s->ingress))
		return bace_fail(e, EINVAL, "netem delays what leaves an interface: `%s' cannot be both the egress and the inner interface", s->egress);
	if (any_delay && s->delay == DELAY_NETEM && !s->ingress[0])
		return bace_fail(e, EINVAL, "netem needs the interface towards this region's hosts");
	snprintf(out->egress.ifname, IFNAMSIZ, "%s", s->egress);
	/* One interface for both has one plan: an empty second one would undo the first. */
	if (strcmp(s->egress, s->ingress))
		snprintf(out->ingress.ifname, IFNAMSIZ, "%s", s->ingress);
	out->queue_limit_pkts = plan_queue_limit(s);
	if (any_rate)
		rc = build_egress(s, &out->egress, e);
	if (!rc && any_delay && s->delay == DELAY_NETEM)
		rc = build_ingress(s, &out->ingress, e);
	if (rc)
		plan_free(out);
	return rc;
}

void plan_free(struct shape_plan *p)
{
	if_state_free(&p->egress);
	if_state_free(&p->ingress);
}
