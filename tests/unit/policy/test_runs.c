/*
 * Whole runs on random clusters, every policy: each job that the policy can
 * ever place finishes, no run costs less than the bound, two runs agree to the
 * bit, and so does the same cluster listed in another order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "harness/sim/sim.h"
#include "tests/unit/policy/instance.h"

struct total {
	double cost_usd, mean_jct_s;
	int finished;
};

static int reachable(struct fixture *f, const struct policy_spec *spec)
{
	struct bace_err err;
	struct policy *p;
	int n = 0;

	assert_int_equal(policy_create(spec, 1, &p, &err), 0);
	for (int j = 0; j < f->e.n_jobs; j++) {
		int k = policy_reachable_gpus(p, &f->v, j, &err);

		if (k < 0)
			fail_msg("%s: %s", spec->name, err.msg);
		n += k > 0;
	}
	policy_destroy(p);
	return n;
}

static struct total run(struct fixture *f, const struct policy_spec *spec)
{
	struct cluster_sim sim = { .exp = &f->e, .models = &f->models, .separable = true, .seed = 3 };
	struct cluster_result res;
	struct bace_err err;
	struct total out;
	int rc = policy_create(spec, 5, &sim.policy, &err);

	if (!rc)
		rc = oracle_event_sim(f->e.schedule, 1, true, &sim.oracle, &err);
	if (!rc)
		rc = cluster_simulate(&sim, &res, &err);
	if (rc)
		fail_msg("%s: %s", spec->name, err.msg);
	out = (struct total){ res.cost_usd, res.mean_jct_s, res.n_finished };
	cluster_result_free(&res);
	oracle_destroy(sim.oracle);
	policy_destroy(sim.policy);
	return out;
}

static struct policy_spec vary(const char *name, int seed)
{
	struct policy_spec s = fix_spec(name);

	s.start = seed & 1 ? START_K_STAR : START_K_MIN;
	s.has_order = seed % 3 == 0;
	s.order = (enum order_kind)(seed / 3 % 5);
	s.stall_rule = (enum stall_rule)(seed / 2 % 4);
	s.prefer = (enum prefer_kind)(seed % 3);
	s.grow = seed % 7 ? GROW_PATH : GROW_TREE;
	s.cost_min = seed % 5 != 0;
	s.elastic = seed % 4 < 2;
	s.restart_s = 1 + seed % 50;
	/* Where the head blocks, one job that fits nowhere stops all. */
	s.has_backfill = true;
	s.backfill = true;
	return s;
}

static void build(struct fixture *f, int seed, int flags)
{
	instance_build(f, (uint64_t)seed, 2 + seed % 5, flags | INSTANCE_MIXED);
	for (int j = 0; j < f->e.n_jobs; j++) {
		/* by name, so that shuffling changes nothing */
		int i = f->e.jobs[j].name[3] - '0';

		f->e.jobs[j].arrival_s = i * (seed % 3) * 200.0;
	}
	fix_ready(f);
}

static void test_runs(void **state)
{
	const char *const *names, *const *descriptions;
	int n = policy_list(&names, &descriptions), finished = 0;

	for (int seed = 0; seed < 150; seed++) {
		struct fixture f, g;

		build(&f, seed, INSTANCE_IDENTITY);
		build(&g, seed, INSTANCE_SHUFFLED);
		for (int i = 0; i < n; i++) {
			struct policy_spec s = vary(names[i], seed);
			struct total a, b;

			if (!strcmp(names[i], "external"))
				continue;
			a = run(&f, &s);
			b = run(&g, &s);
			if (a.finished != b.finished || a.cost_usd != b.cost_usd ||
			    (a.finished && a.mean_jct_s != b.mean_jct_s))
				fail_msg("seed %d, %s: %d finished, %.17g USD, JCT %.17g s; in another order %d, %.17g, %.17g",
					 seed, names[i], a.finished, a.cost_usd, a.mean_jct_s, b.finished,
					 b.cost_usd, b.mean_jct_s);
			finished += a.finished == f.e.n_jobs;
			if (a.finished < reachable(&f, &s) && strcmp(names[i], "random"))
				fail_msg("seed %d, %s: %d of %d jobs finished", seed, names[i], a.finished,
					 reachable(&f, &s));
			if (a.finished == f.e.n_jobs &&
			    a.cost_usd < policy_cost_bound_usd(&f.e, &f.models) * (1 - 1e-9))
				fail_msg("seed %d, %s: %.17g USD, below the bound %.17g", seed, names[i], a.cost_usd,
					 policy_cost_bound_usd(&f.e, &f.models));
		}
		fix_free(&f);
		fix_free(&g);
	}
	assert_true(finished > 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_runs) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
