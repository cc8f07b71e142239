/* Random clusters with running reservations and a queue, from a seed. */
#ifndef TEST_POLICY_INSTANCE_H
#define TEST_POLICY_INSTANCE_H

#include "tests/unit/policy/fixture.h"

#define instance_layers 24

enum instance_flags {
	INSTANCE_IDENTITY = 0,
	INSTANCE_SHUFFLED = 1,	/* the same cluster, listed in another order */
	INSTANCE_MIXED = 2,	/* three GPU types */
};

/* job0 is the first in the queue. Some GPUs and links are taken, some links absent. */
void instance_build(struct fixture *f, uint64_t seed, int n_regions, int flags);

#endif
