/* The tables of a run, by query. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/table.h"

static double relative(double of, double to)
{
	return of / to - 1;
}

static int placement_row(struct table *t, sqlite3_stmt *q)
{
	double event = column_number(q, 5), median = column_number(q, 6);
	int rc = table_text(t, column_text(q, 0));

	rc |= table_text(t, column_text(q, 1));
	rc |= table_text(t, column_text(q, 2));
	for (int i = 3; i < 8; i++)
		rc |= table_number(t, column_number(q, i));
	rc |= table_number(t, relative(median, event));
	rc |= table_number(t, column_number(q, 8));
	if (sqlite3_column_int(q, 9))
		return rc | table_text(t, isnan(median) ? "not measured" : "yes");
	return rc | table_text(t, column_text(q, 10)[0] ? column_text(q, 10) : "no");
}

/* Sums over different jobs are not compared, nor is a number with itself. */
static double difference(sqlite3_stmt *q, int of, int to)
{
	if (sqlite3_column_int(q, 2) != sqlite3_column_int(q, 7) ||
	    !strcmp(column_text(q, 1), "event-sim"))
		return NAN;
	return relative(column_number(q, of), column_number(q, to));
}

static int policy_row(struct table *t, sqlite3_stmt *q)
{
	char finished[32];
	int rc = table_text(t, column_text(q, 0));

	snprintf(finished, sizeof(finished), "%d of %d", sqlite3_column_int(q, 2),
		 sqlite3_column_int(q, 3));
	rc |= table_text(t, column_text(q, 1));
	rc |= table_text(t, finished);
	for (int i = 4; i < 7; i++) {
		rc |= table_number(t, column_number(q, i));
		rc |= table_number(t, difference(q, i, i + 4));
	}
	return rc;
}

static int plain_row(struct table *t, sqlite3_stmt *q)
{
	int rc = 0;

	for (int c = 0; c < t->n_columns; c++)
		rc |= column_is_text(&t->columns[c]) ? table_text(t, column_text(q, c)) :
			table_number(t, column_number(q, c));
	return rc;
}

static int link_row(struct table *t, sqlite3_stmt *q)
{
	double goodput = column_number(q, 7);
	int rc = table_text(t, column_text(q, 0));

	goodput = goodput > 0 ? goodput : NAN;
	rc |= table_text(t, column_text(q, 1));
	for (int i = 2; i < 6; i++)
		rc |= table_number(t, column_number(q, i));
	rc |= table_number(t, relative(column_number(q, 4), column_number(q, 2)));
	rc |= table_number(t, column_number(q, 6));
	rc |= table_number(t, goodput);
	return rc | table_number(t, relative(goodput, column_number(q, 6)));
}

static int bytes_row(struct table *t, sqlite3_stmt *q)
{
	double wire = column_number(q, 3), tc = column_number(q, 4);
	int rc = table_text(t, column_text(q, 0));

	rc |= table_text(t, column_text(q, 1));
	rc |= table_number(t, column_number(q, 2));
	rc |= table_number(t, wire);
	rc |= table_number(t, tc);
	rc |= table_number(t, relative(tc, wire));
	rc |= table_number(t, column_number(q, 5));
	rc |= table_text(t, column_text(q, 6));
	return rc | table_text(t, sqlite3_column_int(q, 7) ? "yes" : "no");
}

struct run_table_kind {
	const char *title, *note, *sql;
	struct column columns[16];
	int (*row)(struct table *t, sqlite3_stmt *q);
};

#define WANTED_POLICY " AND (?2 IS NULL OR policy = ?2)"
#define WANTED WANTED_POLICY " AND (?3 IS NULL OR job = ?3)"

/* Rows of bace robust: "BASELINE; WORLD" apart, ages and noise as they are said. */
#define BASELINE(of) "substr(" of ", 1, instr(" of " || '; ', '; ') - 1)"
#define WORLD(of) "substr(" of ", instr(" of " || '; ', '; ') + 2)"
#define AGE(of) "CASE WHEN " of " = 0 THEN '0' WHEN " of " < 1 THEN printf('%g ms', 1000 * " of ") WHEN " of \
	" < 60 THEN printf('%g s', " of ") WHEN " of " < 3600 THEN printf('%g min', " of " / 60) ELSE printf('%g h', " \
	of " / 3600) END"
