#include <errno.h>
#include <math.h>
#include <string.h>

#include "harness/sim/cluster.h"

/* View updates that in vain are waited for when nothing else will happen: a
 * policy may wait for a cheaper hour, but not for ever. */
#define MAX_VAIN 1000

/* ---- one instant ---- */

/* May anything come of asking? */
static bool worth_asking(const struct sim *s)
{
	return (s->n_queue && s->total_free >= s->least_k) || (s->elastic && s->n_running);
}

static double next_instant(const struct sim *s)
{
	double t = INFINITY;

	if (s->next_arrival < s->exp->n_jobs)
		t = s->exp->jobs[s->by_rank[s->next_arrival]].arrival_s;
	if (s->n_running)
		t = fmin(t, s->run[s->heap[0]].finish_s);
	if (s->next_change < s->in->n_changes)
		t = fmin(t, s->changes[s->next_change].at_s);
	/* News only matter to a policy that could do something. */
	if (worth_asking(s))
		t = fmin(t, s->view.next_s);
	return t;
}

static void apply_completions(struct sim *s)
{
	while (s->n_running && s->run[s->heap[0]].finish_s <= s->now_s) {
		int slot = s->heap[0], job = s->run[slot].job;

		running_finish(s, slot);
		if (s->in->on_finish)
			s->in->on_finish(s->in->arg, s->now_s, job);
	}
}

static void apply_links(struct sim *s)
{
	for (; s->next_change < s->in->n_changes; s->next_change++) {
		const struct link_change *l = &s->changes[s->next_change];
		double *now = &s->capacity[l->src * s->n + l->dst];

		if (l->at_s > s->now_s)
			break;
		if (*now == l->rate_bps)
			continue;
		*now = l->rate_bps;
		running_touch_pair(s, pair_of(s, l->src, l->dst));
	}
}

static int apply_arrivals(struct sim *s, struct bace_err *err)
{
	for (; s->next_arrival < s->exp->n_jobs; s->next_arrival++) {
		int job = s->by_rank[s->next_arrival];

		if (s->exp->jobs[job].arrival_s > s->now_s)
			break;
		if (s->n_queue == s->cap_queue) {
			size_t cap = (size_t)s->cap_queue;

			if (bace_grow(&s->queue, &cap, cap + 1, sizeof(*s->queue)))
				return bace_fail(err, ENOMEM, "queue of %d jobs: out of memory", s->n_queue);
			s->cap_queue = (int)cap;
		}
		result_arrived(s, job);
		s->queue[s->n_queue++] = (struct queued_job){ .job = job,
			.remaining_steps = s->in->models->v[job].steps };
	}
	return 0;
}

/* ---- decisions ---- */

static void show_running(struct sim *s)
{
	int n = 0;

	for (int slot = s->first_running; s->shown && slot >= 0; slot = s->run[slot].next)
		s->shown[n++] = (struct running_job){ .job = s->run[slot].job,
			.placement = &s->out->jobs[s->run[slot].job].placement,
			.remaining_steps = running_left(s, slot), .step_s = s->run[slot].step_s };
}

