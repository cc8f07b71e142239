/*
 * What the policy is told, with noise. The policy here records and never places,
 * so that a redraw of the noise is an instant of its own.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/cluster/world.h"

#define MAX_CALLS 1200
#define REGIONS 4

static struct link_reports *reports;	/* of the next look */
static bool looks_again;		/* halves link 0 to 3 at each call */

struct policy {
	int calls;
	double at_s[MAX_CALLS];
	double capacity[MAX_CALLS][REGIONS * REGIONS], price[MAX_CALLS][REGIONS];
};

int policy_decide(struct policy *p, const struct view *v, const struct queue *q, struct placement *out,
		  struct bace_err *err)
{
	assert_true(p->calls < MAX_CALLS);
	p->at_s[p->calls] = v->now_s;
	memcpy(p->capacity[p->calls], v->capacity_bps, sizeof(p->capacity[0]));
	memcpy(p->price[p->calls], v->price, sizeof(p->price[0]));
	p->calls++;
	if (looks_again) {
		reports->over_truth[3] /= 2;
		reports->n_looks++;
	}
	return 0;
}

double policy_reservation_bps(const struct policy *p, const struct view *v, const struct placement *pl)
{
	return 0;
}

bool policy_wants_running(const struct policy *p)
{
	return false;
}

bool policy_is_elastic(const struct policy *p)
{
	return false;
}

double policy_restart_s(const struct policy *p)
{
	return 0;
}

int policy_resize(struct policy *p, const struct view *v, const struct queue *q, struct placement *out,
		  struct bace_err *err)
{
	fail_msg("not elastic");
	return 0;
}

static int no_times(struct oracle *o, const struct moment *m, struct step_estimate *out, struct bace_err *err)
{
	fail_msg("nothing runs");
	return 0;
}

/* Links from region 0 are 1, 2, 3 Gbit/s, all others 1: the mean is 15 / 12. */
#define MEAN_LINK (15e9 / 12)

static const double price[REGIONS] = { 0.1, 0.2, 0.3, -0.1 };

static struct policy *look(const struct view_spec *view, uint64_t seed, int n_changes,
			   const struct link_change *changes)
{
	struct policy *p = calloc(1, sizeof(*p));
	struct oracle o = { .name = "none", .step_times = no_times };
	struct world w;
	struct cluster_result r;
	struct bace_err err;

	world_init(&w, REGIONS);
	w.e.view = *view;
	for (int i = 0; i < REGIONS; i++) {
		world_price(&w, i, 1, (double[]){ 0 }, &price[i], 0);
		if (i)
			w.e.cluster.links[i].rate_bps = (uint64_t)i * 1000000000;
	}
	world_job(&w, "a", world_model(&w, "m", 4), 10, 0);
	world_ready(&w);
	assert_int_equal(cluster_simulate(&(struct cluster_sim){ .exp = &w.e, .models = &w.models, .policy = p,
		.oracle = &o, .seed = seed, .reports = reports, .n_changes = n_changes, .changes = changes }, &r, &err), 0);
	cluster_result_free(&r);
	world_free(&w);
	return p;
}

struct moments {
	double mean, sd, least, most;
};

static struct moments of(const double *v, int n)
{
	struct moments m = { .least = INFINITY, .most = -INFINITY };

	for (int i = 0; i < n; i++) {
		m.mean += v[i] / n;
		m.least = fmin(m.least, v[i]);
		m.most = fmax(m.most, v[i]);
	}
	for (int i = 0; i < n; i++)
		m.sd += (v[i] - m.mean) * (v[i] - m.mean) / n;
	m.sd = sqrt(m.sd);
	return m;
}

static double correlation(const double *a, const double *b, int n)
{
	struct moments x = of(a, n), y = of(b, n);
	double c = 0;

	for (int i = 0; i < n; i++)
		c += (a[i] - x.mean) * (b[i] - y.mean) / n;
	return c / (x.sd * y.sd);
}

