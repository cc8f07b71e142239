/*
 * Does bace+ beat bace under the better of its two start rules?
 *
 *   policy_plus [--seeds N] [--first S] [--oracle event-sim|closed-form]
 *               [--flops F] [--bandwidth X] [--jobs N] [--poisson LOAD]
 *               [--prices tariff|hourly] [--schedule S]
 *
 * Scenarios: six regions with measured latencies, GPUs from {16, 32, 64, 128} and
 * 25 to 100 Gbit/s each, links the mean of their ends; jobs drawn from six models
 * and three data sets (50 MB, 0.5 GB, 38 GB), all at once or Poisson at LOAD of
 * the cluster's capacity. A scenario in which a job fits nowhere is drawn again.
 * Printed: mean JCT and cost over jobs, mean over scenarios; the cost over the
 * lower bound that no policy can pass; and per scenario the ratio to bace, its
 * mean with a 95 % bootstrap interval over scenarios.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "harness/sim/sim.h"

#define ARMS_MAX 16
#define RESAMPLES 2000

struct options {
	int seeds, first, jobs;
	double flops, bandwidth, load;
	bool closed_form;
	const char *cluster;
	enum schedule_kind schedule;
};

struct arm {
	const char *label, *name;
	enum start_kind start;
	enum order_kind order;
	bool has_order, elastic;
	enum prefer_kind prefer;
	double *jct, *cost;		/* per scenario */
};

static struct arm arms[] = {
	{ "bace k_min", "bace", START_K_MIN },
	{ "bace k_star", "bace", START_K_STAR },
	{ "bace+", "bace+", START_K_MIN },
	{ "bace+ cost", "bace+", START_K_MIN, .prefer = PREFER_COST },
	{ "bace+ elastic", "bace+", START_K_MIN, .elastic = true },
	{ "bace jct", "bace", START_K_MIN, .prefer = PREFER_JCT },
	{ "ldf k_min", "ldf", START_K_MIN },
	{ "cr-lcf k_min", "cr-lcf", START_K_MIN },
};

static double *bound;			/* cost, per scenario */

static const char *const model_names[] = { "Qwen2.5-14B", "Gemma3-27B-text", "Qwen2.5-32B", "Falcon-40B",
					   "Llama3-70B", "FLM-101B" };
static const double datasets[] = { 50e6, 0.5e9, 38e9 };

static void die(const char *what, const struct bace_err *e)
{
	fprintf(stderr, "policy_plus: %s: %s\n", what, e->msg);
	exit(1);
}

static void draw_cluster(struct cluster *c, const struct options *o, struct bace_rng *r)
{
	for (int i = 0; i < c->n_regions; i++) {
		struct region *reg = &c->regions[i];

		reg->n_gpus = 16 << bace_rng_below(r, 4);
		reg->bandwidth_bps = o->bandwidth * (25e9 + 75e9 * bace_rng_uniform(r));
	}
	for (int i = 0; i < c->n_regions; i++)
		for (int j = 0; j < c->n_regions; j++)
			if (i != j)
				c->links[i * c->n_regions + j].rate_bps =
					(uint64_t)((c->regions[i].bandwidth_bps + c->regions[j].bandwidth_bps) / 2);
	for (int g = 0; g < c->n_gpus; g++)
		c->gpus[g].flops_eff = o->flops;
}

static int model_index(const struct experiment *e, const char *name)
{
	for (int i = 0; i < e->n_models; i++)
		if (!strcmp(e->models[i].name, name))
			return i;
	fprintf(stderr, "policy_plus: no model %s\n", name);
	exit(1);
}

static void draw_jobs(struct experiment *e, const struct options *o, struct bace_rng *r)
{
	double work = 0, gpus = 0, at = 0, mean_gap;

	e->n_jobs = o->jobs;
	e->jobs = calloc((size_t)o->jobs, sizeof(*e->jobs));
	if (!e->jobs)
		abort();
	for (int i = 0; i < o->jobs; i++) {
		struct job *j = &e->jobs[i];

		snprintf(j->name, NAME_LEN, "job%03d", i);
		j->model = (int)bace_rng_below(r, ARRAY_LEN(model_names));
		j->micro_batches = 64;
		j->micro_batch_size = 1;
		j->epochs = 1;
		j->dataset_bytes = datasets[bace_rng_below(r, ARRAY_LEN(datasets))];
		j->steps = ceil(j->dataset_bytes / 4 / (64.0 * e->models[j->model].seq));
		work += j->steps * 64 * 8 * e->models[j->model].params * e->models[j->model].seq / o->flops;
	}
	for (int i = 0; i < e->cluster.n_regions; i++)
		gpus += e->cluster.regions[i].n_gpus;
	mean_gap = o->load > 0 ? work / o->jobs / (gpus * o->load) : 0;
	for (int i = 0; i < o->jobs && mean_gap > 0; i++) {
		at += bace_rng_exponential(r, mean_gap);
		e->jobs[i].arrival_s = at;
	}
}

