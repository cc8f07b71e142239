#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/control/cell.h"

#define RETURN_S 8.0		/* a host that is away may come back before the cell starts */
#define LAUNCH_S 20.0
#define CONNECT_S 30.0
#define SETTLE_S 0.25
#define MODULE "control"

static void enter(struct cell_run *r, enum cell_phase phase);

static void arm(struct cell_run *r, double seconds)
{
	double left = (double)(r->deadline_ns - bace_mono_ns()) / 1e9;
	struct timeval tv;

	/* What undoes the cell has its own time. */
	if (r->phase < PHASE_FAILING && seconds > left)
		seconds = left > 0 ? left : 0;
	tv.tv_sec = (time_t)seconds;
	tv.tv_usec = (suseconds_t)(fmod(seconds, 1) * 1e6);
	event_del(r->timer);
	event_add(r->timer, &tv);
}

void cell_invalid(struct cell_run *r, int severity, const char *fmt, ...)
{
	va_list ap;

	r->out->valid = false;
	if (severity <= r->severity)
		return;
	r->severity = severity;
	va_start(ap, fmt);
	vsnprintf(r->out->invalid_why, sizeof(r->out->invalid_why), fmt, ap);
	va_end(ap);
}

void cell_fail(struct cell_run *r, int severity, const char *why)
{
	if (r->phase >= PHASE_STOP)
		return;
	cell_invalid(r, severity, "%s", why);
	if (r->phase < PHASE_FAILING)
		enter(r, PHASE_FAILING);
	else if (severity == SEVERITY_CAUSE)
		arm(r, 0);
}

static void on_alive(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct cell_run *r = arg;

	/* One that is dead says so through on_trouble. */
	if (r->phase == PHASE_FAILING && !err && --r->waiting == 0)
		arm(r, SETTLE_S);
}

/* A rank whose peer vanished is often heard before the reason why the peer
 * vanished: an agent that is cut off is known to be so only after a while. */
static void look_for_cause(struct cell_run *r)
{
	if (r->severity == SEVERITY_CAUSE) {
		arm(r, 0);
		return;
	}
	r->waiting = 1;
	for (int i = 0; i < r->c->n_hosts; i++) {
		if (!r->needed[i])
			continue;
		r->waiting++;
		host_request(&r->c->hosts[i], json_pack("{s:s}", "type", "clock"), ANSWER_S, on_alive, r);
	}
	if (--r->waiting == 0)
		arm(r, SETTLE_S);
}

/* ---- hosts ---- */

static void on_trouble(struct watcher *w, struct host *h, const char *why)
{
	struct cell_run *r = w->arg;
	char text[400];

	if (!r->needed[h->index] || r->phase == PHASE_PREPARE)
		return;
	snprintf(text, sizeof(text), "%s: %s", h->spec->name, why);
	cell_fail(r, SEVERITY_CAUSE, text);
}

static void prepare(struct cell_run *r);

static void on_prepared(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct cell_run *r = arg;

	if (r->phase != PHASE_PREPARE)
		return;
	if (err)
		cell_fail(r, SEVERITY_CAUSE, err->msg);
	else if (--r->waiting == 0)
		prepare(r);	/* another may have lost its plan meanwhile */
}

/* All needed hosts there, and their plans in force. */
static void prepare(struct cell_run *r)
{
	struct controller *c = r->c;
	char missing[200];

	if (hosts_missing(c, r->needed, missing, sizeof(missing)))
		return;		/* on_ready or the timer goes on */
	r->waiting = 1;
	for (int i = 0; i < c->n_hosts; i++) {
		struct host *h = &c->hosts[i];

		if (!r->needed[i] || h->planned || !c->plan_wanted || !host_shapes(h))
			continue;
		r->waiting++;
		host_plan(h, on_prepared, r);
	}
	if (--r->waiting == 0)
		enter(r, PHASE_LAUNCH);
}

static void on_ready(struct watcher *w, struct host *h)
{
	struct cell_run *r = w->arg;

	if (r->phase == PHASE_PREPARE && !r->waiting)
		prepare(r);
}

/* ---- counters ---- */

static void on_stats(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct cell_run *r = arg;
	enum cell_readout which = r->phase == PHASE_BEFORE ? READ_BEFORE :
				  r->phase == PHASE_START ? READ_START : READ_AFTER;
	struct bace_err e = { 0 };

	if (r->phase != PHASE_BEFORE && r->phase != PHASE_START && r->phase != PHASE_AFTER)
		return;
	if (err || wire_decode_stats(json_object_get(reply, "stats"), &r->stats[which][h->index], &e)) {
		cell_fail(r, SEVERITY_CAUSE, err ? err->msg : e.msg);
		return;
	}
	cell_counted(r);
}

