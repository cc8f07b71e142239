/*
 * Small clusters built in memory, with numbers that can be worked out by hand:
 * MTU chosen by the profile, one GPU type unless more are added, links given
 * one by one.
 */
#ifndef TEST_POLICY_FIXTURE_H
#define TEST_POLICY_FIXTURE_H

#include "harness/policy/policy.h"

#define FIX_REGIONS 16
#define FIX_JOBS 64

struct fixture {
	struct experiment e;
	struct job_models models;
	struct view v;
	struct queued_job queued[FIX_JOBS];
	struct queue q;
	int free_gpus[FIX_REGIONS];
	double price[FIX_REGIONS];
	double capacity_bps[FIX_REGIONS * FIX_REGIONS];
	double reserved_bps[FIX_REGIONS * FIX_REGIONS];
};

/* One GPU type "g": 1e12 FLOP/s, 100 W active, 20 W idle, 100 GB. */
void fix_init(struct fixture *f, int n_regions);
void fix_free(struct fixture *f);
/* Region r; bandwidth of its own such that goodput is goodput_bps. */
void fix_region(struct fixture *f, int r, const char *name, int n_gpus, double price, double goodput);
/* Both directions; goodput and one-way latency. */
void fix_link(struct fixture *f, int a, int b, double goodput, double latency_s);
void fix_link_one_way(struct fixture *f, int src, int dst, double goodput, double latency_s);
/* A model known by its measured times on one GPU, its A, its layers and the
 * memory it needs in all (state only). Returns its index. */
int fix_model(struct fixture *f, const char *name, int layers, double fwd_s, double bwd_s, double boundary_bytes,
	      double state_bytes);
int fix_job(struct fixture *f, const char *name, int model, int m, double steps, double arrival_s);
int fix_gpu(struct fixture *f, const char *name, double flops, double memory_bytes);
/* After the above: models, view (truth), queue of all jobs by (arrival, name). */
void fix_ready(struct fixture *f);
int fix_region_index(const struct fixture *f, const char *name);

/* A spec with the defaults of the profiles. */
struct policy_spec fix_spec(const char *name);
/* Decision of a fresh policy as "job: a:2 > b:1", "-" for none, "error: ..." */
const char *fix_decide(struct fixture *f, const struct policy_spec *spec);
const char *fix_decide_with(struct fixture *f, struct policy *p);

#endif
