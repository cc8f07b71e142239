#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sim/sim.h"

const char *const sweep_metric_name[N_METRICS] = {
	[METRIC_MEAN_JCT] = "mean_jct_s", [METRIC_MEDIAN_JCT] = "median_jct_s",
	[METRIC_P95_JCT] = "p95_jct_s", [METRIC_MEAN_WAITING] = "mean_waiting_s",
	[METRIC_P95_WAITING] = "p95_waiting_s", [METRIC_SLOWDOWN] = "mean_slowdown",
	[METRIC_UTILISATION] = "gpu_utilisation", [METRIC_ENERGY] = "energy_j",
	[METRIC_COST] = "cost_usd", [METRIC_MAKESPAN] = "makespan_s",
	[METRIC_FINISHED] = "finished_jobs", [METRIC_FAILURES] = "policy_failures",
};

enum { STREAM_RESAMPLE = 11, STREAM_ARRIVALS = 12 };

struct running_sweep {
	const struct experiment *exp;
	const struct sweep_options *o;
	struct job_models models;	/* shared when jobs do not vary */
	struct sweep *out;
	atomic_bool no_memory;		/* for the text of an error */
};

/* ---- what a seed draws ---- */

static void resample_jobs(const struct experiment *exp, uint64_t seed, struct job *jobs)
{
	struct bace_rng r;

	bace_rng_init(&r, seed, STREAM_RESAMPLE);
	for (int i = 0; i < exp->n_jobs; i++) {
		const struct job *from = &exp->jobs[bace_rng_below(&r, (uint64_t)exp->n_jobs)];
		double arrival_s = jobs[i].arrival_s;

		jobs[i] = *from;
		jobs[i].arrival_s = arrival_s;
		snprintf(jobs[i].name, NAME_LEN, "%.*s.%d", NAME_LEN - 12, from->name, i + 1);
	}
}

