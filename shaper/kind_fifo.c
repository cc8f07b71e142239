#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "shaper/netlink.h"
#include "shaper/tcobj.h"

static void encode(const struct tcobj *o, struct nlmsghdr *nlh)
{
	const struct tc_fifo_qopt opt = { .limit = o->u.fifo.limit };

	mnl_attr_put(nlh, TCA_OPTIONS, sizeof(opt), &opt);
}

static int decode(const struct nlattr *options, struct tcobj *o)
{
	const struct tc_fifo_qopt *opt = attr_struct(options, sizeof(*opt));

	if (!opt)
		return -EINVAL;
	o->u.fifo.limit = opt->limit;
	return 0;
}

static int print_bytes(const struct tcobj *o, struct bace_buf *b)
{
	return bace_buf_addf(b, " limit %ub", o->u.fifo.limit);
}

static int print_packets(const struct tcobj *o, struct bace_buf *b)
{
	return bace_buf_addf(b, " limit %u", o->u.fifo.limit);
}

const struct tckind kind_bfifo = {
	.name = "bfifo", .type = TCOBJ_QDISC, .can_change = true,
	.encode = encode, .decode = decode, .print = print_bytes,
};

const struct tckind kind_pfifo = {
	.name = "pfifo", .type = TCOBJ_QDISC, .can_change = true,
	.encode = encode, .decode = decode, .print = print_packets,
};
