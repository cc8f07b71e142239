#include <errno.h>

#include "harness/run/cell.h"

int lab_open_for(const struct experiment *exp, const struct bare_options *o, const struct lab_traffic *traffic, bool enter,
		 struct testbed **out, const char **backend, struct bace_err *e)
{
	struct testbed_config cfg = { .self = o->self, .exp_path = exp->path, .traffic = *traffic,
				      .on_progress = o->on_progress, .cancelled = o->cancelled, .arg = o->arg };
	CLEANUP_FREE char *why = NULL;
	int rc = lab_choose_backend(o->has_backend ? o->backend : exp->testbed.backend, &cfg.backend, &why, e);

	if (!rc && enter && cfg.backend == BACKEND_UML)
		rc = bace_fail(e, ENOSYS, "User-Mode Linux (%s) is a machine of its own, whose namespaces cannot be entered", why);
	if (rc)
		return rc;
	*backend = backend_name(cfg.backend);
	return testbed_open(&cfg, out, e);
}

int bare_open(const struct experiment *exp, const struct bare_options *o, struct testbed **out, const char **backend,
	      struct bace_err *e)
{
	struct job_models models;
	struct lab_traffic traffic = { 0 };
	int rc = job_models_build(exp, &models, e);

	if (rc)
		return rc;
	traffic_of(exp, &models, &traffic);
	job_models_free(&models);
	return lab_open_for(exp, o, &traffic, true, out, backend, e);
}
