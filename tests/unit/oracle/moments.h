/* Moments to ask an oracle about, with numbers that can be worked out by hand. */
#ifndef TESTS_ORACLE_MOMENTS_H
#define TESTS_ORACLE_MOMENTS_H

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "harness/oracle/shares.h"
#include "tests/unit/policy/fixture.h"

#define MB 1e6
#define MBIT 1e6

/*
 * Regions a, b, c, d; goodput 100 Mbit/s and 0.25 s between all, b -> a 50
 * Mbit/s; 1 Gbit/s inside. Jobs of 12 layers, F = 1 s, B = 2 s on one GPU, so on
 * two each stage takes 0.5 and 1; A = 1 MB = 8 Mbit, so a job on two GPUs
 * demands 8 / 1.5 Mbit/s.
 */
struct bench {
	struct fixture f;
	struct placement p[16];
	struct placement_part parts[16][4];
	const struct placement *list[16];
	struct moment m;
};

void assert_close(double got, double want);
void begin(struct bench *b);
void end(struct bench *b);
/* One more placement that runs. */
void add(struct bench *b, int job, int n, const struct placement_part *parts);
void pair(struct bench *b, int job, int from, int to);
/* A path of one to four regions, one to three GPUs each. */
void draw_path(struct bench *b, struct bace_rng *rng, int job);

#endif
