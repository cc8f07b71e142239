/* What an external program answers: read, and checked against the view. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/policy/answer.h"

static bool path_has_shape(const json_t *path)
{
	size_t i;
	json_t *part;

	json_array_foreach(path, i, part) {
		if (!json_is_string(json_array_get(part, 0)) || !json_is_integer(json_array_get(part, 1)) ||
		    json_array_size(part) != 2)
			return false;
	}
	return json_is_array(path);
}

json_t *answer_parse(const char *line, char why[256])
{
	json_error_t e;
	json_t *root = json_loads(line, 0, &e), *list, *pl;
	size_t i;

	if (!root) {
		snprintf(why, 256, "its answer is not JSON: %s at byte %d", e.text, e.position);
		return NULL;
	}
	list = json_incref(json_object_get(root, "placements"));
	json_decref(root);
	if (!json_is_array(list)) {
		snprintf(why, 256, "its answer has no list `placements'");
		json_decref(list);
		return NULL;
	}
	json_array_foreach(list, i, pl) {
		if (json_is_string(json_object_get(pl, "job")) &&
		    path_has_shape(json_object_get(pl, "path")))
			continue;
		snprintf(why, 256,
			 "placement %zu of its answer: must be {\"job\": NAME, \"path\": [[REGION, GPUS], ...]}",
			 i + 1);
		json_decref(list);
		return NULL;
	}
	return list;
}

static int find_job(const struct view *v, const struct queue *q, const char *name)
{
	for (int i = 0; i < q->n; i++)
		if (!strcmp(v->exp->jobs[q->v[i].job].name, name))
			return q->v[i].job;
	return -1;
}

static int find_region(const struct cluster *c, const char *name)
{
	for (int r = 0; r < c->n_regions; r++)
		if (!strcmp(c->regions[r].name, name))
			return r;
	return -1;
}

static int read_path(const char *label, const struct view *v, const json_t *path, const char *job,
		     struct placement *out, struct bace_err *err)
{
	size_t i;
	json_t *part;

	if (json_array_size(path) > (size_t)v->exp->cluster.n_regions)
		return bace_fail(err, EINVAL, "policy %s: placement of %s: %zu parts in %d regions", label, job,
				 json_array_size(path), v->exp->cluster.n_regions);
	json_array_foreach(path, i, part) {
		const char *name = json_string_value(json_array_get(part, 0));
		json_int_t gpus = json_integer_value(json_array_get(part, 1));
		int r = find_region(&v->exp->cluster, name);

		if (r < 0)
			return bace_fail(err, EINVAL, "policy %s: placement of %s: no region `%s'",
					 label, job, name);
		if (gpus < 1 || gpus > 1000000)
			return bace_fail(err, EINVAL, "policy %s: placement of %s: %lld GPUs in %s: at least 1",
					 label, job, (long long)gpus, name);
		out->parts[out->n_parts++] = (struct placement_part){ .region = r, .gpus = (int)gpus };
		out->n_gpus += (int)gpus;
	}
	return 0;
}

int answer_placement(const char *label, const struct view *v, const struct queue *q, const json_t *pl,
		     struct placement *out, struct bace_err *err)
{
	const char *name = json_string_value(json_object_get(pl, "job"));
	const json_t *path = json_object_get(pl, "path");
	int rc;

	*out = (struct placement){ .job = find_job(v, q, name) };
	if (out->job < 0)
		return bace_fail(err, EINVAL, "policy %s: placement of %s: no such job in the queue",
				 label, name);
	out->parts = calloc(json_array_size(path) + 1, sizeof(*out->parts));
	if (!out->parts)
		return bace_fail(err, ENOMEM, "policy %s: out of memory", label);
	rc = read_path(label, v, path, name, out, err);
	if (!rc) {
		rc = placement_check(v, q, out, err);
		if (rc)
			bace_err_context(err, "policy %s", label);
	}
	if (rc)
		placement_free(out);
	return rc ? rc : 1;
}
