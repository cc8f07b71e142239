#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "results/compare.h"
#include "results/slow.h"

#define STEPS_LOOKED_AT 8

int measured_placements(struct store *s, const char *run, const struct run_filter *f,
			struct placement_ref **out, size_t *n, struct bace_err *e)
{
	sqlite3_stmt *q;
	size_t cap = 0;
	int step = SQLITE_DONE, rc = store_query(s, "SELECT id, policy, job, placement, closed_form_s,"
		" event_sim_s, measured_median_s, measured_p95_s, n_steps, min(id) FROM placement p WHERE run_id"
		" = ?1 AND (?2 IS NULL OR policy = ?2) AND (?3 IS NULL OR job = ?3) AND valid AND"
		" measured_median_s > 0 AND (EXISTS (SELECT 1 FROM step WHERE placement_id = p.id) OR NOT EXISTS (SELECT 1"
		" FROM placement q JOIN step ON placement_id = q.id WHERE q.run_id = ?1 AND q.moment = p.moment))"
		" GROUP BY moment, job ORDER BY id", run, &q, e);

	*out = NULL;
	*n = 0;
	if (rc)
		return rc;
	if (f) {
		sqlite3_bind_text(q, 2, f->policy, -1, SQLITE_STATIC);
		sqlite3_bind_text(q, 3, f->job, -1, SQLITE_STATIC);
	}
	while (!rc && (step = sqlite3_step(q)) == SQLITE_ROW) {
		struct placement_ref r = { .id = sqlite3_column_int64(q, 0),
			.closed_form_s = column_number(q, 4), .event_sim_s = column_number(q, 5),
			.median_s = column_number(q, 6), .p95_s = column_number(q, 7),
			.n_steps = sqlite3_column_int(q, 8) };

		snprintf(r.policy, sizeof(r.policy), "%s", column_text(q, 1));
		snprintf(r.job, sizeof(r.job), "%s", column_text(q, 2));
		snprintf(r.placement, sizeof(r.placement), "%s", column_text(q, 3));
		rc = BACE_PUSH(*out, *n, cap, r);
	}
	if (rc)
		bace_fail(e, ENOMEM, "placements: out of memory");
	else if (step != SQLITE_DONE)
		rc = store_fail(s, e, "read");
	sqlite3_finalize(q);
	if (rc) {
		free(*out);
		*out = NULL;
	}
	return rc;
}

static int read_head(struct store *s, int64_t placement, struct gap *out, double *scale,
		     struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT p.event_sim_s, r.scale_time FROM placement p JOIN run r ON r.id ="
			     " p.run_id WHERE p.id = ?1", NULL, &q, e);

	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, placement);
	if (sqlite3_step(q) == SQLITE_ROW) {
		out->event_sim_s = column_number(q, 0);
		*scale = column_number(q, 1);
	} else {
		rc = bace_fail(e, ENOENT, "store %s: no placement %lld", s->path, (long long)placement);
	}
	sqlite3_finalize(q);
	return rc;
}

/* Mean of the measured steps 0 to last as the ranks timed them, unscaled; NAN: none. */
static int read_steps(struct store *s, int64_t placement, int last, double *mean_s, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT avg(step_s) FROM step WHERE placement_id = ?1 AND step BETWEEN 0 AND ?2",
			     NULL, &q, e);

	*mean_s = NAN;
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, placement);
	sqlite3_bind_int(q, 2, last);
	if (store_next(s, q, &rc, e))
		*mean_s = column_number(q, 0);
	sqlite3_finalize(q);
	return rc;
}

int placement_gap(struct store *s, int64_t placement, struct gap *out, struct bace_err *e)
{
	struct timeline t;
	double scale = 1, steps_s;
	int last = 0, rc;

	*out = (struct gap){ 0 };
	rc = read_head(s, placement, out, &scale, e);
	if (rc)
		return rc;
	rc = timeline_load(s, placement, false, 0, STEPS_LOOKED_AT - 1, &t, e);
	if (!rc)
		rc = timeline_replay(s, placement, &t, e);
	for (int k = 0; !rc && k < STEPS_LOOKED_AT; k++) {
		struct path_time p;

		if (!timeline_path(&t, k, &p))
			continue;
		out->n_steps++;
		last = k;
		out->measured_s += p.compute + p.overrun + p.transfer + p.slower + p.wait;
		out->overrun_s += p.overrun;
		out->transfer_s += p.slower;
	}
	if (!rc && out->n_steps)
		rc = timeline_causes(s, placement, &t, out->why_s, e);
	timeline_free(&t);
	if (rc || !out->n_steps)
		return rc;
	scale *= out->n_steps;
	out->measured_s /= scale;
	out->overrun_s /= scale;
	out->transfer_s /= scale;
	for (int i = 0; i < SLOW_CAUSES; i++)
		out->why_s[i] /= scale;
	out->waiting_s = out->measured_s - out->event_sim_s - out->overrun_s - out->transfer_s;
	rc = read_steps(s, placement, last, &steps_s, e);
	if (rc || !isfinite(steps_s))
		return rc;
	out->unexplained_s = steps_s - out->measured_s;
	out->measured_s = steps_s;
	return 0;
}
