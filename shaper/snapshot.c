#include "shaper/snapshot.h"

#include <errno.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

void snapshot_free(struct snapshot *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].options);
	free(s->v);
	*s = (struct snapshot){ 0 };
}

const char *snapshot_root_kind(const struct snapshot *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].parent == TC_H_ROOT)
			return s->v[i].kind;
	return "none";
}

/* ---- taking ---- */
static bool is_one_of(const char *kind, const char *const *kinds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(kind, kinds[i]))
			return true;
	return false;
}

/* Size tables and shared blocks are no options; classes of old kinds are not known here. */
static bool is_beyond_us(const struct snapshot_object *o, const struct nlattr *const *tb)
{
	static const char *const kinds[] = { "cbq", "dsmark", "atm" };

	return tb[TCA_STAB] || tb[TCA_INGRESS_BLOCK] || tb[TCA_EGRESS_BLOCK] ||
	       (o->type == TCOBJ_CLASS && is_one_of(o->kind, kinds, ARRAY_LEN(kinds)));
}

static bool makes_itself(const struct snapshot_object *o)
{
	static const char *const creatable[] = { "htb", "hfsc", "drr", "qfq" };

	switch (o->type) {
	case TCOBJ_QDISC:
		return !TC_H_MAJ(o->handle) || o->parent == TC_H_INGRESS;
	case TCOBJ_CLASS:
		/* hfsc has a root class that comes with it. */
		return !is_one_of(o->kind, creatable, ARRAY_LEN(creatable)) || !TC_H_MIN(o->handle);
	case TCOBJ_FILTER:
		/* The head of a priority, and u32's root tables. */
		return !o->handle || (!strcmp(o->kind, "u32") && TC_U32_USERHTID(o->handle) >= 0x800 &&
				      !TC_U32_KEY(o->handle));
	}
	return true;
}

struct taking {
	struct snapshot *to;
	int ifindex;
	size_t start;
};

static void taking_reset(void *arg)
{
	struct taking *t = arg;

	while (t->to->n > t->start)
		free(t->to->v[--t->to->n].options);
}

static int take_one(const struct nlmsghdr *nlh, void *arg)
{
	struct taking *t = arg;
	const struct tcmsg *tc = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *tb[TCA_MAX + 1];
	struct snapshot_object o = { 0 };
	bool itself;

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*tc) || attrs_parse_msg(nlh, sizeof(*tc), tb, TCA_MAX) ||
	    attr_str(tb[TCA_KIND], o.kind, sizeof(o.kind)))
		return -EBADMSG;
	if (tc->tcm_ifindex != t->ifindex)
		return 0;
	o.type = nlh->nlmsg_type == RTM_NEWQDISC ? TCOBJ_QDISC
		 : nlh->nlmsg_type == RTM_NEWTCLASS ? TCOBJ_CLASS : TCOBJ_FILTER;
	o.parent = tc->tcm_parent;
	o.handle = tc->tcm_handle;
	o.info = tc->tcm_info;
	if (tb[TCA_CHAIN] && attr_u32(tb[TCA_CHAIN], &o.chain))
		return -EBADMSG;
	itself = makes_itself(&o);
	/* A default qdisc, and ingress, which is not touched, come back whatever they have. */
	if (!itself || o.type == TCOBJ_CLASS)
		t->to->incomplete |= is_beyond_us(&o, tb);
	if (itself)
		return 0;
	if (tb[TCA_OPTIONS]) {
		o.n_options = mnl_attr_get_payload_len(tb[TCA_OPTIONS]);
		o.options = malloc(o.n_options + 1);
		if (!o.options)
			return -ENOMEM;
		memcpy(o.options, mnl_attr_get_payload(tb[TCA_OPTIONS]), o.n_options);
	}
	snapshot_tidy(&o);
	if (!BACE_PUSH(t->to->v, t->to->n, t->to->cap, o))
		return 0;
	free(o.options);
	return -ENOMEM;
}

static int take_dump(struct netlink *nl, uint16_t type, int ifindex, uint32_t parent, struct snapshot *to,
		     struct bace_err *e)
{
	struct taking t = { .to = to, .ifindex = ifindex, .start = to->n };

	return kernel_dump_tc(nl, type, ifindex, parent, take_one, taking_reset, &t, e);
}

