#include <errno.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/plan.h"

void plan_steps_free(struct plan_steps *s)
{
	free(s->v);
	*s = (struct plan_steps){ 0 };
}

static int step(struct plan_steps *s, enum plan_verb verb, const struct tcobj *o)
{
	const struct plan_step st = { .verb = verb, .o = o };

	return BACE_PUSH(s->v, s->n, s->cap, st);
}

/* ---- an index over the objects of one interface ---- */
struct entry {
	uint64_t key;
	const struct tcobj *o;
};

struct index {
	struct entry *v;
	size_t n;
};

static int by_key(const void *a, const void *b)
{
	uint64_t x = ((const struct entry *)a)->key, y = ((const struct entry *)b)->key;

	return (x > y) - (x < y);
}

static int index_build(const struct if_state *s, struct index *ix)
{
	ix->n = s->n;
	ix->v = calloc(s->n + 1, sizeof(*ix->v));
	if (!ix->v)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++)
		ix->v[i] = (struct entry){ tcobj_key(&s->v[i]), &s->v[i] };
	qsort(ix->v, ix->n, sizeof(*ix->v), by_key);
	return 0;
}

static const struct tcobj *index_find(const struct index *ix, const struct tcobj *key)
{
	const struct entry what = { .key = tcobj_key(key) };
	const struct entry *hit = ix->n ? bsearch(&what, ix->v, ix->n, sizeof(*ix->v), by_key) : NULL;

	return hit ? hit->o : NULL;
}

/* The same objects with the same parameters: the common case, seen in one pass. */
static bool index_equal(const struct index *a, const struct index *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!tcobj_equal(a->v[i].o, b->v[i].o))
			return false;
	return true;
}

/* ---- filters ---- */
static bool is_table(const struct tcobj *o)
{
	return o->type == TCOBJ_FILTER && o->kind == &kind_u32 && o->u.u32.divisor;
}

static bool is_plumbing(const struct tcobj *o)
{
	return is_table(o) || (o->type == TCOBJ_FILTER && o->kind == &kind_u32 && o->u.u32.link);
}

/* Do the tables, or what links to them, differ? */
static bool plumbing_differs(const struct if_state *a, const struct index *b)
{
	for (size_t i = 0; i < a->n; i++) {
		const struct tcobj *other;

		if (!is_plumbing(&a->v[i]))
			continue;
		other = index_find(b, &a->v[i]);
		if (!other || !tcobj_equal(&a->v[i], other))
			return true;
	}
	return false;
}

static int diff_nodes(const struct if_state *want, const struct index *want_ix,
		      const struct if_state *have, const struct index *have_ix, struct plan_steps *out)
{
	int rc = 0;

	for (size_t i = 0; i < want->n && !rc; i++) {
		const struct tcobj *o = &want->v[i], *old;

		if (o->type != TCOBJ_FILTER)
			continue;
		old = index_find(have_ix, o);
		if (old && tcobj_equal(o, old))
			continue;
		/* A u32 node keeps its match for life. */
		if (old)
			rc = step(out, PLAN_DELETE, old);
		if (!rc)
			rc = step(out, PLAN_ADD, o);
	}
	for (size_t i = 0; i < have->n && !rc; i++)
		if (have->v[i].type == TCOBJ_FILTER && !index_find(want_ix, &have->v[i]))
			rc = step(out, PLAN_DELETE, &have->v[i]);
	return rc;
}

/* u32's tables are shared by all priorities of a qdisc and go with the last of
 * them, so when a table changes all filters are laid anew. */
static int relay_filters(const struct if_state *want, const struct if_state *have, struct plan_steps *out)
{
	uint16_t gone = 0;
	int rc = 0;

	/* A dump lists one priority after the other. */
	for (size_t i = 0; i < have->n && !rc; i++) {
		if (have->v[i].type != TCOBJ_FILTER || have->v[i].prio == gone)
			continue;
		gone = have->v[i].prio;
		rc = step(out, PLAN_DELETE_PRIO, &have->v[i]);
	}
	for (size_t i = 0; i < want->n && !rc; i++)
		if (want->v[i].type == TCOBJ_FILTER)
			rc = step(out, PLAN_ADD, &want->v[i]);
	return rc;
}

