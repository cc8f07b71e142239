/* What the plots of a run show. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/compare.h"
#include "results/plot.h"
#include "results/table.h"

/* The policies of a run in order of first use: their colours everywhere. */
struct series {
	char *names[PLOT_SERIES_MAX];
	int n;
	int left_out;		/* more than can be told apart */
};

static void series_free(struct series *v)
{
	for (int i = 0; i < v->n; i++)
		free(v->names[i]);
}

static int series_read(struct store *s, const char *run, struct series *out, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT policy FROM (SELECT policy, rowid r FROM job_outcome WHERE run_id = ?1"
			     " UNION ALL SELECT policy, 1e12 + id FROM placement WHERE run_id = ?1) GROUP BY"
			     " policy ORDER BY min(r)", run, &q, e);

	*out = (struct series){ 0 };
	if (rc)
		return rc;
	while (store_next(s, q, &rc, e)) {
		if (out->n == PLOT_SERIES_MAX) {
			out->left_out++;
			continue;
		}
		out->names[out->n] = strdup(column_text(q, 0));
		if (!out->names[out->n++])
			rc = bace_fail(e, ENOMEM, "plot: out of memory");
	}
	sqlite3_finalize(q);
	if (rc)
		series_free(out);
	return rc;
}

static int series_of(const struct series *v, const char *policy)
{
	for (int i = 0; i < v->n; i++)
		if (!strcmp(v->names[i], policy))
			return i;
	return -1;
}

/* One named data block $NAME<i> a policy, from rows (policy, number...); block
 * sizes go to n[]. */
static int add_blocks(struct store *s, const char *run, const char *sql, const struct series *v,
		      const char *name, struct plot *p, int n[], struct bace_err *e)
{
	struct bace_buf blocks[PLOT_SERIES_MAX] = { 0 };
	sqlite3_stmt *q;
	int rc = store_query(s, sql, run, &q, e), total = 0;

	memset(n, 0, PLOT_SERIES_MAX * sizeof(*n));
	while (store_next(s, q, &rc, e)) {
		int i = series_of(v, column_text(q, 0));

		if (i < 0)
			continue;
		for (int c = 1; c < sqlite3_column_count(q); c++)
			bace_buf_addf(&blocks[i], "%.9g ", column_number(q, c));
		bace_buf_addf(&blocks[i], "\n");
		n[i]++;
		total++;
	}
	for (int i = 0; i < v->n; i++) {
		if (n[i])
			bace_buf_addf(&p->script, "$%s%d << EOD\n%sEOD\n", name, i, blocks[i].p);
		bace_buf_free(&blocks[i]);
	}
	sqlite3_finalize(q);
	return rc ? rc : total;
}

static int nothing(struct plot *p, struct series *v, int rc, struct bace_err *e)
{
	series_free(v);
	bace_buf_free(&p->script);
	return rc < 0 ? rc : bace_fail(e, ENODATA, "nothing to plot");
}

static double typical(struct store *s, const char *run, const char *sql, struct bace_err *e)
{
	sqlite3_stmt *q;
	double v = NAN;

	if (store_query(s, sql, run, &q, e))
		return NAN;
	if (sqlite3_step(q) == SQLITE_ROW)
		v = column_number(q, 0);
	sqlite3_finalize(q);
	return v;
}

int plot_measured_vs_predicted(struct store *s, const char *run, struct plot *p, struct bace_err *e)
{
	int n[PLOT_SERIES_MAX], rc;
	struct series v;
	struct unit u = unit_for(SECONDS, typical(s, run, "SELECT avg(event_sim_s) FROM placement WHERE"
						  " run_id = ?1", e), 1, 1);

	rc = series_read(s, run, &v, e);
	if (rc)
		return rc;
	plot_begin(p, 480, 420);
	p->left_out = v.left_out;
	rc = add_blocks(s, run, "SELECT policy, event_sim_s, measured_median_s, coalesce(measured_p95_s,"
			" measured_median_s) FROM placement WHERE run_id = ?1 AND valid AND"
			" measured_median_s > 0 AND event_sim_s > 0 ORDER BY id", &v, "d", p, n, e);
	if (rc <= 0)
		return nothing(p, &v, rc, e);
	bace_buf_addf(&p->script, "set xlabel 'predicted by event simulation (%s)'\nset ylabel 'measured, "
		      "median to p95 (%s)'\nset key outside top left horizontal maxrows 3\nu = %g\nplot x with lines lc rgb '#808080' lw "
		      "1 dt 2 title 'equal'", u.name, u.name, u.factor);
	for (int i = 0; i < v.n; i++) {
		if (!n[i])
			continue;
		bace_buf_addf(&p->script, ", $d%d using ($1/u):($2/u):($2/u):($3/u) with yerrorbars lt %d ps "
			      "0.7 title ", i, i + 1);
		plot_text(p, v.names[i]);
	}
	bace_buf_addf(&p->script, "\n");
	series_free(&v);
	return 0;
}

