/* Where the gap between prediction and measurement comes from, and one step of
 * it drawn operation by operation. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/report.h"

#define GAP_ROWS_MAX 24		/* drawn; the table has all */
#define GANTT_OPS_MAX 6000

struct gaps {
	struct placement_ref *v;
	struct gap *gaps;
	size_t n;
};

static void gaps_free(struct gaps *g)
{
	free(g->v);
	free(g->gaps);
}

static int gaps_load(struct report *r, struct gaps *g)
{
	size_t kept = 0;
	int rc = measured_placements(r->s, r->run, NULL, &g->v, &g->n, r->e);

	g->gaps = rc ? NULL : calloc(g->n + 1, sizeof(*g->gaps));
	if (!rc && !g->gaps)
		rc = bace_fail(r->e, ENOMEM, "report: out of memory");
	for (size_t i = 0; !rc && i < g->n; i++) {
		rc = placement_gap(r->s, g->v[i].id, &g->gaps[kept], r->e);
		if (!rc && g->gaps[kept].n_steps && g->gaps[kept].event_sim_s > 0)
			g->v[kept++] = g->v[i];
	}
	g->n = kept;
	return rc;
}

enum { LATE, WHY, WAITING = WHY + SLOW_CAUSES, UNEXPLAINED, PARTS };

/* Positive parts grow to the right of zero, negative ones to the left. */
static void add_bar(struct bace_buf *b, int row, const double part[PARTS])
{
	double up = 0, down = 0;

	for (int k = 0; k < PARTS; k++) {
		double *side = part[k] >= 0 ? &up : &down;

		bace_buf_addf(b, "%d %.6g %.6g %d\n", row, *side, *side + part[k], k);
		*side += part[k];
	}
}

static int gap_plot(struct report *r, const struct gaps *g)
{
	int n = (int)(g->n < GAP_ROWS_MAX ? g->n : GAP_ROWS_MAX);
	struct plot p;

	plot_begin(&p, 900, 150 + 26 * n);
	bace_buf_addf(&p.script, "$d << EOD\n");
	for (int i = 0; i < n; i++) {
		const struct gap *x = &g->gaps[i];
		double part[PARTS];

		part[LATE] = 100 * x->overrun_s / x->event_sim_s;
		for (int k = 0; k < SLOW_CAUSES; k++)
			part[WHY + k] = 100 * x->why_s[k] / x->event_sim_s;
		part[WAITING] = 100 * x->waiting_s / x->event_sim_s;
		part[UNEXPLAINED] = 100 * x->unexplained_s / x->event_sim_s;
		add_bar(&p.script, i, part);
	}
	bace_buf_addf(&p.script, "EOD\nset yrange [%d.6:-0.6]\nset offsets graph 0.05, graph 0.05, 0, 0\n"
		      "set xlabel 'share of the predicted step time (%%)'\nset key outside top center horizontal\n"
		      "set arrow from 0, graph 0 to 0, graph 1 nohead lc rgb '#808080' lw 1.5 back\n"
		      "set ytics (", n - 1);
	for (int i = 0; i < n; i++) {
		char label[140];

		snprintf(label, sizeof(label), "%s, %s", g->v[i].policy, g->v[i].job);
		bace_buf_addf(&p.script, "%s", i ? ", " : "");
		plot_text(&p, label);
		bace_buf_addf(&p.script, " %d", i);
	}
	/* Lateness, five causes, waiting, the rest: a colour each. */
	bace_buf_addf(&p.script, ")\nset style fill solid 0.9 noborder\ncolour(k) = (k==0?2:k==1?1:k==2?3:k==3?4:k==4?5:k==5?6:k==6?8:7)"
		      "\ntitles = \"'computation late' 'slower: cwnd' 'slower: buffer' 'slower: contention' "
		      "'slower: retransmission' 'slower: other' 'waiting' 'unexplained'\"\nplot for [k=0:%d] $d using "
		      "(($4==k)?($2+$3)/2:1/0):1:2:3:($1-0.32):($1+0.32) with boxxyerror lt colour(k) title "
		      "word(titles, k+1)\n", PARTS - 1);
	return report_figure(r, &p, true, "What the gap is made of",
		"Horizontal stacked bars, one a placement: by how much of the predicted step time the measured step "
		"is longer or shorter, through late computation, messages slower than planned by cause (congestion "
		"window, buffers, other flows, retransmission, other), waiting, and what none of them explains. The tables below have every number.",
		"To the right of zero a part makes the step longer than predicted, to the left shorter.");
}

