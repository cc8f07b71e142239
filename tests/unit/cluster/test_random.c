/*
 * Drawn scenarios: invariants that hold for each, and equality of what must not
 * matter (order of the config, asking about groups or about everything, the
 * plain reference). policy_decide is wrapped to see what the policy is told.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/cluster/random_checks.h"
#include "tests/unit/cluster/reference.h"

#define SCENARIOS 10000

static int n_scenarios = SCENARIOS;

/* ---- a ledger kept from what the observers are told ---- */

struct ledger {
	const struct drawn *d;
	const struct policy *policy;
	struct view *view;		/* of the call that is under way */
	bool links_kept;		/* the policy promises to stay within links */
	bool elastic;
	int n;
	struct placement held[64];
	double bps[64];
	int most_at_once;
};

static struct ledger *watched;

static bool ledger_forget(struct ledger *l, int job)
{
	int i = 0;

	while (i < l->n && l->held[i].job != job)
		i++;
	if (i == l->n)
		return false;
	placement_free(&l->held[i]);
	l->n--;
	for (; i < l->n; i++) {
		l->held[i] = l->held[i + 1];
		l->bps[i] = l->bps[i + 1];
	}
	return true;
}

static void ledger_start(void *arg, double now_s, const struct placement *p, double step_s)
{
	struct ledger *l = arg;
	const struct experiment *e = &l->d->w.e;
	struct view v = { .exp = e, .models = &l->d->w.models, .now_s = now_s };

	check(step_s > 0);
	check(e->jobs[p->job].arrival_s <= now_s);
	ledger_forget(l, p->job);
	l->bps[l->n] = p->n_parts > 1 ? policy_reservation_bps(l->policy, &v, p) : 0;
	check(!placement_copy(p, &l->held[l->n]));
	l->n++;
	l->most_at_once = l->n > l->most_at_once ? l->n : l->most_at_once;
}

static void ledger_finish(void *arg, double now_s, int job)
{
	check(ledger_forget(arg, job));
}

/* Placed or moved at this very instant: on_start comes only when the step time is
 * known. */
static int pending;
static struct placement pending_placements[64];

static bool is_pending(int job)
{
	for (int i = 0; i < pending; i++)
		if (pending_placements[i].job == job)
			return true;
	return false;
}

static void note_pending(const struct placement *p)
{
	for (int i = 0; i < pending; i++)
		if (pending_placements[i].job == p->job) {
			placement_free(&pending_placements[i]);
			pending_placements[i] = pending_placements[--pending];
			break;
		}
	check(!placement_copy(p, &pending_placements[pending++]));
}

static void ledger_compare(const struct ledger *l, const struct view *v)
{
	const struct cluster *c = &v->exp->cluster;
	int n = c->n_regions, free_gpus[16];
	double reserved[256] = { 0 };

	for (int r = 0; r < n; r++)
		free_gpus[r] = c->regions[r].n_gpus;
	for (int i = 0; i < l->n + pending; i++) {
		const struct placement *p = i < l->n ? &l->held[i] : &pending_placements[i - l->n];
		double bps = i < l->n ? l->bps[i] :
			     p->n_parts > 1 ? policy_reservation_bps(l->policy, v, p) : 0;

		if (i < l->n && is_pending(p->job))
			continue;
		for (int k = 0; k < p->n_parts; k++) {
			free_gpus[p->parts[k].region] -= p->parts[k].gpus;
			if (!k)
				continue;
			reserved[p->parts[k - 1].region * n + p->parts[k].region] += bps;
			reserved[p->parts[k].region * n + p->parts[k - 1].region] += bps;
		}
	}
	for (int r = 0; r < n; r++) {
		check(free_gpus[r] >= 0);
		check(free_gpus[r] == v->free_gpus[r]);
	}
	for (int i = 0; i < n * n; i++) {
		/* moved jobs are not in the order in which the ledger has them */
		check(v->reserved_bps[i] == reserved[i] ||
		      (l->elastic && near(v->reserved_bps[i], reserved[i]) && reserved[i] > 0));
		if (l->links_kept && reserved[i] > 0)
			check(reserved[i] <= goodput_bps(v->capacity_bps[i], c->mtu) * (1 + 1e-12));
	}
}

int __real_policy_decide(struct policy *p, const struct view *v, const struct queue *q,
			 struct placement *out, struct bace_err *err);
int __wrap_policy_decide(struct policy *p, const struct view *v, const struct queue *q,
			 struct placement *out, struct bace_err *err);

int __real_policy_resize(struct policy *p, const struct view *v, const struct queue *q,
			 struct placement *out, struct bace_err *err);
int __wrap_policy_resize(struct policy *p, const struct view *v, const struct queue *q,
			 struct placement *out, struct bace_err *err);

