/*
 * Scenarios after public summaries of BACE-Pipe (arXiv 2605.25375): {16, 32, 64,
 * 128} GPUs and 25 to 100 Gbit/s a region, a link as fast as the mean of its
 * ends, 0.156 to 0.295 USD/kWh, data sets of 50 MB, 0.5 GB and 38 GB at random.
 * Models: each of the base once, further jobs at random, in an order drawn.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sim/claims.h"

#define JOBS 8
#define K_LIMIT_ELASTIC 512
#define BYTES_PER_TOKEN 4.0
/* Poisson arrivals: this share of the cluster would be busy with all jobs at K*. */
#define POISSON_LOAD 1.0

static const double dataset_bytes[] = { 50e6, 0.5e9, 38e9 };
static const double flops_eff[CLAIMS_LEVELS] = { 60e12, 100e12, 180e12, 310e12 };
static const int micro_batches[CLAIMS_LEVELS] = { 16, 64, 256, 1024 };

/* ---- the draw ---- */

int draw_alloc(struct draw *d, const struct experiment *base)
{
	size_t n = (size_t)base->cluster.n_regions;

	*d = (struct draw){ .base = base };
	d->gpus = calloc(n, sizeof(*d->gpus));
	d->bandwidth_bps = calloc(n, sizeof(*d->bandwidth_bps));
	d->price = calloc(n, sizeof(*d->price));
	if (d->gpus && d->bandwidth_bps && d->price)
		return 0;
	draw_free(d);
	return -ENOMEM;
}

void draw_free(struct draw *d)
{
	free(d->gpus);
	free(d->bandwidth_bps);
	free(d->price);
	*d = (struct draw){ 0 };
}

void draw_scenario(struct draw *d, struct bace_rng *r)
{
	int n_models = d->base->n_models;

	for (int i = 0; i < d->base->cluster.n_regions; i++) {
		d->gpus[i] = 16 << bace_rng_below(r, 4);
		d->bandwidth_bps[i] = 25e9 + 75e9 * bace_rng_uniform(r);
		d->price[i] = 0.156 + (0.295 - 0.156) * bace_rng_uniform(r);
	}
	for (int i = 0; i < CLAIMS_MAX_JOBS; i++) {
		d->model[i] = i < n_models && i < JOBS ? i : (int)bace_rng_below(r, (uint64_t)n_models);
		d->dataset[i] = (int)bace_rng_below(r, ARRAY_LEN(dataset_bytes));
		d->gap[i] = bace_rng_exponential(r, 1);
	}
	for (int i = JOBS - 1; i > 0; i--) {
		int j = (int)bace_rng_below(r, (uint64_t)i + 1), t = d->model[i];

		d->model[i] = d->model[j];
		d->model[j] = t;
	}
}

/* ---- choices ---- */

enum schedule_kind choice_schedule(const int *choice)
{
	return choice[CHOICE_ORACLE] == 2 ? SCHED_EAGER_1F1B : SCHED_1F1B;
}

double choice_alpha(const int *choice)
{
	static const double alpha[CLAIMS_LEVELS] = { NAN, 0, 0.5, 1 };

	return alpha[choice[CHOICE_ALPHA]];
}

/* ---- the scene ---- */

static double gpu_factor(enum claims_variant v)
{
	return v == CLAIMS_GPUS_05 ? 0.5 : v == CLAIMS_GPUS_125 ? 1.25 : 1;
}

static double link_factor(enum claims_variant v)
{
	return v == CLAIMS_LINKS_03 ? 0.3 : v == CLAIMS_LINKS_15 ? 1.5 : 1;
}

