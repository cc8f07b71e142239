#include "shaper/shaping.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/delay/fate.h"
#include "shaper/delay/line.h"
#include "shaper/delay/rules.h"
#include "shaper/kernel.h"
#include "shaper/stats.h"

#define INTERFACES_MAX 8

/* One interface that was touched. */
struct touched {
	char ifname[IFNAMSIZ];
	bool tc;		/* has our root qdisc */
	uint32_t gso_before;	/* 0: gso_max_size was not changed */
};

struct shaping {
	struct netlink nl;
	bool active;
	struct shape_spec spec;	/* last applied; links owned */
	struct delay_line *line;
	struct delay_rules rules;
	size_t n_touched;
	struct touched touched[INTERFACES_MAX];
};

int shaping_open(struct shaping **out, struct bace_err *e)
{
	struct shaping *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return bace_fail(e, ENOMEM, "out of memory");
	rc = netlink_open(&s->nl, NETLINK_ROUTE, e);
	if (rc) {
		free(s);
		return rc;
	}
	*out = s;
	return 0;
}

void shaping_close(struct shaping *s)
{
	if (!s)
		return;
	delay_line_stop(s->line);
	netlink_close(&s->nl);
	free(s->spec.links);
	free(s);
}

bool shaping_active(const struct shaping *s)
{
	return s->active;
}

int shaping_dead_fd(const struct shaping *s)
{
	return s->line ? delay_line_fd(s->line) : -1;
}

static struct touched *touch(struct shaping *s, const char *ifname)
{
	for (size_t i = 0; i < s->n_touched; i++)
		if (!strcmp(s->touched[i].ifname, ifname))
			return &s->touched[i];
	if (s->n_touched == INTERFACES_MAX)
		return NULL;
	struct touched *t = &s->touched[s->n_touched++];

	*t = (struct touched){ 0 };
	snprintf(t->ifname, sizeof(t->ifname), "%s", ifname);
	return t;
}

/* ---- tc ---- */
static int apply_tc(struct shaping *s, const struct if_state *want, size_t *n_changes, struct bace_err *e)
{
	struct touched *t;
	size_t sent = 0;
	int rc;

	if (!want->ifname[0])
		return 0;
	t = touch(s, want->ifname);
	if (!t)
		return bace_fail(e, ENOSPC, "more than %d interfaces", INTERFACES_MAX);
	rc = kernel_apply(&s->nl, want, &sent, e);
	if (!rc)
		t->tc = want->n > 0;
	*n_changes += sent;
	return rc;
}

static int clear_tc(struct shaping *s, struct touched *t, struct bace_err *e)
{
	struct if_state nothing = { 0 };
	size_t sent;
	int rc;

	if (!t->tc)
		return 0;
	memcpy(nothing.ifname, t->ifname, sizeof(nothing.ifname));
	rc = kernel_apply(&s->nl, &nothing, &sent, e);
	/* The interface went away, and its qdiscs with it. */
	if (!rc || rc == -ENODEV)
		t->tc = false;
	return rc == -ENODEV ? 0 : rc;
}

static bool in_plan(const struct shape_plan *p, const char *ifname)
{
	return !strcmp(p->egress.ifname, ifname) || !strcmp(p->ingress.ifname, ifname);
}

static int clear_abandoned(struct shaping *s, const struct shape_plan *p, struct bace_err *e)
{
	int rc = 0;

	for (size_t i = 0; i < s->n_touched && !rc; i++)
		if (!in_plan(p, s->touched[i].ifname))
			rc = clear_tc(s, &s->touched[i], e);
	return rc;
}

/* ---- gso_max_size ---- */
static int restore_gso(struct shaping *s, struct touched *t, struct bace_err *e)
{
	struct if_info info;
	int rc;

	if (!t->gso_before)
		return 0;
	rc = kernel_if_info(&s->nl, t->ifname, &info, e);
	if (rc == -ENODEV) {
		t->gso_before = 0;
		return 0;
	}
	if (!rc)
		rc = kernel_set_gso_max(&s->nl, &info, t->gso_before, e);
	if (!rc)
		t->gso_before = 0;
	return rc;
}

static int apply_gso(struct shaping *s, const struct shape_spec *spec, size_t *n_changes, struct bace_err *e)
{
	struct touched *t = touch(s, spec->egress);
	struct if_info info;
	int rc;

	if (!t)
		return bace_fail(e, ENOSPC, "more than %d interfaces", INTERFACES_MAX);
	for (size_t i = 0; i < s->n_touched; i++) {
		if (&s->touched[i] == t && spec->gso_max_bytes)
			continue;
		rc = restore_gso(s, &s->touched[i], e);
		if (rc)
			return rc;
	}
	if (!spec->gso_max_bytes)
		return 0;
	rc = kernel_if_info(&s->nl, spec->egress, &info, e);
	if (rc || info.gso_max_bytes == spec->gso_max_bytes)
		return rc;
	rc = kernel_set_gso_max(&s->nl, &info, spec->gso_max_bytes, e);
	if (rc)
		return rc;
	if (!t->gso_before)
		t->gso_before = info.gso_max_bytes ? info.gso_max_bytes : 65536;
	++*n_changes;
	rc = kernel_if_info(&s->nl, spec->egress, &info, e);
	if (!rc && info.gso_max_bytes != spec->gso_max_bytes)
		rc = bace_fail(e, EIO, "read back `%s': gso_max_size is %u, not %u", spec->egress,
			       info.gso_max_bytes, spec->gso_max_bytes);
	return rc;
}

