/* Counters and backlog of the shaper's classes, read without privilege; where
 * the kernel shows them to bace-shaperd alone, from its statistics. */
#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "agent/monitor/internal.h"

struct class_source {
	struct source base;
	struct mnl_socket *nl;
	int ifindex;
	struct bace_buf *rows;
	bool full;
	struct class_row *before;	/* in the order of the dump */
	size_t n, n_before, cap;
	bool failed;			/* out of memory */
	uint32_t n_seen;		/* classes of ours in this dump */
};

static void add_row(struct class_source *s, const struct class_row *c)
{
	size_t i = s->n++;
	bool same = !s->full && i < s->n_before && !memcmp(&s->before[i], c, sizeof(*c));

	if (i >= s->cap && bace_grow(&s->before, &s->cap, i + 1, sizeof(*s->before))) {
		s->failed = true;
		return;
	}
	s->before[i] = *c;
	if (same)
		return;
	row_u64(s->rows, c->minor, ' ');
	row_u64(s->rows, c->bytes, ' ');
	row_u64(s->rows, c->packets, ' ');
	row_u64(s->rows, c->drops, ' ');
	row_u64(s->rows, c->backlog, ';');
}

static int on_attr(const struct nlattr *a, void *arg)
{
	const struct nlattr **tb = arg;

	if (mnl_attr_get_type(a) <= TCA_MAX)
		tb[mnl_attr_get_type(a)] = a;
	return MNL_CB_OK;
}

static void parse_stats(const struct nlattr *stats, struct class_row *c)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, stats) {
		const void *p = mnl_attr_get_payload(a);
		size_t n = mnl_attr_get_payload_len(a);

		if (mnl_attr_get_type(a) == TCA_STATS_BASIC && n >= 12) {
			uint32_t packets;

			memcpy(&c->bytes, p, 8);
			memcpy(&packets, (const char *)p + 8, 4);
			c->packets = packets;
		} else if (mnl_attr_get_type(a) == TCA_STATS_QUEUE && n >= sizeof(struct gnet_stats_queue)) {
			struct gnet_stats_queue q;

			memcpy(&q, p, sizeof(q));
			c->backlog = q.backlog;
			c->drops = q.drops;
		}
	}
}

static int on_class(const struct nlmsghdr *nlh, void *arg)
{
	struct class_source *s = arg;
	const struct tcmsg *tc = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *tb[TCA_MAX + 1] = { 0 };
	struct class_row c;

	if (tc->tcm_ifindex != s->ifindex || TC_H_MAJ(tc->tcm_handle) >> 16 != SHAPE_HANDLE_MAJOR ||
	    TC_H_MIN(tc->tcm_handle) < SHAPE_MINOR_BASE)
		return MNL_CB_OK;
	mnl_attr_parse(nlh, sizeof(*tc), on_attr, tb);
	if (!tb[TCA_STATS2])
		return MNL_CB_OK;
	memset(&c, 0, sizeof(c));	/* compared with its padding */
	c.minor = TC_H_MIN(tc->tcm_handle);
	parse_stats(tb[TCA_STATS2], &c);
	s->n_seen++;
	add_row(s, &c);
	return MNL_CB_OK;
}

static void begin(struct class_source *s, bool full, struct bace_buf *rows)
{
	s->rows = rows;
	s->full = full;
	s->n_before = s->n;
	s->n = s->n_seen = 0;
}

static int class_read(struct source *base, bool full, struct bace_buf *rows, struct bace_err *e)
{
	struct class_source *s = (struct class_source *)base;
	const char *dev = monitor_config(base->monitor)->class_dev;
	char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct tcmsg *tc;
	int rc;

	if (!dev[0])
		return 0;
	if (!s->ifindex)
		s->ifindex = (int)if_nametoindex(dev);
	nlh->nlmsg_type = RTM_GETTCLASS;
	tc = mnl_nlmsg_put_extra_header(nlh, sizeof(*tc));
	tc->tcm_family = AF_UNSPEC;
	tc->tcm_ifindex = s->ifindex;
	begin(s, full, rows);
	rc = s->ifindex ? nl_dump(s->nl, nlh, on_class, s, e) : 0;
	if (s->failed)
		return bace_fail(e, ENOMEM, "out of memory");
	if (!rc && s->n_seen)
		return 0;
	/* Not to be seen from here: bace-shaperd's answer comes later, by
	 * monitor_take_shaper. */
	s->n = 0;
	lease_sample(monitor_agent(base->monitor)->lease);
	return SOURCE_LATER;
}

void monitor_take_shaper(struct monitor *m, const struct shape_stats *st)
{
	struct bace_buf rows = { 0 };

	for (int i = 0; i < st->n; i++) {
		row_u64(&rows, st->v[i].region + SHAPE_MINOR_BASE, ' ');
		row_u64(&rows, st->v[i].bytes, ' ');
		row_u64(&rows, st->v[i].packets, ' ');
		row_u64(&rows, st->v[i].drops, ' ');
		row_u64(&rows, st->v[i].backlog_bytes, ';');
	}
	if (rows.len)
		monitor_push(m, "class", st->at_ns, rows.p);
	bace_buf_free(&rows);
}

static void class_destroy(struct source *base)
{
	struct class_source *s = (struct class_source *)base;

	if (s->nl)
		mnl_socket_close(s->nl);
	free(s->before);
	free(s);
}

static const struct source_ops ops = { .name = "class", .read = class_read, .destroy = class_destroy };

int source_class(struct monitor *m, struct source **out, struct bace_err *e)
{
	struct class_source *s = source_new(m, &ops, sizeof(*s), e);
	int rc;

	if (!s)
		return -ENOMEM;
	rc = nl_open(NETLINK_ROUTE, &s->nl, e);
	if (rc)
		class_destroy(&s->base);
	else
		*out = &s->base;
	return rc;
}