/* Index in the queue, which is sorted by rank; -1: not there. */
static int queue_find(const struct sim *s, int job)
{
	int lo = 0, hi = s->n_queue, rank;

	if (job < 0 || job >= s->exp->n_jobs)
		return -1;
	rank = s->rank[job];
	while (lo < hi) {
		int mid = lo + (hi - lo) / 2;

		if (s->rank[s->queue[mid].job] < rank)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->n_queue && s->queue[lo].job == job ? lo : -1;
}

/* Constraints that do not depend on the moment are known to hold for a
 * placement whose step time is remembered. */
static bool known_good(struct sim *s, const struct placement *p, int at)
{
	const struct placement_part *part = p->parts;

	return at >= 0 && p->n_parts == 1 && part->gpus == p->n_gpus && part->region >= 0 &&
	       part->region < s->n && part->gpus > 0 && part->gpus <= s->free_gpus[part->region] &&
	       steps_known(s, p);
}

static int admit(struct sim *s, struct placement *p, struct bace_err *err)
{
	int at = queue_find(s, p->job), rc;

	if (!known_good(s, p, at)) {
		struct view v = sim_view_of(s);
		struct queue q = { .n = s->n_queue, .v = s->queue };

		rc = placement_check(&v, &q, p, err);
		if (rc)
			return rc;
	}
	s->n_queue--;
	memmove(s->queue + at, s->queue + at + 1, sizeof(*s->queue) * (size_t)(s->n_queue - at));
	return running_start(s, p, err);
}

static int find_running(const struct sim *s, int job)
{
	int slot = s->first_running;

	while (slot >= 0 && s->run[slot].job != job)
		slot = s->run[slot].next;
	return slot;
}

static int move(struct sim *s, struct placement *p, struct bace_err *err)
{
	struct view v = sim_view_of(s);
	int rc = placement_check_resize(&v, p, err);

	return rc ? rc : running_move(s, find_running(s, p->job), p, err);
}

typedef int decide_fn(struct policy *p, const struct view *v, const struct queue *q,
		      struct placement *out, struct bace_err *err);

/* Asks once. 1: placed or moved one. 0: nothing. */
static int ask_policy(struct sim *s, decide_fn *fn, struct bace_err *err)
{
	struct queue q = { .n = s->n_queue, .v = s->queue };
	struct placement p = { .job = -1 };
	uint64_t digest = 0;
	int64_t begin = 0;
	struct view v;
	int rc;

	show_running(s);
	v = sim_view_of(s);
	if (s->in->on_decision) {
		digest = view_digest(s);
		begin = bace_mono_ns();
	}
	rc = fn(s->in->policy, &v, &q, &p, err);
	s->out->n_decisions++;
	if (rc >= 0 && s->in->on_decision)
		s->in->on_decision(s->in->arg, s->now_s, digest, (double)(bace_mono_ns() - begin) * 1e-9,
				   rc ? p.job : -1);
	if (rc > 0) {
		rc = fn == policy_resize ? move(s, &p, err) : admit(s, &p, err);
		rc = rc ? rc : 1;
	}
	placement_free(&p);
	return rc;
}

static int place_all(struct sim *s, struct bace_err *err)
{
	int rc = 1;

	while (rc > 0 && s->n_queue && s->total_free >= s->least_k)
		rc = ask_policy(s, policy_decide, err);
	return rc < 0 ? rc : 0;
}

/* Moves free GPUs, so the queue is asked about again; a policy that moves jobs
 * to and fro within an instant would never end. */
static int move_all(struct sim *s, struct bace_err *err)
{
	int rc = 1, moves = 0, limit = 4 * s->n_running + 4;

	while (rc > 0 && s->n_running) {
		rc = ask_policy(s, policy_resize, err);
		if (rc > 0 && ++moves > limit)
			return bace_fail(err, ELOOP, "policy: more than %d moves of running jobs at %g s",
					 limit, s->now_s);
	}
	return rc < 0 ? rc : moves ? place_all(s, err) : 0;
}

static int decide_all(struct sim *s, struct bace_err *err)
{
	int rc;

	if (s->n_queue > s->out->max_queue)
		s->out->max_queue = s->n_queue;
	for (int i = 0; i < s->n_queue; i++)
		s->queue[i].waited_s = s->now_s - s->exp->jobs[s->queue[i].job].arrival_s;
	rc = place_all(s, err);
	if (!rc && s->elastic)
		rc = move_all(s, err);
	return rc;
}

static void announce(struct sim *s)
{
	for (int i = 0; i < s->n_fresh; i++) {
		struct running *r = &s->run[s->fresh[i]];

		r->fresh = false;
		if (s->in->on_start)
			s->in->on_start(s->in->arg, s->now_s, &s->out->jobs[r->job].placement, r->step_s);
	}
	s->n_fresh = 0;
}

static int instant(struct sim *s, struct bace_err *err)
{
	int rc;

	s->out->n_events++;
	apply_completions(s);
	apply_links(s);
	rc = apply_arrivals(s, err);
	if (rc)
		return rc;
	if (worth_asking(s)) {
		view_advance(s);
		rc = decide_all(s, err);
	}
	if (!rc)
		rc = steps_update(s, err);
	if (!rc)
		announce(s);
	return rc;
}

/* Is anything but news for the policy still to come? */
static bool quiet(const struct sim *s)
{
	return s->next_arrival == s->exp->n_jobs && s->next_change == s->in->n_changes &&
	       (!s->n_running || isinf(s->run[s->heap[0]].finish_s));
}

static int loop(struct sim *s, struct bace_err *err)
{
	int64_t started = 0;
	int vain = 0, rc = 0;
	double t;

	while (!rc && (t = next_instant(s)) < INFINITY) {
		s->now_s = t;
		rc = instant(s, err);
		vain = quiet(s) && s->n_started == started ? vain + 1 : 0;
		started = s->n_started;
		if (vain > MAX_VAIN)
			break;
	}
	return rc;
}

int cluster_simulate(const struct cluster_sim *in, struct cluster_result *out, struct bace_err *err)
{
	struct sim s = { .in = in, .exp = in->exp, .c = &in->exp->cluster, .out = out,
			 .n = in->exp->cluster.n_regions };
	int rc;

	*out = (struct cluster_result){ 0 };
	rc = sim_setup(&s, err);
	if (!rc)
		rc = loop(&s, err);
	while (!rc && s.first_running >= 0)
		running_abandon(&s, s.first_running);
	if (!rc && s.exp->bill_idle) {
		s.now_s = s.last_s;
		for (int i = 0; i < s.n; i++)
			idle_settle(&s, s.by_name[i]);
	}
	if (!rc)
		rc = result_totals(&s, err);
	if (rc)
		cluster_result_free(out);
	sim_teardown(&s);
	return rc;
}
