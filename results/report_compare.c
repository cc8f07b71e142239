/* What bace robust, overhead and claims found. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/report.h"

static int add_rows(struct store *s, const char *run, const char *sql, struct plot *p, const char *name,
		    struct bace_err *e)
{
	sqlite3_stmt *q;
	int n = 0, rc = store_query(s, sql, run, &q, e);

	if (rc)
		return rc;
	bace_buf_addf(&p->script, "$%s << EOD\n", name);
	for (; store_next(s, q, &rc, e); n++) {
		for (int c = 0; c < sqlite3_column_count(q); c++)
			bace_buf_addf(&p->script, "%.9g ", column_number(q, c));
		bace_buf_addf(&p->script, "\n");
	}
	bace_buf_addf(&p->script, "EOD\n");
	sqlite3_finalize(q);
	return rc ? rc : n;
}

/* ---- robust ---- */

int report_robust(struct report *r)
{
	int rc;

	report_open(r, "robust", "Stale and noisy views", "What is left of a gain when the policy is told an old and "
		    "noisy state of the network and of prices.");
	rc = report_heat_map(r, "jct_gain", "JCT gain lost to the view");
	if (!rc)
		rc = report_heat_map(r, "cost_gain", "Cost gain lost to the view");
	if (!rc)
		rc = report_table(r, TABLE_ROBUST, NULL);
	if (!rc)
		rc = report_table(r, TABLE_ROBUST_VIEWS, NULL);
	report_close(r);
	return rc;
}

/* ---- overhead ---- */

static int draw_overhead(struct store *s, const char *run, struct plot *p, struct bace_err *e)
{
	sqlite3_stmt *q;
	int n = 0, rc = store_query(s, "SELECT DISTINCT subject FROM comparison WHERE run_id = ?1 AND kind = 'overhead' AND"
				    " metric = 'inflation_percent' AND x > 0 ORDER BY rowid", run, &q, e);
	char *names[PLOT_SERIES_MAX];

	if (rc)
		return rc;
	plot_begin(p, 480, 400);
	while (store_next(s, q, &rc, e)) {
		if (n == PLOT_SERIES_MAX)
			p->left_out++;
		else
			names[n++] = strdup(column_text(q, 0));
	}
	sqlite3_finalize(q);
	for (int i = 0; !rc && i < n; i++) {
		char name[16];
		char *quoted = sqlite3_mprintf("SELECT x, value, coalesce(lo, value), coalesce(hi, value) FROM"
			" comparison WHERE run_id = ?1 AND kind = 'overhead' AND subject = %Q AND x > 0 AND metric ="
			" 'inflation_percent' ORDER BY x", names[i] ? names[i] : "");

		snprintf(name, sizeof(name), "d%d", i);
		rc = quoted ? add_rows(s, run, quoted, p, name, e) : bace_fail(e, ENOMEM, "plot: out of memory");
		sqlite3_free(quoted);
		rc = rc > 0 ? 0 : rc;
	}
	if (!n && !rc)
		rc = bace_fail(e, ENODATA, "nothing to plot");
	/* Methods at one period stand beside each other. */
	bace_buf_addf(&p->script, "set logscale x\nset offsets graph 0.06, graph 0.06, graph 0.06, graph 0.06\nset xlabel "
		      "'period of monitoring (s)'\nset ylabel 'step time longer by (%%)'\nset key outside top left "
		      "horizontal maxcols 2\nplot 0 lc rgb '#808080' dt 2 notitle");
	for (int i = 0; i < n; i++) {
		bace_buf_addf(&p->script, ", $d%d using ($1*%.3f):2:3:4 with yerrorlines lt %d ps 0.8 title ", i,
			      pow(1.07, i - (n - 1) / 2.0), i + 1);
		plot_text(p, names[i] ? names[i] : "");
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

	report_open(r, "overhead", "Cost of monitoring", "Paired blocks of steps, with monitoring off and on.");
	fputs("<div class=\"plots\">\n", r->to);
	rc = report_plot(r, "Step time with monitoring",
			 "Line plot: by how many percent steps are longer with monitoring, over its period, one colour and "
			 "shape a method, with 95 % intervals. The table below has every number.",
			 "By period of monitoring; bars are 95 % intervals. A cost whose interval holds 0 is not told from none.",
			 draw_overhead);
	if (!rc)
		rc = report_plot(r, "Cost against delay",
				 "Line plot: by how many percent steps are longer with monitoring, over the time until a "
				 "changed link is seen, one curve a method, one point a period. The table below has every "
				 "number.",
				 "What each method costs, and how soon it sees a changed link under load. A method that "
				 "never sees it is not drawn.", plot_overhead_curve);
	fputs("</div>\n", r->to);
	if (!rc)
		rc = report_table(r, TABLE_OVERHEAD, NULL);
	report_close(r);
	return rc;
}

int report_claims(struct report *r)
{
	int rc;

	report_open(r, "claims", "Published figures", "Each published figure beside scenarios drawn from the published "
		    "ranges.");
	rc = report_table(r, TABLE_CLAIMS, NULL);
	if (!rc)
		rc = report_table(r, TABLE_CLAIMS_ROWS, NULL);
	report_close(r);
	return rc;
}
