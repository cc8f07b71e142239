#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "shaper/calc.h"
#include "shaper/netlink.h"
#include "shaper/tcobj.h"

#define R2Q_UNUSED 10	/* every class sets its own quantum */

static void encode_root(const struct tcobj *o, struct nlmsghdr *nlh)
{
	const struct tc_htb_glob init = {
		.version = HTB_VERSION, .rate2quantum = R2Q_UNUSED, .defcls = o->u.htb_root.default_minor };
	struct nlattr *nest = mnl_attr_nest_start(nlh, TCA_OPTIONS);

	mnl_attr_put(nlh, TCA_HTB_INIT, sizeof(init), &init);
	mnl_attr_put_u32(nlh, TCA_HTB_DIRECT_QLEN, o->u.htb_root.direct_qlen_pkts);
	mnl_attr_nest_end(nlh, nest);
}

static int decode_root(const struct nlattr *options, struct tcobj *o)
{
	const struct nlattr *tb[TCA_HTB_MAX + 1];
	const struct tc_htb_glob *init;

	if (attrs_parse(options, tb, TCA_HTB_MAX) || !(init = attr_struct(tb[TCA_HTB_INIT], sizeof(*init))))
		return -EINVAL;
	o->u.htb_root.default_minor = init->defcls;
	if (tb[TCA_HTB_DIRECT_QLEN] && attr_u32(tb[TCA_HTB_DIRECT_QLEN], &o->u.htb_root.direct_qlen_pkts))
		return -EINVAL;
	return 0;
}

static int print_root(const struct tcobj *o, struct bace_buf *b)
{
	return bace_buf_addf(b, " default 0x%x direct_qlen %u", o->u.htb_root.default_minor,
			     o->u.htb_root.direct_qlen_pkts);
}

const struct tckind kind_htb_root = {
	.name = "htb", .type = TCOBJ_QDISC, .can_change = false,
	.encode = encode_root, .decode = decode_root, .print = print_root,
};

/* The 32-bit field saturates; the 64-bit attribute carries the rest. */
static uint32_t low_rate(uint64_t bytes_ps)
{
	return bytes_ps >= UINT32_MAX ? UINT32_MAX : (uint32_t)bytes_ps;
}

static void encode_class(const struct tcobj *o, struct nlmsghdr *nlh)
{
	const struct htb_class *c = &o->u.htb_class;
	/* A named link layer keeps the kernel from asking for a rate table. */
	const struct tc_htb_opt opt = {
		.rate = { .rate = low_rate(c->rate_bytes_ps), .linklayer = TC_LINKLAYER_ETHERNET },
		.ceil = { .rate = low_rate(c->ceil_bytes_ps), .linklayer = TC_LINKLAYER_ETHERNET },
		.buffer = c->burst_ticks, .cbuffer = c->cburst_ticks,
		.quantum = c->quantum_bytes, .prio = c->prio };
	struct nlattr *nest = mnl_attr_nest_start(nlh, TCA_OPTIONS);

	mnl_attr_put(nlh, TCA_HTB_PARMS, sizeof(opt), &opt);
	mnl_attr_put_u64(nlh, TCA_HTB_RATE64, c->rate_bytes_ps);
	mnl_attr_put_u64(nlh, TCA_HTB_CEIL64, c->ceil_bytes_ps);
	mnl_attr_nest_end(nlh, nest);
}

static int decode_class(const struct nlattr *options, struct tcobj *o)
{
	const struct nlattr *tb[TCA_HTB_MAX + 1];
	const struct tc_htb_opt *opt;
	struct htb_class *c = &o->u.htb_class;

	if (attrs_parse(options, tb, TCA_HTB_MAX) || !(opt = attr_struct(tb[TCA_HTB_PARMS], sizeof(*opt))))
		return -EINVAL;
	c->rate_bytes_ps = opt->rate.rate;
	c->ceil_bytes_ps = opt->ceil.rate;
	if (tb[TCA_HTB_RATE64] && attr_u64(tb[TCA_HTB_RATE64], &c->rate_bytes_ps))
		return -EINVAL;
	if (tb[TCA_HTB_CEIL64] && attr_u64(tb[TCA_HTB_CEIL64], &c->ceil_bytes_ps))
		return -EINVAL;
	c->burst_ticks = opt->buffer;
	c->cburst_ticks = opt->cbuffer;
	c->quantum_bytes = opt->quantum;
	c->prio = opt->prio;
	return 0;
}

static int print_class(const struct tcobj *o, struct bace_buf *b)
{
	const struct htb_class *c = &o->u.htb_class;

	return bace_buf_addf(b, " rate %llubit ceil %llubit burst %llub cburst %llub quantum %u",
			     8ULL * c->rate_bytes_ps, 8ULL * c->ceil_bytes_ps,
			     (unsigned long long)calc_ticks_bytes(c->burst_ticks, c->rate_bytes_ps),
			     (unsigned long long)calc_ticks_bytes(c->cburst_ticks, c->ceil_bytes_ps),
			     c->quantum_bytes);
}

const struct tckind kind_htb_class = {
	.name = "htb", .type = TCOBJ_CLASS, .can_change = true,
	.encode = encode_class, .decode = decode_class, .print = print_class,
};
