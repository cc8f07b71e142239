#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cluster/world.h"

#define MAX_JOBS 64
#define MAX_MODELS 8

static void *zeroed(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		abort();
	return p;
}

static void name_set(char *to, const char *fmt, int i)
{
	snprintf(to, NAME_LEN, fmt, i);
}

static struct link *link_of(struct world *w, int a, int b)
{
	return &w->e.cluster.links[a * w->e.cluster.n_regions + b];
}

void world_init(struct world *w, int n_regions)
{
	struct experiment *e = &w->e;
	struct cluster *c = &e->cluster;

	*w = (struct world){ 0 };
	name_set(e->name, "world", 0);
	e->overlap = true;
	e->interleave = 1;
	e->schedule = SCHED_1F1B;
	e->k_limit = K_LIMIT_LAYERS;
	c->n_regions = n_regions;
	c->regions = zeroed((size_t)n_regions, sizeof(*c->regions));
	c->links = zeroed((size_t)(n_regions * n_regions), sizeof(*c->links));
	c->gpus = zeroed(2, sizeof(*c->gpus));
	c->n_gpus = 1;
	c->mtu = 1500;
	c->gpus[0] = (struct gpu_type){ .name = "g", .active_w = 120, .idle_ctx_w = 20,
					.memory_bytes = 1e12, .flops_eff = 1e12 };
	e->models = zeroed(MAX_MODELS, sizeof(*e->models));
	e->jobs = zeroed(MAX_JOBS, sizeof(*e->jobs));
	for (int r = 0; r < n_regions; r++) {
		struct region *reg = &c->regions[r];

		name_set(reg->name, "r%d", r);
		reg->n_gpus = 4;
		reg->pue = 1;
		reg->bandwidth_bps = 1e9;
		world_price(w, r, 1, (double[]){ 0 }, (double[]){ 0.36 }, 0);
		for (int b = 0; b < n_regions; b++)
			if (b != r)
				*link_of(w, r, b) = (struct link){ .present = true, .rate_bps = 1000000000 };
	}
}

void world_price(struct world *w, int region, size_t n, const double *start_s, const double *usd_per_kwh,
		 double period_s)
{
	struct price_series *p = &w->e.cluster.regions[region].price;

	free(p->start_s);
	free(p->usd_per_kwh);
	*p = (struct price_series){ .n = n, .period_s = period_s, .start_s = zeroed(n, sizeof(double)),
				    .usd_per_kwh = zeroed(n, sizeof(double)) };
	memcpy(p->start_s, start_s, n * sizeof(double));
	memcpy(p->usd_per_kwh, usd_per_kwh, n * sizeof(double));
}

int world_model(struct world *w, const char *name, int layers)
{
	struct model *m = &w->e.models[w->e.n_models];

	snprintf(m->name, NAME_LEN, "%s", name);
	m->layers = layers;
	m->params = layers;
	m->state_bytes_per_param = 1e9;
	m->hidden = 1;
	m->seq = 1;
	m->bytes_per_element = 2;
	m->recompute = true;
	m->measured_fwd_s = 1;
	m->measured_bwd_s = 1;
	m->measured_boundary_bytes = 1e6;
	return w->e.n_models++;
}

int world_job(struct world *w, const char *name, int model, double steps, double arrival_s)
{
	struct job *j = &w->e.jobs[w->e.n_jobs];

	if (w->e.n_jobs == MAX_JOBS)
		abort();
	snprintf(j->name, NAME_LEN, "%s", name);
	j->model = model;
	j->micro_batches = 4;
	j->micro_batch_size = 1;
	j->steps = steps;
	j->arrival_s = arrival_s;
	return w->e.n_jobs++;
}

void world_ready(struct world *w)
{
	struct bace_err err = { 0 };

	if (job_models_build(&w->e, &w->models, &err)) {
		fprintf(stderr, "job_models_build: %s\n", err.msg);
		abort();
	}
}

void world_free(struct world *w)
{
	struct cluster *c = &w->e.cluster;

	for (int r = 0; r < c->n_regions; r++) {
		free(c->regions[r].price.start_s);
		free(c->regions[r].price.usd_per_kwh);
	}
	free(c->regions);
	free(c->links);
	free(c->gpus);
	free(w->e.models);
	free(w->e.jobs);
	job_models_free(&w->models);
}

/* ---- drawn worlds ---- */

static double between(struct bace_rng *r, double lo, double hi)
{
	return lo + (hi - lo) * bace_rng_uniform(r);
}

static int *permutation(struct bace_rng *r, int n, bool identity)
{
	int *p = zeroed((size_t)n, sizeof(int));

	for (int i = 0; i < n; i++)
		p[i] = i;
	for (int i = n - 1; i > 0 && !identity; i--) {
		int j = (int)bace_rng_below(r, (uint64_t)i + 1), t = p[i];

		p[i] = p[j];
		p[j] = t;
	}
	return p;
}

/* Hourly, some hours negative. */
static void draw_price(struct world *w, struct bace_rng *r, int region)
{
	double start[24], usd[24];
	size_t n = bace_rng_below(r, 3) ? 1 : 24;

	for (size_t i = 0; i < n; i++) {
		start[i] = 3600.0 * (double)i;
		usd[i] = between(r, n > 1 ? -0.05 : 0.05, 0.3);
	}
	world_price(w, region, n, start, usd, n > 1 ? 86400 : 0);
}

