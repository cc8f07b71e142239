/*
 * jobs: each names a model of the models file. `seq` of a job trains the same
 * weights on another sequence length: a model of its own, NAME-sSEQ.
 */
#include <math.h>
#include <stdlib.h>

#include "profiles/load.h"

struct raw {
	struct job j;
	char model[NAME_LEN];
	int seq;
};

#define O(f) offsetof(struct raw, f)

static const struct cfg_key job_keys[] = {
	{ "name", CFG_NAME, CFG_REQUIRED, O(j.name) },
	{ "model", CFG_NAME, CFG_REQUIRED, O(model) },
	{ "arrival", CFG_TIME_S, 0, O(j.arrival_s), .min = 0, .max = CFG_NO_MAX },
	{ "micro_batches", CFG_INT, CFG_REQUIRED, O(j.micro_batches), .min = 1, .max = 1 << 20 },
	{ "micro_batch_size", CFG_INT, 0, O(j.micro_batch_size), .min = 1, .max = 1 << 16 },
	{ "seq", CFG_INT, 0, O(seq), .min = 1, .max = 1 << 24 },
	{ "dataset", CFG_SIZE_D, CFG_ABOVE, O(j.dataset_bytes), .min = 0, .max = 1e18 },
	{ "epochs", CFG_NUMBER, CFG_ABOVE, O(j.epochs), .min = 0, .max = 1e6 },
	{ "steps", CFG_NUMBER, 0, O(j.steps), .min = 1, .max = 1e12 },
};

static const struct cfg_key file_keys[] = {
	{ "jobs", CFG_LIST, CFG_REQUIRED },
};

#define BYTES_PER_TOKEN 4.0

struct reading {
	struct cfg_loader *l;
	const struct model_table *catalogue;
	struct experiment *e;
	size_t n_jobs, cap_jobs, n_models, cap_models;
};

static int keep_model(struct reading *r, const struct model *m)
{
	struct experiment *e = r->e;
	int i = cfg_find_name(e->models, r->n_models, sizeof(*m), offsetof(struct model, name), m->name);

	if (i >= 0)
		return i;
	if (BACE_PUSH(e->models, r->n_models, r->cap_models, *m)) {
		cfg_no_memory(r->l);
		return -1;
	}
	e->n_models = (int)r->n_models;
	return e->n_models - 1;
}

static int find_model(struct reading *r, config_setting_t *s, const struct raw *raw)
{
	const struct model_table *t = r->catalogue;
	size_t at = offsetof(struct model, name);
	int i = cfg_find_name(t->v, t->n, sizeof(*t->v), at, raw->model);
	char near[256];
	struct model m;

	if (i < 0) {
		load_suggest(raw->model, t->v, t->n, sizeof(*t->v), at, near, sizeof(near));
		if (t->complete)
			cfg_error(config_setting_get_member(s, "model"),
				  "must be a model of the models file%s", near);
		return -1;
	}
	m = t->v[i];
	if (!raw->seq || raw->seq == m.seq)
		return keep_model(r, &m);
	if (m.measured_fwd_s > 0) {
		cfg_error(config_setting_get_member(s, "seq"),
			  "the model's times were measured at %d", m.seq);
		return -1;
	}
	m.seq = raw->seq;
	if (snprintf(m.name, sizeof(m.name), "%s-s%d", raw->model, raw->seq) >= NAME_LEN) {
		cfg_error(config_setting_get_member(s, "model"), "too long a name to add -s%d to",
			  raw->seq);
		return -1;
	}
	return keep_model(r, &m);
}

static void count_steps(struct reading *r, config_setting_t *s, struct job *j)
{
	config_setting_t *steps = config_setting_get_member(s, "steps");
	config_setting_t *dataset = config_setting_get_member(s, "dataset");
	config_setting_t *epochs = config_setting_get_member(s, "epochs");

	if (steps && (dataset || epochs)) {
		cfg_error(steps, "either steps, or dataset and epochs, not both");
		return;
	}
	if (!steps && !dataset) {
		cfg_missing(s, "dataset", "a size like \"500MB\" (or `steps', a number)");
		return;
	}
	if (dataset && j->model >= 0) {
		double tokens = j->epochs * j->dataset_bytes / BYTES_PER_TOKEN;
		double per_step = (double)j->micro_batches * j->micro_batch_size *
				  r->e->models[j->model].seq;

		j->steps = fmax(1, ceil(tokens / per_step));
	}
}

