#include "shaper/stats.h"

#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/delay/line.h"

struct reader {
	int ifindex;
	bool delay_side;
	const int32_t *slot_of_minor;	/* minor - SHAPE_MINOR_BASE -> index + 1 */
	struct shape_stats *out;
};

int stats_parse(const struct nlmsghdr *nlh, struct stats_counters *c)
{
	const struct nlattr *tb[TCA_MAX + 1], *st[TCA_STATS_MAX + 1];
	struct gnet_stats_basic basic;
	const struct gnet_stats_queue *queue;

	memset(c, 0, sizeof(*c));
	if (attrs_parse_msg(nlh, sizeof(struct tcmsg), tb, TCA_MAX) || !tb[TCA_STATS2] ||
	    attrs_parse(tb[TCA_STATS2], st, TCA_STATS_MAX))
		return -EBADMSG;
	/* The kernel sends this struct without its tail padding. */
	if (attr_struct(st[TCA_STATS_BASIC], offsetof(struct gnet_stats_basic, packets) + sizeof(basic.packets))) {
		memset(&basic, 0, sizeof(basic));
		memcpy(&basic, mnl_attr_get_payload(st[TCA_STATS_BASIC]),
		       offsetof(struct gnet_stats_basic, packets) + sizeof(basic.packets));
		c->bytes = basic.bytes;
		c->packets = basic.packets;
	}
	if (st[TCA_STATS_PKT64])
		attr_u64(st[TCA_STATS_PKT64], &c->packets);
	queue = attr_struct(st[TCA_STATS_QUEUE], sizeof(*queue));
	if (queue) {
		c->drops = queue->drops;
		c->backlog = queue->backlog;
	}
	return 0;
}

static struct shape_stat *slot(const struct reader *r, uint32_t minor)
{
	int32_t i;

	if (minor < SHAPE_MINOR_BASE || minor > UINT16_MAX)
		return NULL;
	i = r->slot_of_minor[minor - SHAPE_MINOR_BASE];
	return i ? &r->out->v[i - 1] : NULL;
}

static int on_class(const struct nlmsghdr *nlh, void *arg)
{
	struct reader *r = arg;
	struct stats_counters c;
	struct shape_stat *st;
	struct tcobj o;
	int rc = kernel_parse_tc(nlh, r->ifindex, &o);

	if (rc)
		return rc < 0 ? rc : 0;
	if (o.kind != &kind_htb_class || TC_H_MAJ(o.handle) >> 16 != SHAPE_HANDLE_MAJOR ||
	    !(st = slot(r, TC_H_MIN(o.handle))))
		return 0;
	rc = stats_parse(nlh, &c);
	if (rc)
		return rc;
	if (r->delay_side) {
		st->delay_packets = c.packets;
	} else {
		st->rate_bps = 8 * o.u.htb_class.rate_bytes_ps;
		st->bytes = c.bytes;
		st->packets = c.packets;
		st->drops = c.drops;
		st->backlog_bytes = c.backlog;
	}
	return 0;
}

/* netem loses packets without its parent noticing. */
static int on_netem(const struct nlmsghdr *nlh, void *arg)
{
	struct reader *r = arg;
	struct stats_counters c;
	struct shape_stat *st;
	struct tcobj o;
	int rc = kernel_parse_tc(nlh, r->ifindex, &o);

	if (rc)
		return rc < 0 ? rc : 0;
	if (o.kind != &kind_netem || TC_H_MAJ(o.parent) >> 16 != SHAPE_HANDLE_MAJOR ||
	    !(st = slot(r, TC_H_MIN(o.parent))))
		return 0;
	rc = stats_parse(nlh, &c);
	if (rc)
		return rc;
	st->latency_ns = o.u.netem.latency_ns;
	st->delay_drops = c.drops;
	return 0;
}

