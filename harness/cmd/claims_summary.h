/* What `bace claims` says of its scenarios: distributions, shares, drivers. */
#ifndef BACE_CMD_CLAIMS_SUMMARY_H
#define BACE_CMD_CLAIMS_SUMMARY_H

#include "harness/sim/sim.h"

struct spread {
	int n, undefined;		/* undefined: a policy never placed some job */
	double q05, q50, q95;
	double mean, lo, hi;		/* 95 % bootstrap interval of the mean */
	double of_sums;			/* the figure of the sums over scenarios ("ratio of means") */
	double median_jct;		/* mean over scenarios of the figure of the median JCT */
	double direction, within;	/* shares of n */
};

struct figure_summary {
	struct spread arm[CLAIMS_ARMS];
	/* swept arm, scenarios at one level of one choice */
	double level_direction[CLAIMS_CHOICES][CLAIMS_LEVELS];
	double level_within[CLAIMS_CHOICES][CLAIMS_LEVELS];
	double rho[CLAIMS_INPUTS];	/* rank correlation with the figure, swept arm */
	int driver[3];			/* inputs by |rho|, -1: none */
};

/* holds: with one of the start rules, every row's median is in the published
 * range and at least 3/4 of the scenarios have its direction. In part: some
 * row's. Direction only: every median has it. */
enum verdict { VERDICT_HOLDS, VERDICT_PARTLY, VERDICT_DIRECTION, VERDICT_NOT_SEEN };
extern const char *const verdict_text[];

/* Figures with one published text (one per baseline or ablation) are a group. */
struct group {
	int first, n;
	enum verdict verdict;
	/* The two levels of two choices under which it is in range most often. */
	int best_choice[2], best_level[2];
	double best_within;
	double level_direction[CLAIMS_CHOICES][CLAIMS_LEVELS];	/* mean over the group */
	double level_within[CLAIMS_CHOICES][CLAIMS_LEVELS];
};

struct summary {
	const struct claims *claims;
	struct figure_summary *figures;
	struct group *groups;
	int n_groups;
	double redraw_share, choice_redraw_share;	/* of all draws */
};

int summary_build(const struct claims *c, struct summary *out, struct bace_err *err);
void summary_free(struct summary *s);
bool summary_all_hold(const struct summary *s);

extern const char *const claims_arm_name[CLAIMS_ARMS];

void claims_print(const struct summary *s, FILE *to);
int claims_print_json(const struct summary *s, FILE *to, struct bace_err *err);
/* One self-contained page. */
int claims_write_html(const struct summary *s, const char *path, struct bace_err *err);

/* All figures into the store, as a run of their own, whose id is returned. */
struct store;
int claims_keep(struct store *s, const char *command, const struct experiment *base, const struct summary *sum,
		char id[32], struct bace_err *err);

#endif
