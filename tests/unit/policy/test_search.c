/* The exact searches against brute force, bace against the exact search, and
 * independence of the order of the config, on random instances. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "harness/policy/internal.h"
#include "tests/unit/policy/instance.h"

/* ---- brute force over all simple paths ---- */

struct best {
	struct fixture *f;
	const struct policy_spec *spec;
	int path[FIX_REGIONS], n;
	int k;
	double a, b;		/* further keys, smaller is better */
	int best[FIX_REGIONS], best_n;
};

static const struct region *region_of(const struct best *x, int i)
{
	return &x->f->e.cluster.regions[i];
}

static bool first_by_name(const struct best *x)
{
	for (int i = 0; i < x->n; i++) {
		int c = strcmp(region_of(x, x->path[i])->name, region_of(x, x->best[i])->name);

		if (c)
			return c < 0;
	}
	return false;
}

static void offer(struct best *x, int k, double a, double b)
{
	int c = x->k - k;

	if (!c)
		c = (a > x->a) - (a < x->a);
	if (!c)
		c = (b > x->b) - (b < x->b);
	if (!c)
		c = x->n - x->best_n;
	if (c > 0 || (!c && !first_by_name(x)))
		return;
	x->k = k;
	x->a = a;
	x->b = b;
	x->best_n = x->n;
	memcpy(x->best, x->path, sizeof(x->best));
}

static void all_paths(struct best *x, void (*visit)(struct best *))
{
	const struct cluster *c = &x->f->e.cluster;

	if (x->n)
		visit(x);
	for (int r = 0; r < c->n_regions; r++) {
		bool skip = !x->f->free_gpus[r];

		for (int i = 0; i < x->n; i++)
			skip |= x->path[i] == r;
		if (x->n && !skip)
			skip = !cluster_link(c, x->path[x->n - 1], r)->present ||
			       !cluster_link(c, r, x->path[x->n - 1])->present;
		if (skip)
			continue;
		x->path[x->n++] = r;
		all_paths(x, visit);
		x->n--;
	}
}

static double residual(const struct best *x, int a, int b)
{
	int at = a * x->f->e.cluster.n_regions + b;

	return goodput_bps(x->f->capacity_bps[at], x->f->e.cluster.mtu) - x->f->reserved_bps[at];
}

/* dtfm: most GPUs, least bottleneck. */
static void visit_dtfm(struct best *x)
{
	const struct job_model *j = &x->f->models.v[0];
	const struct cluster *c = &x->f->e.cluster;
	double worst = 0, best_t = INFINITY;
	int gpus = 0, k_best = 0;

	for (int i = 0; i < x->n; i++)
		gpus += x->f->free_gpus[x->path[i]];
	for (int i = 0; i + 1 < x->n; i++) {
		for (int way = 0; way < 2; way++) {
			int a = x->path[i + way], b = x->path[i + 1 - way];
			double cap = goodput_bps(x->f->capacity_bps[a * c->n_regions + b], c->mtu);

			worst = fmax(worst, 8 * j->boundary_bytes / cap +
					    (double)cluster_link(c, a, b)->latency_ns * 1e-9);
		}
	}
	for (int k = 1; k <= gpus && k <= j->k_star; k++) {
		/* nominal T without hops: they are negligible in these instances */
		double t = (j->m - 1) * ceil(instance_layers / (double)k);

		if (j->fits[k] && t < best_t) {
			best_t = t;
			k_best = k;
		}
	}
	if (k_best >= x->n)
		offer(x, k_best, worst, 0);
}

/* optimal: every k, stages summed one by one with the library's closed form. */
static double step_and_cost(const struct best *x, const int *gpus, int k, double *usd)
{
	const struct experiment *e = &x->f->e;
	const struct job_model *j = &x->f->models.v[0];
	struct stage_cost stages[256];
	struct hop_cost fwd[256], rev[256];
	double bits = 8 * j->boundary_bytes, t;
	int s = 0;

	for (int i = 0; i < x->n; i++) {
		const struct region *r = region_of(x, x->path[i]);

		for (int g = 0; g < gpus[i]; g++, s++) {
			double b = goodput_bps(r->bandwidth_bps, e->cluster.mtu);

			stages[s] = stage_cost(e, j, k, s, &e->cluster.gpus[r->gpu]);
			fwd[s] = rev[s] = (struct hop_cost){ bits / b, (double)r->intra_latency_ns * 1e-9 };
			if (g + 1 < gpus[i] || i + 1 == x->n)
				continue;
			int p = x->path[i], q = x->path[i + 1];

			fwd[s] = (struct hop_cost){ bits / residual(x, p, q),
				(double)cluster_link(&e->cluster, p, q)->latency_ns * 1e-9 };
			rev[s] = (struct hop_cost){ bits / residual(x, q, p),
				(double)cluster_link(&e->cluster, q, p)->latency_ns * 1e-9 };
		}
	}
	t = step_time_closed_form(k, j->m, stages, fwd, rev);
	*usd = 0;
	for (int i = 0; i < x->n; i++) {
		const struct region *r = region_of(x, x->path[i]);

		*usd += gpus[i] * x->f->price[x->path[i]] * r->pue *
			(20 * t + 80 * j->m * (j->fwd_s + j->bwd_s) / k) / 3.6e6;
	}
	return t;
}

