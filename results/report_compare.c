/* What bace robust, overhead and claims found. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/report.h"

static const struct column columns[] = { { "what", TEXT }, { "against", TEXT }, { "metric", TEXT }, { "x", RATIO, 'x' },
	{ "y", RATIO, 'y' }, { "value", RATIO, 'v' }, { "lower", RATIO, 'v' }, { "upper", RATIO, 'v' }, { "n", COUNT },
	{ "published", TEXT }, { "verdict", TEXT } };

/* The rows of one kind; columns that are empty throughout are left out. */
static int comparison_table(struct report *r, const char *kind, const char *title)
{
	struct column kept[ARRAY_LEN(columns)];
	struct table t = { .title = title, .columns = kept };
	bool used[ARRAY_LEN(columns)] = { 0 };
	sqlite3_stmt *q;
	int rc = store_query(r->s, "SELECT subject, against, metric, x, y, value, lo, hi, n, published, verdict FROM"
			     " comparison WHERE run_id = ?1 AND kind = ?2 ORDER BY rowid", r->run, &q, r->e);

	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, kind, -1, SQLITE_STATIC);
	while (sqlite3_step(q) == SQLITE_ROW)
		for (int c = 0; c < (int)ARRAY_LEN(columns); c++)
			used[c] = used[c] || column_text(q, c)[0];
	for (int c = 0; c < (int)ARRAY_LEN(columns); c++)
		if (used[c])
			kept[t.n_columns++] = columns[c];
	sqlite3_reset(q);
	while (!rc && sqlite3_step(q) == SQLITE_ROW)
		for (int c = 0; !rc && c < (int)ARRAY_LEN(columns); c++)
			if (used[c])
				rc = column_is_text(&columns[c]) ? table_text(&t, column_text(q, c)) :
					table_number(&t, column_number(q, c));
	sqlite3_finalize(q);
	if (rc || table_html(&t, r->to))
		rc = bace_fail(r->e, ENOMEM, "report: out of memory");
	table_free(&t);
	return rc;
}

static int add_rows(struct store *s, const char *run, const char *sql, struct plot *p, const char *name,
		    struct bace_err *e)
{
	sqlite3_stmt *q;
	int n = 0, rc = store_query(s, sql, run, &q, e);

	if (rc)
		return rc;
	bace_buf_addf(&p->script, "$%s << EOD\n", name);
	for (; sqlite3_step(q) == SQLITE_ROW; n++) {
		for (int c = 0; c < sqlite3_column_count(q); c++)
			bace_buf_addf(&p->script, "%.9g ", column_number(q, c));
		bace_buf_addf(&p->script, "\n");
	}
	bace_buf_addf(&p->script, "EOD\n");
	sqlite3_finalize(q);
	return n;
}

/* Mean gain over the baselines at each point of the grid of noise and delay. */
static int draw_robust(struct store *s, const char *run, struct plot *p, struct bace_err *e)
{
	int n;

	plot_begin(p, 480, 400);
	n = add_rows(s, run, "SELECT x, y, avg(value) FROM comparison WHERE run_id = ?1 AND kind = 'robust' AND metric ="
		     " (SELECT metric FROM comparison WHERE run_id = ?1 AND kind = 'robust' ORDER BY rowid LIMIT 1) AND"
		     " x IS NOT NULL AND y IS NOT NULL GROUP BY x, y ORDER BY x, y", p, "d", e);
	if (n <= 0) {
		bace_buf_free(&p->script);
		return n ? n : bace_fail(e, ENODATA, "nothing to plot");
	}
	bace_buf_addf(&p->script, "unset grid\nunset key\nset offsets 0, 0, 0, 0\nset xlabel 'noise on bandwidth and price "
		      "(fraction)'\nset ylabel 'age of the view (s)'\nset palette maxcolors 25 defined (-1 '#2f7ebc', 0 '#9aa0a6', "
		      "1 '#d9702b')\nstats $d using 3 nooutput\nm = abs(STATS_max) > abs(STATS_min) ? abs(STATS_max) "
		      ": abs(STATS_min)\nset cbrange [-m:m]\nset cblabel 'mean value'\n"
		      "# Places are numbered: the grid is seldom even.\n"
		      "xs = ''; ys = ''\ndo for [i=1:|$d|] { w = word($d[i],1); if (strstrt(xs.' ', ' '.w.' ') == 0) "
		      "{ xs = xs.' '.w }; w = word($d[i],2); if (strstrt(ys.' ', ' '.w.' ') == 0) { ys = ys.' '.w } }\n"
		      "at(list, v) = (k = 0, sum [i=1:words(list)] (word(list, i) eq v ? i - 1 : 0))\n"
		      "set xrange [-0.5:words(xs)-0.5]\nset yrange [-0.5:words(ys)-0.5]\nset xtics ()\nset ytics ()\n"
		      "do for [i=1:words(xs)] { set xtics add (word(xs, i) i-1) }\n"
		      "do for [i=1:words(ys)] { set ytics add (word(ys, i) i-1) }\n"
		      "plot $d using (at(xs, strcol(1))):(at(ys, strcol(2))):(0.48):(0.48):3 with boxxyerror fs solid "
		      "noborder lc palette, $d using (at(xs, strcol(1))):(at(ys, strcol(2))):(sprintf('%%.2g', $3)) "
		      "with labels\n");
	return 0;
}

