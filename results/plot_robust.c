/* How much of a gain a late and noisy view takes: a heat map a baseline. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "results/report.h"

#define PANELS_MAX 12
#define AXIS_MAX 24

/* The largest loss over the worlds, against the exact view of the same world. */
static const char fields_sql[] =
	"WITH c AS MATERIALIZED (SELECT rowid id, subject, substr(against, 1, instr(against || '; ', '; ') - 1)"
	" baseline, against, x, y, value FROM comparison WHERE run_id = ?1 AND kind = 'robust' AND metric = ?2),"
	" exact AS MATERIALIZED (SELECT subject, against, value FROM c WHERE x = 0 AND y = 0)"
	" SELECT c.subject, c.baseline, c.x, c.y, 100 * min(c.value - e.value) FROM c JOIN exact e ON e.subject ="
	" c.subject AND e.against = c.against GROUP BY c.subject, c.baseline, c.x, c.y"
	" ORDER BY min(min(c.id)) OVER (PARTITION BY c.subject, c.baseline), c.subject, c.baseline, c.x, c.y";
static const char exact_sql[] =
	"SELECT 100 * min(value), 100 * max(value), count(*) FROM comparison WHERE run_id = ?1 AND kind = 'robust'"
	" AND metric = ?2 AND x = 0 AND y = 0 AND subject = ?3 AND substr(against, 1, instr(against || '; ', '; ') -"
	" 1) = ?4";

struct panel {
	char subject[64], baseline[64];
	struct bace_buf points;		/* column, row, points lost */
};

struct heat_map {
	struct panel panels[PANELS_MAX];
	int n, left_out;
	double x[AXIS_MAX], y[AXIS_MAX];
	int nx, ny;
	double most;			/* |points|; small changes stay pale */
};

static void heat_map_free(struct heat_map *h)
{
	for (int i = 0; i < PANELS_MAX; i++)
		bace_buf_free(&h->panels[i].points);
}

static int place(double *axis, int *n, double v)
{
	for (int i = 0; i < *n; i++)
		if (axis[i] == v)
			return i;
	if (*n == AXIS_MAX)
		return -1;
	axis[*n] = v;
	return (*n)++;
}

static void sort_axis(double *axis, int n)
{
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && axis[j] < axis[j - 1]; j--) {
			double t = axis[j];

			axis[j] = axis[j - 1];
			axis[j - 1] = t;
		}
}

static int take_axes(struct store *s, const char *run, const char *metric, struct heat_map *h, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT DISTINCT x, y FROM comparison WHERE run_id = ?1 AND kind = 'robust' AND metric ="
			     " ?2 AND x IS NOT NULL AND y IS NOT NULL", run, &q, e);

	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, metric, -1, SQLITE_STATIC);
	while (store_next(s, q, &rc, e)) {
		place(h->x, &h->nx, column_number(q, 0));
		place(h->y, &h->ny, column_number(q, 1));
	}
	sqlite3_finalize(q);
	sort_axis(h->x, h->nx);
	sort_axis(h->y, h->ny);
	return rc;
}

static int take_fields(struct store *s, const char *run, const char *metric, struct heat_map *h, struct bace_err *e)
{
	sqlite3_stmt *q;
	struct panel *p = NULL;
	int rc = store_query(s, fields_sql, run, &q, e), step;

	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, metric, -1, SQLITE_STATIC);
	while ((step = sqlite3_step(q)) == SQLITE_ROW) {
		const char *subject = column_text(q, 0), *baseline = column_text(q, 1);
		double v = column_number(q, 4);

		if (!h->n || strcmp(h->panels[h->n - 1].subject, subject) ||
		    strcmp(h->panels[h->n - 1].baseline, baseline)) {
			p = h->n < PANELS_MAX ? &h->panels[h->n++] : NULL;
			h->left_out += !p;
			if (p)
				*p = (struct panel){ 0 };
			if (p)
				snprintf(p->subject, sizeof(p->subject), "%s", subject);
			if (p)
				snprintf(p->baseline, sizeof(p->baseline), "%s", baseline);
		}
		if (!p || !isfinite(v))
			continue;
		h->most = fmax(h->most, fabs(v));
		bace_buf_addf(&p->points, "%d %d %.9g\n", place(h->x, &h->nx, column_number(q, 2)),
			      place(h->y, &h->ny, column_number(q, 3)), v);
	}
	rc = step == SQLITE_DONE ? 0 : store_fail(s, e, "read");
	sqlite3_finalize(q);
	return rc;
}

static void age_text(double s, char *text, size_t cap)
{
	if (s == 0)
		snprintf(text, cap, "0");
	else if (s < 1)
		snprintf(text, cap, "%g ms", 1000 * s);
	else if (s < 60)
		snprintf(text, cap, "%g s", s);
	else if (s < 3600)
		snprintf(text, cap, "%g min", s / 60);
	else
		snprintf(text, cap, "%g h", s / 3600);
}