/* One each, the rest to the cheapest. */
static void hand_out(const struct best *x, int k, int *gpus)
{
	bool done[FIX_REGIONS] = { false };
	int rest = k - x->n;

	for (int i = 0; i < x->n; i++)
		gpus[i] = 1;
	for (int round = 0; round < x->n; round++) {
		int cheap = -1;

		for (int i = 0; i < x->n; i++) {
			double u = x->f->price[x->path[i]] * region_of(x, x->path[i])->pue;

			if (done[i])
				continue;
			double best = cheap < 0 ? INFINITY :
				x->f->price[x->path[cheap]] * region_of(x, x->path[cheap])->pue;
			if (u < best || (u == best && strcmp(region_of(x, x->path[i])->name,
							     region_of(x, x->path[cheap])->name) < 0))
				cheap = i;
		}
		done[cheap] = true;
		int g = x->f->free_gpus[x->path[cheap]] - 1;

		if (g > rest)
			g = rest;
		gpus[cheap] += g;
		rest -= g;
	}
}

static bool hides(const struct best *x, int k)
{
	const struct job_model *j = &x->f->models.v[0];

	for (int i = 0; i + 1 < x->n; i++) {
		int a = x->path[i], b = x->path[i + 1];
		double w = fmin(residual(x, a, b), residual(x, b, a));
		double lat = fmax((double)cluster_link(&x->f->e.cluster, a, b)->latency_ns * 1e-9 +
					  8 * j->boundary_bytes / residual(x, a, b),
				  (double)cluster_link(&x->f->e.cluster, b, a)->latency_ns * 1e-9 +
					  8 * j->boundary_bytes / residual(x, b, a));
		double limit = x->spec->stall_rule == STALL_SLOT ? j->fwd_s + j->bwd_s : j->fwd_s;

		if (w <= 0)
			return false;
		if (x->spec->stall_rule == STALL_LATENCY ? lat * k > limit :
		    x->spec->stall_rule != STALL_NONE && 8 * j->boundary_bytes / w * k > limit)
			return false;
	}
	return true;
}

static void visit_optimal(struct best *x)
{
	const struct job_model *j = &x->f->models.v[0];
	int gpus[FIX_REGIONS], free = 0, k_best = 0;
	double t_best = INFINITY, usd_best = 0;

	for (int i = 0; i < x->n; i++)
		free += x->f->free_gpus[x->path[i]];
	for (int k = x->n; k <= free && k <= j->k_star; k++) {
		double usd, t;

		if (!j->fits[k] || !hides(x, k))
			continue;
		hand_out(x, k, gpus);
		t = step_and_cost(x, gpus, k, &usd);
		/* relative 1e-13: sums in another order must not break a tie */
		if (t < t_best * (1 - 1e-13)) {
			t_best = t;
			k_best = k;
			usd_best = usd;
		}
	}
	if (!k_best)
		return;
	double t = t_best, u = usd_best;

	switch (x->spec->prefer) {
	case PREFER_GPUS:
		offer(x, k_best, u, t);
		break;
	case PREFER_JCT:
		offer(x, 0, t, -k_best);
		break;
	case PREFER_COST:
		offer(x, 0, u, -k_best);
		break;
	}
}

/* The key of the placement that a policy chose, in brute force's own terms. */
static bool key_of(struct best *x, const struct placement *pl)
{
	int gpus[FIX_REGIONS];
	double usd, t;

	x->n = pl->n_parts;
	for (int i = 0; i < pl->n_parts; i++) {
		x->path[i] = pl->parts[i].region;
		gpus[i] = pl->parts[i].gpus;
	}
	t = step_and_cost(x, gpus, pl->n_gpus, &usd);
	x->k = pl->n_gpus;
	x->a = x->spec->prefer == PREFER_JCT ? t : usd;
	if (x->spec->prefer != PREFER_GPUS)
		x->k = 0;
	return hides(x, pl->n_gpus);
}

static int choose(struct fixture *f, const struct policy_spec *spec, struct placement *pl)
{
	struct policy *p;
	struct bace_err err;
	int rc;

	assert_int_equal(policy_create(spec, 1, &p, &err), 0);
	rc = policy_decide(p, &f->v, &f->q, pl, &err);
	if (rc < 0)
		fail_msg("%s", err.msg);
	if (rc && placement_check(&f->v, &f->q, pl, &err))
		fail_msg("%s", err.msg);
	policy_destroy(p);
	return rc;
}

