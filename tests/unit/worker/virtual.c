#include "tests/unit/worker/virtual.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Rate at which one byte takes one ns. */
#define BYTE_A_NS 8000000000u

struct event {
	int64_t at;
	uint64_t number;		/* order of those at one time */
	int worker, hop;		/* receiver and its index of the hop */
	struct message m;
};

struct vworker {
	struct vnet *net;
	int index;
	struct worker_spec spec;
	struct compute *compute;
	struct engine *engine;
};

struct vnet {
	const struct vpipe *p;
	int a_replica, n_workers;	/* workers of one, of all */
	struct vworker *workers;
	int64_t now;
	int64_t *link_free;		/* [replicas][2 * stages][2] */
	struct event *events;
	size_t n_events, cap_events;
	uint64_t number;
	vnet_meddle meddle;
	void *meddle_arg;
	int64_t tick, late;
	struct bace_rng rng;
};

/* Where it is received. */
static int index_of_hop(const struct worker_spec *s, int hop)
{
	for (int i = 0; i < s->n_hops; i++)
		if (s->hops[i].hop == hop && (!worker_is_ring(s, hop) || s->hops[i].role == HOP_LISTEN))
			return i;
	abort();
}

static int replicas(const struct vpipe *p)
{
	return p->replicas > 1 ? p->replicas : 1;
}

static void post(struct vnet *v, struct event ev)
{
	ev.number = v->number++;
	if (BACE_PUSH(v->events, v->n_events, v->cap_events, ev))
		abort();
}

static int on_send(void *arg, int hop, const struct message *m, struct bace_err *e)
{
	struct vworker *w = arg;
	struct vnet *v = w->net;
	const struct worker_hop_spec *h = &w->spec.hops[hop];
	bool forward = message_is_forward(m->kind), ring = worker_is_ring(&w->spec, h->hop);
	int to = forward ? worker_hop_to(&w->spec, h->hop) : worker_hop_from(&w->spec, h->hop);
	int replica = (w->spec.replica + ring) % replicas(v->p), n = v->p->schedule.stages;
	int receiver = v->p->worker[to] + replica * v->a_replica;
	struct event ev = { .at = v->now, .worker = receiver, .m = *m };
	int64_t leave = v->now;

	ev.hop = index_of_hop(&v->workers[receiver].spec, h->hop);
	if (h->kind == HOP_TCP) {
		int64_t *link = &v->link_free[(w->spec.replica * 2 * n + h->hop) * 2 + !forward];

		leave = leave > *link ? leave : *link;
		if (m->kind != MESSAGE_TOKEN)
			*link = leave += ring ? v->p->ring_serialisation[to] : v->p->serialisation[h->hop][!forward];
		ev.at = leave + (ring ? v->p->ring_latency[to] : v->p->latency[h->hop][!forward]);
	} else if (v->late) {
		ev.at += (int64_t)bace_rng_below(&v->rng, (uint64_t)v->late);
		/* One connection: in order. */
		for (size_t i = 0; i < v->n_events; i++)
			if (v->events[i].worker == receiver && v->events[i].hop == ev.hop &&
			    v->events[i].at > ev.at)
				ev.at = v->events[i].at;
	}
	if (!v->meddle || !v->meddle(v->meddle_arg, h->hop, &ev.m))
		post(v, ev);
	return 0;
}

static void fill_hop(const struct vpipe *p, int worker, int h, struct worker_hop_spec *out)
{
	bool from = p->worker[h] == worker, to = p->worker[(h + 1) % p->schedule.stages] == worker;

	*out = (struct worker_hop_spec){ .hop = h, .kind = p->tcp[h] ? HOP_TCP : HOP_LOCAL,
		.role = from && to ? HOP_INTERNAL : from ? HOP_CONNECT : HOP_LISTEN,
		.bytes = (uint64_t)p->serialisation[h][0], .rate_bps = BYTE_A_NS, .reverse_rate_bps = BYTE_A_NS,
		.latency_ns = p->latency[h][0] };
}

