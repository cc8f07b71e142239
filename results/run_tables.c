/* The tables of a run, by query. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/table.h"

#define HOUR_S 3600.0
#define JOULE_PER_KWH 3.6e6

static double number(sqlite3_stmt *q, int column)
{
	return sqlite3_column_type(q, column) == SQLITE_NULL ? NAN : sqlite3_column_double(q, column);
}

static const char *text(sqlite3_stmt *q, int column)
{
	const char *t = (const char *)sqlite3_column_text(q, column);

	return t ? t : "";
}

static int percent(struct table *t, double of, double to)
{
	if (isnan(of) || isnan(to) || to == 0)
		return table_add_number(t, 1, NAN);
	return table_add(t, "%+.1f", 100 * (of / to - 1));
}

static int placement_row(struct table *t, sqlite3_stmt *q)
{
	double event = number(q, 5), median = number(q, 6);
	int rc = table_add(t, "%s", text(q, 0));

	rc |= table_add(t, "%s", text(q, 1));
	rc |= table_add(t, "%s", text(q, 2));
	rc |= table_add(t, "%d", sqlite3_column_int(q, 3));
	rc |= table_add_number(t, 3, number(q, 4));
	rc |= table_add_number(t, 3, event);
	rc |= table_add_number(t, 3, median);
	rc |= table_add_number(t, 3, number(q, 7));
	rc |= percent(t, median, event);
	rc |= table_add(t, "%d", sqlite3_column_int(q, 8));
	rc |= table_add(t, "%s", sqlite3_column_int(q, 9) ? "yes" : text(q, 10));
	return rc ? -ENOMEM : 0;
}

static int policy_row(struct table *t, sqlite3_stmt *q)
{
	int rc = table_add(t, "%s", text(q, 0));

	rc |= table_add(t, "%s", text(q, 1));
	rc |= table_add(t, "%d", sqlite3_column_int(q, 2));
	rc |= table_add_number(t, 2, number(q, 3) / HOUR_S);
	rc |= percent(t, number(q, 3), number(q, 6));
	rc |= table_add_number(t, 2, number(q, 4) / JOULE_PER_KWH);
	rc |= table_add_number(t, 2, number(q, 5));
	rc |= percent(t, number(q, 5), number(q, 7));
	return rc ? -ENOMEM : 0;
}

static int job_row(struct table *t, sqlite3_stmt *q)
{
	int rc = table_add(t, "%s", text(q, 0));

	rc |= table_add(t, "%s", text(q, 1));
	rc |= table_add(t, "%s", text(q, 2));
	rc |= table_add(t, "%s", text(q, 3));
	rc |= table_add_number(t, 2, number(q, 4) / HOUR_S);
	rc |= table_add_number(t, 2, number(q, 5) / HOUR_S);
	rc |= table_add_number(t, 2, number(q, 6) / JOULE_PER_KWH);
	rc |= table_add_number(t, 2, number(q, 7));
	return rc ? -ENOMEM : 0;
}

static int link_row(struct table *t, sqlite3_stmt *q)
{
	double goodput = number(q, 5);
	int rc = table_add(t, "%s", text(q, 0));

	rc |= table_add(t, "%s", text(q, 1));
	rc |= table_add_number(t, 2, number(q, 2) * 1e3);
	rc |= table_add_number(t, 2, number(q, 3) * 1e3);
	rc |= percent(t, number(q, 3), number(q, 2));
	rc |= table_add_number(t, 2, number(q, 4) / 1e6);
	rc |= table_add_number(t, 2, goodput > 0 ? goodput / 1e6 : NAN);
	rc |= percent(t, goodput > 0 ? goodput : NAN, number(q, 4));
	return rc ? -ENOMEM : 0;
}

static int bytes_row(struct table *t, sqlite3_stmt *q)
{
	int rc = table_add(t, "%s", text(q, 0));

	rc |= table_add(t, "%s", text(q, 1));
	rc |= table_add(t, "%d", sqlite3_column_int(q, 2));
	rc |= table_add_number(t, 2, number(q, 3) / 1e6);
	rc |= table_add_number(t, 2, number(q, 4) / 1e6);
	rc |= percent(t, number(q, 4), number(q, 3));
	rc |= table_add_number(t, 3, number(q, 5) / 1e6);
	rc |= table_add(t, "%s", text(q, 6));
	rc |= table_add(t, "%s", sqlite3_column_int(q, 7) ? "yes" : "no");
	return rc ? -ENOMEM : 0;
}

static int skip_row(struct table *t, sqlite3_stmt *q)
{
	int rc = table_add(t, "%s", text(q, 0));

	rc |= table_add(t, "%s", text(q, 1));
	rc |= table_add(t, "%s", text(q, 2));
	return rc ? -ENOMEM : 0;
}

struct run_table_kind {
	const char *title, *note, *sql;
	struct column columns[12];
	int (*row)(struct table *t, sqlite3_stmt *q);
};

static const struct run_table_kind kinds[N_RUN_TABLES] = {
	[TABLE_PLACEMENTS] = {
		"Step times: predicted and measured",
		"Seconds, unscaled. Measured: median and 95th percentile over n steps after warm-up; error: "
		"of the median to the event simulation.",
		"SELECT policy, job, placement, jobs_at_once, closed_form_s, event_sim_s, measured_median_s,"
		" measured_p95_s, n_steps, valid, invalid_why FROM placement WHERE run = ? ORDER BY id",
		{ { "policy", 0 }, { "job", 0 }, { "placement (region:GPUs)", 0 }, { "jobs at once", 1 },
		  { "closed form s", 1 }, { "event sim s", 1 }, { "measured s", 1 }, { "p95 s", 1 },
		  { "error %", 1 }, { "n", 1 }, { "valid", 0 } }, placement_row },
	[TABLE_POLICIES] = {
		"Policies: job completion time, energy and cost",
		"Mean JCT over n finished jobs; energy at the GPUs; cost with PUE and prices. Differences are "
		"to the event simulation of the same policy.",
		"SELECT o.policy, o.oracle, sum(o.finished), avg(o.jct_s), sum(o.energy_j), sum(o.cost_usd),"
		" (SELECT avg(e.jct_s) FROM job_outcome e WHERE e.run = o.run AND e.policy = o.policy AND"
		" e.oracle = 'event-sim'), (SELECT sum(e.cost_usd) FROM job_outcome e WHERE e.run = o.run AND"
		" e.policy = o.policy AND e.oracle = 'event-sim') FROM job_outcome o WHERE o.run = ? GROUP BY"
		" o.policy, o.oracle ORDER BY min(o.rowid)",
		{ { "policy", 0 }, { "oracle", 0 }, { "n", 1 }, { "mean JCT h", 1 }, { "difference %", 1 },
		  { "energy kWh", 1 }, { "cost USD", 1 }, { "difference %", 1 } }, policy_row },
	[TABLE_JOBS] = {
		"Jobs", "By oracle; waiting is from arrival to start.",
		"SELECT policy, oracle, job, placement, jct_s, waiting_s, energy_j, cost_usd FROM job_outcome"
		" WHERE run = ? ORDER BY rowid",
		{ { "policy", 0 }, { "oracle", 0 }, { "job", 0 }, { "placement (region:GPUs)", 0 },
		  { "JCT h", 1 }, { "waiting h", 1 }, { "energy kWh", 1 }, { "cost USD", 1 } }, job_row },
	[TABLE_LINKS] = {
		"Links: planned and achieved",
		"Testbed (scaled) units. RTT: median; goodput: one TCP connection, start-up excluded.",
		"SELECT src, dst, planned_rtt_s, rtt_median_s, planned_goodput_bps, goodput_bps FROM plan_check"
		" WHERE run = ? ORDER BY src, dst",
		{ { "from", 0 }, { "to", 0 }, { "planned RTT ms", 1 }, { "achieved ms", 1 }, { "error %", 1 },
		  { "planned goodput Mbit/s", 1 }, { "achieved Mbit/s", 1 }, { "error %", 1 } }, link_row },
	[TABLE_BYTES] = {
		"Bytes: counted by tc and sent by the workers",
		"Per directed link, over all cells; wire: framed payload, acknowledgements and retransmissions "
		"by tcp_info. A cell in which they differ by more than 2 % is invalid.",
		"SELECT src, dst, count(*), sum(wire), sum(tc), sum(retrans), max(cc), min(valid) FROM (SELECT"
		" t.src, t.dst, p.policy, p.moment, sum(wire_bytes) wire, max(tc_bytes) tc, sum(retrans_bytes)"
		" retrans, max(congestion_control) cc, min(t.valid) valid FROM transfer t JOIN placement p ON"
		" p.id = t.placement WHERE p.run = ? GROUP BY t.src, t.dst, p.policy, p.moment, p.valid) GROUP"
		" BY src, dst ORDER BY src, dst",
		{ { "from", 0 }, { "to", 0 }, { "cells", 1 }, { "wire MB", 1 }, { "tc MB", 1 },
		  { "difference %", 1 }, { "retransmitted MB", 1 }, { "congestion control", 0 },
		  { "valid", 0 } }, bytes_row },
	[TABLE_SKIPPED] = {
		"Skipped or failed", NULL,
		"SELECT policy, what, why FROM skip WHERE run = ? ORDER BY rowid",
		{ { "policy", 0 }, { "what", 0 }, { "why", 0 } }, skip_row },
};

int run_table(struct store *s, const char *run, enum run_table which, struct table *out,
	      struct bace_err *e)
{
	const struct run_table_kind *k = &kinds[which];
	sqlite3_stmt *q;
	int rc = store_query(s, k->sql, run, &q, e), step;

	*out = (struct table){ .title = k->title, .note = k->note, .columns = k->columns };
	while (out->n_columns < 12 && k->columns[out->n_columns].title)
		out->n_columns++;
	if (rc)
		return rc;
	while ((step = sqlite3_step(q)) == SQLITE_ROW && !rc)
		rc = k->row(out, q);
	if (step != SQLITE_DONE && !rc)
		rc = store_fail(s, e, "query");
	else if (rc)
		bace_fail(e, ENOMEM, "table: out of memory");
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
	double median = number(q, 2), event = fabs(median / number(q, 1) - 1);
	double closed = fabs(median / number(q, 0) - 1), first = fabs(number(q, 3) / median - 1);

	if (!sqlite3_column_int(q, 4)) {
		out->n_invalid++;
		return 0;
	}
	if (isnan(event))
		return 0;
	out->worst_abs = fmax(out->worst_abs, event);
	if (!isnan(closed))
		out->worst_closed = fmax(out->worst_closed, closed);
	if (!isnan(first))
		out->worst_first = fmax(out->worst_first, first);
	return BACE_PUSH(v->event, v->n, v->cap, event) || BACE_PUSH(v->closed, v->n2, v->cap2, closed) ?
		-ENOMEM : 0;
}

int run_accuracy(struct store *s, const char *run, struct accuracy *out, struct bace_err *e)
{
	struct errors v = { 0 };
	sqlite3_stmt *q;
	/* A moment that several policies share was measured once: counted once. */
	int rc = store_query(s, "SELECT closed_form_s, event_sim_s, measured_median_s, measured_first_s,"
			     " valid FROM placement WHERE run = ? AND (measured_median_s IS NOT NULL OR NOT"
			     " valid) GROUP BY moment, job, valid", run, &q, e);

	*out = (struct accuracy){ .median_abs = NAN, .median_closed = NAN };
	if (rc)
		return rc;
	while (!rc && sqlite3_step(q) == SQLITE_ROW)
		rc = take_accuracy(q, &v, out);
	sqlite3_finalize(q);
	out->n = (int)v.n;
	out->median_abs = stats_median(v.event, v.n);
	out->median_closed = stats_median(v.closed, v.n2);
	free(v.event);
	free(v.closed);
	return rc ? bace_fail(e, -rc, "accuracy: out of memory") : 0;
}
