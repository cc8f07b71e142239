#include "results/spans.h"

#include <math.h>
#include <stdlib.h>

#include "common/common.h"

int spans_add(struct spans *s, double from, double to)
{
	return to > from ? BACE_PUSH(s->v, s->n, s->cap, ((struct span){ from, to })) : 0;
}

static int by_from(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

double spans_merge(struct spans *s)
{
	double length = 0;
	size_t n = 0;

	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), by_from);
	for (size_t i = 0; i < s->n; i++) {
		if (n && s->v[i].from <= s->v[n - 1].to)
			s->v[n - 1].to = fmax(s->v[n - 1].to, s->v[i].to);
		else
			s->v[n++] = s->v[i];
	}
	s->n = n;
	for (size_t i = 0; i < n; i++)
		length += s->v[i].to - s->v[i].from;
	return length;
}

double spans_common(const struct spans *a, const struct spans *b)
{
	double length = 0;

	for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
		double from = fmax(a->v[i].from, b->v[k].from), to = fmin(a->v[i].to, b->v[k].to);

		length += fmax(0, to - from);
		if (a->v[i].to < b->v[k].to)
			i++;
		else
			k++;
	}
	return length;
}

void spans_free(struct spans *s)
{
	free(s->v);
	*s = (struct spans){ 0 };
}
