#include <errno.h>

#include "harness/run/cell.h"

int bare_open(const struct experiment *exp, const struct bare_options *o, struct testbed **out, const char **backend,
	      struct bace_err *e)
{
	struct job_models models;
	CLEANUP_FREE char *why = NULL;
	struct testbed_config cfg = { .self = o->self, .exp_path = exp->path, .on_progress = o->on_progress,
				      .cancelled = o->cancelled, .arg = o->arg };
	int rc = job_models_build(exp, &models, e);

	if (rc)
		return rc;
	traffic_of(exp, &models, &cfg.traffic);
	job_models_free(&models);
	rc = lab_choose_backend(o->has_backend ? o->backend : exp->testbed.backend, &cfg.backend, &why, e);
	if (!rc && cfg.backend == BACKEND_UML)
		rc = bace_fail(e, ENOSYS, "User-Mode Linux (%s) is a machine of its own, whose namespaces cannot be entered", why);
	if (rc)
		return rc;
	*backend = backend_name(cfg.backend);
	return testbed_open(&cfg, out, e);
}