/* Parents before children; filters last, in the order of the dump. */
static int put_in_order(struct snapshot *s)
{
	struct snapshot_object *v = calloc(s->n + 1, sizeof(*v));
	size_t n = 0;
	bool progress = true, *done = calloc(s->n + 1, sizeof(*done));

	if (!v || !done) {
		free(v);
		free(done);
		return -ENOMEM;
	}
	while (progress) {
		progress = false;
		for (size_t i = 0; i < s->n; i++) {
			bool ready = s->v[i].parent == TC_H_ROOT;

			if (done[i] || s->v[i].type == TCOBJ_FILTER)
				continue;
			/* A qdisc that makes its classes itself stands in for them. */
			for (size_t k = 0; k < n && !ready; k++)
				ready = v[k].handle == s->v[i].parent ||
					(v[k].type == TCOBJ_QDISC && s->v[i].type == TCOBJ_QDISC &&
					 v[k].handle == TC_H_MAJ(s->v[i].parent) && strcmp(v[k].kind, "htb") &&
					 strcmp(v[k].kind, "hfsc") && strcmp(v[k].kind, "drr") && strcmp(v[k].kind, "qfq"));
			if (ready) {
				v[n++] = s->v[i];
				done[i] = progress = true;
			}
		}
	}
	for (size_t i = 0; i < s->n; i++) {
		if (!done[i] && s->v[i].type == TCOBJ_FILTER) {
			v[n++] = s->v[i];
		} else if (!done[i]) {
			s->incomplete = true;
			free(s->v[i].options);
		}
	}
	free(done);
	free(s->v);
	s->v = v;
	s->n = s->cap = n;
	return 0;
}

static int take_filters(struct netlink *nl, int ifindex, struct snapshot *s, struct bace_err *e)
{
	size_t n = s->n;
	int rc = 0;

	/* Where there can be none the answer is empty. */
	for (size_t i = 0; i < n && !rc; i++)
		if (s->v[i].type != TCOBJ_FILTER)
			rc = take_dump(nl, RTM_GETTFILTER, ifindex, s->v[i].handle, s, e);
	return rc;
}

int snapshot_take(struct netlink *nl, const struct if_info *i, struct snapshot *out, struct bace_err *e)
{
	int rc;

	*out = (struct snapshot){ .n_tx_queues = i->n_tx_queues };
	memcpy(out->ifname, i->ifname, sizeof(out->ifname));
	rc = take_dump(nl, RTM_GETQDISC, i->ifindex, 0, out, e);
	/* Left behind by one of us: before it there was a default, as far as we know. */
	for (size_t k = 0; k < out->n; k++) {
		if (out->v[k].parent == TC_H_ROOT && out->v[k].handle == (uint32_t)SHAPE_HANDLE_MAJOR << 16) {
			snapshot_free(out);
			return 0;
		}
	}
	if (!rc && out->n)
		rc = take_dump(nl, RTM_GETTCLASS, i->ifindex, 0, out, e);
	if (!rc && out->n)
		rc = take_filters(nl, i->ifindex, out, e);
	if (!rc && put_in_order(out))
		rc = bace_fail(e, ENOMEM, "out of memory");
	if (rc) {
		snapshot_free(out);
		return bace_err_context(e, "save the qdiscs of `%s'", i->ifname);
	}
	return 0;
}

/* ---- comparing ---- */
static bool same_object(const struct snapshot_object *a, const struct snapshot_object *b)
{
	return a->type == b->type && a->parent == b->parent && a->handle == b->handle && a->info == b->info &&
	       a->chain == b->chain && !strcmp(a->kind, b->kind) && a->n_options == b->n_options &&
	       (!a->n_options || !memcmp(a->options, b->options, a->n_options));
}

static bool contains(const struct snapshot *s, const struct snapshot_object *o)
{
	for (size_t i = 0; i < s->n; i++)
		if (same_object(&s->v[i], o))
			return true;
	return false;
}

/* The kernel lists classes in the order of a hash table. */
bool snapshot_equal(const struct snapshot *a, const struct snapshot *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!contains(b, &a->v[i]))
			return false;
	return true;
}

/* ---- restoring ---- */

/* Options as the kernel must be told them to show what was kept. */
static int put_options(struct nlmsghdr *nlh, const struct snapshot_object *o)
{
	struct snapshot_object copy = *o;

	if (!o->options)
		return 0;
	copy.options = malloc(o->n_options + 1);
	if (!copy.options)
		return -ENOMEM;
	memcpy(copy.options, o->options, o->n_options);
	snapshot_untidy(&copy);
	mnl_attr_put(nlh, TCA_OPTIONS, copy.n_options, copy.options);
	free(copy.options);
	return 0;
}