int report_robust(struct report *r)
{
	int rc;

	report_open(r, "robust", "Stale and noisy views", "What is left of a gain when the policy is told an old and "
		    "noisy state of the network and of prices.");
	fputs("<div class=\"plots\">\n", r->to);
	rc = report_plot(r, "Value by noise and age of the view",
			 "Heat map: across the noise, up the age of the view, in each field the mean value. The table "
			 "below has every number.", "Mean over the baselines and seeds of the first metric.", draw_robust);
	fputs("</div>\n", r->to);
	if (!rc)
		rc = comparison_table(r, "robust", "Gains under stale and noisy views");
	report_close(r);
	return rc;
}

static int draw_overhead(struct store *s, const char *run, struct plot *p, struct bace_err *e)
{
	sqlite3_stmt *q;
	int n = 0, rc = store_query(s, "SELECT DISTINCT subject FROM comparison WHERE run_id = ?1 AND kind = 'overhead' AND"
				    " x > 0 ORDER BY rowid LIMIT 8", run, &q, e);
	char *names[PLOT_SERIES_MAX];

	if (rc)
		return rc;
	plot_begin(p, 480, 400);
	while (n < PLOT_SERIES_MAX && sqlite3_step(q) == SQLITE_ROW)
		names[n++] = strdup(column_text(q, 0));
	sqlite3_finalize(q);
	for (int i = 0; !rc && i < n; i++) {
		char name[16];
		char *quoted = sqlite3_mprintf("SELECT x, 100 * value, 100 * coalesce(lo, value), 100 * coalesce(hi, value) FROM"
			" comparison WHERE run_id = ?1 AND kind = 'overhead' AND subject = %Q AND x > 0 AND metric = (SELECT"
			" metric FROM comparison WHERE run_id = ?1 AND kind = 'overhead' ORDER BY rowid LIMIT 1) ORDER BY x",
			names[i]);

		snprintf(name, sizeof(name), "d%d", i);
		rc = quoted ? add_rows(s, run, quoted, p, name, e) : bace_fail(e, ENOMEM, "plot: out of memory");
		sqlite3_free(quoted);
		rc = rc > 0 ? 0 : rc;
	}
	if (!n && !rc)
		rc = bace_fail(e, ENODATA, "nothing to plot");
	bace_buf_addf(&p->script, "set logscale x\nset offsets graph 0.06, graph 0.06, graph 0.06, graph 0.06\nset xlabel 'period of "
		      "monitoring (s)'\nset ylabel 'step time longer by (%%)'\nplot 0 lc rgb '#808080' dt 2 notitle");
	for (int i = 0; i < n; i++) {
		bace_buf_addf(&p->script, ", $d%d using 1:2:3:4 with yerrorlines lt %d ps 0.8 title ", i, i + 1);
		plot_text(p, names[i]);
		free(names[i]);
	}
	bace_buf_addf(&p->script, "\n");
	if (rc)
		bace_buf_free(&p->script);
	return rc;
}

int report_overhead(struct report *r)
{
	int rc;

	report_open(r, "overhead", "Cost of monitoring", "Paired steps with monitoring off and on.");
	fputs("<div class=\"plots\">\n", r->to);
	rc = report_plot(r, "Step time with monitoring",
			 "Line plot: by how much steps are longer with monitoring, over its period, one colour a method, "
			 "with 95 % intervals. The table below has every number.",
			 "By method of monitoring; bars are 95 % intervals.", draw_overhead);
	fputs("</div>\n", r->to);
	if (!rc)
		rc = comparison_table(r, "overhead", "Overhead by method and period");
	report_close(r);
	return rc;
}

int report_claims(struct report *r)
{
	int rc;

	report_open(r, "claims", "Published figures", "Each published figure beside ours, with its interval.");
	rc = comparison_table(r, "claims", "Published figures and ours");
	report_close(r);
	return rc;
}