static struct moments link_moments(const struct policy *p, int link)
{
	double v[MAX_CALLS] = { 0 };

	for (int i = 0; i < p->calls; i++)
		v[i] = p->capacity[i][link];
	return of(v, p->calls);
}

static double link_correlation(const struct policy *p, int a, int b)
{
	double x[MAX_CALLS] = { 0 }, y[MAX_CALLS] = { 0 };

	for (int i = 0; i < p->calls; i++) {
		x[i] = p->capacity[i][a];
		y[i] = p->capacity[i][b];
	}
	return correlation(x, y, p->calls);
}

/* About 1000 draws: a mean is good to sd / 31, an sd to 2 to 3 %, a correlation
 * to 0.03; each is allowed four times that. */
#define about(x, want, tolerance) assert_true(fabs((x) - (want)) <= (tolerance))

static void additive_uniform(void **state)
{
	struct view_spec v = { .period_s = 10, .bandwidth_noise = 0.2, .price_noise = 0.3 };
	struct policy *p = look(&v, 7, 0, NULL);
	double width = 0.2 * MEAN_LINK;

	assert_true(p->calls > 1000);
	for (int i = 0; i < p->calls; i++)
		assert_true(p->at_s[i] == 10.0 * i);
	for (int link = 1; link < REGIONS; link++) {
		struct moments m = link_moments(p, link);

		about(m.mean, link * 1e9, 4 * width / 31);
		about(m.sd, width / sqrt(3), 0.1 * width);
		assert_true(m.least >= link * 1e9 - width && m.most <= link * 1e9 + width);
		assert_true(m.most > link * 1e9 + 0.98 * width);
	}
	assert_true(p->capacity[5][0] == 0 && p->capacity[5][5] == 0);
	about(link_correlation(p, 1, 2), 0, 0.13);
	about(link_correlation(p, 1, 4), 0, 0.13);
	for (int r = 0; r < REGIONS; r++) {
		double x[MAX_CALLS] = { 0 }, mean_price = 0.5 / 4;

		for (int i = 0; i < p->calls; i++)
			x[i] = p->price[i][r];
		about(of(x, p->calls).mean, price[r], 0.02 * mean_price);
		about(of(x, p->calls).sd, 0.3 * mean_price / sqrt(3), 0.02 * mean_price);
	}
	free(p);
}

static void gaussian_bias_correlation(void **state)
{
	struct view_spec v = { .period_s = 10, .bandwidth_noise = 0.1, .bias_bandwidth = -0.05,
			       .dist = NOISE_GAUSSIAN, .correlation = 0.6, .bias_price = 0.5,
			       .multiplicative = true };
	struct policy *p = look(&v, 7, 0, NULL);

	for (int link = 1; link < REGIONS; link++) {
		about(link_moments(p, link).mean, 0.95 * link * 1e9, link * 0.02e9);
		about(link_moments(p, link).sd, link * 0.1e9, link * 0.01e9);
	}
	about(link_correlation(p, 1, 2), 0.6, 0.1);
	about(link_correlation(p, 2, 13), 0.6, 0.1);
	for (int r = 0; r < REGIONS; r++)
		about(p->price[3][r], 1.5 * price[r], 1e-15);
	free(p);

	v.dist = NOISE_UNIFORM;
	v.correlation = 1;
	v.bias_bandwidth = 0;
	p = look(&v, 7, 0, NULL);
	about(link_correlation(p, 1, 2), 1, 1e-9);
	about(link_moments(p, 1).sd, 0.1e9 / sqrt(3), 0.01e9);
	assert_true(link_moments(p, 1).most <= 1.1e9);
	free(p);
}

static void never_negative(void **state)
{
	struct view_spec v = { .period_s = 10, .bandwidth_noise = 3 };
	struct policy *p = look(&v, 7, 0, NULL);

	assert_true(link_moments(p, 1).least == 0);
	free(p);
}