static void draw_regions(struct drawn *d, struct bace_rng *r)
{
	struct cluster *c = &d->w.e.cluster;

	c->n_gpus = 2;
	c->gpus[1] = (struct gpu_type){ .name = "h", .active_w = 300, .idle_ctx_w = 60,
					.memory_bytes = 2e10, .flops_eff = 2e12 };
	c->gpus[0].memory_bytes = between(r, 3e9, 2e10);
	bool mixed = !bace_rng_below(r, 4);

	for (int i = 0; i < c->n_regions; i++) {
		struct region *reg = &c->regions[d->region_at[i]];

		name_set(reg->name, "r%d", i);
		reg->n_gpus = (int)bace_rng_below(r, 24);
		reg->gpu = mixed && bace_rng_below(r, 2);
		reg->pue = between(r, 1, 1.5);
		reg->bandwidth_bps = between(r, 1e9, 1e10);
		draw_price(&d->w, r, d->region_at[i]);
	}
	c->regions[d->region_at[0]].n_gpus += 8;
}

static void draw_links(struct drawn *d, struct bace_rng *r)
{
	int n = d->w.e.cluster.n_regions;

	for (int i = 0; i < n; i++) {
		for (int j = 0; j < n; j++) {
			struct link *l = link_of(&d->w, d->region_at[i], d->region_at[j]);

			if (i == j)
				continue;
			*l = (struct link){ .present = bace_rng_below(r, 10) != 0 };
			if (!l->present)
				continue;
			l->rate_bps = (uint64_t)between(r, 1e8, 5e9);
			l->latency_ns = (int64_t)between(r, 0, 1e8);
			l->usd_per_byte = bace_rng_below(r, 2) ? between(r, 0, 1e-10) : 0;
		}
	}
}

static void draw_jobs(struct drawn *d, struct bace_rng *r, const int *model_at)
{
	struct experiment *e = &d->w.e;
	double t = 0;

	for (int i = 0; i < e->n_models; i++) {
		struct model *m = &e->models[model_at[i]];

		name_set(m->name, "m%d", i);
		m->layers = 2 + (int)bace_rng_below(r, 20);
		m->params = m->layers;
		m->state_bytes_per_param = between(r, 1e8, 2e9);
		m->measured_fwd_s = between(r, 0.05, 2);
		m->measured_bwd_s = 2 * m->measured_fwd_s;
		m->measured_boundary_bytes = between(r, 1e5, 3e7);
	}
	for (int i = 0; i < e->n_jobs; i++) {
		struct job *j = &e->jobs[d->job_at[i]];

		name_set(j->name, "j%d", i);
		if (bace_rng_below(r, 3))
			t += bace_rng_exponential(r, 600);
		j->arrival_s = t;
		j->model = model_at[bace_rng_below(r, (uint64_t)e->n_models)];
		j->micro_batches = 1 + (int)bace_rng_below(r, 32);
		j->micro_batch_size = 1;
		j->steps = 1 + (double)bace_rng_below(r, 400);
	}
}

static void draw_changes(struct drawn *d, struct bace_rng *r)
{
	int n = d->w.e.cluster.n_regions, wanted = (int)bace_rng_below(r, 12);

	d->changes = zeroed((size_t)wanted, sizeof(*d->changes));
	for (int i = 0; i < wanted; i++) {
		int a = d->region_at[bace_rng_below(r, (uint64_t)n)];
		int b = d->region_at[bace_rng_below(r, (uint64_t)n)];
		double at = between(r, 0, 20000), rate = between(r, 5e7, 5e9);

		if (a != b && link_of(&d->w, a, b)->present)
			d->changes[d->n_changes++] = (struct link_change){ at, a, b, rate };
	}
}

static void draw_view(struct view_spec *v, struct bace_rng *r)
{
	*v = (struct view_spec){ 0 };
	if (bace_rng_below(r, 2))
		return;
	v->delay_s = bace_rng_below(r, 2) ? between(r, 0, 0.02) : between(r, 0, 5000);
	v->period_s = bace_rng_below(r, 2) ? 0 : between(r, 100, 5000);
	v->bandwidth_noise = between(r, 0, 0.3);
	v->price_noise = between(r, 0, 0.3);
	v->multiplicative = bace_rng_below(r, 2);
	v->dist = bace_rng_below(r, 2) ? NOISE_GAUSSIAN : NOISE_UNIFORM;
	v->correlation = bace_rng_below(r, 2) ? 0 : bace_rng_uniform(r);
}

void world_draw(struct drawn *d, uint64_t seed, uint64_t perm)
{
	static const enum schedule_kind schedules[] = { SCHED_1F1B, SCHED_GPIPE, SCHED_EAGER_1F1B };
	struct bace_rng r, shuffle;
	struct experiment *e = &d->w.e;

	bace_rng_init(&r, seed, 1);
	bace_rng_init(&shuffle, perm, 2);
	int n = 1 + (int)bace_rng_below(&r, 7);

	*d = (struct drawn){ 0 };
	world_init(&d->w, n);
	e->n_models = 1 + (int)bace_rng_below(&r, 4);
	e->n_jobs = 1 + (int)bace_rng_below(&r, 24);
	d->region_at = permutation(&shuffle, n, !perm);
	d->job_at = permutation(&shuffle, e->n_jobs, !perm);
	CLEANUP_FREE int *model_at = permutation(&shuffle, e->n_models, !perm);
	for (int i = 0; i < e->n_models; i++)
		e->models[i] = (struct model){ .hidden = 1, .seq = 1, .bytes_per_element = 2, .recompute = true };
	draw_regions(d, &r);
	draw_links(d, &r);
	draw_jobs(d, &r, model_at);
	draw_changes(d, &r);
	draw_view(&e->view, &r);
	e->schedule = schedules[bace_rng_below(&r, 3)];
	e->bill_idle = bace_rng_below(&r, 2);
	world_ready(&d->w);
}

void drawn_free(struct drawn *d)
{
	world_free(&d->w);
	free(d->changes);
	free(d->region_at);
	free(d->job_at);
}
