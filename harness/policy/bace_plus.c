/*
 * bace+: what the model implies beyond BACE-Pipe.
 *
 * Objective    least mean completion time; between placements that are as good
 *              as equal, least money, electricity and egress.
 * Inputs       the view, with the jobs that run (view.running); the schedule
 *              really run. Without view.running nothing is expected to end and
 *              no job waits for GPUs.
 * Steps        1. Order: bace's priority with ageing always on; aging_s = 0
 *              means the longest predicted run in the queue. A priority is at
 *              most 1, so no later job passes one that has waited that much
 *              longer: nothing starves.
 *              2. Plan (plan.c): what is free when the running jobs end. For
 *              each job in order, and each such instant, the best placement
 *              (search.c): any path of links with bandwidth left, grown over
 *              the widest or the quickest link or to the cheapest region,
 *              every k that shortens the largest stage. T is predicted for the schedule really run,
 *              latency included (predict.c), not held to a threshold. Best is
 *              the least  wait + N T (1 + k w):  w = jobs behind / GPUs of the
 *              cluster while the queue asks for more than is free, since each
 *              GPU second the job holds is one that they wait for.
 *              Of all instants and placements within 2 % of that (prefer =
 *              "cost": 20 %), the cheapest: a long job may well wait a while
 *              for a short one to leave a cheap region. If that is now, the
 *              job is placed; if later, GPUs and links are promised to it and
 *              the next job is planned around the promise. So no job is
 *              delayed by one that passes it, as far as step times hold what
 *              was predicted.
 *              3. Before a placement the few best and the few cheapest go
 *              through the event simulation of the schedule, and the cheapest
 *              that still is within the slack wins.
 *              Price: the forecast mean over the run. A series with a period
 *              is a tariff or a typical day and known; else the present price
 *              fades to the mean of the past over some hours. Egress counts.
 *              start = k_star: never fewer GPUs than the empty cluster gives.
 * Elastic      with spec.elastic a job that would wait starts on what there
 *              is if the steps it makes meanwhile are worth the restart, and
 *              wastes no GPUs on it; and when no job waits, the running job
 *              that saves most by a restart on more GPUs (its own and free
 *              ones) is checkpointed and restarted, if that saves more than a
 *              restart and 5 % of what it has left.
 * Complexity   per planned job and instant 3 R paths of up to 8 regions times
 *              about 2 sqrt(layers) k times 3 ways to share, O(regions on the
 *              path) each; 12 event simulations per placed job.
 * Source       ours; EASY and conservative backfilling (Lifka 1995; Mu'alem and
 *              Feitelson 2001), Little's law for the pipeline.
 * Ours         everything above.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/oracle/oracle.h"
#include "harness/policy/plan.h"
#include "harness/policy/predict.h"
#include "harness/policy/search.h"

#define PLANNED_JOBS 24		/* of the queue: those behind are placed when it is shorter */
#define SLACK 0.02
#define SLACK_COST 0.2
#define WORTH_WAITING 0.99	/* a later start must promise at least 1 % */
#define FADE_S (6 * 3600.0)	/* of the present price */
#define WORTH_RESTART 0.05
#define WASTEFUL 1.1		/* GPU seconds a step, against those of the later start */

struct plus {
	struct plan plan;
	struct oracle *oracle;
	double *capacity;		/* [n*n] scratch */
	struct search x;
};

static int bind(struct policy *p, struct bace_err *err)
{
	const struct experiment *e = p->f.exp;
	struct plus *b = calloc(1, sizeof(*b));
	size_t n = (size_t)p->f.n;
	int rc;

	p->scratch = b;
	if (!b)
		return bace_fail(err, ENOMEM, "policy %s: out of memory", p->spec.label);
	b->capacity = calloc(n * n, sizeof(double));
	if (!b->capacity || plan_alloc(&b->plan, &p->f))
		return bace_fail(err, ENOMEM, "policy %s: out of memory", p->spec.label);
	rc = oracle_event_sim(e->schedule, e->interleave, e->overlap, &b->oracle, err);
	return rc;
}

static void unbind(struct policy *p)
{
	struct plus *b = p->scratch;

	plan_destroy(&b->plan);
	oracle_destroy(b->oracle);
	free(b->capacity);
	free(b);
}

/* ---- prices ---- */

