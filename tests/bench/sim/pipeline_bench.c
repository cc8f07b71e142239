/*
 * What one operation of a simulated pipeline costs, by schedule and by size,
 * alone and with shared links. CPU time of this thread, best of several: other
 * load on the machine counts as little as possible.
 */
#include <malloc.h>
#include <stdlib.h>
#include <time.h>

#include "harness/sim/sim.h"
#include "tests/bench/table.h"

#define TRIES 7
#define MIN_OPS 2000000		/* a try, so that the clock's grain does not matter */

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const struct bace_err *e)
{
	fprintf(stderr, "%s\n", e->msg);
	exit(1);
}

struct subject {
	struct pipeline p;
	double *numbers;
};

/* Unequal stages and hops, so that nothing is a special case. */
static struct subject subject(enum schedule_kind kind, int p, int m)
{
	struct subject s = { .numbers = malloc(7 * (size_t)p * sizeof(double)) };
	double *v = s.numbers;
	size_t n = (size_t)p;

	if (!v)
		exit(1);
	for (size_t i = 0; i < n; i++) {
		v[i] = 1 + 0.1 * (double)(i % 3);
		v[n + i] = 2 + 0.1 * (double)(i % 5);
		v[2 * n + i] = 0.9;
		v[3 * n + i] = v[5 * n + i] = i % 8 == 7 ? 0.4 : 0;
		v[4 * n + i] = v[6 * n + i] = i % 8 == 7 ? 0.3 : 0.01;
	}
	s.p = (struct pipeline){ .schedule = { kind, p, m, kind == SCHED_INTERLEAVED_1F1B ? 2 : 1 },
		.tf = v, .tb = v + n, .tw = kind == SCHED_ZB_H1 ? v + 2 * n : NULL, .fwd_latency = v + 3 * n,
		.fwd_serialisation = v + 4 * n, .rev_latency = v + 5 * n, .rev_serialisation = v + 6 * n };
	return s;
}

static double n_ops(const struct pipeline *p)
{
	return (double)schedule_n_ops(&p->schedule, 0) * p->schedule.stages;
}

static void count(void *arg, const struct timeline_op *op)
{
	++*(int64_t *)arg;
}

/* Seconds of one simulation, best of TRIES. */
static double time_alone(const struct pipeline *p, bool timeline)
{
	int times = 1 + (int)(MIN_OPS / n_ops(p));
	double best = 1e9;
	int64_t n = 0;

	for (int t = 0; t < TRIES; t++) {
		double begin = cpu_s();

		for (int i = 0; i < times; i++) {
			struct pipeline_result r = { .on_op = timeline ? count : NULL, .arg = &n };
			struct bace_err e = { 0 };

			if (pipeline_simulate(p, &r, &e))
				die(&e);
		}
		double s = (cpu_s() - begin) / times;

		best = s < best ? s : best;
	}
	return best;
}

static void by_schedule(void)
{
	table_head("event simulation of one pipeline");
	for (int kind = SCHED_GPIPE; kind <= SCHED_ZB_H1; kind++) {
		struct subject s = subject((enum schedule_kind)kind, 64, 1024);
		double n = n_ops(&s.p);
		char what[64];

		snprintf(what, sizeof(what), "%s, p = 64, m = 1024", schedule_name(s.p.schedule.kind));
		table_row(what, "ns/op", figure_one(time_alone(&s.p, false) / n * 1e9), (struct figure){ 0 },
			  kind == SCHED_1F1B ? (struct asked){ ASKED_MOST, 20 } : (struct asked){ 0 });
		snprintf(what, sizeof(what), "%s, with a timeline", schedule_name(s.p.schedule.kind));
		table_row(what, "ns/op", figure_one(time_alone(&s.p, true) / n * 1e9), (struct figure){ 0 }, (struct asked){ 0 });
		free(s.numbers);
	}
}

/* Bytes that are on the heap at the most recent operation, beyond what was. */
struct heap {
	size_t before, most;
	int64_t n;
};

