/* The draws, the figures' arithmetic and the rank correlation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config.h"
#include "harness/sim/claims.h"

static struct experiment base;

static int setup(void **state)
{
	struct bace_diags d = { 0 };
	struct bace_err e;

	setenv("BACE_PROFILES", BACE_SOURCE_ROOT "/profiles", 1);
	if (!experiment_load("six-regions-paper", &base, &d, &e))
		return 0;
	bace_diags_print(&d, stderr);
	bace_diags_free(&d);
	return -1;
}

static int teardown(void **state)
{
	experiment_free(&base);
	return 0;
}

/* Worked out by hand. */
static void correlation(void **state)
{
	const double up[] = { 1, 2, 3, 4 }, squares[] = { 1, 4, 9, 16 }, down[] = { 4, 3, 2, 1 };
	const double x[] = { 86, 97, 99, 100, 101, 103, 106, 110, 112, 113 };
	const double y[] = { 2, 20, 28, 27, 50, 29, 7, 17, 6, 12 };
	const double tied[] = { 1, 1, 2, 2, 3 }, ty[] = { 2, 1, 3, 5, 4 };
	const double gap[] = { 1, NAN, 2, 3 }, gy[] = { 5, 100, 6, NAN };
	const double constant[] = { 7, 7, 7, 7 };

	assert_true(rank_correlation(up, squares, 4) == 1);
	assert_true(rank_correlation(up, down, 4) == -1);
	/* 1 - 6 * 194 / (10 * 99) */
	assert_true(fabs(rank_correlation(x, y, 10) + 29 / 165.0) < 1e-12);
	/* ranks 1.5 1.5 3.5 3.5 5 and 2 1 3 5 4: 7.5 / sqrt(9 * 10) with means 3 */
	assert_true(fabs(rank_correlation(tied, ty, 5) - 7.5 / sqrt(90)) < 1e-12);
	assert_true(isnan(rank_correlation(gap, gy, 4)));
	assert_true(isnan(rank_correlation(constant, up, 4)));
	assert_true(isnan(rank_correlation(up, up, 0)));
}

static const struct claims_figure *figure(const char *text, const char *detail)
{
	for (int i = 0; i < n_claims_figures; i++)
		if (!strcmp(claims_figures[i].text, text) && !strcmp(claims_figures[i].detail, detail))
			return &claims_figures[i];
	fail_msg("no figure `%s', %s", text, detail);
	return NULL;
}

static void arithmetic(void **state)
{
	static struct claims_scenario s;
	struct claims_score *k_min = s.score[CLAIMS_K_MIN][CLAIMS_PLAIN];

	k_min[CLAIMS_BACE] = (struct claims_score){ 60, 6, 9 };
	k_min[CLAIMS_LCF] = (struct claims_score){ 100, 5, 12 };
	k_min[CLAIMS_CR_LCF] = (struct claims_score){ 125, 5, NAN };
	k_min[CLAIMS_NO_PATHFINDER] = (struct claims_score){ 90, 7, 10.8 };
	s.score[CLAIMS_K_STAR][CLAIMS_LINKS_15][CLAIMS_BACE].jct_s = 10;
	s.score[CLAIMS_K_STAR][CLAIMS_LINKS_15][CLAIMS_LDF].jct_s = 25;

	assert_true(claims_value(figure("JCT gain 27.9 to 64.7 %", "lcf"), &s, CLAIMS_K_MIN) == 0.4);
	assert_true(fabs(claims_median_value(figure("JCT gain 27.9 to 64.7 %", "lcf"), &s, CLAIMS_K_MIN) + 0.2) <
		    1e-15);
	assert_true(claims_value(figure("cost gain 12.6 to 30.6 %", "lcf"), &s, CLAIMS_K_MIN) == 0.25);
	assert_true(isnan(claims_value(figure("cost gain 12.6 to 30.6 %", "cr-lcf"), &s, CLAIMS_K_MIN)));
	assert_true(claims_value(figure("paradox: JCT +13.1 %", "cr-lcf vs lcf"), &s, CLAIMS_K_MIN) == 0.25);
	assert_true(claims_value(figure("ablation: JCT +52.5 %", "no pathfinder"), &s, CLAIMS_K_MIN) == 0.5);
	assert_true(fabs(claims_value(figure("ablation: cost +20.5 %", "no pathfinder"), &s, CLAIMS_K_MIN) - 0.2) <
		    1e-15);
	assert_true(claims_value(figure("links x1.5: JCT adv. 42.9 to 240.3 %", "ldf"), &s, CLAIMS_K_STAR) == 1.5);
}

