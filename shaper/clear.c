/* The way back: of one interface, of all, and of what a dead process left. */
#include <errno.h>
#include <string.h>

#include "shaper/shaping_state.h"

/* The first error is the one that is told; the rest is done whatever it was. */
static int first_of(int rc, int next)
{
	return rc ? rc : next;
}

/* Nothing there but a kernel default? */
static bool stands_empty(struct shaping *s, const char *ifname)
{
	struct snapshot now = { 0 };
	struct if_info info;
	bool empty = !kernel_if_info(&s->nl, ifname, &info, NULL) && !snapshot_take(&s->nl, &info, &now, NULL) && !now.n;

	snapshot_free(&now);
	return empty;
}

int shaping_clear_tc(struct shaping *s, struct journal_entry *t, size_t *n_changes, struct bace_err *e)
{
	struct if_state nothing = { 0 };
	size_t sent = 0;
	int rc;

	if (!t->tc)
		return 0;
	memcpy(nothing.ifname, t->ifname, sizeof(nothing.ifname));
	rc = kernel_apply(&s->nl, &nothing, &sent, e);
	*n_changes += sent;
	t->owed |= sent > 0;
	if (!rc && t->before.n && (t->owed || stands_empty(s, t->ifname)))
		rc = snapshot_restore(&s->nl, &t->before, e);
	else if (!rc && t->before.n)
		bace_log(BACE_WARN, "shaper", "%s has a qdisc that somebody put in the place of ours: it stays", t->ifname);
	/* The interface went away, and its qdiscs with it. */
	if (!rc || rc == -ENODEV)
		t->tc = t->owed = false;
	return rc == -ENODEV ? 0 : rc;
}

int shaping_stop_line(struct shaping *s, struct bace_err *e)
{
	/* The rule first: packets that wait leave, later ones pass by. */
	int rc = delay_rules_remove(&s->rules, e);

	delay_line_stop(s->line);
	s->line = NULL;
	return rc;
}

static int clear_interfaces(struct shaping *s, struct bace_err *e)
{
	struct bace_err later;
	size_t ignored = 0;
	int rc = 0;

	for (size_t i = 0; i < s->touched.n; i++) {
		rc = first_of(rc, shaping_clear_tc(s, &s->touched.v[i], &ignored, rc ? &later : e));
		rc = first_of(rc, shaping_restore_gso(s, &s->touched.v[i], rc ? &later : e));
	}
	return rc;
}

int shaping_clear(struct shaping *s, struct bace_err *e)
{
	struct bace_err later;
	int rc;

	watch_pause(&s->watch);
	player_free(&s->player);
	s->drift_check_ns = s->rules_check_ns = 0;
	s->lost = (struct bace_err){ 0 };
	rc = shaping_stop_line(s, e);
	rc = first_of(rc, clear_interfaces(s, rc ? &later : e));
	s->active = false;
	/* What could not be undone stays in the journal. */
	if (rc)
		return rc;
	if (s->config.journal_dir && s->touched.n)
		rc = journal_remove(s->config.journal_dir, e);
	journal_free(&s->touched);
	return rc;
}

bool shaping_owes(const struct shaping *s)
{
	return !s->active && (delay_rules_installed(&s->rules) || s->touched.n);
}

/* What is ours says so by its handle: a journal is not needed to find it. */
static int clear_by_handle(struct shaping *s, struct bace_err *e)
{
	struct if_nameindex *all = if_nameindex();
	struct bace_err later;
	int rc = 0;

	for (struct if_nameindex *i = all; i && i->if_index; i++) {
		struct if_state nothing = { 0 };
		size_t sent = 0;
		int rc_one;

		snprintf(nothing.ifname, sizeof(nothing.ifname), "%s", i->if_name);
		rc_one = kernel_apply(&s->nl, &nothing, &sent, rc ? &later : e);
		if (!rc_one && sent)
			bace_log(BACE_INFO, "shaper", "removed the shaping of %s", i->if_name);
		rc = first_of(rc, rc_one == -ENODEV ? 0 : rc_one);
	}
	if_freenameindex(all);
	return rc;
}

static int clear_by_journal(struct shaping *s, const char *dir, struct bace_err *e)
{
	struct bace_err why = { 0 };
	int rc = journal_read(dir, &s->touched, &why);

	if (!rc)
		return shaping_clear(s, e);
	/* Ours can be told without it; what was there before cannot. */
	if (rc == -EBADMSG)
		bace_log(BACE_WARN, "shaper", "%s", why.msg);
	return rc == -ENOENT || rc == -EBADMSG ? 0 : bace_fail(e, -rc, "%s", why.msg);
}

int shaping_clear_leftovers(const char *journal_dir, struct bace_err *e)
{
	const struct shaping_config c = { .journal_dir = journal_dir };
	struct bace_err later;
	struct shaping *s;
	int rc = shaping_open(&c, &s, e);

	if (rc)
		return rc;
	rc = delay_rules_clear_leftovers(e);
	if (journal_dir)
		rc = first_of(rc, clear_by_journal(s, journal_dir, rc ? &later : e));
	rc = first_of(rc, clear_by_handle(s, rc ? &later : e));
	shaping_close(s);
	return rc;
}
