#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/internal.h"

#define TRIES 2			/* a cell that came back invalid is run once more */

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

static int by_job_name(const void *a, const void *b, void *arg)
{
	const struct experiment *exp = arg;

	return strcmp(exp->jobs[((const struct measured_job *)a)->job].name,
		      exp->jobs[((const struct measured_job *)b)->job].name);
}

static int moment_new(const struct run *r, const struct moment *m, const char *key,
		      struct measured_moment *out)
{
	*out = (struct measured_moment){ .n = m->n, .key = strdup(key) };
	out->jobs = calloc((size_t)(m->n ? m->n : 1), sizeof(*out->jobs));
	if (!out->key || !out->jobs) {
		moment_free(out);
		return -ENOMEM;
	}
	for (int i = 0; i < m->n; i++)
		out->jobs[i].job = m->placements[i]->job;
	qsort_r(out->jobs, (size_t)m->n, sizeof(*out->jobs), by_job_name, (void *)r->exp);
	return 0;
}

static int take_result(const struct run *r, const struct moment *m, const struct tb_cell *cell,
		       const struct tb_result *res, struct measured_moment *mm, struct bace_err *e)
{
	mm->valid = res->valid;
	snprintf(mm->why, sizeof(mm->why), "%s", res->invalid_why);
	if (!res->valid)
		return 0;
	for (int i = 0; i < m->n; i++) {
		struct measured_job *j = &mm->jobs[measured_index(mm, m->placements[i]->job)];
		struct cell_steps s;
		int rc = cell_steps_of(cell, res, i, r->exp->testbed.scale_time, &s, e);

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

static void announce(struct run *r, const struct moment *m, const struct tb_cell *cell)
{
	struct bace_buf b = { 0 };

	for (int i = 0; i < m->n; i++) {
		CLEANUP_FREE char *p = placement_format(&r->exp->cluster, m->placements[i]);

		bace_buf_addf(&b, "%s%s on %s", i ? "; " : "", r->exp->jobs[m->placements[i]->job].name,
			      p ? p : "?");
	}
	run_progress(r, "%s: cell %d, %d ranks, %d+%d steps: %s", r->policy, r->n_cells + 1,
		     cell_ranks(cell), cell->warmup_steps, cell->steps, b.p ? b.p : "nothing");
	bace_buf_free(&b);
}

/* Runs the cell once and keeps its rows, valid or not. */
static int try_cell(struct measured *o, const struct moment *m, const struct tb_cell *cell,
		    const char *key, bool *valid, struct bace_err *e)
{
	struct run *r = o->run;
	struct tb_result res = { 0 };
	struct measured_moment mm;
	int rc;

	announce(r, m, cell);
	rc = testbed_run(r->testbed, cell, &res, e);
	if (rc)
		return rc;
	r->n_cells++;
	rc = moment_new(r, m, key, &mm);
	if (!rc) {
		rc = take_result(r, m, cell, &res, &mm, e);
		if (!rc)
			rc = record_moment(r, m, &mm, o->closed_form, o->event_sim, cell, &res, e);
		*valid = mm.valid;
		if (!mm.valid) {
			run_progress(r, "  invalid: %s", mm.why);
			bace_fail(e, EBADMSG, "cell invalid: %s", mm.why);
		}
		if (rc || BACE_PUSH(r->moments, r->n_moments, r->cap_moments, mm))
			moment_free(&mm);
	}
	tb_result_free(&res);
	return rc;
}

static int measure(struct measured *o, const struct moment *m, const char *key, struct bace_err *e)
{
	CLEANUP_FREE double *predicted = calloc((size_t)(m->n ? m->n : 1), sizeof(*predicted));
	struct tb_cell cell;
	bool valid = false;
	int rc;

	if (!predicted)
		return bace_fail(e, ENOMEM, "moment of %d jobs: out of memory", m->n);
	for (int i = 0; i < m->n; i++)
		predicted[i] = o->event_sim[i].step_s;
	rc = cell_build(m, testbed_net(o->run->testbed), predicted, &cell, e);
	if (rc)
		return rc;
	for (int t = 0; !rc && !valid && t < TRIES; t++)
		rc = try_cell(o, m, &cell, key, &valid, e);
	cell_free(&cell);
	if (rc)
		return rc;
	if (!valid) {
		o->run->n_bad++;
		return -EBADMSG;
	}
	return 0;
}

/* A moment that an earlier run measured under the same settings. */
static int from_store(struct run *r, const struct moment *m, const char *key, struct bace_err *e)
{
	CLEANUP_FREE double *median = calloc((size_t)m->n + 1, sizeof(double));
	CLEANUP_FREE double *busy = calloc((size_t)m->n + 1, sizeof(double));
	struct measured_moment mm;
	int rc;

	if (!r->o->reuse)
		return 0;
	if (!median || !busy)
		return bace_fail(e, ENOMEM, "moment of %d jobs: out of memory", m->n);
	rc = store_find_moment(r->store, r->settings, key, m->n, median, busy, e);
	if (rc <= 0)
		return rc;
	if (moment_new(r, m, key, &mm))
		return bace_fail(e, ENOMEM, "moment of %d jobs: out of memory", m->n);
	mm.valid = true;
	for (int i = 0; i < m->n; i++) {
		mm.jobs[i].median_s = median[i];
		mm.jobs[i].busy = busy[i];
		mm.jobs[i].p95_s = mm.jobs[i].first_s = mm.jobs[i].compute_s = NAN;
	}
	if (BACE_PUSH(r->moments, r->n_moments, r->cap_moments, mm)) {
		moment_free(&mm);
		return bace_fail(e, ENOMEM, "moment of %d jobs: out of memory", m->n);
	}
	return 0;
}

static int predict(struct measured *o, const struct moment *m, struct bace_err *e)
{
	int rc = o->run->closed_form->step_times(o->run->closed_form, m, o->closed_form, e);

	if (!rc)
		rc = o->run->event_sim->step_times(o->run->event_sim, m, o->event_sim, e);
	return rc;
}

static int measured_step_times(struct oracle *base, const struct moment *m,
			       struct step_estimate *out, struct bace_err *e)
{
	struct measured *o = (struct measured *)base;
	struct run *r = o->run;
	CLEANUP_FREE char *key = moment_key(m);
	const struct measured_moment *mm;
	int rc;

	if (!key)
		return bace_fail(e, ENOMEM, "key of a moment: out of memory");
	rc = predict(o, m, e);
	if (rc)
		return rc;
	mm = measured_find(r, key);
	if (!mm) {
		rc = from_store(r, m, key, e);
		if (rc < 0)
			return rc;
		mm = measured_find(r, key);
	}
	if (mm) {
		rc = record_moment(r, m, mm, o->closed_form, o->event_sim, NULL, NULL, e);
	} else {
		rc = measure(o, m, key, e);
		mm = measured_find(r, key);
	}
	if (rc)
		return rc;
	for (int i = 0; i < m->n; i++) {
		const struct measured_job *j = &mm->jobs[measured_index(mm, m->placements[i]->job)];

		out[i] = (struct step_estimate){ .step_s = j->median_s, .busy = j->busy };
	}
	return 0;
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
