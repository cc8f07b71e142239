/*
 * Step times of synchronous schedules on uniform stages: makespan of forward
 * and backward of m micro-batches, no optimizer, no all-reduce. A message leaves
 * at its producer's end, is `serialisation` long on its direction of the link,
 * arrives `latency` later and never occupies the GPU; both directions alike.
 */
#ifndef TESTS_PIPELINE_VECTORS_H
#define TESTS_PIPELINE_VECTORS_H

#include "profiles/profiles.h"

#define ALL (-1)

struct vector {
	enum schedule_kind schedule;
	int p, m;
	double tf, tb;
	int hop;		/* the one that costs something, or ALL */
	double latency, serialisation;
	double step_time;
};

static const struct vector vectors[] = {
	/* Times in us, profiled and published in the comments of v_schedule.py of
	 * sail-sg/zero-bubble-pipeline-parallelism (Megatron-derived licence), tb = B + W;
	 * step times by an independent event simulation, equal to the closed form. */
	{ SCHED_1F1B, 8, 24, 18522, 27423, ALL, 601, 0, 1456749 },
	{ SCHED_1F1B, 8, 32, 18513, 27417, ALL, 626, 0, 1833838 },
	{ SCHED_1F1B, 8, 64, 18546, 27418, ALL, 762, 0, 3357932 },
	{ SCHED_1F1B, 16, 128, 11325, 19417, ALL, 378, 0, 4497410 },
	{ SCHED_1F1B, 32, 128, 10408, 17907, ALL, 408, 0, 4627749 },
	/* Narayanan et al. 2021 (arXiv 2104.04473), section 2.2: bubble / ideal = (p-1)/m. */
	{ SCHED_1F1B, 4, 4, 1, 2, ALL, 0, 0, 21 },
	{ SCHED_1F1B, 3, 5, 1, 2, ALL, 0, 0, 21 },
	{ SCHED_GPIPE, 4, 8, 1, 2, ALL, 0, 0, 33 },
	{ SCHED_GPIPE, 4, 4, 1, 2, ALL, 0, 0, 21 },
	{ SCHED_GPIPE, 2, 1, 1, 2, ALL, 0, 0, 6 },
	{ SCHED_GPIPE, 3, 5, 1, 2, ALL, 0, 0, 21 },
	/* By derivation or an independent event simulation. */
	{ SCHED_1F1B, 4, 8, 1, 2, ALL, 0.5, 0, 41 },
	{ SCHED_1F1B, 8, 32, 1, 2, ALL, 0.25, 0, 134 },
	{ SCHED_1F1B, 4, 16, 1, 2, ALL, 3, 0, 141 },
	{ SCHED_GPIPE, 4, 8, 1, 2, ALL, 0.5, 0, 36 },
	{ SCHED_1F1B, 8, 64, 1, 2, 0, 1, 0, 271 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 0, 1, 0, 215 },
	{ SCHED_GPIPE, 8, 64, 1, 2, 0, 1, 0, 215 },
	{ SCHED_1F1B, 8, 64, 1, 2, 1, 1, 0, 273 },
	{ SCHED_1F1B, 8, 64, 1, 2, 2, 1, 0, 273 },
	{ SCHED_1F1B, 8, 64, 1, 2, 3, 1, 0, 275 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 3, 1, 0, 215 },
	{ SCHED_1F1B, 8, 64, 1, 2, 5, 1, 0, 277 },
	{ SCHED_1F1B, 8, 64, 1, 2, 6, 1, 0, 277 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 6, 1, 0, 215 },
	{ SCHED_GPIPE, 8, 64, 1, 2, 6, 1, 0, 215 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 3, 0.25, 0, 213.5 },
	{ SCHED_GPIPE, 8, 64, 1, 2, 3, 0.25, 0, 213.5 },
	{ SCHED_1F1B, 8, 64, 1, 2, 3, 0.5, 0, 244 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 3, 0.5, 0, 214 },
	{ SCHED_1F1B, 8, 64, 1, 2, 3, 1.5, 0, 306 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 3, 1.5, 0, 216 },
	{ SCHED_GPIPE, 8, 64, 1, 2, 3, 1.5, 0, 216 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 3, 2, 0, 230 },
	{ SCHED_1F1B, 8, 64, 1, 2, 3, 3, 0, 399 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 3, 3, 0, 270 },
	{ SCHED_1F1B, 8, 64, 1, 2, 3, 6, 0, 585 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 3, 6, 0, 390 },
	{ SCHED_GPIPE, 8, 64, 1, 2, 3, 6, 0, 225 },
	{ SCHED_1F1B, 8, 64, 1, 2, 3, 0, 0.5, 244 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 3, 0, 0.5, 214 },
	{ SCHED_GPIPE, 8, 64, 1, 2, 3, 0, 0.5, 214 },
	{ SCHED_1F1B, 8, 64, 1, 2, 3, 0, 1, 275 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 3, 0, 1, 215 },
	{ SCHED_GPIPE, 8, 64, 1, 2, 3, 0, 1.5, 247.5 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 3, 0, 2, 233 },
	{ SCHED_GPIPE, 8, 64, 1, 2, 3, 0, 2, 280 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 3, 0, 3, 285 },
	{ SCHED_GPIPE, 8, 64, 1, 2, 3, 0, 3, 408 },
	{ SCHED_1F1B, 8, 64, 1, 2, 3, 0, 4, 467 },
	{ SCHED_EAGER_1F1B, 8, 64, 1, 2, 3, 0, 4, 337 },
	{ SCHED_GPIPE, 8, 64, 1, 2, 3, 0, 4, 536 },
};

/* The same source's other profiles (us; the last rows in arbitrary units), of
 * which the span of the first stage under 1f1b equals the step time. */
static const struct vector zb_profiles[] = {
	{ SCHED_1F1B, 8, 24, 29718, 49371, ALL, 527, 0, 2480217 },
	{ SCHED_1F1B, 8, 32, 29802, 48958, ALL, 577, 0, 3110876 },
	{ SCHED_1F1B, 8, 64, 29935, 49009, ALL, 535, 0, 5671364 },
	{ SCHED_1F1B, 16, 48, 11347, 19380, ALL, 377, 0, 1980287 },
	{ SCHED_1F1B, 16, 64, 11307, 19355, ALL, 379, 0, 2478390 },
	{ SCHED_1F1B, 32, 96, 10419, 17922, ALL, 408, 0, 3699675 },
	{ SCHED_1F1B, 4, 12, 5, 10, ALL, 0, 0, 225 },
	{ SCHED_1F1B, 32, 16, 1, 2, ALL, 0, 0, 141 },
};

#endif