static void draw_arrivals(int n, uint64_t seed, double mean_gap_s, struct job *jobs, int *order)
{
	struct bace_rng r;
	double t = 0;

	bace_rng_init(&r, seed, STREAM_ARRIVALS);
	for (int i = 0; i < n; i++) {
		int j = (int)bace_rng_below(&r, (uint64_t)i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	for (int i = 0; i < n; i++) {
		jobs[order[i]].arrival_s = t;
		t += bace_rng_exponential(&r, mean_gap_s);
	}
}

/* out: the experiment with jobs of its own, freed by the caller. */
static int vary(const struct running_sweep *w, uint64_t seed, struct experiment *out)
{
	size_t n = (size_t)w->exp->n_jobs;
	CLEANUP_FREE int *order = calloc(n + 1, sizeof(*order));

	*out = *w->exp;
	out->jobs = calloc(n + 1, sizeof(*out->jobs));
	if (!order || !out->jobs) {
		free(out->jobs);
		return -ENOMEM;
	}
	memcpy(out->jobs, w->exp->jobs, n * sizeof(*out->jobs));
	if (w->o->resample)
		resample_jobs(w->exp, seed, out->jobs);
	if (w->o->mean_gap_s > 0)
		draw_arrivals(w->exp->n_jobs, seed, w->o->mean_gap_s, out->jobs, order);
	return 0;
}

static bool jobs_vary(const struct sweep_options *o)
{
	return o->resample || o->mean_gap_s > 0;
}

static bool seeds_differ(const struct experiment *exp, const struct sweep_options *o)
{
	const struct view_spec *v = &exp->view;

	if (jobs_vary(o) || v->bandwidth_noise != 0 || v->price_noise != 0)
		return true;
	for (int i = 0; i < exp->n_policies; i++)
		if (!strcmp(exp->policies[i].name, "random") || !strcmp(exp->policies[i].name, "external"))
			return true;
	return false;
}

/* ---- one cell ---- */

static int keep(const struct sweep *s, const struct cluster_result *r, const struct policy *p,
		struct sweep_cell *c)
{
	const double m[N_METRICS] = {
		[METRIC_MEAN_JCT] = r->mean_jct_s, [METRIC_MEDIAN_JCT] = r->median_jct_s,
		[METRIC_P95_JCT] = r->p95_jct_s, [METRIC_MEAN_WAITING] = r->mean_waiting_s,
		[METRIC_P95_WAITING] = r->p95_waiting_s, [METRIC_SLOWDOWN] = r->mean_slowdown,
		[METRIC_UTILISATION] = r->gpu_utilisation, [METRIC_ENERGY] = r->energy_j,
		[METRIC_COST] = r->cost_usd, [METRIC_MAKESPAN] = r->makespan_s,
		[METRIC_FINISHED] = r->n_finished, [METRIC_FAILURES] = (double)policy_failures(p, NULL),
	};

	memcpy(c->metric, m, sizeof(m));
	if (s->n_seeds > 1)
		return 0;
	c->jct_s = calloc((size_t)r->n + 1, sizeof(double));
	c->cost_usd = calloc((size_t)r->n + 1, sizeof(double));
	if (!c->jct_s || !c->cost_usd)
		return -ENOMEM;
	for (int i = 0; i < r->n; i++) {
		c->jct_s[i] = r->jobs[i].jct_s;
		c->cost_usd[i] = r->jobs[i].cost_usd;
	}
	return 0;
}

static int simulate(const struct running_sweep *w, const struct experiment *exp,
		    const struct job_models *models, int policy, const char *oracle_name, uint64_t seed,
		    struct sweep_cell *c, struct bace_err *err)
{
	struct policy *p = NULL;
	struct oracle *o = NULL;
	struct cluster_result r = { 0 };
	int rc;

	rc = !strcmp(oracle_name, "closed-form") ?
		     oracle_closed_form(&o, err) :
		     oracle_event_sim(exp->schedule, exp->interleave, exp->overlap, &o, err);
	if (!rc)
		rc = policy_create(&exp->policies[policy], seed, &p, err);
	if (!rc)
		rc = cluster_simulate(&(struct cluster_sim){ .exp = exp, .models = models, .policy = p,
			.oracle = o, .separable = true, .seed = seed }, &r, err);
	if (!rc && keep(w->out, &r, p, c))
		rc = bace_fail(err, ENOMEM, "outcomes of %d jobs: out of memory", r.n);
	cluster_result_free(&r);
	policy_destroy(p);
	oracle_destroy(o);
	return rc;
}

static int index_of(const struct sweep *s, int i)
{
	return s->n_shards ? i * s->n_shards + s->shard - 1 : i;
}

static void work(void *arg, int i)
{
	struct running_sweep *w = arg;
	int at = index_of(w->out, i), oracle = at % w->out->n_oracles;
	int policy = at / w->out->n_oracles % w->out->n_policies;
	uint64_t seed = w->out->seed + (uint64_t)(at / w->out->n_oracles / w->out->n_policies);
	struct sweep_cell *c = &w->out->cells[at];
	struct experiment varied = { 0 };
	struct job_models models = { 0 };
	struct bace_err err = { 0 };
	bool varies = jobs_vary(w->o);
	int rc = varies ? vary(w, seed, &varied) : 0;

	if (rc)
		bace_fail(&err, -rc, "jobs of seed %llu: out of memory", (unsigned long long)seed);
	if (!rc && varies)
		rc = job_models_build(&varied, &models, &err);
	if (!rc)
		rc = simulate(w, varies ? &varied : w->exp, varies ? &models : &w->models, policy,
			      w->out->oracles[oracle], seed, c, &err);
	if (rc) {
		for (int m = 0; m < N_METRICS; m++)
			c->metric[m] = NAN;
		/* An error is told by its text: one that cannot be copied must not pass for none. */
		if (!(c->error = strdup(err.msg)))
			atomic_store(&w->no_memory, true);
	}
	c->done = true;
	job_models_free(&models);
	free(varied.jobs);
}

/* ---- the whole ---- */

static int set_up(const struct experiment *exp, const struct sweep_options *o, struct sweep *s,
		  struct bace_err *err)
{
	int64_t cells;

	*s = (struct sweep){ .config_hash = exp->text_hash, .seed = exp->seed, .n_jobs = exp->n_jobs,
		.n_seeds = o->n_seeds, .n_policies = exp->n_policies, .shard = o->shard,
		.n_shards = o->n_shards, .resample = o->resample, .mean_gap_s = o->mean_gap_s,
		.cost_bound_usd = NAN, .varies = seeds_differ(exp, o) };
	memcpy(s->experiment, exp->name, sizeof(s->experiment));
	if (o->closed_form)
		strcpy(s->oracles[s->n_oracles++], "closed-form");
	if (o->event_sim)
		strcpy(s->oracles[s->n_oracles++], "event-sim");
	cells = (int64_t)s->n_seeds * s->n_policies * s->n_oracles;
	if (cells < 1 || cells > 1 << 28)
		return bace_fail(err, EINVAL, "%d seeds of %d policies by %d oracles: must be 1 to %d cells",
				 s->n_seeds, s->n_policies, s->n_oracles, 1 << 28);
	s->n_cells = (int)cells;
	s->policies = calloc((size_t)s->n_policies, sizeof(*s->policies));
	s->cells = calloc((size_t)s->n_cells, sizeof(*s->cells));
	if (!s->policies || !s->cells)
		return bace_fail(err, ENOMEM, "sweep of %d cells: out of memory", s->n_cells);
	for (int i = 0; i < s->n_policies; i++)
		memcpy(s->policies[i], exp->policies[i].label, NAME_LEN);
	return 0;
}

int sweep_run(const struct experiment *exp, const struct sweep_options *o, struct sweep *out,
	      struct bace_err *err)
{
	struct running_sweep w = { .exp = exp, .o = o, .out = out };
	int rc = set_up(exp, o, out, err), n = out->n_cells;

	if (o->n_shards)
		n = (out->n_cells - o->shard + o->n_shards) / o->n_shards;
	if (!rc)
		rc = job_models_build(exp, &w.models, err);
	if (!rc && !o->resample) {
		out->cost_bound_usd = policy_cost_bound_usd(exp, &w.models);
		if (isinf(out->cost_bound_usd))
			out->cost_bound_usd = NAN;
	}
	if (!rc)
		rc = pool_run(n, o->n_threads, work, &w, o->on_progress, o->arg, err);
	if (!rc && atomic_load(&w.no_memory))
		rc = bace_fail(err, ENOMEM, "sweep of %d cells: out of memory", out->n_cells);
	job_models_free(&w.models);
	if (rc)
		sweep_free(out);
	return rc;
}

void sweep_free(struct sweep *s)
{
	for (int i = 0; s->cells && i < s->n_cells; i++) {
		free(s->cells[i].error);
		free(s->cells[i].jct_s);
		free(s->cells[i].cost_usd);
	}
	free(s->cells);
	free(s->policies);
	*s = (struct sweep){ 0 };
}

int sweep_merge(struct sweep *to, struct sweep *from, struct bace_err *err)
{
	if (to->config_hash != from->config_hash || to->seed != from->seed || to->n_jobs != from->n_jobs ||
	    to->n_seeds != from->n_seeds || to->n_policies != from->n_policies ||
	    to->n_oracles != from->n_oracles || to->n_shards != from->n_shards ||
	    to->resample != from->resample || to->mean_gap_s != from->mean_gap_s ||
	    memcmp(to->policies, from->policies, sizeof(*to->policies) * (size_t)to->n_policies) ||
	    memcmp(to->oracles, from->oracles, sizeof(to->oracles)))
		return bace_fail(err, EINVAL, "shard %d/%d is of another sweep: experiment, seeds and options must be the same",
				 from->shard, from->n_shards);
	for (int i = 0; i < to->n_cells; i++) {
		if (!from->cells[i].done)
			continue;
		if (to->cells[i].done)
			return bace_fail(err, EINVAL, "shard %d/%d is there twice", from->shard,
					 from->n_shards);
		to->cells[i] = from->cells[i];
		from->cells[i] = (struct sweep_cell){ 0 };
	}
	return 0;
}
