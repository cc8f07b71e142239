#include "harness/cmd/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int load_experiment(const struct command *c, const char *path, struct experiment *exp)
{
	struct bace_diags d = { 0 };
	struct bace_err e = { 0 };
	int rc = experiment_load(path, exp, &d, &e);

	if (!rc)
		return 0;
	bace_diags_print(&d, stderr);
	if (!d.n)
		cmd_error(c, 0, "%s", e.msg);
	bace_diags_free(&d);
	return rc == -ENOMEM ? BACE_EXIT_FAILED : BACE_EXIT_INPUT;
}

int cmd_backend(const struct command *c, const char *name, bool *has, enum backend_kind *out)
{
	for (int b = BACKEND_AUTO; b <= BACKEND_UML; b++) {
		if (strcmp(backend_name((enum backend_kind)b), name))
			continue;
		*has = true;
		*out = (enum backend_kind)b;
		return 0;
	}
	return cmd_misuse(c, "--backend %s: must be auto, netem, nfqueue or uml", name);
}

void *cmd_room(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p) {
		bace_log(BACE_ERROR, "bace", "out of memory");
		exit(BACE_EXIT_FAILED);
	}
	return p;
}
