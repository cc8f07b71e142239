/* Worlds, views and verdicts of bace robust. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config.h"
#include "harness/robust/robust.h"
#include "harness/sim/sim.h"

static struct experiment exp_;

static int setup(void **state)
{
	struct bace_diags d = { 0 };
	struct bace_err e;

	setenv("BACE_PROFILES", BACE_SOURCE_ROOT "/profiles", 1);
	if (!experiment_load("six-regions-paper", &exp_, &d, &e))
		return 0;
	bace_diags_print(&d, stderr);
	bace_diags_free(&d);
	return -1;
}

static int teardown(void **state)
{
	experiment_free(&exp_);
	return 0;
}

/* Few delays and noises, all kinds of links. */
static struct robust_options small(void)
{
	struct robust_options o;

	robust_defaults(&o);
	o.n_seeds = 3;
	o.n_delays = 4;
	o.n_noises = 2;
	o.noises[1] = 0.3;
	o.n_biases = 1;
	o.crossed = false;
	return o;
}

static void run(const struct experiment *e, const struct robust_options *o, struct robust *r)
{
	struct bace_diags d = { 0 };
	struct bace_err err = { 0 };

	if (robust_run(e, o, r, &d, &err)) {
		bace_diags_print(&d, stderr);
		fail_msg("%s", err.msg);
	}
}

static size_t n_scores(const struct robust *r)
{
	return (size_t)r->n_worlds * (size_t)r->n_views * (size_t)r->n_policies * (size_t)r->o.n_seeds;
}

static int find_world(const struct robust *r, enum robust_regime g, enum robust_links l, enum robust_prices p)
{
	for (int w = 0; w < r->n_worlds; w++)
		if (r->worlds[w].regime == g && r->worlds[w].links == l && r->worlds[w].prices == p)
			return w;
	fail_msg("no such world");
	return -1;
}

static int find_view(const struct robust *r, double delay_s, double noise)
{
	for (int v = 0; v < r->n_views; v++)
		if (r->views[v].delay_s == delay_s && r->views[v].noise == noise && r->views[v].bias == 0)
			return v;
	fail_msg("no such view");
	return -1;
}

static void same_for_any_threads(void **state)
{
	struct robust_options o = small();
	struct robust a, b;

	o.n_threads = 1;
	run(&exp_, &o, &a);
	o.n_threads = 5;
	run(&exp_, &o, &b);
	assert_int_equal(n_scores(&a), n_scores(&b));
	assert_memory_equal(a.scores, b.scores, n_scores(&a) * sizeof(*a.scores));
	assert_int_equal(a.n_simulated, b.n_simulated);
	robust_free(&a);
	robust_free(&b);
}

/* A policy beside itself: the same truth, jobs and noise in every cell. */
static void all_see_the_same(void **state)
{
	struct policy_spec twins[2] = { exp_.policies[0], exp_.policies[0] };
	struct experiment e = exp_;
	struct robust_options o = small();
	struct robust r;

	strcpy(twins[1].label, "twin");
	e.policies = twins;
	e.n_policies = 2;
	run(&e, &o, &r);
	for (int w = 0; w < r.n_worlds; w++)
		for (int v = 0; v < r.n_views; v++)
			for (int i = 0; robust_has(&r, w, v) && i < o.n_seeds; i++) {
				assert_true(robust_at(&r, w, v, 0)[i].jct_s > 0);
				assert_true(robust_at(&r, w, v, 0)[i].jct_s == robust_at(&r, w, v, 1)[i].jct_s);
				assert_true(robust_at(&r, w, v, 0)[i].cost_usd == robust_at(&r, w, v, 1)[i].cost_usd);
			}
	robust_free(&r);
}

/* With the experiment's own arrivals, an exact view and static links, it is `bace sim'. */
static void exact_is_the_simulator(void **state)
{
	const struct sweep_options so = { .n_seeds = 1, .closed_form = true };
	struct robust_options o = small();
	struct robust r;
	struct sweep s;
	struct bace_err err;
	int w;

	o.load = 0;
	run(&exp_, &o, &r);
	w = find_world(&r, REGIME_GIVEN, LINKS_STATIC, PRICES_FLAT);
	if (sweep_run(&exp_, &so, &s, &err))
		fail_msg("%s", err.msg);
	for (int p = 0; p < exp_.n_policies; p++) {
		const double *metric = sweep_at(&s, 0, p, 0)->metric;

		assert_true(robust_at(&r, w, 0, p)[0].jct_s == metric[METRIC_MEAN_JCT] * exp_.n_jobs);
		assert_true(robust_at(&r, w, 0, p)[0].cost_usd == metric[METRIC_COST]);
	}
	sweep_free(&s);
	robust_free(&r);
}

