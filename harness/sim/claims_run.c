#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sim/claims.h"

#define MAX_REDRAWS 10000

enum { STREAM_SCENARIO = 21 };

static const int default_choice[CLAIMS_CHOICES] = { [CHOICE_M] = 1 };

/* ---- one simulation ---- */

static struct policy_spec policy_of(enum claims_policy p, const int *choice)
{
	static const char *const names[CLAIMS_POLICIES] = { "bace", "lcf", "ldf", "cr-lcf", "cr-ldf",
							    "bace", "bace", "bace" };
	struct policy_spec s = { .alpha = choice_alpha(choice), .alpha_gain = 1,
				 .start = choice[CHOICE_START] ? START_K_STAR : START_K_MIN,
				 .pathfinder = p != CLAIMS_NO_PATHFINDER,
				 .cost_min = p != CLAIMS_NO_COST_MIN,
				 .has_order = p == CLAIMS_NO_PRIORITY, .order = ORDER_FCFS };

	strcpy(s.name, names[p]);
	strcpy(s.label, names[p]);
	return s;
}

static int simulate(const struct scene *s, const struct policy_spec *spec, struct oracle *o,
		    struct step_memo *memo, struct claims_score *out, struct bace_err *err)
{
	struct policy *p = NULL;
	struct cluster_result r = { 0 };
	int rc = policy_create(spec, 1, &p, err);

	*out = (struct claims_score){ NAN, NAN, NAN };
	if (!rc)
		rc = cluster_simulate(&(struct cluster_sim){ .exp = &s->e, .models = &s->models, .policy = p,
			.oracle = o, .separable = true, .memo = memo }, &r, err);
	if (!rc && r.n_finished == r.n)
		*out = (struct claims_score){ r.mean_jct_s * r.n, r.median_jct_s, r.cost_usd };
	cluster_result_free(&r);
	policy_destroy(p);
	return rc;
}

static int make_oracle(const int *choice, struct oracle **o, struct bace_err *err)
{
	if (!choice[CHOICE_ORACLE])
		return oracle_closed_form(o, err);
	return oracle_event_sim(choice_schedule(choice), 1, true, o, err);
}

/* Every policy that some figure needs on this variant. */
static int run_variant(const struct draw *d, const int *choice, enum claims_variant v,
		       struct step_memo *memo, struct claims_score *out, struct bace_err *err)
{
	int n = v == CLAIMS_PLAIN ? CLAIMS_POLICIES : CLAIMS_NO_PRIORITY;
	struct oracle *o = NULL;
	struct scene s;
	int rc = scene_build(&s, d, choice, v, err);

	if (rc)
		return rc;
	for (int p = 0; p < CLAIMS_POLICIES; p++)
		out[p] = (struct claims_score){ NAN, NAN, NAN };
	if (scene_fits(&s))
		rc = make_oracle(choice, &o, err);
	for (int p = 0; p < n && o && !rc; p++) {
		struct policy_spec spec = policy_of((enum claims_policy)p, choice);

		rc = simulate(&s, &spec, o, memo, &out[p], err);
	}
	oracle_destroy(o);
	scene_free(&s);
	return rc;
}

/* ---- one scenario ---- */

static int fits(const struct draw *d, const int *choice, double *input, struct bace_err *err)
{
	struct scene s;
	int rc = scene_build(&s, d, choice, CLAIMS_PLAIN, err);

	if (rc)
		return rc;
	rc = scene_fits(&s);
	if (rc && input)
		scene_inputs(&s, choice, input);
	scene_free(&s);
	return rc;
}

static int draw_fitting(struct draw *d, struct bace_rng *r, struct claims_scenario *out, struct bace_err *err)
{
	int rc = 0;

	while (!rc) {
		draw_scenario(d, r);
		rc = fits(d, default_choice, NULL, err);
		if (!rc && ++out->redraws > MAX_REDRAWS)
			return bace_fail(err, EDOM, "%d draws in which some job fits nowhere", out->redraws);
	}
	return rc < 0 ? rc : 0;
}

static int draw_choices(const struct draw *d, struct bace_rng *r, struct claims_scenario *out,
			struct bace_err *err)
{
	int rc = 0;

	while (!rc) {
		for (int c = 0; c < CLAIMS_CHOICES; c++)
			out->choice[c] = (int)bace_rng_below(r, (uint64_t)claims_levels((enum claims_choice)c));
		rc = fits(d, out->choice, out->input, err);
		if (!rc && ++out->choice_redraws > MAX_REDRAWS)
			return bace_fail(err, EDOM, "%d draws of choices under which some job fits nowhere",
					 out->choice_redraws);
	}
	return rc < 0 ? rc : 0;
}

/* Variants with the same links have the same step times. The classes of jobs
 * agree too: of 24 jobs the first eight are the same, and new classes come last. */
static int run_arm(const struct draw *d, const int *choice, struct claims_scenario *out, int arm,
		   struct bace_err *err)
{
	struct step_memo *memo[3] = { step_memo_new(), step_memo_new(), step_memo_new() };
	int rc = 0;

