/* What monitoring costs against how soon it notices. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/plot.h"

struct curve {
	char *name;
	struct bace_buf points;
};

#define ROWS " FROM comparison WHERE run_id = ?1 AND kind = 'overhead' AND metric = 'inflation_percent' AND x > 0"

/* *left_out: methods for which v has no room. */
static int read_curves(struct store *s, const char *run, struct curve *v, int *n, int *left_out, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT subject, x, y, value, lo, hi, (SELECT count(DISTINCT subject)" ROWS ")" ROWS
			     " ORDER BY rowid", run, &q, e);

	*n = *left_out = 0;
	if (rc)
		return rc;
	while (store_next(s, q, &rc, e)) {
		const char *name = column_text(q, 0);
		int i = 0, methods = sqlite3_column_int(q, 6);

		*left_out = methods > PLOT_SERIES_MAX ? methods - PLOT_SERIES_MAX : 0;
		while (i < *n && strcmp(v[i].name, name))
			i++;
		if (i == PLOT_SERIES_MAX)
			continue;
		if (i == *n) {
			v[i].name = strdup(name);
			if (!v[i].name)
				rc = bace_fail(e, ENOMEM, "plot: out of memory");
			else
				(*n)++;
		}
		/* A method that never saw a change has a colour all the same. */
		if (!rc && column_number(q, 2) > 0)
			bace_buf_addf(&v[i].points, "%.9g %.9g %.9g %.9g %.9g\n", column_number(q, 2),
				      column_number(q, 3), column_number(q, 4), column_number(q, 5),
				      column_number(q, 1));
	}
	sqlite3_finalize(q);
	return rc;
}

static void draw(const struct curve *v, int n, struct plot *p)
{
	for (int i = 0; i < n; i++)
		if (v[i].points.p)
			bace_buf_addf(&p->script, "$c%d << EOD\n%sEOD\n", i, v[i].points.p);
	bace_buf_addf(&p->script, "set logscale x\nset xlabel 'time until a changed rate is seen, loaded (s)'\n"
		      "set ylabel 'step time longer by (%%)'\nset key outside top left horizontal maxcols 2\nplot 0 with lines lc rgb '#808080' lw 1 dt 2 notitle");
	for (int i = 0; i < n; i++) {
		if (!v[i].points.p)
			continue;
		bace_buf_addf(&p->script, ", $c%d using 1:2 with lines lt %d notitle, $c%d using 1:2:3:4 with "
			      "yerrorbars lt %d ps 0.8 title ", i, i + 1, i, i + 1);
		plot_text(p, v[i].name);
	}
	bace_buf_addf(&p->script, "\n");
}

static int overhead_curve(struct store *s, const char *run, int width, int height, struct plot *p, struct bace_err *e)
{
	struct curve v[PLOT_SERIES_MAX + 1] = { 0 };
	int n, left_out, rc = read_curves(s, run, v, &n, &left_out, e);
	bool any = false;

	for (int i = 0; i < n; i++)
		any = any || v[i].points.p;
	if (!rc && !any)
		rc = bace_fail(e, ENODATA, "nothing to plot: no change of a link was seen by any method");
	if (!rc) {
		plot_begin(p, width, height);
		p->left_out = left_out;
		draw(v, n, p);
	}
	for (int i = 0; i <= PLOT_SERIES_MAX; i++) {
		free(v[i].name);
		bace_buf_free(&v[i].points);
	}
	return rc;
}

int plot_overhead_curve(struct store *s, const char *run, struct plot *p, struct bace_err *e)
{
	return overhead_curve(s, run, 480, 400, p, e);
}

int results_write_overhead_plot(struct store *s, const char *run, const char *path, struct bace_err *e)
{
	CLEANUP_FREE char *svg = NULL;
	struct plot p;
	int rc = overhead_curve(s, run, 640, 440, &p, e);

	if (!rc)
		rc = plot_finish(&p, "overhead", "Cost of monitoring against its delay", "Step-time inflation over the "
				 "time until a changed link rate is seen, one curve a method, one point a period", &svg, e);
	if (rc)
		return rc;
	CLEANUP_FCLOSE FILE *f = fopen(path, "we");

	if (!f || fputs(svg, f) < 0 || fflush(f))
		return bace_fail_errno(e, errno, "write %s", path);
	return 0;
}