/* ldf looks at free GPUs alone: whatever it is told, it does the same. */
static void ldf_does_not_care(void **state)
{
	struct robust_options o = small();
	struct robust r;
	int ldf = 2, w;

	assert_string_equal(exp_.policies[ldf].label, "ldf");
	run(&exp_, &o, &r);
	w = find_world(&r, REGIME_BINDING, LINKS_ADVERSE, PRICES_HOURLY);
	for (int v = 1; v < r.n_views; v++)
		for (int i = 0; i < o.n_seeds; i++)
			assert_true(robust_at(&r, w, v, ldf)[i].jct_s == robust_at(&r, w, 0, ldf)[i].jct_s);
	robust_free(&r);
}

/* Adverse links change 2.5 ms before an arrival and at no other time: a view of
 * 5 ms ago is as wrong as one of 20 ms, and not as good as one of now. Static
 * links and flat prices look the same at any age. */
static void age_matters_where_links_change(void **state)
{
	struct robust_options o = small();
	struct robust r;
	int adverse, still, late, later, differ = 0;

	run(&exp_, &o, &r);
	adverse = find_world(&r, REGIME_BINDING, LINKS_ADVERSE, PRICES_FLAT);
	still = find_world(&r, REGIME_BINDING, LINKS_STATIC, PRICES_FLAT);
	late = find_view(&r, 0.005, 0);
	later = find_view(&r, 0.02, 0);
	for (int p = 0; p < r.n_policies; p++)
		for (int i = 0; i < o.n_seeds; i++) {
			double now = robust_at(&r, adverse, 0, p)[i].jct_s;

			assert_true(robust_at(&r, still, late, p)[i].jct_s == robust_at(&r, still, 0, p)[i].jct_s);
			assert_true(robust_at(&r, adverse, late, p)[i].jct_s == robust_at(&r, adverse, later, p)[i].jct_s);
			differ += robust_at(&r, adverse, late, p)[i].jct_s != now;
		}
	assert_true(differ > 0);
	robust_free(&r);
}

static void drawn_scenarios_differ(void **state)
{
	struct robust_options o = small();
	struct robust r;

	o.drawn = true;
	o.links[LINKS_FAST] = o.links[LINKS_SLOW] = false;
	run(&exp_, &o, &r);
	for (int i = 1; i < o.n_seeds; i++)
		assert_true(robust_at(&r, 0, 0, 0)[i].jct_s != robust_at(&r, 0, 0, 0)[0].jct_s);
	robust_free(&r);
}

static void refused(const struct experiment *e, const struct robust_options *o, const char *what)
{
	struct bace_diags d = { 0 };
	struct bace_err err = { 0 };
	struct robust r;

	assert_int_equal(robust_run(e, o, &r, &d, &err), -EINVAL);
	if (!strstr(d.n ? d.v[0].text : err.msg, what))
		fail_msg("`%s' does not say `%s'", d.n ? d.v[0].text : err.msg, what);
	bace_diags_free(&d);
}

static void refusals(void **state)
{
	struct robust_options o = small();
	struct experiment e = exp_;

	e.n_policies = 1;
	refused(&e, &o, "second policy");
	o.n_seeds = 1;
	refused(&exp_, &o, "at least 2");
	o = small();
	o.delays_s[0] = 1;
	refused(&exp_, &o, "begin with 0");
	o = small();
	memset(o.links, 0, sizeof(o.links));
	refused(&exp_, &o, "is left");
	o = small();
	o.hourly = "no-such-prices";
	refused(&exp_, &o, "No such file");
}

/* ---- verdicts, over scores made by hand ---- */

#define SEEDS 40

struct hand {
	struct policy_spec policies[2];
	struct experiment e;
	struct robust_world world;
	struct robust_view views[5];
	struct robust_pair pair;
	struct robust_score scores[5 * 2 * SEEDS];
	struct robust r;
};

/* Baseline 100 everywhere; the gain of each view is `jct[view]` and `cost[view]`,
 * plus and minus `spread` for odd and even seeds. */
