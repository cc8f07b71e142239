/* What must hold of every drawn scenario. */
#ifndef TEST_CLUSTER_RANDOM_CHECKS_H
#define TEST_CLUSTER_RANDOM_CHECKS_H

#include "tests/unit/cluster/world.h"

extern uint64_t scenario;	/* for messages */

#define check(cond) \
	do { \
		if (!(cond)) \
			fail_msg("scenario %llu: %s", (unsigned long long)scenario, #cond); \
	} while (0)

static inline bool near(double a, double b)
{
	return a == b || fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

bool blocks(const struct policy_spec *s);
void check_quantiles(const struct cluster_result *r);
void check_totals(const struct drawn *d, const struct cluster_result *r);
/* Where the head of the queue blocks, jobs start in order of (arrival, name). */
void check_fcfs(const struct drawn *d, const struct cluster_result *r);
/* b is of the same world in another order. */
void check_equal(const struct drawn *da, const struct cluster_result *a, const struct drawn *db,
		 const struct cluster_result *b);

#endif
