#include "harness/cmd/claims_summary.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/results.h"

#define RESAMPLES 1000
#define LEVEL 0.95
#define DIRECTION_SHARE 0.75
#define PAIR_MIN 20		/* scenarios that a pair of levels needs to be named */

const char *const claims_arm_name[CLAIMS_ARMS] = { "k_min", "k_star", "swept" };

const char *const verdict_text[] = {
	[VERDICT_HOLDS] = "holds", [VERDICT_PARTLY] = "holds in part",
	[VERDICT_DIRECTION] = "direction only", [VERDICT_NOT_SEEN] = "not seen",
};

static bool is_within(const struct claims_figure *f, double v)
{
	return v >= f->lo && v <= f->hi;
}

/* 1 - sum a / sum b, or sum a / sum b - 1, over scenarios in which both are defined. */
static double of_sums(const struct claims *c, const struct claims_figure *f, enum claims_arm arm)
{
	double a = 0, b = 0;

	for (int i = 0; i < c->n; i++) {
		const struct claims_score *x = &c->scenarios[i].score[arm][f->variant][f->a];
		const struct claims_score *y = &c->scenarios[i].score[arm][f->variant][f->b];

		if (isnan(x->jct_s) || isnan(y->jct_s))
			continue;
		a += f->cost ? x->cost_usd : x->jct_s;
		b += f->cost ? y->cost_usd : y->jct_s;
	}
	return f->form == FIGURE_GAIN ? 1 - a / b : a / b - 1;
}

static void spread(const struct claims *c, const struct claims_figure *f, enum claims_arm arm, double *v,
		   struct spread *out)
{
	size_t n = 0, n_median = 0;
	double median_sum = 0;
	int direction = 0, within = 0;

	for (int i = 0; i < c->n; i++) {
		double x = claims_value(f, &c->scenarios[i], arm);
		double m = claims_median_value(f, &c->scenarios[i], arm);

		if (!isnan(m)) {
			median_sum += m;
			n_median++;
		}
		if (isnan(x))
			continue;
		direction += x > 0;
		within += is_within(f, x);
		v[n++] = x;
	}
	*out = (struct spread){ .n = (int)n, .undefined = c->n - (int)n, .q05 = stats_quantile(v, n, 0.05),
		.q50 = stats_quantile(v, n, 0.5), .q95 = stats_quantile(v, n, 0.95),
		.mean = n ? stats_mean(v, n) : NAN, .lo = NAN, .hi = NAN, .of_sums = of_sums(c, f, arm),
		.median_jct = n_median ? median_sum / (double)n_median : NAN,
		.direction = n ? direction / (double)n : NAN, .within = n ? within / (double)n : NAN };
	if (n > 1)
		stats_bootstrap(v, n, stats_mean, RESAMPLES, LEVEL, c->seed, &out->lo, &out->hi);
}

static void by_level(const struct claims *c, const struct claims_figure *f, struct figure_summary *out)
{
	for (int choice = 0; choice < CLAIMS_CHOICES; choice++) {
		for (int level = 0; level < CLAIMS_LEVELS; level++) {
			int n = 0, direction = 0, within = 0;

			for (int i = 0; i < c->n; i++) {
				double x = claims_value(f, &c->scenarios[i], CLAIMS_SWEPT);

				if (c->scenarios[i].choice[choice] != level || isnan(x))
					continue;
				n++;
				direction += x > 0;
				within += is_within(f, x);
			}
			out->level_direction[choice][level] = n ? direction / (double)n : NAN;
			out->level_within[choice][level] = n ? within / (double)n : NAN;
		}
	}
}

/* The three inputs that go with the figure most, by |rho|. */
static void rank_drivers(struct figure_summary *f)
{
	bool taken[CLAIMS_INPUTS] = { false };

	for (int k = 0; k < 3; k++) {
		f->driver[k] = -1;
		for (int i = 0; i < CLAIMS_INPUTS; i++)
			if (!taken[i] && !isnan(f->rho[i]) &&
			    (f->driver[k] < 0 || fabs(f->rho[i]) > fabs(f->rho[f->driver[k]])))
				f->driver[k] = i;
		if (f->driver[k] >= 0)
			taken[f->driver[k]] = true;
	}
}

static void correlate(const struct claims *c, const struct claims_figure *f, double *x, double *y,
		      struct figure_summary *out)
{
	for (int i = 0; i < c->n; i++)
		y[i] = claims_value(f, &c->scenarios[i], CLAIMS_SWEPT);
	for (int input = 0; input < CLAIMS_INPUTS; input++) {
		for (int i = 0; i < c->n; i++)
			x[i] = c->scenarios[i].input[input];
		out->rho[input] = rank_correlation(x, y, c->n);
	}
	rank_drivers(out);
}

static enum verdict judge(const struct summary *s, const struct group *g)
{
	enum verdict best = VERDICT_NOT_SEEN;

