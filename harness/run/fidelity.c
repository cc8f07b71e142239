#include "harness/run/fidelity.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/cell.h"

#define UML_AT_ONCE 1

struct fidelity_job {
	const struct experiment *exp;
	const struct fidelity_options *o;
	struct fidelity *out;
	struct job_models models;
	struct lab_traffic traffic;
	struct testbed *testbed;
	bool *done;			/* [out->n] */
	int n_done;
	int at_once;
};

static void progress(const struct fidelity_job *j, const char *fmt, ...) BACE_PRINTF(2, 3);
static void progress(const struct fidelity_job *j, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	if (!j->o->on_progress)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	j->o->on_progress(j->o->arg, text);
}

/* ---- a point as a job of a cell; everything is scaled here ---- */

static uint64_t scaled_part(const struct fidelity_job *j, const struct fidelity_point *p)
{
	return (uint64_t)llround(fidelity_part_bytes(p) * j->exp->testbed.scale_bytes);
}

static int fill_job(const struct fidelity_job *j, const struct fidelity_point *p, int number, int replica,
		    struct tb_job *out)
{
	const int *path = p->path + replica * p->stages;
	const struct cluster *c = &j->exp->cluster;
	double scale = j->exp->testbed.scale_time * 1e9;
	int layers = j->exp->models[j->exp->jobs[0].model].layers;
	uint64_t bytes = (uint64_t)llround(j->models.v[0].boundary_bytes * j->exp->testbed.scale_bytes);

	*out = (struct tb_job){ .schedule = p->schedule, .chunks = p->chunks, .micro_batches = p->micro_batches,
				.overlap = p->overlap, .n_stages = p->stages, .replicas = p->replicas, .replica = replica };
	snprintf(out->name, sizeof(out->name), "point-%d", number);
	out->stages = calloc((size_t)p->stages, sizeof(*out->stages));
	out->hops = calloc((size_t)p->stages, sizeof(*out->hops));
	out->rings = p->replicas > 1 ? calloc((size_t)p->stages, sizeof(*out->rings)) : NULL;
	if (!out->stages || !out->hops || (p->replicas > 1 && !out->rings))
		return -ENOMEM;
	for (int i = 0; i < p->stages; i++) {
		int r = path[i];
		struct stage_cost s = stage_cost(j->exp, &j->models.v[0], layers, 0, &c->gpus[c->regions[r].gpu]);
		double w = fidelity_weight_s(j->exp, p->schedule, s.bwd_s);

		out->stages[i] = (struct tb_stage){ .host = lab_host_of(testbed_net(j->testbed), r, 0),
			.region = r, .worker = i, .fwd_ns = llround(s.fwd_s * scale),
			.bwd_ns = llround((s.bwd_s - w) * scale), .w_ns = llround(w * scale) };
	}
	for (int i = 0; i < tb_hops(out); i++)
		cell_fill_hop(j->exp, bytes, p->overlap, path[i], path[(i + 1) % p->stages], &out->hops[i]);
	for (int i = 0; out->rings && i < p->stages; i++)
		cell_fill_hop(j->exp, scaled_part(j, p), p->overlap, path[i],
			      p->path[(replica + 1) % p->replicas * p->stages + i], &out->rings[i]);
	return 0;
}

/* Points that share no link, beginning with the first that is not done. */
static int choose(struct fidelity_job *j, int *which, struct bace_err *e)
{
	const struct cluster *c = &j->exp->cluster;
	CLEANUP_FREE bool *used = calloc((size_t)(c->n_regions * c->n_regions) + 1, sizeof(*used));
	int n = 0, ranks = 0;

	if (!used)
		return bace_fail(e, ENOMEM, "fidelity: out of memory");
	for (int i = 0; i < j->out->n; i++) {
		struct fidelity_point *p = &j->out->v[i];
		int rc;

		/* Alike in length, or the short ones wait for the long. */
		if (j->done[i] || n == j->at_once || (n && (ranks + p->stages * p->replicas > j->exp->testbed.max_ranks ||
					 p->micro_batches != j->out->v[which[0]].micro_batches)))
			continue;
		if (!fidelity_path(c, used, p)) {
			if (n)
				continue;
			return bace_fail(e, EINVAL, "%s: cluster %s has no path of %d regions (%d of them) with a hop of "
					 "%g ms in place %d and %g ms elsewhere", j->exp->path, c->name, p->stages, p->replicas,
					 (double)p->latency_ns / 1e6, p->hop, (double)fidelity_near_ns(c) / 1e6);
		}
		rc = fidelity_predict(j->exp, &j->models, p, e);
		if (rc)
			return rc;
		ranks += p->stages * p->replicas;
		which[n++] = i;
	}
	return n;
}

static int build(const struct fidelity_job *j, const int *which, int n, struct tb_cell *cell,
		 struct bace_err *e)
{
	const struct testbed_spec *t = &j->exp->testbed;
	double longest = 0;

	cell_settings(j->exp, cell);
	cell->jobs = calloc((size_t)(n * j->out->v[which[0]].replicas), sizeof(*cell->jobs));
	if (!cell->jobs)
		return bace_fail(e, ENOMEM, "fidelity: out of memory");
	for (int i = 0; i < n; i++) {
		const struct fidelity_point *p = &j->out->v[which[i]];

		longest = fmax(longest, p->sim_s);
		for (int k = 0; k < p->replicas; k++)
			if (fill_job(j, p, which[i], k, &cell->jobs[cell->n_jobs++]))
				return bace_fail(e, ENOMEM, "fidelity: out of memory");
	}
	cell->timeout_s = cell_timeout_s(longest * t->scale_time * (t->warmup_steps + t->steps));
	return 0;
}

