/*
 * A rank: connects its hops, warms them, waits for `go`; then one loop drives the
 * engine.
 */
#include "workloads/worker/rank.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/worker/report.h"

#define NEVER INT64_MAX
#define GO_AHEAD_NS (3600ll * 1000000000)
#define STRETCH_MAX_PPM 1000000
#define DRAIN_POLL_NS 2000000

enum phase { CONNECTING, READY, GOING, DRAINING, CLOSING };

struct rank {
	struct worker_spec spec;
	const struct rank_kinds *kinds;
	struct mover *mover;		/* NULL: all hops are sockets */
	struct compute *compute;
	struct engine *engine;
	struct commands *commands;
	struct loop *loop;
	struct watch in, computed;
	struct hop_events events;
	struct hop *hops;		/* [spec.n_hops]; internal ones unused */
	struct flows *flows;
	enum phase phase;
	bool connected_asked;
	int64_t started;
	int64_t since;			/* the phase, and within GOING the step, began */
	int steps_ended;		/* by the slowest stage here */
	int *ended;			/* [spec.n_stages] */
};

/* Over a socket of its own; others are internal, or the mover's. */
static bool on_network(const struct rank *r, int i)
{
	return r->spec.hops[i].role != HOP_INTERNAL && r->spec.hops[i].kind != HOP_NCCL;
}

static void enter(struct rank *r, enum phase phase)
{
	r->phase = phase;
	r->since = loop_now(r->loop);
}

/* ---- what the engine asks for, and what the hops tell ---- */

static int engine_sends(void *arg, int hop, const struct message *m, struct bace_err *e)
{
	struct rank *r = arg;

	return r->spec.hops[hop].kind == HOP_NCCL ? r->mover->ops->send(r->mover, hop, m, e) :
	       hop_send(&r->hops[hop], m, e);
}

static void stage_ended_step(void *arg, int slot, int step)
{
	struct rank *r = arg;
	int least = INT32_MAX;

	flows_step_ended(r->flows, slot, step);
	if (r->mover)
		r->mover->ops->step_ended(r->mover, step);
	r->ended[slot]++;
	for (int i = 0; i < r->spec.n_stages && least > r->steps_ended; i++)
		least = r->ended[i] < least ? r->ended[i] : least;
	if (least > r->steps_ended) {
		r->steps_ended = least;
		r->since = loop_now(r->loop);
	}
}

static int hop_received(void *arg, int hop, const struct message *m, int64_t first, int64_t now,
			struct bace_err *e)
{
	return engine_receive(((struct rank *)arg)->engine, hop, m, first, now, e);
}

static void hop_sent(void *arg, int hop, const struct message *m, int64_t now)
{
	engine_sent(((struct rank *)arg)->engine, hop, m, now);
}

static int hop_step(void *arg, int hop)
{
	const struct rank *r = arg;

	return r->phase < GOING ? INT32_MAX : engine_step_at(r->engine, hop);
}

static int steps_skipped(void *arg)
{
	return engine_skipped(((const struct rank *)arg)->engine);
}

static int on_computed(struct watch *w, uint32_t events, int64_t now, struct bace_err *e)
{
	/* The turn's end collects. */
	return 0;
}

/* ---- commands ---- */

static int find_hop(const struct rank *r, json_int_t number)
{
	for (int i = 0; i < r->spec.n_hops; i++)
		if (r->spec.hops[i].hop == number && r->spec.hops[i].role == HOP_CONNECT)
			return i;
	return -1;
}

static int do_connect(struct rank *r, const json_t *cmd, struct bace_err *e)
{
	const json_t *hops = json_object_get(cmd, "hops"), *h;
	size_t k;

	json_array_foreach((json_t *)hops, k, h) {
		int i = find_hop(r, json_integer_value(json_object_get(h, "hop")));
		const char *addr = json_string_value(json_object_get(h, "addr"));
		json_int_t port = json_integer_value(json_object_get(h, "port"));
		int rc;

		if (i < 0 || !on_network(r, i) || !addr || port < 1 || port > 65535 || hop_begun(&r->hops[i]))
			return bace_fail(e, EINVAL, "connect: hop, addr or port is wrong");
		rc = hop_connect(&r->hops[i], addr, (uint16_t)port, e);
		if (rc)
			return rc;
	}
	r->connected_asked = true;
	return r->mover ? r->mover->ops->connect(r->mover, cmd, e) : 0;
}

