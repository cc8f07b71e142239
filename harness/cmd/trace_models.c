#include "harness/cmd/trace_models.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int find(const struct model *all, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(all[i].name, name))
			return (int)i;
	return -1;
}

static void complain(const struct model *all, size_t n, const char *name, struct bace_diags *d)
{
	CLEANUP_FREE const char **names = calloc(n + 1, sizeof(*names));
	struct bace_buf there = { 0 };
	const char *near;

	if (!names)
		return;
	for (size_t i = 0; i < n; i++) {
		names[i] = all[i].name;
		bace_buf_addf(&there, "%s%s", i ? ", " : "", all[i].name);
	}
	near = bace_nearest(name, names, n);
	if (near)
		bace_diag_add(d, "--models", 0, "no model `%s' in the models file; did you mean `%s'?", name, near);
	else
		bace_diag_add(d, "--models", 0, "no model `%s' in the models file; there are %s", name,
			      there.p ? there.p : "none");
	bace_buf_free(&there);
}

static bool pick(const struct model *all, size_t n_all, const char *list, struct model *out, int *n,
		 struct bace_diags *d)
{
	bool ok = true;

	for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
		char name[NAME_LEN];
		size_t len = strcspn(p, ",");
		int i;

		snprintf(name, sizeof(name), "%.*s", (int)(len < NAME_LEN ? len : NAME_LEN - 1), p);
		i = find(all, n_all, name);
		if (i >= 0)
			out[(*n)++] = all[i];
		else
			complain(all, n_all, name, d);
		ok &= i >= 0;
	}
	return ok;
}

int trace_models(const char *file, const char *list, struct model **out, int *n, struct bace_diags *d,
		 struct bace_err *e)
{
	CLEANUP_FREE struct model *all = NULL;
	size_t n_all;
	int rc;

	*n = 0;
	*out = calloc(strlen(list) + 1, sizeof(**out));
	if (!*out)
		return bace_fail(e, ENOMEM, "%s: out of memory", file);
	rc = models_load(file, &all, &n_all, d, e);
	if (!rc && !pick(all, n_all, list, *out, n, d))
		rc = bace_fail(e, EINVAL, "--models %s: not all are known", list);
	if (rc) {
		free(*out);
		*out = NULL;
	}
	return rc;
}
