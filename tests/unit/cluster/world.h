/* Clusters and jobs built in memory for the tests of the event loop. */
#ifndef TEST_CLUSTER_WORLD_H
#define TEST_CLUSTER_WORLD_H

#include "harness/sim/sim.h"

struct world {
	struct experiment e;
	struct job_models models;
};

/* n regions "r0".. of 4 GPUs, PUE 1, price 0.36 USD/kWh (1e-7 USD/J), links
 * between all, 1 Gbit/s, latency 0; GPU type: 120 W active, 20 W idle, 1 TB. */
void world_init(struct world *w, int n_regions);
void world_price(struct world *w, int region, size_t n, const double *start_s, const double *usd_per_kwh,
		 double period_s);
/* 4 layers, 1 s forward and 1 s backward on one GPU, A = 1 MB, 1 GB a layer. */
int world_model(struct world *w, const char *name, int layers);
int world_job(struct world *w, const char *name, int model, double steps, double arrival_s);
/* After the above. */
void world_ready(struct world *w);
void world_free(struct world *w);

/* A drawn world of mixed regions, prices, links, models and jobs. perm permutes
 * the order of regions, models and jobs in the config and nothing else. */
struct drawn {
	struct world w;
	int n_changes;
	struct link_change *changes;
	int *region_at, *job_at;	/* [original index] -> index in the config */
};

void world_draw(struct drawn *d, uint64_t seed, uint64_t perm);
void drawn_free(struct drawn *d);

#endif
