/* A shard as a file: JSON, doubles with 17 digits (exact), NAN as null. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "harness/sim/sim.h"

#define FORMAT "bace-sweep-1"
#define FILE_MAX (1u << 30)

/* ---- out ---- */

static json_t *numbers(const double *v, int n)
{
	json_t *a = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(a, json_number(v[i]));
	return a;
}

static json_t *cell_json(const struct sweep *s, int i)
{
	const struct sweep_cell *c = &s->cells[i];
	json_t *o = json_pack("{s:i, s:o}", "cell", i, "metrics", numbers(c->metric, N_METRICS));

	if (c->error)
		json_object_set_new(o, "error", json_string(c->error));
	if (c->jct_s) {
		json_object_set_new(o, "jct_s", numbers(c->jct_s, s->n_jobs));
		json_object_set_new(o, "cost_usd", numbers(c->cost_usd, s->n_jobs));
	}
	return o;
}

static json_t *names(const char (*v)[NAME_LEN], int n)
{
	json_t *a = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(a, json_string(v[i]));
	return a;
}

static json_t *sweep_json(const struct sweep *s)
{
	char hash[24], seed[24];
	json_t *cells = json_array();

	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)s->config_hash);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)s->seed);
	for (int i = 0; i < s->n_cells; i++)
		if (s->cells[i].done)
			json_array_append_new(cells, cell_json(s, i));
	return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:b, s:b, s:f, s:o, s:o, s:o, s:o}",
			 "format", FORMAT, "experiment", s->experiment, "config", hash, "seed", seed,
			 "jobs", s->n_jobs, "seeds", s->n_seeds, "shard", s->shard, "shards", s->n_shards,
			 "resample", s->resample, "varies", s->varies, "mean_gap_s", s->mean_gap_s,
			 "cost_bound_usd", json_number(s->cost_bound_usd), "policies", names((const char (*)[NAME_LEN])s->policies, s->n_policies),
			 "oracles", names(s->oracles, s->n_oracles), "cells", cells);
}

int sweep_write(const struct sweep *s, const char *path, struct bace_err *err)
{
	struct bace_outfile out;
	json_t *j = sweep_json(s);
	int rc = j ? bace_outfile_open(path, &out, err) : bace_fail(err, ENOMEM, "%s: out of memory", path);

	if (!rc) {
		errno = 0;
		if (json_dumpf(j, out.f, JSON_REAL_PRECISION(17) | JSON_COMPACT))
			rc = bace_fail_errno(err, errno ? errno : EIO, "write %s", path);
		rc = bace_outfile_close(&out, rc, err);
	}
	json_decref(j);
	return rc;
}

/* ---- in ---- */

static int bad(const char *path, const char *what, struct bace_err *err)
{
	return bace_fail(err, EINVAL, "%s: %s: must be a file that `bace sim --shard' wrote", path, what);
}

static bool read_numbers(const json_t *a, double *v, int n)
{
	if (!json_is_array(a) || json_array_size(a) != (size_t)n)
		return false;
	for (int i = 0; i < n; i++) {
		const json_t *x = json_array_get(a, (size_t)i);

		if (!json_is_number(x) && !json_is_null(x))
			return false;
		v[i] = json_is_null(x) ? NAN : json_number_value(x);
	}
	return true;
}

static bool read_names(const json_t *a, char (*v)[NAME_LEN], int n)
{
	for (int i = 0; i < n; i++) {
		const char *s = json_string_value(json_array_get(a, (size_t)i));

		if (!s || strlen(s) >= NAME_LEN)
			return false;
		memset(v[i], 0, NAME_LEN);
		memcpy(v[i], s, strlen(s));
	}
	return true;
}

