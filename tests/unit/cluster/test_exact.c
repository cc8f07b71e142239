/*
 * Small cases worked out by hand. The policy and the oracle are scripted here
 * (policy_decide and policy_reservation_bps are this file's own), so that only
 * the event loop is under test.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/cluster/world.h"

/* ---- the scripted policy ---- */

struct policy {
	int n;
	struct {
		int job;
		double from_s;		/* not before */
		double max_price;	/* not while the view's price in the first region is higher; 0: any */
		double min_rate;	/* not while the view's capacity of the first hop is lower */
		int n_parts;
		struct placement_part parts[4];
	} script[8];
	int n_moves;
	struct {
		int job;
		double from_s;
		struct placement_part to;
		bool done;
	} moves[4];
	double restart_s;
	bool restless;
	double seen_left[8];
	bool blind;			/* places also where no GPU is free */
	double reserve_bps;
	int calls;
	double seen[8], seen_at[8];	/* price of region 0, per call */
	double last_reserved;		/* region 0 -> 1 */
};

static bool queued(const struct queue *q, int job)
{
	for (int i = 0; i < q->n; i++)
		if (q->v[i].job == job)
			return true;
	return false;
}

int policy_decide(struct policy *p, const struct view *v, const struct queue *q, struct placement *out,
		  struct bace_err *err)
{
	if (p->calls < 8) {
		p->seen[p->calls] = v->price[0];
		p->seen_at[p->calls] = v->now_s;
	}
	p->calls++;
	if (v->exp->cluster.n_regions > 1)
		p->last_reserved = v->reserved_bps[1];
	for (int i = 0; i < p->n; i++) {
		const struct placement_part *s = p->script[i].parts;
		int n = p->script[i].n_parts, gpus = 0;

		if (!queued(q, p->script[i].job) || v->now_s < p->script[i].from_s)
			continue;
		if (p->script[i].max_price > 0 && v->price[s[0].region] > p->script[i].max_price)
			continue;
		if (n > 1 && v->capacity_bps[s[0].region * v->exp->cluster.n_regions + s[1].region] <
			     p->script[i].min_rate)
			continue;
		if (!p->blind && v->free_gpus[s[0].region] < s[0].gpus)
			continue;
		out->parts = malloc(sizeof(*s) * 4);
		memcpy(out->parts, s, sizeof(*s) * 4);
		for (int k = 0; k < n; k++)
			gpus += s[k].gpus;
		out->job = p->script[i].job;
		out->n_parts = n;
		out->n_gpus = gpus;
		return 1;
	}
	return 0;
}

double policy_reservation_bps(const struct policy *p, const struct view *v, const struct placement *pl)
{
	return p->reserve_bps;
}

bool policy_wants_running(const struct policy *p)
{
	return p->n_moves > 0;
}

bool policy_is_elastic(const struct policy *p)
{
	return p->n_moves > 0;
}

double policy_restart_s(const struct policy *p)
{
	return p->restart_s;
}

/* Each move once, at the first call from its time on. */
int policy_resize(struct policy *p, const struct view *v, const struct queue *q, struct placement *out,
		  struct bace_err *err)
{
	for (int i = 0; i < v->n_running && p->calls < 8; i++)
		p->seen_left[p->calls] = v->running[i].remaining_steps;
	for (int i = 0; i < p->n_moves; i++) {
		if (p->moves[i].done || v->now_s < p->moves[i].from_s)
			continue;
		p->moves[i].done = !p->restless;
		*out = (struct placement){ .job = p->moves[i].job, .n_parts = 1,
			.n_gpus = p->moves[i].to.gpus, .parts = malloc(sizeof(struct placement_part)) };
		out->parts[0] = p->moves[i].to;
		return 1;
	}
	return 0;
}

static void script(struct policy *p, int job, int n_parts, const struct placement_part *parts)
{
	p->script[p->n].job = job;
	p->script[p->n].n_parts = n_parts;
	memcpy(p->script[p->n].parts, parts, sizeof(*parts) * (size_t)n_parts);
	p->n++;
}

static void script1(struct policy *p, int job, int region, int gpus)
{
	script(p, job, 1, &(struct placement_part){ region, gpus });
}

