/* Private to results: tables that text and HTML both print. */
#ifndef BACE_RESULTS_TABLE_H
#define BACE_RESULTS_TABLE_H

#include "results/store.h"

struct column {
	const char *title;	/* unit included */
	bool number;		/* right-aligned */
};

struct table {
	const char *title;
	const char *note;	/* what the numbers are; may be NULL */
	const struct column *columns;
	int n_columns;
	size_t n_cells, cap_cells;
	char **cells;		/* row after row */
};

static inline size_t table_rows(const struct table *t)
{
	return t->n_columns ? t->n_cells / (size_t)t->n_columns : 0;
}

int table_add(struct table *t, const char *fmt, ...) BACE_PRINTF(2, 3);
/* As "%.*f", or an en dash for NaN (text and HTML are UTF-8). */
int table_add_number(struct table *t, int digits, double v);
void table_free(struct table *t);
void table_print(const struct table *t, FILE *to, bool color);
void table_html(const struct table *t, FILE *to);
void html_text(const char *s, FILE *to);	/* escaped */

/* The run's full id for "last" or a unique prefix; -ENOENT names the nearest. */
int store_resolve_run(struct store *s, const char *given, char id[32], struct bace_err *e);

/* ---- the tables of a run ---- */
enum run_table { TABLE_PLACEMENTS, TABLE_POLICIES, TABLE_JOBS, TABLE_LINKS, TABLE_BYTES, TABLE_SKIPPED,
	N_RUN_TABLES };
int run_table(struct store *s, const char *run, enum run_table which, struct table *out,
	      struct bace_err *e);

/* Over all valid measured placements of a run, each moment's job once. */
struct accuracy {
	int n, n_invalid;
	double median_abs, worst_abs;		/* fractions, to the event simulation */
	double median_closed, worst_closed;	/* to the closed form */
	double worst_first;			/* |first / median - 1| of the steps */
};
int run_accuracy(struct store *s, const char *run, struct accuracy *out, struct bace_err *e);

#endif