/* The measured outcomes, or what there is, that no other beats in both, of the
 * policies that are drawn. */
static int add_front(struct store *s, const char *run, const struct series *v, struct plot *p, struct bace_err *e)
{
	sqlite3_stmt *q;
	double least = INFINITY, before = NAN;
	int n = 0, rc = store_query(s, "WITH o AS (SELECT policy, oracle, avg(jct_s) jct, sum(cost_usd) cost"
		" FROM job_outcome WHERE run_id = ?1 AND finished GROUP BY policy, oracle) SELECT jct, cost,"
		" policy FROM o WHERE oracle = (SELECT CASE WHEN count(*) THEN 'measured' ELSE 'event-sim' END FROM o"
		" WHERE oracle = 'measured') ORDER BY jct, cost", run, &q, e);

	if (rc)
		return rc;
	bace_buf_addf(&p->script, "$front << EOD\n");
	while (store_next(s, q, &rc, e)) {
		double jct = column_number(q, 0), cost = column_number(q, 1);

		if (!(cost < least) || series_of(v, column_text(q, 2)) < 0)
			continue;
		if (n)
			bace_buf_addf(&p->script, "%.9g %.9g\n", jct, before);
		bace_buf_addf(&p->script, "%.9g %.9g\n", jct, cost);
		least = before = cost;
		n++;
	}
	bace_buf_addf(&p->script, "EOD\n");
	sqlite3_finalize(q);
	return rc ? rc : n;
}

#define OUTCOME(oracle) "SELECT policy, avg(jct_s), sum(cost_usd) FROM job_outcome WHERE run_id = ?1 AND " \
	"finished AND oracle = '" oracle "' GROUP BY policy"
#define BOTH "SELECT policy, avg(a_s), sum(a_usd), avg(b_s) - avg(a_s), sum(b_usd) - sum(a_usd) FROM (SELECT policy, " \
	OUTCOME_BY("event-sim", "jct_s") " a_s, " OUTCOME_BY("measured", "jct_s") " b_s, " \
	OUTCOME_BY("event-sim", "cost_usd") " a_usd, " OUTCOME_BY("measured", "cost_usd") " b_usd FROM job_outcome " \
	"WHERE run_id = ?1 AND finished GROUP BY policy, job HAVING sum(oracle = 'event-sim') AND sum(oracle = " \
	"'measured')) GROUP BY policy"

