/*
 * A script: monitoring on and off, and changes of links' rates, at given times,
 * beside a cell or alone. One action at a time; each is over when all hosts have
 * confirmed it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/control/divide.h"

#define MODULE "script"
#define ESTIMATES_MAX 2000000

struct script_run {
	struct controller *c;
	const struct tb_script *s;
	struct tb_log *log;
	int64_t origin_ns;
	int next;			/* action; -1: preparing; s->n: putting back */
	int waiting;
	bool *watched;			/* [n_regions^2] */
	struct event *timer;
	script_done_fn done;
	void *arg;
	void (*stretch)(void *arg, int ppm);
	void *stretch_arg;
	struct tb_acted acted;		/* of the one that runs */
	struct tb_acted end;
	size_t cap_estimates;
	struct bace_err e;
};

static void begin_action(struct script_run *r);

const struct shape_spec *host_shape(const struct host *h)
{
	return h->now.n_links ? &h->now : &h->spec->shape;
}

void script_set_stretch(struct controller *c, void (*fn)(void *arg, int ppm), void *arg)
{
	if (!c->script)
		return;
	c->script->stretch = fn;
	c->script->stretch_arg = arg;
}

void script_note(struct controller *c, int src, int dst, enum tb_method method, bool lower_bound,
		 double rate_bps, double error_bps)
{
	struct script_run *r = c->script;
	size_t n;

	if (!r || !r->watched[src * c->cfg.topo->n_regions + dst] || r->log->n_estimates >= ESTIMATES_MAX)
		return;
	n = (size_t)r->log->n_estimates;
	if (!BACE_PUSH(r->log->estimates, n, r->cap_estimates, ((struct tb_estimate){ .src = src, .dst = dst,
		.method = method, .lower_bound = lower_bound, .at_ns = bace_mono_ns(), .rate_bps = rate_bps,
		.error_bps = error_bps })))
		r->log->n_estimates = (int)n;
}

static void arm(struct script_run *r, int64_t at_ns)
{
	int64_t left = at_ns - bace_mono_ns();
	struct timeval tv = { 0 };

	if (left > 0)
		tv = (struct timeval){ .tv_sec = (time_t)(left / 1000000000),
				       .tv_usec = (suseconds_t)(left % 1000000000 / 1000) };
	event_add(r->timer, &tv);
}

static void script_free(struct script_run *r)
{
	requests_cancel(r->c, r);
	if (r->timer)
		event_free(r->timer);
	free(r->watched);
	r->c->script = NULL;
	free(r);
}

static void over(struct script_run *r)
{
	script_done_fn done = r->done;
	void *arg = r->arg;
	struct bace_err e = r->e;

	script_free(r);
	done(arg, e.errnum ? &e : NULL);
}

/* The action that ran is over: on to the next, at its time. */
static void settled(struct script_run *r)
{
	r->acted.settled_ns = bace_mono_ns();
	if (r->next >= 0 && r->next < r->s->n)
		r->log->acted[r->log->n_acted++] = r->acted;
	if (r->next == r->s->n) {
		over(r);
		return;
	}
	r->next = r->e.errnum ? r->s->n : r->next + 1;
	arm(r, r->next < r->s->n ? r->origin_ns + (int64_t)(r->s->actions[r->next].at_s * 1e9) : 0);
}

static void one_answer(struct script_run *r, const struct bace_err *err)
{
	if (err && !r->e.errnum)
		r->e = *err;
	if (--r->waiting == 0)
		settled(r);
}

static void on_sampled(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct script_run *r = arg;
	struct bace_err e = { 0 };

	if (!err && monitor_take_answer(h, reply, &r->acted, &e))
		err = &e;
	one_answer(r, err);
}

static void on_planned(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	one_answer(arg, err);
}

static void monitor_all(struct script_run *r, bool on)
{
	for (int i = 0; i < r->c->n_hosts; i++) {
		struct host *h = &r->c->hosts[i];

		if (!host_ready(h))
			continue;
		r->waiting++;
		host_request(h, monitor_request(h, &r->s->monitor, on), ANSWER_S, on_sampled, r);
	}
}

