#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/policy/fixture.h"
#include "workloads/schedule/schedule.h"

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * fabs(want)))
		fail_msg("got %.17g, want %.17g", got, want);
}

/* One region, one job of a FLOP-modelled network. */
static void flop_fixture(struct fixture *f, bool recompute)
{
	fix_init(f, 1);
	fix_region(f, 0, "a", 100, 0.1, 1e9);
	struct model *m = &f->e.models[fix_model(f, "net", 10, 0, 0, 0, 16)];
	m->params = 1e9;
	m->hidden = 1000;
	m->seq = 2000;
	m->recompute = recompute;
	fix_job(f, "j", 0, 8, 5, 0);
}

static void test_flops(void **state)
{
	struct fixture f;

	/* 2*1e9*2000 + 4*10*1000*2000^2 = 4e12 + 0.16e12 FLOPs at 1e12 FLOP/s */
	flop_fixture(&f, false);
	fix_ready(&f);
	const struct job_model *j = &f.models.v[0];
	near(j->fwd_s, 4.16);
	near(j->bwd_s, 8.32);
	near(j->boundary_bytes, 2000 * 1000 * 2);
	near(j->computation_gpu_s, 8 * 5 * 12.48);
	fix_free(&f);

	flop_fixture(&f, true);
	fix_ready(&f);
	near(f.models.v[0].bwd_s, 12.48);
	fix_free(&f);
}

static void test_stage_split(void **state)
{
	struct fixture f;
	double sum = 0;

	flop_fixture(&f, false);
	fix_ready(&f);
	const struct job_model *j = &f.models.v[0];

	/* 10 layers on 4 stages: 3 3 2 2 */
	static const int layers[] = { 3, 3, 2, 2 };
	for (int i = 0; i < 4; i++) {
		struct stage_cost c = stage_cost(&f.e, j, 4, i, &f.e.cluster.gpus[0]);

		near(c.fwd_s, 4.16 * layers[i] / 10);
		near(c.bwd_s, 8.32 * layers[i] / 10);
		sum += c.fwd_s;
	}
	near(sum, 4.16);
	/* a GPU half as fast takes twice as long */
	int slow = fix_gpu(&f, "slow", 0.5e12, 1e9);
	near(stage_cost(&f.e, j, 4, 0, &f.e.cluster.gpus[slow]).fwd_s, 2 * 4.16 * 0.3);
	fix_free(&f);

	/* k_limit above the layers: equal fractions */
	flop_fixture(&f, false);
	f.e.k_limit = K_LIMIT_N;
	f.e.k_limit_n = 40;
	fix_ready(&f);
	assert_int_equal(f.models.v[0].k_limit, 40);
	near(stage_cost(&f.e, &f.models.v[0], 16, 15, &f.e.cluster.gpus[0]).fwd_s, 4.16 / 16);
	fix_free(&f);
}

/* 10 layers; state 1.6e9 a layer; a = A = 4e6 (recompute). */
static void test_memory(void **state)
{
	struct fixture f;

	flop_fixture(&f, true);
	fix_ready(&f);
	const struct job_model *j = &f.models.v[0];
	/* stage 1 of 4, m = 8: 3 layers, min(8, 3) = 3 live */
	near(stage_memory_bytes(&f.e, j, 4, 1), 3 * (1.6e9 + 3 * 4e6));
	f.e.schedule = SCHED_EAGER_1F1B;	/* min(8, 2*2+1) = 5 */
	near(stage_memory_bytes(&f.e, j, 4, 1), 3 * (1.6e9 + 5 * 4e6));
	f.e.schedule = SCHED_GPIPE;
	near(stage_memory_bytes(&f.e, j, 4, 1), 3 * (1.6e9 + 8 * 4e6));
	f.e.schedule = SCHED_ZB_H1;
	near(stage_memory_bytes(&f.e, j, 4, 3), 2 * (1.6e9 + 1 * 4e6));
	f.e.models[0].recompute = false;	/* a = 34 s beta h = 68e6 */
	near(stage_memory_bytes(&f.e, j, 4, 3), 2 * (1.6e9 + 68e6));
	fix_free(&f);
}

