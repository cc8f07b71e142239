#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "harness/oracle/shares.h"
#include "harness/sim/sim.h"
#include "tests/unit/policy/fixture.h"

#define MB 1e6
#define MBIT 1e6

static void assert_close(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * fmax(1, fabs(want))))
		fail_msg("got %.15g, want %.15g", got, want);
}

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

static void add(struct bench *b, int job, int n, const struct placement_part *parts)
{
	int i = b->m.n++;

	memcpy(b->parts[i], parts, (size_t)n * sizeof(*parts));
	b->p[i] = (struct placement){ .job = job, .n_parts = n, .parts = b->parts[i] };
	for (int k = 0; k < n; k++)
		b->p[i].n_gpus += parts[k].gpus;
	b->list[i] = &b->p[i];
}

static void pair(struct bench *b, int job, int from, int to)
{
	add(b, job, 2, (struct placement_part[]){ { from, 1 }, { to, 1 } });
}

static void begin(struct bench *b)
{
	*b = (struct bench){ 0 };
	fix_init(&b->f, 4);
	for (int r = 0; r < 4; r++)
		fix_region(&b->f, r, (const char *[]){ "a", "b", "c", "d" }[r], 8, 0.1, 1000 * MBIT);
	for (int x = 0; x < 4; x++)
		for (int y = 0; y < x; y++)
			fix_link(&b->f, x, y, 100 * MBIT, 0.25);
	fix_model(&b->f, "M", 12, 1, 2, 1 * MB, 1e9);
	for (int j = 0; j < 12; j++) {
		char name[8];

		snprintf(name, sizeof(name), "j%c", 'a' + j);
		fix_job(&b->f, name, 0, 4, 10, 0);
	}
	fix_ready(&b->f);
	for (int i = 0; i < 16; i++)
		b->f.capacity_bps[i] = i / 4 == i % 4 ? 0 : l2_rate_bps(100 * MBIT, 1500);
	b->f.capacity_bps[4] = l2_rate_bps(50 * MBIT, 1500);
	b->m = (struct moment){ .exp = &b->f.e, .models = &b->f.models, .placements = b->list,
				.capacity_bps = b->f.capacity_bps };
}

static void end(struct bench *b)
{
	fix_free(&b->f);
}

/* ---- max-min ---- */

