#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "harness/robust/instance.h"

const char *const robust_regime_name[ROBUST_REGIMES] = { "as given", "links bind" };
const char *const robust_prices_name[ROBUST_PRICES] = { "flat", "hourly" };
const char *const robust_links_name[ROBUST_LINKS] = { "static", "slow", "adverse", "fast" };

const char *robust_kind(const struct robust_view *v, char *buf)
{
	snprintf(buf, 48, "%s %s %s", v->gaussian ? "gaussian" : "uniform",
		 v->multiplicative ? "multiplicative" : "additive", v->correlated ? "correlated" : "independent");
	return buf;
}

void robust_defaults(struct robust_options *o)
{
	static const double delays_s[] = { 0, 0.005, 0.01, 0.02, 1, 60, 3600 };
	static const double noises[] = { 0, 0.1, 0.2, 0.3 };
	static const double biases[] = { -0.3, -0.2, -0.1, 0.1, 0.2, 0.3 };

	*o = (struct robust_options){ .n_seeds = 100, .load = 1, .hold_s = 6 * 3600, .binding_flops = 310e12,
		.binding_bandwidth = 0.3, .period_s = 6 * 3600, .correlation = 0.9, .crossed = true,
		.n_delays = ARRAY_LEN(delays_s), .n_noises = ARRAY_LEN(noises), .n_biases = ARRAY_LEN(biases),
		.hourly = "wholesale-2024-week", .jct_threshold = 0.2, .cost_threshold = 0.1,
		.regimes = { true, true }, .prices = { true, true }, .links = { true, true, true, true } };
	memcpy(o->delays_s, delays_s, sizeof(delays_s));
	memcpy(o->noises, noises, sizeof(noises));
	memcpy(o->biases, biases, sizeof(biases));
}

/* ---- the grid ---- */

/* Beyond this a delay is not of one instant's monitoring: not asked of fast links. */
#define FAST_MAX_DELAY_S 0.05
#define MAX_VIEWS (ROBUST_MAX_AXIS * (8 * ROBUST_MAX_AXIS + 1) + ROBUST_MAX_AXIS)

static void add_view(struct robust *r, struct robust_view v)
{
	v.in_fast = v.delay_s <= FAST_MAX_DELAY_S && !v.gaussian && !v.multiplicative && !v.correlated;
	r->views[r->n_views++] = v;
}

/* Published kind first; the others with every delay, or with none and the
 * greatest delay of monitoring alone. */
static void add_noisy(struct robust *r, double noise)
{
	const struct robust_options *o = &r->o;

	for (int kind = 0; kind < 8; kind++)
		for (int d = 0; d < o->n_delays; d++)
			if (!kind || o->crossed || !d)
				add_view(r, (struct robust_view){ .delay_s = o->delays_s[d], .noise = noise,
					.gaussian = kind & 4, .multiplicative = kind & 2, .correlated = kind & 1 });
}

static int make_views(struct robust *r, struct bace_err *err)
{
	const struct robust_options *o = &r->o;

	if (o->n_delays < 1 || o->delays_s[0] != 0 || o->n_noises < 1 || o->noises[0] != 0)
		return bace_fail(err, EINVAL, "delays and noises must begin with 0");
	r->views = calloc(MAX_VIEWS, sizeof(*r->views));
	if (!r->views)
		return bace_fail(err, ENOMEM, "views: out of memory");
	for (int d = 0; d < o->n_delays; d++)
		add_view(r, (struct robust_view){ .delay_s = o->delays_s[d] });
	for (int i = 1; i < o->n_noises; i++)
		add_noisy(r, o->noises[i]);
	for (int i = 0; i < o->n_biases; i++)
		add_view(r, (struct robust_view){ .bias = o->biases[i] });
	return 0;
}

