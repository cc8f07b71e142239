#include <errno.h>
#include <math.h>

#include "common/json.h"
#include "harness/cmd/claims_summary.h"

/* ---- text ---- */

static void percent(FILE *to, int width, double v)
{
	if (isnan(v))
		fprintf(to, " %*s", width, "-");
	else
		fprintf(to, " %+*.1f", width, 100 * v);
}

static void share(FILE *to, int width, double v)
{
	if (isnan(v))
		fprintf(to, " %*s", width, "-");
	else
		fprintf(to, " %*.0f", width, 100 * v);
}

static void print_spread(const char *detail, const char *arm, const struct spread *s, FILE *to)
{
	char interval[48] = "-";

	fprintf(to, "  %-14s %-7s", detail, arm);
	percent(to, 7, s->q05);
	percent(to, 7, s->q50);
	percent(to, 7, s->q95);
	percent(to, 8, s->mean);
	if (!isnan(s->lo))
		snprintf(interval, sizeof(interval), "[%+.1f, %+.1f]", 100 * s->lo, 100 * s->hi);
	fprintf(to, " %-16s", interval);
	percent(to, 8, s->of_sums);
	percent(to, 8, s->median_jct);
	share(to, 6, s->direction);
	share(to, 6, s->within);
	fprintf(to, " %5d\n", s->n);
}

static void print_drivers(const struct figure_summary *f, FILE *to)
{
	fprintf(to, "  %-22s goes with", "");
	for (int k = 0; k < 3; k++)
		if (f->driver[k] >= 0)
			fprintf(to, "%s %s (%+.2f)", k ? "," : "", claims_input_name[f->driver[k]],
				f->rho[f->driver[k]]);
	fputc('\n', to);
}

static void print_group(const struct summary *s, const struct group *g, FILE *to)
{
	const struct claims_figure *f = &claims_figures[g->first];

	fprintf(to, "\n%s%s: %s\n", f->text, f->point ? " (in range: half to one and a half times)" : "",
		verdict_text[g->verdict]);
	for (int i = g->first; i < g->first + g->n; i++) {
		for (int arm = 0; arm < CLAIMS_ARMS; arm++)
			print_spread(arm ? "" : claims_figures[i].detail, claims_arm_name[arm],
				     &s->figures[i].arm[arm], to);
		print_drivers(&s->figures[i], to);
	}
	if (!isnan(g->best_within))
		fprintf(to, "  in range most often with %s = %s and %s = %s: %.0f %%\n",
			claims_choice_name[g->best_choice[0]],
			claims_level_name[g->best_choice[0]][g->best_level[0]],
			claims_choice_name[g->best_choice[1]],
			claims_level_name[g->best_choice[1]][g->best_level[1]], 100 * g->best_within);
}

void claims_print(const struct summary *s, FILE *to)
{
	fprintf(to, "%d scenarios, first seed %llu; draws in which a job fitted nowhere, and drawn again: %.1f %% of "
		"scenarios, %.1f %% of choices\n", s->claims->n, (unsigned long long)s->claims->seed,
		100 * s->redraw_share, 100 * s->choice_redraw_share);
	fprintf(to, "k_min, k_star: the default choices (closed form, stages up to the layers, 60e12 FLOP/s, "
		"m = 64, all at 0) with either\nstart rule. swept: the open choices drawn too. gain = 1 - bace/"
		"baseline; adv. = baseline/bace - 1; ablation = variant/bace - 1;\nof the JCT summed over a "
		"scenario's jobs. All in %%; n: scenarios in which both policies placed every job.\n\n");
	fprintf(to, "  %-14s %-7s %7s %7s %7s %8s %-16s %8s %8s %6s %6s %5s\n", "", "", "5 %", "50 %", "95 %", "mean",
		" 95 % interval", "of sums", "med. JCT", "dir.", "range", "n");
	for (int i = 0; i < s->n_groups; i++)
		print_group(s, &s->groups[i], to);
	fprintf(to, "\n`holds': with one of the start rules, every row's median is in the published range and at least "
		"3/4 of the scenarios\nhave its direction; `in part': some row's; `direction only': every median "
		"has it. goes with: rank correlation (Spearman)\nover the swept scenarios; most often: of all pairs "
		"of levels of two choices, swept. -o FILE.html has every level.\n");
}