static void hand(struct hand *h, const double *jct, const double *cost, double spread)
{
	*h = (struct hand){ .pair = { 0, 1 } };
	robust_defaults(&h->r.o);
	h->r.o.n_seeds = SEEDS;
	h->e.policies = h->policies;
	h->e.n_policies = 2;
	h->r.exp = &h->e;
	h->r.n_worlds = 1;
	h->r.n_views = 5;
	h->r.n_policies = 2;
	h->r.n_pairs = 1;
	h->r.worlds = &h->world;
	h->r.views = h->views;
	h->r.pairs = &h->pair;
	h->r.scores = h->scores;
	h->views[1].noise = 0.1;
	h->views[2].noise = 0.2;
	h->views[3].delay_s = 1;
	h->views[4].delay_s = 3600;
	for (int v = 0; v < 5; v++)
		for (int i = 0; i < SEEDS; i++) {
			double d = i % 2 ? spread : -spread;

			h->scores[(v * 2) * SEEDS + i] = (struct robust_score){ 100 * (1 - jct[v] - d),
				50 * (1 - jct[v] - d), 100 * (1 - cost[v] - d) };
			h->scores[(v * 2 + 1) * SEEDS + i] = (struct robust_score){ 100, 50, 100 };
		}
}

static void judge(const struct hand *h, struct robust_judgement *j)
{
	struct bace_err err;

	if (robust_judge(&h->r, j, &err))
		fail_msg("%s", err.msg);
}

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static void verdicts(void **state)
{
	const double jct[5] = { 0.3, 0.25, 0.15, 0.3, 0.1 }, cost[5] = { 0.2, 0.15, 0.11, 0.2, 0.04 };
	struct robust_judgement j;
	static struct hand h;
	const struct robust_cell *c;
	const struct robust_break_even *b;

	hand(&h, jct, cost, 0);
	judge(&h, &j);
	c = robust_cell_at(&j, 0, 0, 0);
	assert_true(near(c->gain[ROBUST_JCT].mean, 0.3) && near(c->gain[ROBUST_JCT].lo, 0.3) &&
		    near(c->gain[ROBUST_JCT].hi, 0.3) && near(c->gain[ROBUST_JCT].of_sums, 0.3) &&
		    near(c->gain[ROBUST_JCT].median_jct, 0.3));
	assert_int_equal(c->verdict, ROBUST_HOLDS);
	assert_int_equal(c->gain[ROBUST_JCT].n, SEEDS);
	c = robust_cell_at(&j, 0, 2, 0);
	assert_int_equal(c->gain[ROBUST_JCT].verdict, ROBUST_FAILS);
	assert_int_equal(c->gain[ROBUST_COST].verdict, ROBUST_HOLDS);
	assert_int_equal(c->verdict, ROBUST_FAILS);
	assert_true(near(c->gain[ROBUST_JCT].retention, 0.5));
	assert_true(near(c->gain[ROBUST_JCT].change, -0.15) && near(c->gain[ROBUST_JCT].change_hi, -0.15));
	/* 0.25 at 10 % and 0.15 at 20 %: 0.2 at 15 %; 0.3 at 1 s, 0.1 at 1 h: half way. */
	b = robust_even_at(&j, 0, 0, ROBUST_JCT, AXIS_NOISE);
	assert_true(b->kind == BREAK_AT && near(b->at, 0.15) && near(b->lo, 0.15) && near(b->hi, 0.15));
	b = robust_even_at(&j, 0, 0, ROBUST_JCT, AXIS_DELAY);
	assert_true(b->kind == BREAK_AT && near(b->at, 1800.5));
	b = robust_even_at(&j, 0, 0, ROBUST_COST, AXIS_NOISE);
	assert_true(b->kind == BREAK_NEVER && isinf(b->at) && near(b->end, 0.2));
	robust_judgement_free(&j);
	h.r.o.jct_threshold = 0.31;
	judge(&h, &j);
	assert_int_equal(robust_even_at(&j, 0, 0, ROBUST_JCT, AXIS_NOISE)->kind, BREAK_ALREADY);
	robust_judgement_free(&j);
}

/* Half of the seeds gain 50 %, half lose 10 %: mean 0.2 exactly, the standard
 * error of the mean 0.3 / sqrt(40) = 0.047. */
