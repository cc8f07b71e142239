/* Rows of a table: ours, the peer's, their ratio, and what is asked of it. */
#ifndef TESTS_BENCH_SHAPER_TABLE_H
#define TESTS_BENCH_SHAPER_TABLE_H

#include <stddef.h>
#include <stdint.h>

void table_head(const char *title);
/* peer 0: there is none to compare with. target: free text. */
void table_row(const char *what, const char *unit, double ours, double peer, const char *target);

double median(double *v, int n);	/* sorts */
double now_ms(void);

#endif