void cell_counted(struct cell_run *r)
{
	if (r->phase != PHASE_BEFORE && r->phase != PHASE_START && r->phase != PHASE_AFTER)
		return;
	if (--r->waiting == 0)
		enter(r, r->phase == PHASE_BEFORE ? PHASE_CONNECT : r->phase == PHASE_START ? PHASE_RUN : PHASE_STOP);
}

static void read_counters(struct cell_run *r, enum cell_phase next)
{
	r->waiting = 1;
	for (int i = 0; i < r->c->n_hosts; i++) {
		if (!cell_reads(r, &r->c->hosts[i]))
			continue;
		r->waiting++;
		host_request(&r->c->hosts[i], json_pack("{s:s}", "type", "stats"), ANSWER_S, on_stats, r);
	}
	if (r->phase != PHASE_BEFORE)
		cell_energy_ask(r);
	if (--r->waiting == 0)
		enter(r, next);
}

void cell_advance(struct cell_run *r)
{
	bool all = true;

	for (int i = 0; i < r->n_ranks && all; i++) {
		const struct cell_rank *k = &r->ranks[i];

		if (r->phase == PHASE_LAUNCH)
			all = k->launched && k->n_ports == k->n_listening;
		else if (r->phase == PHASE_CONNECT)
			all = k->ready;
		else if (r->phase == PHASE_RUN)
			all = k->done && k->exited && !r->scripted;
		else
			all = false;
	}
	if (all)
		enter(r, r->phase + 1);
}

/* ---- the end ---- */

static void over(struct cell_run *r)
{
	struct bace_err e = { 0 };

	cell_script_end(r);
	cell_traces_end(r);
	requests_cancel(r->c, r);
	watcher_remove(r->c, &r->watcher);
	for (int i = 0; i < r->n_ranks; i++)
		proc_forget(&r->ranks[i].proc);
	if (r->out->valid && cell_finish_steps(r, &e))
		cell_invalid(r, SEVERITY_CAUSE, "%s", e.msg);
	if (cell_check(r, &e) || cell_energy_finish(r, &e))
		cell_invalid(r, SEVERITY_CAUSE, "%s", e.msg);
	event_free(r->timer);
	r->timer = NULL;
	r->c->cell = NULL;
	task_finish(r->c, &r->task, 0);
}

static void on_stopped(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct cell_run *r = arg;

	if (err)
		bace_log(BACE_WARN, MODULE, "stop the ranks: %s", err->msg);
	if (--r->waiting == 0)
		enter(r, PHASE_OVER);
}

static void stop(struct cell_run *r)
{
	r->waiting = 1;
	for (int i = 0; i < r->c->n_hosts; i++) {
		bool has_ranks = false;

		for (int k = 0; k < r->n_ranks && !has_ranks; k++)
			has_ranks = r->ranks[k].host == i;
		if (!has_ranks || !host_ready(&r->c->hosts[i]))
			continue;
		r->waiting++;
		host_request(&r->c->hosts[i], json_pack("{s:s,s:I}", "type", "stop", "cell", r->id), STOP_S,
			     on_stopped, r);
	}
	if (--r->waiting == 0)
		enter(r, PHASE_OVER);
}

/* For a time-out's sentence: what has not come. */
static void describe_wait(const struct cell_run *r, char *text, size_t cap)
{
	static const char *const wanted[] = { [PHASE_LAUNCH] = "to start", [PHASE_CONNECT] = "to connect",
					      [PHASE_RUN] = "to finish" };
	int n = 0;

	snprintf(text, cap, "counters");
	for (int i = 0; i < r->n_ranks; i++) {
		const struct cell_rank *k = &r->ranks[i];
		bool there = r->phase == PHASE_LAUNCH ? k->launched && k->n_ports == k->n_listening :
			     r->phase == PHASE_CONNECT ? k->ready : r->phase == PHASE_RUN ? k->done : true;

		if (!there && !n++)
			snprintf(text, cap, "%s %s", k->proc.what, wanted[r->phase]);
	}
	if (n > 1)
		snprintf(text + strlen(text), cap - strlen(text), " (and %d more)", n - 1);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct cell_run *r = arg;
	char missing[200], why[300];

	switch (r->phase) {
	case PHASE_PREPARE:
		hosts_missing(r->c, r->needed, missing, sizeof(missing));
		snprintf(why, sizeof(why), "%s", missing[0] ? missing : "the plans could not be applied in time");
		cell_fail(r, SEVERITY_CAUSE, why);
		break;
	case PHASE_FAILING:
		enter(r, PHASE_STOP);
		break;
	case PHASE_STOP:
		bace_log(BACE_WARN, MODULE, "some agents did not confirm that their ranks ended");
		enter(r, PHASE_OVER);
		break;
	case PHASE_OVER:
		over(r);
		break;
	default:
		describe_wait(r, missing, sizeof(missing));
		snprintf(why, sizeof(why), "gave up after %.1f s: waiting for %s", r->cell->timeout_s -
			 fmax(0, (double)(r->deadline_ns - bace_mono_ns()) / 1e9), missing);
		cell_fail(r, SEVERITY_CAUSE, why);
	}
}