static int gap_table(struct report *r, const struct gaps *g)
{
	static const struct column columns[] = { { "policy", TEXT }, { "job", TEXT }, { "placement\n(region:GPUs)", FLEX },
		{ "event\nsim", SECONDS, 't' }, { "measured\nmean", SECONDS, 't' }, { "gap", PERCENT, 'p' },
		{ "computation\nlate", PERCENT, 'p' }, { "messages\nslower", PERCENT, 'p' },
		{ "waiting", PERCENT, 'p' }, { "unex-\nplained", PERCENT, 'p' }, { "n", COUNT } };
	struct table t = { .title = "Parts of the gap", .columns = columns, .n_columns = ARRAY_LEN(columns) };
	int rc = 0;

	for (size_t i = 0; i < g->n; i++) {
		const struct gap *x = &g->gaps[i];

		rc |= table_text(&t, g->v[i].policy);
		rc |= table_text(&t, g->v[i].job);
		rc |= table_text(&t, g->v[i].placement);
		rc |= table_number(&t, x->event_sim_s);
		rc |= table_number(&t, x->measured_s);
		rc |= table_number(&t, x->measured_s / x->event_sim_s - 1);
		rc |= table_number(&t, x->overrun_s / x->event_sim_s);
		rc |= table_number(&t, x->transfer_s / x->event_sim_s);
		rc |= table_number(&t, x->waiting_s / x->event_sim_s);
		rc |= table_number(&t, x->unexplained_s / x->event_sim_s);
		rc |= table_number(&t, x->n_steps);
	}
	rc |= table_html(&t, r->to);
	table_free(&t);
	return rc ? bace_fail(r->e, ENOMEM, "report: out of memory") : 0;
}

static int gap_why(struct report *r, const struct gaps *g)
{
	struct table t;
	int rc = why_table(g->v, g->gaps, g->n, &t);

	rc |= table_html(&t, r->to);
	table_free(&t);
	return rc ? bace_fail(r->e, ENOMEM, "report: out of memory") : 0;
}

int report_gap(struct report *r)
{
	struct gaps g = { 0 };
	int rc = gaps_load(r, &g);

	if (!rc && g.n) {
		report_open(r, "gap", "Where the gap comes from", "From the operations that a step waited for, end to "
			    "start: computation that ended late, messages that took longer than the planned link "
			    "allows, and the rest. Means over n steps, as shares of the predicted step time.");
		rc = gap_plot(r, &g);
		if (!rc)
			rc = gap_table(r, &g);
		if (!rc)
			rc = gap_why(r, &g);
		report_close(r);
	}
	gaps_free(&g);
	return rc;
}

/* ---- the pipeline, drawn ---- */

static void gantt_boxes(struct plot *p, const struct timeline *t, double origin, double scale, double shift)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct timeline_op *o = &t->ops[i];
		int k = o->received ? 3 : o->kind == 'F' ? 0 : o->kind == 'B' ? 1 : 2;

		bace_buf_addf(&p->script, "%.6g %.6g %.6g %d\n", o->stage + shift, (o->start - origin) / scale,
			      (o->end - origin) / scale, k);
	}
}

static double first_start(const struct timeline *t)
{
	double at = INFINITY;

	for (size_t i = 0; i < t->n; i++)
		if (!t->ops[i].received)
			at = fmin(at, t->ops[i].start);
	return at;
}

