#include "harness/cmd/load.h"

#include <string.h>

int load_experiment(const struct command *c, const char *path, struct experiment *exp)
{
	struct bace_diags d = { 0 };
	struct bace_err e = { 0 };

	if (!experiment_load(path, exp, &d, &e))
		return 0;
	bace_diags_print(&d, stderr);
	if (!d.n)
		cmd_error(c, 0, "%s", e.msg);
	bace_diags_free(&d);
	return BACE_EXIT_INPUT;
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
