#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/control/internal.h"

#define RTT_BUDGET_S 1.5
#define RTT_SAMPLES_MIN 5
#define RTT_SAMPLES_MAX 100
#define RTT_SAMPLES_UNKNOWN 20
#define PAIR_SLACK_S 15.0

/* A server in the destination, a client in the source; pairs whose hosts are
 * free run side by side, so that each measures a link of its own. */
enum pair_state { PAIR_WAITING, PAIR_SERVER, PAIR_CLIENT, PAIR_DONE };

struct pair_run {
	json_int_t token;		/* by which the two ends know each other */
	struct verify_run *run;
	struct tb_verify *v;
	enum pair_state state;
	struct proc server, client;
	struct event *timer;
};

struct verify_run {
	struct task task;
	struct controller *c;
	struct tb_verify *pairs;
	int n, n_done, waiting;
	double goodput_s;
	struct pair_run *runs;
	bool *busy;			/* [n_hosts] */
	bool ending;
	struct event *end;
};

static void start_free_pairs(struct verify_run *r);

static void begin_end(struct verify_run *r)
{
	struct timeval now = { 0 };

	if (!r->ending)
		event_add(r->end, &now);
	r->ending = true;
}

static void pair_failed(struct pair_run *p, const char *why)
{
	struct verify_run *r = p->run;

	if (r->ending)
		return;
	bace_fail(&r->task.e, EIO, "measure %s to %s: %s", r->c->cfg.topo->region_names[p->v->src],
		  r->c->cfg.topo->region_names[p->v->dst], why);
	begin_end(r);
}

void verify_cancel(struct controller *c)
{
	struct verify_run *r = c->verify;

	if (!r || r->task.e.errnum == ECANCELED)
		return;
	bace_fail(&r->task.e, ECANCELED, "interrupted");
	begin_end(r);
}

static void on_pair_timer(evutil_socket_t fd, short what, void *arg)
{
	pair_failed(arg, "no result in time");
}

static void verify_over(struct verify_run *r)
{
	requests_cancel(r->c, r);
	for (int i = 0; i < r->n; i++) {
		if (r->runs[i].timer)
			event_free(r->runs[i].timer);
		proc_forget(&r->runs[i].server);
		proc_forget(&r->runs[i].client);
	}
	event_free(r->end);
	r->c->verify = NULL;
	task_finish(r->c, &r->task, -r->task.e.errnum);
}

static void on_pair_stopped(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct verify_run *r = arg;

	if (--r->waiting == 0)
		verify_over(r);
}

static void stop_pair(struct verify_run *r, struct pair_run *p)
{
	struct host *ends[2] = { p->server.host, p->client.host };

	for (int i = 0; i < 2; i++) {
		if (!ends[i] || !host_ready(ends[i]))
			continue;
		r->waiting++;
		host_request(ends[i], json_pack("{s:s,s:I}", "type", "stop", "cell", p->server.cell), STOP_S,
			     on_pair_stopped, r);
	}
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	struct verify_run *r = arg;

	r->waiting = 1;
	for (int i = 0; i < r->n; i++)
		if (r->runs[i].state == PAIR_SERVER || r->runs[i].state == PAIR_CLIENT)
			stop_pair(r, &r->runs[i]);
	if (--r->waiting == 0)
		verify_over(r);
}

static int take_rtt(struct pair_run *p, const json_t *a)
{
	size_t n = json_array_size(a);
	CLEANUP_FREE double *v = calloc(n + 1, sizeof(*v));

	if (!n || !v)
		return -EPROTO;
	for (size_t i = 0; i < n; i++) {
		if (!json_is_integer(json_array_get(a, i)))
			return -EPROTO;
		v[i] = (double)json_integer_value(json_array_get(a, i)) / 1e9;
	}
	qsort(v, n, sizeof(*v), bace_by_double);
	p->v->rtt_min_s = v[0];
	p->v->rtt_median_s = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
	p->v->rtt_p99_s = v[(size_t)ceil(0.99 * (double)n) - 1];
	return 0;
}

static void pair_done(struct pair_run *p, const json_t *line)
{
	struct verify_run *r = p->run;

	if (take_rtt(p, json_object_get(line, "rtt_ns"))) {
		pair_failed(p, "the probe's report is not what it should be");
		return;
	}
	p->v->goodput_bps = json_number_value(json_object_get(line, "goodput_bps"));
	p->state = PAIR_DONE;
	event_del(p->timer);
	r->busy[p->server.host->index] = r->busy[p->client.host->index] = false;
	if (++r->n_done == r->n)
		begin_end(r);
	else
		start_free_pairs(r);
}

static int samples(const struct tb_verify *v)
{
	double n = v->planned_rtt_s > 0 ? RTT_BUDGET_S / v->planned_rtt_s : RTT_SAMPLES_UNKNOWN;

	return (int)fmin(RTT_SAMPLES_MAX, fmax(RTT_SAMPLES_MIN, n));
}

static void start_client(struct pair_run *p, int port)
{
	p->state = PAIR_CLIENT;
	proc_launch(&p->client, json_pack("{s:s,s:I,s:s,s:i,s:i,s:f,s:s,s:i}", "mode", "probe-client", "token", p->token, "addr",
		p->server.host->spec->addr, "port", port, "rtt_samples", samples(p->v), "goodput_s",
		p->run->goodput_s, "congestion_control", "", "timeout_ms",
		(int)((p->run->goodput_s + PAIR_SLACK_S) * 1e3)), p->client.host->spec->addr);
}

static void probe_launched(struct proc *proc, const json_t *answer)
{
}

