/* What jobs get of shared links, and the hops that come of it. */
#include "tests/unit/oracle/moments.h"

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

/* ---- random moments ---- */

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(max_min_by_hand), cmocka_unit_test(max_min_random), cmocka_unit_test(link_shares),
		cmocka_unit_test(unequal_demands), cmocka_unit_test(hops), cmocka_unit_test(wrapping_hop),
		cmocka_unit_test(random_moments),
	};

	return cmocka_run_group_tests_name("oracle-shares", tests, NULL, NULL);
}
