/* The published figures, from public summaries of BACE-Pipe (arXiv 2605.25375). */
#include <math.h>

#include "harness/sim/sim.h"

#define AGAINST_FOUR(text, variant, form, cost, lo, hi) \
	{ text, "lcf", variant, CLAIMS_BACE, CLAIMS_LCF, form, cost, lo, hi, false }, \
	{ text, "ldf", variant, CLAIMS_BACE, CLAIMS_LDF, form, cost, lo, hi, false }, \
	{ text, "cr-lcf", variant, CLAIMS_BACE, CLAIMS_CR_LCF, form, cost, lo, hi, false }, \
	{ text, "cr-ldf", variant, CLAIMS_BACE, CLAIMS_CR_LDF, form, cost, lo, hi, false }

/* advantage = baseline / bace - 1 */
#define ADVANTAGE_OVER_FOUR(text, variant, cost, lo, hi) \
	{ text, "lcf", variant, CLAIMS_LCF, CLAIMS_BACE, FIGURE_EXCESS, cost, lo, hi, false }, \
	{ text, "ldf", variant, CLAIMS_LDF, CLAIMS_BACE, FIGURE_EXCESS, cost, lo, hi, false }, \
	{ text, "cr-lcf", variant, CLAIMS_CR_LCF, CLAIMS_BACE, FIGURE_EXCESS, cost, lo, hi, false }, \
	{ text, "cr-ldf", variant, CLAIMS_CR_LDF, CLAIMS_BACE, FIGURE_EXCESS, cost, lo, hi, false }

#define POINT(text, detail, a, b, cost, value) \
	{ text, detail, CLAIMS_PLAIN, a, b, FIGURE_EXCESS, cost, 0.5 * (value), 1.5 * (value), true }

const struct claims_figure claims_figures[] = {
	AGAINST_FOUR("JCT gain 27.9 to 64.7 %", CLAIMS_PLAIN, FIGURE_GAIN, false, 0.279, 0.647),
	AGAINST_FOUR("cost gain 12.6 to 30.6 %", CLAIMS_PLAIN, FIGURE_GAIN, true, 0.126, 0.306),
	POINT("paradox: JCT +28.8 %", "cr-ldf vs ldf", CLAIMS_CR_LDF, CLAIMS_LDF, false, 0.288),
	POINT("paradox: JCT +13.1 %", "cr-lcf vs lcf", CLAIMS_CR_LCF, CLAIMS_LCF, false, 0.131),
	POINT("ablation: JCT +41.9 %", "no priority", CLAIMS_NO_PRIORITY, CLAIMS_BACE, false, 0.419),
	POINT("ablation: JCT +52.5 %", "no pathfinder", CLAIMS_NO_PATHFINDER, CLAIMS_BACE, false, 0.525),
	POINT("ablation: JCT +4.6 %", "no cost-min", CLAIMS_NO_COST_MIN, CLAIMS_BACE, false, 0.046),
	POINT("ablation: cost +5.0 %", "no priority", CLAIMS_NO_PRIORITY, CLAIMS_BACE, true, 0.05),
	POINT("ablation: cost +20.5 %", "no pathfinder", CLAIMS_NO_PATHFINDER, CLAIMS_BACE, true, 0.205),
	POINT("ablation: cost +13.9 %", "no cost-min", CLAIMS_NO_COST_MIN, CLAIMS_BACE, true, 0.139),
	ADVANTAGE_OVER_FOUR("links x0.3: cost adv. 29.2 to 34.9 %", CLAIMS_LINKS_03, true, 0.292, 0.349),
	ADVANTAGE_OVER_FOUR("links x1.5: JCT adv. 42.9 to 240.3 %", CLAIMS_LINKS_15, false, 0.429, 2.403),
	AGAINST_FOUR("GPUs x0.5: JCT gain 32.2 to 69.9 %", CLAIMS_GPUS_05, FIGURE_GAIN, false, 0.322, 0.699),
	ADVANTAGE_OVER_FOUR("GPUs x1.25: JCT adv. 5.5 to 20.7 %", CLAIMS_GPUS_125, false, 0.055, 0.207),
	ADVANTAGE_OVER_FOUR("GPUs x1.25: cost adv. 0.2 to 9.4 %", CLAIMS_GPUS_125, true, 0.002, 0.094),
	ADVANTAGE_OVER_FOUR("24 jobs: JCT adv. 9.7 to 23.3 %", CLAIMS_JOBS_24, false, 0.097, 0.233),
	ADVANTAGE_OVER_FOUR("24 jobs: cost adv. about 1 %", CLAIMS_JOBS_24, true, 0.005, 0.015),
};