/* ---- JSON ---- */

static json_t *spread_json(const struct spread *s)
{
	return json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "n", s->n,
			 "undefined", s->undefined, "q05", json_number(s->q05), "q50", json_number(s->q50), "q95",
			 json_number(s->q95), "mean", json_number(s->mean), "mean_lo", json_number(s->lo), "mean_hi",
			 json_number(s->hi), "of_sums", json_number(s->of_sums), "median_jct", json_number(s->median_jct),
			 "direction_share", json_number(s->direction), "within_share", json_number(s->within));
}

static json_t *levels_json(const double direction[CLAIMS_CHOICES][CLAIMS_LEVELS],
			   const double within[CLAIMS_CHOICES][CLAIMS_LEVELS])
{
	json_t *all = json_object();

	for (int c = 0; c < CLAIMS_CHOICES; c++) {
		json_t *o = json_object();

		for (int l = 0; l < claims_levels((enum claims_choice)c); l++)
			json_object_set_new(o, claims_level_name[c][l], json_pack("{s:o, s:o}",
				"direction_share", json_number(direction[c][l]), "within_share",
				json_number(within[c][l])));
		json_object_set_new(all, claims_choice_name[c], o);
	}
	return all;
}

static json_t *figure_json(const struct summary *s, int i)
{
	const struct claims_figure *f = &claims_figures[i];
	const struct figure_summary *r = &s->figures[i];
	json_t *arms = json_object(), *rho = json_object();

	for (int arm = 0; arm < CLAIMS_ARMS; arm++)
		json_object_set_new(arms, claims_arm_name[arm], spread_json(&r->arm[arm]));
	for (int input = 0; input < CLAIMS_INPUTS; input++)
		json_object_set_new(rho, claims_input_name[input], json_number(r->rho[input]));
	return json_pack("{s:s, s:s, s:f, s:f, s:b, s:o, s:o, s:o}", "figure", f->text, "detail", f->detail, "lo",
			 f->lo, "hi", f->hi, "point", f->point, "arms", arms, "rank_correlation", rho, "levels",
			 levels_json(r->level_direction, r->level_within));
}

static json_t *group_json(const struct group *g)
{
	json_t *best = isnan(g->best_within) ? json_null() : json_pack("{s:s, s:s, s:f}",
		claims_choice_name[g->best_choice[0]], claims_level_name[g->best_choice[0]][g->best_level[0]],
		claims_choice_name[g->best_choice[1]], claims_level_name[g->best_choice[1]][g->best_level[1]],
		"within_share", g->best_within);

	return json_pack("{s:s, s:s, s:o}", "figure", claims_figures[g->first].text, "verdict",
			 verdict_text[g->verdict], "most_often", best);
}

int claims_print_json(const struct summary *s, FILE *to, struct bace_err *err)
{
	json_t *figures = json_array(), *verdicts = json_array(), *j;
	char seed[24];
	int rc;

	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)s->claims->seed);
	for (int i = 0; i < n_claims_figures; i++)
		json_array_append_new(figures, figure_json(s, i));
	for (int i = 0; i < s->n_groups; i++)
		json_array_append_new(verdicts, group_json(&s->groups[i]));
	j = json_pack("{s:i, s:s, s:f, s:f, s:o, s:o}", "scenarios", s->claims->n, "seed", seed, "redraw_share",
		      s->redraw_share, "choice_redraw_share", s->choice_redraw_share, "verdicts", verdicts,
		      "figures", figures);
	if (!j)
		return bace_fail(err, ENOMEM, "the figures: out of memory");
	rc = json_dumpf(j, to, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
	json_decref(j);
	fputc('\n', to);
	return rc ? bace_fail(err, EIO, "write the figures") : 0;
}
