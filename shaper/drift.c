/* What somebody else changed is put back, counted and said. */
#include <errno.h>
#include <string.h>

#include "shaper/plan.h"
#include "shaper/shaping_state.h"

/* Somebody who insists is answered at this pace, not at his. */
#define REPAIR_GAP_NS 100000000LL
/* Nothing tells of changes to iptables. */
#define RULES_CHECK_NS 2000000000LL

int shaping_watch_fd(const struct shaping *s)
{
	return watch_fd(&s->watch);
}

static int indices(struct shaping *s, int ifindex[2])
{
	const char *const names[] = { s->spec.egress, s->spec.ingress };
	int n = 0;

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (names[i][0] && s->ifindex[i])
			ifindex[n++] = s->ifindex[i];
	return n;
}

void shaping_on_notification(struct shaping *s)
{
	int ifindex[2], n = indices(s, ifindex);
	int64_t soonest = s->drift_checked_ns + REPAIR_GAP_NS;

	if (!watch_read(&s->watch, s->nl.portid, ifindex, n))
		return;
	s->known = false;
	if (!s->active || s->drift_check_ns)
		return;
	s->drift_check_ns = bace_mono_ns();
	if (s->drift_check_ns < soonest)
		s->drift_check_ns = soonest;
}

static int repair(struct shaping *s, const struct if_state *want, struct bace_err *e)
{
	size_t sent = 0;
	int rc;

	if (!want->ifname[0] || !want->n)
		return 0;
	rc = kernel_apply(&s->nl, want, &sent, e);
	if (rc || !sent)
		return rc;
	s->drift_repairs++;
	bace_log(BACE_WARN, "shaper", "somebody changed the shaping of %s: put back (%zu changes)", want->ifname, sent);
	return 0;
}

void shaping_check_drift(struct shaping *s)
{
	struct bace_err e = { 0 };
	struct shape_plan plan;
	int rc;

	s->drift_check_ns = 0;
	if (!s->active)
		return;
	rc = plan_build(&s->spec, &plan, &e);
	if (!rc)
		rc = repair(s, &plan.egress, &e);
	if (!rc)
		rc = repair(s, &plan.ingress, &e);
	/* What was deleted and made again has another number. */
	if (!rc)
		shaping_keep_indices(s, &plan);
	plan_free(&plan);
	s->drift_checked_ns = bace_mono_ns();
	if (!rc)
		return;
	s->lost = e;
	bace_log(BACE_ERROR, "shaper", "somebody changed the shaping and it could not be put back: %s", e.msg);
}

void shaping_watch_rules(struct shaping *s)
{
	s->rules_check_ns = s->active && delay_rules_installed(&s->rules) ? bace_mono_ns() + RULES_CHECK_NS : 0;
}

void shaping_check_rules(struct shaping *s)
{
	struct bace_err e = { 0 };
	int rc = delay_rules_stand(&s->rules, &e);

	if (rc < 0) {
		/* One that cannot be looked at now is looked for again. */
		bace_log(BACE_WARN, "shaper", "%s", e.msg);
	} else if (!rc && delay_rules_install(&s->rules, &s->spec, NULL, &e)) {
		s->lost = e;
		bace_log(BACE_ERROR, "shaper", "somebody removed the delay line's rule and it could not be put back: %s", e.msg);
	} else if (!rc) {
		s->drift_repairs++;
		bace_log(BACE_WARN, "shaper", "somebody removed the delay line's rule: put back; what came meanwhile was not delayed");
	}
	shaping_watch_rules(s);
}

int shaping_lost(const struct shaping *s, struct bace_err *e)
{
	return s->lost.errnum ? bace_fail(e, EIO, "the shaping was lost: %s", s->lost.msg) : 0;
}