static void undecided_between(void **state)
{
	const double jct[5] = { 0.2, 0.2, 0.2, 0.2, 0.2 }, cost[5] = { 0.9, 0.9, 0.9, 0.9, 0.9 };
	struct robust_judgement j;
	static struct hand h;
	const struct robust_gain *g;

	hand(&h, jct, cost, 0.3);
	judge(&h, &j);
	g = &robust_cell_at(&j, 0, 1, 0)->gain[ROBUST_JCT];
	assert_true(near(g->mean, 0.2));
	assert_int_equal(g->verdict, ROBUST_UNDECIDED);
	assert_true(fabs(g->lo - (0.2 - 1.96 * 0.0474)) < 0.015 && fabs(g->hi - (0.2 + 1.96 * 0.0474)) < 0.015);
	/* Every seed changed by nothing: paired, the spread does not blur that. */
	assert_true(near(g->change_lo, 0) && near(g->change_hi, 0));
	assert_int_equal(robust_cell_at(&j, 0, 1, 0)->verdict, ROBUST_UNDECIDED);
	robust_judgement_free(&j);
	assert_int_equal(robust_verdict_of(0.2, 0.3, 0.2), ROBUST_HOLDS);
	assert_int_equal(robust_verdict_of(0.1, 0.2, 0.2), ROBUST_UNDECIDED);
	assert_int_equal(robust_verdict_of(0.1, 0.1999, 0.2), ROBUST_FAILS);
}

/* A job that was never placed: that seed is left out, and counted. */
static void unplaced_jobs(void **state)
{
	const double gain[5] = { 0.5, 0.5, 0.5, 0.5, 0.5 };
	struct robust_judgement j;
	static struct hand h;
	const struct robust_gain *g;

	hand(&h, gain, gain, 0);
	for (int i = 0; i < 10; i++)
		h.scores[2 * SEEDS + i] = (struct robust_score){ NAN, NAN, NAN };
	judge(&h, &j);
	g = &robust_cell_at(&j, 0, 1, 0)->gain[ROBUST_COST];
	assert_int_equal(g->n, SEEDS - 10);
	assert_true(near(g->mean, 0.5) && near(g->lo, 0.5) && near(g->retention, 1));
	assert_int_equal(robust_cell_at(&j, 0, 0, 0)->gain[ROBUST_COST].n, SEEDS);
	for (int i = 0; i < SEEDS; i++)
		h.scores[2 * SEEDS + i] = (struct robust_score){ NAN, NAN, NAN };
	robust_judgement_free(&j);
	judge(&h, &j);
	assert_int_equal(robust_cell_at(&j, 0, 1, 0)->gain[ROBUST_COST].n, 0);
	assert_int_equal(robust_cell_at(&j, 0, 1, 0)->verdict, ROBUST_UNDECIDED);
	robust_judgement_free(&j);
}

/* Of one seed every resample is the same: that decides nothing. */
static void one_seed_is_no_verdict(void **state)
{
	const double gain[5] = { 0.5, 0.5, 0.5, 0.5, 0.5 };
	struct robust_judgement j;
	static struct hand h;
	const struct robust_gain *g;

	hand(&h, gain, gain, 0);
	for (int i = 1; i < SEEDS; i++)
		h.scores[2 * SEEDS + i] = (struct robust_score){ NAN, NAN, NAN };
	judge(&h, &j);
	g = &robust_cell_at(&j, 0, 1, 0)->gain[ROBUST_JCT];
	assert_int_equal(g->n, 1);
	assert_true(near(g->mean, 0.5) && near(g->change, 0));
	assert_true(isnan(g->lo) && isnan(g->hi) && isnan(g->change_lo) && isnan(g->retention));
	assert_int_equal(robust_cell_at(&j, 0, 1, 0)->verdict, ROBUST_UNDECIDED);
	assert_int_equal(robust_cell_at(&j, 0, 2, 0)->verdict, ROBUST_HOLDS);
	robust_judgement_free(&j);
}