static int keep(struct fidelity_job *j, const int *which, int n, const struct tb_cell *cell,
		const struct tb_result *res, struct bace_err *e)
{
	for (int i = 0; i < n; i++) {
		struct fidelity_point *p = &j->out->v[which[i]];
		struct cell_steps s;
		int rc;

		p->valid = res->valid;
		snprintf(p->why, sizeof(p->why), "%s", res->invalid_why);
		if (!res->valid)
			continue;
		rc = cell_steps_of(cell, res, i * p->replicas, j->exp->testbed.scale_time, &s, e);
		free(s.step_s);
		if (rc)
			return rc;
		p->measured_s = s.median_s;
		p->n_steps = s.n;
	}
	return 0;
}

static int run_cell(struct fidelity_job *j, const int *which, int n, struct bace_err *e)
{
	struct tb_cell cell = { 0 };
	bool valid = false;
	int rc = build(j, which, n, &cell, e);

	for (int t = 0; !rc && !valid && t < j->o->tries; t++) {
		struct tb_result res = { 0 };

		rc = testbed_run(j->testbed, &cell, &res, e);
		if (!rc)
			rc = keep(j, which, n, &cell, &res, e);
		valid = res.valid;
		if (!rc && !valid)
			progress(j, "  invalid: %s", res.invalid_why);
		tb_result_free(&res);
	}
	cell_free(&cell);
	for (int i = 0; i < n; i++)
		j->done[which[i]] = true;
	j->n_done += n;
	return rc;
}

static int run_all(struct fidelity_job *j, struct bace_err *e)
{
	CLEANUP_FREE int *which = calloc((size_t)j->out->n, sizeof(*which));

	if (!which)
		return bace_fail(e, ENOMEM, "fidelity: out of memory");
	while (j->n_done < j->out->n) {
		int n = choose(j, which, e), rc;
		const struct fidelity_point *p;

		if (n < 0)
			return n;
		p = &j->out->v[which[0]];
		progress(j, "points %d to %d of %d: %s, p = %d, m = %d, hop %d of %g ms%s", j->n_done + 1,
			 j->n_done + n, j->out->n, schedule_name(p->schedule), p->stages, p->micro_batches, p->hop,
			 (double)p->latency_ns / 1e6, n > 1 ? ", ..." : "");
		rc = run_cell(j, which, n, e);
		if (rc)
			return rc;
	}
	return 0;
}

static int prepare(struct fidelity_job *j, enum backend_kind *backend, struct bace_err *e)
{
	CLEANUP_FREE char *why = NULL;
	int rc = job_models_build(j->exp, &j->models, e);

	if (rc)
		return rc;
	traffic_of(j->exp, &j->models, &j->traffic);
	/* Two jobs never share a link. */
	j->traffic.jobs_on_link = 1;
	rc = fidelity_points(j->exp, &j->models, j->o, j->out, e);
	if (!rc && j->out->v[0].replicas > 1)
		traffic_add(j->exp, scaled_part(j, &j->out->v[0]), &j->traffic);
	if (!rc)
		rc = check_message_sizes(j->exp, &j->traffic, e);
	if (!rc)
		rc = lab_choose_backend(j->o->has_backend ? j->o->backend : j->exp->testbed.backend, backend, &why,
					e);
	if (rc)
		return rc;
	j->out->backend = backend_name(*backend);
	/* It has one processor. */
	j->at_once = j->o->at_once ? j->o->at_once : *backend == BACKEND_UML ? UML_AT_ONCE : j->out->n;
	j->done = calloc((size_t)j->out->n, sizeof(*j->done));
	progress(j, "%d points, backend %s: %s", j->out->n, j->out->backend, why);
	return j->done ? 0 : bace_fail(e, ENOMEM, "fidelity: out of memory");
}

int fidelity_run(const struct experiment *exp, const struct fidelity_options *o, struct fidelity *out,
		 struct bace_err *e)
{
	struct fidelity_job j = { .exp = exp, .o = o, .out = out };
	enum backend_kind backend;
	int rc;

	*out = (struct fidelity){ 0 };
	rc = prepare(&j, &backend, e);
	if (!rc)
		rc = testbed_open(&(struct testbed_config){ .self = o->self, .exp_path = exp->path,
			.backend = backend, .traffic = j.traffic, .on_progress = o->on_progress, .arg = o->arg,
			.cancelled = o->cancelled }, &j.testbed, e);
	if (!rc)
		rc = run_all(&j, e);
	if (rc && rc != -ECANCELED && j.testbed && testbed_log_tail(j.testbed)[0])
		bace_log(BACE_WARN, "lab", "last lines of the lab's log:\n%s", testbed_log_tail(j.testbed));
	testbed_close(j.testbed);
	job_models_free(&j.models);
	free(j.done);
	if (rc)
		fidelity_free(out);
	return rc;
}

void fidelity_free(struct fidelity *f)
{
	free(f->v);
	f->v = NULL;
	f->n = 0;
}