static int put_object(struct netlink_batch *b, int ifindex, const struct snapshot_object *o)
{
	static const uint16_t types[] = {
		[TCOBJ_QDISC] = RTM_NEWQDISC, [TCOBJ_CLASS] = RTM_NEWTCLASS, [TCOBJ_FILTER] = RTM_NEWTFILTER };
	uint16_t flags = NLM_F_CREATE | (o->type == TCOBJ_QDISC ? NLM_F_REPLACE : NLM_F_EXCL);
	struct nlmsghdr *nlh = netlink_batch_add(b, types[o->type], flags, 512 + o->n_options);
	struct tcmsg *tc;

	if (!nlh)
		return -ENOMEM;
	tc = mnl_nlmsg_put_extra_header(nlh, sizeof(*tc));
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = o->parent;
	tc->tcm_handle = o->handle;
	tc->tcm_info = o->info;
	mnl_attr_put_strz(nlh, TCA_KIND, o->kind);
	if (o->type == TCOBJ_FILTER && o->chain)
		mnl_attr_put_u32(nlh, TCA_CHAIN, o->chain);
	if (put_options(nlh, o))
		return -ENOMEM;
	netlink_batch_commit(b, nlh);
	return 0;
}

static int delete_root(struct netlink *nl, const struct if_info *i, struct bace_err *e)
{
	_Alignas(NLMSG_ALIGNTO) char buf[128];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct tcmsg *tc;
	int rc;

	nlh->nlmsg_type = RTM_DELQDISC;
	tc = mnl_nlmsg_put_extra_header(nlh, sizeof(*tc));
	tc->tcm_ifindex = i->ifindex;
	tc->tcm_parent = TC_H_ROOT;
	rc = netlink_ask(nl, nlh, NULL, NULL, e);
	/* The kernel's default cannot be deleted, and need not be. */
	return rc == -ENOENT || rc == -EINVAL ? 0 : rc;
}

static int build(struct netlink *nl, const struct snapshot *s, const struct if_info *i, struct bace_err *e)
{
	struct netlink_batch b = { 0 };
	struct snapshot now = { 0 };
	int rc = delete_root(nl, i, e);

	for (size_t k = 0; k < s->n && !rc; k++)
		rc = put_object(&b, i->ifindex, &s->v[k]);
	if (!rc && s->n && netlink_batch_send(nl, &b))
		rc = b.n_failed ? bace_fail(e, b.first.errnum, "%s %x:%x: %s%s%s", s->v[b.first.index].kind,
					    TC_H_MAJ(s->v[b.first.index].handle) >> 16,
					    TC_H_MIN(s->v[b.first.index].handle), strerror(b.first.errnum),
					    b.first.text[0] ? ": " : "", b.first.text)
				: bace_fail(e, EIO, "the kernel did not answer");
	netlink_batch_free(&b);
	if (!rc)
		rc = snapshot_take(nl, i, &now, e);
	if (!rc && !snapshot_equal(s, &now))
		rc = bace_fail(e, EIO, "what the kernel made of it differs");
	snapshot_free(&now);
	return rc;
}

int snapshot_restore(struct netlink *nl, const struct snapshot *s, struct bace_err *e)
{
	struct if_info i;
	int rc = kernel_if_info(nl, s->ifname, &i, e);

	if (!rc)
		rc = build(nl, s, &i, e);
	return rc ? bace_err_context(e, "put the %s qdisc of `%s' back", snapshot_root_kind(s), s->ifname) : 0;
}

/* The kernel never shows the table that shapes netem's jitter. */
bool snapshot_hides_something(const struct snapshot *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct tc_netem_qopt q;

		if (strcmp(s->v[i].kind, "netem") || s->v[i].n_options < sizeof(q))
			continue;
		memcpy(&q, s->v[i].options, sizeof(q));
		if (q.jitter)
			return true;
	}
	return false;
}

int snapshot_build_on(struct netlink *nl, const struct snapshot *s, const char *ifname, struct bace_err *e)
{
	struct if_info i;
	int rc = kernel_if_info(nl, ifname, &i, e);

	return rc ? rc : build(nl, s, &i, e);
}
