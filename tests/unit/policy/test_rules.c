/* Each rule of design section 5 on a cluster small enough to work out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tests/unit/policy/fixture.h"

#define FAST 1e12	/* own bandwidth that makes hops within a region negligible */

/*
 * Three regions of 4 GPUs; stages are equal fractions: t_F = 12/k, t_B = 24/k,
 * 8A = 1e9 bits, K* = 12.
 * Hop seconds: a-b 1/0.9 = 1.11, a-c 1/0.7 = 1.43, b-c 1/1.2 = 0.83.
 * t_F(8) = 1.5, t_F(12) = 1.
 */
static void triangle(struct fixture *f)
{
	fix_init(f, 3);
	fix_region(f, 0, "a", 4, 0.1, FAST);
	fix_region(f, 1, "b", 4, 0.2, FAST);
	fix_region(f, 2, "c", 4, 0.3, FAST);
	fix_link(f, 0, 1, 0.9e9, 0);
	fix_link(f, 0, 2, 0.7e9, 0);
	fix_link(f, 1, 2, 1.2e9, 0);
	f->e.k_limit = K_LIMIT_N;
	f->e.k_limit_n = 12;
	fix_model(f, "net", 6, 12, 24, 1e9 / 8, 1e9);
	fix_job(f, "j", 0, 4, 10, 0);
	fix_ready(f);
	assert_int_equal(f->models.v[0].k_star, 12);
}

static void test_bace_stall_rules(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace");

	triangle(&f);
	/* At 12 GPUs t_F = 1 and a-b would stall: 8 GPUs it is, the cheapest pair. */
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > b:4");
	/* t_F + t_B = 3 hides every hop; a>b>c has the least T. */
	s.stall_rule = STALL_SLOT;
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > b:4 > c:4");
	s.stall_rule = STALL_NONE;
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > b:4 > c:4");
	/* 0.5 s of latency: 1.11 + 0.5 > 1.5, 0.83 + 0.5 <= 1.5. */
	s.stall_rule = STALL_LATENCY;
	for (int i = 0; i < 9; i++)
		f.e.cluster.links[i].latency_ns = 500000000;
	assert_string_equal(fix_decide(&f, &s), "j: b:4 > c:4");
	s.stall_rule = STALL_FORWARD;
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > b:4");
	fix_free(&f);
}

/* Both directions must carry it, and what others reserve is not there. */
static void test_bace_residual(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace");

	triangle(&f);
	f.reserved_bps[1 * 3 + 0] = 0.3e9;	/* b -> a: 0.6e9 left, 1.67 s */
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > c:4");	/* 1.43 s still hides */
	f.reserved_bps[0 * 3 + 2] = 0.7e9;
	assert_string_equal(fix_decide(&f, &s), "j: b:4 > c:4");
	f.reserved_bps[2 * 3 + 1] = 1.2e9;
	assert_string_equal(fix_decide(&f, &s), "j: a:4");
	/* no rule makes a used-up link usable */
	s.stall_rule = STALL_NONE;
	f.reserved_bps[1 * 3 + 0] = 0.9e9;
	assert_string_equal(fix_decide(&f, &s), "j: a:4");
	fix_free(&f);
}

static void test_bace_ablations(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace");

	triangle(&f);
	s.pathfinder = false;
	assert_string_equal(fix_decide(&f, &s), "j: a:4");
	s.pathfinder = true;
	s.cost_min = false;	/* widest path among those of 8 GPUs: b-c */
	assert_string_equal(fix_decide(&f, &s), "j: b:4 > c:4");
	fix_free(&f);

	/* 6 layers: k = 6 on a(4, dear) and b(4, cheap) */
	fix_init(&f, 2);
	fix_region(&f, 0, "a", 4, 0.3, FAST);
	fix_region(&f, 1, "b", 4, 0.1, FAST);
	fix_link(&f, 0, 1, 100e9, 0);
	fix_model(&f, "net", 6, 6, 12, 1e9 / 8, 1e9);
	fix_job(&f, "j", 0, 4, 10, 0);
	fix_ready(&f);
	s.cost_min = true;
	assert_string_equal(fix_decide(&f, &s), "j: a:2 > b:4");
	s.cost_min = false;
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > b:2");
	fix_free(&f);
}

