/* Private to results: sets of intervals. Pure. */
#ifndef BACE_RESULTS_SPANS_H
#define BACE_RESULTS_SPANS_H

#include <stddef.h>

struct spans {
	size_t n, cap;
	struct span {
		double from, to;
	} *v;
};

/* Empty ones are left out. -ENOMEM. */
int spans_add(struct spans *s, double from, double to);
/* Sorts and joins what overlaps; returns the length in all. */
double spans_merge(struct spans *s);
/* Length of what two merged sets have in common. */
double spans_common(const struct spans *a, const struct spans *b);
void spans_free(struct spans *s);

#endif
