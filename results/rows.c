/* Rows going into the store. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "results/store.h"

static const struct {
	const char *table, *columns;
} inserts[N_INSERTS] = {
	[INSERT_RUN] = { "run", "id, status, began_utc, command, experiment, config_text, config_hash, "
		"seed, version, kernel, inventory_json, backend, backend_why, schedule, scale_bytes, "
		"scale_time, git_revision, process" },
	[INSERT_LINK_TRUTH] = { "link_truth", "run_id, src, dst, rate_bps, latency_s, jitter_s, loss, "
		"scaled_rate_bps, scaled_latency_s, buffer_bytes, burst_bytes, queue_bytes, gso_max_bytes, initcwnd_segments, "
		"delay_limit_packets" },
	[INSERT_PLAN_CHECK] = { "plan_check", "run_id, src, dst, planned_rtt_s, rtt_min_s, rtt_median_s, "
		"rtt_p99_s, planned_goodput_bps, goodput_bps" },
	[INSERT_PLACEMENT] = { "placement", "run_id, policy, job, placement, stages, micro_batches, "
		"moment, jobs_at_once, closed_form_s, event_sim_s, valid, invalid_why, n_steps, "
		"measured_median_s, measured_p95_s, measured_first_s, compute_s, delay_lateness_p99_s" },
	[INSERT_STEP] = { "step", "placement_id, step, step_s, compute_s, stall_s" },
	[INSERT_TRANSFER] = { "transfer", "placement_id, hop, src, dst, forward, payload_bytes, "
		"wire_bytes, retrans_bytes, tc_bytes, rtt_s, min_rtt_s, congestion_control, valid, planned_goodput_bps, "
		"idle_window_bytes" },
	[INSERT_OP] = { "op", "placement_id, seq, stage, step, micro_batch, kind, start_s, end_s, "
		"planned_end_s" },
	[INSERT_JOB_OUTCOME] = { "job_outcome", "run_id, policy, oracle, job, finished, arrival_s, "
		"start_s, finish_s, jct_s, waiting_s, slowdown, energy_j, cost_usd, mean_step_s, "
		"placement" },
	[INSERT_DECISION] = { "decision", "run_id, policy, oracle, at_s, view_digest, latency_s, job" },
	[INSERT_SKIP] = { "skip", "run_id, policy, what, why" },
	[INSERT_MOMENT] = { "moment", "run_id, settings, moment, jobs" },
	[INSERT_MOMENT_JOB] = { "moment_job", "moment_id, place, median_step_s, busy" },
	[INSERT_SIM_OP] = { "sim_op", "placement_id, seq, stage, step, micro_batch, kind, start_s, end_s" },
	[INSERT_MONITOR] = { "monitor_sample", "run_id, at_s, method, src, dst, quantity, value" },
	[INSERT_ENERGY] = { "energy", "run_id, host, source, device, start_s, end_s, energy_j" },
	[INSERT_DISTURBANCE] = { "disturbance", "run_id, src, dst, jitter_s, jitter_distribution, loss, trace, loop" },
	[INSERT_TRANSFER_STEP] = { "transfer_step", "placement_id, hop, forward, step, sent_bytes, retrans_bytes, "
		"busy_s, rwnd_limited_s, sndbuf_limited_s, cwnd_bytes, rtt_s, min_rtt_s, delivery_rate_bps, app_limited" },
	[INSERT_COMPARISON] = { "comparison", "run_id, kind, subject, against, metric, x, y, value, lo, hi, "
		"n, published, verdict" },
};

static int prepare(struct store *s, enum insert which, struct bace_err *e)
{
	struct bace_buf sql = { 0 };
	int rc = bace_buf_addf(&sql, "INSERT INTO %s (%s) VALUES (?", inserts[which].table,
			       inserts[which].columns);

	for (const char *p = inserts[which].columns; !rc && *p; p++)
		if (*p == ',')
			rc = bace_buf_addf(&sql, ",?");
	if (!rc)
		rc = bace_buf_addf(&sql, ")");
	if (rc)
		bace_fail(e, -rc, "store %s: out of memory", s->path);
	else if (sqlite3_prepare_v3(s->db, sql.p, -1, SQLITE_PREPARE_PERSISTENT, &s->inserts[which],
				    NULL) != SQLITE_OK)
		rc = store_fail(s, e, inserts[which].table);
	bace_buf_free(&sql);
	return rc;
}

int store_insert(struct store *s, enum insert which, struct bace_err *e, const char *format, ...)
{
	sqlite3_stmt *q;
	char what[64];
	va_list ap;
	int rc;

	if (!s->inserts[which] && (rc = prepare(s, which, e)))
		return rc;
	q = s->inserts[which];
	va_start(ap, format);
	for (int i = 0; format[i]; i++) {
		switch (format[i]) {
		case 's':
			sqlite3_bind_text(q, i + 1, va_arg(ap, const char *), -1, SQLITE_STATIC);
			break;
		case 'i':
			sqlite3_bind_int64(q, i + 1, va_arg(ap, int64_t));
			break;
		default:	/* SQLite makes NULL of NaN */
			sqlite3_bind_double(q, i + 1, va_arg(ap, double));
		}
	}
	va_end(ap);
	rc = sqlite3_step(q);
	if (rc != SQLITE_DONE) {
		snprintf(what, sizeof(what), "add a row to %s", inserts[which].table);
		rc = store_fail(s, e, what);
	} else {
		rc = 0;
	}
	sqlite3_reset(q);
	return rc;
}

