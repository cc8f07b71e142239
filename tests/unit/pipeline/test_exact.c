/* Against figures that come from elsewhere: published vectors, closed forms. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "harness/sim/sim.h"
#include "tests/unit/pipeline/vectors.h"

#define P_MAX 64

static void assert_close(double got, double want, const char *what, int i)
{
	if (!(fabs(got - want) <= 1e-9 * fmax(1e-300, fabs(want))))
		fail_msg("%s %d: got %.15g, want %.15g", what, i, got, want);
}

struct uniform {
	struct schedule_spec s;
	double tf, tb, tw, latency, serialisation;
	int hop;
};

static double simulate(const struct uniform *u, double *bubble)
{
	double tf[P_MAX], tb[P_MAX], tw[P_MAX], latency[P_MAX] = { 0 }, serialisation[P_MAX] = { 0 };
	struct pipeline p = { .schedule = u->s, .tf = tf, .tb = tb, .tw = tw, .fwd_latency = latency,
		.rev_latency = latency, .fwd_serialisation = serialisation,
		.rev_serialisation = serialisation };
	struct pipeline_result r = { 0 };
	struct bace_err e = { 0 };

	for (int i = 0; i < u->s.stages; i++) {
		tf[i] = u->tf;
		tb[i] = u->tb;
		tw[i] = u->tw;
		if (u->hop == ALL || u->hop == i) {
			latency[i] = u->latency;
			serialisation[i] = u->serialisation;
		}
	}
	if (pipeline_simulate(&p, &r, &e))
		fail_msg("%s", e.msg);
	if (bubble)
		*bubble = r.bubble;
	return r.step_time;
}

static void check_vectors(const struct vector *v, size_t n, const char *what)
{
	for (size_t i = 0; i < n; i++) {
		struct uniform u = { .s = { v[i].schedule, v[i].p, v[i].m, 1 }, .tf = v[i].tf, .tb = v[i].tb,
			.latency = v[i].latency, .serialisation = v[i].serialisation, .hop = v[i].hop };
		double bubble, t = simulate(&u, &bubble);

		assert_close(t, v[i].step_time, what, (int)i);
		assert_close(bubble, 1 - v[i].m * (v[i].tf + v[i].tb) / v[i].step_time, "bubble", (int)i);
	}
}

static void published_vectors(void **state)
{
	assert_int_equal(ARRAY_LEN(vectors), 52);
	check_vectors(vectors, ARRAY_LEN(vectors), "vector");
	check_vectors(zb_profiles, ARRAY_LEN(zb_profiles), "profile");
}

static struct uniform draw(struct bace_rng *rng, enum schedule_kind kind)
{
	int p = 2 + (int)bace_rng_below(rng, 20);

	return (struct uniform){ .s = { kind, p, p * (1 + (int)bace_rng_below(rng, 8)), 1 }, .hop = ALL,
		.tf = 0.1 + bace_rng_uniform(rng), .tb = 0.1 + 2 * bace_rng_uniform(rng),
		.latency = 4 * bace_rng_uniform(rng) };
}

/* Uniform stages, pure latency c: T = (m+p-1)(tF+tB) + 2c[(p-1)m/p + (p-2)] for
 * 1f1b when p divides m. */
static void closed_form_1f1b(void **state)
{
	struct bace_rng rng;

	bace_rng_init(&rng, 1, 0);
	for (int i = 0; i < 500; i++) {
		struct uniform u = draw(&rng, SCHED_1F1B);
		double p = u.s.stages, m = u.s.micro_batches;

		assert_close(simulate(&u, NULL), (m + p - 1) * (u.tf + u.tb) +
			     2 * u.latency * ((p - 1) * m / p + p - 2), "1f1b", i);
	}
}