int plot_cost_vs_jct(struct store *s, const char *run, struct plot *p, struct bace_err *e)
{
	int sim[PLOT_SERIES_MAX], measured[PLOT_SERIES_MAX], both[PLOT_SERIES_MAX], rc, any, front;
	struct series v;
	struct unit u = unit_for(SECONDS, typical(s, run, "SELECT avg(jct_s) FROM job_outcome WHERE"
						  " run_id = ?1", e), 1, 1);

	rc = series_read(s, run, &v, e);
	if (rc)
		return rc;
	plot_begin(p, 480, 420);
	p->left_out = v.left_out;
	rc = any = add_blocks(s, run, OUTCOME("event-sim"), &v, "s", p, sim, e);
	if (rc >= 0)
		rc = add_blocks(s, run, OUTCOME("measured"), &v, "m", p, measured, e);
	any += rc;
	if (rc >= 0)
		rc = add_blocks(s, run, BOTH, &v, "b", p, both, e);
	front = rc < 0 ? rc : add_front(s, run, &v, p, e);
	if (front < 0 || any <= 0)
		return nothing(p, &v, front, e);
	bace_buf_addf(&p->script, "set xlabel 'mean job completion time (%s)'\nset ylabel 'cost of all jobs "
		      "(USD)'\nset key outside top left horizontal maxrows 3\nu = %g\nplot $front using ($1/u):2 with lines lc rgb '#808080' lw 1 dt 2 title "
		      "'not beaten in both'", u.name, u.factor);
	for (int i = 0; i < v.n; i++) {
		if (both[i])
			bace_buf_addf(&p->script, ", $b%d using ($1/u):2:($3/u):4 with vectors nohead lt %d lw 1 "
				      "notitle", i, i + 1);
		if (sim[i])
			bace_buf_addf(&p->script, ", $s%d using ($1/u):2 with points lt %d pt %d ps 1.1 notitle",
				      i, i + 1, plot_point(i, false));
		if (measured[i])
			bace_buf_addf(&p->script, ", $m%d using ($1/u):2 with points lt %d ps 1.1 notitle", i,
				      i + 1);
		bace_buf_addf(&p->script, ", keyentry with points lt %d ps 1.1 title ", i + 1);
		plot_text(p, v.names[i]);
	}
	bace_buf_addf(&p->script, ", keyentry with points pt 6 ps 1.1 lc rgb '#808080' title 'event simulation',"
		      " keyentry with points pt 7 ps 1.1 lc rgb '#808080' title 'measured'\n");
	series_free(&v);
	return 0;
}

int plot_jct_distribution(struct store *s, const char *run, struct plot *p, struct bace_err *e)
{
	int sim[PLOT_SERIES_MAX], measured[PLOT_SERIES_MAX], rc, any;
	struct series v;
	struct unit u = unit_for(SECONDS, typical(s, run, "SELECT avg(jct_s) FROM job_outcome WHERE"
						  " run_id = ?1", e), 1, 1);
	const char *sql = "SELECT policy, jct_s, cume_dist() OVER (PARTITION BY policy ORDER BY jct_s) FROM"
		" job_outcome WHERE run_id = ?1 AND finished AND oracle = '%s' UNION ALL SELECT policy,"
		" min(jct_s), 0 FROM job_outcome WHERE run_id = ?1 AND finished AND oracle = '%s' GROUP BY"
		" policy ORDER BY 1, 2, 3";
	CLEANUP_FREE char *sql_sim = NULL, *sql_measured = NULL;

	if (asprintf(&sql_sim, sql, "event-sim", "event-sim") < 0 ||
	    asprintf(&sql_measured, sql, "measured", "measured") < 0)
		return bace_fail(e, ENOMEM, "plot: out of memory");
	rc = series_read(s, run, &v, e);
	if (rc)
		return rc;
	plot_begin(p, 480, 420);
	p->left_out = v.left_out;
	rc = any = add_blocks(s, run, sql_sim, &v, "s", p, sim, e);
	if (rc >= 0)
		rc = add_blocks(s, run, sql_measured, &v, "m", p, measured, e);
	any += rc;
	if (rc < 0 || any <= 0)
		return nothing(p, &v, rc, e);
	bace_buf_addf(&p->script, "set xlabel 'job completion time (%s)'\nset ylabel 'fraction of jobs'\n"
		      "set yrange [0:1]\nset offsets graph 0.06, graph 0.06, 0, 0\nset key outside top left horizontal maxrows 3\n"
		      "u = %g\nplot 1/0 notitle", u.name, u.factor);
	for (int i = 0; i < v.n; i++) {
		if (sim[i])
			bace_buf_addf(&p->script, ", $s%d using ($1/u):2 with steps lt %d dt 2 notitle", i, i + 1);
		if (measured[i])
			bace_buf_addf(&p->script, ", $m%d using ($1/u):2 with steps lt %d lw 2 notitle", i, i + 1);
		bace_buf_addf(&p->script, ", keyentry with lines lt %d lw 2 title ", i + 1);
		plot_text(p, v.names[i]);
	}
	bace_buf_addf(&p->script, ", keyentry with lines dt 2 lc rgb '#808080' title 'event simulation', keyentry "
		      "with lines lw 2 lc rgb '#808080' title 'measured'\n");
	series_free(&v);
	return 0;
}