static void watch(void *arg, const struct timeline_op *op)
{
	struct heap *h = arg;
	size_t now;

	if (h->n++ % 4096)
		return;
	now = mallinfo2().uordblks + mallinfo2().hblkhd - h->before;
	h->most = now > h->most ? now : h->most;
}

static double kbytes(const struct pipeline *p)
{
	struct heap h = { .before = mallinfo2().uordblks + mallinfo2().hblkhd };
	struct pipeline_result r = { .on_op = watch, .arg = &h };
	struct bace_err e = { 0 };

	if (pipeline_simulate(p, &r, &e))
		die(&e);
	return (double)h.most / 1024;
}

static void grown(enum schedule_kind k, int p, int m, double seconds)
{
	char what[64];

	snprintf(what, sizeof(what), "event simulation, %s", schedule_name(k));
	if (m == 1024)
		table_growth(what, "stages", p, seconds * 1e3, "ms");
	if (p == 64)
		table_growth(what, "micro-batches", m, seconds * 1e3, "ms");
}

static void growth(void)
{
	static const int sizes[][2] = { { 2, 1024 }, { 8, 1024 }, { 64, 64 }, { 64, 256 }, { 64, 1024 }, { 64, 4096 },
					{ 64, 16384 }, { 256, 1024 }, { 1024, 1024 } };
	static const enum schedule_kind kinds[] = { SCHED_1F1B, SCHED_EAGER_1F1B, SCHED_GPIPE };

	printf("\ngrowth: time is linear in operations (2 p m), memory linear in p while messages under way fit\n"
	       "a ring of 16 a channel; a ring doubles when they do not\n\n%6s %7s", "p", "m");
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
		printf("  %10s ns/op %9s", schedule_name(kinds[k]), "KiB");
	putchar('\n');
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		printf("%6d %7d", sizes[i][0], sizes[i][1]);
		for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
			struct subject s = subject(kinds[k], sizes[i][0], sizes[i][1]);

			double s_alone = time_alone(&s.p, false);

			printf("  %16.1f %9.0f", s_alone / n_ops(&s.p) * 1e9, kbytes(&s.p));
			grown(kinds[k], sizes[i][0], sizes[i][1], s_alone);
			free(s.numbers);
		}
		putchar('\n');
	}
}

/* n jobs over the same links, one step each. */
static void shared(void)
{
	printf("\nseveral pipelines over shared links, 1f1b, p = 16, m = 256: the ends of operations come from a heap\n\n"
	       "%6s %12s %14s\n", "jobs", "operations", "ns/operation");
	for (int jobs = 1; jobs <= 64; jobs *= 4) {
		struct subject s = subject(SCHED_1F1B, 16, 256);
		struct shared_pipeline *v = calloc((size_t)jobs, sizeof(*v));
		struct shared_result *out = calloc((size_t)jobs, sizeof(*out));
		double best = 1e9, ops = n_ops(&s.p) * jobs;
		int up[16], down[16];

		for (int i = 0; i < 16; i++) {
			up[i] = 2 * i;
			down[i] = 2 * i + 1;
		}
		for (int i = 0; v && i < jobs; i++)
			v[i] = (struct shared_pipeline){ .p = s.p, .fwd_link = up, .rev_link = down };
		for (int t = 0; t < TRIES; t++) {
			struct bace_err e = { 0 };
			double begin = cpu_s(), took;

			if (!v || !out || pipelines_simulate_shared(jobs, v, 32, 0, 1, out, &e))
				die(&e);
			took = cpu_s() - begin;
			best = took < best ? took : best;
		}
		/* Those that end first go on until all have: at least these operations. */
		printf("%6d %12.0f %14.1f\n", jobs, ops, best / ops * 1e9);
		free(v);
		free(out);
		free(s.numbers);
	}
}

int main(void)
{
	by_schedule();
	growth();
	shared();
	return 0;
}