static void script2(struct policy *p, int job, int a, int ga, int b, int gb)
{
	script(p, job, 2, (struct placement_part[]){ { a, ga }, { b, gb } });
}

/* ---- the scripted oracle: 1 s a step; over a link, 1 s at 1 Gbit/s times the
 * number of jobs on it ---- */

struct fixed {
	struct oracle base;
	double step_s, busy;
	int calls, fail_at;
	int asked[16];			/* jobs, per call */
};

static bool share(const struct placement *a, const struct placement *b)
{
	return a->n_parts > 1 && b->n_parts > 1 && a->parts[0].region == b->parts[0].region &&
	       a->parts[1].region == b->parts[1].region;
}

static int fixed_times(struct oracle *o, const struct moment *m, struct step_estimate *out,
		       struct bace_err *err)
{
	struct fixed *f = (struct fixed *)o;

	if (f->calls < 16)
		f->asked[f->calls] = m->n;
	if (++f->calls == f->fail_at)
		return bace_fail(err, EIO, "the testbed burns");
	for (int i = 0; i < m->n; i++) {
		const struct placement *p = m->placements[i];
		double cap = 1e9;
		int n = 0;

		if (p->n_parts > 1)
			cap = m->capacity_bps[p->parts[0].region * m->exp->cluster.n_regions +
					      p->parts[1].region];
		for (int j = 0; j < m->n; j++)
			n += share(p, m->placements[j]);
		out[i] = (struct step_estimate){ f->step_s * (n ? n : 1) * 1e9 / cap, cap > 0 ? f->busy : 0 };
	}
	return 0;
}

struct env {
	struct world w;
	struct policy p;
	struct fixed o;
	struct cluster_result r;
	struct cluster_sim sim;
	int rc;
	struct bace_err err;
};

static void env_init(struct env *e, int n_regions)
{
	memset(e, 0, sizeof(*e));
	world_init(&e->w, n_regions);
	world_model(&e->w, "m", 4);
	e->o = (struct fixed){ .base = { .name = "fixed", .step_times = fixed_times }, .step_s = 1, .busy = 0.5 };
	e->sim = (struct cluster_sim){ .exp = &e->w.e, .models = &e->w.models, .policy = &e->p,
				       .oracle = &e->o.base };
}

static void env_run(struct env *e)
{
	world_ready(&e->w);
	e->rc = cluster_simulate(&e->sim, &e->r, &e->err);
}

static void env_ok(struct env *e)
{
	env_run(e);
	if (e->rc)
		fail_msg("%s", e->err.msg);
}

static void env_free(struct env *e)
{
	cluster_result_free(&e->r);
	world_free(&e->w);
}

#define near(a, b) assert_true(fabs((a) - (b)) <= 1e-12 * fabs((double)(b)))

/* 2 GPUs, 100 steps of 1 s at busy 0.5: 2 * 70 W * 100 s = 14 kJ, at PUE 1 and
 * 1e-7 USD/J. */
static void one_job(void **state)
{
	struct env e;

	env_init(&e, 1);
	world_job(&e.w, "a", 0, 100, 5);
	script1(&e.p, 0, 0, 2);
	env_ok(&e);
	assert_true(e.r.jobs[0].finished);
	assert_true(e.r.jobs[0].start_s == 5 && e.r.jobs[0].finish_s == 105);
	assert_true(e.r.jobs[0].jct_s == 100 && e.r.jobs[0].waiting_s == 0);
	near(e.r.jobs[0].energy_j, 14000);
	near(e.r.jobs[0].cost_usd, 14000 * 1e-7);
	near(e.r.cost_usd, 14000 * 1e-7);
	assert_true(e.r.makespan_s == 100);
	near(e.r.gpu_utilisation, 0.5);
	/* T(K*) of m: 4 stages, 4 micro-batches of 2 s in all, hop 1 MB at the
	 * goodput of 1 Gbit/s. */
	double hop = 8e6 / goodput_bps(1e9, 1500);
	near(e.r.jobs[0].slowdown, 100 / (100 * (3 * 0.5 + 2 + 6 * hop)));
	assert_int_equal(e.r.n_moments, 1);
	env_free(&e);
}