static void forget_now(struct host *h)
{
	free(h->now.links);
	h->now = (struct shape_spec){ 0 };
}

static bool shapes_link(const struct host *h, int src, int dst)
{
	for (int i = 0; h->spec->region == src && i < h->spec->shape.n_links; i++)
		if (h->spec->shape.links[i].region == dst)
			return true;
	return false;
}

/* Where hosts share the link, each has an even part of it to begin with. */
static int set_rate(struct host *h, int dst, uint64_t rate_bps)
{
	int sharers = divider_sharers(h->c, h->spec->region, dst);
	const struct shape_spec *plan = &h->spec->shape;
	size_t bytes = (size_t)plan->n_links * sizeof(*plan->links);

	if (!h->now.n_links) {
		h->now = *plan;
		h->now.links = malloc(bytes);
		if (!h->now.links) {
			h->now = (struct shape_spec){ 0 };
			return -ENOMEM;
		}
		memcpy(h->now.links, plan->links, bytes);
	}
	for (int i = 0; i < plan->n_links; i++)
		if (plan->links[i].region == dst)
			h->now.links[i].rate_bps = rate_bps ? rate_bps / (uint64_t)(sharers > 1 ? sharers : 1)
							    : plan->links[i].rate_bps;
	return 0;
}

static void change_rate(struct script_run *r, const struct tb_action *a)
{
	for (int i = 0; i < r->c->n_hosts; i++) {
		struct host *h = &r->c->hosts[i];

		if (!shapes_link(h, a->src, a->dst))
			continue;
		if (set_rate(h, a->dst, a->rate_bps)) {
			bace_fail(&r->e, ENOMEM, "script: out of memory");
			return;
		}
		r->waiting++;
		host_plan(h, on_planned, r);
	}
}

static void put_back(struct script_run *r)
{
	if (r->stretch)
		r->stretch(r->stretch_arg, 0);
	monitor_all(r, false);
	for (int i = 0; i < r->c->n_hosts; i++) {
		struct host *h = &r->c->hosts[i];

		if (!h->now.n_links)
			continue;
		forget_now(h);
		r->waiting++;
		host_plan(h, on_planned, r);
	}
}

static void begin_action(struct script_run *r)
{
	const struct tb_action *a = r->next >= 0 && r->next < r->s->n ? &r->s->actions[r->next] : NULL;

	r->acted = (struct tb_acted){ .began_ns = bace_mono_ns() };
	r->waiting = 1;
	if (!a && r->next < 0) {
		monitor_all(r, false);		/* probes' ports become known */
	} else if (!a) {
		put_back(r);
	} else if (a->kind == TB_ACT_MONITOR) {
		if (r->stretch)
			r->stretch(r->stretch_arg, a->stretch_ppm);
		monitor_all(r, a->on);
	} else {
		change_rate(r, a);
	}
	if (--r->waiting == 0)
		settled(r);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	begin_action(arg);
}

static int check_script(const struct controller *c, const struct tb_script *s, struct bace_err *e)
{
	int n = c->cfg.topo->n_regions;

	for (int i = 0; i < s->n; i++) {
		const struct tb_action *a = &s->actions[i];

		if (!(a->at_s >= 0 && a->at_s < 1e6) || a->stretch_ppm < 0 || a->stretch_ppm > 1000000 ||
		    (a->kind == TB_ACT_RATE && (a->src < 0 || a->src >= n || a->dst < 0 || a->dst >= n)))
			return bace_fail(e, EINVAL, "script: action %d makes no sense", i);
	}
	return 0;
}

