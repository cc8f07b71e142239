#include "workloads/worker/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OPS_MAX 20000000u

/* Pages written to now are not faulted in while time counts. (A memset to zero
 * after calloc is optimised away.) */
static void *touched(size_t n, size_t size)
{
	void *p = malloc(n * size + 1);

	if (p)
		memset(p, 0xff, n * size + 1);
	return p;
}

int timeline_init(struct timeline *t, const struct worker_spec *s, struct bace_err *e)
{
	size_t steps = (size_t)(s->warmup_steps + s->steps), ops = 0;

	*t = (struct timeline){ .sends = s->timeline == TIMELINE_FULL };
	for (int i = 0; i < s->n_stages; i++)
		ops += (size_t)schedule_n_ops(&s->schedule, s->stages[i].stage);
	/* An operation has at most one message in and one out. */
	t->cap_ops = s->timeline == TIMELINE_NONE ? 0 : ops * steps * (t->sends ? 3 : 2);
	if (t->cap_ops > OPS_MAX || (size_t)s->n_stages * steps > OPS_MAX)
		return bace_fail(e, E2BIG, "timeline of %zu operations: at most %u; fewer steps, or "
				 "timeline \"none\"", ops * steps, OPS_MAX);
	t->cap_steps = (size_t)s->n_stages * steps;
	t->ops = touched(t->cap_ops, sizeof(*t->ops));
	t->steps = touched(t->cap_steps, sizeof(*t->steps));
	if (t->ops && t->steps)
		return 0;
	timeline_free(t);
	return bace_fail(e, ENOMEM, "timeline of %zu operations: out of memory", ops * steps);
}

void timeline_free(struct timeline *t)
{
	free(t->ops);
	free(t->steps);
	*t = (struct timeline){ 0 };
}

void timeline_add(struct timeline *t, const struct op_record *op)
{
	if (t->n_ops < t->cap_ops)
		t->ops[t->n_ops++] = *op;
}
