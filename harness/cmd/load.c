#include "harness/cmd/load.h"

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