/* A quarter of the draws each, to within four standard deviations. */
static void draws(void **state)
{
	struct draw d;
	struct bace_rng r;
	int gpus[129] = { 0 }, models[16] = { 0 }, n = 2000, nr = base.cluster.n_regions;
	double bw[2] = { INFINITY, 0 }, price[2] = { INFINITY, 0 };

	assert_int_equal(draw_alloc(&d, &base), 0);
	bace_rng_init(&r, 1, 1);
	for (int i = 0; i < n; i++) {
		int seen = 0;

		draw_scenario(&d, &r);
		for (int k = 0; k < nr; k++) {
			assert_true(d.gpus[k] <= 128);
			gpus[d.gpus[k]]++;
			bw[0] = fmin(bw[0], d.bandwidth_bps[k]);
			bw[1] = fmax(bw[1], d.bandwidth_bps[k]);
			price[0] = fmin(price[0], d.price[k]);
			price[1] = fmax(price[1], d.price[k]);
		}
		for (int j = 0; j < 8; j++)
			seen |= 1 << d.model[j];
		assert_int_equal(seen, (1 << base.n_models) - 1);
		models[d.model[0]]++;
	}
	for (int g = 16; g <= 128; g *= 2)
		assert_true(abs(gpus[g] - n * nr / 4) < 4 * sqrt(n * nr * 0.25 * 0.75));
	assert_int_equal(gpus[16] + gpus[32] + gpus[64] + gpus[128], n * nr);
	assert_true(bw[0] >= 25e9 && bw[0] < 25.1e9 && bw[1] <= 100e9 && bw[1] > 99.9e9);
	assert_true(price[0] >= 0.156 && price[0] < 0.1563 && price[1] <= 0.295 && price[1] > 0.2947);
	/* the order of the jobs is drawn, too */
	for (int m = 0; m < base.n_models; m++)
		assert_true(models[m] > n / base.n_models / 2);
	draw_free(&d);
}

static int gpus_of(const struct scene *s)
{
	int n = 0;

	for (int i = 0; i < s->e.cluster.n_regions; i++)
		n += s->e.cluster.regions[i].n_gpus;
	return n;
}

/* A variant changes what it is named after: jobs come when they do in the plain one. */
static void same_arrivals(const struct draw *d, const int *choice, const double *arrival_s)
{
	for (int v = 0; v < CLAIMS_VARIANTS; v++) {
		struct scene s;
		struct bace_err e;

		assert_int_equal(scene_build(&s, d, choice, (enum claims_variant)v, &e), 0);
		for (int j = 0; j < 8; j++)
			assert_true(fabs(s.e.jobs[j].arrival_s - arrival_s[j]) <= 1e-9 * arrival_s[j]);
		scene_free(&s);
	}
}