/* T = (m+p-1)(tF+tB) + 2(p-1)c for gpipe, any m. */
static void closed_form_gpipe(void **state)
{
	struct bace_rng rng;

	bace_rng_init(&rng, 2, 0);
	for (int i = 0; i < 500; i++) {
		struct uniform u = draw(&rng, SCHED_GPIPE);

		u.s.micro_batches = 1 + (int)bace_rng_below(&rng, 60);
		assert_close(simulate(&u, NULL), (u.s.micro_batches + u.s.stages - 1) * (u.tf + u.tb) +
			     2 * (u.s.stages - 1) * u.latency, "gpipe", i);
	}
}

/* Bubble (p-1)(tF+tB-tW), tB without tW; m >= p, tW <= min(tF, tB), no
 * communication (Qi et al., arXiv 2401.10241). */
static void zb_h1_bubble(void **state)
{
	struct bace_rng rng;

	bace_rng_init(&rng, 3, 0);
	for (int i = 0; i < 500; i++) {
		struct uniform u = draw(&rng, SCHED_ZB_H1);
		double p = u.s.stages, m;

		u.s.micro_batches = u.s.stages + (int)bace_rng_below(&rng, 40);
		m = u.s.micro_batches;
		u.latency = 0;
		u.tw = fmin(u.tf, u.tb) * bace_rng_uniform(&rng);
		assert_close(simulate(&u, NULL), m * (u.tf + u.tb + u.tw) + (p - 1) * (u.tf + u.tb - u.tw),
			     "zb-h1", i);
	}
}

/* Bubble (p-1)(tF+tB)/v without communication (Narayanan et al., arXiv
 * 2104.04473, section 2.2). */
static void interleaved_bubble(void **state)
{
	struct bace_rng rng;

	bace_rng_init(&rng, 4, 0);
	for (int i = 0; i < 500; i++) {
		struct uniform u = draw(&rng, SCHED_INTERLEAVED_1F1B);

		u.latency = 0;
		u.s.chunks = 2 + i % 5;
		assert_close(simulate(&u, NULL), (u.tf + u.tb) *
			     (u.s.micro_batches + (u.s.stages - 1.0) / u.s.chunks), "interleaved", i);
	}
}

/* One slow hop costs 1f1b about c(m-(p-1-i)) even when it is shorter than a
 * forward; eager-1f1b hides it until c > (tF+tB)/2: figures from the vectors
 * v034, v035 and, above the bound, the growth per micro-batch. */
static void eager_hides_a_slow_hop(void **state)
{
	struct uniform u = { .s = { SCHED_EAGER_1F1B, 8, 64, 1 }, .tf = 1, .tb = 2, .hop = 3, .latency = 1.5 };
	double hidden = simulate(&u, NULL), more;

	assert_close(hidden, (64 + 7) * 3 + 2 * 1.5, "eager", 0);
	u.latency = 2.5;
	more = simulate(&u, NULL);
	u.s.micro_batches = 128;
	/* beyond the bound each micro-batch costs more than its computation */
	assert_true(simulate(&u, NULL) - more > 64 * 3 * 1.05);
	u.latency = 1.5;
	assert_close(simulate(&u, NULL) - hidden, 64 * 3, "eager, more micro-batches", 0);
}

static void single_stage(void **state)
{
	for (int kind = SCHED_GPIPE; kind <= SCHED_ZB_H1; kind++) {
		struct uniform u = { .s = { (enum schedule_kind)kind, 1, 5, kind == SCHED_INTERLEAVED_1F1B ? 2 : 1 },
			.tf = 1, .tb = 2, .tw = kind == SCHED_ZB_H1 ? 0.5 : 0, .hop = ALL };
		double bubble;

		assert_close(simulate(&u, &bubble), 5 * (3 + u.tw), "one stage", kind);
		assert_true(fabs(bubble) < 1e-12);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_vectors), cmocka_unit_test(closed_form_1f1b),
		cmocka_unit_test(closed_form_gpipe), cmocka_unit_test(zb_h1_bubble),
		cmocka_unit_test(interleaved_bubble), cmocka_unit_test(eager_hides_a_slow_hop),
		cmocka_unit_test(single_stage),
	};

	return cmocka_run_group_tests_name("pipeline-exact", tests, NULL, NULL);
}