/*
 * a: 2 GPUs at 0.1; b: 4 at 0.5; 4 layers of 3 s, m = 2, hop a-b 0.25 s.
 * a alone:  T = 6 + 12 = 18, cost 2 GPUs * 0.1;
 * b alone:  T = 3 + 12 = 15;  a1>b3 or a2>b2: k = 4, T = 15.5.
 * Power: 20 W idle, 80 W more while computing; per step each of k GPUs computes m*12/k = 24/k s.
 */
static void test_bace_prefer(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace");

	fix_init(&f, 2);
	fix_region(&f, 0, "a", 2, 0.1, FAST);
	fix_region(&f, 1, "b", 4, 0.5, FAST);
	fix_link(&f, 0, 1, 4e9, 0);
	fix_model(&f, "net", 4, 4, 8, 1e9 / 8, 1e9);
	fix_job(&f, "j", 0, 2, 10, 0);
	fix_ready(&f);
	/* 4 GPUs: b alone costs 4*0.5, a:2 > b:2 costs 2*0.1 + 2*0.5 */
	assert_string_equal(fix_decide(&f, &s), "j: a:2 > b:2");
	s.prefer = PREFER_JCT;
	assert_string_equal(fix_decide(&f, &s), "j: b:4");
	s.prefer = PREFER_COST;
	assert_string_equal(fix_decide(&f, &s), "j: a:2");
	fix_free(&f);
}

/* K* = 6 on the mean bandwidth, but the hops inside a take 1 s: T(k) =
 * 36, 29, 28, 30, 32, 31 (see test_k_star), so bace takes 3; lcf does not look. */
static void test_bace_argmin(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace");

	fix_init(&f, 2);
	fix_region(&f, 0, "a", 8, 0.1, 1e9);
	fix_region(&f, 1, "b", 0, 0.1, 1e15);
	fix_model(&f, "net", 6, 6, 12, 1e9 / 8, 1e9);
	fix_job(&f, "j", 0, 2, 1, 0);
	fix_ready(&f);
	assert_int_equal(f.models.v[0].k_star, 6);
	assert_string_equal(fix_decide(&f, &s), "j: a:3");
	s = fix_spec("lcf");
	assert_string_equal(fix_decide(&f, &s), "j: a:6");
	fix_free(&f);
}

/* A star: the path can only run leaf - hub - leaf, so a path grown from the hub
 * ends at its first leaf, where a tree goes on. */
static void test_bace_grow_tree(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace");

	fix_init(&f, 4);
	fix_region(&f, 0, "hub", 2, 0.1, FAST);
	fix_region(&f, 1, "x", 2, 0.1, FAST);
	fix_region(&f, 2, "y", 2, 0.1, FAST);
	fix_region(&f, 3, "z", 2, 0.1, FAST);
	fix_link(&f, 0, 1, 5e9, 0);
	fix_link(&f, 0, 2, 4e9, 0);
	fix_link(&f, 0, 3, 3e9, 0);
	/* y-z: wide, but both are leaves that x never reaches */
	fix_link(&f, 2, 3, 2e9, 0);
	f.e.k_limit = K_LIMIT_N;
	f.e.k_limit_n = 8;
	fix_model(&f, "net", 4, 12, 24, 1e9 / 8, 1e9);
	fix_job(&f, "j", 0, 4, 10, 0);
	fix_ready(&f);
	/* paths: x-hub-y-z (8 GPUs): seed x finds it; so does a tree from the hub */
	assert_string_equal(fix_decide(&f, &s), "j: x:2 > hub:2 > y:2 > z:2");
	s.grow = GROW_TREE;
	/* the best order of the four is by least hop seconds: 1/5+1/4+1/2 against x-hub-z-y: 1/5+1/3+1/2 */
	assert_string_equal(fix_decide(&f, &s), "j: x:2 > hub:2 > y:2 > z:2");
	/* without x's GPUs: path from y takes hub (4e9), then z (3e9): y-hub-z;
	 * the tree from any seed holds {hub,y,z}; least sum: y-hub-z 1/4+1/3 */
	f.free_gpus[1] = 0;
	assert_string_equal(fix_decide(&f, &s), "j: y:2 > hub:2 > z:2");
	/* cut hub-z: a path seeded at y goes to the hub and ends; z-y-hub is found from z */
	f.capacity_bps[0 * 4 + 3] = 0;
	assert_string_equal(fix_decide(&f, &s), "j: hub:2 > y:2 > z:2");
	s.grow = GROW_PATH;
	assert_string_equal(fix_decide(&f, &s), "j: hub:2 > y:2 > z:2");
	fix_free(&f);
}