static void drop_pending(void)
{
	while (pending)
		placement_free(&pending_placements[--pending]);
}

/* Before each question: what is told must be what was observed. */
static void check_view(const struct view *v, const struct queue *q)
{
	static double last_now;

	if (v->now_s != last_now)
		drop_pending();
	last_now = v->now_s;
	ledger_compare(watched, v);
	for (int i = 1; i < q->n; i++) {
		const struct job *a = &v->exp->jobs[q->v[i - 1].job], *b = &v->exp->jobs[q->v[i].job];

		check(a->arrival_s < b->arrival_s ||
		      (a->arrival_s == b->arrival_s && strcmp(a->name, b->name) < 0));
	}
	for (int i = 0; i < v->n_running; i++) {
		const struct running_job *r = &v->running[i];

		check(r->remaining_steps > 0 && r->remaining_steps <= v->models->v[r->job].steps);
		check(r->step_s > 0 || is_pending(r->job));
	}
}

int __wrap_policy_decide(struct policy *p, const struct view *v, const struct queue *q,
			 struct placement *out, struct bace_err *err)
{
	int rc;

	if (watched) {
		check_view(v, q);
		check(q->n > 0);
	}
	rc = __real_policy_decide(p, v, q, out, err);
	if (rc > 0 && watched)
		note_pending(out);
	return rc;
}

int __wrap_policy_resize(struct policy *p, const struct view *v, const struct queue *q,
			 struct placement *out, struct bace_err *err)
{
	int rc;

	if (watched)
		check_view(v, q);
	rc = __real_policy_resize(p, v, q, out, err);
	if (rc > 0 && watched)
		note_pending(out);
	return rc;
}

static void started(void *arg, double now_s, const struct placement *p, double step_s)
{
	drop_pending();
	ledger_start(arg, now_s, p, step_s);
}

/* ---- one run ---- */

static struct policy_spec draw_policy(struct bace_rng *r, bool *links_kept)
{
	const char *const *names, *const *descriptions, *name;
	int n = policy_list(&names, &descriptions);
	struct policy_spec s = { .alpha = NAN, .alpha_gain = 1, .pathfinder = true, .cost_min = true };

	/* A program's answers and an exhaustive search are no matter of whole runs; bace+,
	 * which alone moves jobs, comes twice as often. */
	do {
		int i = (int)bace_rng_below(r, (uint64_t)n + 1);

		name = i < n ? names[i] : "bace+";
	} while (!strcmp(name, "external") || !strcmp(name, "optimal"));
	snprintf(s.name, NAME_LEN, "%s", name);
	snprintf(s.label, NAME_LEN, "%s", name);
	s.start = bace_rng_below(r, 2) ? START_K_MIN : START_K_STAR;
	s.has_order = bace_rng_below(r, 2);
	s.order = (enum order_kind)bace_rng_below(r, 5);
	s.has_backfill = !bace_rng_below(r, 4);
	s.backfill = bace_rng_below(r, 2);
	if (!bace_rng_below(r, 3))
		s.alpha = bace_rng_uniform(r);
	if (!bace_rng_below(r, 3))
		s.prefer = (enum prefer_kind)bace_rng_below(r, 3);
	s.pathfinder = bace_rng_below(r, 4) != 0;
	s.cost_min = bace_rng_below(r, 4) != 0;
	s.elastic = bace_rng_below(r, 2);
	s.restart_s = bace_rng_below(r, 2) ? 0 : 60;
	*links_kept = !strcmp(name, "bace") || !strcmp(name, "lcf") || !strcmp(name, "ldf");
	return s;
}

struct setting {
	struct policy_spec spec;
	bool links_kept, event_sim;
	uint64_t seed;
};

static void run(const struct drawn *d, const struct setting *set, bool separable, bool watch,
		struct cluster_result *out)
{
	struct policy *p;
	struct oracle *o;
	struct bace_err err = { 0 };
	bool exact = !d->n_changes && d->w.e.view.bandwidth_noise == 0;
	struct ledger l = { .d = d, .links_kept = set->links_kept && exact };
	struct cluster_sim sim = { .exp = &d->w.e, .models = &d->w.models, .separable = separable,
				   .seed = set->seed, .n_changes = d->n_changes, .changes = d->changes };

	if (set->event_sim)
		check(!oracle_event_sim(d->w.e.schedule, 1, true, &o, &err));
	else
		check(!oracle_closed_form(&o, &err));
	check(!policy_create(&set->spec, set->seed, &p, &err));
	sim.policy = p;
	sim.oracle = o;
	l.policy = p;
	l.elastic = policy_is_elastic(p);
	if (watch) {
		sim.on_start = started;
		sim.on_finish = ledger_finish;
		sim.arg = &l;
		watched = &l;
	}
	if (cluster_simulate(&sim, out, &err))
		fail_msg("scenario %llu, %s: %s", (unsigned long long)scenario, set->spec.name, err.msg);
	watched = NULL;
	drop_pending();
	while (l.n)
		placement_free(&l.held[--l.n]);
	policy_destroy(p);
	oracle_destroy(o);
}

