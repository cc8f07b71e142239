#include "workloads/worker/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a controller takes in one line, 256 MiB, at 80 bytes a record. */
#define RECORDS_MAX 3000000

/* Pages written to now are not faulted in while time counts. (A memset to zero
 * after calloc is optimised away.) */
static void *touched(size_t n, size_t size)
{
	void *p = malloc(n * size + 1);

	if (p)
		memset(p, 0xff, n * size + 1);
	return p;
}

/* Of one step, with its messages: an operation has at most one in and one out. */
static int64_t records_a_step(const struct worker_spec *s)
{
	int64_t n = 0, each = s->timeline == TIMELINE_FULL ? 3 : 2;

	/* Below 2^33 * 3 * 2^10 (WORKER_STAGES_MAX). */
	for (int i = 0; i < s->n_stages; i++)
		n += each * schedule_n_ops(&s->schedule, s->stages[i].stage) + (each - 1) * worker_ring_rounds(s);
	return s->timeline == TIMELINE_NONE ? 0 : n;
}

int timeline_init(struct timeline *t, const struct worker_spec *s, struct bace_err *e)
{
	int64_t steps = s->warmup_steps + s->steps, a_step = records_a_step(s);

	*t = (struct timeline){ .sends = s->timeline == TIMELINE_FULL };
	if (a_step > RECORDS_MAX / steps || s->n_stages > RECORDS_MAX / steps)
		return bace_fail(e, E2BIG, "a timeline of %lld steps with %lld records each: at most %d in all; "
				 "fewer steps, or timeline \"none\"", (long long)steps, (long long)a_step, RECORDS_MAX);
	t->cap_ops = (size_t)(a_step * steps);
	t->cap_steps = (size_t)(s->n_stages * steps);
	t->ops = touched(t->cap_ops, sizeof(*t->ops));
	t->steps = touched(t->cap_steps, sizeof(*t->steps));
	if (t->ops && t->steps)
		return 0;
	timeline_free(t);
	return bace_fail(e, ENOMEM, "timeline of %lld steps: out of memory", (long long)steps);
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