static void test_start_k_star(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace");

	triangle(&f);
	s.start = START_K_STAR;
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > b:4");
	f.free_gpus[0] = 3;	/* b:4 > c:4 still has the 8 it could ever get */
	assert_string_equal(fix_decide(&f, &s), "j: b:4 > c:4");
	f.free_gpus[1] = 3;
	f.free_gpus[2] = 1;
	assert_string_equal(fix_decide(&f, &s), "-");
	s.start = START_K_MIN;	/* 7 GPUs: t_F = 1.71 hides a-b and b-c */
	assert_string_equal(fix_decide(&f, &s), "j: a:3 > b:3 > c:1");
	/* 10 free GPUs hide a-b (t_F = 1.2) where 12 would not: more than the
	 * empty cluster gives, so the job does not wait */
	f.free_gpus[2] = 4;
	s.start = START_K_STAR;
	assert_string_equal(fix_decide(&f, &s), "j: a:3 > b:3 > c:4");
	fix_free(&f);
}

static void test_lcf(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("lcf");

	fix_init(&f, 3);
	fix_region(&f, 0, "a", 8, 0.3, FAST);
	fix_region(&f, 1, "b", 4, 0.2, FAST);
	fix_region(&f, 2, "c", 2, 0.1, FAST);
	f.e.cluster.regions[1].pue = 2;		/* 0.4: dearest */
	f.e.cluster.gpus[0].memory_bytes = 35e9;	/* 12 layers of 10 GB: k_min = 4 */
	fix_model(&f, "net", 12, 12, 24, 1e9 / 8, 120e9);
	fix_job(&f, "j", 0, 4, 10, 0);
	fix_ready(&f);
	assert_int_equal(f.models.v[0].k_min, 4);
	/* c is cheapest but too small for ever; a has room. 8 GPUs have a largest
	 * stage of 2 layers, and so have 6: ties to fewer. */
	assert_string_equal(fix_decide(&f, &s), "j: a:6");
	f.free_gpus[0] = 3;
	assert_string_equal(fix_decide(&f, &s), "j: b:4");
	s.start = START_K_STAR;	/* rigid: a was chosen on its total, and is waited for */
	assert_string_equal(fix_decide(&f, &s), "-");
	f.free_gpus[0] = 6;
	assert_string_equal(fix_decide(&f, &s), "j: a:6");
	f.price[1] = 0.01;	/* now b is the one */
	assert_string_equal(fix_decide(&f, &s), "j: b:4");
	fix_free(&f);
}

static void test_ldf(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("ldf");

	fix_init(&f, 3);
	fix_region(&f, 0, "c", 4, 0.1, FAST);
	fix_region(&f, 1, "b", 4, 0.2, FAST);
	fix_region(&f, 2, "a", 3, 0.1, FAST);
	fix_model(&f, "net", 12, 12, 24, 1e9 / 8, 1e9);
	fix_job(&f, "j", 0, 4, 10, 0);
	fix_ready(&f);
	assert_string_equal(fix_decide(&f, &s), "j: b:4");	/* tie by name */
	f.free_gpus[0] = 2;
	f.free_gpus[1] = 2;
	assert_string_equal(fix_decide(&f, &s), "j: a:3");
	s.start = START_K_STAR;		/* b has the most in total */
	assert_string_equal(fix_decide(&f, &s), "-");
	f.free_gpus[1] = 4;
	assert_string_equal(fix_decide(&f, &s), "j: b:4");
	fix_free(&f);
}

static void test_cross_region_baselines(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("cr-lcf");

	triangle(&f);
	f.price[0] = 0.3;
	f.price[2] = 0.1;
	f.free_gpus[0] = 3;
	assert_string_equal(fix_decide(&f, &s), "j: c:4 > b:4 > a:3");
	/* links do not matter, but a path must exist */
	f.e.cluster.links[2 * 3 + 1].present = false;
	assert_string_equal(fix_decide(&f, &s), "j: c:4 > a:3");
	f.e.cluster.links[2 * 3 + 1].present = true;

	s = fix_spec("cr-ldf");
	f.free_gpus[2] = 3;
	f.free_gpus[1] = 3;
	f.free_gpus[0] = 4;
	/* starts in a (4); a-b is wider than a-c */
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > b:3 > c:3");
	f.reserved_bps[0 * 3 + 1] = 2e9;	/* over-reserved: -1.1e9 */
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > c:3 > b:3");
	s.start = START_K_STAR;	/* the empty cluster gives 12 */
	assert_string_equal(fix_decide(&f, &s), "-");
	fix_free(&f);
}

