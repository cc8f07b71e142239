#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/control/internal.h"

static void arm(struct event *ev, double seconds)
{
	struct timeval tv = { .tv_sec = (time_t)seconds, .tv_usec = (suseconds_t)(fmod(seconds, 1) * 1e6) };

	event_add(ev, &tv);
}

/* ---- waiting for the hosts ---- */

struct waiting {
	struct task task;
	struct controller *c;
	struct watcher watcher;
	struct event *timer;
	double timeout_s;
};

static void waiting_end(struct waiting *w)
{
	char missing[400];
	int n = hosts_missing(w->c, NULL, missing, sizeof(missing)), rc = 0;

	watcher_remove(w->c, &w->watcher);
	if (w->timer)
		event_free(w->timer);
	if (n)
		rc = bace_fail(&w->task.e, ETIMEDOUT, "%d of %d agents did not connect within %.0f s: %s", n,
			       w->c->n_hosts, w->timeout_s, missing);
	task_finish(w->c, &w->task, rc);
}

static void on_wait_timer(evutil_socket_t fd, short what, void *arg)
{
	waiting_end(arg);
}

static void on_host_ready(struct watcher *watcher, struct host *h)
{
	struct waiting *w = watcher->arg;
	char text[8];

	if (!hosts_missing(w->c, NULL, text, sizeof(text)))
		waiting_end(w);
}

static void start_waiting(struct controller *c, struct task *t)
{
	struct waiting *w = (struct waiting *)t;
	char text[8];

	w->watcher = (struct watcher){ .on_ready = on_host_ready, .arg = w };
	watcher_add(c, &w->watcher);
	w->timer = evtimer_new(c->base, on_wait_timer, w);
	if (!w->timer || !hosts_missing(c, NULL, text, sizeof(text)))
		waiting_end(w);
	else
		arm(w->timer, w->timeout_s);
}

int controller_wait_hosts(struct controller *c, double timeout_s, struct bace_err *e)
{
	struct waiting w = { .task.start = start_waiting, .c = c, .timeout_s = timeout_s };

	return task_run(c, &w.task, e);
}

/* ---- plans ---- */

void host_plan(struct host *h, reply_fn fn, void *arg)
{
	host_request(h, json_pack("{s:s,s:o}", "type", "plan", "spec", wire_encode_shape(host_shape(h))),
		     ANSWER_S, fn, arg);
}

/* What is not put back would be in force in the next cell. */
static void on_put_back(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	if (err && host_ready(h))
		host_trouble(h, err->msg);
}

void host_put_back(struct host *h)
{
	host_plan(h, on_put_back, NULL);
}

struct planning {
	struct task task;
	struct controller *c;
	int waiting, failed;
};

static void planning_end(struct planning *p)
{
	if (p->failed > 1)
		bace_err_context(&p->task.e, "%d hosts could not be shaped; first", p->failed);
	task_finish(p->c, &p->task, p->failed ? -p->task.e.errnum : 0);
}

static void on_one_planned(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct planning *p = arg;

	if (err && !p->failed++)
		p->task.e = *err;
	if (--p->waiting == 0)
		planning_end(p);
}

static void start_planning(struct controller *c, struct task *t)
{
	struct planning *p = (struct planning *)t;

	c->plan_wanted = true;
	p->waiting = 1;
	for (int i = 0; i < c->n_hosts; i++) {
		if (!host_shapes(&c->hosts[i]))
			continue;
		p->waiting++;
		host_plan(&c->hosts[i], on_one_planned, p);
	}
	if (--p->waiting == 0)
		planning_end(p);
}

int controller_plan(struct controller *c, struct bace_err *e)
{
	struct planning p = { .task.start = start_planning, .c = c };

	return task_run(c, &p.task, e);
}