/* A cell in which an interface was down, however briefly, measured that. */
static int look_up(struct netlink *nl, const char *ifname, struct reader *r, struct bace_err *e)
{
	struct if_info info;
	int rc = kernel_if_info(nl, ifname, &info, e);

	if (rc)
		return rc;
	r->ifindex = info.ifindex;
	r->out->carrier_changes += info.carrier_changes;
	return 0;
}

/* Of the interface that was looked up. */
static int read_side(struct netlink *nl, const char *ifname, bool delay_side, struct reader *r,
		     struct bace_err *e)
{
	int rc;

	r->delay_side = delay_side;
	/* Counters are set, not added up: a dump that begins again needs no reset. */
	rc = kernel_dump_tc(nl, RTM_GETTCLASS, r->ifindex, 0, on_class, NULL, r, e);
	if (!rc && delay_side)
		rc = kernel_dump_tc(nl, RTM_GETQDISC, r->ifindex, 0, on_netem, NULL, r, e);
	return rc ? bace_err_context(e, "read counters of `%s'", ifname) : 0;
}

static int read_line(struct delay_line *line, const struct reader *r, struct bace_err *e)
{
	struct delay_line_stats ls;
	int rc = delay_line_stats(line, true, &ls);

	if (rc)
		return bace_fail_errno(e, -rc, "read the delay line");
	r->out->delay_alive = ls.alive;
	r->out->lateness_p99_ns = ls.lateness_p99_ns;
	r->out->lateness_mean_ns = ls.lateness_mean_ns;
	r->out->lateness_max_ns = ls.lateness_max_ns;
	r->out->lateness_n = ls.packets_timed;
	r->out->delay_realtime = ls.realtime;
	r->out->queue_drops = ls.queue_drops;
	r->out->user_drops = ls.user_drops;
	for (int i = 0; i < ls.n_links; i++) {
		struct shape_stat *st = slot(r, SHAPE_MINOR_BASE + ls.links[i].region);

		if (!st)
			continue;
		st->delay_packets = ls.links[i].packets;
		st->delay_drops = ls.links[i].lost + ls.links[i].overflowed;
	}
	free(ls.links);
	return 0;
}

int stats_read(struct netlink *nl, const struct shape_spec *spec, struct delay_line *line,
	       struct shape_stats *out, struct bace_err *e)
{
	CLEANUP_FREE int32_t *slots = calloc(UINT16_MAX + 1, sizeof(*slots));
	struct reader r = { .slot_of_minor = slots, .out = out };
	bool any_rate = false, netem = spec->delay == DELAY_NETEM && spec->ingress[0];
	int rc = 0;

	*out = (struct shape_stats){ .delay = spec->delay, .delay_alive = true, .n = spec->n_links };
	out->v = calloc((size_t)spec->n_links + 1, sizeof(*out->v));
	if (!slots || !out->v) {
		shape_stats_free(out);
		return bace_fail(e, ENOMEM, "out of memory");
	}
	for (int i = 0; i < spec->n_links; i++) {
		out->v[i].region = spec->links[i].region;
		out->v[i].latency_ns = spec->delay == DELAY_NFQUEUE ? spec->links[i].latency_ns : 0;
		slots[spec->links[i].region] = i + 1;
		any_rate |= spec->links[i].rate_bps > 0;
	}
	if (spec->egress[0])
		rc = look_up(nl, spec->egress, &r, e);
	if (!rc && any_rate)
		rc = read_side(nl, spec->egress, false, &r, e);
	out->at_ns = bace_mono_ns();
	/* One interface may be both. */
	if (!rc && spec->ingress[0] && strcmp(spec->ingress, spec->egress))
		rc = look_up(nl, spec->ingress, &r, e);
	if (!rc && netem && spec->n_links)
		rc = read_side(nl, spec->ingress, true, &r, e);
	if (!rc && line)
		rc = read_line(line, &r, e);
	if (rc)
		shape_stats_free(out);
	return rc;
}

void shape_stats_free(struct shape_stats *s)
{
	free(s->v);
	s->v = NULL;
	s->n = 0;
}