/* "bace over lcf" and "exact: +40.4 %", or "+40.3 to +44.1 %" over several worlds. */
static int panel_title(struct store *s, const char *run, const char *metric, const struct panel *x, struct plot *p,
		       struct bace_err *e)
{
	char pair[144], exact[64] = "";
	sqlite3_stmt *q;
	int rc = store_query(s, exact_sql, run, &q, e);

	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, metric, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 3, x->subject, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 4, x->baseline, -1, SQLITE_STATIC);
	if (sqlite3_step(q) == SQLITE_ROW) {
		double lo = column_number(q, 0), hi = column_number(q, 1);

		if (fabs(hi - lo) < 0.05)
			snprintf(exact, sizeof(exact), "exact: %+.1f %%", lo);
		else
			snprintf(exact, sizeof(exact), "exact: %+.1f to %+.1f %%", lo, hi);
	}
	sqlite3_finalize(q);
	snprintf(pair, sizeof(pair), "%s over %s", x->subject, x->baseline);
	bace_buf_addf(&p->script, "set title ");
	plot_text(p, pair);
	bace_buf_addf(&p->script, ".\"\\n\".");
	plot_text(p, exact);
	bace_buf_addf(&p->script, " font ',13'\n");
	return 0;
}

static void draw_axes(const struct heat_map *h, struct plot *p)
{
	bace_buf_addf(&p->script, "unset grid\nunset key\nunset colorbox\nset offsets 0, 0, 0, 0\nset border 0\nset palette "
		      "maxcolors 41 defined (-1 '#e0813f', 0 '#b4b8bd', 1 '#5ea3d8')\nset cbrange [-%g:%g]\n"
		      "set xlabel 'noise'\nset xrange [-0.5:%g]\nset yrange [-0.5:%g]\nset tics scale 0 font ',12'\nset xtics (", h->most,
		      h->most, h->nx - 0.5, h->ny - 0.5);
	for (int i = 0; i < h->nx; i++)
		bace_buf_addf(&p->script, "%s'%g %%%%' %d", i ? ", " : "", 100 * h->x[i], i);
	bace_buf_addf(&p->script, ")\nset ytics (");
	for (int i = 0; i < h->ny; i++) {
		char text[24];

		age_text(h->y[i], text, sizeof(text));
		bace_buf_addf(&p->script, "%s'%s' %d", i ? ", " : "", text, i);
	}
	bace_buf_addf(&p->script, ")\n");
}

/* Ink on a field is dark on light and on dark pages: fields have one colour. */
static int draw(struct store *s, const char *run, const char *metric, const struct heat_map *h, struct plot *p,
		struct bace_err *e)
{
	int columns = h->nx <= 5 ? 4 : 2, rows, rc = 0;

	columns = h->n < columns ? h->n : columns;
	rows = (h->n + columns - 1) / columns;
	plot_begin(p, columns >= 3 ? 1000 : columns == 2 && h->nx > 5 ? 1000 : 60 + 300 * columns,
		   rows * (130 + 30 * h->ny));
	draw_axes(h, p);
	bace_buf_addf(&p->script, "set multiplot layout %d,%d\n", rows, columns);
	for (int i = 0; !rc && i < h->n; i++) {
		bace_buf_addf(&p->script, "$h%d << EOD\n%sEOD\n", i, h->panels[i].points.p ? h->panels[i].points.p : "");
		rc = panel_title(s, run, metric, &h->panels[i], p, e);
		bace_buf_addf(&p->script, "set ylabel %s\nplot $h%d using 1:2:(0.48):(0.46):3 with "
			      "boxxyerror fs solid noborder lc palette, $h%d using 1:2:(abs($3) < 0.05 ? '0.0' : "
			      "sprintf('%%+.1f', $3)) with labels font ',12' tc rgb '#101010'\n",
			      i % columns ? "''" : "'age of the view'", i, i);
	}
	bace_buf_addf(&p->script, "unset multiplot\n");
	return rc;
}

int report_heat_map(struct report *r, const char *metric, const char *title)
{
	struct heat_map h = { .most = 5 };
	struct plot p = { 0 };
	char caption[512], more[64] = "";
	int rc = take_axes(r->s, r->run, metric, &h, r->e);

	if (!rc)
		rc = take_fields(r->s, r->run, metric, &h, r->e);
	/* One view, or none that is exact: nothing that could be lost. */
	if (!rc && h.n && h.nx * h.ny > 1) {
		if (h.left_out)
			snprintf(more, sizeof(more), " %d more pairs are in the tables alone.", h.left_out);
		snprintf(caption, sizeof(caption), "Change of the gain against the exact view, in percentage points: of "
			 "several worlds the worst. A heat map for each baseline, headed by the gain under the exact "
			 "view.%s", more);
		rc = draw(r->s, r->run, metric, &h, &p, r->e);
		if (!rc)
			rc = report_figure(r, &p, true, title, "Heat maps, one for each baseline: across, the noise of the "
					   "view; up, its age; in each field by how many percentage points the gain "
					   "changes. The tables below have every number.", caption);
		else
			bace_buf_free(&p.script);
	}
	heat_map_free(&h);
	return rc;
}