static void utc_now(char out[32])
{
	time_t now = (time_t)(bace_wall_ns() / 1000000000);
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static void new_id(char id[32])
{
	time_t now = (time_t)(bace_wall_ns() / 1000000000);
	uint16_t salt = 0;
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(id, 32, "%Y%m%d-%H%M%S", &tm);
	if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		salt = (uint16_t)(bace_wall_ns() / 1000);
	snprintf(id + strlen(id), 32 - strlen(id), "-%04x", salt);
}

/* Boot, process and when that began: together never used again. The namespace
 * says who can look it up. */
static void describe_process(char out[128])
{
	CLEANUP_FREE char *boot = NULL, *stat = NULL;
	const char *p;
	int field = 2;

	out[0] = '\0';
	if (bace_read_file("/proc/sys/kernel/random/boot_id", 64, &boot, NULL, NULL) ||
	    bace_read_file("/proc/self/stat", 4096, &stat, NULL, NULL))
		return;
	boot[strcspn(boot, "\n")] = '\0';
	/* Field 22, counted from behind the name in parentheses. */
	for (p = strrchr(stat, ')'); p && field < 22; field++)
		p = strchr(p + 1, ' ');
	snprintf(out, 128, "%.40s %d %lld %llu", boot, getpid(), p ? strtoll(p, NULL, 10) : 0, pid_namespace());
}

int store_run_begin(struct store *s, const struct run_info *r, char id[32], struct bace_err *e)
{
	char hash[20], seed[24], now[32], process[128];
	int rc = -EINVAL;

	describe_process(process);
	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)r->config_hash);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)r->seed);
	utc_now(now);
	/* Two runs of one second may draw the same digits. */
	for (int i = 0; rc == -EINVAL && i < 8; i++) {
		new_id(id);
		rc = store_insert(s, INSERT_RUN, e, "ssssssssssssssddss", id, "running", now, r->command,
				  r->experiment, r->config_text, hash, seed, r->version, r->kernel,
				  r->inventory_json, r->backend, r->backend_why, r->schedule,
				  r->scale_bytes, r->scale_time, r->git_revision, process);
	}
	return rc;
}

static int update_run(struct store *s, const char *sql, const char *run, const char *a, const char *b,
		      struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, sql, run, &q, e);

	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, a, -1, SQLITE_STATIC);
	if (b)
		sqlite3_bind_text(q, 3, b, -1, SQLITE_STATIC);
	rc = sqlite3_step(q) == SQLITE_DONE ? 0 : store_fail(s, e, "update the run");
	if (!rc && !sqlite3_changes(s->db))
		rc = bace_fail(e, ENOENT, "store %s: no run %s", s->path, run);
	sqlite3_finalize(q);
	return rc;
}

int store_run_set_inventory(struct store *s, const char *run, const char *json, struct bace_err *e)
{
	return update_run(s, "UPDATE run SET inventory_json = ?2 WHERE id = ?1", run, json, NULL, e);
}