static int build_cluster(struct scene *s, const struct draw *d, const int *choice, enum claims_variant v)
{
	const struct cluster *from = &d->base->cluster;
	struct cluster *c = &s->e.cluster;
	size_t n = (size_t)from->n_regions;

	c->regions = calloc(n, sizeof(*c->regions));
	c->links = calloc(n * n, sizeof(*c->links));
	c->gpus = calloc((size_t)from->n_gpus, sizeof(*c->gpus));
	if (!c->regions || !c->links || !c->gpus)
		return -ENOMEM;
	memcpy(c->gpus, from->gpus, (size_t)from->n_gpus * sizeof(*c->gpus));
	for (int i = 0; i < c->n_gpus; i++)
		c->gpus[i].flops_eff = flops_eff[choice[CHOICE_FLOPS]];
	for (int i = 0; i < c->n_regions; i++) {
		struct region *r = &c->regions[i];

		*r = from->regions[i];
		r->n_gpus = (int)(d->gpus[i] * gpu_factor(v));
		r->bandwidth_bps = d->bandwidth_bps[i] * link_factor(v);
		r->price = (struct price_series){ .n = 1, .start_s = &s->zero, .usd_per_kwh = &d->price[i] };
	}
	for (int i = 0; i < c->n_regions * c->n_regions; i++) {
		double ends = c->regions[i / c->n_regions].bandwidth_bps +
			      c->regions[i % c->n_regions].bandwidth_bps;

		c->links[i] = from->links[i];
		c->links[i].rate_bps = (uint64_t)(ends / 2);
	}
	return 0;
}

static int build_jobs(struct scene *s, const struct draw *d, const int *choice, enum claims_variant v)
{
	struct experiment *e = &s->e;

	e->n_jobs = v == CLAIMS_JOBS_24 ? CLAIMS_MAX_JOBS : JOBS;
	e->jobs = calloc((size_t)e->n_jobs, sizeof(*e->jobs));
	if (!e->jobs)
		return -ENOMEM;
	for (int i = 0; i < e->n_jobs; i++) {
		struct job *j = &e->jobs[i];

		snprintf(j->name, NAME_LEN, "job%02d", i + 1);
		j->model = d->model[i];
		j->micro_batches = micro_batches[choice[CHOICE_M]];
		j->micro_batch_size = 1;
		j->dataset_bytes = dataset_bytes[d->dataset[i]];
		j->epochs = 1;
		j->steps = fmax(1, ceil(j->dataset_bytes / BYTES_PER_TOKEN /
					((double)j->micro_batches * e->models[j->model].seq)));
	}
	return 0;
}

static double gpu_seconds(const struct scene *s, int job)
{
	const struct job_model *j = &s->models.v[job];

	return j->steps * j->step_star_s * j->k_star;
}

static int total_gpus(const struct cluster *c)
{
	int n = 0;

	for (int i = 0; i < c->n_regions; i++)
		n += c->regions[i].n_gpus;
	return n;
}

static double mean_gap_s(const struct scene *s, enum claims_variant v)
{
	double work = 0;

	for (int i = 0; i < JOBS; i++)
		work += gpu_seconds(s, i);
	return work / JOBS / (POISSON_LOAD * total_gpus(&s->e.cluster) / gpu_factor(v));
}

/* The first job at 0. The gap is that of the plain variant with eight jobs: a
 * variant changes one thing, and work at K* depends on the links. */
static int set_arrivals(struct scene *s, const struct draw *d, const int *choice, enum claims_variant v,
			struct bace_err *err)
{
	double gap_s = mean_gap_s(s, v), t = 0;
	struct scene plain;
	int rc;

	if (link_factor(v) != 1) {
		rc = scene_build(&plain, d, choice, CLAIMS_PLAIN, err);
		if (rc)
			return rc;
		gap_s = mean_gap_s(&plain, CLAIMS_PLAIN);
		scene_free(&plain);
	}
	for (int i = 0; i < s->e.n_jobs; i++) {
		s->e.jobs[i].arrival_s = t;
		t += gap_s * d->gap[i];
	}
	return 0;
}

int scene_build(struct scene *s, const struct draw *d, const int *choice, enum claims_variant v,
		struct bace_err *err)
{
	struct experiment *e = &s->e;

