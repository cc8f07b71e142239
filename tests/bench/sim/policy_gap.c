/*
 * What bace's greedy search loses against the exact one (`optimal`), under the
 * same key, on random moments of random clusters.
 *
 *   policy_gap [--instances N] [--regions N] [--flops F] [--bandwidth X] [--seed S]
 *
 * One job, a cluster of 2 to N (8) regions, bandwidths times X. Rows are `prefer`
 * x `grow`: the share of instances in which both agree on the key, and the
 * distribution of bace/optimal over all instances in which optimal places.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/sim/policy_bench.h"

struct gap {
	double gpus, step, cost;	/* bace / optimal */
	bool missed;			/* bace places nothing */
	bool equal;
};

struct outcome {
	int k;
	double step_s, usd;
};

/* T and cost per step of a placement by the closed form on residual bandwidth. */
static struct outcome evaluate(const struct bench *b, const struct placement *pl)
{
	const struct cluster *c = &b->e.cluster;
	const struct job_model *j = &b->models.v[pl->job];
	struct stage_cost stages[512];
	struct hop_cost fwd[512], rev[512];
	double bits = 8 * j->boundary_bytes, w = 0;
	int s = 0, n = c->n_regions;

	for (int i = 0; i < pl->n_parts; i++) {
		int r = pl->parts[i].region;
		const struct gpu_type *g = &c->gpus[c->regions[r].gpu];

		for (int x = 0; x < pl->parts[i].gpus; x++, s++) {
			double own = bits / goodput_bps(c->regions[r].bandwidth_bps, c->mtu);

			stages[s] = stage_cost(&b->e, j, pl->n_gpus, s, g);
			fwd[s] = rev[s] = (struct hop_cost){ own, 0 };
			if (x + 1 < pl->parts[i].gpus || i + 1 == pl->n_parts)
				continue;
			int q = pl->parts[i + 1].region, there = r * n + q, back = q * n + r;

			fwd[s] = (struct hop_cost){
				bits / (goodput_bps(b->capacity_bps[there], c->mtu) - b->reserved_bps[there]),
				(double)c->links[there].latency_ns * 1e-9 };
			rev[s] = (struct hop_cost){
				bits / (goodput_bps(b->capacity_bps[back], c->mtu) - b->reserved_bps[back]),
				(double)c->links[back].latency_ns * 1e-9 };
		}
	}
	double t = step_time_closed_form(pl->n_gpus, j->m, stages, fwd, rev);

	for (int i = 0; i < pl->n_parts; i++) {
		int r = pl->parts[i].region;
		const struct gpu_type *g = &c->gpus[c->regions[r].gpu];

		w += pl->parts[i].gpus * b->price[r] * c->regions[r].pue *
		     (g->idle_ctx_w * t + (g->active_w - g->idle_ctx_w) * j->m * (j->fwd_s + j->bwd_s) / pl->n_gpus);
	}
	return (struct outcome){ pl->n_gpus, t, w / 3.6e6 };
}

static int decide(const struct bench *b, const struct policy_spec *spec, struct outcome *out)
{
	struct placement pl = { 0 };
	struct policy *p;
	struct bace_err err;
	int rc = policy_create(spec, 1, &p, &err);

	if (!rc)
		rc = policy_decide(p, &b->v, &b->q, &pl, &err);
	if (rc < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	if (rc)
		*out = evaluate(b, &pl);
	placement_free(&pl);
	policy_destroy(p);
	return rc;
}

static bool compare(const struct bench *b, enum prefer_kind prefer, enum grow_kind grow, struct gap *out)
{
	struct policy_spec best = bench_spec("optimal"), greedy = bench_spec("bace");
	struct outcome o, g = { 0 };
	bool gpus, step, cost;

	best.prefer = greedy.prefer = prefer;
	greedy.grow = grow;
	if (!decide(b, &best, &o))
		return false;
	*out = (struct gap){ .missed = !decide(b, &greedy, &g) };
	if (out->missed)
		return true;
	*out = (struct gap){ .gpus = (double)g.k / o.k, .step = g.step_s / o.step_s, .cost = g.usd / o.usd };
	gpus = g.k == o.k;
	step = fabs(out->step - 1) < 1e-12;
	cost = fabs(out->cost - 1) < 1e-12;
	out->equal = prefer == PREFER_GPUS ? gpus && cost : prefer == PREFER_JCT ? step : cost;
	return true;
}

static void print_quantiles(const char *what, double *v, int n)
{
	static const double q[] = { 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99 };

	qsort(v, (size_t)n, sizeof(*v), bace_by_double);
	printf("  %-16s", what);
	for (size_t i = 0; i < ARRAY_LEN(q); i++)
		printf(" %8.4f", v[(int)(q[i] * (n - 1) + 0.5)]);
	printf(" %8.4f\n", v[n - 1]);
}

static void report(const char *title, const struct gap *g, int n)
{
	double *gpus = calloc((size_t)n, sizeof(double)), *step = calloc((size_t)n, sizeof(double)),
	       *cost = calloc((size_t)n, sizeof(double));
	int placed = 0, equal = 0;

	if (!gpus || !step || !cost)
		abort();
	for (int i = 0; i < n; i++) {
		equal += g[i].equal;
		if (g[i].missed)
			continue;
		gpus[placed] = g[i].gpus;
		step[placed] = g[i].step;
		cost[placed++] = g[i].cost;
	}
	printf("%s: n = %d, same key %.1f %%, bace places nothing %.1f %%\n", title, n, 100.0 * equal / n,
	       100.0 * (n - placed) / n);
	if (placed) {
		printf("  %-16s %8s %8s %8s %8s %8s %8s %8s %8s\n", "bace / optimal", "1 %", "5 %", "25 %", "50 %",
		       "75 %", "95 %", "99 %", "max");
		print_quantiles("GPUs", gpus, placed);
		print_quantiles("T", step, placed);
		print_quantiles("cost per step", cost, placed);
	}
	free(gpus);
	free(step);
	free(cost);
}

int main(int argc, char **argv)
{
	static const char *const titles[3][2] = {
		{ "prefer = gpus, grow = path", "prefer = gpus, grow = tree" },
		{ "prefer = jct,  grow = path", "prefer = jct,  grow = tree" },
		{ "prefer = cost, grow = path", "prefer = cost, grow = tree" },
	};
	int instances = 1000, regions = 8;
	double flops = 60e12, bandwidth = 1;
	uint64_t seed = 1;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--instances"))
			instances = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--regions"))
			regions = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--flops"))
			flops = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--bandwidth"))
			bandwidth = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--seed"))
			seed = (uint64_t)atoll(argv[i + 1]);
	}
	struct gap *gaps = calloc((size_t)instances, sizeof(*gaps));

	if (!gaps)
		return 1;
	printf("%g FLOP/s, 25 to 100 Gbit/s x %g, 2 to %d regions\n", flops, bandwidth, regions);
	for (int prefer = 0; prefer < 3; prefer++) {
		for (int grow = 0; grow < 2; grow++) {
			int n = 0;

			for (int i = 0; i < instances; i++) {
				struct bench b;

				bench_build_seeded(&b, 2 + i % (regions - 1), 1, seed * 1000003 + (uint64_t)i,
						   flops, bandwidth);
				bench_moment(&b, seed * 1000003 + (uint64_t)i);
				n += compare(&b, prefer, grow, &gaps[n]);
				bench_free(&b);
			}
			report(titles[prefer][grow], gaps, n);
		}
	}
	free(gaps);
	return 0;
}