/* 70 W each on 2 GPUs; 60 s at 1e-7, 40 s at -0.5e-7 USD/J; PUE 1.25. */
static void price_change(void **state)
{
	struct env e;

	env_init(&e, 1);
	e.w.e.cluster.regions[0].pue = 1.25;
	world_price(&e.w, 0, 2, (double[]){ 0, 60 }, (double[]){ 0.36, -0.18 }, 0);
	world_job(&e.w, "a", 0, 100, 0);
	script1(&e.p, 0, 0, 2);
	env_ok(&e);
	near(e.r.jobs[0].cost_usd, 140 * 1.25 * (60 * 1e-7 - 40 * 0.5e-7));
	near(e.r.jobs[0].energy_j, 14000);
	env_free(&e);
}

/* Period 100 s: 50 s at 1e-7, 50 s free; the job runs from 0 to 275. */
static void price_repeats(void **state)
{
	struct env e;

	env_init(&e, 1);
	world_price(&e.w, 0, 2, (double[]){ 0, 50 }, (double[]){ 0.36, 0 }, 100);
	world_job(&e.w, "a", 0, 275, 0);
	script1(&e.p, 0, 0, 1);
	env_ok(&e);
	near(e.r.jobs[0].cost_usd, 70 * 150 * 1e-7);
	env_free(&e);
}

/* 1 s a step until 50 s, then a quarter of the rate: 50 + 50 * 4. The change of
 * the other link, and one to the same rate, are nobody's business. */
static void link_change(void **state)
{
	const struct link_change changes[] = {
		{ 70, 2, 1, 5e8 }, { 50, 0, 1, 2.5e8 }, { 60, 0, 1, 2.5e8 } };
	struct env e;

	for (int separable = 0; separable < 2; separable++) {
		env_init(&e, 3);
		world_job(&e.w, "a", 0, 100, 0);
		script2(&e.p, 0, 0, 1, 1, 1);
		e.sim.separable = separable;
		e.sim.changes = changes;
		e.sim.n_changes = 3;
		env_ok(&e);
		assert_true(e.r.jobs[0].finish_s == 250);
		assert_true(e.r.jobs[0].mean_step_s == 2.5);
		assert_true(e.r.jobs[0].steps_done == 100);
		assert_int_equal(e.o.calls, 2);
		env_free(&e);
	}
}

/* Nothing gets through from 10 s to 30 s. */
static void link_down(void **state)
{
	const struct link_change changes[] = { { 10, 0, 1, 0 }, { 30, 0, 1, 1e9 } };
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 100, 0);
	script2(&e.p, 0, 0, 1, 1, 1);
	e.sim.changes = changes;
	e.sim.n_changes = 2;
	env_ok(&e);
	assert_true(e.r.jobs[0].finish_s == 120);
	/* 100 s at 70 W and 20 s at 20 W on 2 GPUs */
	near(e.r.jobs[0].energy_j, 2 * (7000 + 400));
	cluster_result_free(&e.r);
	e.p.calls = 0;
	e.sim.n_changes = 1;
	e.rc = cluster_simulate(&e.sim, &e.r, &e.err);
	assert_int_equal(e.rc, 0);
	assert_false(e.r.jobs[0].finished);
	assert_true(e.r.jobs[0].steps_done == 10);
	assert_true(isnan(e.r.jobs[0].finish_s) && e.r.jobs[0].start_s == 0);
	assert_int_equal(e.r.n_finished, 0);
	assert_true(isnan(e.r.mean_jct_s));
	env_free(&e);
}

/* a alone 1 s a step; from 40 s with b on the same link, 2 s each: a does 40 +
 * 60 steps by 160 s, b has done 60 by then and does the rest at 1 s: 200 s. */
static void sharing(void **state)
{
	struct env e;

	for (int separable = 0; separable < 2; separable++) {
		env_init(&e, 2);
		world_job(&e.w, "a", 0, 100, 0);
		world_job(&e.w, "b", 0, 100, 40);
		script2(&e.p, 0, 0, 1, 1, 1);
		script2(&e.p, 1, 0, 1, 1, 1);
		e.p.reserve_bps = 1e8 / 3;
		e.sim.separable = separable;
		env_ok(&e);
		assert_true(e.r.jobs[0].finish_s == 160);
		assert_true(e.r.jobs[1].finish_s == 200);
		/* alone, both, alone again: the third is known when separable */
		assert_int_equal(e.o.calls, separable ? 2 : 3);
		assert_int_equal(e.o.asked[1], 2);
		env_free(&e);
	}
}