/* Of the jobs that did not finish a run keeps what they have used up. */
#define DONE(table, column) "CASE WHEN " table ".finished THEN " table "." column " END"
#define NOISE(of) "printf('%g %%', 100 * " of ")"
/* One metric of a group of rows of table comparison. */
#define MEDIAN(of, arm) of "(CASE WHEN metric = 'median_percent' AND against = '" arm "' THEN value END) / 100"
#define ONLY(metric, column) "max(CASE metric WHEN '" metric "' THEN " column " END)"

static const struct run_table_kind kinds[N_RUN_TABLES] = {
	[TABLE_PLACEMENTS] = {
		"Step times: predicted and measured",
		"Unscaled. Measured: median and 95th percentile over n steps after warm-up. Error: of the "
		"median to the event simulation. At once: jobs that ran at the same time.",
		"SELECT policy, job, placement, jobs_at_once, closed_form_s, event_sim_s, measured_median_s,"
		" measured_p95_s, n_steps, valid, invalid_why FROM placement WHERE run_id = ?1" WANTED
		" ORDER BY id",
		{ { "policy", TEXT }, { "job", TEXT }, { "placement\n(region:GPUs)", FLEX },
		  { "at\nonce", COUNT }, { "closed\nform", SECONDS, 't' }, { "event\nsim", SECONDS, 't' },
		  { "measured\nmedian", SECONDS, 't' }, { "measured\np95", SECONDS, 't' },
		  { "error", PERCENT }, { "n", COUNT }, { "valid", STATUS } }, placement_row },
	[TABLE_POLICIES] = {
		"Policies: job completion time, energy and cost",
		"Over the finished jobs. JCT: mean. Energy: at the GPUs. Cost: with PUE and prices. "
		"Differences are to the event simulation of the same policy.",
		"SELECT o.policy, o.oracle, sum(o.finished), count(*), avg(" DONE("o", "jct_s") "), sum("
		DONE("o", "energy_j") "), sum(" DONE("o", "cost_usd") "), e.finished, e.jct_s, e.energy_j,"
		" e.cost_usd FROM job_outcome o LEFT JOIN (SELECT policy p, sum(finished) finished, avg("
		DONE("j", "jct_s") ") jct_s, sum(" DONE("j", "energy_j") ") energy_j, sum(" DONE("j", "cost_usd")
		") cost_usd FROM job_outcome j WHERE run_id = ?1 AND oracle = 'event-sim'"
		WANTED " GROUP BY policy) e ON e.p = o.policy WHERE run_id = ?1" WANTED
		" GROUP BY o.policy, o.oracle ORDER BY min(min(o.rowid)) OVER (PARTITION BY o.policy),"
		" min(o.rowid)",
		{ { "policy", TEXT }, { "oracle", TEXT }, { "finished", TEXT }, { "mean\nJCT", SECONDS },
		  { "differ-\nence", PERCENT, 'd' }, { "energy", JOULES }, { "differ-\nence", PERCENT, 'd' },
		  { "cost", DOLLARS }, { "differ-\nence", PERCENT, 'd' } }, policy_row },
	[TABLE_JOBS] = {
		"Jobs", "By oracle. Waiting: from arrival to start.",
		"SELECT policy, oracle, job, placement, jct_s, waiting_s, mean_step_s, energy_j, cost_usd FROM"
		" job_outcome WHERE run_id = ?1" WANTED " ORDER BY rowid",
		{ { "policy", TEXT }, { "oracle", TEXT }, { "job", TEXT }, { "placement\n(region:GPUs)", FLEX },
		  { "JCT", SECONDS, 'j' }, { "waiting", SECONDS, 'j' }, { "mean\nstep", SECONDS },
		  { "energy", JOULES }, { "cost", DOLLARS } }, plain_row },
	[TABLE_LINKS] = {
		"Links: planned and achieved",
		"In testbed (scaled) units. Goodput: one TCP connection, without its start. Error: of the "
		"median RTT and of the goodput to the plan.",
		"SELECT src, dst, planned_rtt_s, rtt_min_s, rtt_median_s, rtt_p99_s, planned_goodput_bps,"
		" goodput_bps FROM plan_check WHERE run_id = ?1 ORDER BY src, dst",
		{ { "from", TEXT }, { "to", TEXT }, { "planned\nRTT", SECONDS, 'r' },
		  { "RTT\nmin", SECONDS, 'r' }, { "RTT\nmedian", SECONDS, 'r' }, { "RTT\np99", SECONDS, 'r' },
		  { "error", PERCENT, 'p' }, { "planned\ngoodput", BITS_PER_S, 'g' },
		  { "achieved\ngoodput", BITS_PER_S, 'g' }, { "error", PERCENT, 'p' } }, link_row },
	[TABLE_BYTES] = {
		"Bytes: sent by the workers and counted by tc",
		"Per directed link, over all cells. Wire: framed payload with retransmissions. A cell in "
		"which they differ by more than 2 % is invalid.",
		"SELECT src, dst, count(*), sum(wire), sum(tc), sum(retrans), max(cc), min(ok) FROM (SELECT"
		" t.src, t.dst, sum(wire_bytes) wire, max(tc_bytes) tc, sum(retrans_bytes) retrans,"
		" max(congestion_control) cc, min(t.valid) ok FROM transfer t JOIN placement p ON p.id ="
		" t.placement_id WHERE p.run_id = ?1 AND p.valid GROUP BY t.src, t.dst, p.policy, p.moment)"
		" GROUP BY src, dst ORDER BY src, dst",
		{ { "from", TEXT }, { "to", TEXT }, { "cells", COUNT }, { "wire", BYTES, 'b' },
		  { "tc", BYTES, 'b' }, { "differ-\nence", PERCENT }, { "retrans-\nmitted", BYTES },
		  { "congestion\ncontrol", TEXT }, { "agree", STATUS } }, bytes_row },
	[TABLE_TCP] = {
		"TCP: what held the senders up",
		"By tcp_info, over the measured steps of all cells. Shares of the time that senders were busy. "
		"Window: the least congestion window at a step's end. `bace compare' says what it cost.",
		"SELECT t.src, t.dst, count(*) n, sum(s.busy_s), sum(s.rwnd_limited_s) / sum(s.busy_s),"
		" sum(s.sndbuf_limited_s) / sum(s.busy_s), sum(s.retrans_bytes) / sum(s.sent_bytes), min(s.cwnd_bytes),"
		" avg(s.rtt_s), min(s.min_rtt_s) FROM transfer_step s JOIN transfer t ON t.placement_id = s.placement_id AND"
		" t.hop = s.hop AND t.forward = s.forward JOIN placement p ON p.id = s.placement_id WHERE p.run_id = ?1 AND"
		" p.valid AND s.step >= 0" WANTED " GROUP BY t.src, t.dst ORDER BY t.src, t.dst",
		{ { "from", TEXT }, { "to", TEXT }, { "steps", COUNT }, { "busy", SECONDS },
		  { "receiver's\nwindow", PERCENT, 'p' }, { "sender's\nbuffer", PERCENT, 'p' },
		  { "retrans-\nmitted", PERCENT, 'p' }, { "window", BYTES }, { "mean\nRTT", SECONDS, 'r' },
		  { "least\nRTT", SECONDS, 'r' } }, plain_row },
	[TABLE_DISTURBED] = {
		"Links disturbed on the testbed",
		"Neither policies nor simulations were told. Unscaled; a trace begins with every cell.",
		"SELECT src, dst, nullif(jitter_s, 0), iif(jitter_s > 0, jitter_distribution, ''), nullif(loss, 0), trace,"
		" iif(loop, 'yes', '') FROM disturbance WHERE run_id = ?1 ORDER BY rowid",
		{ { "from", TEXT }, { "to", TEXT }, { "jitter", SECONDS }, { "distri-\nbution", TEXT }, { "loss", PERCENT },
		  { "trace", FLEX }, { "again and\nagain", TEXT } }, plain_row },
	[TABLE_SKIPPED] = {
		"Skipped or failed", NULL,
		"SELECT policy, what, why FROM skip WHERE run_id = ?1" WANTED_POLICY " ORDER BY rowid",
		{ { "policy", TEXT }, { "what", TEXT }, { "why", FLEX } }, plain_row },
	[TABLE_ROBUST] = {
		"Gains: exact view and least",
		"Gain: 1 - sum of the policy / sum of the baseline, mean over seeds, with its 95 % interval under the "
		"exact view. Least: over the views whose noise is uniform, additive and independent, and which view "
		"that is. HOLDS: in how many of these views the gain does.",
		"WITH c AS MATERIALIZED (SELECT rowid id, * FROM comparison WHERE run_id = ?1 AND kind = 'robust' AND"
		" metric IN ('jct_gain', 'cost_gain')), exact AS MATERIALIZED (SELECT * FROM c WHERE x = 0 AND y = 0)"
		" SELECT c.subject, " BASELINE("c.against") ", " WORLD("c.against") ", CASE c.metric WHEN 'jct_gain' THEN"
		" 'JCT' ELSE 'cost' END, e.value, e.lo, e.hi, min(c.value), " AGE("c.y") ", " NOISE("c.x") ","
		" sum(c.verdict = 'HOLDS') || ' of ' || count(*), c.n FROM c LEFT JOIN exact e ON e.metric = c.metric AND"
		" e.subject = c.subject AND e.against IS c.against GROUP BY c.subject, c.against, c.metric ORDER BY"
		" c.metric DESC, e.id",
		{ { "policy", TEXT }, { "against", TEXT }, { "world", FLEX }, { "gain\nin", TEXT }, { "exact\nview", PERCENT, 'g' },
		  { "from", PERCENT, 'g' }, { "to", PERCENT, 'g' }, { "least", PERCENT, 'g' }, { "view's\nage", TEXT },
		  { "noise", TEXT }, { "HOLDS", TEXT }, { "seeds\nn", COUNT } }, plain_row },
	[TABLE_ROBUST_VIEWS] = {
		"Gains by view",
		"Noise: uniform, additive, independent. Gains: means over n seeds with 95 % intervals. Verdicts are "
		"against the run's thresholds. Other kinds of noise, and biases, are in the store (bace export, table "
		"comparison).",
		"SELECT subject, " BASELINE("against") ", " WORLD("against") ", " AGE("y") ", " NOISE("x") ", "
		ONLY("jct_gain", "value") ", " ONLY("jct_gain", "lo") ", " ONLY("jct_gain", "hi") ", "
		ONLY("jct_gain", "verdict") ", " ONLY("cost_gain", "value") ", " ONLY("cost_gain", "lo") ", "
		ONLY("cost_gain", "hi") ", " ONLY("cost_gain", "verdict") ", max(n) FROM comparison WHERE run_id = ?1 AND"
		" kind = 'robust' AND metric IN ('jct_gain', 'cost_gain') GROUP BY subject, against, x, y ORDER BY min(rowid)",
		{ { "policy", TEXT }, { "against", TEXT }, { "world", FLEX }, { "view's\nage", TEXT }, { "noise", TEXT },
		  { "JCT\ngain", PERCENT, 'g' }, { "from", PERCENT, 'g' }, { "to", PERCENT, 'g' }, { "verdict", TEXT },
		  { "cost\ngain", PERCENT, 'g' }, { "from", PERCENT, 'g' }, { "to", PERCENT, 'g' }, { "verdict", TEXT },
		  { "n", COUNT } }, plain_row },
	[TABLE_OVERHEAD] = {
		"Cost of monitoring, and how soon it sees a change",
		"Inflation of the step time: median over n pairs of blocks, monitored and not, with its 95 % interval. "
		"CPU: of one core, mean over the agents. Sent: by the agents, a second. Seen: until the estimate of a "
		"changed link stays within 10 % of the truth (-: never), with the pipeline running (loaded) and "
		"without (idle). Error: of the estimate after that, or at the end.",
		"SELECT subject, x, " ONLY("inflation_percent", "value") " / 100, " ONLY("inflation_percent", "lo") " / 100, "
		ONLY("inflation_percent", "hi") " / 100, " ONLY("inflation_percent", "n") ", "
		ONLY("agent_cpu_percent", "value") ", " ONLY("wire_bytes_per_s", "value") ", "
		ONLY("probe_bytes_per_s", "value") ", " ONLY("detection_loaded_s", "value") ", "
		ONLY("error_loaded_percent", "value") ", " ONLY("detection_idle_s", "value") ", "
		ONLY("error_idle_percent", "value") ", CASE max(verdict) WHEN 'valid' THEN 'yes' ELSE max(verdict) END FROM"
		" comparison WHERE run_id = ?1 AND kind = 'overhead' GROUP BY subject, x ORDER BY min(rowid)",
		{ { "method", TEXT }, { "period", SECONDS }, { "infla-\ntion", PERCENT, 'i' }, { "from", PERCENT, 'i' },
		  { "to", PERCENT, 'i' }, { "n", COUNT }, { "CPU\n(%)", RATIO }, { "sent", BYTES }, { "probes\nsent", BYTES },
		  { "seen,\nloaded", SECONDS, 's' }, { "error\n(%)", RATIO }, { "seen,\nidle", SECONDS, 's' },
		  { "error\n(%)", RATIO }, { "valid", STATUS } }, plain_row },
	[TABLE_CLAIMS] = {
		"Published figures and how they stand",
		"Medians: the least and the largest over the figure's rows (baselines or ablations), with either start rule "
		"and the default choices otherwise. In range: mean share of the scenarios, with the default choices and "
		"with all open choices drawn (swept).",
		"SELECT published, verdict, " MEDIAN("min", "k_min") ", " MEDIAN("max", "k_min") ", " MEDIAN("min", "k_star")
		", " MEDIAN("max", "k_star") ", avg(CASE WHEN metric = 'in_range_percent' AND against <> 'swept' THEN value"
		" END), avg(CASE WHEN metric = 'in_range_percent' AND against = 'swept' THEN value END), max(n) FROM"
		" comparison WHERE run_id = ?1 AND kind = 'claims' GROUP BY published, verdict ORDER BY min(rowid)",
		{ { "published", FLEX }, { "here", TEXT }, { "k_min\nleast", PERCENT, 'm' }, { "k_min\nlargest", PERCENT, 'm' },
		  { "k_star\nleast", PERCENT, 'm' }, { "k_star\nlargest", PERCENT, 'm' }, { "in range\n(%)", COUNT },
		  { "swept\n(%)", COUNT }, { "scenarios\nn", COUNT } }, plain_row },
	[TABLE_CLAIMS_ROWS] = {
		"Published figures, row by row",
		"k_min, k_star: the default choices with either start rule; swept: the open choices drawn too. 5 %, median, "
		"95 %: quantiles over n scenarios. Mean with its 95 % interval. Direction, in range: share of scenarios.",
		"SELECT published, subject, against, " ONLY("q05_percent", "value") " / 100, "
		ONLY("median_percent", "value") " / 100, " ONLY("q95_percent", "value") " / 100, "
		ONLY("mean_percent", "value") " / 100, " ONLY("mean_percent", "lo") " / 100, "
		ONLY("mean_percent", "hi") " / 100, " ONLY("direction_percent", "value") ", "
		ONLY("in_range_percent", "value") ", max(n) FROM comparison WHERE run_id = ?1 AND kind = 'claims' GROUP BY"
		" published, subject, against ORDER BY min(rowid)",
		{ { "published", FLEX }, { "row", TEXT }, { "choices", TEXT }, { "5 %", PERCENT, 'q' },
		  { "median", PERCENT, 'q' }, { "95 %", PERCENT, 'q' }, { "mean", PERCENT, 'q' }, { "from", PERCENT, 'q' },
		  { "to", PERCENT, 'q' }, { "direction\n(%)", COUNT }, { "in range\n(%)", COUNT }, { "n", COUNT } },
		plain_row },
};