static int make_worlds(struct robust *r, struct bace_err *err)
{
	r->worlds = calloc(ROBUST_REGIMES * ROBUST_PRICES * ROBUST_LINKS, sizeof(*r->worlds));
	if (!r->worlds)
		return bace_fail(err, ENOMEM, "worlds: out of memory");
	for (int g = 0; g < ROBUST_REGIMES; g++)
		for (int l = 0; l < ROBUST_LINKS; l++)
			for (int p = 0; p < ROBUST_PRICES; p++) {
				/* A cut job ends before the hour does. */
				bool same = l == LINKS_FAST && p == PRICES_HOURLY && r->o.prices[PRICES_FLAT];

				if (r->o.regimes[g] && r->o.prices[p] && r->o.links[l] && !same)
					r->worlds[r->n_worlds++] = (struct robust_world){
						(enum robust_regime)g, (enum robust_prices)p, (enum robust_links)l };
			}
	return r->n_worlds ? 0 : bace_fail(err, EINVAL, "no regime, kind of links or of prices is left");
}

int robust_pairs(const struct experiment *e, struct robust_pair **out, int *n, struct bace_err *err)
{
	/* Each of two start rules has one subject. */
	struct robust_pair *v = calloc((size_t)e->n_policies + 1, sizeof(*v));

	*n = 0;
	*out = v;
	if (!v)
		return bace_fail(err, ENOMEM, "policies: out of memory");
	for (int s = 0; s < e->n_policies; s++) {
		bool first = !strcmp(e->policies[s].name, e->policies[0].name);

		for (int t = 0; t < s && first; t++)
			first = strcmp(e->policies[t].name, e->policies[0].name) ||
				e->policies[t].start != e->policies[s].start;
		for (int b = 0; first && b < e->n_policies; b++)
			if (b != s && e->policies[b].start == e->policies[s].start)
				v[(*n)++] = (struct robust_pair){ s, b };
	}
	if (!*n)
		return bace_fail(err, EINVAL, "%s: needs a second policy with the start rule of the first to compare it with",
				 e->name);
	return 0;
}

bool robust_has(const struct robust *r, int world, int view)
{
	return r->worlds[world].links != LINKS_FAST || r->views[view].in_fast;
}

/* ---- the work: one seed of one world ---- */

struct work {
	struct robust *r;
	struct setting setting;
	char **errors;			/* [unit] */
	int *redraws;			/* [unit] */
	int64_t *simulated;		/* [unit] */
	atomic_bool no_memory;		/* for the text of an error */
};

static struct view_spec told(const struct robust *r, int world, const struct robust_view *v)
{
	return (struct view_spec){ .delay_s = v->delay_s, .bandwidth_noise = v->noise, .price_noise = v->noise,
		.period_s = r->worlds[world].links == LINKS_FAST ? 0 : r->o.period_s,
		.multiplicative = v->multiplicative, .dist = v->gaussian ? NOISE_GAUSSIAN : NOISE_UNIFORM,
		.bias_bandwidth = v->bias, .bias_price = v->bias,
		.correlation = v->correlated ? r->o.correlation : 0 };
}

static int simulate(const struct instance *s, int policy, struct oracle *o, struct step_memo *memo, uint64_t seed,
		    struct robust_score *out, struct bace_err *err)
{
	struct cluster_result res = { 0 };
	struct policy *p = NULL;
	int rc = policy_create(&s->e.policies[policy], seed, &p, err);

	*out = (struct robust_score){ NAN, NAN, NAN };
	if (!rc)
		rc = cluster_simulate(&(struct cluster_sim){ .exp = &s->e, .models = &s->models, .policy = p,
			.oracle = o, .separable = true, .memo = memo, .seed = seed, .n_changes = s->n_changes,
			.changes = s->changes }, &res, err);
	if (!rc && res.n_finished == res.n)
		*out = (struct robust_score){ res.mean_jct_s * res.n, res.median_jct_s, res.cost_usd };
	cluster_result_free(&res);
	policy_destroy(p);
	return rc;
}

static int run_views(struct work *w, struct instance *s, int unit, struct oracle *o, struct step_memo *memo,
		     struct bace_err *err)
{
	struct robust *r = w->r;
	int world = unit % r->n_worlds, seed = unit / r->n_worlds, rc = 0;

	for (int v = 0; v < r->n_views; v++) {
		s->e.view = told(r, world, &r->views[v]);
		for (int p = 0; p < r->n_policies; p++) {
			struct robust_score *out = (struct robust_score *)robust_at(r, world, v, p) + seed;

			*out = (struct robust_score){ NAN, NAN, NAN };
			if (!robust_has(r, world, v))
				continue;
			rc = simulate(s, p, o, memo, r->exp->seed + (uint64_t)seed, out, err);
			if (rc)
				return bace_err_context(err, "policy %s, seed %d", r->exp->policies[p].label,
							seed + 1);
			w->simulated[unit]++;
		}
	}
	return 0;
}