/* ---- what must hold ---- */

static void check_reference(const struct drawn *d, const struct setting *set, const struct cluster_result *a)
{
	struct reference_job jobs[64] = { 0 };
	struct policy *p;
	struct oracle *o;
	struct bace_err err = { 0 };

	check(!(set->event_sim ? oracle_event_sim(d->w.e.schedule, 1, true, &o, &err) :
				 oracle_closed_form(&o, &err)));
	check(!policy_create(&set->spec, set->seed, &p, &err));
	struct cluster_sim sim = { .exp = &d->w.e, .models = &d->w.models, .policy = p, .oracle = o,
				   .n_changes = d->n_changes, .changes = d->changes };
	check(!reference_simulate(&sim, jobs, &err));
	for (int i = 0; i < a->n; i++) {
		const struct job_outcome *x = &a->jobs[i];
		CLEANUP_FREE char *where = placement_format(&d->w.e.cluster, &x->placement);

		check(x->finished == jobs[i].finished);
		check(!x->finished || !strcmp(where, jobs[i].where));
		check(!x->finished || near(x->start_s, jobs[i].start_s));
		check(!x->finished || near(x->finish_s, jobs[i].finish_s));
		check(near(x->energy_j, jobs[i].energy_j));
		check(fabs(x->cost_usd - jobs[i].cost_usd) <= 1e-9 * (fabs(x->cost_usd) + x->energy_j / 3.6e6));
		free(jobs[i].where);
	}
	policy_destroy(p);
	oracle_destroy(o);
}

static bool all_fit(const struct drawn *d)
{
	for (int i = 0; i < d->w.models.n; i++)
		if (d->w.models.v[i].k_min < 1)
			return false;
	return true;
}

/* What the scenarios were made of: a test of nothing would pass, too. */
static struct {
	int scenarios, jobs, unfinished, waited, spread, moved, references;
} seen;

static void count(const struct cluster_result *r)
{
	for (int i = 0; i < r->n; i++) {
		seen.jobs++;
		seen.unfinished += !r->jobs[i].finished;
		seen.waited += r->jobs[i].waiting_s > 0;
		seen.spread += r->jobs[i].placement.n_parts > 1;
		seen.moved += r->jobs[i].n_restarts > 0;
	}
}

static void one_scenario(uint64_t seed)
{
	struct cluster_result base, other;
	struct drawn d, shuffled;
	struct setting set = { .seed = seed };
	struct bace_rng r;

	bace_rng_init(&r, seed, 3);
	set.spec = draw_policy(&r, &set.links_kept);
	set.event_sim = !bace_rng_below(&r, 4);
	world_draw(&d, seed, 0);
	if (!all_fit(&d)) {
		drawn_free(&d);
		return;
	}
	seen.scenarios++;
	run(&d, &set, true, true, &base);
	check_totals(&d, &base);
	check_quantiles(&base);
	count(&base);
	if (blocks(&set.spec))
		check_fcfs(&d, &base);

	world_draw(&shuffled, seed, seed + 1);
	run(&shuffled, &set, true, false, &other);
	check_equal(&d, &base, &shuffled, &other);
	cluster_result_free(&other);
	drawn_free(&shuffled);

	if (seed % 4 == 0) {
		run(&d, &set, false, false, &other);
		check_equal(&d, &base, &d, &other);
		cluster_result_free(&other);
	}
	const struct view_spec *v = &d.w.e.view;
	if (seed % 4 == 1 && v->bandwidth_noise == 0 && v->price_noise == 0 && strcmp(set.spec.name, "random") &&
	    strcmp(set.spec.name, "bace+"))
		check_reference(&d, &set, &base), seen.references++;
	cluster_result_free(&base);
	drawn_free(&d);
}

static void invariants(void **state)
{
	for (int i = 1; i <= n_scenarios; i++) {
		scenario = (uint64_t)i;
		one_scenario(scenario);
	}
	printf("%d scenarios, %d jobs: %d waited, %d over several regions, %d moved, %d not placed; %d against the reference\n",
	       seen.scenarios, seen.jobs, seen.waited, seen.spread, seen.moved, seen.unfinished,
	       seen.references);
	assert_true(seen.waited > seen.jobs / 20 && seen.spread > seen.jobs / 20);
	assert_true(seen.moved > seen.jobs / 200);
	assert_true(seen.unfinished < seen.jobs / 5 && seen.references > seen.scenarios / 20);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(invariants) };

	if (argc == 2)
		n_scenarios = atoi(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