static int wanted_query(struct store *s, const char *sql, const char *run, const struct run_filter *f,
			sqlite3_stmt **q, struct bace_err *e)
{
	int rc = store_query(s, sql, run, q, e);

	if (rc || !f)
		return rc;
	sqlite3_bind_text(*q, 2, f->policy, -1, SQLITE_STATIC);
	sqlite3_bind_text(*q, 3, f->job, -1, SQLITE_STATIC);
	return 0;
}

int run_table(struct store *s, const char *run, const struct run_filter *f, enum run_table which,
	      struct table *out, struct bace_err *e)
{
	const struct run_table_kind *k = &kinds[which];
	sqlite3_stmt *q;
	int rc = wanted_query(s, k->sql, run, f, &q, e), step = SQLITE_DONE;

	*out = (struct table){ .title = k->title, .note = k->note, .columns = k->columns };
	while (out->n_columns < (int)ARRAY_LEN(k->columns) && k->columns[out->n_columns].title)
		out->n_columns++;
	if (rc)
		return rc;
	while (!rc && (step = sqlite3_step(q)) == SQLITE_ROW)
		if (k->row(out, q))
			rc = bace_fail(e, ENOMEM, "table: out of memory");
	if (!rc && step != SQLITE_DONE)
		rc = store_fail(s, e, "read");
	sqlite3_finalize(q);
	if (rc)
		table_free(out);
	return rc;
}