const int n_claims_figures = ARRAY_LEN(claims_figures);

static double compare(const struct claims_figure *f, double a, double b)
{
	return f->form == FIGURE_GAIN ? 1 - a / b : a / b - 1;
}

double claims_value(const struct claims_figure *f, const struct claims_scenario *s, enum claims_arm arm)
{
	const struct claims_score *a = &s->score[arm][f->variant][f->a];
	const struct claims_score *b = &s->score[arm][f->variant][f->b];

	return f->cost ? compare(f, a->cost_usd, b->cost_usd) : compare(f, a->jct_s, b->jct_s);
}

double claims_median_value(const struct claims_figure *f, const struct claims_scenario *s,
			   enum claims_arm arm)
{
	const struct claims_score *a = &s->score[arm][f->variant][f->a];
	const struct claims_score *b = &s->score[arm][f->variant][f->b];

	return f->cost ? NAN : compare(f, a->median_jct_s, b->median_jct_s);
}

const char *const claims_choice_name[CLAIMS_CHOICES] = {
	[CHOICE_START] = "start", [CHOICE_K_LIMIT] = "k_limit", [CHOICE_ORACLE] = "step times",
	[CHOICE_FLOPS] = "flops_eff", [CHOICE_M] = "m", [CHOICE_ARRIVALS] = "arrivals",
	[CHOICE_ALPHA] = "alpha",
};

const char *const claims_level_name[CLAIMS_CHOICES][CLAIMS_LEVELS] = {
	[CHOICE_START] = { "k_min", "k_star" },
	[CHOICE_K_LIMIT] = { "layers", "512" },
	[CHOICE_ORACLE] = { "closed-form", "1f1b", "eager-1f1b" },
	[CHOICE_FLOPS] = { "60e12", "100e12", "180e12", "310e12" },
	[CHOICE_M] = { "16", "64", "256", "1024" },
	[CHOICE_ARRIVALS] = { "all at 0", "Poisson" },
	[CHOICE_ALPHA] = { "view", "0", "0.5", "1" },
};

int claims_levels(enum claims_choice c)
{
	int n = 0;

	while (n < CLAIMS_LEVELS && claims_level_name[c][n])
		n++;
	return n;
}

const char *const claims_input_name[CLAIMS_INPUTS] = {
	[INPUT_START] = "start = k_star", [INPUT_K_LIMIT] = "k_limit above layers",
	[INPUT_EVENT_SIM] = "event simulation", [INPUT_EAGER] = "eager over plain 1f1b",
	[INPUT_FLOPS] = "flops_eff", [INPUT_M] = "m", [INPUT_POISSON] = "Poisson arrivals",
	[INPUT_ALPHA] = "alpha constant", [INPUT_GPUS] = "GPUs in all",
	[INPUT_LARGEST] = "GPUs of the largest region", [INPUT_BANDWIDTH] = "mean bandwidth",
	[INPUT_PRICE_SPREAD] = "spread of price x PUE",
	[INPUT_LARGEST_PRICE] = "price x PUE of the largest region",
	[INPUT_LONG_JOBS] = "jobs on the largest data set", [INPUT_LONGEST_SHARE] = "longest job's share of work",
};
