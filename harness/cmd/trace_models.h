/* The models that a generated trace trains. */
#ifndef BACE_CMD_TRACE_MODELS_H
#define BACE_CMD_TRACE_MODELS_H

#include "profiles/profiles.h"

/* Of a models file (bare name or path), those named in the list "A,B,C", in its
 * order; *out is malloc'd. -EINVAL with diagnostics. */
int trace_models(const char *file, const char *list, struct model **out, int *n, struct bace_diags *d,
		 struct bace_err *e);

#endif
