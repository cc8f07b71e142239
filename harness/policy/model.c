#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/policy/model.h"

/* ---- one micro-batch ---- */

static double forward_flops(const struct model *m, int beta)
{
	double s = m->seq;

	return 2.0 * m->params * beta * s + 4.0 * m->layers * m->hidden * beta * s * s;
}

double stage_memory_bytes(const struct experiment *e, const struct job_model *j, int k, int i)
{
	const struct job *job = &e->jobs[j->job];
	struct pipeline_shape shape = experiment_shape(e, job);

	return model_stage_bytes(&e->models[job->model], &shape, k, i);
}

static double stage_fraction(const struct experiment *e, const struct job_model *j, int k, int i)
{
	const struct job *job = &e->jobs[j->job];
	const struct model *m = &e->models[job->model];

	return model_stage_layers(m, experiment_shape(e, job).equal_split, k, i) / m->layers;
}

struct stage_cost stage_cost(const struct experiment *e, const struct job_model *j, int k, int i,
			     const struct gpu_type *gpu)
{
	double share = stage_fraction(e, j, k, i) * (j->ref_flops_eff / gpu->flops_eff);

	return (struct stage_cost){ .fwd_s = j->fwd_s * share, .bwd_s = j->bwd_s * share };
}

double step_time_closed_form(int p, int m, const struct stage_cost *stages,
			     const struct hop_cost *fwd, const struct hop_cost *rev)
{
	double slot = 0, sum = 0;

	for (int i = 0; i < p; i++) {
		double t = stages[i].fwd_s + stages[i].bwd_s;

		slot = fmax(slot, t);
		sum += t;
	}
	for (int i = 0; i + 1 < p; i++) {
		slot = fmax(slot, fmax(fwd[i].serialisation_s, rev[i].serialisation_s));
		sum += fwd[i].latency_s + fwd[i].serialisation_s;
		sum += rev[i].latency_s + rev[i].serialisation_s;
	}
	return (m - 1) * slot + sum;
}

/* ---- the reference that K* is stated on ---- */

static int gpu_count(const struct cluster *c, int gpu)
{
	int n = 0;

	for (int r = 0; r < c->n_regions; r++)
		if (c->regions[r].gpu == gpu)
			n += c->regions[r].n_gpus;
	return n;
}

static int reference_gpu(const struct cluster *c)
{
	int best = -1, best_n = 0;

	for (int g = 0; g < c->n_gpus; g++) {
		int n = gpu_count(c, g);
		const struct gpu_type *t = &c->gpus[g], *b = best < 0 ? NULL : &c->gpus[best];

		if (!n)
			continue;
		if (!b || t->memory_bytes > b->memory_bytes ||
		    (t->memory_bytes == b->memory_bytes &&
		     (n > best_n || (n == best_n && strcmp(t->name, b->name) < 0)))) {
			best = g;
			best_n = n;
		}
	}
	return best;
}

/* Mean of the regions' own bandwidth, summed in ascending order so that the
 * last bit does not depend on the order of the config. */
static double mean_bandwidth_bps(const struct cluster *c)
{
	CLEANUP_FREE double *v = malloc(sizeof(*v) * (size_t)c->n_regions);
	double sum = 0;

	if (!v)
		return -1;
	for (int r = 0; r < c->n_regions; r++)
		v[r] = c->regions[r].bandwidth_bps;
	qsort(v, (size_t)c->n_regions, sizeof(*v), bace_by_double);
	for (int r = 0; r < c->n_regions; r++)
		sum += v[r];
	return sum / c->n_regions;
}

/* ---- one class ---- */

static void fill_fits(const struct experiment *e, struct job_class *c, const struct pipeline_shape *shape)
{
	for (int g = 0; g < e->cluster.n_gpus; g++)
		for (int k = 1; k <= c->k_limit; k++)
			c->fits[(size_t)g * (size_t)(c->k_limit + 1) + (size_t)k] =
				model_fits(&e->models[c->model], shape, k, e->cluster.gpus[g].memory_bytes);
}

static double nominal_step(const struct job_class *c, int k, double hop_s)
{
	double slot = c->total_s * class_largest_stage(c, k);

	if (k > 1 && hop_s > slot)
		slot = hop_s;
	return (c->m - 1) * slot + c->total_s + 2.0 * (k - 1) * hop_s;
}

static void fill_best(const struct experiment *e, struct job_class *c, int ref_gpu, double hop_s)
{
	for (int g = 0; g < e->cluster.n_gpus; g++) {
		const uint8_t *fits = class_fits(c, g);
		int *best = c->k_best + (size_t)g * (size_t)(c->k_limit + 1);
		double best_t = INFINITY;

		for (int k = 1; k <= c->k_limit; k++) {
			double t = fits[k] ? nominal_step(c, k, hop_s) : INFINITY;

			best[k] = t < best_t ? k : best[k - 1];
			best_t = fmin(best_t, t);
			if (g == ref_gpu && fits[k] && !c->k_min)
				c->k_min = k;
		}
		if (g == ref_gpu) {
			c->k_star = best[c->k_limit];
			c->step_star_s = best_t;
		}
	}
}

static int class_init(const struct experiment *e, struct job_class *c, int ref_gpu, double reference_bps,
		      struct bace_err *err)
{
	const struct job like = { .model = c->model, .micro_batches = c->m, .micro_batch_size = c->beta };
	const struct pipeline_shape shape = experiment_shape(e, &like);
	const struct model *mod = &e->models[c->model];
	double flops = e->cluster.gpus[ref_gpu].flops_eff, f = forward_flops(mod, c->beta);
	size_t cells;

