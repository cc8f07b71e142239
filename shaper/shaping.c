#include "shaper/shaping.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/guard.h"
#include "shaper/scratch.h"
#include "shaper/shaping_state.h"
#include "shaper/stats.h"

int shaping_open(const struct shaping_config *c, struct shaping **out, struct bace_err *e)
{
	struct shaping *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return bace_fail(e, ENOMEM, "out of memory");
	s->config = *c;
	rc = netlink_open(&s->nl, NETLINK_ROUTE, e);
	if (!rc)
		rc = watch_open(&s->watch, e);
	if (rc) {
		netlink_close(&s->nl);
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
	watch_close(&s->watch);
	netlink_close(&s->nl);
	player_free(&s->player);
	shape_spec_free(&s->spec);
	journal_free(&s->touched);
	free(s);
}

bool shaping_active(const struct shaping *s)
{
	return s->active;
}

bool shaping_fails_closed(const struct shaping *s)
{
	return s->spec.fail_closed;
}

int shaping_dead_fd(const struct shaping *s)
{
	return s->line ? delay_line_fd(s->line) : -1;
}

struct journal_entry *shaping_touched(struct shaping *s, const char *ifname)
{
	for (size_t i = 0; i < s->touched.n; i++)
		if (!strcmp(s->touched.v[i].ifname, ifname))
			return &s->touched.v[i];
	return NULL;
}

struct journal_entry *shaping_touch(struct shaping *s, const char *ifname, struct bace_err *e)
{
	struct journal_entry *t = shaping_touched(s, ifname), fresh = { 0 };

	if (t)
		return t;
	snprintf(fresh.ifname, sizeof(fresh.ifname), "%s", ifname);
	if (BACE_PUSH(s->touched.v, s->touched.n, s->touched.cap, fresh)) {
		bace_fail(e, ENOMEM, "out of memory");
		return NULL;
	}
	return &s->touched.v[s->touched.n - 1];
}

int shaping_keep_journal(struct shaping *s, struct bace_err *e)
{
	return s->config.journal_dir ? journal_write(s->config.journal_dir, &s->touched, e) : 0;
}

/* ---- tc ---- */
/* Is it there, fit for use, and not the way to this machine? */
static int check_usable(struct shaping *s, const char *ifname, const struct shape_spec *spec, struct if_info *info,
			struct bace_err *e)
{
	int rc = kernel_if_info(&s->nl, ifname, info, e);

	if (!rc)
		rc = guard_check_usable(info, e);
	if (!rc && s->config.guard && !spec->allow_control_interface)
		rc = guard_check_default_route(&s->nl, info, e);
	return rc;
}

static int prepare_tc(struct shaping *s, const struct if_state *want, const struct shape_spec *spec,
		      struct bace_err *e)
{
	struct journal_entry *t;
	struct if_info info;
	int rc;

	if (!want->ifname[0] || !want->n)
		return 0;
	rc = check_usable(s, want->ifname, spec, &info, e);
	if (rc)
		return rc;
	t = shaping_touch(s, want->ifname, e);
	if (!t)
		return -ENOMEM;
	if (t->tc)
		return 0;
	snapshot_free(&t->before);
	rc = snapshot_take(&s->nl, &info, &t->before, e);
	if (rc || (!t->before.n && !t->before.incomplete))
		return rc;
	if (s->config.guard && !spec->replace_foreign)
		return bace_fail(e, EEXIST, "interface `%s' has a qdisc that somebody made (%s): --replace saves it, shapes, and puts it back afterwards",
				 want->ifname, snapshot_root_kind(&t->before));
	return snapshot_rehearse(&t->before, e);
}

/* What is given back is the journal's no longer: whoever changes it then would
 * find his work undone after a crash. */
static int give_back(struct shaping *s, struct journal_entry *t, size_t *n_changes, struct bace_err *e)
{
	bool was_ours = t->tc;
	int rc = shaping_clear_tc(s, t, n_changes, e);

	return rc || !was_ours ? rc : shaping_keep_journal(s, e);
}

static int apply_tc(struct shaping *s, const struct if_state *want, size_t *n_changes, struct bace_err *e)
{
	struct journal_entry *t;
	size_t sent = 0;
	int rc;

	if (!want->ifname[0])
		return 0;
	t = shaping_touched(s, want->ifname);
	if (!want->n)
		return t ? give_back(s, t, n_changes, e) : 0;
	if (!t->tc) {
		t->tc = true;
		rc = shaping_keep_journal(s, e);
		if (rc)
			return rc;
	}
	rc = kernel_apply(&s->nl, want, &sent, e);
	*n_changes += sent;
	return rc;
}

static bool in_plan(const struct shape_plan *p, const char *ifname)
{
	return !strcmp(p->egress.ifname, ifname) || !strcmp(p->ingress.ifname, ifname);
}

static int clear_abandoned(struct shaping *s, const struct shape_plan *p, size_t *n_changes, struct bace_err *e)
{
	int rc = 0;

	for (size_t i = 0; i < s->touched.n && !rc; i++)
		if (!in_plan(p, s->touched.v[i].ifname))
			rc = give_back(s, &s->touched.v[i], n_changes, e);
	return rc;
}

/* ---- the delay line ---- */
static bool needs_line(const struct shape_spec *spec)
{
	return spec->delay == DELAY_NFQUEUE && plan_delays(spec);
}

static int apply_line(struct shaping *s, const struct shape_spec *spec, const struct shape_plan *plan,
		      size_t *n_changes, struct bace_err *e)
{
	int rc;

	if (!needs_line(spec))
		return s->line ? shaping_stop_line(s, e) : 0;
	/* The queue exists before anything is sent to it. */
	if (s->line)
		rc = delay_line_update(s->line, spec, plan->queue_limit_pkts, e);
	else
		rc = delay_line_start(spec, plan->queue_limit_pkts, &s->line, e);
	return rc ? rc : delay_rules_install(&s->rules, spec, n_changes, e);
}

/* ---- as a whole ---- */
/* Everything that can be refused is, before the first change. */
static int prepare(struct shaping *s, const struct shape_spec *spec, const struct shape_plan *plan, struct bace_err *e)
{
	struct if_info ignored;
	/* Links that are only delayed leave the egress without tc state, not untouched. */
	int rc = needs_line(spec) ? check_usable(s, spec->egress, spec, &ignored, e) : 0;

	if (!rc)
		rc = prepare_tc(s, &plan->egress, spec, e);
	return rc ? rc : prepare_tc(s, &plan->ingress, spec, e);
}

/* `before': what was planned until now, or was begun. */
static int apply_all(struct shaping *s, const struct shape_spec *before, const struct shape_spec *spec,
		     const struct shape_plan *plan, size_t *n_changes, struct bace_err *e)
{
	int rc = prepare(s, spec, plan, e);

	if (!rc)
		rc = clear_abandoned(s, plan, n_changes, e);
	if (!rc)
		rc = apply_tc(s, &plan->egress, n_changes, e);
	if (!rc)
		rc = apply_tc(s, &plan->ingress, n_changes, e);
	if (!rc)
		rc = apply_line(s, spec, plan, n_changes, e);
	if (!rc)
		rc = shaping_apply_gso(s, spec, n_changes, e);
	return rc ? rc : shaping_renew_tables(s, before, spec, n_changes, e);
}

void shaping_keep_indices(struct shaping *s, const struct shape_plan *plan)
{
	const struct if_state *const sides[] = { &plan->egress, &plan->ingress };

	for (size_t i = 0; i < ARRAY_LEN(sides); i++)
		s->ifindex[i] = sides[i]->n ? (int)if_nametoindex(sides[i]->ifname) : 0;
}

static int keep_spec(struct shaping *s, const struct shape_spec *spec)
{
	struct shape_spec copy;

	if (shape_spec_copy(&copy, spec))
		return -ENOMEM;
	shape_spec_free(&s->spec);
	s->spec = copy;
	s->active = true;
	return 0;
}

/* A plan ends the traces that played on the one before. */
static void begin_anew(struct shaping *s, const struct shape_plan *plan)
{
	shaping_keep_indices(s, plan);
	player_free(&s->player);
	s->lost = (struct bace_err){ 0 };
	s->drift_check_ns = 0;
	shaping_watch_rules(s);
}

static void put_back(struct shaping *s, const struct shape_spec *failed, struct bace_err *e)
{
	struct bace_err second = { 0 }, first = *e;
	struct shape_plan plan;
	size_t ignored = 0;
	int rc;

	if (s->active) {
		rc = plan_build(&s->spec, &plan, &second);
		if (!rc)
			rc = apply_all(s, failed, &s->spec, &plan, &ignored, &second);
		plan_free(&plan);
	} else {
		rc = shaping_clear(s, &second);
	}
	if (rc)
		bace_fail(e, first.errnum, "%.280s; and what was there before could not be put back: %.150s",
			  first.msg, second.msg);
}

/* In whose words does this kernel refuse a netem that duplicates beside another one; NULL: it
 * does not, or it cannot be tried. Found out once: the kernel stays the same. */
static const char *refuses_duplicates(void)
{
	static struct bace_err said;
	static bool tried;
	int rc;

	if (!tried) {
		rc = scratch_try_duplicate(&said);
		tried = !rc || rc == -EINVAL;
	}
	return tried && strstr(said.msg, "duplicating") ? said.msg : NULL;
}

/* Pitfall: since Linux 6.16, and what took its fix, netem is refused where one of several
 * on an interface duplicates, in words that speak of trees. Tried before anything changes. */
static int check_duplicates(const struct shape_spec *spec, struct bace_err *e)
{
	const struct shape_link *duplicates = NULL;
	const char *words;
	int delayed = 0;

	for (int i = 0; i < spec->n_links && spec->delay == DELAY_NETEM; i++) {
		delayed += plan_link_is_delayed(&spec->links[i]);
		if (spec->links[i].impair.duplicate > 0)
			duplicates = &spec->links[i];
	}
	/* Where it cannot be tried, the kernel says it in its own words. */
	if (!duplicates || delayed < 2 || !(words = refuses_duplicates()))
		return 0;
	return bace_fail(e, ENOTSUP, "link `%s': this kernel's netem does not duplicate packets beside another link's netem on one interface, only where it is the one link that is delayed (%.290s)",
			 duplicates->name, words);
}

/* Nothing is to be done about tc: this is what is there, nobody else touched it, no trace plays. */
static bool stands(struct shaping *s)
{
	if (!s->known || s->lost.errnum || shaping_playing(s))
		return false;
	shaping_on_notification(s);
	return s->known;
}

/* What tells nobody when it changes is looked at all the same. */
static int apply_beside_tc(struct shaping *s, const struct shape_spec *spec, size_t *n_changes, struct bace_err *e)
{
	const struct shape_plan plan = { .queue_limit_pkts = plan_queue_limit(spec) };
	const char *const sides[] = { spec->egress, spec->ingress };
	struct if_info ignored;
	int rc = 0;

	for (size_t i = 0; i < ARRAY_LEN(sides) && !rc; i++)
		rc = s->ifindex[i] ? check_usable(s, sides[i], spec, &ignored, e) : 0;
	if (!rc)
		rc = apply_line(s, spec, &plan, n_changes, e);
	return rc ? rc : shaping_apply_gso(s, spec, n_changes, e);
}

int shaping_apply(struct shaping *s, const struct shape_spec *spec, size_t *n_changes, struct bace_err *e)
{
	struct bace_err scratch;
	struct shape_plan plan;
	size_t changes = 0;
	bool same = s->active && shape_spec_is_same(spec, &s->spec);
	int rc;

	e = e ? e : &scratch;
	if (same && stands(s)) {
		rc = apply_beside_tc(s, spec, &changes, e);
		if (!rc && n_changes)
			*n_changes = changes;
		if (!rc)
			return 0;
		changes = 0;
	}
	rc = spec_check_backend(spec, e);
	if (!rc)
		rc = check_duplicates(spec, e);
	if (!rc)
		rc = plan_build(spec, &plan, e);
	if (rc)
		return rc;
	s->known = false;
	/* The plan that is there is not expected to change anything: whoever does is to be heard. */
	if (!same)
		watch_pause(&s->watch);
	rc = apply_all(s, &s->spec, spec, &plan, &changes, e);
	if (rc)
		put_back(s, spec, e);
	else if (keep_spec(s, spec))
		rc = bace_fail(e, ENOMEM, "out of memory");
	else
		begin_anew(s, &plan);
	/* Read while changes were told of: from now on silence means that nothing changed. */
	s->known = !rc && same && !changes;
	plan_free(&plan);
	if (s->active) {
		int rc_watch = watch_resume(&s->watch, rc ? NULL : e);

		rc = rc ? rc : rc_watch;
	}
	if (n_changes)
		*n_changes = changes;
	return rc;
}

int shaping_stats(struct shaping *s, struct shape_stats *out, struct bace_err *e)
{
	int rc = 0;

	if (s->active)
		rc = stats_read(&s->nl, &s->spec, s->line, out, e);
	else
		*out = (struct shape_stats){ .at_ns = bace_mono_ns(), .delay_alive = true };
	if (rc)
		return rc;
	out->drift_repairs = s->drift_repairs;
	out->trace_changes = s->player.changes;
	out->trace_late_p99_ns = lateness_quantile_ns(&s->player.late, 0.99);
	out->trace_late_max_ns = s->player.late.max_ns;
	return 0;
}
