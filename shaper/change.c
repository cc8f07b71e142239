/* New values for links that are shaped, one message each. */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/jitter.h"
#include "shaper/plan.h"
#include "shaper/shaping_state.h"

#define PERIOD_MIN_NS 1000000LL
/* Three years: sums of two such times and a clock stay far from overflowing. */
#define TIME_MAX_NS 100000000000000000LL

struct edit {
	int link;
	struct shape_link before, after;
};

static int find_link(const struct shape_spec *s, uint16_t region)
{
	for (int i = 0; i < s->n_links; i++)
		if (s->links[i].region == region)
			return i;
	return -1;
}

static int check_change(const struct shape_change *v, const struct shape_link *l, struct bace_err *e)
{
	if (v->set & ~(SHAPE_SET_RATE | SHAPE_SET_LATENCY | SHAPE_SET_LOSS))
		return bace_fail(e, EINVAL, "link `%s': unknown values to change", l->name);
	if (v->set & SHAPE_SET_RATE && !l->rate_bps)
		return bace_fail(e, EINVAL, "link `%s': the plan does not limit its rate, so it cannot be changed in place",
				 l->name);
	if (v->set & SHAPE_SET_RATE && !v->rate_bps)
		return bace_fail(e, EINVAL, "link `%s': rate 0: must be 8 kbit/s to 4 Tbit/s", l->name);
	if (v->set & (SHAPE_SET_LATENCY | SHAPE_SET_LOSS) && !plan_link_is_delayed(l))
		return bace_fail(e, EINVAL, "link `%s': the plan gives it neither latency nor loss, so they cannot be changed in place", l->name);
	if (v->set & SHAPE_SET_LOSS && l->impair.loss_model != LOSS_RANDOM)
		return bace_fail(e, EINVAL, "link `%s': its loss follows a model, not a probability", l->name);
	return 0;
}

static int prepare(struct shaping *s, const struct shape_change *v, struct edit *x, struct bace_err *e)
{
	int rc;

	x->link = find_link(&s->spec, v->region);
	if (x->link < 0)
		return bace_fail(e, ENOENT, "no link to region number %u is shaped here", v->region);
	x->before = x->after = s->spec.links[x->link];
	rc = check_change(v, &x->before, e);
	if (rc)
		return rc;
	if (v->set & SHAPE_SET_RATE)
		x->after.rate_bps = v->rate_bps;
	if (v->set & SHAPE_SET_LATENCY)
		x->after.latency_ns = v->latency_ns;
	if (v->set & SHAPE_SET_LOSS)
		x->after.loss = v->loss;
	/* The delay queue stays in place, ready for the next change. */
	if (!plan_link_is_delayed(&x->after) && plan_link_is_delayed(&x->before))
		x->after.latency_ns = 1;
	return spec_check_link(&x->after, e);
}

/* ---- tc ---- */
struct objects {
	struct tcobj *v;
	size_t n[2];	/* on the egress, then on the inner interface */
};

static bool netem(const struct shaping *s)
{
	return s->spec.delay == DELAY_NETEM;
}

/* Of the links that really change: classes first, then netems. */
static void collect(const struct shaping *s, const struct edit *x, int n, bool back, struct objects *o)
{
	for (int i = 0; i < n; i++) {
		const struct shape_link *l = back ? &x[i].before : &x[i].after;

		if (x[i].before.rate_bps != x[i].after.rate_bps)
			o->v[o->n[0]++] = plan_link_class(&s->spec, l);
	}
	for (int i = 0; i < n && netem(s); i++) {
		const struct shape_link *l = back ? &x[i].before : &x[i].after;

		if (x[i].before.latency_ns != x[i].after.latency_ns || x[i].before.loss != x[i].after.loss)
			o->v[o->n[0] + o->n[1]++] = plan_link_netem(&s->spec, l);
	}
}

static int put_all(struct netlink_batch *b, const struct tcobj *v, size_t n, int ifindex)
{
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		const struct plan_step step = { .verb = PLAN_CHANGE, .o = &v[i] };

		rc = kernel_put_step(b, ifindex, &step);
	}
	return rc;
}

/* What the kernel shows after each change comes back with it. */
struct echo {
	const struct objects *asked;
	size_t n_same;
};