	if (!memo[0] || !memo[1] || !memo[2])
		rc = bace_fail(err, ENOMEM, "step times: out of memory");
	for (int v = 0; v < CLAIMS_VARIANTS && !rc; v++)
		rc = run_variant(d, choice, (enum claims_variant)v,
				 memo[v == CLAIMS_LINKS_03 ? 1 : v == CLAIMS_LINKS_15 ? 2 : 0],
				 out->score[arm][v], err);
	for (int i = 0; i < 3; i++)
		step_memo_free(memo[i]);
	return rc;
}

static int run_arms(const struct draw *d, struct claims_scenario *out, struct bace_err *err)
{
	int patient[CLAIMS_CHOICES], rc = 0;
	const int *choice[CLAIMS_ARMS] = { default_choice, patient, out->choice };

	memcpy(patient, default_choice, sizeof(patient));
	patient[CHOICE_START] = 1;
	for (int arm = 0; arm < CLAIMS_ARMS && !rc; arm++)
		rc = run_arm(d, choice[arm], out, arm, err);
	return rc;
}

struct claims_run {
	const struct experiment *base;
	const struct claims_options *o;
	struct claims *out;
	atomic_bool no_memory;		/* for the text of an error */
};

static void work(void *arg, int i)
{
	struct claims_run *w = arg;
	struct claims_scenario *out = &w->out->scenarios[i];
	struct bace_err err = { 0 };
	struct bace_rng r;
	struct draw d;
	int rc = draw_alloc(&d, w->base);

	if (rc) {
		atomic_store(&w->no_memory, true);
		return;
	}
	bace_rng_init(&r, w->o->seed + (uint64_t)i, STREAM_SCENARIO);
	rc = draw_fitting(&d, &r, out, &err);
	if (!rc)
		rc = draw_choices(&d, &r, out, &err);
	if (!rc)
		rc = run_arms(&d, out, &err);
	/* An error is told by its text: one that cannot be copied must not pass for none. */
	if (rc && !(out->error = strdup(err.msg)))
		atomic_store(&w->no_memory, true);
	draw_free(&d);
}

int claims_run(const struct experiment *base, const struct claims_options *o, struct claims *out,
	       struct bace_err *err)
{
	struct claims_run w = { .base = base, .o = o, .out = out };
	int rc;

	*out = (struct claims){ .n = o->n_scenarios, .seed = o->seed };
	if (base->n_models < 1 || base->cluster.n_regions < 2)
		return bace_fail(err, EINVAL, "%s: needs at least one model and two regions", base->name);
	out->scenarios = calloc((size_t)o->n_scenarios + 1, sizeof(*out->scenarios));
	if (!out->scenarios)
		return bace_fail(err, ENOMEM, "%d scenarios: out of memory", o->n_scenarios);
	rc = pool_run(o->n_scenarios, o->n_threads, work, &w, o->on_progress, o->arg, err);
	if (!rc && atomic_load(&w.no_memory))
		rc = bace_fail(err, ENOMEM, "scenarios: out of memory");
	for (int i = 0; !rc && i < out->n; i++)
		if (out->scenarios[i].error)
			rc = bace_fail(err, EIO, "scenario %d: %s", i + 1, out->scenarios[i].error);
	if (rc)
		claims_free(out);
	return rc;
}

void claims_free(struct claims *c)
{
	for (int i = 0; c->scenarios && i < c->n; i++)
		free(c->scenarios[i].error);
	free(c->scenarios);
	*c = (struct claims){ 0 };
}

/* ---- rank correlation ---- */

struct ranked {
	double value, rank;
	int at;
};

static int by_value(const void *a, const void *b)
{
	double x = ((const struct ranked *)a)->value, y = ((const struct ranked *)b)->value;

	return (x > y) - (x < y);
}

static void rank(struct ranked *v, int n, double *out)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	for (int i = 0, j; i < n; i = j) {
		for (j = i; j < n && v[j].value == v[i].value; j++)
			;
		for (int k = i; k < j; k++)
			out[v[k].at] = (i + j - 1) / 2.0;
	}
}

double rank_correlation(const double *x, const double *y, int n)
{
	CLEANUP_FREE struct ranked *v = calloc((size_t)n + 1, sizeof(*v));
	CLEANUP_FREE double *rx = calloc((size_t)n + 1, sizeof(double));
	CLEANUP_FREE double *ry = calloc((size_t)n + 1, sizeof(double));
	double sxy = 0, sxx = 0, syy = 0, mean;
	int m = 0;

	if (!v || !rx || !ry)
		return NAN;
	for (int pass = 0; pass < 2; pass++) {
		m = 0;
		for (int i = 0; i < n; i++)
			if (!isnan(x[i]) && !isnan(y[i])) {
				v[m] = (struct ranked){ .value = pass ? y[i] : x[i], .at = m };
				m++;
			}
		rank(v, m, pass ? ry : rx);
	}
	mean = (m - 1) / 2.0;
	for (int i = 0; i < m; i++) {
		sxy += (rx[i] - mean) * (ry[i] - mean);
		sxx += (rx[i] - mean) * (rx[i] - mean);
		syy += (ry[i] - mean) * (ry[i] - mean);
	}
	return m < 3 || sxx == 0 || syy == 0 ? NAN : sxy / sqrt(sxx * syy);
}
