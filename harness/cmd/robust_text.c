#include <math.h>
#include <string.h>

#include "harness/cmd/robust.h"

/* ---- small pieces ---- */

static const char *baseline(const struct robust *r, int pair)
{
	return r->exp->policies[r->pairs[pair].baseline].label;
}

static void world_line(const struct robust *r, int w, FILE *to)
{
	fprintf(to, "%s, links %s, prices %s\n", robust_regime_name[r->worlds[w].regime],
		robust_links_name[r->worlds[w].links], robust_prices_name[r->worlds[w].prices]);
}

static void percent(FILE *to, int width, double v)
{
	if (isnan(v))
		fprintf(to, " %*s", width, "-");
	else
		fprintf(to, " %+*.1f", width, 100 * v);
}

static void interval(FILE *to, int width, double lo, double hi)
{
	char text[48] = "-";

	if (!isnan(lo))
		snprintf(text, sizeof(text), "[%+.1f, %+.1f]", 100 * lo, 100 * hi);
	fprintf(to, " %-*s", width, text);
}

/* ---- counts ---- */

struct tally {
	int of[3];
	int n;
};

static void count(struct tally *t, enum robust_verdict v)
{
	t->of[v]++;
	t->n++;
}

static void print_tally(const struct tally *t, FILE *to)
{
	fprintf(to, "%d hold, %d undecided, %d fail, of %d", t->of[ROBUST_HOLDS], t->of[ROBUST_UNDECIDED],
		t->of[ROBUST_FAILS], t->n);
}

/* Delay of 5 to 20 ms and noise of 10 to 30 %, uniform, additive, independent. */
static bool published(const struct robust_view *v)
{
	return !v->gaussian && !v->multiplicative && !v->correlated && v->bias == 0 &&
	       v->delay_s >= 0.005 && v->delay_s <= 0.02 && v->noise >= 0.0999 && v->noise <= 0.3001;
}

static bool any_view(const struct robust_view *v)
{
	return true;
}

static struct tally tally(const struct robust_judgement *j, bool (*which)(const struct robust_view *))
{
	const struct robust *r = j->r;
	struct tally t = { 0 };

	for (int w = 0; w < r->n_worlds; w++)
		for (int v = 0; v < r->n_views; v++)
			for (int p = 0; p < r->n_pairs; p++)
				if (robust_has(r, w, v) && which(&r->views[v]))
					count(&t, robust_cell_at(j, w, v, p)->verdict);
	return t;
}

/* How often the verdict is another than under the exact view. */
static int changed(const struct robust_judgement *j, bool (*which)(const struct robust_view *))
{
	const struct robust *r = j->r;
	int n = 0;

	for (int w = 0; w < r->n_worlds; w++)
		for (int v = 1; v < r->n_views; v++)
			for (int p = 0; p < r->n_pairs; p++)
				n += robust_has(r, w, v) && which(&r->views[v]) &&
				     robust_cell_at(j, w, v, p)->verdict != robust_cell_at(j, w, 0, p)->verdict;
	return n;
}

/* The published view that is furthest from exact; 0: there is none. */
static int corner(const struct robust *r)
{
	int at = 0;

	for (int v = 0; v < r->n_views; v++) {
		const struct robust_view *a = &r->views[v], *b = &r->views[at];

		if (published(a) && (!at || a->noise > b->noise || (a->noise == b->noise && a->delay_s > b->delay_s)))
			at = v;
	}
	return at;
}

/* ---- the head ---- */

static void print_head(const struct robust *r, FILE *to)
{
	const struct robust_options *o = &r->o;
	char hold[BACE_FMT_MAX], period[BACE_FMT_MAX];

	fprintf(to, "%s: %d jobs, %d seeds from %llu, %s, step times by %s, %lld simulations\n", r->exp->name,
		r->exp->n_jobs, o->n_seeds, (unsigned long long)r->exp->seed,
		o->drawn ? "GPUs, bandwidths, prices and data sets drawn" : "the experiment's cluster",
		o->event_sim ? "event-sim" : "closed-form", (long long)r->n_simulated);
	if (o->load > 0)
		fprintf(to, "Poisson arrivals at load %g; ", o->load);
	fprintf(to, "links bind: %.0f TFLOP/s, bandwidth x%g; slow links change every %s; noise is redrawn every %s\n",
		o->binding_flops / 1e12, o->binding_bandwidth, bace_fmt_time(hold, o->hold_s),
		bace_fmt_time(period, o->period_s));
	if (o->drawn)
		fprintf(to, "%d draws in which a job fitted nowhere were drawn again\n", r->redraws);
	fprintf(to, "gain = 1 - %s/baseline of the JCT summed over a seed's jobs, and of the cost; in %%, mean over seeds with\n"
		"95 %% bootstrap interval. HOLDS: both lower ends reach the thresholds (%g %% JCT, %g %% cost); FAILS: an\n"
		"upper end is below its own; UNDECIDED: between. n: seeds in which both policies placed every job.\n",
		r->exp->policies[r->pairs[0].subject].label, 100 * o->jct_threshold, 100 * o->cost_threshold);
}