static void work(void *arg, int unit)
{
	struct work *w = arg;
	const struct robust *r = w->r;
	struct step_memo *memo = step_memo_new();
	struct oracle *o = NULL;
	struct bace_err err = { 0 };
	struct instance s;
	int rc = memo ? instance_build(&s, &w->setting, &r->worlds[unit % r->n_worlds],
				    r->exp->seed + (uint64_t)(unit / r->n_worlds), &err) :
			bace_fail(&err, ENOMEM, "step times: out of memory");

	if (!rc) {
		w->redraws[unit] = s.redraws;
		rc = r->o.event_sim ? oracle_event_sim(s.e.schedule, s.e.interleave, s.e.overlap, &o, &err) :
				      oracle_closed_form(&o, &err);
		if (!rc)
			rc = run_views(w, &s, unit, o, memo, &err);
		instance_free(&s);
	}
	/* An error is told by its text: one that cannot be copied must not pass for none. */
	if (rc && !(w->errors[unit] = strdup(err.msg)))
		atomic_store(&w->no_memory, true);
	oracle_destroy(o);
	step_memo_free(memo);
}

/* ---- the whole ---- */

static int set_up(struct robust *r, struct bace_err *err)
{
	size_t n;
	int rc;

	if (r->o.n_seeds < 2)
		return bace_fail(err, EINVAL, "%d seeds: an interval needs at least 2", r->o.n_seeds);
	rc = make_views(r, err);
	if (!rc)
		rc = make_worlds(r, err);
	if (!rc)
		rc = robust_pairs(r->exp, &r->pairs, &r->n_pairs, err);
	if (rc)
		return rc;
	n = (size_t)r->n_worlds * (size_t)r->n_views * (size_t)r->n_policies * (size_t)r->o.n_seeds;
	r->scores = malloc(n * sizeof(*r->scores));
	return r->scores ? 0 : bace_fail(err, ENOMEM, "%zu scores: out of memory", n);
}

static int run_units(struct work *w, struct bace_err *err)
{
	struct robust *r = w->r;
	int n = r->n_worlds * r->o.n_seeds, rc;

	w->errors = calloc((size_t)n, sizeof(*w->errors));
	w->redraws = calloc((size_t)n, sizeof(*w->redraws));
	w->simulated = calloc((size_t)n, sizeof(*w->simulated));
	if (!w->errors || !w->redraws || !w->simulated)
		return bace_fail(err, ENOMEM, "%d units of work: out of memory", n);
	rc = pool_run(n, r->o.n_threads, work, w, r->o.on_progress, r->o.arg, err);
	if (!rc && atomic_load(&w->no_memory))
		rc = bace_fail(err, ENOMEM, "%d units of work: out of memory", n);
	for (int i = 0; i < n; i++) {
		if (!rc && w->errors[i])
			rc = bace_fail(err, EIO, "%s", w->errors[i]);
		r->n_simulated += w->simulated[i];
		if (i % r->n_worlds == 0)
			r->redraws += w->redraws[i];
	}
	return rc;
}

int robust_run(const struct experiment *exp, const struct robust_options *o, struct robust *out,
	       struct bace_diags *diags, struct bace_err *err)
{
	struct work w = { .r = out };
	int rc;

	*out = (struct robust){ .exp = exp, .o = *o, .n_policies = exp->n_policies };
	rc = set_up(out, err);
	if (!rc)
		rc = setting_init(&w.setting, exp, &out->o, diags, err);
	if (!rc)
		rc = run_units(&w, err);
	for (int i = 0; w.errors && i < out->n_worlds * out->o.n_seeds; i++)
		free(w.errors[i]);
	free(w.errors);
	free(w.redraws);
	free(w.simulated);
	setting_free(&w.setting);
	if (rc)
		robust_free(out);
	return rc;
}

void robust_free(struct robust *r)
{
	free(r->views);
	free(r->worlds);
	free(r->pairs);
	free(r->scores);
	*r = (struct robust){ 0 };
}