static int gantt_plot(struct report *r, const struct placement_ref *ref, const struct timeline *measured,
		      const struct timeline *sim, int step)
{
	int stages = measured->n_stages;
	CLEANUP_FREE char *caption = NULL;
	struct plot p;

	plot_begin(&p, 960, 100 + stages * (sim->n ? 44 : 30));
	bace_buf_addf(&p.script, "$m << EOD\n");
	gantt_boxes(&p, measured, first_start(measured), 1, sim->n ? 0.21 : 0);
	bace_buf_addf(&p.script, "EOD\n");
	if (sim->n) {
		bace_buf_addf(&p.script, "$s << EOD\n");
		gantt_boxes(&p, sim, first_start(sim), 1, -0.21);
		bace_buf_addf(&p.script, "EOD\n");
	}
	bace_buf_addf(&p.script, "h = %g\nset yrange [%d.6:-0.6]\nset ytics 1\nset ylabel 'stage'\nset offsets 0, "
		      "graph 0.01, 0, 0\nset xlabel 'time on the testbed (s)'\nset key outside top center "
		      "horizontal\nset style fill solid 0.9 noborder\n"
		      "box(k,d) = (k)\nplot for [k=0:2] $m using (($4==k)?$2:1/0):1:2:3:($1-h):($1+h) with "
		      "boxxyerror lt (k==0?1:k==1?2:7) title (k==0?'forward':k==1?'backward':'weights'), $m using "
		      "(($4==3)?$2:1/0):($1+h):($3-$2):(0) with vectors nohead lt 8 lw 1.5 title 'message'",
		      sim->n ? 0.18 : 0.32, stages - 1);
	if (sim->n)
		bace_buf_addf(&p.script, ", for [k=0:2] $s using (($4==k)?$2:1/0):1:2:3:($1-h):($1+h) with boxxyerror "
			      "lt (k==0?1:k==1?2:7) fs solid 0.45 noborder notitle, $s using (($4==3)?$2:1/0):($1-h)"
			      ":($3-$2):(0) with vectors nohead lt 8 lw 1 notitle");
	bace_buf_addf(&p.script, "\n");
	if (asprintf(&caption, "%s, %s on %s, step %d. %s", ref->policy, ref->job, ref->placement, step, sim->n ?
		     "In each stage the upper, paler bars are the prediction, the lower ones the measurement." :
		     "A bar is an operation; a line under a stage is a message on its way to it.") < 0)
		caption = NULL;
	return report_figure(r, &p, true, "Pipeline timeline",
		"Gantt chart: for every stage of the pipeline, bars for its forward and backward operations over the "
		"time of one step. `bace export` has every operation, `bace trace` opens in Perfetto.",
		caption ? caption : "");
}

/* The placement with the most stages of those whose step can still be read when
 * drawn; its middle step. */
static int choose(struct report *r, struct placement_ref *out, int *step)
{
	struct placement_ref *v = NULL;
	sqlite3_stmt *q;
	int64_t id = 0;
	size_t n;
	int rc = store_query(r->s, "SELECT p.id, (SELECT max(step) FROM op WHERE placement_id = p.id) FROM placement p"
			     " WHERE run_id = ?1 AND valid AND EXISTS (SELECT 1 FROM op WHERE placement_id = p.id)"
			     " ORDER BY p.stages * p.micro_batches > 1500, p.stages DESC, p.id LIMIT 1", r->run, &q,
			     r->e);

	if (rc)
		return rc;
	if (sqlite3_step(q) == SQLITE_ROW) {
		id = sqlite3_column_int64(q, 0);
		*step = sqlite3_column_int(q, 1) / 2;
	}
	sqlite3_finalize(q);
	rc = measured_placements(r->s, r->run, NULL, &v, &n, r->e);
	*out = (struct placement_ref){ 0 };
	for (size_t i = 0; !rc && i < n; i++)
		if (v[i].id == id)
			*out = v[i];
	free(v);
	return rc;
}

int report_gantt(struct report *r)
{
	struct timeline measured = { 0 }, sim = { 0 };
	struct placement_ref ref;
	int step = 0, rc = choose(r, &ref, &step);

	if (rc || !ref.id)
		return rc;
	rc = timeline_load(r->s, ref.id, false, step, step, &measured, r->e);
	if (!rc)
		rc = timeline_load(r->s, ref.id, true, 0, 1 << 30, &sim, r->e);
	report_open(r, "timeline", "One step in detail", "What every stage did, and when, in a step from the middle of "
		    "the run.");
	if (!rc && measured.n > GANTT_OPS_MAX) {
		fprintf(r->to, "<p>The step has %zu operations, too many to draw here; <code>bace trace ",
			measured.n);
		html_text(r->run, r->to);
		fputs("</code> writes them for Perfetto.</p>\n", r->to);
	} else if (!rc && measured.n)
		rc = gantt_plot(r, &ref, &measured, &sim, step);
	report_close(r);
	timeline_free(&measured);
	timeline_free(&sim);
	return rc;
}