	for (int arm = CLAIMS_K_MIN; arm <= CLAIMS_K_STAR; arm++) {
		int within = 0, positive = 0;

		for (int i = g->first; i < g->first + g->n; i++) {
			const struct spread *p = &s->figures[i].arm[arm];

			within += is_within(&claims_figures[i], p->q50) && p->direction >= DIRECTION_SHARE;
			positive += p->q50 > 0;
		}
		enum verdict v = within == g->n ? VERDICT_HOLDS : within ? VERDICT_PARTLY :
				 positive == g->n ? VERDICT_DIRECTION : VERDICT_NOT_SEEN;
		if (v < best)
			best = v;
	}
	return best;
}

static double mean_over(const struct summary *s, const struct group *g, bool within, int choice, int level)
{
	double sum = 0;
	int n = 0;

	for (int i = g->first; i < g->first + g->n; i++) {
		const struct figure_summary *f = &s->figures[i];
		double v = within ? f->level_within[choice][level] : f->level_direction[choice][level];

		if (isnan(v))
			continue;
		sum += v;
		n++;
	}
	return n ? sum / n : NAN;
}

static double pair_within(const struct summary *s, const struct group *g, const int *choice,
			  const int *level)
{
	int n = 0, within = 0;

	for (int i = 0; i < s->claims->n; i++) {
		const struct claims_scenario *c = &s->claims->scenarios[i];

		if (c->choice[choice[0]] != level[0] || c->choice[choice[1]] != level[1])
			continue;
		for (int f = g->first; f < g->first + g->n; f++) {
			double v = claims_value(&claims_figures[f], c, CLAIMS_SWEPT);

			n += !isnan(v);
			within += is_within(&claims_figures[f], v);
		}
	}
	return n < PAIR_MIN * g->n ? NAN : within / (double)n;
}

static void find_best_pair(const struct summary *s, struct group *g)
{
	g->best_within = NAN;
	for (int a = 0; a < CLAIMS_CHOICES; a++)
		for (int b = a + 1; b < CLAIMS_CHOICES; b++)
			for (int x = 0; x < claims_levels((enum claims_choice)a); x++)
				for (int y = 0; y < claims_levels((enum claims_choice)b); y++) {
					const int choice[2] = { a, b }, level[2] = { x, y };
					double v = pair_within(s, g, choice, level);

					if (isnan(v) || v <= g->best_within)
						continue;
					g->best_within = v;
					memcpy(g->best_choice, choice, sizeof(choice));
					memcpy(g->best_level, level, sizeof(level));
				}
}

static void make_groups(struct summary *s)
{
	for (int i = 0; i < n_claims_figures; i++) {
		struct group *g = s->n_groups ? &s->groups[s->n_groups - 1] : NULL;

		if (g && !strcmp(claims_figures[g->first].text, claims_figures[i].text))
			g->n++;
		else
			s->groups[s->n_groups++] = (struct group){ .first = i, .n = 1 };
	}
	for (int i = 0; i < s->n_groups; i++) {
		struct group *g = &s->groups[i];

		g->verdict = judge(s, g);
		find_best_pair(s, g);
		for (int c = 0; c < CLAIMS_CHOICES; c++)
			for (int l = 0; l < CLAIMS_LEVELS; l++) {
				g->level_direction[c][l] = mean_over(s, g, false, c, l);
				g->level_within[c][l] = mean_over(s, g, true, c, l);
			}
	}
}

int summary_build(const struct claims *c, struct summary *out, struct bace_err *err)
{
	CLEANUP_FREE double *x = calloc((size_t)c->n + 1, sizeof(*x));
	CLEANUP_FREE double *y = calloc((size_t)c->n + 1, sizeof(*y));
	double redraws = 0, choice_redraws = 0;

	*out = (struct summary){ .claims = c };
	out->figures = calloc((size_t)n_claims_figures, sizeof(*out->figures));
	out->groups = calloc((size_t)n_claims_figures, sizeof(*out->groups));
	if (!x || !y || !out->figures || !out->groups) {
		summary_free(out);
		return bace_fail(err, ENOMEM, "summary of %d scenarios: out of memory", c->n);
	}
	for (int i = 0; i < n_claims_figures; i++) {
		for (int arm = 0; arm < CLAIMS_ARMS; arm++)
			spread(c, &claims_figures[i], (enum claims_arm)arm, x, &out->figures[i].arm[arm]);
		by_level(c, &claims_figures[i], &out->figures[i]);
		correlate(c, &claims_figures[i], x, y, &out->figures[i]);
	}
	make_groups(out);
	for (int i = 0; i < c->n; i++) {
		redraws += c->scenarios[i].redraws;
		choice_redraws += c->scenarios[i].choice_redraws;
	}
	out->redraw_share = redraws / (redraws + c->n);
	out->choice_redraw_share = choice_redraws / (choice_redraws + c->n);
	return 0;
}

void summary_free(struct summary *s)
{
	free(s->figures);
	free(s->groups);
	*s = (struct summary){ 0 };
}

bool summary_all_hold(const struct summary *s)
{
	for (int i = 0; i < s->n_groups; i++)
		if (s->groups[i].verdict != VERDICT_HOLDS)
			return false;
	return true;
}