static void test_dtfm_is_exact(void **state)
{
	struct policy_spec s = fix_spec("dtfm");

	for (int seed = 0; seed < 300; seed++) {
		struct fixture f;
		struct best x = { .f = &f, .spec = &s, .a = INFINITY, .b = INFINITY };
		struct placement pl = { 0 };

		instance_build(&f, (uint64_t)seed, 2 + seed % 5, INSTANCE_IDENTITY);
		f.q.n = 1;
		all_paths(&x, visit_dtfm);
		int rc = choose(&f, &s, &pl);

		assert_int_equal(rc, x.best_n > 0);
		if (rc) {
			assert_int_equal(pl.n_gpus, x.k);
			assert_int_equal(pl.n_parts, x.best_n);
			for (int i = 0; i < pl.n_parts; i++)
				assert_int_equal(pl.parts[i].region, x.best[i]);
		}
		placement_free(&pl);
		fix_free(&f);
	}
}

static void test_optimal_is_exact(void **state)
{
	int placed = 0, better = 0;

	for (int seed = 0; seed < 600; seed++) {
		struct policy_spec s = fix_spec("optimal");
		struct placement pl = { 0 };
		struct fixture f;

		s.prefer = seed % 3;
		s.stall_rule = seed / 3 % 4;
		instance_build(&f, (uint64_t)seed, 2 + seed % 5, INSTANCE_IDENTITY);
		f.q.n = 1;
		struct best x = { .f = &f, .spec = &s, .k = -1, .a = INFINITY, .b = INFINITY };

		all_paths(&x, visit_optimal);
		int rc = choose(&f, &s, &pl);

		assert_int_equal(rc, x.best_n > 0);
		if (rc) {
			struct best got = { .f = &f, .spec = &s }, greedy = got;
			struct placement g = { 0 };

			placed++;
			assert_true(key_of(&got, &pl));
			assert_int_equal(got.k, x.k);
			if (!(fabs(got.a - x.a) <= 1e-12 * fabs(x.a)))
				fail_msg("seed %d: key %.17g, brute force %.17g", seed, got.a, x.a);
			/* and bace is never better */
			snprintf(s.name, sizeof(s.name), "bace");
			if (choose(&f, &s, &g)) {
				assert_true(key_of(&greedy, &g));
				assert_true(greedy.k <= got.k);
				if (greedy.k == got.k)
					assert_true(greedy.a >= got.a - 1e-12 * fabs(got.a));
				better += greedy.k < got.k || greedy.a > got.a + 1e-12 * fabs(got.a);
			}
			placement_free(&g);
		}
		placement_free(&pl);
		fix_free(&f);
	}
	assert_in_range(placed, 300, 600);	/* the instances must not be trivial */
	assert_in_range(better, 1, placed);
}

static void test_optimal_refuses_eleven(void **state)
{
	struct policy_spec s = fix_spec("optimal");
	struct fixture f;

	instance_build(&f, 1, 11, INSTANCE_IDENTITY);
	for (int r = 0; r < 11; r++)
		f.free_gpus[r] = 1;
	assert_string_equal(fix_decide(&f, &s),
			    "error: policy optimal: 11 regions with free GPUs: the exhaustive search stops at 10");
	f.free_gpus[4] = 0;
	assert_memory_equal(fix_decide(&f, &s), "job", 3);
	fix_free(&f);
}

/* Regions, GPU types and jobs listed in another order: the same answer, by name. */
static void test_config_order(void **state)
{
	const char *const *names, *const *descriptions;
	int n_rules = policy_list(&names, &descriptions);

	for (int seed = 0; seed < 200; seed++) {
		int n = 2 + seed % 5;

		/* bace twice more, in other ways. */
		for (int i = 0; i < n_rules + 2; i++) {
			const char *name = i < n_rules ? names[i] : "bace";
			struct policy_spec s = fix_spec(name);
			struct fixture f, g;
			char want[1024];

			if (!strcmp(name, "external"))
				continue;
			s.grow = i == n_rules ? GROW_TREE : GROW_PATH;
			s.cost_min = i != n_rules + 1;
			s.stall_rule = seed % 4;
			s.prefer = seed % 3;
			s.has_order = seed & 1;
			s.order = ORDER_BACE;
			s.start = seed / 2 % 2;
			instance_build(&f, (uint64_t)seed, n, INSTANCE_IDENTITY | INSTANCE_MIXED);
			instance_build(&g, (uint64_t)seed, n, INSTANCE_SHUFFLED | INSTANCE_MIXED);
			snprintf(want, sizeof(want), "%s", fix_decide(&f, &s));
			if (!strncmp(want, "error", 5) || !strncmp(want, "broken", 6))
				fail_msg("seed %d, %s: %s", seed, name, want);
			if (strcmp(fix_decide(&g, &s), want))
				fail_msg("seed %d, %s: %s, in another order %s", seed, name, want,
					 fix_decide(&g, &s));
			fix_free(&f);
			fix_free(&g);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dtfm_is_exact),
		cmocka_unit_test(test_optimal_is_exact),
		cmocka_unit_test(test_optimal_refuses_eleven),
		cmocka_unit_test(test_config_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