int script_start(struct controller *c, const struct tb_script *s, int64_t origin_ns, struct tb_log *out,
		 script_done_fn done, void *arg, struct bace_err *e)
{
	int n = c->cfg.topo->n_regions, rc = check_script(c, s, e);
	struct script_run *r;

	if (rc)
		return rc;
	if (c->script)
		return bace_fail(e, EBUSY, "script: another one is running");
	r = calloc(1, sizeof(*r));
	if (!r)
		return bace_fail(e, ENOMEM, "script: out of memory");
	*r = (struct script_run){ .c = c, .s = s, .log = out, .origin_ns = origin_ns, .next = -1, .done = done,
				  .arg = arg };
	c->script = r;
	r->watched = calloc((size_t)(n * n) + 1, sizeof(*r->watched));
	r->timer = evtimer_new(c->base, on_timer, r);
	out->acted = calloc((size_t)s->n + 1, sizeof(*out->acted));
	if (!r->watched || !r->timer || !out->acted) {
		script_free(r);
		tb_log_free(out);
		return bace_fail(e, ENOMEM, "script: out of memory");
	}
	for (int i = 0; i < s->n; i++)
		if (s->actions[i].kind == TB_ACT_RATE)
			r->watched[s->actions[i].src * n + s->actions[i].dst] = true;
	arm(r, 0);
	return 0;
}

static void ignore(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
}

void script_cancel(struct controller *c)
{
	struct script_run *r = c->script;
	struct tb_monitor off = { 0 };

	if (!r)
		return;
	for (int i = 0; i < c->n_hosts; i++) {
		struct host *h = &c->hosts[i];

		bool changed = h->now.n_links > 0;

		/* Also of one that is gone: it would come back to the changed rates. */
		forget_now(h);
		if (!host_ready(h))
			continue;
		host_request(h, monitor_request(h, &off, false), ANSWER_S, ignore, NULL);
		if (changed)
			host_put_back(h);
	}
	script_free(r);
}

/* ---- alone ---- */

struct script_task {
	struct task task;
	const struct tb_script *s;
	struct tb_log *out;
	struct controller *c;
};

static void on_alone_done(void *arg, const struct bace_err *err)
{
	struct script_task *x = arg;

	if (err)
		x->task.e = *err;
	task_finish(x->c, &x->task, err ? -err->errnum : 0);
}

static void start_alone(struct controller *c, struct task *t)
{
	struct script_task *x = (struct script_task *)t;
	int rc = script_start(c, x->s, bace_mono_ns(), x->out, on_alone_done, x, &t->e);

	if (rc)
		task_finish(c, t, rc);
}

int controller_script(struct controller *c, const struct tb_script *s, struct tb_log *out, struct bace_err *e)
{
	struct script_task x = { .task.start = start_alone, .s = s, .out = out, .c = c };
	int rc;

	*out = (struct tb_log){ 0 };
	rc = task_run(c, &x.task, e);
	if (rc)
		tb_log_free(out);
	return rc;
}

/* ---- monitoring without a script ---- */

struct monitor_task {
	struct task task;
	struct controller *c;
	const struct tb_monitor *m;
	bool prepared;
	int waiting;
	struct tb_acted sum;
};

static void ask_all(struct monitor_task *x);

static void on_monitored(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct monitor_task *x = arg;

	if (err && !x->task.e.errnum)
		x->task.e = *err;
	else if (!err)
		monitor_take_answer(h, reply, &x->sum, &x->task.e);
	if (--x->waiting)
		return;
	if (!x->prepared && !x->task.e.errnum) {
		x->prepared = true;
		ask_all(x);
		return;
	}
	task_finish(x->c, &x->task, -x->task.e.errnum);
}

static void ask_all(struct monitor_task *x)
{
	int n = 0;

	for (int i = 0; i < x->c->n_hosts; i++)
		n += host_ready(&x->c->hosts[i]);
	x->waiting = n;
	for (int i = 0; i < x->c->n_hosts; i++)
		if (host_ready(&x->c->hosts[i]))
			host_request(&x->c->hosts[i], monitor_request(&x->c->hosts[i], x->m, x->prepared), ANSWER_S,
				     on_monitored, x);
	if (!n)
		task_finish(x->c, &x->task, bace_fail(&x->task.e, ENOTCONN, "no agent is connected"));
}

static void start_monitor(struct controller *c, struct task *t)
{
	ask_all((struct monitor_task *)t);
}

int controller_monitor(struct controller *c, const struct tb_monitor *m, struct bace_err *e)
{
	struct monitor_task x = { .task.start = start_monitor, .c = c, .m = m };

	return task_run(c, &x.task, e);
}
