/* The sections of a run's report, in order. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "results/report.h"

static bool has(struct report *r, const char *sql)
{
	struct bace_err ignored;
	sqlite3_stmt *q;
	bool found;

	/* What cannot be read is the section's to report. */
	if (store_query(r->s, sql, r->run, &q, &ignored))
		return true;
	found = sqlite3_step(q) != SQLITE_DONE;
	sqlite3_finalize(q);
	return found;
}

static bool has_placements(struct report *r)
{
	return has(r, "SELECT 1 FROM placement WHERE run_id = ? LIMIT 1");
}

static bool has_outcomes(struct report *r)
{
	return has(r, "SELECT 1 FROM job_outcome WHERE run_id = ? LIMIT 1");
}

static bool has_links(struct report *r)
{
	return has(r, "SELECT 1 FROM plan_check WHERE run_id = ? LIMIT 1");
}

static bool has_skips(struct report *r)
{
	return has(r, "SELECT 1 FROM skip WHERE run_id = ? LIMIT 1");
}

static bool has_ops(struct report *r)
{
	return has(r, "SELECT 1 FROM placement p WHERE run_id = ? AND valid AND EXISTS (SELECT 1 FROM op WHERE"
		   " placement_id = p.id) LIMIT 1");
}

static bool has_robust(struct report *r)
{
	return has(r, "SELECT 1 FROM comparison WHERE run_id = ? AND kind = 'robust' LIMIT 1");
}

static bool has_overhead(struct report *r)
{
	return has(r, "SELECT 1 FROM comparison WHERE run_id = ? AND kind = 'overhead' LIMIT 1");
}

static bool has_claims(struct report *r)
{
	return has(r, "SELECT 1 FROM comparison WHERE run_id = ? AND kind = 'claims' LIMIT 1");
}

static int steps(struct report *r)
{
	int rc;

	report_open(r, "steps", "Step times", "How long one training iteration takes: as simulated, and as it "
		    "took on the testbed.");
	fputs("<div class=\"plots\">\n", r->to);
	rc = report_plot(r, "Measured against predicted step time",
			 "Scatter plot. Across: step time by event simulation. Up: median measured step time with "
			 "a bar to the 95th percentile. A dashed line marks equality. The table below has every "
			 "number.",
			 "Each point is a placement of one policy at one moment; on the dashed line measurement "
			 "equals prediction.", plot_measured_vs_predicted);
	fputs("</div>\n", r->to);
	if (!rc)
		rc = report_table(r, TABLE_PLACEMENTS, NULL);
	report_close(r);
	return rc;
}

static int policies(struct report *r)
{
	int rc;

	report_open(r, "policies", "Policies", "The same cluster event loop, run on simulated and on measured step "
		    "times.");
	fputs("<div class=\"plots\">\n", r->to);
	rc = report_plot(r, "Cost against completion time",
			 "Scatter plot of the cost of all jobs against their mean completion time, one colour and "
			 "shape a policy, hollow for event simulation and filled for measurement. The table below "
			 "has every number.",
			 "Lower left is better. The dashed line joins the policies that no other beats in both.",
			 plot_cost_vs_jct);
	if (!rc)
		rc = report_plot(r, "Distribution of completion times",
				 "Step plot: the fraction of jobs that completed within a time, one colour a policy, "
				 "dashed for event simulation and solid for measurement. The table of jobs has every "
				 "number.",
				 "Further left is better.", plot_jct_distribution);
	fputs("</div>\n", r->to);
	if (!rc)
		rc = report_table(r, TABLE_POLICIES, NULL);
	if (!rc)
		rc = report_table(r, TABLE_JOBS, NULL);
	report_close(r);
	return rc;
}

static int skipped(struct report *r)
{
	int rc;

	report_open(r, "skipped", "Left out", "What was not run or did not count, and why.");
	rc = report_table(r, TABLE_SKIPPED, NULL);
	report_close(r);
	return rc;
}

/* ---- what reproduces it ---- */

static void fact(struct report *r, const char *name, const char *value)
{
	if (!value[0])
		return;
	fprintf(r->to, "<dt>%s</dt><dd>", name);
	html_text(value, r->to);
	fputs("</dd>\n", r->to);
}

static void block(struct report *r, const char *title, const char *text)
{
	if (!text[0])
		return;
	fprintf(r->to, "<details><summary>%s</summary><pre tabindex=\"0\">", title);
	html_text(text, r->to);
	fputs("</pre></details>\n", r->to);
}

static void inventory(struct report *r, const char *text)
{
	json_t *j = json_loads(text, JSON_DECODE_ANY, NULL);
	CLEANUP_FREE char *indented = j ? json_dumps(j, JSON_INDENT(2) | JSON_ENCODE_ANY) : NULL;

	block(r, "Hosts and settings", indented ? indented : text);
	json_decref(j);
}

static int provenance(struct report *r)
{
	sqlite3_stmt *q;
	int rc = store_query(r->s, "SELECT command, seed, version, git_revision, kernel, backend, backend_why,"
			     " config_hash, began_utc, ended_utc, config_text, inventory_json FROM run WHERE id ="
			     " ?", r->run, &q, r->e);
	static const char *const names[] = { "command", "seed", "bace", "revision", "kernel", "backend", "because",
		"hash of the configuration", "began", "ended" };

	if (rc)
		return rc;
	report_open(r, "provenance", "How to repeat it", NULL);
	fputs("<dl class=\"facts\">\n", r->to);
	if (sqlite3_step(q) == SQLITE_ROW) {
		for (int i = 0; i < (int)ARRAY_LEN(names); i++)
			fact(r, names[i], column_text(q, i));
		fputs("</dl>\n", r->to);
		block(r, "Configuration, as read", column_text(q, 10));
		inventory(r, column_text(q, 11));
	} else {
		fputs("</dl>\n", r->to);
	}
	sqlite3_finalize(q);
	report_close(r);
	return 0;
}

const struct report_section report_sections[] = {
	{ "steps", "Step times", has_placements, steps },
	{ "gap", "Where the gap comes from", has_ops, report_gap },
	{ "timeline", "One step in detail", has_ops, report_gantt },
	{ "policies", "Policies", has_outcomes, policies },
	{ "links", "Links", has_links, report_links },
	{ "robust", "Stale and noisy views", has_robust, report_robust },
	{ "overhead", "Cost of monitoring", has_overhead, report_overhead },
	{ "claims", "Published figures", has_claims, report_claims },
	{ "skipped", "Left out", has_skips, skipped },
	{ "provenance", "How to repeat it", NULL, provenance },
	{ NULL },
};
