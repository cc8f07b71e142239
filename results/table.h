/* Private to results: tables that text and HTML both print. */
#ifndef BACE_RESULTS_TABLE_H
#define BACE_RESULTS_TABLE_H

#include "results/store.h"

/* What a column holds. Numbers are in base units; the unit that is printed is
 * chosen from what is in the column. */
enum quantity { TEXT, FLEX, STATUS, COUNT, RATIO, PERCENT, SECONDS, JOULES, BITS_PER_S, BYTES, DOLLARS };

struct column {
	const char *title;	/* \n where it may be broken */
	enum quantity what;	/* FLEX: text that wraps; STATUS: text, "yes" is good */
	char group;		/* columns of one quantity and group share unit and digits */
};

struct cell {
	char *text;		/* NULL: number */
	double number;		/* NaN: none */
};

struct table {
	const char *title;
	const char *note;	/* what the numbers are; may be NULL */
	const struct column *columns;
	int n_columns;
	size_t n_cells, cap_cells;
	struct cell *cells;	/* row after row */
};

struct unit {
	const char *name;
	double factor;		/* base units in one */
	int digits;
};

static inline size_t table_rows(const struct table *t)
{
	return t->n_columns ? t->n_cells / (size_t)t->n_columns : 0;
}

static inline bool column_is_text(const struct column *c)
{
	return c->what <= STATUS;
}

/* -ENOMEM or 0 */
int table_text(struct table *t, const char *text);
int table_number(struct table *t, double v);
void table_free(struct table *t);
/* [n_columns] */
void table_units(const struct table *t, struct unit *out);
struct unit unit_for(enum quantity what, double typical, double least, double most);
/* One cell as printed; buf is used for numbers. */
const char *cell_format(const struct cell *c, const struct column *col, const struct unit *u,
			char buf[32]);
/* width 0: as wide as it gets. */
int table_print(const struct table *t, FILE *to, bool color, int width);
int table_html(const struct table *t, FILE *to);
void html_text(const char *s, FILE *to);	/* escaped */

/* ---- the tables of a run ---- */
enum run_table { TABLE_PLACEMENTS, TABLE_POLICIES, TABLE_JOBS, TABLE_LINKS, TABLE_BYTES, TABLE_TCP, TABLE_DISTURBED,
	TABLE_SKIPPED,
	/* what bace robust, overhead and claims found */
	TABLE_ROBUST, TABLE_ROBUST_VIEWS, TABLE_OVERHEAD, TABLE_CLAIMS, TABLE_CLAIMS_ROWS, N_RUN_TABLES };
/* -ENOENT when the run has no such policy or job, with what it has. */
int run_filter_check(struct store *s, const char *run, const struct run_filter *f, struct bace_err *e);
int run_table(struct store *s, const char *run, const struct run_filter *f, enum run_table which,
	      struct table *out, struct bace_err *e);

/* store_run_kind as an SQL expression in which r is the row of table run. */
#define RUN_KIND "CASE WHEN EXISTS (SELECT 1 FROM placement WHERE run_id = r.id) OR EXISTS (SELECT 1 FROM" \
	" job_outcome WHERE run_id = r.id) THEN 'run' ELSE coalesce((SELECT kind FROM comparison WHERE run_id = r.id" \
	" AND kind <> 'rerun' LIMIT 1), 'run') END"

/* Over all measured placements of a run, each moment's job once. */
struct accuracy {
	size_t n, n_closed, n_first;
	int n_invalid, n_steps;
	double median_event, worst_event;	/* |measured / event simulation - 1| */
	double median_closed, worst_closed;	/* to the closed form */
	double worst_first;			/* |first / median - 1| of the steps */
	char worst_what[160];			/* policy, job and placement of worst_event */
};
int run_accuracy(struct store *s, const char *run, const struct run_filter *f, struct accuracy *out,
		 struct bace_err *e);

#endif