static void on_echo(const struct nlmsghdr *nlh, size_t index, void *arg)
{
	struct echo *x = arg;
	const struct tcmsg *tc = mnl_nlmsg_get_payload(nlh);
	struct tcobj now;

	if (mnl_nlmsg_get_payload_len(nlh) >= sizeof(*tc) && !kernel_parse_tc(nlh, tc->tcm_ifindex, &now) &&
	    tcobj_equal(&x->asked->v[index], &now))
		x->n_same++;
}

static int send_objects(struct shaping *s, const struct objects *o, struct bace_err *e)
{
	struct echo echo = { .asked = o };
	struct netlink_batch b = { .on_echo = on_echo, .echo_arg = &echo };
	int rc = put_all(&b, o->v, o->n[0], s->ifindex[0]);

	if (!rc)
		rc = put_all(&b, o->v + o->n[0], o->n[1], s->ifindex[1]);
	if (!rc && b.n)
		rc = netlink_batch_send(&s->nl, &b);
	if (rc)
		bace_fail(e, -rc, "change a link in place: %s%s%s", strerror(-rc), b.n_failed && b.first.text[0] ? ": " : "",
			  b.n_failed ? b.first.text : "");
	else if (echo.n_same != b.n)
		rc = bace_fail(e, EIO, "read back: the kernel took %zu changes and shows %zu of them", b.n, echo.n_same);
	netlink_batch_free(&b);
	return rc;
}

static int change_tc(struct shaping *s, const struct edit *x, int n, struct bace_err *e)
{
	CLEANUP_FREE struct tcobj *v = calloc(2 * (size_t)n, sizeof(*v));
	struct objects o = { .v = v };
	int rc;

	if (!v)
		return bace_fail(e, ENOMEM, "out of memory");
	collect(s, x, n, false, &o);
	rc = send_objects(s, &o, e);
	if (rc) {
		struct bace_err second;

		o = (struct objects){ .v = v };
		collect(s, x, n, true, &o);
		send_objects(s, &o, &second);
	}
	return rc;
}

int shaping_renew_tables(struct shaping *s, const struct shape_spec *before, const struct shape_spec *spec,
			 size_t *n_changes, struct bace_err *e)
{
	CLEANUP_FREE struct tcobj *v = calloc((size_t)spec->n_links + 1, sizeof(*v));
	struct objects o = { .v = v };
	int rc;

	if (!v)
		return bace_fail(e, ENOMEM, "out of memory");
	/* Elsewhere every netem is a new one. */
	if (!s->active || before->delay != DELAY_NETEM || spec->delay != DELAY_NETEM || strcmp(spec->ingress, before->ingress))
		return 0;
	for (int i = 0; i < spec->n_links; i++) {
		const struct shape_link *l = &spec->links[i];
		int k = find_link(before, l->region);

		if (l->jitter_ns && k >= 0 && before->links[k].jitter_ns &&
		    !jitter_is_same(spec, l, before, &before->links[k]))
			v[o.n[1]++] = plan_link_netem(spec, l);
	}
	rc = o.n[1] ? send_objects(s, &o, e) : 0;
	*n_changes += rc ? 0 : o.n[1];
	return rc;
}

static void keep_links(struct shaping *s, const struct edit *x, int n, bool back)
{
	for (int i = 0; i < n; i++)
		s->spec.links[x[i].link] = back ? x[i].before : x[i].after;
}

static int make_changes(struct shaping *s, const struct edit *x, int n, struct bace_err *e)
{
	uint32_t before = plan_queue_limit(&s->spec), after;
	int rc = 0;

	keep_links(s, x, n, false);
	after = plan_queue_limit(&s->spec);
	/* Room comes first: alone it changes nothing. */
	if (s->line && after > before)
		rc = delay_line_set_max(s->line, after, e);
	if (!rc)
		rc = change_tc(s, x, n, e);
	if (rc) {
		keep_links(s, x, n, true);
		s->known = false;
	}
	for (int i = 0; i < n && !rc && s->line; i++)
		delay_line_change(s->line, &x[i].after);
	return rc;
}