/* ---- tables ---- */

static void print_clean(const struct robust_judgement *j, FILE *to)
{
	const struct robust *r = j->r;

	fprintf(to, "\nWith an exact view\n\n  %-16s %7s %-18s %7s %7s %7s %-18s %4s  %s\n", "against", "JCT", "95 %",
		"of sums", "median", "cost", "95 %", "n", "verdict");
	for (int w = 0; w < r->n_worlds; w++) {
		world_line(r, w, to);
		for (int p = 0; p < r->n_pairs; p++) {
			const struct robust_cell *c = robust_cell_at(j, w, 0, p);
			const struct robust_gain *t = &c->gain[ROBUST_JCT], *k = &c->gain[ROBUST_COST];

			fprintf(to, "  %-16s", baseline(r, p));
			percent(to, 7, t->mean);
			interval(to, 18, t->lo, t->hi);
			percent(to, 7, t->of_sums);
			percent(to, 7, t->median_jct);
			percent(to, 7, k->mean);
			interval(to, 18, k->lo, k->hi);
			fprintf(to, " %4d  %s\n", t->n, robust_verdict_name[c->verdict]);
		}
	}
}

static void print_change(const struct robust_gain *g, FILE *to)
{
	percent(to, 7, g->mean);
	percent(to, 7, g->change);
	interval(to, 16, g->change_lo, g->change_hi);
	if (isnan(g->retention))
		fprintf(to, " %5s", "-");
	else
		fprintf(to, " %5.0f", 100 * g->retention);
}

static void print_corner(const struct robust_judgement *j, FILE *to)
{
	const struct robust *r = j->r;
	int v = corner(r);
	char delay[BACE_FMT_MAX];

	if (!v)
		return;
	fprintf(to, "\nView %s late, noise %.0f %% (uniform, additive, independent); change against the exact view in points,\n"
		"retention (noisy / exact, where the exact gain is above 0) in %%\n\n"
		"  %-16s %7s %7s %-16s %5s %7s %7s %-16s %5s  %s\n", bace_fmt_time(delay, r->views[v].delay_s),
		100 * r->views[v].noise, "against", "JCT", "change", "95 %", "ret.", "cost", "change", "95 %", "ret.",
		"verdict");
	for (int w = 0; w < r->n_worlds; w++) {
		world_line(r, w, to);
		for (int p = 0; p < r->n_pairs; p++) {
			const struct robust_cell *c = robust_cell_at(j, w, v, p);

			fprintf(to, "  %-16s", baseline(r, p));
			print_change(&c->gain[ROBUST_JCT], to);
			print_change(&c->gain[ROBUST_COST], to);
			fprintf(to, "  %s\n", robust_verdict_name[c->verdict]);
		}
	}
}

static void point(char *text, size_t cap, enum robust_axis a, double at)
{
	char buf[BACE_FMT_MAX];

	if (isinf(at))
		snprintf(text, cap, "beyond");
	else if (a == AXIS_NOISE)
		snprintf(text, cap, "%.1f %%", 100 * at);
	else
		snprintf(text, cap, "%s", bace_fmt_time(buf, at));
}

static void print_even(const struct robust_break_even *b, enum robust_axis a, FILE *to)
{
	char text[128], at[32], lo[32], hi[32];

	point(at, sizeof(at), a, b->at);
	point(lo, sizeof(lo), a, b->lo);
	point(hi, sizeof(hi), a, b->hi);
	if (b->kind == BREAK_UNDEFINED)
		snprintf(text, sizeof(text), "-");
	else if (b->kind == BREAK_ALREADY)
		snprintf(text, sizeof(text), "below at once");
	else if (b->kind == BREAK_NEVER && isinf(b->lo))
		snprintf(text, sizeof(text), "none");
	else
		snprintf(text, sizeof(text), "%s [%s, %s]", at, lo, hi);
	fprintf(to, " %-28s", text);
}

/* Only where there is one, or might be. */
static bool crosses(const struct robust_break_even *b)
{
	return b->kind == BREAK_AT || (b->kind == BREAK_NEVER && !isinf(b->lo));
}

static bool worth_a_row(const struct robust_judgement *j, int w, int p)
{
	for (int m = 0; m < ROBUST_METRICS; m++)
		for (int a = 0; a < ROBUST_AXES; a++)
			if (crosses(robust_even_at(j, w, p, (enum robust_metric)m, (enum robust_axis)a)))
				return true;
	return false;
}