/* Without a gain there is no break-even; a point without one in between is passed over. */
static void break_even_without_gains(void **state)
{
	const double jct[5] = { 0.3, 0.25, 0.1, 0.3, 0.1 };
	struct robust_judgement j;
	static struct hand h;
	const struct robust_break_even *b;

	hand(&h, jct, jct, 0);
	for (int i = 0; i < SEEDS; i++)		/* noise of 10 % */
		h.scores[2 * SEEDS + i] = (struct robust_score){ NAN, NAN, NAN };
	judge(&h, &j);
	b = robust_even_at(&j, 0, 0, ROBUST_JCT, AXIS_NOISE);
	/* 0.3 at 0, 0.1 at 20 % */
	assert_true(b->kind == BREAK_AT && near(b->at, 0.1) && near(b->lo, 0.1) && near(b->hi, 0.1));
	robust_judgement_free(&j);
	for (int v = 0; v < 5; v++)		/* the baseline never places some job */
		for (int i = 0; i < SEEDS; i++)
			h.scores[(v * 2 + 1) * SEEDS + i] = (struct robust_score){ NAN, NAN, NAN };
	judge(&h, &j);
	for (int a = 0; a < ROBUST_AXES; a++) {
		b = robust_even_at(&j, 0, 0, ROBUST_JCT, (enum robust_axis)a);
		assert_int_equal(b->kind, BREAK_UNDEFINED);
		assert_true(isnan(b->at) && isnan(b->lo) && isnan(b->hi));
	}
	robust_judgement_free(&j);
}

/* Only what starts alike is compared; one subject a start rule. */
static void pairs_start_alike(void **state)
{
	struct policy_spec p[5] = { { .name = "bace" }, { .name = "lcf" }, { .name = "bace", .start = START_K_STAR },
		{ .name = "lcf", .start = START_K_STAR }, { .name = "bace" } };
	struct experiment e = { .policies = p, .n_policies = 5 };
	struct robust_pair *v;
	struct bace_err err;
	int n;

	assert_int_equal(robust_pairs(&e, &v, &n, &err), 0);
	assert_int_equal(n, 3);
	assert_true(v[0].subject == 0 && v[0].baseline == 1 && v[1].subject == 0 && v[1].baseline == 4);
	assert_true(v[2].subject == 2 && v[2].baseline == 3);
	free(v);
	p[3].start = START_K_MIN;
	e.policies = p + 2;
	e.n_policies = 2;
	assert_int_equal(robust_pairs(&e, &v, &n, &err), -EINVAL);
	free(v);
}

/* A series without period: flat prices are its mean up to the last change, not its first. */
static void flat_is_the_mean(void **state)
{
	double start[] = { 0, 100, 300 }, usd[] = { 0.1, 0.4, 9 }, mean[] = { 0.3 };
	struct experiment e = exp_;
	struct robust_options o = small();
	struct robust r, same;
	int w;

	o.load = 0;
	o.regimes[REGIME_BINDING] = o.prices[PRICES_HOURLY] = false;
	memset(o.links, 0, sizeof(o.links));
	o.links[LINKS_STATIC] = true;
	CLEANUP_FREE struct region *all = calloc((size_t)e.cluster.n_regions, sizeof(*all));
	assert_non_null(all);
	memcpy(all, exp_.cluster.regions, (size_t)e.cluster.n_regions * sizeof(*all));
	e.cluster.regions = all;
	for (int i = 0; i < e.cluster.n_regions; i++)
		all[i].price = (struct price_series){ .n = 3, .start_s = start, .usd_per_kwh = usd };
	run(&e, &o, &r);
	for (int i = 0; i < e.cluster.n_regions; i++)	/* (0.1 * 100 + 0.4 * 200) / 300 */
		all[i].price = (struct price_series){ .n = 1, .start_s = start, .usd_per_kwh = mean };
	run(&e, &o, &same);
	w = find_world(&r, REGIME_GIVEN, LINKS_STATIC, PRICES_FLAT);
	for (int p = 0; p < r.n_policies; p++)
		assert_true(fabs(robust_at(&r, w, 0, p)[0].cost_usd / robust_at(&same, w, 0, p)[0].cost_usd - 1) < 1e-9);
	robust_free(&r);
	robust_free(&same);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_for_any_threads),
		cmocka_unit_test(all_see_the_same),
		cmocka_unit_test(exact_is_the_simulator),
		cmocka_unit_test(ldf_does_not_care),
		cmocka_unit_test(age_matters_where_links_change),
		cmocka_unit_test(drawn_scenarios_differ),
		cmocka_unit_test(refusals),
		cmocka_unit_test(verdicts),
		cmocka_unit_test(undecided_between),
		cmocka_unit_test(unplaced_jobs),
		cmocka_unit_test(one_seed_is_no_verdict),
		cmocka_unit_test(break_even_without_gains),
		cmocka_unit_test(pairs_start_alike),
		cmocka_unit_test(flat_is_the_mean),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
