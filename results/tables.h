/* Private to results: what the schema says about itself. */
#ifndef BACE_RESULTS_TABLES_H
#define BACE_RESULTS_TABLES_H

#include "results/store.h"

struct store_column {
	char *name, *type, *unit, *meaning;
};

struct store_table {
	char *name, *meaning;
	size_t n;
	struct store_column *columns;
};

struct store_tables {
	size_t n, cap;
	struct store_table *v;		/* by name */
};

int store_tables_read(struct store *s, struct store_tables *out, struct bace_err *e);
void store_tables_free(struct store_tables *t);
/* The rows of t that belong to a run, in order of its key. */
int table_query(struct store *s, const struct store_table *t, const char *run, sqlite3_stmt **out,
		struct bace_err *e);

#endif
