/* One self-contained HTML file: no script, no network. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "results/plot.h"
#include "results/table.h"

static const char style[] =
	":root{color-scheme:light dark;--fg:#1c1e21;--bg:#fbfbfa;--soft:#5c6370;--line:#d9dadd;"
	"--card:#ffffff;--accent:#0b5c94}"
	"@media (prefers-color-scheme:dark){:root{--fg:#e6e6e3;--bg:#16181b;--soft:#a3a9b3;--line:#34383e;"
	"--card:#1e2125;--accent:#7db8e8}}"
	"*{box-sizing:border-box}body{margin:0 auto;max-width:72rem;padding:2rem 1.25rem 4rem;"
	"font:16px/1.55 system-ui,sans-serif;color:var(--fg);background:var(--bg)}"
	"h1{font-size:1.6rem;line-height:1.25;margin:0 0 .25rem}h2{font-size:1.15rem;margin:2.5rem 0 .25rem}"
	"p{margin:.25rem 0 .75rem;color:var(--soft);max-width:46rem}"
	"dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.25rem;margin:1rem 0}"
	"dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}"
	".lead{font-size:1.15rem;color:var(--fg);border-left:4px solid var(--accent);padding:.25rem 1rem;"
	"margin:1.5rem 0}"
	".scroll{overflow-x:auto;border:1px solid var(--line);border-radius:6px;background:var(--card)}"
	"table{border-collapse:collapse;width:100%;font-size:.875rem;font-variant-numeric:tabular-nums}"
	"th,td{padding:.4rem .75rem;text-align:left;white-space:nowrap;border-bottom:1px solid var(--line)}"
	"th{color:var(--soft);font-weight:600}tr:last-child td{border-bottom:0}.n{text-align:right}"
	"figure{margin:1rem 0;padding:.75rem;background:#fff;border:1px solid var(--line);border-radius:6px}"
	"figure svg{width:100%;height:auto;display:block}figcaption{color:#5c6370;font-size:.875rem}"
	".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem}"
	"details{margin:1rem 0}summary{cursor:pointer;color:var(--accent)}"
	"pre{overflow-x:auto;font-size:.8rem;background:var(--card);border:1px solid var(--line);"
	"border-radius:6px;padding:1rem}"
	"@media print{body{max-width:none;padding:0;background:#fff;color:#000}.scroll{overflow:visible}"
	"table{font-size:8pt}section,figure{break-inside:avoid}details{display:none}}";

static void fact(FILE *to, const char *name, const char *value)
{
	if (!value || !value[0])
		return;
	fputs("<dt>", to);
	html_text(name, to);
	fputs("</dt><dd>", to);
	html_text(value, to);
	fputs("</dd>\n", to);
}

static const char *column(sqlite3_stmt *q, int i)
{
	return (const char *)sqlite3_column_text(q, i);
}

static void write_head(FILE *to, sqlite3_stmt *q)
{
	fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
	      "content=\"width=device-width,initial-scale=1\"><title>bace: ", to);
	html_text(column(q, 1) ? column(q, 1) : "", to);
	fprintf(to, "</title><style>%s</style></head><body><main><h1>", style);
	html_text(column(q, 1) ? column(q, 1) : "", to);
	fputs("</h1><p>Predicted and measured step times, completion times and costs.</p><dl>\n", to);
	fact(to, "run", column(q, 0));
	fact(to, "began", column(q, 2));
	fact(to, "status", column(q, 3));
	fact(to, "command", column(q, 4));
	fact(to, "schedule", column(q, 5));
	fact(to, "backend", column(q, 6));
	fact(to, "because", column(q, 7));
	fact(to, "scale", column(q, 8));
	fact(to, "seed", column(q, 9));
	fact(to, "version, kernel", column(q, 10));
	fputs("</dl>\n", to);
}

static void write_accuracy(FILE *to, const struct accuracy *a)
{
	if (!a->n)
		return;
	fprintf(to, "<p class=\"lead\">Measured step times differ from the event simulation by %.2f&nbsp;%% "
		"in the median and %.2f&nbsp;%% at worst (n&nbsp;=&nbsp;%zu placements), from the closed form "
		"by %.2f&nbsp;%% and %.2f&nbsp;%%.", 100 * a->median_event, 100 * a->worst_event, a->n,
		100 * a->median_closed, 100 * a->worst_closed);
	if (a->n_invalid)
		fprintf(to, " %d invalid placements are not counted.", a->n_invalid);
	fputs("</p>\n", to);
}

static int write_plot(FILE *to, struct store *s, const char *run, const char *caption, const char *alt,
		      int (*plot)(struct store *, const char *, char **, struct bace_err *),
		      struct bace_err *e)
{
	CLEANUP_FREE char *svg = NULL;
	struct bace_err why = { 0 };
	int rc = plot(s, run, &svg, &why);

	if (rc == -ENODATA)
		return 0;
	if (rc) {
		*e = why;
		return rc;
	}
	fputs("<figure><div role=\"img\" aria-label=\"", to);
	html_text(alt, to);
	fputs("\">", to);
	fputs(svg, to);
	fputs("</div><figcaption>", to);
	html_text(caption, to);
	fputs("</figcaption></figure>\n", to);
	return 0;
}

static int write_plots(FILE *to, struct store *s, const char *run, struct bace_err *e)
{
	int rc;

	fputs("<div class=\"plots\">\n", to);
	rc = write_plot(to, s, run, "Each point is a placement of a policy at one moment; on the dashed line "
			"measurement equals prediction.", "Scatter plot of measured against predicted step "
			"times; the table of step times has the numbers.", plot_measured_vs_predicted, e);
	if (!rc)
		rc = write_plot(to, s, run, "Lower left is better. The same policy by each oracle.",
				"Scatter plot of cost against mean completion time for each policy; the table of "
				"policies has the numbers.", plot_cost_vs_jct, e);
	fputs("</div>\n", to);
	return rc;
}

static void write_details(FILE *to, const char *title, const char *text)
{
	if (!text || !text[0])
		return;
	fprintf(to, "<details><summary>%s</summary><pre tabindex=\"0\">", title);
	html_text(text, to);
	fputs("</pre></details>\n", to);
}

static int write_all(FILE *to, struct store *s, const char *run, sqlite3_stmt *q, struct bace_err *e)
{
	struct accuracy a;
	int rc = run_accuracy(s, run, NULL, &a, e);

	if (rc)
		return rc;
	write_head(to, q);
	write_accuracy(to, &a);
	rc = write_plots(to, s, run, e);
	for (int i = 0; !rc && i < N_RUN_TABLES; i++) {
		struct table t;

		rc = run_table(s, run, NULL, (enum run_table)i, &t, e);
		if (rc)
			break;
		if (t.n_cells) {
			fputs("<section><h2>", to);
			html_text(t.title, to);
			fputs("</h2><p>", to);
			html_text(t.note ? t.note : "", to);
			fputs("</p>\n", to);
			table_html(&t, to);
			fputs("</section>\n", to);
		}
		table_free(&t);
	}
	write_details(to, "Configuration, as read", column(q, 11));
	write_details(to, "Hosts and settings", column(q, 12));
	fputs("</main></body></html>\n", to);
	return rc;
}

int results_write_report(struct store *s, const char *given, const char *path, struct bace_err *e)
{
	CLEANUP_FREE char *part = NULL;
	sqlite3_stmt *q;
	char run[32];
	int rc = store_find_run(s, given, run, e);

	if (!rc)
		rc = store_query(s, "SELECT id, experiment, began_utc, "
			"status, command, schedule, backend, backend_why, 'bytes x ' || scale_bytes || ', time x "
			"' || scale_time, seed, version || ', ' || kernel, config_text, inventory_json FROM run WHERE id = "
			"?", run, &q, e);
	if (rc)
		return rc;
	FILE *to = asprintf(&part, "%s.part", path) < 0 ? NULL : fopen(part, "we");

	if (!to) {
		sqlite3_finalize(q);
		return bace_fail_errno(e, errno, "report %s", path);
	}
	rc = sqlite3_step(q) == SQLITE_ROW ? write_all(to, s, run, q, e) : store_fail(s, e, "query");
	sqlite3_finalize(q);
	/* Whole or not at all. */
	if ((fclose(to) || (!rc && rename(part, path))) && !rc)
		rc = bace_fail_errno(e, errno, "report %s", path);
	if (rc)
		unlink(part);
	return rc;
}
