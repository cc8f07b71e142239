/* A cluster of three regions for tests: every figure is easy to work with by
 * hand. 100 Mbit/s and 20 ms one way between all pairs, but a -> c 50 ms. */
#ifndef TESTS_CLUSTER3_H
#define TESTS_CLUSTER3_H

#include <string.h>

#include "profiles/profiles.h"

static struct region cluster3_regions[3];
static struct link cluster3_links[9];
static struct gpu_type cluster3_gpu;

static inline struct cluster cluster3(void)
{
	static const char *const names[] = { "a", "b", "c" };
	struct cluster c = { .n_regions = 3, .regions = cluster3_regions, .links = cluster3_links,
			     .n_gpus = 1, .gpus = &cluster3_gpu, .mtu = 1500 };

	memset(cluster3_regions, 0, sizeof(cluster3_regions));
	memset(cluster3_links, 0, sizeof(cluster3_links));
	strcpy(cluster3_gpu.name, "gpu");
	for (int i = 0; i < 3; i++) {
		strcpy(c.regions[i].name, names[i]);
		c.regions[i].n_gpus = 2;
		c.regions[i].bandwidth_bps = 1e9;
		for (int k = 0; k < 3; k++)
			if (k != i)
				c.links[i * 3 + k] = (struct link){ .present = true, .rate_bps = 100000000,
					.latency_ns = 20000000 };
	}
	c.links[2].latency_ns = 50000000;
	return c;
}

#endif