	c->layers = mod->layers;
	c->equal_split = shape.equal_split;
	c->k_limit = experiment_k_limit(e, mod);
	if (c->k_limit < 1 || c->k_limit > K_LIMIT_MAX)
		return bace_fail(err, EINVAL, "model %s: %d stages at most: must be 1 to %d", mod->name,
				 c->k_limit, K_LIMIT_MAX);
	c->fwd_s = mod->measured_fwd_s > 0 ? mod->measured_fwd_s : f / flops;
	c->bwd_s = mod->measured_bwd_s > 0 ? mod->measured_bwd_s : (mod->recompute ? 3 : 2) * f / flops;
	c->total_s = c->fwd_s + c->bwd_s;
	c->boundary_bits = 8 * model_boundary_bytes(mod, c->beta);
	cells = (size_t)e->cluster.n_gpus * (size_t)(c->k_limit + 1);
	c->fits = calloc(cells, 1);
	c->k_best = calloc(cells, sizeof(*c->k_best));
	if (!c->fits || !c->k_best)
		return bace_fail(err, ENOMEM, "job model of %s: out of memory", mod->name);
	fill_fits(e, c, &shape);
	fill_best(e, c, ref_gpu, c->boundary_bits / goodput_bps(reference_bps, e->cluster.mtu));
	return 0;
}

/* ---- the table ---- */

static uint64_t class_hash(int model, int m, int beta)
{
	uint64_t h = (uint64_t)(unsigned)model * 0x9e3779b97f4a7c15u;

	h = (h ^ (unsigned)m) * 0xbf58476d1ce4e5b9u;
	h = (h ^ (h >> 29) ^ (unsigned)beta) * 0x94d049bb133111ebu;
	return h ^ (h >> 32);
}

/* Index of the job's class, appended (and the slot taken) if new. */
static int find_class(struct job_models *out, size_t *cap, int *slots, size_t n_slots,
		      const struct job *j)
{
	size_t s = class_hash(j->model, j->micro_batches, j->micro_batch_size) & (n_slots - 1);
	size_t n = (size_t)out->n_classes;
	int rc;

	for (; slots[s]; s = (s + 1) & (n_slots - 1)) {
		const struct job_class *c = &out->classes[slots[s] - 1];

		if (c->model == j->model && c->m == j->micro_batches && c->beta == j->micro_batch_size)
			return slots[s] - 1;
	}
	rc = BACE_PUSH(out->classes, n, *cap, ((struct job_class){
		.model = j->model, .m = j->micro_batches, .beta = j->micro_batch_size }));
	if (rc)
		return rc;
	out->n_classes = (int)n;
	slots[s] = out->n_classes;
	return out->n_classes - 1;
}

static void job_model_fill(const struct experiment *e, const struct job_models *t, int job, int cls)
{
	const struct job_class *c = &t->classes[cls];
	struct job_model *j = &t->v[job];

	*j = (struct job_model){
		.job = job, .cls = cls, .k_min = c->k_min, .k_star = c->k_star, .k_limit = c->k_limit,
		.ref_flops_eff = e->cluster.gpus[t->ref_gpu].flops_eff,
		.fwd_s = c->fwd_s, .bwd_s = c->bwd_s, .boundary_bytes = c->boundary_bits / 8,
		.computation_gpu_s = c->m * e->jobs[job].steps * c->total_s,
		.bandwidth_need_bps = c->boundary_bits * c->k_star / c->fwd_s,
		.m = c->m, .steps = e->jobs[job].steps, .step_star_s = c->step_star_s,
		.fits = class_fits(c, t->ref_gpu),
	};
}

static int assign_classes(const struct experiment *e, struct job_models *out, struct bace_err *err)
{
	size_t n_slots = 16, cap = 0;

	while (n_slots < 2 * (size_t)e->n_jobs)
		n_slots *= 2;
	CLEANUP_FREE int *slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return bace_fail(err, ENOMEM, "job models: out of memory");
	for (int i = 0; i < e->n_jobs; i++) {
		const struct job *j = &e->jobs[i];

		if (j->micro_batches < 1 || j->micro_batch_size < 1)
			return bace_fail(err, EINVAL,
					 "job %s: %d micro-batches of %d sequences: both must be at least 1",
					 j->name, j->micro_batches, j->micro_batch_size);
		int cls = find_class(out, &cap, slots, n_slots, j);
		if (cls < 0)
			return bace_fail(err, -cls, "job models: out of memory");
		out->v[i].cls = cls;
	}
	return 0;
}

int job_models_build(const struct experiment *e, struct job_models *out, struct bace_err *err)
{
	int rc;
	double reference_bps;

	*out = (struct job_models){ .exp = e, .n = e->n_jobs };
	out->ref_gpu = reference_gpu(&e->cluster);
	if (out->ref_gpu < 0)
		return bace_fail(err, EINVAL, "cluster %s: no region has a GPU", e->cluster.name);
	out->v = calloc(e->n_jobs ? (size_t)e->n_jobs : 1, sizeof(*out->v));
	reference_bps = mean_bandwidth_bps(&e->cluster);
	if (!out->v || reference_bps < 0)
		rc = bace_fail(err, ENOMEM, "job models: out of memory");
	else
		rc = assign_classes(e, out, err);
	for (int c = 0; !rc && c < out->n_classes; c++)
		rc = class_init(e, &out->classes[c], out->ref_gpu, reference_bps, err);
	for (int i = 0; !rc && i < e->n_jobs; i++)
		job_model_fill(e, out, i, out->v[i].cls);
	if (rc)
		job_models_free(out);
	return rc;
}

void job_models_free(struct job_models *m)
{
	for (int c = 0; c < m->n_classes; c++) {
		free(m->classes[c].fits);
		free(m->classes[c].k_best);
	}
	free(m->classes);
	free(m->v);
	*m = (struct job_models){ 0 };
}
