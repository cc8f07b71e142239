#include "harness/cmd/trace_models.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profiles/load.h"

static bool pick(const struct model_table *t, const char *list, struct model *out, int *n, struct bace_diags *d)
{
	bool ok = true;

	for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
		char name[NAME_LEN], near[256];
		size_t len = strcspn(p, ",");
		int i;

		snprintf(name, sizeof(name), "%.*s", (int)(len < NAME_LEN ? len : NAME_LEN - 1), p);
		i = cfg_find_name(t->v, t->n, sizeof(*t->v), offsetof(struct model, name), name);
		if (i >= 0) {
			out[(*n)++] = t->v[i];
			continue;
		}
		load_suggest(name, t->v, t->n, sizeof(*t->v), offsetof(struct model, name), near, sizeof(near));
		bace_diag_add(d, "--models", 0, "no model `%s' in the models file%s", name, near);
		ok = false;
	}
	return ok;
}

int trace_models(const char *file, const char *list, struct model **out, int *n, struct bace_diags *d,
		 struct bace_err *e)
{
	struct cfg_loader l = { .diags = d };
	struct model_table t = { 0 };
	CLEANUP_FREE char *path = cfg_resolve("models", file, NULL);
	size_t before = d->n;
	int rc;

	*n = 0;
	*out = calloc(strlen(list) + 1, sizeof(**out));
	if (!path || !*out) {
		rc = bace_fail(e, ENOMEM, "%s: out of memory", file);
	} else {
		load_models(&l, path, &t);
		rc = cfg_loader_status(&l, before, e);
		if (!rc && !pick(&t, list, *out, n, d))
			rc = bace_fail(e, EINVAL, "--models %s: not all are known", list);
	}
	/* Diagnostics keep copies of the paths. */
	cfg_loader_free(&l);
	free(t.v);
	if (rc) {
		free(*out);
		*out = NULL;
	}
	return rc;
}
