#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/policy/fixture.h"

static void *zeroed(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		abort();
	return p;
}

static void name_set(char *to, const char *name)
{
	snprintf(to, NAME_LEN, "%s", name);
}

void fix_init(struct fixture *f, int n_regions)
{
	struct experiment *e = &f->e;

	*f = (struct fixture){ 0 };
	name_set(e->name, "test");
	e->overlap = true;
	e->interleave = 1;
	e->schedule = SCHED_1F1B;
	e->cluster.n_regions = n_regions;
	e->cluster.regions = zeroed((size_t)n_regions, sizeof(struct region));
	e->cluster.links = zeroed((size_t)(n_regions * n_regions), sizeof(struct link));
	e->cluster.gpus = zeroed(8, sizeof(struct gpu_type));
	e->cluster.mtu = 1500;
	e->models = zeroed(FIX_JOBS, sizeof(struct model));
	e->jobs = zeroed(FIX_JOBS, sizeof(struct job));
	fix_gpu(f, "g", 1e12, 100e9);
}

int fix_gpu(struct fixture *f, const char *name, double flops, double memory_bytes)
{
	struct gpu_type *g = &f->e.cluster.gpus[f->e.cluster.n_gpus];

	name_set(g->name, name);
	g->active_w = 100;
	g->idle_ctx_w = 20;
	g->flops_eff = flops;
	g->memory_bytes = memory_bytes;
	return f->e.cluster.n_gpus++;
}

void fix_region(struct fixture *f, int r, const char *name, int n_gpus, double price, double goodput)
{
	struct region *reg = &f->e.cluster.regions[r];

	name_set(reg->name, name);
	reg->n_gpus = n_gpus;
	reg->pue = 1;
	reg->bandwidth_bps = l2_rate_bps(goodput, f->e.cluster.mtu);
	reg->price.n = 1;
	reg->price.start_s = zeroed(1, sizeof(double));
	reg->price.usd_per_kwh = zeroed(1, sizeof(double));
	reg->price.usd_per_kwh[0] = price;
}

void fix_link_one_way(struct fixture *f, int src, int dst, double goodput, double latency_s)
{
	struct link *l = &f->e.cluster.links[src * f->e.cluster.n_regions + dst];

	l->present = true;
	l->rate_bps = (uint64_t)(l2_rate_bps(goodput, f->e.cluster.mtu) + 0.5);
	l->latency_ns = (int64_t)llround(latency_s * 1e9);
}

void fix_link(struct fixture *f, int a, int b, double goodput, double latency_s)
{
	fix_link_one_way(f, a, b, goodput, latency_s);
	fix_link_one_way(f, b, a, goodput, latency_s);
}

int fix_model(struct fixture *f, const char *name, int layers, double fwd_s, double bwd_s, double boundary_bytes,
	      double state_bytes)
{
	struct model *m = &f->e.models[f->e.n_models];

	name_set(m->name, name);
	m->layers = layers;
	m->params = 1;
	m->state_bytes_per_param = state_bytes;
	m->hidden = 1;
	m->seq = 1;
	m->bytes_per_element = 2;
	m->measured_fwd_s = fwd_s;
	m->measured_bwd_s = bwd_s;
	m->measured_boundary_bytes = boundary_bytes;
	return f->e.n_models++;
}

int fix_job(struct fixture *f, const char *name, int model, int m, double steps, double arrival_s)
{
	struct job *j = &f->e.jobs[f->e.n_jobs];

	name_set(j->name, name);
	j->model = model;
	j->micro_batches = m;
	j->micro_batch_size = 1;
	j->steps = steps;
	j->arrival_s = arrival_s;
	return f->e.n_jobs++;
}

static const struct experiment *sorting;

static int by_arrival(const void *a, const void *b)
{
	const struct job *x = &sorting->jobs[((const struct queued_job *)a)->job];
	const struct job *y = &sorting->jobs[((const struct queued_job *)b)->job];

	if (x->arrival_s != y->arrival_s)
		return x->arrival_s < y->arrival_s ? -1 : 1;
	return strcmp(x->name, y->name);
}

void fix_ready(struct fixture *f)
{
	const struct cluster *c = &f->e.cluster;
	struct bace_err err;

	job_models_free(&f->models);
	if (job_models_build(&f->e, &f->models, &err)) {
		fprintf(stderr, "job_models_build: %s\n", err.msg);
		abort();
	}
	for (int r = 0; r < c->n_regions; r++) {
		f->free_gpus[r] = c->regions[r].n_gpus;
		f->price[r] = c->regions[r].price.usd_per_kwh[0];
	}
	for (int i = 0; i < c->n_regions * c->n_regions; i++) {
		f->capacity_bps[i] = c->links[i].present ? (double)c->links[i].rate_bps : 0;
		f->reserved_bps[i] = 0;
	}
	for (int j = 0; j < f->e.n_jobs; j++)
		f->queued[j] = (struct queued_job){ .job = j, .remaining_steps = f->e.jobs[j].steps };
	sorting = &f->e;
	qsort(f->queued, (size_t)f->e.n_jobs, sizeof(f->queued[0]), by_arrival);
	f->q = (struct queue){ .n = f->e.n_jobs, .v = f->queued };
	f->v = (struct view){ .exp = &f->e, .models = &f->models, .free_gpus = f->free_gpus, .price = f->price,
			      .capacity_bps = f->capacity_bps, .reserved_bps = f->reserved_bps };
}

void fix_free(struct fixture *f)
{
	for (int r = 0; r < f->e.cluster.n_regions; r++) {
		free(f->e.cluster.regions[r].price.start_s);
		free(f->e.cluster.regions[r].price.usd_per_kwh);
	}
	free(f->e.cluster.regions);
	free(f->e.cluster.links);
	free(f->e.cluster.gpus);
	free(f->e.models);
	free(f->e.jobs);
	job_models_free(&f->models);
}

int fix_region_index(const struct fixture *f, const char *name)
{
	for (int r = 0; r < f->e.cluster.n_regions; r++)
		if (!strcmp(f->e.cluster.regions[r].name, name))
			return r;
	abort();
}

struct policy_spec fix_spec(const char *name)
{
	struct policy_spec s = { .alpha = NAN, .alpha_gain = 1, .pathfinder = true, .cost_min = true,
				 .timeout_s = 5 };

	name_set(s.name, name);
	name_set(s.label, name);
	return s;
}

const char *fix_decide_with(struct fixture *f, struct policy *p)
{
	static char text[1024];
	struct placement pl;
	struct bace_err err = { 0 };
	int rc = policy_decide(p, &f->v, &f->q, &pl, &err);

	if (rc < 0) {
		snprintf(text, sizeof(text), "error: %s", err.msg);
	} else if (!rc) {
		snprintf(text, sizeof(text), "-");
	} else {
		CLEANUP_FREE char *where = placement_format(&f->e.cluster, &pl);

		snprintf(text, sizeof(text), "%s: %s", f->e.jobs[pl.job].name, where);
		rc = placement_check(&f->v, &f->q, &pl, &err);
		if (rc)
			snprintf(text, sizeof(text), "broken: %s", err.msg);
		placement_free(&pl);
	}
	return text;
}

const char *fix_decide(struct fixture *f, const struct policy_spec *spec)
{
	struct policy *p;
	struct bace_err err = { 0 };
	const char *text;

	if (policy_create(spec, 1, &p, &err)) {
		fprintf(stderr, "policy_create: %s\n", err.msg);
		return "not created";
	}
	text = fix_decide_with(f, p);
	policy_destroy(p);
	return text;
}
