#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/overhead/internal.h"
#include "harness/run/cell.h"
#include "harness/sim/sim.h"

#define WARMUP_STEPS 2
#define SLACK_STEPS 3			/* the last block must not end with the run */
#define DWELL_PERIODS 6
#define DWELL_STEPS 4			/* a message must have passed, several times */
#define DWELL_MIN_S 2.0
#define DWELL_MAX_S 60.0
#define IDLE_DWELL_MAX_S 12.0
#define BLOCK_PERIODS 2

static void progress(const struct overhead_run *r, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	if (!r->o->on_progress)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	r->o->on_progress(r->o->arg, line);
}

/* ---- the pipeline ---- */

/* The first placement of the first policy that crosses a link. */
static void note_placement(void *arg, double now_s, const struct placement *p, double predicted_step_s)
{
	struct overhead_run *r = arg;

	if (p->n_parts > 1 && !r->placement.n_parts)
		placement_copy(p, &r->placement);
}

static int find_placement(struct overhead_run *r, struct oracle *sim, struct bace_err *e)
{
	for (int i = 0; i < r->exp->n_policies && !r->placement.n_parts; i++) {
		struct cluster_result res = { 0 };
		struct policy *policy = NULL;
		int rc = policy_create(&r->exp->policies[i], r->exp->seed, &policy, e);

		if (!rc)
			rc = cluster_simulate(&(struct cluster_sim){ .exp = r->exp, .models = &r->models,
				.policy = policy, .oracle = sim, .seed = r->exp->seed,
				.on_start = note_placement, .arg = r }, &res, e);
		cluster_result_free(&res);
		policy_destroy(policy);
		if (rc)
			return rc;
	}
	if (!r->placement.n_parts)
		return bace_fail(e, EINVAL, "%s: no policy places a job on more than one region: nothing crosses a "
				 "link", r->exp->path);
	return 0;
}

static int predict(const struct overhead_run *r, struct oracle *sim, const struct moment *m, double *step_s,
		   struct bace_err *e)
{
	struct step_estimate est;
	int rc = sim->step_times(sim, m, &est, e);

	*step_s = est.step_s;
	return rc;
}

/* What the injected slowdown of compute does to a step, by event simulation. */
static int predict_injected(struct overhead_run *r, struct oracle *sim, const struct moment *m, double plain_s,
			    struct bace_err *e)
{
	double factor = 1 + r->o->inject_ppm / 1e6, slow_s;
	struct cluster *c = &r->exp->cluster;
	int rc;

	for (int i = 0; i < c->n_gpus; i++)
		c->gpus[i].flops_eff /= factor;
	for (int i = 0; i < r->exp->n_models; i++) {
		r->exp->models[i].measured_fwd_s *= factor;
		r->exp->models[i].measured_bwd_s *= factor;
	}
	rc = predict(r, sim, m, &slow_s, e);
	for (int i = 0; i < c->n_gpus; i++)
		c->gpus[i].flops_eff *= factor;
	for (int i = 0; i < r->exp->n_models; i++) {
		r->exp->models[i].measured_fwd_s /= factor;
		r->exp->models[i].measured_bwd_s /= factor;
	}
	if (!rc)
		r->out->injected = slow_s / plain_s - 1;
	return rc;
}

static int describe(struct overhead_run *r, struct bace_err *e)
{
	const struct cluster *c = &r->exp->cluster;
	const struct testbed_spec *t = &r->exp->testbed;

	r->src = r->placement.parts[0].region;
	r->dst = r->placement.parts[1].region;
	r->rate_bps = (uint64_t)llround((double)cluster_link(c, r->src, r->dst)->rate_bps * t->scale_bytes /
					t->scale_time);
	snprintf(r->out->link, sizeof(r->out->link), "%s > %s", c->regions[r->src].name, c->regions[r->dst].name);
	r->out->job = r->exp->jobs[r->placement.job].name;
	r->out->placement = placement_format(c, &r->placement);
	r->out->hosts = c->n_regions * (1 + t->hosts_per_region);
	return r->out->placement ? 0 : bace_fail(e, ENOMEM, "out of memory");
}

static double *capacities(const struct cluster *c)
{
	size_t n = (size_t)(c->n_regions * c->n_regions);
	double *v = calloc(n + 1, sizeof(*v));

	for (size_t i = 0; v && i < n; i++)
		v[i] = c->links[i].present ? (double)c->links[i].rate_bps : 0;
	return v;
}

