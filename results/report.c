/* One self-contained HTML file: no script, no network. */
#include "results/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_OPEN 30

/* ---- what the sections are made of ---- */

void report_open(struct report *r, const char *id, const char *title, const char *lead)
{
	fprintf(r->to, "<section id=\"%s-%s\" aria-labelledby=\"%s-%s-h\">\n<h2 id=\"%s-%s-h\">", r->prefix, id,
		r->prefix, id, r->prefix, id);
	html_text(title, r->to);
	fputs("</h2>\n", r->to);
	if (!lead)
		return;
	fputs("<p class=\"lead\">", r->to);
	html_text(lead, r->to);
	fputs("</p>\n", r->to);
}

void report_close(struct report *r)
{
	fputs("</section>\n", r->to);
}

static int without_plot(struct report *r, int rc, struct bace_err *why)
{
	if (rc == -ENODATA)
		return 0;
	if (rc != -ENOENT && rc != -EIO) {
		*r->e = *why;
		return rc;
	}
	if (!r->no_gnuplot) {
		fputs("<p class=\"warn\">The plots are missing: ", r->to);
		html_text(why->msg, r->to);
		fputs(". The tables have their numbers.</p>\n", r->to);
		bace_log(BACE_WARN, "report", "plots are missing: %s", why->msg);
	}
	r->no_gnuplot = true;
	return 0;
}

int report_figure(struct report *r, struct plot *p, bool wide, const char *title, const char *alt,
		  const char *caption)
{
	CLEANUP_FREE char *svg = NULL;
	struct bace_err why = { 0 };
	char prefix[48];
	int rc;

	snprintf(prefix, sizeof(prefix), "%s-p%d", r->prefix, ++r->n_plots);
	rc = plot_finish(p, prefix, title, alt, &svg, &why);
	if (rc)
		return without_plot(r, rc, &why);
	if (wide) {
		fputs("<figure class=\"wide\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"",
		      r->to);
		html_text(title, r->to);
		fprintf(r->to, "\">%s</div>", svg);
	} else {
		fprintf(r->to, "<figure>%s", svg);
	}
	fputs("<figcaption><b>", r->to);
	html_text(title, r->to);
	fputs(".</b> ", r->to);
	html_text(caption, r->to);
	fputs("</figcaption></figure>\n", r->to);
	return 0;
}

int report_plot(struct report *r, const char *title, const char *alt, const char *caption,
		int (*draw)(struct store *, const char *, struct plot *, struct bace_err *))
{
	struct bace_err why = { 0 };
	struct plot p = { 0 };
	char text[512], more[48] = "";
	int rc = draw(r->s, r->run, &p, &why);

	if (rc)
		return without_plot(r, rc, &why);
	if (p.left_out)
		snprintf(more, sizeof(more), " The table alone has %d more.", p.left_out);
	snprintf(text, sizeof(text), "%s%s", caption, more);
	return report_figure(r, &p, false, title, alt, text);
}

int report_table(struct report *r, enum run_table which, bool *any)
{
	struct table t;
	int rc = run_table(r->s, r->run, NULL, which, &t, r->e);

	if (rc)
		return rc;
	if (any)
		*any = t.n_cells;
	if (t.n_cells) {
		fputs("<h3>", r->to);
		html_text(t.title, r->to);
		fputs("</h3>\n", r->to);
		if (t.note) {
			fputs("<p class=\"lead\">", r->to);
			html_text(t.note, r->to);
			fputs("</p>\n", r->to);
		}
		/* A long table is folded: the sections stay within reach. */
		if (table_rows(&t) > ROWS_OPEN)
			fprintf(r->to, "<details><summary>%zu rows</summary>\n", table_rows(&t));
		if (table_html(&t, r->to))
			rc = bace_fail(r->e, ENOMEM, "report: out of memory");
		if (table_rows(&t) > ROWS_OPEN)
			fputs("</details>\n", r->to);
	}
	table_free(&t);
	return rc;
}

/* ---- the head of a run ---- */

static void meta(struct report *r, const char *name, const char *value)
{
	if (!value[0])
		return;
	fprintf(r->to, "<li>%s <b>", name);
	html_text(value, r->to);
	fputs("</b></li>\n", r->to);
}

static void write_title(struct report *r, sqlite3_stmt *q)
{
	const char *status = column_text(q, 2);

	fprintf(r->to, "<header>\n<p class=\"kicker\">bace%s</p>\n<h1>", strcmp(r->kind, "run") ? "" : ": measured against "
		"predicted");
	html_text(column_text(q, 1), r->to);
	fprintf(r->to, "</h1>\n<ul class=\"meta\">\n<li><span class=\"chip ");
	html_text(status, r->to);
	fputs("\">", r->to);
	html_text(status, r->to);
	fputs("</span></li>\n", r->to);
	meta(r, "run", column_text(q, 0));
	meta(r, "began", column_text(q, 3));
	meta(r, "schedule", column_text(q, 4));
	meta(r, "links by", column_text(q, 5));
	if (column_text(q, 5)[0])
		fprintf(r->to, "<li>scale <b>bytes \u00d7 %g, time \u00d7 %g</b></li>\n", column_number(q, 6),
			column_number(q, 7));
	fputs("</ul>\n", r->to);
}

static void figure_value(struct report *r, const char *name, const char *small, const char *fmt, ...)
	BACE_PRINTF(4, 5);