static void print_evens(const struct robust_judgement *j, FILE *to)
{
	const struct robust *r = j->r;
	int left = 0;

	fprintf(to, "\nBreak-even: where a gain falls below its threshold with growing noise (no delay) or delay (no noise),\n"
		"between grid points by straight lines; `beyond': not on the axis\n\n  %-16s %-28s %-28s %-28s %-28s\n",
		"against", "JCT, noise", "JCT, delay", "cost, noise", "cost, delay");
	for (int w = 0; w < r->n_worlds; w++) {
		bool said = false;

		for (int p = 0; p < r->n_pairs; p++) {
			if (!worth_a_row(j, w, p)) {
				left++;
				continue;
			}
			if (!said)
				world_line(r, w, to);
			said = true;
			fprintf(to, "  %-16s", baseline(r, p));
			for (int m = 0; m < ROBUST_METRICS; m++)
				for (int a = 0; a < ROBUST_AXES; a++)
					print_even(robust_even_at(j, w, p, (enum robust_metric)m, (enum robust_axis)a),
						   (enum robust_axis)a, to);
			fputc('\n', to);
		}
	}
	fprintf(to, "left out: %d of %d rows in which no gain crosses its threshold on either axis\n", left,
		r->n_worlds * r->n_pairs);
}

/* ---- what matters: change of the gain over worlds and baselines ---- */

static void print_effect(const struct robust_judgement *j, const char *name, int view, FILE *to)
{
	const struct robust *r = j->r;

	fprintf(to, "  %-40s", name);
	for (int g = 0; g < ROBUST_REGIMES; g++) {
		for (int m = 0; m < ROBUST_METRICS; m++) {
			double sum = 0, worst = 0;
			int n = 0;

			for (int w = 0; w < r->n_worlds; w++) {
				for (int p = 0; p < r->n_pairs; p++) {
					double d = robust_cell_at(j, w, view, p)->gain[m].change;

					if (r->worlds[w].regime != (enum robust_regime)g || !robust_has(r, w, view) ||
					    isnan(d))
						continue;
					sum += d;
					worst = fmin(worst, d);
					n++;
				}
			}
			percent(to, 7, n ? sum / n : NAN);
			percent(to, 7, n ? worst : NAN);
		}
	}
	fputc('\n', to);
}

static void name_view(const struct robust_view *v, char *name, size_t cap)
{
	char kind[48], delay[BACE_FMT_MAX];

	if (v->bias != 0)
		snprintf(name, cap, "bias %+.0f %%", 100 * v->bias);
	else if (v->noise == 0)
		snprintf(name, cap, "%s late", bace_fmt_time(delay, v->delay_s));
	else
		snprintf(name, cap, "%.0f %% %s", 100 * v->noise, robust_kind(v, kind));
}

static void print_effects(const struct robust_judgement *j, FILE *to)
{
	const struct robust *r = j->r;
	char name[96];

	fprintf(to, "\nWhat matters: change of the gain in points, mean over worlds and baselines, and the worst\n\n"
		"  %-40s %31s %31s\n  %-40s", "", robust_regime_name[0], robust_regime_name[1], "");
	for (int g = 0; g < ROBUST_REGIMES; g++)
		fprintf(to, " %7s %7s %7s %7s", "JCT", "worst", "cost", "worst");
	fputc('\n', to);
	for (int v = 1; v < r->n_views; v++) {
		const struct robust_view *x = &r->views[v];

		if (x->noise != 0 && x->delay_s != 0)
			continue;
		name_view(x, name, sizeof(name));
		print_effect(j, name, v, to);
	}
}

/* ---- the whole ---- */

static void print_verdicts(const struct robust_judgement *j, FILE *to)
{
	const struct robust *r = j->r;
	struct tally exact = { 0 }, late = tally(j, published), all = tally(j, any_view);

	for (int w = 0; w < r->n_worlds; w++)
		for (int p = 0; p < r->n_pairs; p++)
			count(&exact, robust_cell_at(j, w, 0, p)->verdict);
	fputs("\nExact view, before any noise: ", to);
	print_tally(&exact, to);
	fprintf(to, " (worlds x baselines).%s\n", exact.of[ROBUST_HOLDS] == exact.n ? "" :
		" Where the gains do not hold\nexactly, no view can be blamed.");
	if (late.n) {
		fputs("5 to 20 ms late with 10 to 30 % noise: ", to);
		print_tally(&late, to);
		fprintf(to, "; %d verdicts differ from the exact view's.\n", changed(j, published));
	}
	fputs("All views: ", to);
	print_tally(&all, to);
	fprintf(to, "; %d verdicts differ from the exact view's.\n", changed(j, any_view));
}

void robust_print(const struct robust_judgement *j, FILE *to)
{
	print_head(j->r, to);
	print_verdicts(j, to);
	print_clean(j, to);
	print_corner(j, to);
	print_evens(j, to);
	print_effects(j, to);
}