int store_run_end(struct store *s, const char *run, const char *status, struct bace_err *e)
{
	char now[32];

	utc_now(now);
	return update_run(s, "UPDATE run SET status = ?2, ended_utc = ?3 WHERE id = ?1", run, status, now,
			  e);
}

int store_add_link_truth(struct store *s, const char *run, const struct link_truth_row *r,
			 struct bace_err *e)
{
	return store_insert(s, INSERT_LINK_TRUTH, e, "sssdddddddddddd", run, r->src, r->dst, r->rate_bps,
			    r->latency_s, r->jitter_s, r->loss, r->scaled_rate_bps, r->scaled_latency_s,
			    r->buffer_bytes, r->burst_bytes, r->queue_bytes, r->gso_max_bytes, r->initcwnd_segments,
			    r->delay_limit_packets);
}

int store_add_plan_check(struct store *s, const char *run, const struct plan_check_row *r,
			 struct bace_err *e)
{
	return store_insert(s, INSERT_PLAN_CHECK, e, "sssdddddd", run, r->src, r->dst, r->planned_rtt_s,
			    r->rtt_min_s, r->rtt_median_s, r->rtt_p99_s, r->planned_goodput_bps,
			    r->goodput_bps);
}

int store_add_placement(struct store *s, const char *run, const struct placement_row *r, int64_t *id,
			struct bace_err *e)
{
	int rc = store_insert(s, INSERT_PLACEMENT, e, "ssssiisiddisiddddd", run, r->policy, r->job,
		r->placement, (int64_t)r->stages, (int64_t)r->micro_batches, r->moment,
		(int64_t)r->jobs_at_once, r->closed_form_s, r->event_sim_s, (int64_t)r->valid,
		r->invalid_why, (int64_t)r->n_steps, r->measured_median_s, r->measured_p95_s,
		r->measured_first_s, r->compute_s, r->delay_lateness_p99_s);

	if (!rc && id)
		*id = sqlite3_last_insert_rowid(s->db);
	return rc;
}

int store_drop_placements(struct store *s, const char *run, const char *policy, const char *moment, int n,
			  struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "DELETE FROM placement WHERE id IN (SELECT id FROM placement WHERE run_id = ?1 AND policy"
			     " = ?2 AND moment = ?3 AND valid ORDER BY id DESC LIMIT ?4)", run, &q, e);

	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, policy, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 3, moment, -1, SQLITE_STATIC);
	sqlite3_bind_int(q, 4, n);
	if (sqlite3_step(q) != SQLITE_DONE)
		rc = store_fail(s, e, "remove");
	sqlite3_finalize(q);
	/* Their numbers may be given again. */
	s->ops.placement = s->sim_ops.placement = 0;
	return rc;
}

int store_add_step(struct store *s, const struct step_row *r, struct bace_err *e)
{
	return store_insert(s, INSERT_STEP, e, "iiddd", r->placement_id, (int64_t)r->step, r->step_s,
			    r->compute_s, r->stall_s);
}

int store_add_transfer(struct store *s, const struct transfer_row *r, struct bace_err *e)
{
	return store_insert(s, INSERT_TRANSFER, e, "iissiddddddsidd", r->placement_id, (int64_t)r->hop,
			    r->src, r->dst, (int64_t)r->forward, r->payload_bytes, r->wire_bytes,
			    r->retrans_bytes, r->tc_bytes, r->rtt_s, r->min_rtt_s,
			    r->congestion_control, (int64_t)r->valid, r->planned_goodput_bps,
			    r->idle_window_bytes);
}

int store_add_disturbance(struct store *s, const char *run, const struct disturbance_row *r, struct bace_err *e)
{
	return store_insert(s, INSERT_DISTURBANCE, e, "sssdsdsi", run, r->src, r->dst, r->jitter_s, r->jitter_distribution,
			    r->loss, r->trace, (int64_t)r->loop);
}

