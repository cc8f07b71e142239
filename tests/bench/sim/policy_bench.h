/* Realistic random moments for the policy benchmarks. */
#ifndef BENCH_POLICY_H
#define BENCH_POLICY_H

#include "harness/policy/policy.h"

struct bench {
	struct experiment e;
	struct job_models models;
	struct view v;
	struct queue q;
	struct queued_job *queued;
	int *free_gpus;
	double *price, *capacity_bps, *reserved_bps;
};

/* n regions of {16, 32, 64, 128} A6000 (48 GB, 60 TFLOP/s achieved), 25 to 100
 * Gbit/s, every pair linked with the mean of its ends; `jobs` jobs of six
 * models of 14B to 101B parameters, m = 64. */
void bench_build(struct bench *b, int n_regions, int jobs);
/* As bench_build with other draws. flops: achieved, e.g. 60e12; scale: of all bandwidths. */
void bench_build_seeded(struct bench *b, int n_regions, int jobs, uint64_t seed, double flops, double scale);
void bench_free(struct bench *b);
/* A random load: some GPUs taken, some bandwidth reserved, prices moved. */
void bench_moment(struct bench *b, uint64_t seed);
/* Leaves so few GPUs free that none of the jobs fits. */
void bench_crowd(struct bench *b);
struct policy_spec bench_spec(const char *name);

#endif
