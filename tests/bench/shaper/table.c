#include "tests/bench/shaper/table.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/common.h"

void table_head(const char *title)
{
	printf("\n%s\n%-46s %12s %12s %8s  %s\n", title, "", "ours", "peer", "ratio", "asked");
}

void table_row(const char *what, const char *unit, double ours, double peer, const char *target)
{
	char a[32], b[32] = "-", c[32] = "-";

	snprintf(a, sizeof(a), "%.5g %s", ours, unit);
	if (peer > 0) {
		snprintf(b, sizeof(b), "%.5g %s", peer, unit);
		snprintf(c, sizeof(c), "%.4f", ours / peer);
	}
	printf("%-46s %12s %12s %8s  %s\n", what, a, b, c, target);
	fflush(stdout);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return n ? v[n / 2] : 0;
}

double now_ms(void)
{
	return (double)bace_mono_ns() / 1e6;
}