/* Only the six models, in a fixed order. */
static void pick_models(struct experiment *e)
{
	struct model *m = calloc(ARRAY_LEN(model_names), sizeof(*m));

	if (!m)
		abort();
	for (size_t i = 0; i < ARRAY_LEN(model_names); i++)
		m[i] = e->models[model_index(e, model_names[i])];
	free(e->models);
	e->models = m;
	e->n_models = ARRAY_LEN(model_names);
}

static void build(struct experiment *e, const struct options *o, uint64_t seed)
{
	struct bace_diags diags = { 0 };
	struct bace_err err = { 0 };
	struct bace_rng r;

	if (experiment_load(BACE_SOURCE_ROOT "/profiles/experiments/six-regions-paper.cfg", e, &diags, &err)) {
		bace_diags_print(&diags, stderr);
		die("load", &err);
	}
	if (o->cluster) {
		cluster_free(&e->cluster);
		if (cluster_load(o->cluster, &e->cluster, &diags, &err))
			die(o->cluster, &err);
	}
	e->schedule = o->schedule;
	bace_rng_init(&r, seed, 11);
	pick_models(e);
	draw_cluster(&e->cluster, o, &r);
	free(e->jobs);
	draw_jobs(e, o, &r);
}

static struct policy_spec spec_of(const struct arm *a)
{
	struct policy_spec s = { .start = a->start, .alpha = NAN, .alpha_gain = 1, .pathfinder = true,
				 .cost_min = true, .prefer = a->prefer, .elastic = a->elastic, .restart_s = 120,
				 .has_order = a->has_order, .order = a->order };

	snprintf(s.name, sizeof(s.name), "%s", a->name);
	snprintf(s.label, sizeof(s.label), "%s", a->label);
	return s;
}

/* false: some job was never run. */
static bool simulate(const struct experiment *e, const struct job_models *m, const struct arm *a,
		     const struct options *o, double *jct, double *cost)
{
	struct policy_spec spec = spec_of(a);
	struct cluster_sim sim = { .exp = e, .models = m, .separable = true, .seed = 1 };
	struct cluster_result res;
	struct bace_err err = { 0 };
	bool all;
	int rc = policy_create(&spec, 1, &sim.policy, &err);

	if (!rc)
		rc = o->closed_form ? oracle_closed_form(&sim.oracle, &err) :
				      oracle_event_sim(o->schedule, 1, true, &sim.oracle, &err);
	if (!rc)
		rc = cluster_simulate(&sim, &res, &err);
	if (rc)
		die(a->label, &err);
	all = res.n_finished == res.n;
	*jct = res.mean_jct_s;
	*cost = res.cost_usd;
	cluster_result_free(&res);
	oracle_destroy(sim.oracle);
	policy_destroy(sim.policy);
	return all;
}

static bool scenario(const struct options *o, uint64_t seed, int at)
{
	struct experiment e;
	struct job_models m;
	struct bace_err err = { 0 };
	bool ok = true;

	build(&e, o, seed);
	if (job_models_build(&e, &m, &err))
		die("job models", &err);
	bound[at] = policy_cost_bound_usd(&e, &m);
	for (size_t i = 0; ok && i < ARRAY_LEN(arms); i++)
		ok = simulate(&e, &m, &arms[i], o, &arms[i].jct[at], &arms[i].cost[at]);
	job_models_free(&m);
	experiment_free(&e);
	return ok;
}

/* ---- statistics ---- */

struct interval {
	double mean, lo, hi;
};

static struct interval ratio(const double *x, const double *y, int n)
{
	static double means[RESAMPLES];
	struct bace_rng r;
	double mean = 0;

	bace_rng_init(&r, 1, 5);
	for (int i = 0; i < n; i++)
		mean += x[i] / y[i] / n;
	for (int k = 0; k < RESAMPLES; k++) {
		means[k] = 0;
		for (int i = 0; i < n; i++) {
			uint64_t j = bace_rng_below(&r, (uint64_t)n);

			means[k] += x[j] / y[j] / n;
		}
	}
	qsort(means, RESAMPLES, sizeof(*means), bace_by_double);
	return (struct interval){ mean, means[RESAMPLES / 40], means[RESAMPLES - 1 - RESAMPLES / 40] };
}

