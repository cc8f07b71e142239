#include "workloads/nccl/transport_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MODULE "nccl"
#define POLL_SETUP_NS 1000000
#define POLL_ISSUING_NS 25000
#define POLL_RUNNING_NS 100000

/* ---- the timer ---- */

/* 0: not now. */
static int poll_every(struct transport *t, int64_t ns, struct bace_err *e)
{
	struct itimerspec when = { .it_value.tv_nsec = ns, .it_interval.tv_nsec = ns };

	if (t->period == ns)
		return 0;
	if (timerfd_settime(t->tick.fd, 0, &when, NULL))
		return bace_fail_errno(e, errno, "nccl: arm the timer");
	t->period = ns;
	return 0;
}

static int poll_as_needed(struct transport *t, struct bace_err *e)
{
	return poll_every(t, groups_idle(t->groups) ? 0 : groups_issuing(t->groups) ? POLL_ISSUING_NS :
			  POLL_RUNNING_NS, e);
}

/* ---- what has come ---- */

static int take_message(struct transport *t, const struct call *c, const struct header *h, int64_t now,
			struct bace_err *e)
{
	const struct worker_hop_spec *hop = &t->spec->hops[c->hop];
	struct message m;

	if (header_check(h, t->spec, hop, hop->role == HOP_LISTEN, e))
		return bace_err_context(e, "hop %d step %d", hop->hop, c->step);
	header_read(h, &m);
	if (c->kind == MESSAGE_WARM)
		return m.kind == MESSAGE_WARM ? 0 : bace_fail(e, EPROTO, "hop %d: %s instead of the first message",
							      hop->hop, message_name(m.kind));
	return t->events->received(t->events->arg, c->hop, &m, now, now, e);
}

/* What was sent first: the engine may go on with what was received. */
static int take_group(struct transport *t, const struct group *g, int64_t now, struct bace_err *e)
{
	struct message m;
	int rc = 0;

	for (int i = 0; i < g->n; i++) {
		if (!g->calls[i].send || g->calls[i].kind == MESSAGE_WARM)
			continue;
		header_read(&g->headers[i], &m);
		t->events->sent(t->events->arg, g->calls[i].hop, &m, now);
	}
	for (int i = 0; !rc && i < g->n; i++)
		if (!g->calls[i].send)
			rc = take_message(t, &g->calls[i], &g->headers[i], now, e);
	return rc;
}

static int poll_groups(struct transport *t, int64_t now, struct bace_err *e)
{
	struct group done;
	int rc;

	while ((rc = groups_poll(t->groups, &done, e)) > 0) {
		rc = take_group(t, &done, now, e);
		if (rc)
			return rc;
	}
	return rc ? rc : poll_as_needed(t, e);
}

/* ---- sending ---- */

static void add_send(struct transport *t, struct group *g, const struct call *c, const struct message *m)
{
	const struct worker_hop_spec *hop = &t->spec->hops[c->hop];
	struct carried *sum = &t->carried[c->hop];

	g->calls[g->n] = *c;
	header_fill(&g->headers[g->n], t->spec, hop, m);
	sum->bytes += g->headers[g->n++].bytes;
	sum->messages++;
}

static void advance(struct transport *t)
{
	t->more = calls_next(&t->calls, &t->next);
}

/* With what is in g, or alone, all receives up to the next send. */
static int post(struct transport *t, struct group *g, struct bace_err *e)
{
	int rc = 0;

	while (!rc && (g->n || (t->more && !t->next.send))) {
		if (t->more && !t->next.send) {
			g->calls[g->n++] = t->next;
			advance(t);
		}
		rc = groups_add(t->groups, g, e);
		g->n = 0;
	}
	if (!rc)
		rc = groups_issue(t->groups, e);
	return rc ? rc : poll_as_needed(t, e);
}

static int transport_send(struct mover *mover, int hop, const struct message *m, struct bace_err *e)
{
	struct transport *t = (struct transport *)mover;
	const struct call *c = &t->next;
	struct group g = { 0 };

	if (!t->more || !c->send || c->hop != hop || c->kind != m->kind || c->step != m->step ||
	    (m->kind != MESSAGE_TOKEN && (c->micro_batch != m->micro_batch || c->chunk != m->chunk)))
		return bace_fail(e, EPROTO, "hop %d step %d: %s of micro-batch %d is sent out of the schedule's order",
				 t->spec->hops[hop].hop, m->step, message_name(m->kind), m->micro_batch);
	add_send(t, &g, c, m);
	advance(t);
	return post(t, &g, e);
}

static int transport_go(struct mover *mover, struct bace_err *e)
{
	struct transport *t = (struct transport *)mover;
	struct group g = { 0 };

	t->state = TRANSPORT_GOING;
	transport_power_start(t);
	calls_begin(&t->calls, t->spec);
	advance(t);
	return post(t, &g, e);
}

/* ---- setting up ---- */

/* All neighbours in one group: connections made one after another may wait for
 * each other. */
