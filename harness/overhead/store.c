#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "config.h"
#include "harness/overhead/internal.h"

int overhead_store_begin(struct overhead_run *r, struct bace_err *e)
{
	const struct experiment *exp = r->exp;
	struct utsname u;
	int rc = store_open(r->o->store_path, &r->store, e);

	uname(&u);
	if (rc)
		return rc;
	return store_run_begin(r->store, &(struct run_info){ .command = r->o->command, .experiment = exp->name,
		.config_text = exp->text, .config_hash = exp->text_hash, .seed = exp->seed,
		.version = BACE_VERSION, .kernel = u.release, .backend = r->out->backend,
		.backend_why = r->out->backend_why, .git_revision = bace_git_revision(), .schedule = schedule_name(exp->schedule),
		.scale_bytes = exp->testbed.scale_bytes, .scale_time = exp->testbed.scale_time },
		r->out->run, e);
}

/* x: the period; y: how long a change takes to be seen (NAN: it is not). */
int overhead_store_row(struct overhead_run *r, const struct overhead_row *row, struct bace_err *e)
{
	const struct { const char *metric; double value, lo, hi; int n; } v[] = {
		{ "inflation_percent", 100 * row->inflation, 100 * row->lo, 100 * row->hi, row->n_pairs },
		{ "agent_cpu_percent", 100 * row->agent_cpu, NAN, NAN, row->n_pairs },
		{ "agent_cpu_off_percent", 100 * row->agent_cpu_off, NAN, NAN, row->n_pairs },
		{ "agent_rss_bytes", row->agent_rss_bytes, NAN, NAN, 1 },
		{ "wire_bytes_per_s", row->wire_bytes_ps, NAN, NAN, row->n_pairs },
		{ "probe_bytes_per_s", row->probe_bytes_ps, NAN, NAN, row->n_pairs },
		{ "dropped_samples", (double)row->dropped, NAN, NAN, row->n_pairs },
		{ "detection_loaded_s", row->detect_s, NAN, NAN, row->n_detected },
		{ "detection_idle_s", row->idle_detect_s, NAN, NAN, row->n_idle_detected },
		{ "error_loaded_percent", 100 * row->error, NAN, NAN, row->n_changes },
		{ "error_idle_percent", 100 * row->idle_error, NAN, NAN, row->n_idle_changes },
	};
	int rc = store_begin(r->store, e);

	for (size_t i = 0; !rc && i < ARRAY_LEN(v); i++)
		if (!isnan(v[i].value))
			rc = store_add_comparison(r->store, r->out->run, &(struct comparison_row){
				.kind = "overhead", .subject = row->method->name, .against = "off",
				.metric = v[i].metric, .x = row->period_ms / 1e3, .y = row->detect_s,
				.value = v[i].value, .lo = v[i].lo, .hi = v[i].hi, .n = v[i].n,
				.verdict = row->valid ? "valid" : row->why }, e);
	if (!rc)
		return store_commit(r->store, e);
	store_rollback(r->store);
	return rc;
}

int overhead_store_end(struct overhead_run *r, int rc, struct bace_err *e)
{
	struct bace_err end = { 0 };

	if (r->store && r->out->run[0] &&
	    store_run_end(r->store, r->out->run, !rc ? "done" : rc == -ECANCELED ? "interrupted" : "failed", &end) && !rc) {
		*e = end;
		rc = -end.errnum;
	}
	store_close(r->store);
	r->store = NULL;
	return rc;
}
