/* Private to results: plots, as SVG text by gnuplot. */
#ifndef BACE_RESULTS_PLOT_H
#define BACE_RESULTS_PLOT_H

#include "results/store.h"

/* malloc'd SVG without XML prologue. -ENOENT: gnuplot is not installed. */
int plot_measured_vs_predicted(struct store *s, const char *run, char **svg, struct bace_err *e);
int plot_cost_vs_jct(struct store *s, const char *run, char **svg, struct bace_err *e);

#endif