/* Without a period the noise stands until the truth changes; then it is new on
 * every link. With a delay the policy hears of the change later. */
static void redrawn_with_truth(void **state)
{
	const struct link_change changes[] = { { 100, 0, 1, 2e9 } };
	struct view_spec v = { .bandwidth_noise = 0.1, .delay_s = 5 };
	struct policy *p = look(&v, 7, 1, changes);

	assert_int_equal(p->calls, 3);
	assert_true(p->at_s[0] == 0 && p->at_s[1] == 100 && p->at_s[2] == 105);
	assert_memory_equal(p->capacity[0], p->capacity[1], sizeof(p->capacity[0]));
	assert_true(fabs(p->capacity[1][1] - 1e9) <= 0.1 * MEAN_LINK);
	assert_true(fabs(p->capacity[2][1] - 2e9) <= 0.1 * (16e9 / 12));
	assert_true(p->capacity[2][2] != p->capacity[1][2]);
	free(p);
}

static void seeds(void **state)
{
	struct view_spec v = { .period_s = 10, .bandwidth_noise = 0.1, .price_noise = 0.1 };
	struct policy *a = look(&v, 7, 0, NULL), *b = look(&v, 7, 0, NULL), *c = look(&v, 8, 0, NULL);

	assert_memory_equal(a, b, sizeof(*a));
	assert_true(a->capacity[0][1] != c->capacity[0][1]);
	assert_true(a->price[0][1] != c->price[0][1]);
	free(a);
	free(b);
	free(c);
}

/* Monitoring says 0.8 of link 0 -> 1 and 1.1 of 0 -> 2: that is what is told, and
 * what noise and its mean over links are taken of. */
static void reported(void **state)
{
	struct view_spec exact = { 0 }, biased = { .period_s = 10, .bias_bandwidth = 0.3 };
	double factor[REGIONS * REGIONS];
	double mean = (15e9 - 0.2e9 + 0.2e9) / 12;
	struct policy *p;

	for (int i = 0; i < REGIONS * REGIONS; i++)
		factor[i] = i == 1 ? 0.8 : i == 2 ? 1.1 : 1;
	reports = &(struct link_reports){ .n_looks = 1, .over_truth = factor };
	p = look(&exact, 7, 0, NULL);
	assert_true(fabs(p->capacity[0][1] - 0.8e9) < 1 && fabs(p->capacity[0][2] - 2.2e9) < 1);
	assert_true(p->capacity[0][3] == 3e9);
	free(p);
	p = look(&biased, 7, 0, NULL);
	assert_true(fabs(p->capacity[0][1] - (0.8e9 + 0.3 * mean)) < 1);
	free(p);
	reports = NULL;
}

/* Monitors look again while the simulation runs: what is told follows at the next instant,
 * whether or not the truth changed. */
static void reports_change(void **state)
{
	const struct view_spec exact = { .period_s = 0 };
	const struct link_change changes[] = { { 100, 2, 3, 5e8 }, { 200, 2, 3, 1e9 } };
	double factor[REGIONS * REGIONS];
	struct policy *p;

	for (int i = 0; i < REGIONS * REGIONS; i++)
		factor[i] = 1;
	reports = &(struct link_reports){ .n_looks = 1, .over_truth = factor };
	looks_again = true;
	p = look(&exact, 7, 2, changes);
	looks_again = false;
	reports = NULL;
	assert_int_equal(p->calls, 3);
	assert_true(p->capacity[0][3] == 3e9);
	assert_true(p->capacity[1][3] == 1.5e9);
	assert_true(p->capacity[2][3] == 0.75e9);
	assert_true(p->capacity[1][2 * REGIONS + 3] == 5e8);
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(additive_uniform),
		cmocka_unit_test(gaussian_bias_correlation),
		cmocka_unit_test(never_negative),
		cmocka_unit_test(redrawn_with_truth),
		cmocka_unit_test(seeds),
		cmocka_unit_test(reported),
		cmocka_unit_test(reports_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