static void figure_value(struct report *r, const char *name, const char *small, const char *fmt, ...)
{
	va_list ap;

	fprintf(r->to, "<div><dt>%s</dt><dd class=\"big\">", name);
	va_start(ap, fmt);
	vfprintf(r->to, fmt, ap);
	va_end(ap);
	fputs("</dd><dd class=\"small\">", r->to);
	html_text(small, r->to);
	fputs("</dd></div>\n", r->to);
}

static int write_figures(struct report *r)
{
	struct accuracy a;
	char small[128];
	int rc = strcmp(r->kind, "run") ? 0 : run_accuracy(r->s, r->run, NULL, &a, r->e);

	/* bace robust and the like place nothing that could be measured. */
	if (rc || strcmp(r->kind, "run"))
		return rc;
	if (!a.n) {
		fprintf(r->to, "<p class=\"warn\">This run has no valid measured placement%s; what follows is "
			"prediction alone.</p>\n", a.n_invalid ? ", only invalid ones" : "");
		return 0;
	}
	fputs("<dl class=\"figures\">\n", r->to);
	snprintf(small, sizeof(small), "n = %zu placements, %d steps", a.n, a.n_steps);
	figure_value(r, "median step-time error to event simulation", small, "%.1f\u2009%%",
		     100 * a.median_event);
	figure_value(r, "worst step-time error", a.worst_what, "%.1f\u2009%%", 100 * a.worst_event);
	if (a.n_closed) {
		snprintf(small, sizeof(small), "worst %.1f %%, n = %zu", 100 * a.worst_closed, a.n_closed);
		figure_value(r, "median error to the closed form", small, "%.1f\u2009%%",
			     100 * a.median_closed);
	}
	if (a.n_first) {
		snprintf(small, sizeof(small), "worst of n = %zu", a.n_first);
		figure_value(r, "first measured step to the median step", small, "%.1f\u2009%%",
			     100 * a.worst_first);
	}
	snprintf(small, sizeof(small), "of %zu measured", a.n + (size_t)a.n_invalid);
	figure_value(r, "placements marked invalid", small, "%d", a.n_invalid);
	fputs("</dl>\n", r->to);
	return 0;
}

static void write_contents(struct report *r)
{
	fputs("<nav class=\"toc\" aria-label=\"Sections of run ", r->to);
	html_text(r->run, r->to);
	fputs("\"><ul>\n", r->to);
	for (const struct report_section *x = report_sections; x->id; x++)
		if (!x->wanted || x->wanted(r))
			fprintf(r->to, "<li><a href=\"#%s-%s\">%s</a></li>\n", r->prefix, x->id, x->title);
	fputs("</ul></nav>\n</header>\n", r->to);
}

static int write_run(struct report *r)
{
	sqlite3_stmt *q;
	int rc = store_query(r->s, "SELECT id, coalesce(nullif(experiment, ''), id), status, began_utc,"
			     " schedule, backend, scale_bytes, scale_time FROM run WHERE id = ?", r->run, &q,
			     r->e);

	if (rc)
		return rc;
	fputs("<article>\n", r->to);
	rc = store_run_kind(r->s, r->run, r->kind, r->e);
	if (!rc && sqlite3_step(q) == SQLITE_ROW)
		write_title(r, q);
	else if (!rc)
		rc = store_fail(r->s, r->e, "read");
	sqlite3_finalize(q);
	if (!rc)
		rc = write_figures(r);
	if (!rc)
		write_contents(r);
	for (const struct report_section *x = report_sections; !rc && x->id; x++)
		if (!x->wanted || x->wanted(r))
			rc = x->write(r);
	fputs("</article>\n", r->to);
	return rc;
}

/* ---- the page ---- */

static int write_page(struct store *s, char (*ids)[32], size_t n, FILE *to, struct bace_err *e)
{
	int rc = 0;

	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
	      "content=\"width=device-width, initial-scale=1\">\n<meta name=\"generator\" content=\"bace\">\n"
	      "<link rel=\"icon\" href=\"data:,\">\n<title>bace report: ", to);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? ", " : "", to);
		html_text(ids[i], to);
	}
	fprintf(to, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<div class=\"page\">\n<main>\n",
		report_style);
	for (size_t i = 0; !rc && i < n; i++) {
		struct report r = { .to = to, .s = s, .run = ids[i], .e = e };

		snprintf(r.prefix, sizeof(r.prefix), "r%zu", i + 1);
		rc = write_run(&r);
	}
	fputs("</main>\n</div>\n</body>\n</html>\n", to);
	return rc;
}

int results_write_reports(struct store *s, const char *const *runs, size_t n, const char *path,
			  struct bace_err *e)
{
	CLEANUP_FREE char (*ids)[32] = calloc(n + 1, sizeof(*ids));
	struct bace_outfile out;
	int rc = ids ? 0 : bace_fail(e, ENOMEM, "report: out of memory");

	for (size_t i = 0; !rc && i < n; i++)
		rc = store_find_run(s, runs[i], ids[i], e);
	if (!rc)
		rc = store_begin_read(s, e);
	if (rc)
		return rc;
	rc = bace_outfile_open(path, &out, e);
	if (rc)
		bace_err_context(e, "report");
	else
		rc = bace_outfile_close(&out, write_page(s, ids, n, out.f, e), e);
	store_rollback(s);
	return rc;
}

int results_write_report(struct store *s, const char *run, const char *path, struct bace_err *e)
{
	return results_write_reports(s, &run, 1, path, e);
}
