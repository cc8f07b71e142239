/*
 * Decision latency of every policy: the time of one policy_decide, over random
 * moments of a cluster of A6000s with models of 14B to 101B parameters.
 *
 *   policy_latency [--regions N] [--queue N] [--moments N] [--start k_min|k_star]
 *
 * "blocked": no GPU is free that would do, the answer is "nothing" after every
 * job has been looked at; "free": something is placed.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/sim/policy_bench.h"
#include "tests/bench/table.h"

struct sample {
	double us;
	bool placed;
};

static struct figure bace_decides;

static int by_us(const void *a, const void *b)
{
	double x = ((const struct sample *)a)->us, y = ((const struct sample *)b)->us;

	return (x > y) - (x < y);
}

static void print_row(const char *name, const char *what, struct sample *v, int n)
{
	if (!n)
		return;
	qsort(v, (size_t)n, sizeof(*v), by_us);
	printf("%-10s %-8s %7d %10.2f %10.2f %10.2f\n", name, what, n, v[n / 2].us, v[(int)(0.95 * n)].us,
	       v[n - 1].us);
	if (!strcmp(name, "bace") && !strcmp(what, "all"))
		bace_decides = (struct figure){ v[n / 2].us, v[0].us, v[n - 1].us, n };
}

static int measure(struct bench *b, const char *name, enum start_kind start, int moments)
{
	struct policy_spec spec = bench_spec(name);
	struct sample *all = calloc((size_t)moments, sizeof(*all)), *placed = calloc((size_t)moments, sizeof(*all));
	struct policy *p;
	struct bace_err err;
	int n = 0, n_placed = 0, n_blocked = 0;

	spec.start = start;
	if (!all || !placed || policy_create(&spec, 1, &p, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	for (int i = 0; i < moments; i++) {
		struct placement pl = { 0 };
		int64_t t;
		int rc;

		bench_moment(b, (uint64_t)i);
		t = bace_mono_ns();
		rc = policy_decide(p, &b->v, &b->q, &pl, &err);
		t = bace_mono_ns() - t;
		if (rc < 0) {
			printf("%-10s %s\n", name, err.msg);
			break;
		}
		placement_free(&pl);
		if (!i)
			continue;	/* the first binds the tables */
		all[n++].us = (double)t * 1e-3;
		if (rc)
			placed[n_placed++].us = (double)t * 1e-3;
	}
	print_row(name, "all", all, n);
	print_row(name, "free", placed, n_placed);
	for (int i = 0; i < moments && n; i++) {
		struct placement pl = { 0 };
		int64_t t;

		bench_moment(b, (uint64_t)i);
		bench_crowd(b);
		t = bace_mono_ns();
		if (policy_decide(p, &b->v, &b->q, &pl, &err) == 0)
			all[n_blocked++].us = (double)(bace_mono_ns() - t) * 1e-3;
		placement_free(&pl);
	}
	print_row(name, "blocked", all, n_blocked);
	policy_destroy(p);
	free(all);
	free(placed);
	return 0;
}

int main(int argc, char **argv)
{
	int regions = 6, queue = 100, moments = 2000, rc = 0;
	enum start_kind start = START_K_MIN;
	const char *const *names, *const *descriptions;
	static struct bench b;
	char what[64];

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--regions"))
			regions = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--queue"))
			queue = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--moments"))
			moments = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--start"))
			start = strcmp(argv[i + 1], "k_star") ? START_K_MIN : START_K_STAR;
	}
	bace_log_setup(&(struct bace_log_config){ .level = BACE_ERROR, .program = "policy_latency", .fd = 2 });
	bench_build(&b, regions, queue);
	printf("%d regions, %d jobs queued, start = %s; microseconds a decision\n", regions, queue, start_name(start));
	printf("%-10s %-8s %7s %10s %10s %10s\n", "policy", "moment", "n", "median", "p95", "max");
	int n = policy_list(&names, &descriptions);
	for (int i = 0; i < n; i++)
		if (strcmp(names[i], "external"))
			rc |= measure(&b, names[i], start, strcmp(names[i], "optimal") ? moments : moments / 20 + 2);
	bench_free(&b);
	table_head("a decision of bace");
	snprintf(what, sizeof(what), "%d regions, %d jobs queued", regions, queue);
	table_row(what, "us", bace_decides, (struct figure){ 0 },
		  regions == 6 && queue == 100 ? (struct asked){ ASKED_MOST, 50 } : (struct asked){ 0 });
	return rc;
}