int store_add_transfer_step(struct store *s, const struct transfer_step_row *r, struct bace_err *e)
{
	return store_insert(s, INSERT_TRANSFER_STEP, e, "iiiidddddddddi", r->placement_id, (int64_t)r->hop,
			    (int64_t)r->forward, (int64_t)r->step, r->sent_bytes, r->retrans_bytes, r->busy_s,
			    r->rwnd_limited_s, r->sndbuf_limited_s, r->cwnd_bytes, r->rtt_s, r->min_rtt_s,
			    r->delivery_rate_bps, (int64_t)r->app_limited);
}

/* The first number that this placement's operations have not used. */
static int first_seq(struct store *s, const char *sql, int64_t placement, struct op_counter *c,
		     struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, sql, NULL, &q, e);

	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, placement);
	if (sqlite3_step(q) == SQLITE_ROW)
		*c = (struct op_counter){ placement, sqlite3_column_int64(q, 0) };
	else
		rc = store_fail(s, e, "read");
	sqlite3_finalize(q);
	return rc;
}

int store_add_op(struct store *s, const struct op_row *r, struct bace_err *e)
{
	int rc = s->ops.placement == r->placement_id ? 0 : first_seq(s, "SELECT coalesce(max(seq) + 1, 0) "
		"FROM op WHERE placement_id = ?", r->placement_id, &s->ops, e);

	if (!rc)
		rc = store_insert(s, INSERT_OP, e, "iiiiisddd", r->placement_id, s->ops.seq,
				  (int64_t)r->stage, (int64_t)r->step, (int64_t)r->micro_batch, r->kind,
				  r->start_s, r->end_s, r->planned_end_s);
	if (!rc)
		s->ops.seq++;
	return rc;
}

int store_add_sim_op(struct store *s, const struct op_row *r, struct bace_err *e)
{
	int rc = s->sim_ops.placement == r->placement_id ? 0 : first_seq(s, "SELECT coalesce(max(seq) + 1, "
		"0) FROM sim_op WHERE placement_id = ?", r->placement_id, &s->sim_ops, e);

	if (!rc)
		rc = store_insert(s, INSERT_SIM_OP, e, "iiiiisdd", r->placement_id, s->sim_ops.seq,
				  (int64_t)r->stage, (int64_t)r->step, (int64_t)r->micro_batch, r->kind,
				  r->start_s, r->end_s);
	if (!rc)
		s->sim_ops.seq++;
	return rc;
}

int store_add_monitor_sample(struct store *s, const char *run, const struct monitor_row *r,
			     struct bace_err *e)
{
	return store_insert(s, INSERT_MONITOR, e, "sdssssd", run, r->at_s, r->method, r->src,
			    r->dst, r->quantity, r->value);
}

int store_add_energy(struct store *s, const char *run, const struct energy_row *r, struct bace_err *e)
{
	return store_insert(s, INSERT_ENERGY, e, "ssssddd", run, r->host, r->source, r->device, r->start_s,
			    r->end_s, r->energy_j);
}

int store_add_comparison(struct store *s, const char *run, const struct comparison_row *r,
			 struct bace_err *e)
{
	return store_insert(s, INSERT_COMPARISON, e, "sssssdddddiss", run, r->kind, r->subject, r->against,
			    r->metric, r->x, r->y, r->value, r->lo, r->hi, (int64_t)r->n, r->published,
			    r->verdict);
}

int store_add_job_outcome(struct store *s, const char *run, const struct job_outcome_row *r,
			  struct bace_err *e)
{
	return store_insert(s, INSERT_JOB_OUTCOME, e, "ssssiddddddddds", run, r->policy, r->oracle, r->job,
			    (int64_t)r->finished, r->arrival_s, r->start_s, r->finish_s, r->jct_s,
			    r->waiting_s, r->slowdown, r->energy_j, r->cost_usd, r->mean_step_s,
			    r->placement);
}

int store_add_decision(struct store *s, const char *run, const struct decision_row *r,
		       struct bace_err *e)
{
	char digest[20];

	snprintf(digest, sizeof(digest), "%016llx", (unsigned long long)r->view_digest);
	return store_insert(s, INSERT_DECISION, e, "sssdsds", run, r->policy, r->oracle, r->at_s, digest,
			    r->latency_s, r->job);
}

int store_add_skip(struct store *s, const char *run, const struct skip_row *r, struct bace_err *e)
{
	return store_insert(s, INSERT_SKIP, e, "ssss", run, r->policy, r->what, r->why);
}

