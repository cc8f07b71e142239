/* A table on a terminal or in a pipe. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/table.h"

#define GAP 2
#define FLEX_MIN 14
#define BOLD "\033[1m"
#define DIM "\033[2m"
#define RED "\033[31m"
#define PLAIN "\033[0m"

struct layout {
	const struct table *t;
	FILE *to;
	bool color;
	int *width;		/* [n_columns] */
	struct unit *units;	/* [n_columns] */
	int owed;		/* blanks to print before the next text of this line */
};

/* Columns that a UTF-8 text takes on a terminal, for the text that we print. */
static int width_of(const char *s, size_t len)
{
	int n = 0;

	for (size_t i = 0; i < len; i++)
		n += (s[i] & 0xc0) != 0x80;
	return n;
}

static int title_width(const char *title)
{
	int widest = 0;

	while (*title) {
		size_t len = strcspn(title, "\n");
		int w = width_of(title, len);

		widest = w > widest ? w : widest;
		title += len + (title[len] == '\n');
	}
	return widest;
}

static void measure(struct layout *l)
{
	const struct table *t = l->t;
	char buf[32];

	for (int c = 0; c < t->n_columns; c++) {
		int unit = (int)strlen(l->units[c].name);

		l->width[c] = title_width(t->columns[c].title);
		l->width[c] = unit > l->width[c] ? unit : l->width[c];
	}
	for (size_t i = 0; i < t->n_cells; i++) {
		int c = (int)(i % (size_t)t->n_columns);
		const char *s = cell_format(&t->cells[i], &t->columns[c], &l->units[c], buf);
		int w = width_of(s, strlen(s));

		l->width[c] = w > l->width[c] ? w : l->width[c];
	}
}

static bool wraps(const struct column *c)
{
	return c->what == FLEX || c->what == STATUS;
}

/* Takes what is too much from the columns that can wrap, the widest first.
 * False: it cannot be made to fit. */
static bool fit(struct layout *l, int limit)
{
	int total = -GAP, n = l->t->n_columns;

	for (int c = 0; c < n; c++)
		total += l->width[c] + GAP;
	for (; limit && total > limit; total--) {
		int widest = -1;

		for (int c = 0; c < n; c++)
			if (wraps(&l->t->columns[c]) && l->width[c] > FLEX_MIN &&
			    (widest < 0 || l->width[c] > l->width[widest]))
				widest = c;
		if (widest < 0)
			return false;
		l->width[widest]--;
	}
	return true;
}

/* Length of the part of s that goes on one line of `width` columns. */
static size_t line_length(const char *s, int width)
{
	size_t last_space = 0, i = 0;
	int w = 0;

	for (; s[i]; i++) {
		w += (s[i] & 0xc0) != 0x80;
		if (w > width)
			break;
		if (s[i] == ' ')
			last_space = i;
	}
	if (!s[i])
		return i;
	if (s[i] == ' ')
		return i;
	return last_space ? last_space : i ? i : 1;
}

/* Blanks are held back until something follows them: no line ends in one. */
static void put(struct layout *l, int c, const char *s, size_t len, const char *style)
{
	bool text = column_is_text(&l->t->columns[c]), last = c == l->t->n_columns - 1;
	int pad = l->width[c] - width_of(s, len);

	pad = pad > 0 ? pad : 0;
	l->owed += text ? 0 : pad;
	if (len) {
		fprintf(l->to, "%*s", l->owed, "");
		l->owed = 0;
		if (style && l->color)
			fprintf(l->to, "%s%.*s%s", style, (int)len, s, PLAIN);
		else
			fwrite(s, 1, len, l->to);
	}
	l->owed += (text ? pad : 0) + GAP;
	if (last) {
		fputc('\n', l->to);
		l->owed = 0;
	}
}

static int title_lines(const char *title)
{
	int n = 1;

	for (; *title; title++)
		n += *title == '\n';
	return n;
}

/* Line `which` of a title that stands at the bottom of `lines` lines. */
static const char *title_line(const char *title, int which, int lines, size_t *len)
{
	int skip = which - (lines - title_lines(title));

	*len = 0;
	if (skip < 0)
		return "";
	while (skip--)
		title += strcspn(title, "\n") + 1;
	*len = strcspn(title, "\n");
	return title;
}

