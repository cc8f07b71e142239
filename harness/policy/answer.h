/* Private to policy: the answer of an external program. */
#ifndef BACE_POLICY_ANSWER_H
#define BACE_POLICY_ANSWER_H

#include <jansson.h>

#include "harness/policy/internal.h"

/* The list of placements in a line, the caller's to decref; NULL, and why, if
 * it is none. */
json_t *answer_parse(const char *line, char why[256]);
/* One entry of that list as a placement that keeps every constraint: 1; what it
 * breaks: -EINVAL, in err. label names the policy in messages. */
int answer_placement(const char *label, const struct view *v, const struct queue *q, const json_t *pl,
		     struct placement *out, struct bace_err *err);

#endif
