#include <errno.h>
#include <stdlib.h>

#include "workloads/worker/compute.h"

struct timed {
	struct compute base;
	const struct worker_spec *spec;
	int *heap;			/* slots that run, earliest end first */
	int n;
	int64_t *start, *end;		/* by slot */
};

static bool earlier(const struct timed *t, int a, int b)
{
	return t->end[a] < t->end[b] ||
	       (t->end[a] == t->end[b] && t->spec->stages[a].stage < t->spec->stages[b].stage);
}

static void push(struct timed *t, int slot)
{
	int i = t->n++;

	for (; i > 0 && earlier(t, slot, t->heap[(i - 1) / 2]); i = (i - 1) / 2)
		t->heap[i] = t->heap[(i - 1) / 2];
	t->heap[i] = slot;
}

static int pop(struct timed *t)
{
	int top = t->heap[0], last = t->heap[--t->n], i = 0;

	for (;;) {
		int child = 2 * i + 1;

		if (child >= t->n)
			break;
		if (child + 1 < t->n && earlier(t, t->heap[child + 1], t->heap[child]))
			child++;
		if (!earlier(t, t->heap[child], last))
			break;
		t->heap[i] = t->heap[child];
		i = child;
	}
	t->heap[i] = last;
	return top;
}

static int timed_start(struct compute *c, const struct work *w, struct bace_err *e)
{
	struct timed *t = (struct timed *)c;

	t->start[w->slot] = w->start;
	t->end[w->slot] = w->start + w->duration;
	push(t, w->slot);
	return 0;
}

static int64_t timed_deadline(const struct compute *c)
{
	const struct timed *t = (const struct timed *)c;

	return t->n ? t->end[t->heap[0]] : INT64_MAX;
}

static int timed_collect(struct compute *c, int64_t now, struct finished *out, struct bace_err *e)
{
	struct timed *t = (struct timed *)c;

	if (!t->n || t->end[t->heap[0]] > now)
		return 0;
	out->slot = pop(t);
	out->start = t->start[out->slot];
	out->end = t->end[out->slot];
	return 1;
}

static int timed_fd(const struct compute *c)
{
	return -1;
}

static void timed_destroy(struct compute *c)
{
	struct timed *t = (struct timed *)c;

	free(t->heap);
	free(t->start);
	free(t->end);
	free(t);
}

static const struct compute_ops timed_ops = {
	.name = "timed",
	.start = timed_start,
	.deadline = timed_deadline,
	.collect = timed_collect,
	.fd = timed_fd,
	.destroy = timed_destroy,
};

int compute_timed(const struct worker_spec *s, struct compute **out, struct bace_err *e)
{
	struct timed *t = calloc(1, sizeof(*t));
	size_t n = (size_t)s->n_stages;

	if (!t)
		return bace_fail(e, ENOMEM, "timed compute: out of memory");
	t->base = (struct compute){ .ops = &timed_ops, .timed = true };
	t->spec = s;
	t->heap = calloc(n, sizeof(*t->heap));
	t->start = calloc(n, sizeof(*t->start));
	t->end = calloc(n, sizeof(*t->end));
	if (!t->heap || !t->start || !t->end) {
		timed_destroy(&t->base);
		return bace_fail(e, ENOMEM, "timed compute: out of memory");
	}
	*out = &t->base;
	return 0;
}