static int build_pipeline(struct overhead_run *r, struct oracle *sim, struct bace_err *e)
{
	const struct placement *const list[1] = { &r->placement };
	CLEANUP_FREE double *capacity = capacities(&r->exp->cluster);
	struct moment m = { .exp = r->exp, .models = &r->models, .n = 1, .placements = list,
			    .capacity_bps = capacity };
	struct lab_net net;
	double step_s;
	int rc = capacity ? describe(r, e) : bace_fail(e, ENOMEM, "out of memory");

	if (!rc)
		rc = predict(r, sim, &m, &step_s, e);
	if (!rc)
		rc = predict_injected(r, sim, &m, step_s, e);
	if (!rc)
		rc = lab_net_build(&r->exp->cluster, r->exp->testbed.hosts_per_region, &net, e);
	if (rc)
		return rc;
	rc = cell_build(&m, &net, &step_s, &r->cell, e);
	lab_net_free(&net);
	r->step_s = step_s * r->exp->testbed.scale_time;
	r->out->predicted_step_s = r->step_s;
	r->cell.warmup_steps = WARMUP_STEPS;
	return rc;
}

static int prepare(struct overhead_run *r, struct bace_err *e)
{
	const struct experiment *exp = r->exp;
	struct oracle *sim = NULL;
	int rc = job_models_build(exp, &r->models, e);

	if (!rc)
		rc = oracle_event_sim(exp->schedule, exp->interleave, exp->overlap, &sim, e);
	if (!rc)
		rc = find_placement(r, sim, e);
	if (!rc)
		rc = build_pipeline(r, sim, e);
	oracle_destroy(sim);
	if (rc)
		return rc;
	traffic_of(exp, &r->models, &r->traffic);
	rc = check_message_sizes(exp, &r->traffic, e);
	if (!rc)
		rc = lab_choose_backend(r->o->has_backend ? r->o->backend : exp->testbed.backend, &r->backend,
					&r->out->backend_why, e);
	if (!rc)
		r->out->backend = backend_name(r->backend);
	return rc;
}

/* ---- one method at one period ---- */

static double clamp(double v, double least, double most)
{
	return fmin(most, fmax(least, v));
}

static struct overhead_timing timing(const struct overhead_run *r, const struct overhead_method *m,
				     int period_ms, uint64_t seed)
{
	double period_s = period_ms / 1e3;
	double longest_s = r->step_s * (1 + r->o->inject_ppm / 1e6);
	double block_s = fmax(r->o->block_steps * longest_s, BLOCK_PERIODS * period_s);
	double dwell_s = clamp(fmax(DWELL_PERIODS * period_s, DWELL_STEPS * r->step_s), DWELL_MIN_S, DWELL_MAX_S);
	bool changes = r->o->detection && m->kind != OVERHEAD_OFF;

	return (struct overhead_timing){ .from_s = WARMUP_STEPS * r->step_s, .block_s = block_s,
		.dwell_s = dwell_s, .pairs = r->o->pairs, .n_rates = !changes ? 0 : dwell_s > 10 ? 2 : 4,
		.inject_ppm = r->o->inject_ppm, .src = r->src, .dst = r->dst, .rate_bps = r->rate_bps,
		.seed = seed };
}

static int run_loaded(struct overhead_run *r, const struct overhead_timing *t, const struct tb_monitor *m,
		      struct overhead_row *row, struct bace_err *e)
{
	struct overhead_schedule s;
	struct tb_result res = { 0 };
	int rc = overhead_schedule(t, m, &s, e);

	if (rc)
		return rc;
	r->cell.script = &s.script;
	r->cell.steps = (int)ceil(s.end_s / r->step_s) + SLACK_STEPS;
	r->cell.timeout_s = 30 + 4 * r->step_s * (r->cell.steps + WARMUP_STEPS) + 2 * s.end_s;
	rc = testbed_run(r->testbed, &r->cell, &res, e);
	r->cell.script = NULL;
	if (!rc) {
		row->valid = res.valid;
		snprintf(row->why, sizeof(row->why), "%s", res.invalid_why);
		rc = overhead_judge_steps(&s, &res, t->seed, row, e);
		row->n_changes = s.n_rates;
		row->dwell_s = s.dwell_s;
		if (!rc && s.n_rates)
			rc = overhead_judge_changes(&s, &res.log, r->rate_bps, &row->n_detected, &row->detect_s,
						    &row->error, e);
		if (rc == -ENODATA) {
			/* A row without figures says why, the others go on. */
			row->valid = false;
			if (!row->why[0])
				snprintf(row->why, sizeof(row->why), "%.250s", e->msg);
			rc = 0;
		}
	}
	tb_result_free(&res);
	overhead_schedule_free(&s);
	return rc;
}

static int run_idle(struct overhead_run *r, const struct overhead_timing *loaded, const struct tb_monitor *m,
		    struct overhead_row *row, struct bace_err *e)
{
	struct overhead_timing t = *loaded;
	struct overhead_schedule s;
	struct tb_log log = { 0 };
	int rc;