static void probe_event(struct proc *proc, const char *event, const json_t *line)
{
	struct pair_run *p = proc->owner;
	const char *text = json_string_value(json_object_get(line, "text"));
	json_int_t port = json_integer_value(json_object_get(line, "port"));

	if (p->run->ending || p->state == PAIR_DONE)
		return;
	if (!strcmp(event, "listening") && p->state == PAIR_SERVER && proc == &p->server && port > 0 &&
	    port <= 65535)
		start_client(p, (int)port);
	else if (!strcmp(event, "done") && proc == &p->client && p->state == PAIR_CLIENT)
		pair_done(p, line);
	else if (!strcmp(event, "done") && proc == &p->server)
		return;
	else
		pair_failed(p, !strcmp(event, "error") && text ? text : "a probe said something unexpected");
}

static void probe_gone(struct proc *proc, const char *why, int status)
{
	struct pair_run *p = proc->owner;

	if (p->state == PAIR_DONE)
		return;
	/* A server that has served may end before its client has reported. */
	if (why || proc == &p->client || p->state == PAIR_SERVER)
		pair_failed(p, why ? why : "a probe ended early");
}

static void probe_failed(struct proc *proc, const char *why)
{
	pair_failed(proc->owner, why);
}

static const struct proc_ops probe_ops = {
	.on_launched = probe_launched, .on_event = probe_event, .on_gone = probe_gone, .on_failed = probe_failed,
};

static struct host *free_host(struct verify_run *r, int region)
{
	for (int i = 0; i < r->c->n_hosts; i++) {
		struct host *h = &r->c->hosts[i];

		if (h->spec->region == region && !h->spec->gateway && !r->busy[i])
			return h;
	}
	return NULL;
}

static void init_probe(struct pair_run *p, struct proc *proc, struct host *h, int rank, const char *what)
{
	*proc = (struct proc){ .host = h, .cell = p->run->c->next_cell, .rank = rank, .ops = &probe_ops,
			       .owner = p };
	snprintf(proc->what, sizeof(proc->what), "%s on %s", what, h->spec->name);
}

static void start_pair(struct pair_run *p, struct host *src, struct host *dst)
{
	struct verify_run *r = p->run;
	struct timeval tv = { .tv_sec = (time_t)(r->goodput_s + 2 * PAIR_SLACK_S) };

	r->busy[src->index] = r->busy[dst->index] = true;
	r->c->next_cell++;
	p->state = PAIR_SERVER;
	p->token = random_token();
	init_probe(p, &p->server, dst, 0, "probe server");
	init_probe(p, &p->client, src, 1, "probe client");
	event_add(p->timer, &tv);
	proc_launch(&p->server, json_pack("{s:s,s:I,s:s}", "mode", "probe-server", "token", p->token, "addr",
		    dst->spec->addr), dst->spec->addr);
}

/* One measurement a region at a time: its gateway is shared. */
static bool region_busy(const struct verify_run *r, int region)
{
	for (int i = 0; i < r->c->n_hosts; i++)
		if (r->busy[i] && r->c->hosts[i].spec->region == region)
			return true;
	return false;
}

static void start_free_pairs(struct verify_run *r)
{
	for (int i = 0; i < r->n && !r->ending; i++) {
		struct pair_run *p = &r->runs[i];
		struct host *src, *dst;

		if (p->state != PAIR_WAITING || region_busy(r, p->v->src) || region_busy(r, p->v->dst))
			continue;
		src = free_host(r, p->v->src);
		dst = free_host(r, p->v->dst);
		if (src && dst)
			start_pair(p, src, dst);
		else
			pair_failed(p, "no host to measure from");
	}
}

static void start_verify(struct controller *c, struct task *t)
{
	struct verify_run *r = (struct verify_run *)t;

	r->end = evtimer_new(c->base, on_end, r);
	for (int i = 0; r->end && i < r->n; i++) {
		r->runs[i] = (struct pair_run){ .run = r, .v = &r->pairs[i] };
		r->runs[i].timer = evtimer_new(c->base, on_pair_timer, &r->runs[i]);
		if (!r->runs[i].timer)
			bace_fail(&t->e, ENOMEM, "verify: out of memory");
	}
	if (!r->end) {
		task_finish(c, t, bace_fail(&t->e, ENOMEM, "verify: out of memory"));
		return;
	}
	c->verify = r;
	if (!r->n || t->e.errnum)
		begin_end(r);
	else
		start_free_pairs(r);
}

int controller_verify(struct controller *c, int n, struct tb_verify *pairs, double goodput_s,
		      struct bace_err *e)
{
	struct verify_run r = { .task.start = start_verify, .c = c, .pairs = pairs, .n = n,
				.goodput_s = goodput_s };
	int rc;

	if (!(goodput_s >= 0 && goodput_s <= 600))
		return bace_fail(e, EINVAL, "verify: %g s of goodput measurement make no sense", goodput_s);
	for (int i = 0; i < n; i++)
		if (pairs[i].src < 0 || pairs[i].src >= c->cfg.topo->n_regions || pairs[i].dst < 0 ||
		    pairs[i].dst >= c->cfg.topo->n_regions || pairs[i].src == pairs[i].dst)
			return bace_fail(e, EINVAL, "verify: pair %d is not of two regions", i);
	r.runs = calloc((size_t)n + 1, sizeof(*r.runs));
	r.busy = calloc((size_t)c->n_hosts + 1, sizeof(*r.busy));
	rc = r.runs && r.busy ? task_run(c, &r.task, e) : bace_fail(e, ENOMEM, "verify: out of memory");
	free(r.runs);
	free(r.busy);
	return rc;
}