static void fill_rings(const struct vpipe *p, struct worker_spec *s)
{
	for (int i = 0; i < s->n_stages; i++) {
		int stage = s->stages[i].stage;

		for (int role = HOP_LISTEN; role <= HOP_CONNECT; role++)
			s->hops[s->n_hops++] = (struct worker_hop_spec){ .hop = s->schedule.stages + stage,
				.kind = p->ring_tcp[stage] ? HOP_TCP : HOP_LOCAL, .role = (enum hop_role)role,
				.bytes = (uint64_t)p->ring_serialisation[stage], .rate_bps = BYTE_A_NS,
				.latency_ns = p->ring_latency[stage] };
	}
}

static void fill_spec(const struct vpipe *p, int worker, int replica, struct worker_spec *s)
{
	int n = p->schedule.stages, hops = n - (p->schedule.kind != SCHED_INTERLEAVED_1F1B);

	*s = (struct worker_spec){ .name = "virtual", .schedule = p->schedule, .shared_clock = !p->own_clocks,
		.overlap = !p->no_overlap, .timeline = p->timeline, .warmup_steps = p->warmup_steps,
		.steps = p->steps, .steady_ppm = p->steady_ppm, .steady_steps = p->steady_steps, .replicas = replicas(p), .replica = replica };
	s->stages = calloc((size_t)n, sizeof(*s->stages));
	s->hops = calloc(3 * (size_t)n, sizeof(*s->hops));
	for (int i = 0; i < n; i++) {
		if (p->worker[i] != worker)
			continue;
		s->stages[s->n_stages].stage = i;
		for (int k = 0; k < 3; k++)
			s->stages[s->n_stages].duration_ns[k] = p->duration[i][k] + replica * p->slower;
		s->n_stages++;
	}
	for (int h = 0; h < hops; h++)
		if (p->worker[h] == worker || p->worker[(h + 1) % n] == worker)
			fill_hop(p, worker, h, &s->hops[s->n_hops++]);
	if (s->replicas > 1)
		fill_rings(p, s);
}

struct vnet *vnet_create(const struct vpipe *p)
{
	struct vnet *v = calloc(1, sizeof(*v));

	v->p = p;
	for (int i = 0; i < p->schedule.stages; i++)
		v->a_replica = p->worker[i] + 1 > v->a_replica ? p->worker[i] + 1 : v->a_replica;
	v->n_workers = v->a_replica * replicas(p);
	v->link_free = calloc((size_t)(replicas(p) * 4 * p->schedule.stages), sizeof(*v->link_free));
	v->workers = calloc((size_t)v->n_workers, sizeof(*v->workers));
	for (int i = 0; i < v->n_workers; i++) {
		struct vworker *w = &v->workers[i];
		struct engine_io io = { .send = on_send, .arg = w };
		struct bace_err e;

		w->net = v;
		w->index = i;
		fill_spec(p, i % v->a_replica, i / v->a_replica, &w->spec);
		if (worker_spec_check(&w->spec, &e) || compute_timed(&w->spec, &w->compute, &e) ||
		    engine_create(&w->spec, &io, w->compute, &w->engine, &e)) {
			fprintf(stderr, "%s\n", e.msg);
			abort();
		}
	}
	return v;
}

void vnet_destroy(struct vnet *v)
{
	for (int i = 0; i < v->n_workers; i++) {
		struct vworker *w = &v->workers[i];

		engine_destroy(w->engine);
		w->compute->ops->destroy(w->compute);
		worker_spec_free(&w->spec);
	}
	free(v->workers);
	free(v->events);
	free(v->link_free);
	free(v);
}

void vnet_meddle_with(struct vnet *v, vnet_meddle fn, void *arg)
{
	v->meddle = fn;
	v->meddle_arg = arg;
}

void vnet_host_is_late(struct vnet *v, int64_t tick, int64_t late, uint64_t seed)
{
	v->tick = tick;
	v->late = late;
	bace_rng_init(&v->rng, seed, 0);
}