/* What the variants and the choices change, and what they leave. */
static void scenes(void **state)
{
	int choice[CLAIMS_CHOICES] = { [CHOICE_M] = 1 }, gpus;
	struct scene s;
	struct draw d;
	struct bace_rng r;
	struct bace_err e;
	double rate, arrival_s[8];

	assert_int_equal(draw_alloc(&d, &base), 0);
	bace_rng_init(&r, 1, 1);
	draw_scenario(&d, &r);
	assert_int_equal(scene_build(&s, &d, choice, CLAIMS_PLAIN, &e), 0);
	gpus = gpus_of(&s);
	rate = (double)cluster_link(&s.e.cluster, 0, 1)->rate_bps;
	assert_true(fabs(rate - (d.bandwidth_bps[0] + d.bandwidth_bps[1]) / 2) <= 1);
	assert_true(cluster_link(&s.e.cluster, 0, 1)->latency_ns == cluster_link(&base.cluster, 0, 1)->latency_ns);
	assert_true(s.e.cluster.gpus[s.e.cluster.regions[0].gpu].flops_eff == 60e12);
	assert_int_equal(s.e.n_jobs, 8);
	assert_int_equal(s.e.jobs[3].micro_batches, 64);
	assert_true(s.e.jobs[7].arrival_s == 0);
	assert_true(s.models.v[0].k_limit == s.e.models[s.e.jobs[0].model].layers);
	/* tokens = bytes / 4, one epoch, m * seq of them a step */
	assert_true(s.e.jobs[0].steps == fmax(1, ceil(s.e.jobs[0].dataset_bytes / 4 /
						      (64.0 * s.e.models[s.e.jobs[0].model].seq))));
	scene_free(&s);
	assert_int_equal(scene_build(&s, &d, choice, CLAIMS_LINKS_03, &e), 0);
	assert_true(fabs((double)cluster_link(&s.e.cluster, 0, 1)->rate_bps - 0.3 * rate) <= 1);
	assert_int_equal(gpus_of(&s), gpus);
	scene_free(&s);
	assert_int_equal(scene_build(&s, &d, choice, CLAIMS_GPUS_125, &e), 0);
	assert_int_equal(gpus_of(&s), gpus * 5 / 4);
	scene_free(&s);
	assert_int_equal(scene_build(&s, &d, choice, CLAIMS_JOBS_24, &e), 0);
	assert_int_equal(s.e.n_jobs, 24);
	scene_free(&s);
	choice[CHOICE_K_LIMIT] = choice[CHOICE_ARRIVALS] = 1;
	choice[CHOICE_FLOPS] = choice[CHOICE_M] = 3;
	choice[CHOICE_ORACLE] = 2;
	assert_int_equal(scene_build(&s, &d, choice, CLAIMS_PLAIN, &e), 0);
	assert_int_equal(s.models.v[0].k_limit, 512);
	assert_int_equal(s.e.jobs[0].micro_batches, 1024);
	assert_true(s.e.cluster.gpus[s.e.cluster.regions[0].gpu].flops_eff == 310e12);
	assert_int_equal(s.e.schedule, SCHED_EAGER_1F1B);
	assert_true(s.e.jobs[0].arrival_s == 0 && s.e.jobs[7].arrival_s > s.e.jobs[6].arrival_s);
	for (int j = 0; j < 8; j++)
		arrival_s[j] = s.e.jobs[j].arrival_s;
	scene_free(&s);
	same_arrivals(&d, choice, arrival_s);
	draw_free(&d);
}

static void threads(void **state)
{
	struct claims one, three;
	struct bace_err e;
	const struct claims_options a = { .n_scenarios = 5, .n_threads = 1, .seed = 9 };
	const struct claims_options b = { .n_scenarios = 5, .n_threads = 3, .seed = 9 };
	int defined = 0;

	assert_int_equal(claims_run(&base, &a, &one, &e), 0);
	assert_int_equal(claims_run(&base, &b, &three, &e), 0);
	for (int i = 0; i < 5; i++) {
		struct claims_scenario *x = &one.scenarios[i], *y = &three.scenarios[i];

		assert_memory_equal(x->choice, y->choice, sizeof(x->choice));
		for (int f = 0; f < n_claims_figures; f++)
			for (int arm = 0; arm < CLAIMS_ARMS; arm++) {
				double u = claims_value(&claims_figures[f], x, (enum claims_arm)arm);
				double v = claims_value(&claims_figures[f], y, (enum claims_arm)arm);

				assert_true(u == v || (isnan(u) && isnan(v)));
				defined += !isnan(u);
			}
	}
	assert_true(defined > 5 * n_claims_figures * CLAIMS_ARMS / 2);
	claims_free(&one);
	claims_free(&three);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(correlation),
		cmocka_unit_test(arithmetic),
		cmocka_unit_test(draws),
		cmocka_unit_test(scenes),
		cmocka_unit_test(threads),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