struct errors {
	size_t n, cap, n2, cap2;
	double *event, *closed;
};

static int take_accuracy(sqlite3_stmt *q, struct errors *v, struct accuracy *out)
{
	double median = column_number(q, 2), event = fabs(median / column_number(q, 1) - 1);
	double closed = fabs(median / column_number(q, 0) - 1);
	double first = fabs(column_number(q, 3) / median - 1);

	if (!sqlite3_column_int(q, 4)) {
		out->n_invalid++;
		return 0;
	}
	out->n_steps += sqlite3_column_int(q, 8);
	if (isfinite(first)) {
		out->worst_first = fmax(out->worst_first, first);
		out->n_first++;
	}
	if (isfinite(closed)) {
		out->worst_closed = fmax(out->worst_closed, closed);
		if (BACE_PUSH(v->closed, v->n2, v->cap2, closed))
			return -ENOMEM;
	}
	if (!isfinite(event))
		return 0;
	if (event >= out->worst_event) {
		out->worst_event = event;
		snprintf(out->worst_what, sizeof(out->worst_what), "%.40s, %.40s on %.70s",
			 column_text(q, 5), column_text(q, 6), column_text(q, 7));
	}
	return BACE_PUSH(v->event, v->n, v->cap, event);
}

int run_accuracy(struct store *s, const char *run, const struct run_filter *f, struct accuracy *out,
		 struct bace_err *e)
{
	struct errors v = { 0 };
	sqlite3_stmt *q;
	int step = SQLITE_DONE;
	/* A moment that several policies share was measured once: counted once. */
	int rc = wanted_query(s, "SELECT closed_form_s, event_sim_s, measured_median_s, measured_first_s,"
			      " valid, policy, job, placement, n_steps, min(id) FROM placement WHERE"
			      " run_id = ?1" WANTED " AND (measured_median_s IS NOT NULL OR NOT valid) GROUP"
			      " BY moment, job, valid", run, f, &q, e);

	*out = (struct accuracy){ .median_event = NAN, .median_closed = NAN };
	if (rc)
		return rc;
	while (!rc && (step = sqlite3_step(q)) == SQLITE_ROW)
		rc = take_accuracy(q, &v, out);
	if (rc)
		bace_fail(e, -rc, "accuracy: out of memory");
	else if (step != SQLITE_DONE)
		rc = store_fail(s, e, "read");
	sqlite3_finalize(q);
	out->n = v.n;
	out->n_closed = v.n2;
	out->median_event = stats_median(v.event, v.n);
	out->median_closed = stats_median(v.closed, v.n2);
	free(v.event);
	free(v.closed);
	return rc;
}
