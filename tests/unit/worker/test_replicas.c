/* Replicas that sum their gradients, under a virtual clock: what the simulator
 * says, and what one can say by hand. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "harness/sim/sim.h"
#include "tests/unit/worker/virtual.h"

#define START 1000000007
#define REPLICAS_MAX 5
#define STAGES_MAX 6
#define RANDOM_JOBS 300

static void run(struct vnet *v)
{
	struct bace_err e = { 0 };
	int rc = vnet_run(v, START, &e);

	if (rc)
		fail_msg("%s", rc == -EDEADLK ? "nothing can happen any more" : e.msg);
}

/* p stages of F 300 and B 700, m micro-batches, no communication but the rings. */
static void plain(struct vpipe *p, int stages, int m, int replicas)
{
	*p = (struct vpipe){ .schedule = { SCHED_1F1B, stages, m, 1 }, .warmup_steps = 1, .steps = 2,
			     .timeline = TIMELINE_FULL, .replicas = replicas };
	for (int i = 0; i < stages; i++) {
		p->duration[i][OP_FORWARD] = 300;
		p->duration[i][OP_BACKWARD] = 700;
		p->ring_latency[i] = 40;
		p->ring_serialisation[i] = 100;
		p->worker[i] = i;
	}
}

/* The pipeline's own time, then 2 (D - 1) rounds of latency and transfer. */
static void by_hand(void **state)
{
	struct vpipe *p = malloc(sizeof(*p));

	for (int d = 1; d <= REPLICAS_MAX; d++)
		for (int tcp = 0; tcp < 2; tcp++) {
			int64_t start, end;
			struct vnet *v;

			plain(p, 3, 4, d);
			for (int i = 0; i < 3; i++)
				p->ring_tcp[i] = tcp;
			v = vnet_create(p);
			run(v);
			for (int step = -1; step < 2; step++) {
				vnet_step(v, step, &start, &end);
				assert_int_equal(end - start, (4 + 3 - 1) * 1000 + 2 * (d - 1) * 140);
				assert_int_equal(start, START + (step + 1) * (end - start));
			}
			vnet_destroy(v);
		}
	free(p);
}

static void every_round_is_recorded(void **state)
{
	struct vpipe *p = malloc(sizeof(*p));
	struct vnet *v;

	plain(p, 2, 4, 4);
	v = vnet_create(p);
	run(v);
	for (int w = 0; w < vnet_n_workers(v); w++) {
		const struct timeline *t = engine_timeline(vnet_engine(v, w));
		int received = 0;

		for (size_t i = 0; i < t->n_ops; i++) {
			if (t->ops[i].kind != WORKER_RECV_REDUCE)
				continue;
			assert_int_equal(t->ops[i].micro_batch, received++ % 6);
			assert_int_equal(t->ops[i].end - t->ops[i].start, 140);
		}
		assert_int_equal(received, 3 * 6);
	}
	vnet_destroy(v);
	free(p);
}

/* ---- random jobs against the simulator ---- */

static void random_job(struct bace_rng *rng, enum schedule_kind kind, struct vpipe *p)
{
	int n = 1 + (int)bace_rng_below(rng, STAGES_MAX), m = 1 + (int)bace_rng_below(rng, 8);
	int chunks = kind == SCHED_INTERLEAVED_1F1B ? 2 : 1;

	*p = (struct vpipe){ .schedule = { kind, n, chunks > 1 ? n * (1 + m % 2) : m, chunks }, .warmup_steps = 0,
		.steps = 1, .timeline = TIMELINE_OPS, .replicas = 2 + (int)bace_rng_below(rng, REPLICAS_MAX - 1),
		.slower = 2 * (int64_t)bace_rng_below(rng, 200) };
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < 3; k++)
			p->duration[i][k] = (1 + (int64_t)bace_rng_below(rng, 5000)) * chunks;
		if (kind != SCHED_ZB_H1)
			p->duration[i][OP_WEIGHT] = 0;
		p->tcp[i] = bace_rng_below(rng, 2);
		p->ring_tcp[i] = bace_rng_below(rng, 2);
		p->ring_latency[i] = (int64_t)bace_rng_below(rng, 4000);
		p->ring_serialisation[i] = (int64_t)bace_rng_below(rng, 4000);
		p->worker[i] = (int)bace_rng_below(rng, 2) ? i : 0;
		p->latency[i][0] = p->latency[i][1] = (int64_t)bace_rng_below(rng, 4000);
		p->serialisation[i][0] = p->serialisation[i][1] = (int64_t)bace_rng_below(rng, 4000);
	}
	for (int h = 0; h < n; h++)
		if (p->worker[h] == p->worker[(h + 1) % n])
			p->tcp[h] = false;
	/* Of a worker that plays no stage there is none. */
	for (int i = 0, used = 0; i < n; i++)
		p->worker[i] = p->worker[i] ? ++used : 0;
}