/* Reservations are returned to the last bit, in any order of leaving. */
static void reservations(void **state)
{
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 10, 0);
	world_job(&e.w, "b", 0, 10, 1);
	world_job(&e.w, "c", 0, 10, 100);
	script2(&e.p, 0, 0, 1, 1, 1);
	script2(&e.p, 1, 1, 2, 0, 1);
	script2(&e.p, 2, 0, 1, 1, 1);
	e.p.reserve_bps = 1e9 / 3;
	env_ok(&e);
	assert_int_equal(e.r.n_finished, 3);
	assert_true(e.p.last_reserved == 0);
	env_free(&e);
}

/* b arrives, a ends, and the link that b uses halves, all at 100 s: b starts
 * then, on the GPUs of a, at the halved rate, and the oracle is asked once. */
static void simultaneous(void **state)
{
	const struct link_change change = { 100, 0, 1, 5e8 };
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "b", 0, 10, 100);
	world_job(&e.w, "a", 0, 100, 0);
	script2(&e.p, 1, 0, 2, 1, 2);
	script2(&e.p, 0, 0, 2, 1, 2);
	e.sim.changes = &change;
	e.sim.n_changes = 1;
	env_ok(&e);
	assert_true(e.r.jobs[0].start_s == 100 && e.r.jobs[0].finish_s == 120);
	assert_int_equal(e.o.calls, 2);
	assert_int_equal(e.o.asked[1], 1);
	env_free(&e);
}

/* The price falls at 3600 s; the policy, which waits for it, hears 10 s later. */
static void view_delay(void **state)
{
	const struct link_change changes[] = { { 7000, 0, 1, 2e9 } };
	struct env e;

	env_init(&e, 2);
	e.w.e.view.delay_s = 10;
	world_price(&e.w, 0, 2, (double[]){ 0, 3600 }, (double[]){ 0.36, 0.09 }, 0);
	world_job(&e.w, "a", 0, 100, 0);
	world_job(&e.w, "b", 0, 100, 5);
	script1(&e.p, 0, 0, 2);
	e.p.script[0].max_price = 0.1;
	script2(&e.p, 1, 0, 2, 1, 1);
	e.p.script[1].min_rate = 2e9;
	e.sim.changes = changes;
	e.sim.n_changes = 1;
	env_ok(&e);
	assert_true(e.r.jobs[0].start_s == 3610);
	/* the truth, not the view, is billed */
	near(e.r.jobs[0].cost_usd, 140 * 100 * 0.25e-7);
	assert_true(e.r.jobs[1].start_s == 7010);
	assert_true(e.r.jobs[1].finish_s == 7010 + 100 * 0.5);
	assert_true(e.p.seen[0] == 0.36 && e.p.seen_at[0] == 0);
	env_free(&e);
}

/* A delay that binary fractions cannot hold: the change is seen at the first
 * instant of its own, once. */
static void view_delay_rounding(void **state)
{
	struct env e;

	env_init(&e, 1);
	e.w.e.view.delay_s = 0.1;
	world_price(&e.w, 0, 3, (double[]){ 0, 0.7, 1.1 }, (double[]){ 3, 2, 1 }, 1.3);
	world_job(&e.w, "a", 0, 1, 0);
	script1(&e.p, 0, 0, 1);
	e.p.script[0].max_price = 1.5;
	env_ok(&e);
	assert_int_equal(e.p.calls, 3);
	assert_true(e.p.seen[1] == 2 && e.p.seen[2] == 1);
	assert_true(e.r.jobs[0].start_s == 1.1 + 0.1);
	env_free(&e);
}

/* Idle from the first arrival to the last completion: 4 GPUs, 2 of them busy
 * from 10 to 110; r1 idle throughout. */
