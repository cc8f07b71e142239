#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "results/table.h"
#include "results/tables.h"

static int print_one(const struct store_table *x, FILE *to, bool color, int width)
{
	static const struct column columns[] = { { "column", TEXT }, { "type", TEXT }, { "unit", TEXT },
		{ "meaning", FLEX } };
	struct table t = { .title = x->name, .note = x->meaning, .columns = columns, .n_columns = 4 };
	int rc = 0;

	for (size_t c = 0; !rc && c < x->n; c++) {
		rc |= table_text(&t, x->columns[c].name);
		rc |= table_text(&t, x->columns[c].type);
		rc |= table_text(&t, x->columns[c].unit);
		rc |= table_text(&t, x->columns[c].meaning);
	}
	if (!rc)
		rc = table_print(&t, to, color, width);
	table_free(&t);
	return rc;
}

static json_t *one_json(const struct store_table *x)
{
	json_t *columns = json_array();

	for (size_t c = 0; c < x->n; c++)
		json_array_append_new(columns, json_pack("{s:s, s:s, s:s, s:s}", "name", x->columns[c].name,
			"type", x->columns[c].type, "unit", x->columns[c].unit, "meaning",
			x->columns[c].meaning));
	return json_pack("{s:s, s:s, s:o}", "table", x->name, "meaning", x->meaning, "columns", columns);
}

int results_print_dictionary(struct store *s, FILE *to, bool json, bool color, int width, struct bace_err *e)
{
	struct store_tables v;
	json_t *all = json_array();
	int rc = store_tables_read(s, &v, e);

	for (size_t i = 0; !rc && i < v.n; i++) {
		if (json)
			json_array_append_new(all, one_json(&v.v[i]));
		else if (print_one(&v.v[i], to, color, width))
			rc = bace_fail(e, ENOMEM, "dictionary: out of memory");
	}
	if (!rc && json && (json_dumpf(all, to, JSON_INDENT(2)) || fputc('\n', to) == EOF))
		rc = bace_fail(e, EIO, "dictionary: write failed");
	json_decref(all);
	store_tables_free(&v);
	return rc;
}