static int do_go(struct rank *r, const json_t *cmd, struct bace_err *e)
{
	const json_t *j = json_object_get(cmd, "at_ns");
	int64_t at = json_integer_value(j), now = bace_mono_ns();

	if (!json_is_integer(j) || at > now + GO_AHEAD_NS)
		return bace_fail(e, EINVAL, "go: `at_ns' must be a time, at most an hour ahead");
	enter(r, GOING);
	r->started = at > now ? at : now;
	r->since = r->started;
	if (!r->spec.warmup_steps)
		flows_start(r->flows);
	if (r->mover) {
		int rc = r->mover->ops->go(r->mover, e);

		if (rc)
			return rc;
	}
	return engine_go(r->engine, r->started, e);
}

static int do_stretch(struct rank *r, const json_t *cmd, struct bace_err *e)
{
	const json_t *j = json_object_get(cmd, "ppm");
	json_int_t ppm = json_integer_value(j);

	if (!json_is_integer(j) || ppm < 0 || ppm > STRETCH_MAX_PPM)
		return bace_fail(e, EINVAL, "stretch: `ppm' must be 0 to %d", STRETCH_MAX_PPM);
	engine_stretch(r->engine, (int)ppm);
	return 0;
}

static int on_command(struct rank *r, const json_t *cmd, struct bace_err *e)
{
	const char *name = json_string_value(json_object_get(cmd, "cmd"));

	if (name && !strcmp(name, "connect") && !r->connected_asked)
		return do_connect(r, cmd, e);
	if (name && !strcmp(name, "go") && r->phase == READY)
		return do_go(r, cmd, e);
	if (name && !strcmp(name, "stretch") && r->phase >= GOING)
		return do_stretch(r, cmd, e);
	return bace_fail(e, EINVAL, "command `%.40s': not now", name ? name : "?");
}

static int read_commands(struct rank *r, struct bace_err *e)
{
	for (;;) {
		json_t *cmd = command_next(r->commands, e);
		int rc;

		if (!cmd && e->errnum)
			return -e->errnum;
		if (!cmd)
			return r->commands->eof ? bace_fail(e, ECANCELED, "the agent is gone") : 0;
		rc = on_command(r, cmd, e);
		json_decref(cmd);
		if (rc)
			return rc;
	}
}

static int on_stdin(struct watch *w, uint32_t events, int64_t now, struct bace_err *e)
{
	return read_commands(w->owner, e);
}

/* ---- deadlines ---- */

static int64_t patience(const struct rank *r)
{
	switch (r->phase) {
	case CONNECTING:
		return r->spec.connect_timeout_ns;
	case READY:
		return r->spec.go_timeout_ns ? r->spec.go_timeout_ns : NEVER;
	default:
		/* Also after the last step: the others may still be at it. */
		return r->spec.step_timeout_ns;
	}
}

static int64_t deadline(const struct rank *r)
{
	int64_t p = patience(r);

	return p == NEVER ? NEVER : r->since + p;
}

static int not_connected(const struct rank *r, struct bace_err *e)
{
	double s = (double)r->spec.connect_timeout_ns / 1e9;

	for (int i = 0; i < r->spec.n_hops; i++) {
		const struct hop *h = &r->hops[i];
		bool there = hop_begun(h);

		if (!on_network(r, i) || hop_warm(h))
			continue;
		if (hop_spec(h)->role == HOP_CONNECT && !there)
			break;
		if (there && hop_connecting(h))
			return bace_fail(e, ETIMEDOUT, "%s: connect %s: no answer within %.1f s", h->name, h->peer, s);
		if (!there && worker_is_ring(&r->spec, hop_spec(h)->hop))
			return bace_fail(e, ETIMEDOUT, "%s: replica %d did not connect within %.1f s", h->name,
					 (r->spec.replica + r->spec.replicas - 1) % r->spec.replicas, s);
		if (!there)
			return bace_fail(e, ETIMEDOUT, "%s: stage %d did not connect within %.1f s", h->name,
					 hop_spec(h)->hop, s);
		return bace_fail(e, ETIMEDOUT, "%s: %s: the first message did not come within %.1f s", h->name,
				 h->peer, s);
	}
	if (r->connected_asked && r->mover)
		return r->mover->ops->waited(r->mover, r->spec.connect_timeout_ns, e);
	return bace_fail(e, ETIMEDOUT, "the agent did not say within %.1f s what to connect to", s);
}