static void print_header(struct layout *l)
{
	const struct table *t = l->t;
	bool any_unit = false;
	int lines = 1;

	for (int c = 0; c < t->n_columns; c++) {
		int n = title_lines(t->columns[c].title);

		lines = n > lines ? n : lines;
		any_unit = any_unit || (l->units[c].name[0] && !column_is_text(&t->columns[c]));
	}
	for (int i = 0; i < lines; i++) {
		for (int c = 0; c < t->n_columns; c++) {
			size_t len;
			const char *s = title_line(t->columns[c].title, i, lines, &len);

			put(l, c, s, len, BOLD);
		}
	}
	for (int c = 0; any_unit && c < t->n_columns; c++) {
		const char *name = column_is_text(&t->columns[c]) ? "" : l->units[c].name;

		put(l, c, name, strlen(name), DIM);
	}
}

static int print_row(struct layout *l, const struct cell *row)
{
	CLEANUP_FREE const char **rest = calloc((size_t)l->t->n_columns, sizeof(*rest));
	CLEANUP_FREE char *numbers = calloc((size_t)l->t->n_columns, 32);
	bool more = true;

	if (!rest || !numbers)
		return -ENOMEM;
	for (int c = 0; c < l->t->n_columns; c++)
		rest[c] = cell_format(&row[c], &l->t->columns[c], &l->units[c], numbers + 32 * c);
	while (more) {
		more = false;
		for (int c = 0; c < l->t->n_columns; c++) {
			const struct column *col = &l->t->columns[c];
			size_t len = wraps(col) ? line_length(rest[c], l->width[c]) :
				strlen(rest[c]);
			bool bad = col->what == STATUS && strcmp(row[c].text ? row[c].text : "", "yes");

			put(l, c, rest[c], len, bad && len ? RED : NULL);
			rest[c] += len + (rest[c][len] == ' ');
			more = more || *rest[c];
		}
	}
	return 0;
}

/* For a terminal too narrow for the table: one line a cell. */
static void print_record(const struct layout *l, const struct cell *row)
{
	char buf[32];

	for (int c = 0; c < l->t->n_columns; c++) {
		const struct column *col = &l->t->columns[c];

		fputs(c ? "  " : "", l->to);
		for (const char *p = col->title; *p; p++)
			fputc(*p == '\n' ? ' ' : *p, l->to);
		const char *unit = column_is_text(col) ? "" : l->units[c].name;

		fprintf(l->to, ": %s%s%s\n", cell_format(&row[c], col, &l->units[c], buf), unit[0] ? " " : "", unit);
	}
}

static void print_note(const struct layout *l, const char *note, int width)
{
	while (*note) {
		size_t len = width ? line_length(note, width) : strlen(note);

		fprintf(l->to, "%s%.*s%s\n", l->color ? DIM : "", (int)len, note, l->color ? PLAIN : "");
		note += len + (note[len] == ' ');
	}
}

int table_print(const struct table *t, FILE *to, bool color, int width)
{
	CLEANUP_FREE int *widths = calloc((size_t)t->n_columns + 1, sizeof(*widths));
	CLEANUP_FREE struct unit *units = calloc((size_t)t->n_columns + 1, sizeof(*units));
	struct layout l = { .t = t, .to = to, .color = color, .width = widths, .units = units };
	bool fits;
	int rc = 0;

	if (!widths || !units)
		return -ENOMEM;
	table_units(t, units);
	measure(&l);
	fits = fit(&l, width);
	fprintf(to, "\n%s%s%s\n", color ? BOLD : "", t->title, color ? PLAIN : "");
	if (t->note)
		print_note(&l, t->note, width);
	fputc('\n', to);
	if (fits)
		print_header(&l);
	for (size_t i = 0; !rc && i < table_rows(t); i++) {
		const struct cell *row = &t->cells[i * (size_t)t->n_columns];

		if (fits)
			rc = print_row(&l, row);
		else
			print_record(&l, row);
	}
	return rc;
}
