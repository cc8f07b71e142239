#include <arpa/inet.h>
#include <errno.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "shaper/kernel.h"

#define MESSAGE_ROOM (2048 + 2 * NETEM_TABLE_MAX)

static uint16_t message_type(enum tcobj_type t, bool delete)
{
	static const uint16_t types[][2] = {
		[TCOBJ_QDISC] = { RTM_NEWQDISC, RTM_DELQDISC },
		[TCOBJ_CLASS] = { RTM_NEWTCLASS, RTM_DELTCLASS },
		[TCOBJ_FILTER] = { RTM_NEWTFILTER, RTM_DELTFILTER },
	};

	return types[t][delete];
}

static uint16_t message_flags(const struct plan_step *s)
{
	switch (s->verb) {
	case PLAN_ADD:
		/* A new HTB class comes with a leaf that ours replaces. */
		return s->o->type == TCOBJ_QDISC ? NLM_F_CREATE | NLM_F_REPLACE : NLM_F_CREATE | NLM_F_EXCL;
	case PLAN_REPLACE_ROOT:
		return NLM_F_CREATE | NLM_F_REPLACE;
	case PLAN_CHANGE:
	case PLAN_DELETE:
	case PLAN_DELETE_PRIO:
		return 0;
	}
	return 0;
}

static uint32_t message_handle(const struct plan_step *s)
{
	if (s->verb == PLAN_DELETE_PRIO)
		return 0;
	if (s->o->type != TCOBJ_FILTER)
		return s->o->handle;
	if (s->verb == PLAN_DELETE)
		return s->o->kernel_handle;
	/* The kernel numbers root tables itself; below one only the node is ours. */
	return TC_U32_HTID(s->o->handle) == TC_U32_ROOT ? TC_U32_NODE(s->o->handle) : s->o->handle;
}

int kernel_put_step(struct netlink_batch *b, int ifindex, const struct plan_step *s)
{
	bool delete = s->verb == PLAN_DELETE || s->verb == PLAN_DELETE_PRIO;
	size_t room = s->o->n_table ? MESSAGE_ROOM : 512;
	struct nlmsghdr *nlh =
		netlink_batch_add(b, message_type(s->o->type, delete), message_flags(s), room);
	struct tcmsg *tc;

	if (!nlh)
		return -ENOMEM;
	tc = mnl_nlmsg_put_extra_header(nlh, sizeof(*tc));
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = s->o->parent;
	tc->tcm_handle = message_handle(s);
	if (s->o->type == TCOBJ_FILTER)
		tc->tcm_info = TC_H_MAKE((uint32_t)s->o->prio << 16, htons(s->o->protocol));
	if (delete) {
		/* The root of any kind goes by its parent. */
		if (s->o->type == TCOBJ_FILTER)
			mnl_attr_put_strz(nlh, TCA_KIND, s->o->kind_name);
	} else {
		mnl_attr_put_strz(nlh, TCA_KIND, s->o->kind_name);
		s->o->kind->encode(s->o, nlh);
	}
	netlink_batch_commit(b, nlh);
	return 0;
}

static int send_steps(struct netlink *nl, const struct plan_steps *steps, const struct if_info *i,
		      struct bace_err *e)
{
	struct netlink_batch batch = { 0 };
	struct bace_buf what = { 0 };
	int rc = 0;

	for (size_t k = 0; k < steps->n && !rc; k++)
		rc = kernel_put_step(&batch, i->ifindex, &steps->v[k]);
	if (!rc)
		rc = netlink_batch_send(nl, &batch);
	if (rc && batch.n_failed) {
		plan_step_print(&steps->v[batch.first.index], i->ifname, &what);
		bace_fail(e, -rc, "tc %s: %s%s%s%s", what.p ? what.p : "", strerror(-rc),
			  batch.first.text[0] ? " (" : "", batch.first.text, batch.first.text[0] ? ")" : "");
	} else if (rc) {
		bace_fail_errno(e, -rc, "change tc state of `%s'", i->ifname);
	}
	bace_buf_free(&what);
	netlink_batch_free(&batch);
	return rc;
}

