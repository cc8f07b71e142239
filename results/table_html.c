/* A table in the report. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "results/table.h"

void html_text(const char *s, FILE *to)
{
	for (; *s; s++) {
		switch (*s) {
		case '<': fputs("&lt;", to); break;
		case '>': fputs("&gt;", to); break;
		case '&': fputs("&amp;", to); break;
		case '"': fputs("&quot;", to); break;
		case '\'': fputs("&#39;", to); break;
		default:
			/* Control characters are not allowed in HTML. */
			if (((unsigned char)*s >= 32 && *s != 127) || *s == '\n' || *s == '\t')
				fputc(*s, to);
		}
	}
}

/* A title on one line: its hyphens at a break go. */
static void one_line(char *title)
{
	char *to = title;

	for (const char *p = title; *p; p++) {
		if (*p == '-' && p[1] == '\n')
			p++;
		else
			*to++ = *p == '\n' ? ' ' : *p;
	}
	*to = '\0';
}

static void head(const struct table *t, const struct unit *units, FILE *to)
{
	fputs("<thead><tr>", to);
	for (int c = 0; c < t->n_columns; c++) {
		bool text = column_is_text(&t->columns[c]);
		CLEANUP_FREE char *title = strdup(t->columns[c].title);

		if (title)
			one_line(title);
		fprintf(to, "<th scope=\"col\"%s>", text ? "" : " class=\"n\"");
		html_text(title ? title : "", to);
		if (!text && units[c].name[0])
			fprintf(to, " <span class=\"u\">%s</span>", units[c].name);
		fputs("</th>", to);
	}
	fputs("</tr></thead>\n", to);
}

static void body_cell(const struct table *t, const struct unit *units, size_t i, FILE *to)
{
	int c = (int)(i % (size_t)t->n_columns);
	const struct column *col = &t->columns[c];
	const char *class = !column_is_text(col) ? "n" : col->what == FLEX ? "flex" : NULL, *s;
	char buf[32];

	s = cell_format(&t->cells[i], col, &units[c], buf);
	if (col->what == STATUS)
		class = strcmp(s, "yes") ? "bad flex" : "good";
	fprintf(to, c ? "<td" : "<tr><th scope=\"row\"");
	if (class)
		fprintf(to, " class=\"%s\"", class);
	fputc('>', to);
	if (col->what == PERCENT && s[0] == '-' && s[1])
		fprintf(to, "\u2212%s", s + 1);
	else
		html_text(!t->cells[i].text && !strcmp(s, "-") ? "\u2013" : s, to);
	fputs(c ? "</td>" : "</th>", to);
	if (c == t->n_columns - 1)
		fputs("</tr>\n", to);
}

int table_html(const struct table *t, FILE *to)
{
	CLEANUP_FREE struct unit *units = calloc((size_t)t->n_columns + 1, sizeof(*units));

	if (!units)
		return -ENOMEM;
	table_units(t, units);
	fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", to);
	html_text(t->title, to);
	fputs("\"><table aria-label=\"", to);
	html_text(t->title, to);
	fputs("\">\n", to);
	head(t, units, to);
	fputs("<tbody>\n", to);
	for (size_t i = 0; i < t->n_cells; i++)
		body_cell(t, units, i, to);
	fputs("</tbody></table></div>\n", to);
	return 0;
}