static int too_late(struct rank *r, struct bace_err *e)
{
	switch (r->phase) {
	case CONNECTING:
		return not_connected(r, e);
	case READY:
		return bace_fail(e, ETIMEDOUT, "no `go' within %.1f s", (double)r->spec.go_timeout_ns / 1e9);
	case GOING:
		return engine_waited(r->engine, r->spec.step_timeout_ns, e);
	default:
		break;
	}
	for (int i = 0; i < r->spec.n_hops; i++)
		if (on_network(r, i) && !(r->phase == CLOSING ? hop_finished : hop_drained)(&r->hops[i]))
			return bace_fail(e, ETIMEDOUT, "%s step %d: %s: %s within %.1f s of the last step",
				r->hops[i].name, r->spec.steps - 1, r->hops[i].peer,
				r->phase == CLOSING ? "the peer did not end" : "not all was acknowledged",
				(double)patience(r) / 1e9);
	if (r->mover)
		return r->mover->ops->waited(r->mover, patience(r), e);
	return bace_fail(e, ETIMEDOUT, "the connections did not end");
}

/* ---- the phases ---- */

static bool all(const struct rank *r, bool (*what)(const struct hop *h))
{
	for (int i = 0; i < r->spec.n_hops; i++)
		if (on_network(r, i) && !what(&r->hops[i]))
			return false;
	return true;
}

/* tcp_info is final when both sides have ended the connection. */
static int begin_close(struct rank *r, struct bace_err *e)
{
	for (int i = 0; i < r->spec.n_hops; i++)
		if (on_network(r, i))
			hop_shutdown(&r->hops[i]);
	enter(r, CLOSING);
	return r->mover ? r->mover->ops->close(r->mover, e) : 0;
}

static int next_phase(struct rank *r, struct bace_err *e)
{
	if (r->phase == CONNECTING && r->connected_asked && all(r, hop_warm) &&
	    (!r->mover || r->mover->ops->warm(r->mover))) {
		enter(r, READY);
		event_send(json_pack("{s:s}", "event", "ready"));
	}
	if (r->phase == GOING && engine_done(r->engine))
		enter(r, DRAINING);
	if (r->phase == DRAINING && all(r, hop_drained) && (!r->mover || r->mover->ops->drained(r->mover)))
		return begin_close(r, e);
	return 0;
}

static int64_t wake_at(const struct rank *r)
{
	int64_t at = deadline(r), op;

	if (r->phase == DRAINING && at > loop_now(r->loop) + DRAIN_POLL_NS)
		return loop_now(r->loop) + DRAIN_POLL_NS;
	if (r->phase != GOING)
		return at;
	op = engine_deadline(r->engine);
	return op < at ? op : at;
}

static int run(struct rank *r, struct bace_err *e)
{
	int rc = read_commands(r, e);	/* may have come with the spec */

	while (!rc) {
		rc = next_phase(r, e);
		if (rc || (r->phase == CLOSING && all(r, hop_finished) &&
			   (!r->mover || r->mover->ops->closed(r->mover))))
			break;
		rc = loop_turn(r->loop, wake_at(r), e);
		/* What the messages began may have ended since the turn began. */
		if (!rc && r->phase == GOING)
			rc = engine_advance(r->engine, loop_look(r->loop), e);
		if (!rc && loop_now(r->loop) >= deadline(r) && !(r->phase == GOING && engine_done(r->engine)))
			rc = too_late(r, e);
	}
	return rc;
}

/* ---- life ---- */

static int open_hops(struct rank *r, struct bace_err *e)
{
	for (int i = 0; i < r->spec.n_hops; i++) {
		uint16_t port;
		int rc;

		if (!on_network(r, i))
			continue;
		hop_init(&r->hops[i], &r->spec, i, r->loop, &r->events);
		if (r->spec.hops[i].role != HOP_LISTEN)
			continue;
		rc = hop_listen(&r->hops[i], &port, e);
		if (rc)
			return rc;
		event_listening(r->spec.hops[i].hop, port);
	}
	return 0;
}