/* What the simulator will hold is what the memory model charges for. */
static void test_live_agrees_with_schedule(void **state)
{
	static const enum schedule_kind kinds[] = { SCHED_GPIPE, SCHED_1F1B, SCHED_EAGER_1F1B, SCHED_ZB_H1,
						    SCHED_INTERLEAVED_1F1B };
	struct fixture f;

	flop_fixture(&f, true);
	fix_ready(&f);
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		f.e.schedule = kinds[k];
		f.e.interleave = kinds[k] == SCHED_INTERLEAVED_1F1B ? 2 : 1;
		for (int p = 2; p <= 8; p *= 2) {
			for (int i = 0; i < p; i++) {
				struct schedule_spec s = { kinds[k], p, 8, f.e.interleave };
				int layers = 10 / p + (i < 10 % p);
				double live = (stage_memory_bytes(&f.e, &f.models.v[0], p, i) / layers - 1.6e9) / 4e6;

				assert_int_equal((int)lround(live * s.chunks), schedule_live_activations(&s, i));
			}
		}
	}
	fix_free(&f);
}

/* The k that fit need not be an interval: 5 layers of 10 GB, 24 GB GPUs:
 * k = 1 (50), 2 (30) do not fit; 3 (20), 4 (20), 5 (10) do. */
static void test_k_min(void **state)
{
	struct fixture f;

	fix_init(&f, 1);
	fix_region(&f, 0, "a", 8, 0.1, 1e9);
	f.e.cluster.gpus[0].memory_bytes = 24e9;
	fix_model(&f, "net", 5, 1, 2, 1000, 50e9);
	fix_job(&f, "j", 0, 4, 1, 0);
	fix_ready(&f);
	const struct job_model *j = &f.models.v[0];
	assert_int_equal(j->k_min, 3);
	assert_false(j->fits[2]);
	assert_true(j->fits[3] && j->fits[4] && j->fits[5]);
	fix_free(&f);

	/* gpipe without recomputation, 4 layers: activations of 8 micro-batches; nothing fits */
	fix_init(&f, 1);
	fix_region(&f, 0, "a", 8, 0.1, 1e9);
	fix_model(&f, "net", 5, 1, 2, 1000, 600e9);
	fix_job(&f, "j", 0, 4, 1, 0);
	fix_ready(&f);
	assert_int_equal(f.models.v[0].k_min, 0);
	assert_int_equal(f.models.v[0].k_star, 0);
	assert_string_equal(fix_decide(&f, &(struct policy_spec){ .name = "lcf" }), "-");
	fix_free(&f);
}

/* 6 layers of 3 s each, hop 8A/b = 1 s, m = 2: T(k) = ceil(6/k)*3 + 18 + 2(k-1):
 * 36, 29, 28, 30, 32, 31 -> K* = 3. */
static void test_k_star(void **state)
{
	struct fixture f;

	fix_init(&f, 2);
	fix_region(&f, 0, "a", 8, 0.1, 1.5e9);
	fix_region(&f, 1, "b", 8, 0.1, 0.5e9);	/* mean 1e9 */
	fix_model(&f, "net", 6, 6, 12, 1e9 / 8, 1e9);
	fix_job(&f, "j", 0, 2, 1, 0);
	fix_ready(&f);
	const struct job_model *j = &f.models.v[0];
	assert_int_equal(j->k_star, 3);
	near(j->step_star_s, 28);
	near(j->bandwidth_need_bps, 1e9 / (6.0 / 3));
	fix_free(&f);
}

static void test_closed_form(void **state)
{
	struct stage_cost s[] = { { 1, 2 }, { 2, 2 }, { 1, 1 } };
	struct hop_cost fwd[] = { { 0.5, 0.1 }, { 0.25, 0.2 } }, rev[] = { { 0.5, 0.3 }, { 5, 0.4 } };

	/* tau = 5; 3*5 + (3+4+2) + (0.6+0.45+0.8+5.4) */
	near(step_time_closed_form(3, 4, s, fwd, rev), 15 + 9 + 7.25);
	near(step_time_closed_form(1, 4, s, NULL, NULL), 12);
}