static void enter(struct cell_run *r, enum cell_phase phase)
{
	static const double seconds[] = {
		[PHASE_PREPARE] = RETURN_S, [PHASE_LAUNCH] = LAUNCH_S, [PHASE_BEFORE] = ANSWER_S,
		[PHASE_CONNECT] = CONNECT_S, [PHASE_START] = ANSWER_S, [PHASE_RUN] = INFINITY,
		[PHASE_AFTER] = ANSWER_S, [PHASE_FAILING] = 0, [PHASE_STOP] = STOP_S + 1,
		[PHASE_OVER] = 0,
	};

	r->phase = phase;
	/* OVER comes from the loop, when no handler of a rank is on the stack. */
	arm(r, phase == PHASE_FAILING ? r->c->cfg.heartbeat_dead_s + 1 : seconds[phase]);
	switch (phase) {
	case PHASE_PREPARE:
		prepare(r);
		break;
	case PHASE_LAUNCH:
		cell_launch(r);
		break;
	case PHASE_BEFORE:
		read_counters(r, PHASE_CONNECT);
		break;
	case PHASE_CONNECT:
		cell_connect(r);
		break;
	case PHASE_START:
		read_counters(r, PHASE_RUN);
		break;
	case PHASE_RUN:
		cell_go(r);
		break;
	case PHASE_AFTER:
		read_counters(r, PHASE_STOP);
		break;
	case PHASE_STOP:
		stop(r);
		break;
	case PHASE_FAILING:
		look_for_cause(r);
		break;
	case PHASE_OVER:
		break;
	}
}

void cell_cancel(struct controller *c)
{
	if (c->cell)
		cell_fail(c->cell, SEVERITY_CAUSE, "interrupted");
}

static void start_cell(struct controller *c, struct task *t)
{
	struct cell_run *r = (struct cell_run *)t;

	r->timer = evtimer_new(c->base, on_timer, r);
	if (!r->timer) {
		task_finish(c, t, bace_fail(&t->e, ENOMEM, "cell: out of memory"));
		return;
	}
	c->cell = r;
	r->id = ++c->next_cell;
	for (int i = 0; i < r->n_ranks; i++)
		r->ranks[i].proc.cell = r->id;
	cell_give_slots(r);
	r->deadline_ns = bace_mono_ns() + (int64_t)(r->cell->timeout_s * 1e9);
	r->watcher = (struct watcher){ .on_ready = on_ready, .on_trouble = on_trouble, .arg = r };
	watcher_add(c, &r->watcher);
	r->out->valid = true;
	enter(r, PHASE_PREPARE);
}

static int cell_alloc(struct cell_run *r)
{
	size_t n = (size_t)r->c->n_hosts + 1;

	r->needed = calloc(n, sizeof(*r->needed));
	for (int i = 0; i < 2; i++)
		r->energy[i] = calloc(n, sizeof(*r->energy[i]));
	for (int i = 0; i < N_READOUTS; i++)
		r->stats[i] = calloc(n, sizeof(*r->stats[i]));
	return r->needed && r->energy[0] && r->energy[1] && r->stats[0] && r->stats[1] && r->stats[2] ? 0 : -ENOMEM;
}

static void cell_free(struct cell_run *r)
{
	for (int w = 0; w < N_READOUTS; w++) {
		for (int i = 0; r->stats[w] && i < r->c->n_hosts; i++)
			shape_stats_free(&r->stats[w][i]);
		free(r->stats[w]);
	}
	for (int w = 0; w < 2; w++) {
		for (int i = 0; r->energy[w] && i < r->c->n_hosts; i++)
			json_decref(r->energy[w][i]);
		free(r->energy[w]);
	}
	free(r->needed);
	free(r->probe_base);
	cell_ranks_free(r);
}

int controller_run(struct controller *c, const struct tb_cell *cell, struct tb_result *out,
		   struct bace_err *e)
{
	struct cell_run r = { .task.start = start_cell, .c = c, .cell = cell, .out = out };
	int rc;

	*out = (struct tb_result){ 0 };
	if (!(cell->timeout_s > 0 && cell->timeout_s < 1e7))
		return bace_fail(e, EINVAL, "cell: a time-out of %g s makes no sense", cell->timeout_s);
	rc = cell_alloc(&r) ? bace_fail(e, ENOMEM, "cell: out of memory") : cell_ranks_build(&r, e);
	if (!rc) {
		cell_mark_needed(&r);
		rc = task_run(c, &r.task, e);
	}
	if (!rc && c->cancel)
		rc = bace_fail(e, ECANCELED, "interrupted");
	cell_free(&r);
	if (rc)
		tb_result_free(out);
	return rc;
}
