#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "shaper/calc.h"
#include "shaper/netlink.h"
#include "shaper/shaper.h"
#include "shaper/tcobj.h"

#define NETEM_PRNG_SEED 14	/* TCA_NETEM_PRNG_SEED, Linux 6.7; newer than many headers */

static uint32_t saturated_ticks(int64_t ns)
{
	int64_t ticks = ns / CALC_TICK_NS;

	return ticks > UINT32_MAX ? UINT32_MAX : (uint32_t)ticks;
}

static void encode_loss(const struct netem *n, struct nlmsghdr *nlh)
{
	struct nlattr *nest;

	/* Leaving the attribute out puts the kernel back to random loss. */
	if (n->loss_model == LOSS_RANDOM)
		return;
	nest = mnl_attr_nest_start(nlh, TCA_NETEM_LOSS);
	if (n->loss_model == LOSS_GILBERT_ELLIOTT) {
		const struct tc_netem_gemodel m = {
			.p = n->loss_p[0], .r = n->loss_p[1], .h = n->loss_p[2], .k1 = n->loss_p[3] };

		mnl_attr_put(nlh, NETEM_LOSS_GE, sizeof(m), &m);
	} else {
		const struct tc_netem_gimodel m = {
			.p13 = n->loss_p[0], .p31 = n->loss_p[1], .p32 = n->loss_p[2],
			.p14 = n->loss_p[3], .p23 = n->loss_p[4] };

		mnl_attr_put(nlh, NETEM_LOSS_GI, sizeof(m), &m);
	}
	mnl_attr_nest_end(nlh, nest);
}

/* Every attribute every time: what a change leaves out would persist. */
static void encode(const struct tcobj *o, struct nlmsghdr *nlh)
{
	const struct netem *n = &o->u.netem;
	const struct tc_netem_qopt opt = {
		.latency = saturated_ticks(n->latency_ns), .limit = n->limit_pkts, .loss = n->loss,
		.gap = n->gap, .duplicate = n->duplicate, .jitter = saturated_ticks(n->jitter_ns) };
	const struct tc_netem_corr corr = {
		.delay_corr = n->delay_corr, .loss_corr = n->loss_corr, .dup_corr = n->duplicate_corr };
	const struct tc_netem_reorder reorder = { n->reorder, n->reorder_corr };
	const struct tc_netem_corrupt corrupt = { n->corrupt, n->corrupt_corr };
	const struct tc_netem_rate rate = {
		.rate = n->rate_bytes_ps >= UINT32_MAX ? UINT32_MAX : (uint32_t)n->rate_bytes_ps };
	/* Not a nest in the usual sense: attributes follow the struct. */
	struct nlattr *nest = mnl_attr_nest_start(nlh, TCA_OPTIONS);

	nest->nla_type = TCA_OPTIONS;
	memcpy(mnl_nlmsg_get_payload_tail(nlh), &opt, sizeof(opt));
	nlh->nlmsg_len += MNL_ALIGN(sizeof(opt));
	mnl_attr_put(nlh, TCA_NETEM_LATENCY64, sizeof(n->latency_ns), &n->latency_ns);
	mnl_attr_put(nlh, TCA_NETEM_JITTER64, sizeof(n->jitter_ns), &n->jitter_ns);
	mnl_attr_put(nlh, TCA_NETEM_CORR, sizeof(corr), &corr);
	mnl_attr_put(nlh, TCA_NETEM_REORDER, sizeof(reorder), &reorder);
	mnl_attr_put(nlh, TCA_NETEM_CORRUPT, sizeof(corrupt), &corrupt);
	mnl_attr_put(nlh, TCA_NETEM_RATE, sizeof(rate), &rate);
	mnl_attr_put_u64(nlh, TCA_NETEM_RATE64, n->rate_bytes_ps);
	mnl_attr_put_u32(nlh, TCA_NETEM_ECN, n->ecn);
	encode_loss(n, nlh);
	if (n->seed)
		mnl_attr_put_u64(nlh, NETEM_PRNG_SEED, n->seed);
	if (o->n_table)
		mnl_attr_put(nlh, TCA_NETEM_DELAY_DIST, (size_t)o->n_table * sizeof(*o->table), o->table);
	mnl_attr_nest_end(nlh, nest);
}

static int decode_loss(const struct nlattr *a, struct netem *n)
{
	const struct nlattr *tb[NETEM_LOSS_MAX + 1];
	const struct tc_netem_gemodel *ge;
	const struct tc_netem_gimodel *gi;

	if (attrs_parse(a, tb, NETEM_LOSS_MAX))
		return -EINVAL;
	if ((ge = attr_struct(tb[NETEM_LOSS_GE], sizeof(*ge)))) {
		n->loss_model = LOSS_GILBERT_ELLIOTT;
		memcpy(n->loss_p, (uint32_t[5]){ ge->p, ge->r, ge->h, ge->k1 }, sizeof(n->loss_p));
	} else if ((gi = attr_struct(tb[NETEM_LOSS_GI], sizeof(*gi)))) {
		n->loss_model = LOSS_4STATE;
		memcpy(n->loss_p, (uint32_t[5]){ gi->p13, gi->p31, gi->p32, gi->p14, gi->p23 },
		       sizeof(n->loss_p));
	}
	return 0;
}