static void bill_idle(void **state)
{
	struct env e;

	env_init(&e, 2);
	e.w.e.bill_idle = true;
	world_price(&e.w, 1, 2, (double[]){ 0, 60 }, (double[]){ 0.36, 0.72 }, 0);
	world_job(&e.w, "a", 0, 100, 10);
	script1(&e.p, 0, 0, 2);
	env_ok(&e);
	near(e.r.idle_energy_j, 20.0 * (2 * 100 + 4 * 100));
	near(e.r.idle_cost_usd, 20.0 * (2 * 100 * 1e-7 + 4 * (50 * 1e-7 + 50 * 2e-7)));
	near(e.r.cost_usd, e.r.jobs[0].cost_usd + e.r.idle_cost_usd);
	env_free(&e);
}

/* 10 steps x 4 micro-batches x 1 MB, there at 1e-9 and back at 2e-9 USD/byte. */
static void egress(void **state)
{
	struct env e;

	env_init(&e, 2);
	e.w.e.cluster.links[0 * 2 + 1].usd_per_byte = 1e-9;
	e.w.e.cluster.links[1 * 2 + 0].usd_per_byte = 2e-9;
	world_job(&e.w, "a", 0, 10, 0);
	script2(&e.p, 0, 0, 1, 1, 1);
	env_ok(&e);
	near(e.r.jobs[0].egress_usd, 10 * 4 * 1e6 * 3e-9);
	near(e.r.jobs[0].cost_usd, 10 * 4 * 1e6 * 3e-9 + 140 * 10 * 1e-7);
	env_free(&e);
}

/* JCTs 10, 20, 30, 40: type-7 quantiles. */
static void totals(void **state)
{
	struct env e;

	env_init(&e, 1);
	world_job(&e.w, "c", 0, 30, 0);
	world_job(&e.w, "a", 0, 10, 0);
	world_job(&e.w, "d", 0, 40, 0);
	world_job(&e.w, "b", 0, 20, 0);
	for (int i = 0; i < 4; i++)
		script1(&e.p, i, 0, 1);
	env_ok(&e);
	near(e.r.mean_jct_s, 25);
	near(e.r.median_jct_s, 25);
	near(e.r.p95_jct_s, 38.5);
	near(e.r.gpu_utilisation, 100.0 / 160);
	near(e.r.energy_j, 100 * 70);
	env_free(&e);
}

static void never_placed(void **state)
{
	struct env e;

	env_init(&e, 1);
	/* news for ever, and never a placement */
	world_price(&e.w, 0, 2, (double[]){ 0, 1800 }, (double[]){ 0.1, 0.2 }, 3600);
	world_job(&e.w, "a", 0, 10, 0);
	world_job(&e.w, "b", 0, 10, 0);
	script1(&e.p, 1, 0, 4);
	env_ok(&e);
	assert_false(e.r.jobs[0].finished);
	assert_true(isnan(e.r.jobs[0].start_s) && isnan(e.r.jobs[0].jct_s));
	assert_true(e.r.jobs[0].cost_usd == 0);
	assert_true(e.r.jobs[1].finished);
	assert_int_equal(e.r.n_finished, 1);
	assert_true(e.r.makespan_s == 10);
	env_free(&e);
}

/* ---- refusals ---- */

static void refused(struct env *e, const char *what)
{
	env_run(e);
	assert_int_equal(e->rc, -EINVAL);
	if (!strstr(e->err.msg, what))
		fail_msg("`%s' does not say `%s'", e->err.msg, what);
	assert_null(e->r.jobs);
	env_free(e);
}

static void constraints(void **state)
{
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 10, 0);
	e.p.blind = true;
	script1(&e.p, 0, 0, 5);
	refused(&e, "only 4 are free");

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 10, 0);
	script2(&e.p, 0, 1, 1, 1, 1);
	refused(&e, "r1 appears twice");

	env_init(&e, 2);
	e.w.e.cluster.links[1 * 2 + 0].present = false;
	world_job(&e.w, "a", 0, 10, 0);
	script2(&e.p, 0, 0, 1, 1, 1);
	refused(&e, "no link both ways");

	env_init(&e, 2);
	e.w.e.cluster.gpus[0].memory_bytes = 1.5e9;
	world_job(&e.w, "a", 0, 10, 0);
	script1(&e.p, 0, 0, 2);
	refused(&e, "memory");

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 10, 0);
	script2(&e.p, 0, 0, 4, 1, 1);
	refused(&e, "5 stages: 1 to 4");

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 10, 0);
	script2(&e.p, 0, 0, 0, 1, 1);
	refused(&e, "at least 1");
}