	*s = (struct scene){ .e = *d->base };
	e->jobs = NULL;
	e->cluster.regions = NULL;
	e->cluster.links = NULL;
	e->cluster.gpus = NULL;
	e->schedule = choice_schedule(choice);
	e->interleave = 1;
	e->overlap = true;
	e->bill_idle = false;
	e->view = (struct view_spec){ 0 };
	e->k_limit = choice[CHOICE_K_LIMIT] ? K_LIMIT_N : K_LIMIT_LAYERS;
	e->k_limit_n = K_LIMIT_ELASTIC;
	if (build_cluster(s, d, choice, v) || build_jobs(s, d, choice, v)) {
		scene_free(s);
		return bace_fail(err, ENOMEM, "scenario: out of memory");
	}
	int rc = job_models_build(e, &s->models, err);

	if (!rc && choice[CHOICE_ARRIVALS])
		rc = set_arrivals(s, d, choice, v, err);
	if (rc)
		scene_free(s);
	return rc;
}

void scene_free(struct scene *s)
{
	job_models_free(&s->models);
	free(s->e.jobs);
	free(s->e.cluster.regions);
	free(s->e.cluster.links);
	free(s->e.cluster.gpus);
	*s = (struct scene){ 0 };
}

bool scene_fits(const struct scene *s)
{
	int gpus = total_gpus(&s->e.cluster);

	for (int i = 0; i < s->models.n; i++)
		if (s->models.v[i].k_min < 1 || s->models.v[i].k_min > gpus)
			return false;
	return true;
}

/* ---- what may explain a difference ---- */

static void cluster_inputs(const struct cluster *c, double *input)
{
	double sum = 0, least = INFINITY, most = 0, bandwidth = 0;
	int largest = 0;

	for (int i = 0; i < c->n_regions; i++) {
		double cost = c->regions[i].price.usd_per_kwh[0] * c->regions[i].pue;

		sum += cost;
		least = fmin(least, cost);
		most = fmax(most, cost);
		bandwidth += c->regions[i].bandwidth_bps;
		if (c->regions[i].n_gpus > c->regions[largest].n_gpus)
			largest = i;
	}
	input[INPUT_GPUS] = total_gpus(c);
	input[INPUT_LARGEST] = c->regions[largest].n_gpus;
	input[INPUT_BANDWIDTH] = bandwidth / c->n_regions;
	input[INPUT_PRICE_SPREAD] = (most - least) * c->n_regions / sum;
	input[INPUT_LARGEST_PRICE] = c->regions[largest].price.usd_per_kwh[0] * c->regions[largest].pue *
				     c->n_regions / sum;
}

static void job_inputs(const struct scene *s, double *input)
{
	double sum = 0, longest = 0;
	int n = 0;

	for (int i = 0; i < s->e.n_jobs; i++) {
		double t = s->models.v[i].steps * s->models.v[i].step_star_s;

		sum += t;
		longest = fmax(longest, t);
		n += s->e.jobs[i].dataset_bytes == dataset_bytes[ARRAY_LEN(dataset_bytes) - 1];
	}
	input[INPUT_LONG_JOBS] = n;
	input[INPUT_LONGEST_SHARE] = longest / sum;
}

void scene_inputs(const struct scene *s, const int *choice, double *input)
{
	input[INPUT_START] = choice[CHOICE_START];
	input[INPUT_K_LIMIT] = choice[CHOICE_K_LIMIT];
	input[INPUT_EVENT_SIM] = choice[CHOICE_ORACLE] > 0;
	input[INPUT_EAGER] = choice[CHOICE_ORACLE] ? choice[CHOICE_ORACLE] - 1 : NAN;
	input[INPUT_FLOPS] = choice[CHOICE_FLOPS];
	input[INPUT_M] = choice[CHOICE_M];
	input[INPUT_POISSON] = choice[CHOICE_ARRIVALS];
	input[INPUT_ALPHA] = choice_alpha(choice);
	cluster_inputs(&s->e.cluster, input);
	job_inputs(s, input);
}