static int make_compute(struct rank *r, struct bace_err *e)
{
	int rc;

	if (r->spec.compute == COMPUTE_CUDA)
		rc = r->kinds->cuda ? r->kinds->cuda(&r->spec, &r->compute, e) :
		     bace_fail(e, ENOTSUP, "compute \"cuda\" needs bace-worker-nccl");
	else if (r->spec.compute == COMPUTE_CPU)
		rc = compute_cpu(&r->spec, &r->compute, e);
	else
		rc = compute_timed(&r->spec, &r->compute, e);
	if (rc)
		return rc;
	r->computed = (struct watch){ .fd = r->compute->ops->fd(r->compute), .fn = on_computed, .owner = r };
	return r->computed.fd < 0 ? 0 : loop_watch(r->loop, &r->computed, EPOLLIN, e);
}

static int make_mover(struct rank *r, struct bace_err *e)
{
	if (!r->spec.nccl.used)
		return 0;
	if (!r->kinds->mover)
		return bace_fail(e, ENOTSUP, "spec: `nccl' needs bace-worker-nccl");
	return r->kinds->mover->create(&r->spec, r->loop, &r->events, &r->mover, e);
}

static int prepare(struct rank *r, struct bace_err *e)
{
	struct engine_io io = { .send = engine_sends, .step_ended = stage_ended_step, .arg = r };
	int rc = loop_create(&r->loop, e);

	if (rc)
		return rc;
	r->events = (struct hop_events){ .received = hop_received, .sent = hop_sent,
					 .step = hop_step, .skipped = steps_skipped, .arg = r };
	r->hops = calloc((size_t)r->spec.n_hops + 1, sizeof(*r->hops));
	r->ended = calloc((size_t)r->spec.n_stages, sizeof(*r->ended));
	if (!r->hops || !r->ended)
		return bace_fail(e, ENOMEM, "out of memory");
	rc = make_compute(r, e);
	if (!rc)
		rc = engine_create(&r->spec, &io, r->compute, &r->engine, e);
	if (!rc)
		rc = flows_create(&r->spec, r->hops, &r->flows, e);
	if (rc)
		return rc;
	r->in = (struct watch){ .fd = 0, .fn = on_stdin, .owner = r };
	rc = loop_watch(r->loop, &r->in, EPOLLIN, e);
	enter(r, CONNECTING);
	if (!rc)
		rc = make_mover(r, e);
	return rc ? rc : open_hops(r, e);
}

static int report(struct rank *r, struct bace_err *e)
{
	json_t *flows = flows_json(r->flows), *more = json_object();
	int rc = r->mover ? r->mover->ops->report(r->mover, flows, more, e) : 0;

	if (r->compute->ops->report)
		json_object_set_new(more, "compute", r->compute->ops->report(r->compute));
	if (!rc)
		rc = report_done(r->engine, flows, more, r->started, e);
	json_decref(flows);
	json_decref(more);
	return rc;
}

static void cleanup(struct rank *r)
{
	if (r->mover)
		r->mover->ops->destroy(r->mover);
	for (int i = 0; i < r->spec.n_hops && r->hops; i++)
		if (on_network(r, i))
			hop_free(&r->hops[i]);
	free(r->hops);
	free(r->ended);
	if (r->flows)
		flows_destroy(r->flows);
	if (r->engine)
		engine_destroy(r->engine);
	if (r->compute)
		r->compute->ops->destroy(r->compute);
	if (r->loop)
		loop_destroy(r->loop);
}

int rank_run(const json_t *spec, struct commands *c, const struct rank_kinds *kinds, struct bace_err *e)
{
	struct rank r = { .commands = c, .kinds = kinds };
	int rc = worker_spec_read(spec, &r.spec, e);

	if (!rc)
		rc = prepare(&r, e);
	if (!rc)
		rc = run(&r, e);
	if (!rc)
		rc = report(&r, e);
	if (rc && r.spec.n_stages)
		bace_err_context(e, "%s rank %d%s%s", r.spec.name, r.spec.rank, r.spec.host[0] ? " on " : "",
				 r.spec.host);
	/* Before the rest, which may take its time. */
	if (rc) {
		event_error(e);
		c->told = true;
	}
	cleanup(&r);
	worker_spec_free(&r.spec);
	return rc;
}