static bool read_job(config_setting_t *s, void *arg)
{
	struct reading *r = arg;
	struct raw raw = { .j = { .model = -1, .micro_batches = 1, .micro_batch_size = 1,
				  .epochs = 1 } };
	bool ok = cfg_read(s, job_keys, ARRAY_LEN(job_keys), &raw);

	if (*raw.j.name)
		load_unique(s, "name", "job", r->e->jobs, r->n_jobs, sizeof(struct job),
			    offsetof(struct job, name), raw.j.name);
	if (*raw.model)
		raw.j.model = find_model(r, s, &raw);
	if (config_setting_is_group(s))
		count_steps(r, s, &raw.j);
	/* Whether half a job fits would be a guess. */
	if (!ok)
		raw.j.model = -1;
	if (BACE_PUSH(r->e->jobs, r->n_jobs, r->cap_jobs, raw.j))
		return cfg_no_memory(r->l);
	r->e->n_jobs = (int)r->n_jobs;
	return *raw.j.name;
}

/* ---- does every job fit somewhere? ---- */

static double largest_memory(const struct cluster *c)
{
	double most = 0;

	for (int r = 0; r < c->n_regions; r++)
		if (c->regions[r].n_gpus > 0 && c->regions[r].gpu >= 0)
			most = fmax(most, c->gpus[c->regions[r].gpu].memory_bytes);
	return most;
}

static void check_fit(const struct experiment *e, const struct job *j, config_setting_t *s)
{
	const struct model *m = &e->models[j->model];
	struct pipeline_shape shape = experiment_shape(e, j);
	double memory = largest_memory(&e->cluster);
	int limit = experiment_k_limit(e, m), total = 0, k;
	char need[BACE_FMT_MAX], have[BACE_FMT_MAX];

	for (int r = 0; r < e->cluster.n_regions; r++)
		total += e->cluster.regions[r].n_gpus;
	k = limit < total ? limit : total;
	if (k < 1 || model_k_min(m, &shape, k, memory))
		return;
	if (shape.schedule == SCHED_INTERLEAVED_1F1B && model_stage_bytes(m, &shape, k, 0) <= memory) {
		cfg_error(s, "fits nowhere: interleaved-1f1b needs a number of stages that divides "
			  "micro_batches (%d) and has the memory", j->micro_batches);
		return;
	}
	bace_fmt_size(need, model_stage_bytes(m, &shape, k, 0));
	bace_fmt_size(have, memory);
	cfg_error(s, "fits nowhere: on %d GPUs (%s) the first stage needs %s, a GPU has %s; take more "
		  "GPUs, a larger k_limit, a shorter seq or a smaller model", k,
		  limit < total ? "the k_limit" : "all that the cluster has", need, have);
}

static void check_fits(struct reading *r, config_setting_t *list)
{
	const struct experiment *e = r->e;

	for (int i = 0; i < e->n_jobs && i < config_setting_length(list); i++) {
		config_setting_t *s = config_setting_get_elem(list, (unsigned)i);
		config_setting_t *model = config_setting_get_member(s, "model");

		if (e->jobs[i].model >= 0 && model)
			check_fit(e, &e->jobs[i], model);
	}
}

void load_jobs(struct cfg_loader *l, const char *path, const struct model_table *catalogue,
	       bool cluster_known, struct experiment *e)
{
	struct reading r = { .l = l, .catalogue = catalogue, .e = e };
	config_setting_t *list;
	struct cfg_file f;

	if (cfg_open(l, path, &f)) {
		cfg_read(cfg_root(&f), file_keys, ARRAY_LEN(file_keys), NULL);
		list = config_setting_get_member(cfg_root(&f), "jobs");
		if (list && config_setting_is_list(list)) {
			load_each(list, read_job, &r);
			if (cluster_known)
				check_fits(&r, list);
		}
	}
	cfg_close(&f);
}