static int decode_attrs(const struct nlattr *const *tb, struct netem *n)
{
	const struct tc_netem_corr *corr = attr_struct(tb[TCA_NETEM_CORR], sizeof(*corr));
	const struct tc_netem_reorder *reorder = attr_struct(tb[TCA_NETEM_REORDER], sizeof(*reorder));
	const struct tc_netem_corrupt *corrupt = attr_struct(tb[TCA_NETEM_CORRUPT], sizeof(*corrupt));
	const struct tc_netem_rate *rate = attr_struct(tb[TCA_NETEM_RATE], sizeof(*rate));

	if (corr) {
		n->delay_corr = corr->delay_corr;
		n->loss_corr = corr->loss_corr;
		n->duplicate_corr = corr->dup_corr;
	}
	if (reorder) {
		n->reorder = reorder->probability;
		n->reorder_corr = reorder->correlation;
	}
	if (corrupt) {
		n->corrupt = corrupt->probability;
		n->corrupt_corr = corrupt->correlation;
	}
	if (rate)
		n->rate_bytes_ps = rate->rate;
	if ((tb[TCA_NETEM_RATE64] && attr_u64(tb[TCA_NETEM_RATE64], &n->rate_bytes_ps)) ||
	    (tb[TCA_NETEM_LATENCY64] && attr_u64(tb[TCA_NETEM_LATENCY64], (uint64_t *)&n->latency_ns)) ||
	    (tb[TCA_NETEM_JITTER64] && attr_u64(tb[TCA_NETEM_JITTER64], (uint64_t *)&n->jitter_ns)) ||
	    (tb[TCA_NETEM_ECN] && attr_u32(tb[TCA_NETEM_ECN], &n->ecn)) ||
	    (tb[NETEM_PRNG_SEED] && attr_u64(tb[NETEM_PRNG_SEED], &n->seed)))
		return -EINVAL;
	return tb[TCA_NETEM_LOSS] ? decode_loss(tb[TCA_NETEM_LOSS], n) : 0;
}

static int decode(const struct nlattr *options, struct tcobj *o)
{
	const struct nlattr *tb[NETEM_PRNG_SEED + 1];
	const struct tc_netem_qopt *opt = attr_struct(options, sizeof(*opt));
	struct netem *n = &o->u.netem;

	if (!opt || attrs_parse_at(options, MNL_ALIGN(sizeof(*opt)), tb, NETEM_PRNG_SEED))
		return -EINVAL;
	n->latency_ns = (int64_t)opt->latency * CALC_TICK_NS;
	n->jitter_ns = (int64_t)opt->jitter * CALC_TICK_NS;
	n->limit_pkts = opt->limit;
	n->loss = opt->loss;
	n->gap = opt->gap;
	n->duplicate = opt->duplicate;
	return decode_attrs(tb, n);
}

static double percent(uint32_t p)
{
	return 100.0 * p / UINT32_MAX;
}

static int print_loss(const struct netem *n, struct bace_buf *b)
{
	if (n->loss_model == LOSS_GILBERT_ELLIOTT)
		return bace_buf_addf(b, " loss gemodel %.7g%% %.7g%% %.7g%% %.7g%%", percent(n->loss_p[0]),
				     percent(n->loss_p[1]), 100 - percent(n->loss_p[2]),
				     percent(n->loss_p[3]));
	if (n->loss_model == LOSS_4STATE)
		return bace_buf_addf(b, " loss state %.7g%% %.7g%% %.7g%% %.7g%% %.7g%%",
				     percent(n->loss_p[0]), percent(n->loss_p[1]), percent(n->loss_p[2]),
				     percent(n->loss_p[4]), percent(n->loss_p[3]));
	if (n->loss)
		return bace_buf_addf(b, " loss %.7g%% %.7g%%", percent(n->loss), percent(n->loss_corr));
	return 0;
}

static int print(const struct tcobj *o, struct bace_buf *b)
{
	const struct netem *n = &o->u.netem;
	/* tc reads "ns" nowhere, but fractions of a microsecond. */
	int rc = bace_buf_addf(b, " limit %u delay %.3fus", n->limit_pkts, (double)n->latency_ns / 1e3);

	if (!rc && n->jitter_ns)
		rc = bace_buf_addf(b, " %.3fus %.7g%%%s%s", (double)n->jitter_ns / 1e3, percent(n->delay_corr),
				   o->table_name ? " distribution " : "", o->table_name ? o->table_name : "");
	if (!rc)
		rc = print_loss(n, b);
	if (!rc && n->duplicate)
		rc = bace_buf_addf(b, " duplicate %.7g%% %.7g%%", percent(n->duplicate),
				   percent(n->duplicate_corr));
	if (!rc && n->reorder)
		rc = bace_buf_addf(b, " reorder %.7g%% %.7g%% gap %u", percent(n->reorder),
				   percent(n->reorder_corr), n->gap);
	if (!rc && n->corrupt)
		rc = bace_buf_addf(b, " corrupt %.7g%% %.7g%%", percent(n->corrupt), percent(n->corrupt_corr));
	if (!rc && n->rate_bytes_ps)
		rc = bace_buf_addf(b, " rate %llubit", 8ULL * n->rate_bytes_ps);
	if (!rc && n->ecn)
		rc = bace_buf_addf(b, " ecn");
	if (!rc && n->seed)
		rc = bace_buf_addf(b, " seed %llu", (unsigned long long)n->seed);
	return rc;
}

const struct tckind kind_netem = {
	.name = "netem", .type = TCOBJ_QDISC, .can_change = true,
	.encode = encode, .decode = decode, .print = print,
};