/* Once the step time of a placement is known its check is short; it must still
 * see that GPUs are not free. */
static void constraints_again(void **state)
{
	struct env e;

	env_init(&e, 1);
	e.sim.separable = true;
	world_job(&e.w, "a", 0, 10, 0);
	world_job(&e.w, "b", 0, 10, 1);
	script1(&e.p, 0, 0, 3);
	script1(&e.p, 1, 0, 3);
	env_ok(&e);
	assert_true(e.r.jobs[1].start_s == 10);
	env_free(&e);

	env_init(&e, 1);
	e.sim.separable = true;
	world_job(&e.w, "a", 0, 10, 0);
	world_job(&e.w, "b", 0, 10, 20);
	world_job(&e.w, "c", 0, 10, 25);
	script1(&e.p, 0, 0, 4);
	script1(&e.p, 1, 0, 4);
	script1(&e.p, 2, 0, 4);
	e.p.blind = true;
	e.w.e.cluster.regions[0].n_gpus = 7;
	refused(&e, "only 3 are free");
}

static void bad_input(void **state)
{
	const struct link_change missing = { 1, 0, 0, 1e9 }, negative = { -1, 0, 1, 1e9 },
				 nan_rate = { 1, 0, 1, NAN };
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 0, 0);
	refused(&e, "job a: 0 steps");
	env_init(&e, 2);
	world_job(&e.w, "a", 0, 1, -1);
	refused(&e, "job a: arrival at -1 s");
	env_init(&e, 2);
	e.w.e.cluster.gpus[0].memory_bytes = 1;
	world_job(&e.w, "a", 0, 1, 0);
	refused(&e, "job a: fits no number of GPUs");
	for (int i = 0; i < 3; i++) {
		env_init(&e, 2);
		world_job(&e.w, "a", 0, 1, 0);
		e.sim.changes = (const struct link_change *[]){ &missing, &negative, &nan_rate }[i];
		e.sim.n_changes = 1;
		refused(&e, "link change 0");
	}
}

static void oracle_fails(void **state)
{
	struct env e;

	for (int at = 1; at <= 3; at++) {
		env_init(&e, 2);
		world_job(&e.w, "a", 0, 100, 0);
		world_job(&e.w, "b", 0, 100, 40);
		script2(&e.p, 0, 0, 1, 1, 1);
		script2(&e.p, 1, 0, 1, 1, 1);
		e.o.fail_at = at;
		env_run(&e);
		assert_int_equal(e.rc, -EIO);
		assert_string_equal(e.err.msg, "the testbed burns");
		assert_null(e.r.jobs);
		assert_int_equal(e.o.calls, at);
		env_free(&e);
	}
	env_init(&e, 1);
	world_job(&e.w, "a", 0, 100, 0);
	script1(&e.p, 0, 0, 1);
	e.o.step_s = NAN;
	env_run(&e);
	assert_int_equal(e.rc, -ERANGE);
	env_free(&e);
}

/* ---- observers ---- */

struct seen {
	int starts, finishes, decisions, placed;
	double start_step;
	double finish_s;
};

static void on_start(void *arg, double now_s, const struct placement *p, double step_s)
{
	struct seen *s = arg;

	s->starts++;
	s->start_step = step_s;
	assert_true(p->n_gpus == 2);
}

static void on_finish(void *arg, double now_s, int job)
{
	struct seen *s = arg;

	s->finishes++;
	s->finish_s = now_s;
}

static void on_decision(void *arg, double now_s, uint64_t digest, double latency_s, int placed)
{
	struct seen *s = arg;

	s->decisions++;
	s->placed += placed >= 0;
	assert_true(latency_s >= 0);
}

