/*
 * Profile files: the first byte (its low three bits) says which kind, the rest
 * is the file. What it names is in tests/fuzz/profiles. Bad input must leave a
 * diagnostic and nothing allocated; good input must be usable.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "profiles/load.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* libconfig 1.5 forgets strings that it has read when it meets a syntax error. */
const char *__lsan_default_suppressions(void)
{
	return "leak:strbuf_append\nleak:strbuf_release\nleak:libconfig_yylex\n";
}

static void check_price(const struct price_series *p)
{
	double t = 0;

	for (int i = 0; i < 50; i++) {
		double until, v = price_at(p, t, &until);

		if (!isfinite(v) || !(until > t))
			abort();
		if (isinf(until))
			break;
		t = until;
	}
	if (!isfinite(price_integral(p, 0, t)))
		abort();
}

static void check_cluster(const struct cluster *c)
{
	if (c->n_regions < 1)
		abort();
	for (int i = 0; i < c->n_regions; i++) {
		const struct region *r = &c->regions[i];

		if (r->gpu < 0 || r->gpu >= c->n_gpus || !*r->name || r->pue < 1)
			abort();
		check_price(&r->price);
		for (int j = 0; j < c->n_regions; j++) {
			const struct link *l = cluster_link(c, i, j);

			if (l->present && (i == j || !l->rate_bps || l->latency_ns < l->jitter_ns))
				abort();
		}
	}
}

static void check_experiment(const struct experiment *e)
{
	check_cluster(&e->cluster);
	for (int j = 0; j < e->n_jobs; j++) {
		const struct job *job = &e->jobs[j];

		if (job->model < 0 || job->model >= e->n_models || !(job->steps >= 1) ||
		    job->micro_batches < 1 || !(job->arrival_s >= 0))
			abort();
	}
	if (!e->n_policies || !e->text || strlen(e->text) == 0)
		abort();
}

static void load_part(int kind, const char *path, struct bace_diags *d)
{
	struct cfg_loader l = { .diags = d };
	struct region_table regions = { 0 };
	struct link_table links = { 0 };
	struct price_table prices = { 0 };
	struct gpu_table gpus = { 0 };
	struct model_table models = { 0 };

	if (kind == 0)
		load_regions(&l, path, &regions);
	else if (kind == 1)
		load_links(&l, path, &links);
	else if (kind == 2)
		load_prices(&l, path, &prices);
	else if (kind == 3)
		load_gpus(&l, path, &gpus);
	else
		load_models(&l, path, &models);
	for (size_t i = 0; i < prices.n && !d->n; i++)
		check_price(&prices.v[i].series);
	free(regions.v);
	free(links.v);
	price_table_free(&prices);
	free(gpus.v);
	free(models.v);
	cfg_loader_free(&l);
}

static void load_jobs_file(const char *path, struct bace_diags *d)
{
	struct cfg_loader l = { .diags = d };
	struct model_table models = { 0 };
	struct experiment e = { .k_limit = K_LIMIT_LAYERS };
	char catalogue[] = BACE_SOURCE_ROOT "/tests/fuzz/profiles/models/models.cfg";

	load_models(&l, catalogue, &models);
	load_jobs(&l, path, &models, false, &e);
	free(models.v);
	experiment_free(&e);
	cfg_loader_free(&l);
}

static void load_whole(int kind, const char *path, struct bace_diags *d)
{
	struct experiment e;
	struct cluster c;
	struct bace_err err;
	int rc = kind == 5 ? cluster_load(path, &c, d, &err) : experiment_load(path, &e, d, &err);

	if (rc && (rc != -EINVAL || !d->n))
		abort();
	if (!rc && d->n)
		abort();
	if (rc)
		return;
	if (kind == 5) {
		check_cluster(&c);
		cluster_free(&c);
	} else {
		check_experiment(&e);
		experiment_free(&e);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bace_diags d = { 0 };
	char path[32];
	int fd;

	if (!size)
		return 0;
	setenv("BACE_PROFILES", BACE_SOURCE_ROOT "/tests/fuzz/profiles", 1);
	fd = memory_file(data + 1, size - 1, path);
	if ((data[0] & 7) < 5)
		load_part(data[0] & 7, path, &d);
	else if ((data[0] & 7) == 6)
		load_jobs_file(path, &d);
	else
		load_whole(data[0] & 7, path, &d);
	for (size_t i = 0; i < d.n; i++)
		if (!*d.v[i].text || d.v[i].line < 0)
			abort();
	bace_diags_free(&d);
	close(fd);
	return 0;
}