static int64_t next_time(const struct vnet *v)
{
	int64_t at = INT64_MAX;

	for (size_t i = 0; i < v->n_events; i++)
		at = v->events[i].at < at ? v->events[i].at : at;
	for (int i = 0; i < v->n_workers; i++) {
		int64_t d = engine_deadline(v->workers[i].engine);

		if (d != INT64_MAX)
			at = d - vnet_clock(v, i) < at ? d - vnet_clock(v, i) : at;
	}
	if (at != INT64_MAX && v->tick)
		at = (at + v->tick - 1) / v->tick * v->tick;
	return at;
}

static bool take_event(struct vnet *v, struct event *out)
{
	size_t best = v->n_events;

	for (size_t i = 0; i < v->n_events; i++)
		if (v->events[i].at <= v->now &&
		    (best == v->n_events || v->events[i].at < v->events[best].at ||
		     (v->events[i].at == v->events[best].at && v->events[i].number < v->events[best].number)))
			best = i;
	if (best == v->n_events)
		return false;
	*out = v->events[best];
	v->events[best] = v->events[--v->n_events];
	return true;
}

static int happen(const struct vnet *v, const struct event *ev, struct bace_err *e)
{
	int64_t at = ev->at + vnet_clock(v, ev->worker);

	return engine_receive(v->workers[ev->worker].engine, ev->hop, &ev->m, at, at, e);
}

int vnet_run(struct vnet *v, int64_t start, struct bace_err *e)
{
	int rc = 0;

	v->now = start;
	for (int i = 0; !rc && i < v->n_workers; i++)
		rc = engine_go(v->workers[i].engine, start + vnet_clock(v, i), e);
	while (!rc) {
		struct event ev;
		bool done = true;

		for (int i = 0; i < v->n_workers; i++)
			done &= engine_done(v->workers[i].engine);
		if (done)
			return 0;
		if (next_time(v) == INT64_MAX)
			return -EDEADLK;
		v->now = next_time(v) > v->now ? next_time(v) : v->now;
		while (!rc && take_event(v, &ev))
			rc = happen(v, &ev, e);
		for (int i = 0; !rc && i < v->n_workers; i++)
			rc = engine_advance(v->workers[i].engine, v->now + vnet_clock(v, i), e);
	}
	return rc;
}

int vnet_n_workers(const struct vnet *v)
{
	return v->n_workers;
}

const struct engine *vnet_engine(const struct vnet *v, int worker)
{
	return v->workers[worker].engine;
}

int64_t vnet_clock(const struct vnet *v, int worker)
{
	return v->p->clock[worker % v->a_replica];
}

const struct worker_spec *vnet_spec(const struct vnet *v, int worker)
{
	return &v->workers[worker].spec;
}

void vnet_step(const struct vnet *v, int step, int64_t *start, int64_t *end)
{
	*start = INT64_MAX;
	*end = INT64_MIN;
	for (int w = 0; w < v->n_workers; w++) {
		const struct timeline *t = engine_timeline(v->workers[w].engine);

		for (size_t i = 0; i < t->n_ops; i++) {
			const struct op_record *o = &t->ops[i];
			int64_t from = o->start - vnet_clock(v, w), planned = o->third - vnet_clock(v, w), seen = o->end - vnet_clock(v, w);

			if (o->step == step && o->kind == WORKER_RECV_REDUCE)
				*end = seen > *end ? seen : *end;
			if (o->step != step || o->kind > WORKER_WEIGHT)
				continue;
			*start = from < *start ? from : *start;
			*end = planned > *end ? planned : *end;
		}
	}
}

const struct op_record *vnet_op(const struct vnet *v, int kind, int stage, int chunk, int step,
				int micro_batch)
{
	const struct timeline *t = engine_timeline(v->workers[v->p->worker[stage]].engine);

	for (size_t i = 0; i < t->n_ops; i++) {
		const struct op_record *o = &t->ops[i];

		if (o->kind == kind && o->stage == stage && o->chunk == chunk && o->step == step &&
		    o->micro_batch == micro_batch)
			return o;
	}
	return NULL;
}
