/* Links as a matrix of regions, and what was counted on them. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/report.h"

#define REGIONS_MAX 40
#define FULL_TONE 0.10		/* a deviation that gets the strongest colour */

struct check {
	char *src, *dst;
	double planned_rtt, rtt, planned_goodput, goodput;
};

struct checks {
	struct check *v;
	size_t n, cap;
	char *regions[REGIONS_MAX];
	int n_regions;
};

static void checks_free(struct checks *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->v[i].src);
		free(c->v[i].dst);
	}
	free(c->v);
}

static void add_region(struct checks *c, char *name)
{
	for (int i = 0; i < c->n_regions; i++)
		if (!strcmp(c->regions[i], name))
			return;
	if (c->n_regions < REGIONS_MAX)
		c->regions[c->n_regions++] = name;
}

static int checks_load(struct report *r, struct checks *c)
{
	sqlite3_stmt *q;
	int rc = store_query(r->s, "SELECT src, dst, planned_rtt_s, rtt_median_s, planned_goodput_bps, goodput_bps"
			     " FROM plan_check WHERE run_id = ?1 ORDER BY src, dst", r->run, &q, r->e);

	while (store_next(r->s, q, &rc, r->e)) {
		struct check x = { strdup(column_text(q, 0)), strdup(column_text(q, 1)), column_number(q, 2),
			column_number(q, 3), column_number(q, 4), column_number(q, 5) };

		if (!x.src || !x.dst || BACE_PUSH(c->v, c->n, c->cap, x)) {
			free(x.src);
			free(x.dst);
			rc = bace_fail(r->e, ENOMEM, "report: out of memory");
		}
	}
	sqlite3_finalize(q);
	for (size_t i = 0; i < c->n; i++) {
		add_region(c, c->v[i].src);
		add_region(c, c->v[i].dst);
	}
	return rc;
}

static const struct check *find(const struct checks *c, const char *src, const char *dst)
{
	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->v[i].src, src) && !strcmp(c->v[i].dst, dst))
			return &c->v[i];
	return NULL;
}

static void signed_percent(FILE *to, const char *what, double fraction)
{
	if (isfinite(fraction))
		fprintf(to, "%s %s%.1f\u2009%%", what, fraction < 0 ? "\u2212" : "+", 100 * fabs(fraction));
	else
		fprintf(to, "%s \u2013", what);
}

static void matrix_cell(FILE *to, const struct check *x)
{
	double rtt, goodput, worst;

	if (!x) {
		fputs("<td>\u00b7</td>", to);
		return;
	}
	rtt = x->rtt / x->planned_rtt - 1;
	goodput = x->goodput > 0 ? x->goodput / x->planned_goodput - 1 : NAN;
	worst = isnan(rtt) || fabs(goodput) > fabs(rtt) ? goodput : rtt;
	if (isfinite(worst))
		fprintf(to, "<td class=\"%s\" style=\"--deep:%.0f%%\">", worst > 0 ? "high" : "low",
			fmin(1, fabs(worst) / FULL_TONE) * 55);
	else
		fputs("<td>", to);
	signed_percent(to, "RTT", rtt);
	if (isfinite(rtt))
		fprintf(to, "<small>%.3g \u2192 %.3g ms</small>", x->planned_rtt * 1e3, x->rtt * 1e3);
	signed_percent(to, "rate", goodput);
	if (isfinite(goodput))
		fprintf(to, "<small>%.4g \u2192 %.4g Mbit/s</small>", x->planned_goodput / 1e6, x->goodput / 1e6);
	fputs("</td>", to);
}

static void matrix(struct report *r, const struct checks *c)
{
	fputs("<h3>Plan \u2192 achieved, from row to column</h3>\n<p class=\"lead\">In testbed (scaled) units. The "
	      "colour follows the larger deviation: orange above the plan, blue below it, full at 10 %.</p>\n"
	      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Matrix of links\"><table aria-label=\"Matrix of links\" "
	      "class=\"matrix\"><thead><tr><th scope=\"col\">from \\ to</th>", r->to);
	for (int i = 0; i < c->n_regions; i++) {
		fputs("<th scope=\"col\">", r->to);
		html_text(c->regions[i], r->to);
		fputs("</th>", r->to);
	}
	fputs("</tr></thead>\n<tbody>\n", r->to);
	for (int i = 0; i < c->n_regions; i++) {
		fputs("<tr><th scope=\"row\">", r->to);
		html_text(c->regions[i], r->to);
		fputs("</th>", r->to);
		for (int k = 0; k < c->n_regions; k++)
			matrix_cell(r->to, find(c, c->regions[i], c->regions[k]));
		fputs("</tr>\n", r->to);
	}
	fputs("</tbody></table></div>\n", r->to);
}

int report_links(struct report *r)
{
	struct checks c = { 0 };
	int rc = checks_load(r, &c);

	if (!rc) {
		report_open(r, "links", "Links", "Was the emulated network the one that was asked for? Every link in use "
			    "was measured before the run, and its bytes were counted during it.");
		matrix(r, &c);
		rc = report_table(r, TABLE_LINKS, NULL);
		if (!rc)
			rc = report_table(r, TABLE_BYTES, NULL);
		report_close(r);
	}
	checks_free(&c);
	return rc;
}