/* An attribute that an older kernel does not know is ignored without a word. */
static bool only_the_seed_is_missing(const struct tcobj *want, const struct if_state *now)
{
	if (want->kind != &kind_netem || !want->u.netem.seed)
		return false;
	for (size_t i = 0; i < now->n; i++) {
		struct tcobj o = now->v[i];

		o.u.netem.seed = want->u.netem.seed;
		if (now->v[i].kind == &kind_netem && tcobj_equal(&o, want))
			return true;
	}
	return false;
}

/* What the kernel shows now against what it was told. */
static int read_back(struct netlink *nl, const struct if_state *want, const struct if_info *i,
		     struct bace_err *e)
{
	struct if_state now = { 0 };
	struct plan_steps left = { 0 };
	struct bace_buf what = { 0 };
	int rc = kernel_observe(nl, i, &now, e);

	if (rc)
		return rc;
	rc = plan_diff(want, &now, &left);
	if (rc) {
		bace_fail_errno(e, -rc, "compare tc state of `%s'", i->ifname);
	} else if (left.n && only_the_seed_is_missing(left.v[0].o, &now)) {
		rc = bace_fail(e, ENOTSUP, "`%s': this kernel's netem takes no seed (Linux 6.7 and later do): leave it out", i->ifname);
	} else if (left.n) {
		plan_step_print(&left.v[0], i->ifname, &what);
		rc = bace_fail(e, EIO, "read back `%s': the kernel took the plan but %zu of its objects differ; first: tc %s",
			       i->ifname, left.n, what.p ? what.p : "");
	}
	bace_buf_free(&what);
	plan_steps_free(&left);
	if_state_free(&now);
	return rc;
}

/* What is not of our kinds cannot be made anew. */
static void forget_foreign(struct if_state *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].kind)
			s->v[n++] = s->v[i];
	s->n = n;
}

/* Best effort after a failure; the first error stays the one reported. */
static void put_back(struct netlink *nl, struct if_state *before, const struct if_info *i,
		     struct bace_err *e)
{
	struct if_state nothing = { 0 }, now = { 0 };
	struct plan_steps steps = { 0 };
	struct bace_err second = { 0 };
	int rc = kernel_observe(nl, i, &now, &second);

	forget_foreign(before);
	if (!rc)
		rc = plan_diff(if_state_is_ours(before) ? before : &nothing, &now, &steps);
	if (!rc && steps.n)
		rc = send_steps(nl, &steps, i, &second);
	if (rc) {
		struct bace_err first = *e;

		bace_fail(e, first.errnum, "%.300s; and it could not be undone: %.150s", first.msg, second.msg);
	}
	plan_steps_free(&steps);
	if_state_free(&now);
}

int kernel_apply(struct netlink *nl, const struct if_state *want, size_t *n_sent, struct bace_err *e)
{
	struct if_info info;
	struct if_state before = { 0 };
	struct plan_steps steps = { 0 };
	int rc = kernel_if_info(nl, want->ifname, &info, e);

	if (n_sent)
		*n_sent = 0;
	if (rc)
		return rc;
	rc = kernel_observe(nl, &info, &before, e);
	if (rc)
		return rc;
	rc = plan_diff(want, &before, &steps);
	if (rc)
		bace_fail_errno(e, -rc, "compare tc state of `%s'", want->ifname);
	if (!rc && steps.n) {
		rc = send_steps(nl, &steps, &info, e);
		if (!rc)
			rc = read_back(nl, want, &info, e);
		if (rc)
			put_back(nl, &before, &info, e);
		else if (n_sent)
			*n_sent = steps.n;
	}
	plan_steps_free(&steps);
	if_state_free(&before);
	return rc;
}