static void max_min_by_hand(void **state)
{
	const double d[] = { 1, 4, 10 };

	assert_true(isinf(max_min_level(15, d, 3)));
	assert_close(max_min_level(14, d, 3), 9);	/* 1 + 4 + 9 */
	assert_close(max_min_level(9, d, 3), 4);	/* 1 + 4 + 4 */
	assert_close(max_min_level(6, d, 3), 2.5);	/* 1 + 2.5 + 2.5 */
	assert_close(max_min_level(1.5, d, 3), 0.5);
	assert_close(max_min_level(0, d, 3), 0);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Progressive filling over sorted demands. */
static double filling_level(double capacity, const double *demand, size_t n)
{
	double sorted[32], left = capacity;

	memcpy(sorted, demand, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_value);
	for (size_t i = 0; i < n; i++) {
		double share = left / (double)(n - i);

		if (sorted[i] > share)
			return share;
		left -= sorted[i];
	}
	return INFINITY;
}

static void max_min_random(void **state)
{
	struct bace_rng rng;

	bace_rng_init(&rng, 21, 0);
	for (int i = 0; i < 5000; i++) {
		double d[32], sum = 0, capacity;
		size_t n = 1 + bace_rng_below(&rng, 32);

		for (size_t k = 0; k < n; k++)
			sum += d[k] = bace_rng_below(&rng, 5) ? bace_rng_uniform(&rng) : 0.5;
		capacity = sum * (0.05 + bace_rng_uniform(&rng));
		double got = max_min_level(capacity, d, n), want = filling_level(capacity, d, n);

		if (isinf(want))
			assert_true(isinf(got));
		else
			assert_close(got, want);
	}
}

/* ---- what a job gets of a link ---- */

static void link_shares(void **state)
{
	const double demand = 8 * MBIT / 1.5;
	struct bench b;

	begin(&b);
	/* alone: all of it, in each direction */
	pair(&b, 0, 0, 1);
	assert_close(moment_link_goodput_bps(&b.m, 0, 0, 1), 100 * MBIT);
	assert_close(moment_link_goodput_bps(&b.m, 0, 1, 0), 50 * MBIT);
	/* another, the other way round, takes its demand in both directions */
	pair(&b, 1, 1, 0);
	assert_close(moment_link_goodput_bps(&b.m, 0, 0, 1), 100 * MBIT - demand);
	assert_close(moment_link_goodput_bps(&b.m, 1, 1, 0), 50 * MBIT - demand);
	/* a job elsewhere does not matter, nor does one within a region */
	pair(&b, 2, 2, 3);
	add(&b, 3, 1, (struct placement_part[]){ { 0, 2 } });
	assert_close(moment_link_goodput_bps(&b.m, 0, 0, 1), 100 * MBIT - demand);
	assert_close(moment_link_goodput_bps(&b.m, 2, 2, 3), 100 * MBIT);
	/* ten on one link demand 53.3 of 50 */
	for (int j = 4; j < 12; j++)
		pair(&b, j, 0, 1);
	assert_close(moment_link_goodput_bps(&b.m, 1, 1, 0), 5 * MBIT);
	assert_close(moment_link_goodput_bps(&b.m, 1, 0, 1), 100 * MBIT - 9 * demand);
	end(&b);
}

/* Two small demands and a large one on 20: 2 * 5.33 are met, the large one has
 * the rest; a small one has what the two others leave, if that is more. */
static void unequal_demands(void **state)
{
	const double small = 8 * MBIT / 1.5;
	struct bench b;

	begin(&b);
	int big = fix_model(&b.f, "big", 12, 0.2, 0.4, 1 * MB, 1e9);

	b.f.e.jobs[2].model = big;
	fix_ready(&b.f);
	b.f.capacity_bps[1] = l2_rate_bps(20 * MBIT, 1500);
	pair(&b, 0, 0, 1);
	pair(&b, 1, 0, 1);
	pair(&b, 2, 0, 1);
	/* big demands 8 / 0.3 = 26.7 */
	assert_close(moment_link_goodput_bps(&b.m, 2, 0, 1), 20 * MBIT - 2 * small);
	assert_close(moment_link_goodput_bps(&b.m, 0, 0, 1), small);
	end(&b);
}

static void hops(void **state)
{
	struct hop_cost fwd[4], rev[4];
	struct bench b;

	begin(&b);
	b.f.e.cluster.regions[1].intra_latency_ns = 1000000;
	add(&b, 0, 2, (struct placement_part[]){ { 0, 2 }, { 1, 3 } });
	assert_int_equal(moment_hops(&b.m, 0, fwd, rev), 0);
	assert_close(fwd[0].serialisation_s, 0.008);
	assert_close(fwd[0].latency_s, 0);
	assert_close(rev[0].serialisation_s, 0.008);
	assert_close(fwd[1].serialisation_s, 0.08);
	assert_close(rev[1].serialisation_s, 0.16);
	assert_close(fwd[1].latency_s, 0.25);
	assert_close(fwd[2].serialisation_s, 0.008);
	assert_close(rev[3].latency_s, 0.001);
	end(&b);
}

/* Interleaved goes back from the last region to the first. */
static void wrapping_hop(void **state)
{
	struct hop_cost fwd[6], rev[6];
	struct bench b;

	begin(&b);
	b.f.e.schedule = SCHED_INTERLEAVED_1F1B;
	b.f.e.interleave = 2;
	add(&b, 0, 3, (struct placement_part[]){ { 2, 1 }, { 0, 1 }, { 1, 2 } });
	/* b -> c and back */
	b.f.capacity_bps[1 * 4 + 2] = l2_rate_bps(10 * MBIT, 1500);
	b.f.capacity_bps[2 * 4 + 1] = l2_rate_bps(20 * MBIT, 1500);
	assert_int_equal(moment_hops_wrapped(&b.m, 0, fwd, rev), 0);
	assert_close(fwd[3].serialisation_s, 0.8);
	assert_close(rev[3].serialisation_s, 0.4);
	/* two parts: the same link turned round */
	b.m.n = 0;
	pair(&b, 0, 0, 1);
	assert_int_equal(moment_hops_wrapped(&b.m, 0, fwd, rev), 0);
	assert_close(fwd[0].serialisation_s, 0.08);
	assert_close(rev[0].serialisation_s, 0.16);
	assert_close(fwd[1].serialisation_s, 0.16);
	assert_close(rev[1].serialisation_s, 0.08);
	/* a second job demands two chunks' worth, once per direction */
	pair(&b, 1, 0, 1);
	assert_close(moment_link_goodput_bps(&b.m, 0, 0, 1), 100 * MBIT - 2 * 8 * MBIT / 1.5);
	/* one region: its own */
	b.m.n = 0;
	add(&b, 0, 1, (struct placement_part[]){ { 3, 2 } });
	assert_int_equal(moment_hops_wrapped(&b.m, 0, fwd, rev), 0);
	assert_close(fwd[1].serialisation_s, 0.008);
	end(&b);
}

/* ---- step times ---- */

static struct step_estimate ask(struct oracle *o, const struct moment *m, int which)
{
	struct step_estimate out[16];
	struct bace_err e = { 0 };

	if (o->step_times(o, m, out, &e))
		fail_msg("%s: %s", o->name, e.msg);
	return out[which];
}

static struct step_estimate closed_form(const struct moment *m, int which)
{
	struct oracle *o;

	assert_int_equal(oracle_closed_form(&o, NULL), 0);
	struct step_estimate e = ask(o, m, which);

	oracle_destroy(o);
	return e;
}

static struct step_estimate event_sim(const struct moment *m, enum schedule_kind s, int v, bool overlap)
{
	struct oracle *o;

	assert_int_equal(oracle_event_sim(s, v, overlap, &o, NULL), 0);
	struct step_estimate e = ask(o, m, 0);

	oracle_destroy(o);
	return e;
}

static void closed_form_by_hand(void **state)
{
	struct bench b;
	struct step_estimate e;

	begin(&b);
	/* tau = 1.5, T = 3 * 1.5 + 3 + (0.25 + 0.08) + (0.25 + 0.16) */
	pair(&b, 0, 0, 1);
	e = closed_form(&b.m, 0);
	assert_close(e.step_s, 8.24);
	assert_close(e.busy, 4 * 1.5 / 8.24);
	/* a link that is slower than a stage: tau = 8 / 4 */
	b.f.capacity_bps[4] = l2_rate_bps(4 * MBIT, 1500);
	assert_close(closed_form(&b.m, 0).step_s, 3 * 2 + 3 + 0.33 + 2.25);
	/* one GPU: m (F + B), always busy */
	b.m.n = 0;
	add(&b, 0, 1, (struct placement_part[]){ { 0, 1 } });
	e = closed_form(&b.m, 0);
	assert_close(e.step_s, 12);
	assert_close(e.busy, 1);
	end(&b);
}

static void slower_gpus(void **state)
{
	struct bench b;

	begin(&b);
	b.f.e.cluster.regions[1].gpu = fix_gpu(&b.f, "half", 0.5e12, 100e9);
	fix_ready(&b.f);
	b.f.capacity_bps[1] = b.f.capacity_bps[4] = l2_rate_bps(100 * MBIT, 1500);
	pair(&b, 0, 0, 1);
	/* stages of 1.5 and 3 */
	assert_close(closed_form(&b.m, 0).step_s, 3 * 3 + 4.5 + 2 * 0.33);
	assert_close(closed_form(&b.m, 0).busy, 4 * 4.5 / 2 / (3 * 3 + 4.5 + 2 * 0.33));
	end(&b);
}

/* Uniform stages of the path a:1 > b:1 through pipeline_simulate itself. */
static double simulate(enum schedule_kind s, int v, bool overlap, double tb, double tw)
{
	const double f[2] = { 0.5, 0.5 }, bwd[2] = { tb, tb }, w[2] = { tw, tw }, latency[2] = { 0.25, 0.25 };
	const double up[2] = { 0.08, 0.16 }, down[2] = { 0.16, 0.08 };
	struct pipeline_result r = { 0 };

	assert_int_equal(pipeline_simulate(&(struct pipeline){ .schedule = { s, 2, 4, v }, .tf = f, .tb = bwd,
		.tw = w, .fwd_latency = latency, .rev_latency = latency, .fwd_serialisation = up,
		.rev_serialisation = down, .no_overlap = !overlap }, &r, NULL), 0);
	return r.step_time;
}

static void event_simulation(void **state)
{
	struct bench b;

	begin(&b);
	pair(&b, 0, 0, 1);
	assert_close(event_sim(&b.m, SCHED_1F1B, 1, true).step_s, simulate(SCHED_1F1B, 1, true, 1, 0));
	assert_close(event_sim(&b.m, SCHED_GPIPE, 1, true).step_s, simulate(SCHED_GPIPE, 1, true, 1, 0));
	assert_close(event_sim(&b.m, SCHED_EAGER_1F1B, 1, false).step_s,
		     simulate(SCHED_EAGER_1F1B, 1, false, 1, 0));
	assert_close(event_sim(&b.m, SCHED_INTERLEAVED_1F1B, 3, true).step_s,
		     simulate(SCHED_INTERLEAVED_1F1B, 3, true, 1, 0));
	/* B and W half each; a third is W when the forward is done again */
	assert_close(event_sim(&b.m, SCHED_ZB_H1, 1, true).step_s, simulate(SCHED_ZB_H1, 1, true, 0.5, 0.5));
	b.f.e.models[0].recompute = true;
	assert_close(event_sim(&b.m, SCHED_ZB_H1, 1, true).step_s,
		     simulate(SCHED_ZB_H1, 1, true, 2.0 / 3, 1.0 / 3));
	struct step_estimate e = event_sim(&b.m, SCHED_1F1B, 1, true);

	assert_close(e.busy, 4 * 1.5 / e.step_s);
	/* 1f1b waits where the closed form hides everything but the first */
	assert_true(e.step_s > closed_form(&b.m, 0).step_s);
	end(&b);
}

static void interleaved_needs_divisor(void **state)
{
	struct step_estimate out;
	struct bace_err e = { 0 };
	struct oracle *o;
	struct bench b;

	begin(&b);
	add(&b, 0, 1, (struct placement_part[]){ { 0, 3 } });
	assert_int_equal(oracle_event_sim(SCHED_INTERLEAVED_1F1B, 2, true, &o, NULL), 0);
	assert_int_equal(o->step_times(o, &b.m, &out, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "ja: micro-batches = 4"));
	oracle_destroy(o);
	end(&b);
}

static void dead_link(void **state)
{
	struct bench b;

	begin(&b);
	pair(&b, 0, 0, 1);
	b.f.capacity_bps[1] = 0;
	assert_true(isinf(closed_form(&b.m, 0).step_s) && closed_form(&b.m, 0).busy == 0);
	assert_true(isinf(event_sim(&b.m, SCHED_1F1B, 1, true).step_s));
	assert_true(moment_link_goodput_bps(&b.m, 0, 0, 1) == 0);
	end(&b);
}

/* ---- random moments ---- */

static void draw_path(struct bench *b, struct bace_rng *rng, int job)
{
	struct placement_part parts[4];
	int order[4] = { 0, 1, 2, 3 }, n = 1 + (int)bace_rng_below(rng, 4);

	for (int i = 0; i < n; i++) {
		int k = i + (int)bace_rng_below(rng, (uint64_t)(4 - i)), t = order[i];

		order[i] = order[k];
		order[k] = t;
		parts[i] = (struct placement_part){ order[i], 1 + (int)bace_rng_below(rng, 3) };
	}
	add(b, job, n, parts);
}

static bool is_crossed(const struct placement *p, int src, int dst)
{
	for (int i = 0; i + 1 < p->n_parts; i++) {
		int a = p->parts[i].region, b = p->parts[i + 1].region;

		if ((a == src && b == dst) || (a == dst && b == src))
			return true;
	}
	return false;
}

/* Capacity minus what progressive filling gives the others. */
static double expected_goodput(const struct bench *b, int which, int src, int dst)
{
	double capacity = goodput_bps(b->f.capacity_bps[src * 4 + dst], 1500), demand[16], level, others = 0;
	size_t n = 0, own = 0;

	for (int i = 0; i < b->m.n; i++) {
		const struct placement *p = b->list[i];

		if (!is_crossed(p, src, dst))
			continue;
		if (i == which)
			own = n;
		/* 8A / mean (t_F + t_B): 3 s over n_gpus stages, n_gpus of them */
		demand[n++] = 8 * MB * p->n_gpus / 3;
	}
	level = filling_level(capacity, demand, n);
	for (size_t i = 0; i < n; i++)
		if (i != own)
			others += fmin(demand[i], level);
	return capacity - others;
}

static void random_moments(void **state)
{
	struct bace_rng rng;

	bace_rng_init(&rng, 22, 0);
	for (int i = 0; i < 300; i++) {
		struct bench b;
		struct hop_cost fwd[16], rev[16];

		begin(&b);
		for (int k = 0; k < 16; k++)
			if (k / 4 != k % 4)
				b.f.capacity_bps[k] = (5 + 100 * bace_rng_uniform(&rng)) * MBIT;
		for (int j = 0; j < 12; j++)
			draw_path(&b, &rng, j);
		for (int j = 0; j < b.m.n; j++) {
			const struct placement *p = b.list[j];
			int hop = -1;

			assert_int_equal(moment_hops(&b.m, j, fwd, rev), 0);
			for (int k = 0; k + 1 < p->n_parts; k++) {
				int x = p->parts[k].region, y = p->parts[k + 1].region;
				double up = expected_goodput(&b, j, x, y), down = expected_goodput(&b, j, y, x);

				hop += p->parts[k].gpus;
				assert_close(moment_link_goodput_bps(&b.m, j, x, y) / up, 1);
				assert_close(fwd[hop].serialisation_s * up / (8 * MB), 1);
				assert_close(rev[hop].serialisation_s * down / (8 * MB), 1);
			}
		}
		end(&b);
	}
}

/* An oracle gives the same answer whatever it was asked before. */
static void scratch_leaves_nothing(void **state)
{
	struct bace_rng rng;
	struct oracle *used;

	bace_rng_init(&rng, 23, 0);
	assert_int_equal(oracle_event_sim(SCHED_1F1B, 1, true, &used, NULL), 0);
	for (int i = 0; i < 50; i++) {
		struct bench b;

		begin(&b);
		for (int j = 0; j <= i % 12; j++)
			draw_path(&b, &rng, j);
		struct step_estimate again = ask(used, &b.m, 0), fresh = event_sim(&b.m, SCHED_1F1B, 1, true);

		assert_true(again.step_s == fresh.step_s && again.busy == fresh.busy);
		end(&b);
	}
	oracle_destroy(used);
}

/* ---- the key ---- */

static void keys(void **state)
{
	struct bench b;

	begin(&b);
	pair(&b, 1, 0, 1);
	pair(&b, 0, 2, 3);
	CLEANUP_FREE char *one = moment_key(&b.m);

	b.m.n = 0;
	pair(&b, 0, 2, 3);
	pair(&b, 1, 0, 1);
	CLEANUP_FREE char *turned = moment_key(&b.m);

	assert_string_equal(one, turned);
	assert_int_equal(strncmp(one, "ja (M, m 4, beta 1, F 1 s, B 2 s, A 1000000 B) @ c:1 > d:1; jb (", 60), 0);
	/* what nobody uses does not matter, what somebody does, does */
	b.f.capacity_bps[0 * 4 + 2] *= 2;
	CLEANUP_FREE char *unused = moment_key(&b.m);

	assert_string_equal(one, unused);
	b.f.capacity_bps[1 * 4 + 0] *= 2;
	CLEANUP_FREE char *used = moment_key(&b.m);

	assert_string_not_equal(one, used);
	b.parts[0][0].gpus = 2;
	CLEANUP_FREE char *moved = moment_key(&b.m);

	assert_string_not_equal(used, moved);
	b.m.n = 0;
	CLEANUP_FREE char *empty = moment_key(&b.m);

	assert_string_equal(empty, "");
	end(&b);
}

/* The same moment of a config that lists its regions in another order. */
static void key_by_names(void **state)
{
	struct bench b, c;

	begin(&b);
	begin(&c);
	strcpy(c.f.e.cluster.regions[0].name, "d");
	strcpy(c.f.e.cluster.regions[3].name, "a");
	c.f.capacity_bps[4] = l2_rate_bps(100 * MBIT, 1500);
	c.f.capacity_bps[1 * 4 + 3] = l2_rate_bps(50 * MBIT, 1500);
	add(&b, 0, 3, (struct placement_part[]){ { 0, 1 }, { 1, 2 }, { 2, 1 } });
	add(&c, 0, 3, (struct placement_part[]){ { 3, 1 }, { 1, 2 }, { 2, 1 } });
	CLEANUP_FREE char *x = moment_key(&b.m);
	CLEANUP_FREE char *y = moment_key(&c.m);

	assert_string_equal(x, y);
	end(&b);
	end(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(max_min_by_hand), cmocka_unit_test(max_min_random),
		cmocka_unit_test(link_shares), cmocka_unit_test(unequal_demands), cmocka_unit_test(hops),
		cmocka_unit_test(wrapping_hop), cmocka_unit_test(closed_form_by_hand),
		cmocka_unit_test(slower_gpus), cmocka_unit_test(event_simulation),
		cmocka_unit_test(interleaved_needs_divisor), cmocka_unit_test(dead_link),
		cmocka_unit_test(random_moments), cmocka_unit_test(scratch_leaves_nothing),
		cmocka_unit_test(keys), cmocka_unit_test(key_by_names),
	};

	return cmocka_run_group_tests_name("oracle", tests, NULL, NULL);
}