static void print_ratio(struct interval i)
{
	printf("  %.3f [%.3f, %.3f]", i.mean, i.lo, i.hi);
}

static double mean_of(const double *v, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += v[i];
	return sum / n;
}

/* Sooner at no higher cost, or cheaper at no higher JCT: the interval of what
 * is gained lies below 1, that of the other does not lie above. */
static void verdict(const struct arm *a, const struct arm *base, int n)
{
	struct interval jct = ratio(a->jct, base->jct, n), cost = ratio(a->cost, base->cost, n);
	bool sooner = jct.hi < 1 && cost.lo <= 1, cheaper = cost.hi < 1 && jct.lo <= 1;

	printf("%s against %s: %s\n", a->label, base->label,
	       sooner && cheaper ? "sooner and cheaper" : sooner ? "sooner at no higher cost" :
	       cheaper ? "cheaper at no higher JCT" : "neither");
}

static void report(int n)
{
	const struct arm *better;

	printf("%-14s %12s %12s %7s  %-21s  %-21s  %-21s  %-21s\n", "policy", "mean JCT s", "cost USD", "/ bound",
	       "JCT / bace k_min", "cost / bace k_min", "JCT / bace k_star", "cost / bace k_star");
	for (size_t i = 0; i < ARRAY_LEN(arms); i++) {
		printf("%-14s %12.0f %12.2f %7.3f", arms[i].label, mean_of(arms[i].jct, n),
		       mean_of(arms[i].cost, n), mean_of(arms[i].cost, n) / mean_of(bound, n));
		for (int base = 0; base < 2; base++) {
			print_ratio(ratio(arms[i].jct, arms[base].jct, n));
			print_ratio(ratio(arms[i].cost, arms[base].cost, n));
		}
		putchar('\n');
	}
	better = mean_of(arms[0].jct, n) < mean_of(arms[1].jct, n) ? &arms[0] : &arms[1];
	printf("the better start rule of bace in mean JCT: %s\n", start_name(better->start));
	for (size_t i = 2; i < ARRAY_LEN(arms); i++)
		if (!strcmp(arms[i].name, "bace+"))
			verdict(&arms[i], better, n);
}

static void parse(struct options *o, int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *k = argv[i], *v = argv[i + 1];

		if (!strcmp(k, "--seeds"))
			o->seeds = atoi(v);
		else if (!strcmp(k, "--first"))
			o->first = atoi(v);
		else if (!strcmp(k, "--jobs"))
			o->jobs = atoi(v);
		else if (!strcmp(k, "--oracle"))
			o->closed_form = !strcmp(v, "closed-form");
		else if (!strcmp(k, "--flops"))
			o->flops = atof(v);
		else if (!strcmp(k, "--bandwidth"))
			o->bandwidth = atof(v);
		else if (!strcmp(k, "--poisson"))
			o->load = atof(v);
		else if (!strcmp(k, "--prices"))
			o->cluster = strcmp(v, "hourly") ? NULL : "six-regions-hourly";
		else if (!strcmp(k, "--schedule"))
			schedule_from_name(v, &o->schedule);
	}
}

int main(int argc, char **argv)
{
	struct options o = { .seeds = 200, .first = 1, .jobs = 8, .flops = 60e12, .bandwidth = 1,
			     .schedule = SCHED_1F1B };
	int n = 0, drawn = 0;

	parse(&o, argc, argv);
	bace_log_setup(&(struct bace_log_config){ .level = BACE_ERROR, .program = "policy_plus", .fd = 2 });
	bound = calloc((size_t)o.seeds, sizeof(double));
	if (!bound)
		abort();
	for (size_t i = 0; i < ARRAY_LEN(arms); i++) {
		arms[i].jct = calloc((size_t)o.seeds, sizeof(double));
		arms[i].cost = calloc((size_t)o.seeds, sizeof(double));
		if (!arms[i].jct || !arms[i].cost)
			abort();
	}
	for (; n < o.seeds && drawn < 20 * o.seeds; drawn++)
		n += scenario(&o, (uint64_t)(o.first + drawn), n);
	printf("%d scenarios (%d redrawn), %s, %g FLOP/s, bandwidth x %g, %d jobs%s\n", n, drawn - n,
	       o.closed_form ? "closed form" : schedule_name(o.schedule), o.flops, o.bandwidth, o.jobs,
	       o.load > 0 ? ", Poisson" : " at once");
	report(n);
	for (size_t i = 0; i < ARRAY_LEN(arms); i++) {
		free(arms[i].jct);
		free(arms[i].cost);
	}
	free(bound);
	return n == o.seeds ? 0 : 1;
}
