/*
 * The jobs that run: GPUs and links they hold, work done, energy and cost. A
 * job is settled (integrated up to now) only when its step time changes or it
 * ends; between, its step time and power are constant.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "harness/sim/cluster.h"

#define J_PER_KWH 3.6e6

/* ---- completions: a binary heap of slots ---- */

static bool sooner(const struct sim *s, int a, int b)
{
	const struct running *x = &s->run[a], *y = &s->run[b];

	return x->finish_s < y->finish_s || (x->finish_s == y->finish_s && x->rank < y->rank);
}

static void heap_put(struct sim *s, int at, int slot)
{
	s->heap[at] = slot;
	s->run[slot].heap_at = at;
}

static void heap_fix(struct sim *s, int at)
{
	int slot = s->heap[at], n = s->n_running;

	while (at > 0 && sooner(s, slot, s->heap[(at - 1) / 2])) {
		heap_put(s, at, s->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	for (;;) {
		int child = 2 * at + 1;

		if (child >= n)
			break;
		if (child + 1 < n && sooner(s, s->heap[child + 1], s->heap[child]))
			child++;
		if (!sooner(s, s->heap[child], slot))
			break;
		heap_put(s, at, s->heap[child]);
		at = child;
	}
	heap_put(s, at, slot);
}

static void heap_remove(struct sim *s, int at)
{
	int last = s->heap[--s->n_running];

	if (at == s->n_running)
		return;
	heap_put(s, at, last);
	heap_fix(s, at);
}

/* ---- links ---- */

/* Summed anew, in order of start: adding and subtracting would leave rounding
 * errors behind that depend on history. */
static void reserve_again(struct sim *s, int pair)
{
	int a = pair / s->n, b = pair % s->n;
	double sum = 0;

	for (int x = s->pair_first[pair]; x >= 0; x = s->cross[x].next)
		sum += s->cross[x].bps;
	s->reserved[a * s->n + b] = s->reserved[b * s->n + a] = sum;
}

static int new_crossing(struct sim *s, int slot, int pair, double bps)
{
	int x = s->free_cross;

	if (x >= 0) {
		s->free_cross = s->cross[x].sibling;
	} else {
		if (s->n_cross == s->cap_cross &&
		    bace_grow(&s->cross, &s->cap_cross, s->n_cross + 1, sizeof(*s->cross)))
			return -ENOMEM;
		x = (int)s->n_cross++;
	}
	s->cross[x] = (struct crossing){ .slot = slot, .pair = pair, .bps = bps, .next = -1,
		.prev = s->pair_last[pair], .sibling = s->run[slot].first_crossing };
	s->run[slot].first_crossing = x;
	if (s->pair_last[pair] >= 0)
		s->cross[s->pair_last[pair]].next = x;
	else
		s->pair_first[pair] = x;
	s->pair_last[pair] = x;
	s->reserved[pair] += bps;
	s->reserved[pair % s->n * s->n + pair / s->n] += bps;
	return 0;
}

static bool crosses(const struct sim *s, int slot, int pair)
{
	for (int x = s->run[slot].first_crossing; x >= 0; x = s->cross[x].sibling)
		if (s->cross[x].pair == pair)
			return true;
	return false;
}

static void drop_crossings(struct sim *s, int slot)
{
	for (int x = s->run[slot].first_crossing, next; x >= 0; x = next) {
		struct crossing *c = &s->cross[x];

		next = c->sibling;
		if (c->prev >= 0)
			s->cross[c->prev].next = c->next;
		else
			s->pair_first[c->pair] = c->next;
		if (c->next >= 0)
			s->cross[c->next].prev = c->prev;
		else
			s->pair_last[c->pair] = c->prev;
		reserve_again(s, c->pair);
		running_touch_pair(s, c->pair);
		c->pair = -1;
		c->sibling = s->free_cross;
		s->free_cross = x;
	}
	s->run[slot].first_crossing = -1;
}

/* The interleaved schedule also sends from the last stage back to the first. */
static int add_crossings(struct sim *s, int slot, const struct placement *p, double bps)
{
	int n = p->n_parts;
	int hops = s->exp->schedule == SCHED_INTERLEAVED_1F1B && n > 1 ? n : n - 1;

	for (int i = 0; i < hops; i++) {
		int pair = pair_of(s, p->parts[i].region, p->parts[(i + 1) % n].region);

		if (!crosses(s, slot, pair) && new_crossing(s, slot, pair, bps))
			return -ENOMEM;
	}
	return 0;
}

static void mark_dirty(struct sim *s, int slot)
{
	s->changed = true;
	if (s->run[slot].dirty)
		return;
	s->run[slot].dirty = true;
	s->dirty[s->n_dirty++] = slot;
}

bool running_touch_pair(struct sim *s, int pair)
{
	for (int x = s->pair_first[pair]; x >= 0; x = s->cross[x].next)
		mark_dirty(s, s->cross[x].slot);
	return s->pair_first[pair] >= 0;
}

/* ---- energy and cost ---- */

void idle_settle(struct sim *s, int region)
{
	const struct region *r = &s->c->regions[region];
	double from = fmax(s->free_since[region], s->first_arrival_s);
	double watts = s->free_gpus[region] * s->c->gpus[r->gpu].idle_ctx_w;

	s->free_since[region] = s->now_s;
	if (!s->exp->bill_idle || watts == 0 || s->now_s <= from)
		return;
	s->out->idle_energy_j += watts * (s->now_s - from);
	s->out->idle_cost_usd += watts * r->pue * price_integral(&r->price, from, s->now_s) / J_PER_KWH;
}

static void hold_gpus(struct sim *s, const struct placement *p, int sign)
{
	for (int i = 0; i < p->n_parts; i++) {
		if (s->exp->bill_idle)
			idle_settle(s, p->parts[i].region);
		s->free_gpus[p->parts[i].region] -= sign * p->parts[i].gpus;
	}
	s->total_free -= sign * p->n_gpus;
}

/* One stretch at constant power. */
static void consume(struct sim *s, struct job_outcome *o, double from_s, double to_s, double busy)
{
	double dt = to_s - from_s;

	if (dt <= 0)
		return;
	for (int i = 0; i < o->placement.n_parts; i++) {
		const struct placement_part *part = &o->placement.parts[i];
		const struct region *reg = &s->c->regions[part->region];
		const struct gpu_type *g = &s->c->gpus[reg->gpu];
		double watts = part->gpus * (g->idle_ctx_w + busy * (g->active_w - g->idle_ctx_w));

		o->energy_j += watts * dt;
		o->cost_usd += watts * reg->pue * price_integral(&reg->price, from_s, to_s) / J_PER_KWH;
	}
	o->gpu_s += o->placement.n_gpus * dt;
}

double running_left(const struct sim *s, int slot)
{
	const struct running *r = &s->run[slot];
	double dt = s->now_s - fmax(r->since_s, r->resume_s);

	return dt > 0 && r->step_s > 0 ? fmax(0, r->left_steps - dt / r->step_s) : r->left_steps;
}

void running_settle(struct sim *s, int slot)
{
	struct running *r = &s->run[slot];
	struct job_outcome *o = &s->out->jobs[r->job];
	double resume_s = fmax(r->since_s, fmin(r->resume_s, s->now_s));

	if (s->now_s <= r->since_s)
		return;
	consume(s, o, r->since_s, resume_s, 0);
	consume(s, o, resume_s, s->now_s, r->busy);
	r->left_steps = running_left(s, slot);
	r->since_s = s->now_s;
}

/* Bytes over a hop, both directions: m micro-batches, A each, once per chunk. */
static double egress_usd(const struct sim *s, const struct placement *p, double steps)
{
	const struct job_model *j = &s->in->models->v[p->job];
	bool interleaved = s->exp->schedule == SCHED_INTERLEAVED_1F1B;
	double chunks = interleaved && s->exp->interleave > 1 ? s->exp->interleave : 1, usd = 0;

	for (int i = 0; i < p->n_parts; i++) {
		int a = p->parts[i].region, b = p->parts[(i + 1) % p->n_parts].region;
		double times = i + 1 < p->n_parts ? chunks : chunks - 1;

		if (a != b)
			usd += times * (cluster_link(s->c, a, b)->usd_per_byte +
					cluster_link(s->c, b, a)->usd_per_byte);
	}
	return usd * j->m * j->boundary_bytes * steps;
}

/* ---- from start to end ---- */

static void link_running(struct sim *s, int slot)
{
	struct running *r = &s->run[slot];

	r->prev = s->last_running;
	r->next = -1;
	if (r->prev >= 0)
		s->run[r->prev].next = slot;
	else
		s->first_running = slot;
	s->last_running = slot;
}

static void unlink_running(struct sim *s, int slot)
{
	struct running *r = &s->run[slot];

	if (r->prev >= 0)
		s->run[r->prev].next = r->next;
	else
		s->first_running = r->next;
	if (r->next >= 0)
		s->run[r->next].prev = r->prev;
	else
		s->last_running = r->prev;
}

/* Takes the GPUs and links of o->placement. */
static int occupy(struct sim *s, int slot, double bps, struct bace_err *err)
{
	struct running *r = &s->run[slot];
	const struct placement *p = &s->out->jobs[r->job].placement;

	r->started = s->n_started++;
	hold_gpus(s, p, 1);
	link_running(s, slot);
	mark_dirty(s, slot);
	if (!r->fresh)
		s->fresh[s->n_fresh++] = slot;
	r->fresh = true;
	if (add_crossings(s, slot, p, bps))
		return bace_fail(err, ENOMEM, "start of %s: out of memory", s->exp->jobs[r->job].name);
	for (int x = r->first_crossing; x >= 0; x = s->cross[x].sibling)
		running_touch_pair(s, s->cross[x].pair);
	return 0;
}

/* Leaves them again. */
static void vacate(struct sim *s, int slot)
{
	drop_crossings(s, slot);
	hold_gpus(s, &s->out->jobs[s->run[slot].job].placement, -1);
	unlink_running(s, slot);
	s->changed = true;
}

static double reservation_bps(const struct sim *s, const struct placement *p)
{
	struct view v = sim_view_of(s);

	return p->n_parts > 1 ? policy_reservation_bps(s->in->policy, &v, p) : 0;
}

int running_start(struct sim *s, struct placement *p, struct bace_err *err)
{
	double bps = reservation_bps(s, p);
	int slot = s->free_slot[--s->n_free_slot], job = p->job;
	struct job_outcome *o = &s->out->jobs[job];

	s->run[slot] = (struct running){ .job = job, .rank = s->rank[job], .since_s = s->now_s,
		.left_steps = s->in->models->v[job].steps,
		.placed_steps = s->in->models->v[job].steps, .finish_s = INFINITY,
		.first_crossing = -1 };
	o->placement = *p;
	*p = (struct placement){ 0 };
	o->start_s = s->now_s;
	heap_put(s, s->n_running++, slot);
	heap_fix(s, s->n_running - 1);
	return occupy(s, slot, bps, err);
}

static void count_egress(struct sim *s, int slot)
{
	struct running *r = &s->run[slot];
	struct job_outcome *o = &s->out->jobs[r->job];
	double usd = s->egress ? egress_usd(s, &o->placement, r->placed_steps - r->left_steps) : 0;

	r->placed_steps = r->left_steps;
	o->egress_usd += usd;
	o->cost_usd += usd;
}

int running_move(struct sim *s, int slot, struct placement *p, struct bace_err *err)
{
	struct running *r = &s->run[slot];
	struct job_outcome *o = &s->out->jobs[r->job];
	double bps = reservation_bps(s, p);

	running_settle(s, slot);
	count_egress(s, slot);
	vacate(s, slot);
	placement_free(&o->placement);
	o->placement = *p;
	*p = (struct placement){ 0 };
	o->n_restarts++;
	r->resume_s = s->now_s + policy_restart_s(s->in->policy);
	r->step_s = 0;		/* not known on the new placement */
	r->finish_s = INFINITY;
	heap_fix(s, r->heap_at);
	return occupy(s, slot, bps, err);
}

void running_set_step(struct sim *s, int slot, const struct step_estimate *e)
{
	struct running *r = &s->run[slot];

	if (r->step_s == e->step_s && r->busy == e->busy)
		return;
	if (r->step_s > 0)
		running_settle(s, slot);
	r->step_s = e->step_s;
	r->busy = e->busy;
	r->finish_s = isinf(e->step_s) ? INFINITY :
		      fmax(s->now_s, r->resume_s) + r->left_steps * e->step_s;
	heap_fix(s, r->heap_at);
}

static void leave(struct sim *s, int slot)
{
	struct running *r = &s->run[slot];

	vacate(s, slot);
	heap_remove(s, r->heap_at);
	r->dirty = false;
	s->free_slot[s->n_free_slot++] = slot;
	s->last_s = fmax(s->last_s, s->now_s);
}

void running_finish(struct sim *s, int slot)
{
	struct running *r = &s->run[slot];
	const struct job_model *j = &s->in->models->v[r->job];
	struct job_outcome *o = &s->out->jobs[r->job];

	running_settle(s, slot);
	r->left_steps = 0;
	count_egress(s, slot);
	leave(s, slot);
	o->finished = true;
	o->finish_s = s->now_s;
	o->steps_done = j->steps;
	o->jct_s = o->finish_s - o->arrival_s;
	o->waiting_s = o->start_s - o->arrival_s;
	o->slowdown = o->jct_s / (j->steps * j->step_star_s);
	o->mean_step_s = (o->finish_s - o->start_s) / j->steps;
}

void running_abandon(struct sim *s, int slot)
{
	struct running *r = &s->run[slot];
	struct job_outcome *o = &s->out->jobs[r->job];

	running_settle(s, slot);
	count_egress(s, slot);
	leave(s, slot);
	o->waiting_s = o->start_s - o->arrival_s;
	o->steps_done = s->in->models->v[r->job].steps - r->left_steps;
}