int store_add_moment(struct store *s, const char *run, const char *settings, const char *moment, int n,
		     const double *median_step_s, const double *busy, struct bace_err *e)
{
	int rc = store_insert(s, INSERT_MOMENT, e, "sssi", run, settings, moment, (int64_t)n);
	int64_t id = sqlite3_last_insert_rowid(s->db);

	for (int i = 0; !rc && i < n; i++)
		rc = store_insert(s, INSERT_MOMENT_JOB, e, "iidd", id, (int64_t)i, median_step_s[i],
				  busy[i]);
	return rc;
}

int store_count_moments(struct store *s, const char *run, const char *settings, int *n, char **other,
			struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT count(CASE WHEN settings = ?2 THEN 1 END), max(CASE WHEN settings <> ?2 THEN"
			     " settings END) FROM moment WHERE run_id = ?1", run, &q, e);

	*n = 0;
	*other = NULL;
	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, settings, -1, SQLITE_STATIC);
	if (sqlite3_step(q) != SQLITE_ROW) {
		rc = store_fail(s, e, "look up a run's moments");
	} else {
		*n = sqlite3_column_int(q, 0);
		if (sqlite3_column_type(q, 1) != SQLITE_NULL && !(*other = strdup(column_text(q, 1))))
			rc = bace_fail(e, ENOMEM, "a run's moments: out of memory");
	}
	sqlite3_finalize(q);
	return rc;
}

int store_copy_moments(struct store *s, const char *from, const char *to, const char *settings, struct bace_err *e)
{
	static const char *const sql[] = {
		"INSERT INTO moment (run_id, settings, moment, jobs) SELECT ?2, settings, moment, jobs FROM moment"
		" WHERE run_id = ?1 AND settings = ?3 GROUP BY moment, jobs",
		"INSERT INTO moment_job (moment_id, place, median_step_s, busy)"
		" SELECT new.id, j.place, j.median_step_s, j.busy FROM moment new, moment_job j"
		" WHERE new.run_id = ?2 AND new.settings = ?3 AND NOT EXISTS (SELECT 1 FROM moment_job WHERE moment_id = new.id)"
		" AND j.moment_id = (SELECT max(old.id) FROM moment old WHERE"
		" old.run_id = ?1 AND old.settings = ?3 AND old.moment = new.moment AND old.jobs = new.jobs)",
	};
	int rc = store_begin(s, e);

	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < ARRAY_LEN(sql); i++) {
		sqlite3_stmt *q;

		rc = store_query(s, sql[i], from, &q, e);
		if (rc)
			break;
		sqlite3_bind_text(q, 2, to, -1, SQLITE_STATIC);
		sqlite3_bind_text(q, 3, settings, -1, SQLITE_STATIC);
		if (sqlite3_step(q) != SQLITE_DONE)
			rc = store_fail(s, e, "copy a run's moments");
		sqlite3_finalize(q);
	}
	if (!rc)
		return store_commit(s, e);
	store_rollback(s);
	return rc;
}

int store_find_moment(struct store *s, const char *run, const char *settings, const char *moment, int n,
		      double *median_step_s, double *busy, struct bace_err *e)
{
	sqlite3_stmt *q;
	int found = 0;
	int rc = store_query(s, "SELECT place, median_step_s, busy FROM moment_job WHERE moment_id = "
			     "(SELECT max(id) FROM moment WHERE settings = ?1 AND moment = ?2 AND jobs = ?3"
			     " AND (?4 IS NULL OR run_id = ?4))",
			     settings, &q, e);

	if (rc)
		return rc;
	sqlite3_bind_text(q, 2, moment, -1, SQLITE_STATIC);
	sqlite3_bind_int(q, 3, n);
	sqlite3_bind_text(q, 4, run, -1, SQLITE_STATIC);	/* NULL: binds NULL */
	while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
		int place = sqlite3_column_int(q, 0);

		if (place < 0 || place >= n)
			continue;
		median_step_s[place] = column_number(q, 1);
		busy[place] = column_number(q, 2);
		found++;
	}
	rc = rc == SQLITE_DONE ? n > 0 && found == n : store_fail(s, e, "look up a moment");
	sqlite3_finalize(q);
	return rc;
}