static bool read_cell(const json_t *o, struct sweep *s)
{
	const json_t *at = json_object_get(o, "cell"), *jct = json_object_get(o, "jct_s");
	json_int_t i = json_integer_value(at);
	const char *error = json_string_value(json_object_get(o, "error"));
	struct sweep_cell *c;

	if (!json_is_integer(at) || i < 0 || i >= s->n_cells || s->cells[i].done)
		return false;
	c = &s->cells[i];
	c->done = true;
	c->error = error ? strdup(error) : NULL;
	if (error && !c->error)
		return false;
	if (!read_numbers(json_object_get(o, "metrics"), c->metric, N_METRICS))
		return false;
	/* A sweep of one seed keeps its jobs. */
	if (!jct)
		return s->n_seeds > 1 || c->error;
	if (json_array_size(jct) != (size_t)s->n_jobs)
		return false;
	c->jct_s = calloc((size_t)s->n_jobs + 1, sizeof(double));
	c->cost_usd = calloc((size_t)s->n_jobs + 1, sizeof(double));
	return c->jct_s && c->cost_usd && read_numbers(jct, c->jct_s, s->n_jobs) &&
	       read_numbers(json_object_get(o, "cost_usd"), c->cost_usd, s->n_jobs);
}

static bool read_head(json_t *j, struct sweep *s)
{
	const char *format, *name, *hash, *seed;
	json_t *policies, *oracles, *cells, *bound;
	int resample, varies;
	int64_t n;

	if (json_unpack(j, "{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:b, s:b, s:F, s:o, s:o, s:o}",
			"format", &format, "experiment", &name, "config", &hash, "seed", &seed, "jobs",
			&s->n_jobs, "seeds", &s->n_seeds, "shard", &s->shard, "shards", &s->n_shards,
			"resample", &resample, "varies", &varies, "mean_gap_s", &s->mean_gap_s,
			"policies", &policies, "oracles", &oracles, "cells", &cells))
		return false;
	bound = json_object_get(j, "cost_bound_usd");
	s->cost_bound_usd = json_is_number(bound) ? json_number_value(bound) : NAN;
	s->resample = resample;
	s->varies = varies;
	s->config_hash = strtoull(hash, NULL, 16);
	s->seed = strtoull(seed, NULL, 10);
	s->n_policies = (int)json_array_size(policies);
	s->n_oracles = (int)json_array_size(oracles);
	n = (int64_t)s->n_seeds * s->n_policies * s->n_oracles;
	if (strcmp(format, FORMAT) || strlen(name) >= NAME_LEN || s->n_jobs < 0 || s->n_seeds < 1 ||
	    s->n_oracles < 1 || s->n_oracles > 2 || n < 1 || n > 1 << 28 || s->n_shards < 0 ||
	    json_array_size(cells) > (size_t)n ||
	    n > (int64_t)(json_array_size(cells) + 1) * (s->n_shards + 1))
		return false;
	memcpy(s->experiment, name, strlen(name));
	s->n_cells = (int)n;
	s->policies = calloc((size_t)s->n_policies, sizeof(*s->policies));
	s->cells = calloc((size_t)s->n_cells, sizeof(*s->cells));
	return s->policies && s->cells && read_names(policies, s->policies, s->n_policies) &&
	       read_names(oracles, s->oracles, s->n_oracles);
}

int sweep_read(const char *path, struct sweep *out, struct bace_err *err)
{
	CLEANUP_FREE char *text = NULL;
	json_error_t where;
	json_t *j, *cells;
	size_t len;
	int rc = bace_read_file(path, FILE_MAX, &text, &len, err);

	*out = (struct sweep){ 0 };
	if (rc)
		return rc;
	j = json_loadb(text, len, 0, &where);
	if (!j)
		return bad(path, where.text, err);
	if (!read_head(j, out))
		rc = bad(path, "its head", err);
	cells = json_object_get(j, "cells");
	for (size_t i = 0; !rc && i < json_array_size(cells); i++)
		if (!read_cell(json_array_get(cells, i), out))
			rc = bad(path, "a cell", err);
	json_decref(j);
	if (rc)
		sweep_free(out);
	return rc;
}