static void test_placement_helpers(void **state)
{
	struct fixture f;
	struct placement_part parts[] = { { 1, 2 }, { 0, 1 } };
	struct placement p = { .job = 0, .n_parts = 2, .n_gpus = 3, .parts = parts }, copy;

	flop_fixture(&f, false);
	fix_free(&f);
	fix_init(&f, 2);
	fix_region(&f, 0, "a", 8, 0.1, 1e9);
	fix_region(&f, 1, "b", 8, 0.1, 1e9);
	fix_model(&f, "net", 6, 6, 12, 1e9 / 8, 1e9);
	fix_job(&f, "j", 0, 2, 1, 0);
	fix_ready(&f);
	assert_int_equal(placement_region_of_stage(&p, 1), 1);
	assert_int_equal(placement_region_of_stage(&p, 2), 0);
	assert_int_equal(placement_region_of_stage(&p, 3), -1);
	assert_int_equal(placement_copy(&p, &copy), 0);
	char *text = placement_format(&f.e.cluster, &copy);
	assert_string_equal(text, "b:2 > a:1");
	free(text);
	placement_free(&copy);
	near(placement_demand_bps(&f.e, &f.models, &p), 1e9 / (18.0 / 3));
	/* one of the three on a GPU half as fast: mean stage 18/3 * 4/3 */
	f.e.cluster.regions[0].gpu = fix_gpu(&f, "slow", 0.5e12, 1e9);
	near(placement_demand_bps(&f.e, &f.models, &p), 1e9 / (18.0 / 3 * 4 / 3));
	near(placement_reservation_bps(&f.e, &f.models, &p), 1e9 / (18.0 / 3 * 4 / 3));
	/* v messages of a micro-batch cross each hop */
	f.e.schedule = SCHED_INTERLEAVED_1F1B;
	f.e.interleave = 3;
	near(placement_reservation_bps(&f.e, &f.models, &p), 3 * 1e9 / (18.0 / 3 * 4 / 3));
	fix_free(&f);
}

static void test_reference_gpu(void **state)
{
	struct fixture f;

	flop_fixture(&f, false);
	fix_gpu(&f, "big", 2e12, 500e9);	/* no region has it */
	fix_ready(&f);
	assert_int_equal(f.models.ref_gpu, 0);
	fix_free(&f);
}

static void test_bad_input(void **state)
{
	struct fixture f;
	struct job_models m;
	struct bace_err err;

	flop_fixture(&f, false);
	f.e.jobs[0].micro_batches = 0;
	assert_int_equal(job_models_build(&f.e, &m, &err), -22);
	assert_non_null(strstr(err.msg, "job j: 0 micro-batches"));
	f.e.jobs[0].micro_batches = 1;
	f.e.cluster.regions[0].n_gpus = 0;
	assert_int_equal(job_models_build(&f.e, &m, &err), -22);
	assert_non_null(strstr(err.msg, "no region has a GPU"));
	fix_free(&f);
}

/*
 * One region, one job of 6 layers, total 18 s, m = 2, price 0.36 USD/kWh = 1e-7
 * USD/J, PUE 2, 20 W idle and 80 W more: k T(k) is least for k = 1: 36 s.
 * With 1 GB a layer and 3.5 GB a GPU, k >= 2: 2 * (9 + 18) = 54 GPU s.
 */
static void test_cost_bound(void **state)
{
	struct fixture f;

	fix_init(&f, 2);
	fix_region(&f, 0, "a", 8, 0.36, 1e9);
	fix_region(&f, 1, "b", 8, 0.9, 1e9);
	f.e.cluster.regions[0].pue = 2;
	fix_model(&f, "net", 6, 6, 12, 1e9 / 8, 6e9);
	fix_job(&f, "j", 0, 2, 10, 0);
	fix_ready(&f);
	near(policy_cost_bound_usd(&f.e, &f.models), 10 * 2e-7 * (20 * 36 + 80 * 36));
	f.e.cluster.gpus[0].memory_bytes = 3.5e9;
	fix_ready(&f);
	near(policy_cost_bound_usd(&f.e, &f.models), 10 * 2e-7 * (20 * 54 + 80 * 36));
	f.e.schedule = SCHED_ZB_H1;	/* no bubble: 2 * 2 * 9 */
	fix_ready(&f);
	near(policy_cost_bound_usd(&f.e, &f.models), 10 * 2e-7 * (20 * 36 + 80 * 36));
	f.e.cluster.regions[1].price.usd_per_kwh[0] = -0.01;
	assert_true(policy_cost_bound_usd(&f.e, &f.models) < -1e300);
	fix_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flops),
		cmocka_unit_test(test_stage_split),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_live_agrees_with_schedule),
		cmocka_unit_test(test_k_min),
		cmocka_unit_test(test_k_star),
		cmocka_unit_test(test_closed_form),
		cmocka_unit_test(test_placement_helpers),
		cmocka_unit_test(test_reference_gpu),
		cmocka_unit_test(test_cost_bound),
		cmocka_unit_test(test_bad_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
