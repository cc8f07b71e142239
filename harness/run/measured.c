#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/run/internal.h"

#define TRIES 2			/* a cell that came back invalid is run once more, */
#define BETWEEN_STEPS 20	/* after 20 x 50 ms: what spoilt it may pass */
#define BETWEEN_STEP_US 50000

struct measured {
	struct oracle base;
	struct run *run;
	struct step_estimate *closed_form, *event_sim;	/* [exp->n_jobs], scratch */
};

static void moment_free(struct measured_moment *m)
{
	for (int i = 0; m->jobs && i < m->n; i++)
		free(m->jobs[i].step_s);
	free(m->jobs);
	free(m->written);
	free(m->key);
}

void measured_moments_free(struct run *r)
{
	for (size_t i = 0; i < r->n_moments; i++)
		moment_free(&r->moments[i]);
	free(r->moments);
	r->moments = NULL;
	r->n_moments = r->cap_moments = 0;
}

const struct measured_moment *measured_find(const struct run *r, const char *key)
{
	for (size_t i = 0; i < r->n_moments; i++)
		if (r->moments[i].valid && !strcmp(r->moments[i].key, key))
			return &r->moments[i];
	return NULL;
}

static int moment_new(const struct run *r, const struct group *g, struct measured_moment *out)
{
	*out = (struct measured_moment){ .n = g->n, .key = strdup(g->key), .delay_late_s = NAN };
	out->jobs = calloc((size_t)g->n + 1, sizeof(*out->jobs));
	out->written = calloc((size_t)r->exp->n_policies + 1, sizeof(*out->written));
	if (!out->key || !out->jobs || !out->written) {
		moment_free(out);
		return -ENOMEM;
	}
	return 0;
}

static int take_result(const struct run *r, const struct group *g, const struct tb_cell *cell,
		       const struct tb_result *res, struct measured_moment *mm, struct bace_err *e)
{
	mm->valid = res->valid;
	snprintf(mm->why, sizeof(mm->why), "%s", res->invalid_why);
	/* The kernel's own netem does not say how late it is; 0: nothing was delayed. */
	if (r->backend == BACKEND_NFQUEUE && res->delay_lateness_p99_ns > 0)
		mm->delay_late_s = (double)res->delay_lateness_p99_ns / 1e9;
	for (int i = 0; res->valid && i < g->n; i++) {
		struct measured_job *j = &mm->jobs[g->place[i]];
		struct cell_steps s;
		int rc = cell_steps_of(cell, res, g->which[i], r->exp->testbed.scale_time, &s, e);

		j->step_s = s.step_s;
		if (rc)
			return rc;
		j->n_steps = s.n;
		j->median_s = s.median_s;
		j->p95_s = s.p95_s;
		j->first_s = s.first_s;
		j->compute_s = s.compute_s;
		j->busy = s.busy;
	}
	return 0;
}

static int keep_group(struct measured *o, const struct moment *m, const struct group *g,
		      const struct tb_cell *cell, const struct tb_result *res, struct bace_err *e)
{
	struct run *r = o->run;
	struct measured_moment mm;
	int rc;

	if (moment_new(r, g, &mm))
		return bace_fail(e, ENOMEM, "moment of %d jobs: out of memory", m->n);
	rc = take_result(r, g, cell, res, &mm, e);
	if (!rc)
		rc = record_moment(r, &(struct moment_rows){ m, g->n, g->which, g->place, &mm, o->closed_form,
				   o->event_sim, cell, res }, e);
	mm.written[r->at] = !rc && !r->again;
	if (!rc && BACE_PUSH(r->moments, r->n_moments, r->cap_moments, mm))
		rc = bace_fail(e, ENOMEM, "moment of %d jobs: out of memory", m->n);
	if (rc)
		moment_free(&mm);
	return rc;
}

/* Runs all jobs of the moment at once and keeps their rows, valid or not. */
static int try_cell(struct measured *o, const struct moment *m, const struct group *g, int n,
		    const struct tb_cell *cell, bool *valid, struct bace_err *e)
{
	struct run *r = o->run;
	struct tb_result res = { 0 };
	int rc;

	status_begin(r, m, cell, o->event_sim);
	rc = bed_run(r->bed, cell, &res, e);
	if (rc)
		return rc;
	r->n_cells++;
	for (int i = 0; !rc && i < n; i++)
		rc = keep_group(o, m, &g[i], cell, &res, e);
	if (!rc)
		rc = record_energy(r, &res, e);
	*valid = res.valid;
	if (!rc)
		status_end(r, m, cell, &res, o->event_sim);
	if (!rc && !res.valid)
		bace_fail(e, EBADMSG, "cell invalid: %s", res.invalid_why);
	tb_result_free(&res);
	return rc;
}

/* Whoever cancels it does not wait: the try that follows ends at once. */
static void between_tries(const struct run *r)
{
	for (int i = 0; i < BETWEEN_STEPS && !(r->o->cancelled && r->o->cancelled(r->o->arg)); i++)
		usleep(BETWEEN_STEP_US);
}

static int measure(struct measured *o, const struct moment *m, const struct group *g, int n,
		   struct bace_err *e)
{
	CLEANUP_FREE double *predicted = calloc((size_t)m->n + 1, sizeof(*predicted));
	struct tb_cell cell;
	bool valid = false;
	int rc;