	t.n_rates = 2;
	t.dwell_s = fmin(t.dwell_s, IDLE_DWELL_MAX_S);
	rc = overhead_schedule_idle(&t, m, &s, e);
	if (rc)
		return rc;
	rc = testbed_script(r->testbed, &s.script, &log, e);
	if (!rc)
		rc = overhead_judge_changes(&s, &log, r->rate_bps, &row->n_idle_detected, &row->idle_detect_s,
					    &row->idle_error, e);
	row->n_idle_changes = s.n_rates;
	tb_log_free(&log);
	overhead_schedule_free(&s);
	return rc;
}

static int run_row(struct overhead_run *r, const struct overhead_method *m, int period_ms, struct bace_err *e)
{
	struct overhead_row *row = &r->out->rows[r->out->n];
	struct overhead_timing t = timing(r, m, period_ms, r->exp->seed + (uint64_t)r->out->n);
	struct tb_monitor mon = overhead_monitor(m, period_ms);
	char text[BACE_FMT_MAX];
	int rc;

	*row = (struct overhead_row){ .method = m, .period_ms = period_ms, .detect_s = NAN, .idle_detect_s = NAN,
				      .error = NAN, .idle_error = NAN };
	progress(r, "%s every %s: %d pairs of blocks of %.1f s%s", m->name, bace_fmt_time(text, period_ms / 1e3),
		 t.pairs, t.block_s, t.n_rates ? ", then changes of the link" : "");
	rc = run_loaded(r, &t, &mon, row, e);
	if (!rc && t.n_rates)
		rc = run_idle(r, &t, &mon, row, e);
	if (rc)
		return rc;
	r->out->n++;
	if (isnan(row->lo))
		snprintf(text, sizeof(text), "too few pairs");
	else
		snprintf(text, sizeof(text), "%+.2f, %+.2f", 100 * row->lo, 100 * row->hi);
	progress(r, "  %+.2f %% [%s]%s%s", 100 * row->inflation, text, row->valid ? "" : "; invalid: ",
		 row->valid ? "" : row->why);
	return overhead_store_row(r, row, e);
}

static int run_grid(struct overhead_run *r, struct bace_err *e)
{
	const struct overhead_options *o = r->o;
	int rc = 0;

	r->out->rows = calloc((size_t)(o->n_methods * o->n_periods) + 1, sizeof(*r->out->rows));
	if (!r->out->rows)
		return bace_fail(e, ENOMEM, "out of memory");
	for (int i = 0; i < o->n_methods && !rc; i++) {
		/* Nothing has no period: one row shows what chance does. */
		int n = o->methods[i].kind == OVERHEAD_OFF ? 1 : o->n_periods;

		for (int k = 0; k < n && !rc; k++)
			rc = run_row(r, &o->methods[i], o->periods_ms[k], e);
	}
	return rc;
}

static int open_testbed(struct overhead_run *r, struct bace_err *e)
{
	CLEANUP_FREE char *inventory = NULL;
	int rc = testbed_open(&(struct testbed_config){ .self = r->o->self, .exp_path = r->exp->path,
		.backend = r->backend, .traffic = r->traffic, .on_progress = r->o->on_progress,
		.arg = r->o->arg, .cancelled = r->o->cancelled }, &r->testbed, e);

	if (!rc)
		rc = testbed_inventory(r->testbed, &inventory, e);
	if (!rc)
		rc = store_run_set_inventory(r->store, r->out->run, inventory, e);
	return rc;
}

int overhead_run(struct experiment *exp, const struct overhead_options *o, struct overhead_result *out,
		 struct bace_err *e)
{
	struct overhead_run r = { .exp = exp, .o = o, .out = out };
	int rc;

	*out = (struct overhead_result){ 0 };
	rc = prepare(&r, e);
	if (!rc) {
		progress(&r, "%s on %s, step %.2f s; backend %s: %s", out->job, out->placement, r.step_s,
			 out->backend, out->backend_why);
		rc = overhead_store_begin(&r, e);
	}
	if (!rc)
		rc = open_testbed(&r, e);
	if (!rc)
		rc = run_grid(&r, e);
	testbed_close(r.testbed);
	rc = overhead_store_end(&r, rc, e);
	if (r.cell.jobs)
		cell_free(&r.cell);
	placement_free(&r.placement);
	job_models_free(&r.models);
	return rc;
}

void overhead_result_free(struct overhead_result *r)
{
	free(r->placement);
	free(r->backend_why);
	free(r->rows);
	*r = (struct overhead_result){ 0 };
}