/* seen_s: up to when prices are known. */
static double forecast(const struct price_series *s, double told, double seen_s, double from_s,
		       double length_s)
{
	double fade, past;

	if (!(length_s > 0) || s->n == 1)
		return told;
	if (s->period_s > 0)	/* what is told differs from the pattern by noise and delay only */
		return price_integral(s, from_s, from_s + length_s) / length_s;
	past = seen_s > 0 ? price_integral(s, 0, seen_s) / seen_s : told;
	fade = FADE_S / length_s * (1 - exp(-length_s / FADE_S));
	return fade * told + (1 - fade) * past;
}

static void forecast_all(const struct policy *p, const struct situation *now, struct situation *s,
			 double length_s)
{
	const struct region *reg = p->f.exp->cluster.regions;
	/* s may begin when a running job ends: what lies between is not known either. */
	double seen_s = now->now_s - p->f.exp->view.delay_s;

	for (int r = 0; r < p->f.n; r++)
		s->unit_cost[r] = reg[r].pue *
			forecast(&reg[r].price, now->price[r], seen_s, s->now_s, length_s);
	situation_sort(&p->f, s);
}

/* ---- one job at one instant ---- */

struct want {
	const struct queued_job *q;
	int least;			/* k */
	double gpu_price;
};

static double slack_of(const struct policy *p)
{
	return 1 + (p->spec.prefer == PREFER_COST ? SLACK_COST : SLACK);
}

static struct search *look(struct policy *p, const struct want *w, int slot)
{
	struct plus *b = p->scratch;
	const struct job_class *c = queued_class(p, w->q);
	struct search *x = &b->x;
	double length_s = w->q->remaining_steps * c->step_star_s;

	*x = (struct search){ .p = p, .s = &b->plan.during, .c = c, .steps = w->q->remaining_steps,
			      .gpu_price = w->gpu_price, .least = w->least, .most = c->k_star };
	/* The longer it runs, the more promises it must not break. */
	for (int tries = 0; tries < 4; tries++) {
		plan_during(&b->plan, &p->f, &p->now, slot, length_s);
		if (b->plan.during.total_free < (w->least > c->k_min ? w->least : c->k_min))
			return NULL;
		forecast_all(p, &p->now, &b->plan.during, length_s);
		if (!search_run(x))
			return NULL;
		if (x->best[0].length_s * slack_of(p) <= length_s * 1.0000001 || slot + 1 >= b->plan.n)
			return x;
		length_s = x->best[0].length_s * slack_of(p);
	}
	plan_during(&b->plan, &p->f, &p->now, slot, INFINITY);
	return search_run(x) ? x : NULL;
}

struct start {
	int slot;			/* -1: never, as far as is known */
	double wait_s;
	double limit_s;			/* on wait + objective */
	struct candidate c;
};

/* Soonest done, as predicted. */
static void soonest(struct policy *p, const struct want *w, struct start *out)
{
	struct plus *b = p->scratch;
	double best = INFINITY;

	out->slot = -1;
	for (int i = 0; i < b->plan.n; i++) {
		double wait_s = b->plan.slot[i].at_s - b->plan.slot[0].at_s;
		struct search *x;

		if (wait_s >= best)
			break;
		x = look(p, w, i);
		if (!x || wait_s + x->best[0].objective_s >= best * (out->slot < 0 ? 1 : WORTH_WAITING))
			continue;
		best = wait_s + x->best[0].objective_s;
		*out = (struct start){ .slot = i, .wait_s = wait_s, .c = x->best[0] };
	}
	out->limit_s = best * slack_of(p);
}

/* Of all starts within the slack of that, the cheapest: a long job may well
 * wait for a short one to leave a cheap region. */
static void cheapest(struct policy *p, const struct want *w, struct start *out)
{
	struct plus *b = p->scratch;
	double usd = INFINITY;

	for (int i = 0; i < b->plan.n; i++) {
		double wait_s = b->plan.slot[i].at_s - b->plan.slot[0].at_s;
		struct search *x;

		if (wait_s >= out->limit_s)
			break;
		x = look(p, w, i);
		if (!x || wait_s + x->best[0].objective_s > out->limit_s)
			continue;
		x->limit_s = out->limit_s - wait_s;
		search_cheapest(x);
		if (!x->n_cheap || !(x->cheap[0].cost_usd < usd))
			continue;
		usd = x->cheap[0].cost_usd;
		out->slot = i;
		out->wait_s = wait_s;
		out->c = x->cheap[0];
	}
}

/* ---- the last word: the event simulation ---- */