/* ---- the delay line ---- */
static int stop_line(struct shaping *s, struct bace_err *e)
{
	/* The rule first: packets that wait leave, later ones pass by. */
	int rc = delay_rules_remove(&s->rules, e);

	delay_line_stop(s->line);
	s->line = NULL;
	return rc;
}

static bool any_delayed(const struct shape_spec *spec)
{
	for (int i = 0; i < spec->n_links; i++)
		if (plan_link_is_delayed(&spec->links[i]))
			return true;
	return false;
}

static int apply_line(struct shaping *s, const struct shape_spec *spec, const struct shape_plan *plan,
		      struct bace_err *e)
{
	int rc;

	if (spec->delay != DELAY_NFQUEUE || !any_delayed(spec))
		return s->line ? stop_line(s, e) : 0;
	/* The queue exists before anything is sent to it. */
	if (s->line)
		rc = delay_line_update(s->line, spec, plan->queue_limit_pkts, e);
	else
		rc = delay_line_start(spec, plan->queue_limit_pkts, &s->line, e);
	return rc ? rc : delay_rules_install(&s->rules, spec, e);
}

/* ---- as a whole ---- */
static int check_backend(const struct shape_spec *spec, struct bace_err *e)
{
	if (spec->delay == DELAY_NFQUEUE)
		for (int i = 0; i < spec->n_links; i++)
			if (fate_check(&spec->links[i], e))
				return -e->errnum;
	if (spec->delay == DELAY_NONE && any_delayed(spec))
		return bace_fail(e, EINVAL, "links have a latency or loss, but no delay backend is chosen");
	return 0;
}

static int apply_all(struct shaping *s, const struct shape_spec *spec, const struct shape_plan *plan,
		     size_t *n_changes, struct bace_err *e)
{
	int rc = clear_abandoned(s, plan, e);

	if (!rc)
		rc = apply_tc(s, &plan->egress, n_changes, e);
	if (!rc)
		rc = apply_tc(s, &plan->ingress, n_changes, e);
	if (!rc)
		rc = apply_line(s, spec, plan, e);
	return rc ? rc : apply_gso(s, spec, n_changes, e);
}

static int keep_spec(struct shaping *s, const struct shape_spec *spec)
{
	size_t n = (size_t)spec->n_links;
	struct shape_link *links = calloc(n + 1, sizeof(*links));

	if (!links)
		return -ENOMEM;
	if (n)
		memcpy(links, spec->links, n * sizeof(*links));
	free(s->spec.links);
	s->spec = *spec;
	s->spec.links = links;
	s->active = true;
	return 0;
}

static void put_back(struct shaping *s, struct bace_err *e)
{
	struct bace_err second = { 0 }, first = *e;
	struct shape_plan plan;
	size_t ignored = 0;
	int rc;

	if (s->active) {
		rc = plan_build(&s->spec, &plan, &second);
		if (!rc)
			rc = apply_all(s, &s->spec, &plan, &ignored, &second);
		plan_free(&plan);
	} else {
		rc = shaping_clear(s, &second);
	}
	if (rc)
		bace_fail(e, first.errnum, "%.280s; and what was there before could not be put back: %.150s",
			  first.msg, second.msg);
}

int shaping_apply(struct shaping *s, const struct shape_spec *spec, size_t *n_changes, struct bace_err *e)
{
	struct bace_err scratch;
	struct shape_plan plan;
	size_t changes = 0;
	int rc;

	e = e ? e : &scratch;
	rc = check_backend(spec, e);
	if (!rc)
		rc = plan_build(spec, &plan, e);
	if (rc)
		return rc;
	rc = apply_all(s, spec, &plan, &changes, e);
	plan_free(&plan);
	if (rc)
		put_back(s, e);
	else if (keep_spec(s, spec))
		rc = bace_fail(e, ENOMEM, "out of memory");
	if (n_changes)
		*n_changes = changes;
	return rc;
}

int shaping_clear(struct shaping *s, struct bace_err *e)
{
	struct bace_err later;
	int rc = stop_line(s, e);

	for (size_t i = 0; i < s->n_touched; i++) {
		int rc_tc = clear_tc(s, &s->touched[i], rc ? &later : e);
		int rc_gso;

		rc = rc ? rc : rc_tc;
		rc_gso = restore_gso(s, &s->touched[i], rc ? &later : e);
		rc = rc ? rc : rc_gso;
	}
	if (!rc)
		s->n_touched = 0;
	s->active = false;
	return rc;
}

int shaping_stats(struct shaping *s, struct shape_stats *out, struct bace_err *e)
{
	if (!s->active) {
		*out = (struct shape_stats){ .at_ns = bace_mono_ns(), .delay_alive = true };
		return 0;
	}
	return stats_read(&s->nl, &s->spec, s->line, out, e);
}