static int diff_filters(const struct if_state *want, const struct index *want_ix,
			const struct if_state *have, const struct index *have_ix, struct plan_steps *out)
{
	if (plumbing_differs(want, have_ix) || plumbing_differs(have, want_ix))
		return relay_filters(want, have, out);
	return diff_nodes(want, want_ix, have, have_ix, out);
}

/* ---- qdiscs and classes ---- */
static int diff_one(const struct tcobj *o, const struct tcobj *old, struct plan_steps *out)
{
	int rc = 0;

	if (!old)
		return step(out, PLAN_ADD, o);
	if (tcobj_equal(o, old))
		return 0;
	if (o->kind && o->kind == old->kind && o->parent == old->parent && o->kind->can_change)
		return step(out, PLAN_CHANGE, o);
	rc = step(out, PLAN_DELETE, old);
	return rc ? rc : step(out, PLAN_ADD, o);
}

/* Does another step already take this one away? */
static bool goes_with_its_parent(const struct tcobj *o, const struct index *want_ix)
{
	struct tcobj parent = { .type = TCOBJ_CLASS, .handle = o->parent };

	return o->type == TCOBJ_QDISC && TC_H_MIN(o->parent) && !index_find(want_ix, &parent);
}

/* A class has one leaf: the wanted one, when it comes, takes its place. */
static bool displaced(const struct tcobj *o, const struct if_state *want)
{
	if (o->type != TCOBJ_QDISC || !TC_H_MIN(o->parent))
		return false;
	for (size_t i = 0; i < want->n; i++)
		if (want->v[i].type == TCOBJ_QDISC && want->v[i].parent == o->parent)
			return true;
	return false;
}

static int diff_ours(const struct if_state *want, const struct index *want_ix, const struct if_state *have,
		     const struct index *have_ix, struct plan_steps *out)
{
	int rc = 0;

	for (size_t i = 0; i < want->n && !rc; i++)
		if (want->v[i].type != TCOBJ_FILTER)
			rc = diff_one(&want->v[i], index_find(have_ix, &want->v[i]), out);
	if (!rc)
		rc = diff_filters(want, want_ix, have, have_ix, out);
	/* A class can go once no filter leads to it. */
	for (size_t i = 0; i < have->n && !rc; i++) {
		const struct tcobj *o = &have->v[i];

		if (o->type != TCOBJ_FILTER && !index_find(want_ix, o) && !goes_with_its_parent(o, want_ix) &&
		    !displaced(o, want))
			rc = step(out, PLAN_DELETE, o);
	}
	return rc;
}

static int diff_fresh(const struct if_state *want, struct plan_steps *out)
{
	int rc = 0;

	for (size_t i = 0; i < want->n && !rc; i++)
		rc = step(out, want->v[i].parent == TC_H_ROOT ? PLAN_REPLACE_ROOT : PLAN_ADD, &want->v[i]);
	return rc;
}

int plan_diff(const struct if_state *want, const struct if_state *have, struct plan_steps *out)
{
	const struct tcobj *want_root = if_state_root(want), *have_root = if_state_root(have);
	struct index want_ix = { 0 }, have_ix = { 0 };
	int rc;

	*out = (struct plan_steps){ 0 };
	if (!want_root)
		return if_state_is_ours(have) ? step(out, PLAN_DELETE, have_root) : 0;
	if (!if_state_is_ours(have))
		return diff_fresh(want, out);
	/* HTB's root has no change operation. */
	if (!tcobj_equal(want_root, have_root)) {
		rc = step(out, PLAN_DELETE, have_root);
		return rc ? rc : diff_fresh(want, out);
	}
	rc = index_build(want, &want_ix);
	if (!rc)
		rc = index_build(have, &have_ix);
	if (!rc && !index_equal(&want_ix, &have_ix))
		rc = diff_ours(want, &want_ix, have, &have_ix, out);
	free(want_ix.v);
	free(have_ix.v);
	if (rc)
		plan_steps_free(out);
	return rc;
}

int plan_step_print(const struct plan_step *s, const char *ifname, struct bace_buf *b)
{
	static const char *const verbs[] = {
		[PLAN_ADD] = "add", [PLAN_CHANGE] = "change", [PLAN_REPLACE_ROOT] = "replace",
		[PLAN_DELETE] = "del", [PLAN_DELETE_PRIO] = "del",
	};

	return tcobj_print(s->o, verbs[s->verb], ifname, b);
}