static int simulate_all(struct policy *p, struct search *x, int job, struct candidate *list, int n,
			double *best, struct bace_err *err)
{
	struct plus *b = p->scratch;

	for (int i = 0; i < n; i++) {
		struct candidate *c = &list[i];
		int rc = predict_simulate(p, x->s, b->oracle, job, c->parts, c->n, c->k, b->capacity,
					  &c->step_s, err);

		if (rc)
			return rc;
		c->length_s = x->steps * c->step_s;
		c->objective_s = c->length_s * (1 + c->k * x->gpu_price);
		search_cost(x, c);
		*best = fmin(*best, c->objective_s);
	}
	return 0;
}

/* The first of equals, where rounding does not tell them apart. */
static void take_cheapest(const struct candidate *list, int n, double limit, const struct candidate **best)
{
	for (int i = 0; i < n; i++) {
		double usd = *best ? (*best)->cost_usd - 1e-12 * fabs((*best)->cost_usd) : INFINITY;

		if (list[i].objective_s <= limit && list[i].cost_usd < usd)
			*best = &list[i];
	}
}

/* p->best from the candidates of the search; 1, 0 if none carries. */
static int settle(struct policy *p, struct search *x, int job, double limit_s, struct bace_err *err)
{
	const struct candidate *c = NULL;
	double best = INFINITY;
	int rc = simulate_all(p, x, job, x->best, x->n_best, &best, err);

	if (!rc)
		rc = simulate_all(p, x, job, x->cheap, x->n_cheap, &best, err);
	if (rc)
		return rc;
	/* The simulation may differ from the prediction by more than the slack. */
	limit_s = fmax(limit_s, best * slack_of(p));
	take_cheapest(x->best, x->n_best, limit_s, &c);
	take_cheapest(x->cheap, x->n_cheap, limit_s, &c);
	if (!c || isinf(best))
		return 0;
	p->best.n = c->n;
	p->best.k = c->k;
	p->best.step_s = c->step_s;
	p->best.cost_usd = c->cost_usd;
	memcpy(p->best.parts, c->parts, sizeof(c->parts[0]) * (size_t)c->n);
	return 1;
}

/* ---- the queue ---- */

/* While the queue asks for more than is free, GPU seconds are dear. */
static double gpu_price(const struct policy *p, const struct queue *q, int behind)
{
	const struct cluster *c = &p->f.exp->cluster;
	long asked = 0, total = 0;

	for (int i = 0; i < q->n && asked <= p->now.total_free; i++)
		asked += p->f.models->v[q->v[i].job].k_star;
	for (int r = 0; r < c->n_regions; r++)
		total += c->regions[r].n_gpus;
	return asked > p->now.total_free && total ? (double)behind / (double)total : 0;
}

static double longest_run(const struct policy *p, const struct queue *q)
{
	double s = 0;

	for (int i = 0; i < q->n; i++)
		s = fmax(s, q->v[i].remaining_steps * p->f.models->v[q->v[i].job].step_star_s);
	return s;
}

static void promise(struct policy *p, const struct want *w, int slot, const struct candidate *c)
{
	struct plus *b = p->scratch;
	struct placement pl = { .job = w->q->job, .n_parts = c->n, .n_gpus = c->k,
				.parts = (struct placement_part *)c->parts };

	plan_reserve(&b->plan, &p->f, slot, c->length_s, &pl);
}

/* With growth to come: run on what there is and restart later, or wait? */
static bool better_grow(struct policy *p, const struct want *w, const struct start *later)
{
	struct search *x = p->spec.elastic ? look(p, w, 0) : NULL;
	double done;

	if (!x)
		return false;
	/* Not on GPUs that others would use better. */
	if (x->best[0].k * x->best[0].step_s > WASTEFUL * later->c.k * later->c.step_s)
		return false;
	done = later->wait_s / x->best[0].step_s;
	return done * later->c.step_s > p->spec.restart_s;
}

/* 1: placed now, in p->best. */
static int try_job(struct policy *p, const struct want *w, struct bace_err *err)
{
	struct plus *b = p->scratch;
	struct start start;
	struct search *x;

	soonest(p, w, &start);
	if (start.slot < 0)
		return 0;
	if (b->plan.n > 1)
		cheapest(p, w, &start);
	if (start.slot > 0 && !better_grow(p, w, &start)) {
		promise(p, w, start.slot, &start.c);
		return 0;
	}
	x = look(p, w, 0);
	if (!x)
		return 0;
	x->limit_s = fmax(start.limit_s, x->best[0].objective_s * slack_of(p));
	search_cheapest(x);
	return settle(p, x, w->q->job, x->limit_s, err);
}