static int warm_up(struct transport *t, struct bace_err *e)
{
	struct group g = { 0 };

	for (int i = 0; i < t->spec->n_hops; i++) {
		if (t->spec->hops[i].kind != HOP_NCCL)
			continue;
		add_send(t, &g, &(struct call){ .send = true, .hop = i, .kind = MESSAGE_WARM },
			 &(struct message){ .kind = MESSAGE_WARM });
		g.calls[g.n++] = (struct call){ .hop = i, .kind = MESSAGE_WARM };
	}
	t->state = TRANSPORT_WARMING;
	groups_use(t->groups, t->comm);
	return g.n ? groups_add(t->groups, &g, e) : 0;
}

static int continue_setup(struct transport *t, int64_t now, struct bace_err *e)
{
	int rc = 0;

	if (t->state == TRANSPORT_INIT) {
		rc = transport_comm_ready(t, e);
		if (rc <= 0)
			return rc;
		rc = warm_up(t, e);
	}
	if (!rc)
		rc = poll_groups(t, now, e);
	if (rc || !groups_idle(t->groups))
		return rc;
	rc = transport_check_log(t, e);
	t->state = TRANSPORT_WARM;
	return rc ? rc : poll_every(t, 0, e);
}

static int on_tick(struct watch *w, uint32_t events, int64_t now, struct bace_err *e)
{
	struct transport *t = w->owner;
	uint64_t times;
	int rc;

	if (read(w->fd, &times, sizeof(times)) < 0 && errno != EAGAIN)
		return bace_fail_errno(e, errno, "nccl: timer");
	switch (t->state) {
	case TRANSPORT_INIT:
	case TRANSPORT_WARMING:
		rc = continue_setup(t, now, e);
		break;
	case TRANSPORT_CLOSING:
		rc = transport_comm_closed(t, e);
		break;
	default:
		rc = poll_groups(t, now, e);
	}
	return rc ? transport_explain(t, e) : 0;
}

static int transport_connect(struct mover *mover, const json_t *cmd, struct bace_err *e)
{
	struct transport *t = (struct transport *)mover;
	int rc = transport_read_peers(t, cmd, e);

	if (!rc)
		rc = transport_comm_init(t, cmd, e);
	t->state = TRANSPORT_INIT;
	return rc ? rc : poll_every(t, POLL_SETUP_NS, e);
}

static bool transport_warm(const struct mover *mover)
{
	return ((const struct transport *)mover)->state >= TRANSPORT_WARM;
}

/* ---- the end ---- */

static bool transport_drained(struct mover *mover)
{
	struct transport *t = (struct transport *)mover;

	return groups_idle(t->groups) && !t->more && transport_count(t) == 0;
}

static int transport_close(struct mover *mover, struct bace_err *e)
{
	struct transport *t = (struct transport *)mover;
	int rc;

	transport_power_stop(t);
	/* NCCL may have opened another way since. */
	rc = transport_check_log(t, e);
	if (!rc)
		rc = nccl_check(ncclCommFinalize(t->comm), "end the communicator", "", e);
	t->state = TRANSPORT_CLOSING;
	return rc ? transport_explain(t, e) : poll_every(t, POLL_SETUP_NS, e);
}

static bool transport_closed(const struct mover *mover)
{
	return ((const struct transport *)mover)->state == TRANSPORT_CLOSED;
}

static int transport_waited(const struct mover *mover, int64_t waited_ns, struct bace_err *e)
{
	struct transport *t = (struct transport *)mover;
	double s = (double)waited_ns / 1e9;

	switch (t->state) {
	case TRANSPORT_INIT:
		bace_fail(e, ETIMEDOUT, "NCCL: not all %d ranks had come within %.1f s", t->spec->schedule.stages, s);
		break;
	case TRANSPORT_WARMING:
		bace_fail(e, ETIMEDOUT, "NCCL: the first message of each hop did not come within %.1f s", s);
		break;
	case TRANSPORT_CLOSING:
		bace_fail(e, ETIMEDOUT, "NCCL: the communicator did not end within %.1f s", s);
		break;
	default:
		bace_fail(e, ETIMEDOUT, "NCCL: not all that was sent was acknowledged within %.1f s", s);
	}
	return transport_explain(t, e);
}

const struct mover_ops nccl_mover = {
	.name = "nccl",
	.create = transport_create,
	.connect = transport_connect,
	.warm = transport_warm,
	.go = transport_go,
	.send = transport_send,
	.step_ended = transport_step_ended,
	.drained = transport_drained,
	.close = transport_close,
	.closed = transport_closed,
	.waited = transport_waited,
	.report = transport_report,
	.destroy = transport_destroy,
};

int transport_watch(struct transport *t, struct bace_err *e)
{
	t->tick = (struct watch){ .fn = on_tick, .owner = t,
		.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC) };
	if (t->tick.fd < 0)
		return bace_fail_errno(e, errno, "nccl: create a timer");
	return loop_watch(t->loop, &t->tick, EPOLLIN, e);
}
