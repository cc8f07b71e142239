#include "results/table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int add_text(struct table *t, char *text)
{
	if (!text || BACE_PUSH(t->cells, t->n_cells, t->cap_cells, text)) {
		free(text);
		return -ENOMEM;
	}
	return 0;
}

int table_add(struct table *t, const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	return add_text(t, text);
}

int table_add_number(struct table *t, int digits, double v)
{
	if (isnan(v))
		return add_text(t, strdup("\u2013"));
	return table_add(t, "%.*f", digits, v);
}

void table_free(struct table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
	*t = (struct table){ 0 };
}

/* Columns that a UTF-8 text takes on a terminal, for the text that we print. */
static int width_of(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

static void print_cell(FILE *to, const char *text, int width, bool right, bool last)
{
	int pad = width - width_of(text);

	if (right)
		fprintf(to, "%*s%s", pad, "", text);
	else
		fprintf(to, "%s%*s", text, last ? 0 : pad, "");
	fputs(last ? "\n" : "  ", to);
}

void table_print(const struct table *t, FILE *to, bool color)
{
	CLEANUP_FREE int *width = calloc((size_t)t->n_columns + 1, sizeof(*width));

	if (!width || !t->n_cells)
		return;
	for (int c = 0; c < t->n_columns; c++)
		width[c] = width_of(t->columns[c].title);
	for (size_t i = 0; i < t->n_cells; i++) {
		int *w = &width[i % (size_t)t->n_columns], n = width_of(t->cells[i]);

		*w = n > *w ? n : *w;
	}
	fprintf(to, "\n%s%s%s\n", color ? "\033[1m" : "", t->title, color ? "\033[0m" : "");
	if (t->note)
		fprintf(to, "%s\n", t->note);
	fputc('\n', to);
	for (int c = 0; c < t->n_columns; c++)
		print_cell(to, t->columns[c].title, width[c], t->columns[c].number, c == t->n_columns - 1);
	for (size_t i = 0; i < t->n_cells; i++) {
		int c = (int)(i % (size_t)t->n_columns);

		print_cell(to, t->cells[i], width[c], t->columns[c].number, c == t->n_columns - 1);
	}
}

void html_text(const char *s, FILE *to)
{
	for (; *s; s++) {
		switch (*s) {
		case '<': fputs("&lt;", to); break;
		case '>': fputs("&gt;", to); break;
		case '&': fputs("&amp;", to); break;
		case '"': fputs("&quot;", to); break;
		default:
			/* Control characters are not allowed in HTML. */
			if ((unsigned char)*s >= 32 || *s == '\n' || *s == '\t')
				fputc(*s, to);
		}
	}
}

void table_html(const struct table *t, FILE *to)
{
	if (!t->n_cells)
		return;
	fputs("<section><h2>", to);
	html_text(t->title, to);
	fputs("</h2>", to);
	if (t->note) {
		fputs("<p>", to);
		html_text(t->note, to);
		fputs("</p>", to);
	}
	fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", to);
	html_text(t->title, to);
	fputs("\"><table><thead><tr>", to);
	for (int c = 0; c < t->n_columns; c++) {
		fprintf(to, "<th scope=\"col\"%s>", t->columns[c].number ? " class=\"n\"" : "");
		html_text(t->columns[c].title, to);
		fputs("</th>", to);
	}
	fputs("</tr></thead><tbody>\n", to);
	for (size_t i = 0; i < t->n_cells; i++) {
		int c = (int)(i % (size_t)t->n_columns);

		fputs(c ? "" : "<tr>", to);
		fprintf(to, "<td%s>", t->columns[c].number ? " class=\"n\"" : "");
		html_text(t->cells[i], to);
		fputs("</td>", to);
		fputs(c == t->n_columns - 1 ? "</tr>\n" : "", to);
	}
	fputs("</tbody></table></div></section>\n", to);
}