	if (!predicted)
		return bace_fail(e, ENOMEM, "moment of %d jobs: out of memory", m->n);
	for (int i = 0; i < m->n; i++)
		predicted[i] = o->event_sim[i].step_s;
	rc = cell_build(m, bed_net(o->run->bed), predicted, &cell, e);
	if (rc)
		return rc;
	for (int t = 0; !rc && !valid && t < TRIES; t++) {
		if (t > 0)
			between_tries(o->run);
		rc = try_cell(o, m, g, n, &cell, &valid, e);
	}
	cell_free(&cell);
	/* What the policies are told next is of after the cell. */
	if (!rc && o->run->o->reports)
		rc = reports_look(o->run, e);
	return !rc && !valid ? -EBADMSG : rc;	/* who asked counts it */
}

/* What an earlier run measured of a group under the same settings: any (reuse), or
 * the one that is gone on with. */
static int from_store(struct run *r, const struct group *g, struct bace_err *e)
{
	CLEANUP_FREE double *median = calloc((size_t)g->n + 1, sizeof(double));
	CLEANUP_FREE double *busy = calloc((size_t)g->n + 1, sizeof(double));
	struct measured_moment mm;
	int rc;

	if (!median || !busy)
		return bace_fail(e, ENOMEM, "moment of %d jobs: out of memory", g->n);
	/* A run that is gone on with has what that one measured. */
	rc = store_find_moment(r->store, r->o->reuse ? NULL : r->id, r->settings, g->key, g->n, median, busy, e);
	if (rc <= 0)
		return rc;
	if (moment_new(r, g, &mm))
		return bace_fail(e, ENOMEM, "moment of %d jobs: out of memory", g->n);
	mm.valid = true;
	for (int i = 0; i < g->n; i++) {
		mm.jobs[i].median_s = median[i];
		mm.jobs[i].busy = busy[i];
		mm.jobs[i].p95_s = mm.jobs[i].first_s = mm.jobs[i].compute_s = NAN;
	}
	if (BACE_PUSH(r->moments, r->n_moments, r->cap_moments, mm)) {
		moment_free(&mm);
		return bace_fail(e, ENOMEM, "moment of %d jobs: out of memory", g->n);
	}
	return 1;
}

/* 1: all groups are known, 0: some is not. */
static int all_known(struct run *r, const struct group *g, int n, struct bace_err *e)
{
	for (int i = 0; i < n; i++) {
		int rc = measured_find(r, g[i].key) ? 1 : (r->o->reuse || r->o->resume) ? from_store(r, &g[i], e) : 0;

		if (rc <= 0)
			return rc;
	}
	return 1;
}

static int predict(struct measured *o, const struct moment *m, struct bace_err *e)
{
	int rc = o->run->closed_form->step_times(o->run->closed_form, m, o->closed_form, e);

	if (!rc)
		rc = o->run->event_sim->step_times(o->run->event_sim, m, o->event_sim, e);
	return rc;
}

/* A policy that is tried again has rows of what it came through the first time. */
static int record_known(struct measured *o, const struct moment *m, const struct group *g, int n,
			struct bace_err *e)
{
	struct run *r = o->run;
	int rc = 0;

	for (int i = 0; !rc && i < n; i++) {
		const struct measured_moment *mm = measured_find(r, g[i].key);

		if (r->again && mm->written[r->at] > 0) {
			mm->written[r->at]--;
			continue;
		}
		rc = record_moment(r, &(struct moment_rows){ m, g[i].n, g[i].which, g[i].place, mm, o->closed_form,
				   o->event_sim, NULL, NULL }, e);
		mm->written[r->at] += !rc && !r->again;
	}
	return rc;
}

int measured_forget(struct run *r, struct bace_err *e)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < r->n_moments; i++) {
		struct measured_moment *mm = &r->moments[i];

		if (!mm->valid || !mm->written[r->at])
			continue;
		rc = store_drop_placements(r->store, r->id, r->policy, mm->key, mm->written[r->at] * mm->n, e);
		mm->written[r->at] = 0;
	}
	return rc;
}

static int measured_step_times(struct oracle *base, const struct moment *m,
			       struct step_estimate *out, struct bace_err *e)
{
	struct measured *o = (struct measured *)base;
	struct group *g = NULL;
	int rc = predict(o, m, e), n;

	if (rc)
		return rc;
	n = groups_of(m, &g, e);
	if (n < 0)
		return n;
	rc = all_known(o->run, g, n, e);
	if (rc >= 0)
		rc = rc ? record_known(o, m, g, n, e) : measure(o, m, g, n, e);
	for (int i = 0; !rc && i < n; i++) {
		const struct measured_moment *mm = measured_find(o->run, g[i].key);

		for (int k = 0; k < g[i].n; k++) {
			const struct measured_job *j = &mm->jobs[g[i].place[k]];

			out[g[i].which[k]] = (struct step_estimate){ .step_s = j->median_s,
								     .busy = j->busy };
		}
	}
	groups_free(g, n);
	return rc;
}

static void measured_destroy(struct oracle *base)
{
	struct measured *o = (struct measured *)base;

	free(o->closed_form);
	free(o->event_sim);
	free(o);
}

int measured_oracle(struct run *r, struct oracle **out, struct bace_err *e)
{
	struct measured *o = calloc(1, sizeof(*o));
	size_t n = (size_t)r->exp->n_jobs;

	if (!o)
		return bace_fail(e, ENOMEM, "measured oracle: out of memory");
	o->base = (struct oracle){ .name = "measured", .step_times = measured_step_times,
				   .destroy = measured_destroy };
	o->run = r;
	o->closed_form = calloc(n, sizeof(*o->closed_form));
	o->event_sim = calloc(n, sizeof(*o->event_sim));
	if (!o->closed_form || !o->event_sim) {
		measured_destroy(&o->base);
		return bace_fail(e, ENOMEM, "measured oracle: out of memory");
	}
	*out = &o->base;
	return 0;
}