int shaping_change(struct shaping *s, const struct shape_change *v, int n, struct bace_err *e)
{
	CLEANUP_FREE struct edit *x = calloc((size_t)n + 1, sizeof(*x));
	int rc = 0;

	if (!x)
		return bace_fail(e, ENOMEM, "out of memory");
	if (!s->active)
		return bace_fail(e, ENOENT, "nothing is shaped here: there is nothing to change");
	for (int i = 0; i < n && !rc; i++) {
		rc = prepare(s, &v[i], &x[i], e);
		/* Each would be worked out from the link as it was, and the last one win. */
		for (int k = 0; k < i && !rc; k++)
			if (x[k].link == x[i].link)
				rc = bace_fail(e, EINVAL, "link `%s' is changed twice at once: name it once, with all that changes",
					       x[i].before.name);
	}
	return rc ? rc : make_changes(s, x, n, e);
}

/* ---- traces ---- */
/* What cannot be set is refused now, not in the middle of a run. */
static int check_trace(struct shaping *s, uint16_t region, struct shape_trace *t, bool loop, struct bace_err *e)
{
	int64_t last_ns = 0;

	for (size_t i = 0; i < t->n; i++) {
		struct edit x;

		if (t->v[i].at_ns < last_ns || t->v[i].at_ns > TIME_MAX_NS)
			return bace_fail(e, EINVAL, "point %zu of the trace %s", i,
					 t->v[i].at_ns < last_ns ? "goes back in time" : "is years away");
		last_ns = t->v[i].at_ns;
		t->v[i].to.region = region;
		if (prepare(s, &t->v[i].to, &x, e))
			return bace_err_context(e, "trace, at %.3f s", (double)last_ns / 1e9);
	}
	if (loop && (t->period_ns < last_ns || t->period_ns < PERIOD_MIN_NS || t->period_ns > TIME_MAX_NS))
		return bace_fail(e, EINVAL, "a trace whose round takes %.6f s cannot be looped", (double)t->period_ns / 1e9);
	return 0;
}

int shaping_play(struct shaping *s, uint16_t region, struct shape_trace *t, bool loop, int64_t start_real_ns,
		 struct bace_err *e)
{
	int64_t now = bace_mono_ns(), wall = bace_wall_ns(), start = now, from_now;
	int rc;

	if (!s->active || find_link(&s->spec, region) < 0)
		return bace_fail(e, ENOENT, "no link to region number %u is shaped here", region);
	if (!t->n) {
		player_stop(&s->player, region);
		return 0;
	}
	rc = check_trace(s, region, t, loop, e);
	if (rc)
		return rc;
	if (start_real_ns) {
		if (__builtin_sub_overflow(start_real_ns, wall, &from_now) || llabs(from_now) > TIME_MAX_NS)
			return bace_fail(e, EINVAL, "a trace that starts years from now");
		start = now + from_now;
	}
	return player_start(&s->player, region, t, loop, start, now) ? bace_fail(e, ENOMEM, "out of memory") : 0;
}

bool shaping_playing(const struct shaping *s)
{
	return player_next_ns(&s->player) != INT64_MAX;
}

int64_t shaping_next_ns(const struct shaping *s)
{
	const int64_t checks[] = { s->drift_check_ns, s->rules_check_ns };
	int64_t next = player_next_ns(&s->player);

	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		if (checks[i] && checks[i] < next)
			next = checks[i];
	return next;
}

static void play_due(struct shaping *s, int64_t now_ns)
{
	struct shape_change due[32];
	struct bace_err e = { 0 };
	int64_t due_ns;
	int n = player_take(&s->player, now_ns, due, ARRAY_LEN(due), &due_ns);

	if (!n)
		return;
	if (shaping_change(s, due, n, &e)) {
		bace_log(BACE_ERROR, "shaper", "trace: %s", e.msg);
		s->lost = e;
		player_free(&s->player);
		return;
	}
	player_note(&s->player, n, bace_mono_ns() - due_ns);
}

void shaping_run_due(struct shaping *s)
{
	int64_t now = bace_mono_ns();

	if (player_next_ns(&s->player) <= now)
		play_due(s, now);
	if (s->drift_check_ns && s->drift_check_ns <= now)
		shaping_check_drift(s);
	if (s->rules_check_ns && s->rules_check_ns <= now)
		shaping_check_rules(s);
}
