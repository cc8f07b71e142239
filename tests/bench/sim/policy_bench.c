#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/sim/policy_bench.h"

static void *zeroed(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		abort();
	return p;
}

/* Shapes from the models' public config.json files. */
static const struct shape {
	const char *name;
	double params;
	int layers, hidden, seq;
} shapes[] = {
	{ "Qwen2.5-14B", 14.77e9, 48, 5120, 4096 },
	{ "Gemma-3-27B", 27.0e9, 62, 5376, 8192 },
	{ "Qwen2.5-32B", 32.76e9, 64, 5120, 4096 },
	{ "Falcon-40B", 41.3e9, 60, 8192, 2048 },
	{ "Llama-3.1-70B", 70.55e9, 80, 8192, 8192 },
	{ "FLM-101B", 101e9, 80, 10240, 2048 },
};

static void build_cluster(struct cluster *c, int n, struct bace_rng *r, double flops, double scale)
{
	c->n_regions = n;
	c->regions = zeroed((size_t)n, sizeof(*c->regions));
	c->links = zeroed((size_t)n * (size_t)n, sizeof(*c->links));
	c->n_gpus = 1;
	c->gpus = zeroed(1, sizeof(*c->gpus));
	c->mtu = 1500;
	c->gpus[0] = (struct gpu_type){ .name = "A6000", .active_w = 300, .idle_ctx_w = 71,
					.memory_bytes = 48e9, .flops_eff = flops };
	for (int i = 0; i < n; i++) {
		struct region *reg = &c->regions[i];

		snprintf(reg->name, sizeof(reg->name), "r%03d", i);
		reg->n_gpus = 16 << bace_rng_below(r, 4);
		reg->pue = 1.1 + 0.4 * bace_rng_uniform(r);
		reg->bandwidth_bps = scale * (25e9 + 75e9 * bace_rng_uniform(r));
		reg->price.n = 1;
		reg->price.start_s = zeroed(1, sizeof(double));
		reg->price.usd_per_kwh = zeroed(1, sizeof(double));
		reg->price.usd_per_kwh[0] = 0.156 + (0.295 - 0.156) * bace_rng_uniform(r);
	}
	for (int i = 0; i < n; i++) {
		for (int j = 0; j < n; j++) {
			struct link *l = &c->links[i * n + j];

			l->present = i != j;
			l->rate_bps = (uint64_t)((c->regions[i].bandwidth_bps + c->regions[j].bandwidth_bps) / 2);
			l->latency_ns = i == j ? 0 : (int64_t)(10e6 + 10e6 * abs(i - j));
		}
	}
}

static void build_jobs(struct bench *b, int jobs, struct bace_rng *r)
{
	struct experiment *e = &b->e;

	e->n_models = ARRAY_LEN(shapes);
	e->models = zeroed(ARRAY_LEN(shapes), sizeof(*e->models));
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		const struct shape *s = &shapes[i];

		e->models[i] = (struct model){ .params = s->params, .layers = s->layers, .hidden = s->hidden,
			.seq = s->seq, .bytes_per_element = 2, .state_bytes_per_param = 16, .recompute = true };
		snprintf(e->models[i].name, NAME_LEN, "%s", s->name);
	}
	e->n_jobs = jobs;
	e->jobs = zeroed((size_t)jobs, sizeof(*e->jobs));
	b->queued = zeroed((size_t)jobs, sizeof(*b->queued));
	for (int i = 0; i < jobs; i++) {
		struct job *j = &e->jobs[i];

		snprintf(j->name, NAME_LEN, "job%06d", i);
		j->model = (int)bace_rng_below(r, ARRAY_LEN(shapes));
		j->micro_batches = 64;
		j->micro_batch_size = 1;
		j->steps = ceil((bace_rng_below(r, 2) ? 50e6 : 500e6) / 4 / (64.0 * e->models[j->model].seq));
		b->queued[i] = (struct queued_job){ .job = i, .remaining_steps = j->steps };
	}
	b->q = (struct queue){ .n = jobs, .v = b->queued };
}

void bench_build_seeded(struct bench *b, int n, int jobs, uint64_t seed, double flops, double scale)
{
	struct bace_rng r;
	struct bace_err err;
	size_t nn = (size_t)n * (size_t)n;

	*b = (struct bench){ 0 };
	bace_rng_init(&r, seed, 1);
	b->e.overlap = true;
	b->e.interleave = 1;
	b->e.schedule = SCHED_1F1B;
	build_cluster(&b->e.cluster, n, &r, flops, scale);
	build_jobs(b, jobs, &r);
	if (job_models_build(&b->e, &b->models, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		abort();
	}
	b->free_gpus = zeroed((size_t)n, sizeof(int));
	b->price = zeroed((size_t)n, sizeof(double));
	b->capacity_bps = zeroed(nn, sizeof(double));
	b->reserved_bps = zeroed(nn, sizeof(double));
	for (size_t i = 0; i < nn; i++)
		b->capacity_bps[i] = b->e.cluster.links[i].present ? (double)b->e.cluster.links[i].rate_bps : 0;
	b->v = (struct view){ .exp = &b->e, .models = &b->models, .free_gpus = b->free_gpus, .price = b->price,
			      .capacity_bps = b->capacity_bps, .reserved_bps = b->reserved_bps };
	bench_moment(b, 0);
}

void bench_build(struct bench *b, int n, int jobs)
{
	bench_build_seeded(b, n, jobs, 1, 60e12, 1);
}

void bench_free(struct bench *b)
{
	for (int i = 0; i < b->e.cluster.n_regions; i++) {
		free(b->e.cluster.regions[i].price.start_s);
		free(b->e.cluster.regions[i].price.usd_per_kwh);
	}
	free(b->e.cluster.regions);
	free(b->e.cluster.links);
	free(b->e.cluster.gpus);
	free(b->e.models);
	free(b->e.jobs);
	free(b->queued);
	free(b->free_gpus);
	free(b->price);
	free(b->capacity_bps);
	free(b->reserved_bps);
	job_models_free(&b->models);
}

void bench_moment(struct bench *b, uint64_t seed)
{
	const struct cluster *c = &b->e.cluster;
	struct bace_rng r;
	double load;

	bace_rng_init(&r, seed, 2);
	load = bace_rng_uniform(&r);
	b->v.now_s = (double)seed;
	for (int i = 0; i < c->n_regions; i++) {
		const struct region *reg = &c->regions[i];
		double taken = fmin(1, 2 * load * bace_rng_uniform(&r));

		b->free_gpus[i] = reg->n_gpus - (int)(taken * reg->n_gpus);
		b->price[i] = reg->price.usd_per_kwh[0] * (0.8 + 0.4 * bace_rng_uniform(&r));
	}
	for (int i = 0; i < c->n_regions * c->n_regions; i++)
		b->reserved_bps[i] = b->capacity_bps[i] * load * bace_rng_uniform(&r);
}

void bench_crowd(struct bench *b)
{
	for (int i = 0; i < b->e.cluster.n_regions; i++)
		b->free_gpus[i] = i < 2;
}

struct policy_spec bench_spec(const char *name)
{
	struct policy_spec s = { .alpha = NAN, .alpha_gain = 1, .pathfinder = true, .cost_min = true };

	snprintf(s.name, sizeof(s.name), "%s", name);
	snprintf(s.label, sizeof(s.label), "%s", name);
	return s;
}
