/* Between what the kernel shows of an object and what it takes for it. */
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "shaper/snapshot.h"

/* ---- what a dump shows and a request must not say ---- */

/* Calls edit for each attribute in the options; those for which it returns
 * false are taken out. */
static void edit_options(struct snapshot_object *o, bool (*edit)(struct nlattr *a))
{
	size_t at = 0, to = 0;

	while (at + sizeof(struct nlattr) <= o->n_options) {
		struct nlattr *a = (void *)(o->options + at);
		size_t len = MNL_ALIGN(a->nla_len);

		if (a->nla_len < sizeof(*a) || at + a->nla_len > o->n_options)
			return;
		if (at + len > o->n_options)
			len = o->n_options - at;
		if (edit(a)) {
			memmove(o->options + to, o->options + at, len);
			to += len;
		}
		at += len;
	}
	o->n_options = (uint32_t)to;
}

/* HTB reports more in its version than it accepts, and counts packets there. */
static bool edit_htb_root(struct nlattr *a)
{
	struct tc_htb_glob *g = mnl_attr_get_payload(a);

	if (mnl_attr_get_type(a) == TCA_HTB_INIT && mnl_attr_get_payload_len(a) >= sizeof(*g)) {
		g->version = HTB_VERSION;
		g->direct_pkts = 0;
		g->debug = 0;
	}
	return true;
}

/* Whether a filter is in hardware is shown, and must not be asked for. */
static bool edit_flags(struct nlattr *a, uint16_t type)
{
	uint32_t flags;

	if (mnl_attr_get_type(a) == type && !attr_u32(a, &flags)) {
		flags &= TCA_CLS_FLAGS_SKIP_HW | TCA_CLS_FLAGS_SKIP_SW;
		memcpy(mnl_attr_get_payload(a), &flags, sizeof(flags));
	}
	return true;
}

/* u32 counts too, and the kernel chooses the number of a root table. */
static bool edit_u32(struct nlattr *a)
{
	uint32_t hash;

	if (mnl_attr_get_type(a) == TCA_U32_PCNT)
		return false;
	if (mnl_attr_get_type(a) == TCA_U32_HASH && !attr_u32(a, &hash) && TC_U32_USERHTID(hash) >= 0x800)
		return false;
	return edit_flags(a, TCA_U32_FLAGS);
}

static bool edit_flower(struct nlattr *a)
{
	return mnl_attr_get_type(a) != TCA_FLOWER_IN_HW_COUNT && edit_flags(a, TCA_FLOWER_FLAGS);
}

static bool edit_matchall(struct nlattr *a)
{
	return mnl_attr_get_type(a) != TCA_MATCHALL_PCNT && edit_flags(a, TCA_MATCHALL_FLAGS);
}

static const struct {
	enum tcobj_type type;
	const char *kind;
	bool (*edit)(struct nlattr *a);
} edits[] = {
	{ TCOBJ_QDISC, "htb", edit_htb_root },
	{ TCOBJ_FILTER, "u32", edit_u32 },
	{ TCOBJ_FILTER, "flower", edit_flower },
	{ TCOBJ_FILTER, "matchall", edit_matchall },
};

void snapshot_tidy(struct snapshot_object *o)
{
	for (size_t i = 0; i < ARRAY_LEN(edits); i++)
		if (o->type == edits[i].type && !strcmp(o->kind, edits[i].kind))
			edit_options(o, edits[i].edit);
	if (o->type == TCOBJ_FILTER && !strcmp(o->kind, "u32") && TC_U32_USERHTID(o->handle) >= 0x800)
		o->handle = TC_U32_NODE(o->handle);
	/* HTB says "root" for the parent of a top class, and wants the qdisc. */
	if (o->type == TCOBJ_CLASS && o->parent == TC_H_ROOT)
		o->parent = TC_H_MAJ(o->handle);
	/* A class tells its leaf there; a request must not. */
	if (o->type != TCOBJ_FILTER)
		o->info = 0;
}

/* ---- what must be said differently for the dump to come out the same ---- */

/* CoDel keeps times in units of 1024 ns and shows them in whole microseconds,
 * both rounded down: one more microsecond gives the same units again. */
static bool edit_codel(struct nlattr *a, const uint16_t *times, size_t n)
{
	uint32_t us;

	for (size_t i = 0; i < n; i++) {
		if (mnl_attr_get_type(a) != times[i] || attr_u32(a, &us) || us == UINT32_MAX)
			continue;
		us++;
		memcpy(mnl_attr_get_payload(a), &us, sizeof(us));
	}
	return true;
}

static bool restore_codel(struct nlattr *a)
{
	static const uint16_t times[] = { TCA_CODEL_TARGET, TCA_CODEL_INTERVAL, TCA_CODEL_CE_THRESHOLD };

	return edit_codel(a, times, ARRAY_LEN(times));
}

static bool restore_fq_codel(struct nlattr *a)
{
	static const uint16_t times[] = { TCA_FQ_CODEL_TARGET, TCA_FQ_CODEL_INTERVAL, TCA_FQ_CODEL_CE_THRESHOLD };

	return edit_codel(a, times, ARRAY_LEN(times));
}

void snapshot_untidy(struct snapshot_object *o)
{
	if (o->type == TCOBJ_QDISC && !strcmp(o->kind, "codel"))
		edit_options(o, restore_codel);
	if (o->type == TCOBJ_QDISC && !strcmp(o->kind, "fq_codel"))
		edit_options(o, restore_fq_codel);
}
