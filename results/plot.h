/* Private to results: plots, as SVG text by gnuplot. */
#ifndef BACE_RESULTS_PLOT_H
#define BACE_RESULTS_PLOT_H

#include "results/store.h"

#define PLOT_SERIES_MAX 8

struct plot {
	struct bace_buf script;
	int width, height;	/* of the drawing, in its own units */
	int left_out;		/* series for which there was no colour any more */
};

/* Starts a script: terminal, borders, grid, line types 1..PLOT_SERIES_MAX, one
 * for each series. */
void plot_begin(struct plot *p, int width, int height);
/* Appends text as a gnuplot string literal that is shown as it is. */
void plot_text(struct plot *p, const char *text);
/* Filled and hollow point type of a series: told apart without colour too. */
int plot_point(int series, bool filled);
/* Runs gnuplot and frees the script. *svg is malloc'd, without XML prologue,
 * its ids begin with `prefix`, black and grey follow the page's colours.
 * -ENOENT: gnuplot is not installed. */
int plot_finish(struct plot *p, const char *prefix, const char *title, const char *alt, char **svg,
		struct bace_err *e);

/* ---- the plots of a run; -ENODATA: nothing to draw ---- */
int plot_measured_vs_predicted(struct store *s, const char *run, struct plot *p, struct bace_err *e);
int plot_cost_vs_jct(struct store *s, const char *run, struct plot *p, struct bace_err *e);
/* Inflation of the step time against the time until a change is seen. */
int plot_overhead_curve(struct store *s, const char *run, struct plot *p, struct bace_err *e);
int plot_jct_distribution(struct store *s, const char *run, struct plot *p, struct bace_err *e);

#endif