static int decide(struct policy *p, const struct view *v, const struct queue *q, struct placement *out,
		  struct bace_err *err)
{
	struct plus *b = p->scratch;
	struct order o;
	int i, rc, planned = 0;

	if (!p->now.total_free)
		return 0;
	p->aging_s = p->spec.aging_s > 0 ? p->spec.aging_s : longest_run(p, q);
	if (plan_begin(&b->plan, p, &p->now, v))
		return bace_fail(err, ENOMEM, "policy %s: out of memory", p->spec.label);
	rc = order_begin(p, &p->now, q, &o, err);
	if (rc)
		return rc;
	while ((i = order_next(&o)) >= 0 && planned++ < PLANNED_JOBS) {
		struct want w = { .q = &q->v[i], .least = 1, .gpu_price = gpu_price(p, q, q->n - planned) };

		rc = policy_needed(p, w.q, err);
		if (rc < 0)
			return rc;
		w.least = rc > 1 ? rc : 1;
		rc = try_job(p, &w, err);
		if (rc < 0)
			return rc;
		if (rc)
			return policy_emit(p, q->v[i].job, out, err);
		if (!p->backfill)
			break;
	}
	return 0;
}

/* For policy_reachable_gpus: alone, and nothing to wait for. */
static int place(struct policy *p, const struct situation *s, const struct queued_job *q, int need,
		 struct bace_err *err)
{
	struct plus *b = p->scratch;
	const struct job_class *c = queued_class(p, q);

	b->x = (struct search){ .p = p, .s = s, .c = c, .steps = q->remaining_steps,
				.least = need > 1 ? need : 1, .most = c->k_star };
	return search_run(&b->x) ? settle(p, &b->x, q->job, 0, err) : 0;
}

/* ---- elastic ---- */

static int grow(struct policy *p, const struct view *v, const struct running_job *r, double *saved_s,
		struct bace_err *err)
{
	struct plus *b = p->scratch;
	struct queued_job q = { .job = r->job, .remaining_steps = r->remaining_steps };
	struct want w = { .q = &q, .least = r->placement->n_gpus + 1 };
	double left_s = r->remaining_steps * r->step_s;
	struct search *x;
	int rc;

	if (!(r->step_s > 0) || w.least > queued_class(p, &q)->k_star || isinf(left_s) ||
	    left_s * WORTH_RESTART < p->spec.restart_s)
		return 0;
	if (plan_begin(&b->plan, p, &p->now, &(struct view){ .now_s = v->now_s }))
		return bace_fail(err, ENOMEM, "policy %s: out of memory", p->spec.label);
	plan_release(&b->plan, &p->f, r->placement);
	x = look(p, &w, 0);
	rc = x ? settle(p, x, r->job, 0, err) : 0;
	if (rc <= 0)
		return rc;
	*saved_s = left_s - p->spec.restart_s - r->remaining_steps * p->best.step_s;
	return *saved_s > p->spec.restart_s && *saved_s > WORTH_RESTART * left_s;
}

static int resize(struct policy *p, const struct view *v, const struct queue *q, struct placement *out,
		  struct bace_err *err)
{
	double best = 0;
	int job = -1, rc;

	if (q->n || !p->now.total_free)
		return 0;
	for (int i = 0; i < v->n_running; i++) {
		double saved_s = 0;

		rc = grow(p, v, &v->running[i], &saved_s, err);
		if (rc < 0)
			return rc;
		if (!rc || saved_s <= best)
			continue;
		best = saved_s;
		job = v->running[i].job;
		struct choice other = p->trial;

		p->trial = p->best;
		p->best = other;
	}
	if (job < 0)
		return 0;
	struct choice other = p->best;

	p->best = p->trial;
	p->trial = other;
	return policy_emit(p, job, out, err);
}

const struct policy_rule rule_bace_plus = {
	.name = "bace+",
	.description = "bace, planned ahead: waits where that ends sooner, latency and schedule seen",
	.order = ORDER_BACE,
	.backfill = true,
	.uses_links = true,
	.per_job = true,
	.wants_running = true,
	.bind = bind,
	.unbind = unbind,
	.place = place,
	.decide = decide,
	.resize = resize,
};