static double simulate(const struct vpipe *p)
{
	double t[REPLICAS_MAX][3][STAGES_MAX], hop[2][STAGES_MAX], ring[2][STAGES_MAX];
	struct shared_pipeline jobs[REPLICAS_MAX];
	struct shared_result out[REPLICAS_MAX];
	struct bace_err e;

	for (int r = 0; r < p->replicas; r++) {
		for (int i = 0; i < p->schedule.stages; i++) {
			for (int k = 0; k < 3; k++)
				t[r][k][i] = (double)(p->duration[i][k] + r * p->slower);
			hop[0][i] = (double)p->latency[i][0];
			hop[1][i] = (double)p->serialisation[i][0];
			ring[0][i] = (double)p->ring_latency[i];
			ring[1][i] = (double)p->ring_serialisation[i];
		}
		jobs[r] = (struct shared_pipeline){ .p = { .schedule = p->schedule, .tf = t[r][0], .tb = t[r][1],
			.tw = p->schedule.kind == SCHED_ZB_H1 ? t[r][2] : NULL, .fwd_latency = hop[0],
			.rev_latency = hop[0], .fwd_serialisation = hop[1], .rev_serialisation = hop[1] },
			.replicas = p->replicas, .replica = r, .ring_latency = ring[0], .ring_serialisation = ring[1] };
	}
	if (pipelines_simulate_shared(p->replicas, jobs, 0, 0, 1, out, &e))
		fail_msg("%s", e.msg);
	for (int r = 1; r < p->replicas; r++)
		assert_true(out[r].first_step == out[0].first_step);
	return out[0].first_step;
}

static void equals_simulator(void **state)
{
	struct vpipe *p = malloc(sizeof(*p));
	struct bace_rng rng;

	bace_rng_init(&rng, 21, 0);
	for (int i = 0; i < RANDOM_JOBS; i++) {
		int64_t start, end;
		struct vnet *v;

		random_job(&rng, (enum schedule_kind)(i % 5), p);
		v = vnet_create(p);
		run(v);
		vnet_step(v, 0, &start, &end);
		assert_int_equal(end - start, llround(simulate(p)));
		vnet_destroy(v);
	}
	free(p);
}

/* Paced rings do not add up what a host is late. */
static void lateness_does_not_accumulate(void **state)
{
	struct vpipe *p = malloc(sizeof(*p));
	int64_t start, end;
	struct vnet *v;

	plain(p, 3, 4, 4);
	v = vnet_create(p);
	vnet_host_is_late(v, 31, 20, 5);
	run(v);
	for (int step = -1; step < 2; step++) {
		vnet_step(v, step, &start, &end);
		assert_int_equal(end - start, 6 * 1000 + 6 * 140);
	}
	vnet_destroy(v);
	free(p);
}

/* ---- what goes wrong ---- */

static bool change_round(void *arg, int hop, struct message *m)
{
	if (m->kind == MESSAGE_REDUCE && m->step == 0 && m->micro_batch == 1)
		m->micro_batch = 2;
	return false;
}

static bool lose_round(void *arg, int hop, struct message *m)
{
	return m->kind == MESSAGE_REDUCE && m->step == 1 && m->micro_batch == 0;
}

static void a_wrong_round(void **state)
{
	struct vpipe *p = malloc(sizeof(*p));
	struct bace_err e = { 0 };
	struct vnet *v;

	plain(p, 2, 2, 3);
	v = vnet_create(p);
	vnet_meddle_with(v, change_round, NULL);
	assert_int_equal(vnet_run(v, START, &e), -EPROTO);
	assert_non_null(strstr(e.msg, "step 0: wanted round 1 of step 0, got round 2 of step 0"));
	vnet_destroy(v);
	free(p);
}

static void a_lost_round(void **state)
{
	struct vpipe *p = malloc(sizeof(*p));
	struct bace_err e = { 0 };
	struct vnet *v;

	plain(p, 1, 2, 2);
	v = vnet_create(p);
	vnet_meddle_with(v, lose_round, NULL);
	assert_int_equal(vnet_run(v, START, &e), -EDEADLK);
	assert_int_equal(engine_waited(vnet_engine(v, 1), 2000000000, &e), -ETIMEDOUT);
	assert_string_equal(e.msg, "ring 0 step 1: round 1 of 2 did not come from replica 0 within 2.0 s");
	vnet_destroy(v);
	free(p);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_hand), cmocka_unit_test(every_round_is_recorded), cmocka_unit_test(equals_simulator),
		cmocka_unit_test(lateness_does_not_accumulate), cmocka_unit_test(a_wrong_round),
		cmocka_unit_test(a_lost_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
