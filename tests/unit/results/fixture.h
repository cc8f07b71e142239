/* A store with a made-up run: every kind of row, awkward names and values. */
#ifndef BACE_TEST_RESULTS_FIXTURE_H
#define BACE_TEST_RESULTS_FIXTURE_H

#include "results/results.h"

struct fixture_size {
	int policies;		/* 1 to 4 */
	int steps;		/* measured, a placement */
	bool timeline;
	bool measured;
};

/* Adds one run; the numbers depend on seed alone. Aborts on failure. */
void fixture_run(struct store *s, uint64_t seed, struct fixture_size size, char id[32]);
/* A folder that is removed with everything in it at exit. */
const char *fixture_dir(void);
char *fixture_path(const char *name);	/* malloc'd, in it */
/* A new store of that name. Aborts on failure, as does the next. */
struct store *fixture_open(const char *name);
/* The one number that a query gives. */
int64_t fixture_number(struct store *s, const char *sql);

#endif
