/* Private to results: the HTML report, section by section. */
#ifndef BACE_RESULTS_REPORT_H
#define BACE_RESULTS_REPORT_H

#include "results/compare.h"
#include "results/plot.h"
#include "results/table.h"

struct report {
	FILE *to;
	struct store *s;
	const char *run;
	char kind[16];			/* store_run_kind */
	char prefix[32];		/* of ids, its own for every run of the page */
	int n_plots;
	bool no_gnuplot;		/* said once */
	struct bace_err *e;
};

extern const char report_style[];

/* <section> with heading; id is appended to the prefix. */
void report_open(struct report *r, const char *id, const char *title, const char *lead);
void report_close(struct report *r);
/* A figure; nothing when draw says -ENODATA, a note when gnuplot is missing. */
int report_plot(struct report *r, const char *title, const char *alt, const char *caption,
		int (*draw)(struct store *, const char *, struct plot *, struct bace_err *));
/* The same, of a script that is ready. */
int report_figure(struct report *r, struct plot *p, bool wide, const char *title, const char *alt,
		  const char *caption);
/* One of the run's tables under its title; nothing when it is empty. */
int report_table(struct report *r, enum run_table which, bool *any);

struct report_section {
	const char *id, *title;
	bool (*wanted)(struct report *r);
	int (*write)(struct report *r);
};
extern const struct report_section report_sections[];

/* Sections that need more room than report_sections.c has. */
int report_gap(struct report *r);
int report_gantt(struct report *r);
int report_links(struct report *r);
int report_robust(struct report *r);
/* Of bace robust, metric "jct_gain" or "cost_gain"; nothing without an exact view. */
int report_heat_map(struct report *r, const char *metric, const char *title);
int report_overhead(struct report *r);
int report_claims(struct report *r);

#endif