static void test_atlas_dc(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("atlas-dc");

	fix_init(&f, 3);
	fix_region(&f, 0, "a", 2, 0.1, FAST);
	fix_region(&f, 1, "b", 6, 0.2, FAST);
	fix_region(&f, 2, "c", 4, 0.3, FAST);
	fix_link(&f, 0, 1, 1, 0);
	fix_link(&f, 0, 2, 1e9, 0);
	fix_link(&f, 1, 2, 1, 0);
	fix_model(&f, "net", 12, 12, 24, 1e9 / 8, 1e9);
	fix_job(&f, "j", 0, 4, 10, 0);
	fix_ready(&f);
	assert_string_equal(fix_decide(&f, &s), "j: b:6 > c:4 > a:2");
	f.free_gpus[1] = 3;
	assert_string_equal(fix_decide(&f, &s), "j: c:4 > b:2");	/* 9 GPUs: 6 do as well */
	fix_free(&f);
}

static void test_dtfm(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("dtfm");

	triangle(&f);
	/* all three are needed; bottleneck 1/0.9 by a-b-c, first by name */
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > b:4 > c:4");
	/* latency counts: b-c becomes the worst, b-a-c has 1.43 */
	f.e.cluster.links[1 * 3 + 2].latency_ns = 1000000000;
	assert_string_equal(fix_decide(&f, &s), "j: b:4 > a:4 > c:4");
	/* reservations do not: DT-FM plans for the job alone */
	f.reserved_bps[0 * 3 + 2] = 0.6e9;
	assert_string_equal(fix_decide(&f, &s), "j: b:4 > a:4 > c:4");
	/* with 8 in b one pair is enough, and a-b has 1.11 */
	f.free_gpus[1] = 8;
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > b:8");
	fix_free(&f);
}

static void test_interleaved_needs_the_way_back(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace");

	triangle(&f);
	f.e.schedule = SCHED_INTERLEAVED_1F1B;
	f.e.interleave = 2;
	f.e.jobs[0].micro_batches = 12;
	fix_ready(&f);
	assert_true(f.models.v[0].fits[6] && f.models.v[0].fits[12]);
	assert_false(f.models.v[0].fits[8] || f.models.v[0].fits[1]);
	s.stall_rule = STALL_NONE;
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > b:4 > c:4");
	f.e.cluster.links[0 * 3 + 2].present = false;	/* a-c gone: the ring cannot close */
	assert_string_equal(fix_decide(&f, &s), "j: a:4 > b:2");
	fix_free(&f);
}

/* GPU types: memory by the smallest on the path, times by each stage's own. */
static void test_mixed_gpus(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("ldf");

	fix_init(&f, 2);
	fix_region(&f, 0, "a", 4, 0.1, FAST);
	fix_region(&f, 1, "b", 6, 0.1, FAST);
	fix_link(&f, 0, 1, 100e9, 0);
	f.e.cluster.regions[1].gpu = fix_gpu(&f, "small", 1e12, 15e9);
	/* 12 layers of 10 GB: small GPUs take one layer each, 12 of them */
	fix_model(&f, "net", 12, 12, 24, 1e9 / 8, 120e9);
	fix_job(&f, "j", 0, 4, 10, 0);
	fix_ready(&f);
	assert_int_equal(f.models.v[0].k_min, 2);	/* on the reference: 100 GB */
	assert_string_equal(fix_decide(&f, &s), "j: a:4");
	s = fix_spec("bace");
	assert_string_equal(fix_decide(&f, &s), "j: a:4");
	fix_free(&f);
}

static void test_reachable(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace");
	struct policy *p;
	struct bace_err err;

	triangle(&f);
	assert_int_equal(policy_create(&s, 1, &p, &err), 0);
	f.free_gpus[0] = 0;	/* makes no difference to what could ever be had */
	assert_int_equal(policy_reachable_gpus(p, &f.v, 0, &err), 8);
	policy_destroy(p);
	s.pathfinder = false;
	assert_int_equal(policy_create(&s, 1, &p, &err), 0);
	assert_int_equal(policy_reachable_gpus(p, &f.v, 0, &err), 4);
	policy_destroy(p);
	fix_free(&f);
}