static void observers(void **state)
{
	struct seen seen = { 0 };
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 10, 0);
	script2(&e.p, 0, 0, 1, 1, 1);
	e.sim.on_start = on_start;
	e.sim.on_finish = on_finish;
	e.sim.on_decision = on_decision;
	e.sim.arg = &seen;
	env_ok(&e);
	assert_int_equal(seen.starts, 1);
	assert_int_equal(seen.finishes, 1);
	assert_int_equal(seen.placed, 1);
	assert_int_equal(seen.decisions, e.r.n_decisions);
	assert_true(seen.start_step == 1 && seen.finish_s == 10);
	env_free(&e);
}

/* a and b in r0 from 0; b ends at 50 and a, with 50 of 100 steps left, moves from
 * 2 GPUs there to 4 in r1, where a price twice as high applies from 60 s on. It
 * restarts for 20 s at 20 W a GPU and goes on until 120 s. */
static void elastic(void **state)
{
	struct env e;

	for (int separable = 0; separable < 2; separable++) {
		env_init(&e, 2);
		e.sim.separable = separable;
		world_price(&e.w, 1, 2, (double[]){ 0, 60 }, (double[]){ 0.36, 0.72 }, 0);
		world_job(&e.w, "a", 0, 100, 0);
		world_job(&e.w, "b", 0, 50, 0);
		script1(&e.p, 0, 0, 2);
		script1(&e.p, 1, 0, 2);
		e.p.n_moves = 1;
		e.p.moves[0].from_s = 50;
		e.p.moves[0].to = (struct placement_part){ 1, 4 };
		e.p.restart_s = 20;
		env_ok(&e);
		assert_true(e.r.jobs[0].start_s == 0 && e.r.jobs[0].finish_s == 120);
		assert_int_equal(e.r.jobs[0].n_restarts, 1);
		assert_int_equal(e.r.jobs[0].placement.n_gpus, 4);
		near(e.r.jobs[0].gpu_s, 2 * 50 + 4 * 70);
		near(e.r.jobs[0].energy_j, 140 * 50 + 80 * 20 + 280 * 50);
		near(e.r.jobs[0].cost_usd, 1e-7 * (140 * 50 + 80 * 10) + 2e-7 * (80 * 10 + 280 * 50));
		assert_true(e.r.jobs[1].finish_s == 50);
		env_free(&e);
	}
}

static void elastic_refused(void **state)
{
	struct env e;

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 100, 0);
	script1(&e.p, 0, 0, 2);
	e.p.n_moves = 1;
	e.p.moves[0].to = (struct placement_part){ 1, 5 };
	refused(&e, "5 GPUs in r1: only 4 are free");

	env_init(&e, 2);
	world_job(&e.w, "a", 0, 100, 0);
	script1(&e.p, 0, 0, 2);
	e.p.n_moves = 1;
	e.p.restless = true;
	e.p.moves[0].to = (struct placement_part){ 1, 4 };
	env_run(&e);
	assert_int_equal(e.rc, -ELOOP);
	env_free(&e);
}

static void no_jobs(void **state)
{
	struct env e;

	env_init(&e, 1);
	env_ok(&e);
	assert_int_equal(e.r.n, 0);
	assert_true(e.r.makespan_s == 0 && e.r.cost_usd == 0);
	assert_int_equal(e.o.calls, 0);
	env_free(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_job),
		cmocka_unit_test(price_change),
		cmocka_unit_test(price_repeats),
		cmocka_unit_test(link_change),
		cmocka_unit_test(link_down),
		cmocka_unit_test(sharing),
		cmocka_unit_test(reservations),
		cmocka_unit_test(simultaneous),
		cmocka_unit_test(view_delay),
		cmocka_unit_test(view_delay_rounding),
		cmocka_unit_test(bill_idle),
		cmocka_unit_test(egress),
		cmocka_unit_test(totals),
		cmocka_unit_test(never_placed),
		cmocka_unit_test(constraints),
		cmocka_unit_test(constraints_again),
		cmocka_unit_test(bad_input),
		cmocka_unit_test(oracle_fails),
		cmocka_unit_test(observers),
		cmocka_unit_test(elastic),
		cmocka_unit_test(elastic_refused),
		cmocka_unit_test(no_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