static void test_reservation(void **state)
{
	struct fixture f;
	struct policy_spec s = fix_spec("bace");
	struct policy *p;
	struct bace_err err;
	struct placement_part parts[] = { { 0, 4 }, { 1, 4 } };
	struct placement pl = { .job = 0, .n_parts = 2, .n_gpus = 8, .parts = parts };

	triangle(&f);
	assert_int_equal(policy_create(&s, 1, &p, &err), 0);
	/* 8A / (t_F + t_B) = 1e9 / (36/8) */
	assert_true(fabs(policy_reservation_bps(p, &f.v, &pl) - 1e9 / 4.5) < 1);
	pl.n_parts = 1;
	pl.n_gpus = 4;
	assert_true(policy_reservation_bps(p, &f.v, &pl) == 0);
	policy_destroy(p);
	fix_free(&f);
}

static void test_unknown_policy(void **state)
{
	struct policy_spec s = fix_spec("bacee");
	struct policy *p;
	struct bace_err err;

	assert_int_equal(policy_create(&s, 1, &p, &err), -22);
	assert_non_null(strstr(err.msg, "did you mean `bace'"));
	assert_null(p);
}

static void broken(struct fixture *f, struct placement *pl, const char *why)
{
	struct bace_err err = { 0 };

	assert_int_equal(placement_check(&f->v, &f->q, pl, &err), -22);
	if (!strstr(err.msg, why))
		fail_msg("`%s' does not say `%s'", err.msg, why);
}

static void test_constraints(void **state)
{
	struct fixture f;
	struct placement_part parts[3] = { { 0, 4 }, { 1, 4 } };
	struct placement pl = { .job = 0, .n_parts = 2, .n_gpus = 8, .parts = parts };
	struct bace_err err;

	triangle(&f);
	assert_int_equal(placement_check(&f.v, &f.q, &pl, &err), 0);
	parts[1].region = 0;
	broken(&f, &pl, "region a appears twice");
	parts[1] = (struct placement_part){ 1, 5 };
	broken(&f, &pl, "5 GPUs in b: only 4 are free");
	parts[1].gpus = 0;
	broken(&f, &pl, "0 GPUs in b: at least 1");
	parts[1] = (struct placement_part){ 7, 4 };
	broken(&f, &pl, "no region 7");
	parts[1] = (struct placement_part){ 1, 4 };
	pl.n_gpus = 9;
	broken(&f, &pl, "add up to 8 GPUs, not 9");
	pl.n_gpus = 8;
	f.e.cluster.links[3].present = false;	/* b -> a */
	broken(&f, &pl, "no link both ways between a and b");
	f.e.cluster.links[3].present = true;
	f.e.cluster.gpus[0].memory_bytes = 100e6;	/* 1 GB on 8 */
	broken(&f, &pl, "stage 0 of 8 in a: needs");
	f.e.cluster.gpus[0].memory_bytes = 1e12;
	f.q.n = 0;
	broken(&f, &pl, "not in the queue");
	f.q.n = 1;
	pl.n_parts = 0;
	broken(&f, &pl, "no region");
	pl.job = 3;
	broken(&f, &pl, "no job 3");
	fix_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bace_stall_rules),
		cmocka_unit_test(test_bace_residual),
		cmocka_unit_test(test_bace_ablations),
		cmocka_unit_test(test_bace_prefer),
		cmocka_unit_test(test_bace_argmin),
		cmocka_unit_test(test_bace_grow_tree),
		cmocka_unit_test(test_start_k_star),
		cmocka_unit_test(test_lcf),
		cmocka_unit_test(test_ldf),
		cmocka_unit_test(test_cross_region_baselines),
		cmocka_unit_test(test_atlas_dc),
		cmocka_unit_test(test_dtfm),
		cmocka_unit_test(test_interleaved_needs_the_way_back),
		cmocka_unit_test(test_mixed_gpus),
		cmocka_unit_test(test_reachable),
		cmocka_unit_test(test_reservation),
		cmocka_unit_test(test_unknown_policy),
		cmocka_unit_test(test_constraints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
