/* The engine, under a virtual clock, does exactly what the simulator says. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "harness/sim/sim.h"
#include "tests/unit/pipeline/vectors.h"
#include "tests/unit/worker/virtual.h"

#define START 1000000007
#define RANDOM_PIPELINES 600
#define P_RANDOM 9

enum split { ONE_WORKER, A_WORKER_A_STAGE, ALTERNATING, BLOCKS, SPLITS };

static void split_stages(struct vpipe *p, enum split split)
{
	int n = p->schedule.stages;

	for (int i = 0; i < n; i++)
		p->worker[i] = split == ONE_WORKER ? 0 : split == A_WORKER_A_STAGE ? i :
			       split == ALTERNATING ? i % 2 : i * 3 / n;
	/* A hop within a worker is in-process. */
	for (int h = 0; h < n; h++)
		if (p->worker[h] == p->worker[(h + 1) % n])
			p->tcp[h] = false;
}

static void run(struct vnet *v)
{
	struct bace_err e = { 0 };
	int rc = vnet_run(v, START, &e);

	if (rc)
		fail_msg("%s", rc == -EDEADLK ? "nothing can happen any more" : e.msg);
}

/* ---- published vectors ---- */

static void fill_vector(const struct vector *x, int64_t unit, struct vpipe *p)
{
	*p = (struct vpipe){ .schedule = { x->schedule, x->p, x->m, 1 }, .warmup_steps = 1,
			     .steps = 2, .timeline = TIMELINE_OPS };
	for (int i = 0; i < x->p; i++) {
		p->duration[i][OP_FORWARD] = llround(x->tf * (double)unit);
		p->duration[i][OP_BACKWARD] = llround(x->tb * (double)unit);
		if (x->hop != ALL && x->hop != i)
			continue;
		for (int d = 0; d < 2; d++) {
			p->latency[i][d] = llround(x->latency * (double)unit);
			p->serialisation[i][d] = llround(x->serialisation * (double)unit);
		}
	}
}

static void check_vector(const struct vector *x, enum split split, bool tcp)
{
	const int64_t unit = 1000;
	struct vpipe *p = malloc(sizeof(*p));
	struct vnet *v;

	fill_vector(x, unit, p);
	for (int h = 0; h < x->p; h++)
		p->tcp[h] = tcp;
	split_stages(p, split);
	v = vnet_create(p);
	run(v);
	for (int step = -1; step < 2; step++) {
		int64_t start, end;

		vnet_step(v, step, &start, &end);
		assert_int_equal(end - start, llround(x->step_time * (double)unit));
		assert_int_equal(start, START + (step + 1) * llround(x->step_time * (double)unit));
	}
	vnet_destroy(v);
	free(p);
}

static void equals_vectors(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++)
		for (int split = 0; split < SPLITS; split++)
			for (int tcp = 0; tcp < 2; tcp++)
				check_vector(&vectors[i], (enum split)split, tcp);
}

/* ---- random pipelines against the simulator, operation by operation ---- */

static int64_t draw(struct bace_rng *rng, int64_t max)
{
	/* A quarter are zero, so that ties and free hops occur. */
	return bace_rng_below(rng, 4) ? (int64_t)bace_rng_below(rng, (uint64_t)max) : 0;
}

static void random_pipe(struct bace_rng *rng, enum schedule_kind kind, struct vpipe *p)
{
	int n = 1 + (int)bace_rng_below(rng, P_RANDOM), m = 1 + (int)bace_rng_below(rng, 12);
	int chunks = kind == SCHED_INTERLEAVED_1F1B ? 2 + (int)bace_rng_below(rng, 2) : 1;

	*p = (struct vpipe){ .schedule = { kind, n, chunks > 1 ? n * (1 + m % 3) : m, chunks },
		.warmup_steps = 1, .steps = 2, .timeline = TIMELINE_OPS };
	for (int i = 0; i < n; i++) {
		/* A chunk's time must be whole. */
		for (int k = 0; k < 3; k++)
			p->duration[i][k] = (1 + draw(rng, 5000)) * chunks;
		p->tcp[i] = bace_rng_below(rng, 2);
		for (int d = 0; d < 2; d++) {
			p->latency[i][d] = draw(rng, 4000);
			p->serialisation[i][d] = draw(rng, 4000);
		}
	}
	split_stages(p, (enum split)bace_rng_below(rng, SPLITS));
	for (int i = 0; i < n; i++) {
		if (p->tcp[i])
			continue;
		p->latency[i][1] = p->latency[i][0];
		p->serialisation[i][1] = p->serialisation[i][0];
	}
	if (kind != SCHED_ZB_H1)
		for (int i = 0; i < n; i++)
			p->duration[i][OP_WEIGHT] = 0;
}

struct compared {
	const struct vnet *v;
	int64_t start;			/* of the step */
	int step;
	int64_t n;
	int64_t clock[P_RANDOM];	/* of the stages: ahead of the network's */
};

static void compare_op(void *arg, const struct timeline_op *t)
{
	struct compared *c = arg;
	const struct op_record *o = vnet_op(c->v, t->kind, t->stage, t->chunk, c->step, t->micro_batch);
	int64_t zero = c->start + c->clock[t->stage];

	assert_non_null(o);
	c->n++;
	if (o->start - zero == llround(t->start) && o->third - zero == llround(t->end))
		return;
	fail_msg("step %d stage %d op %d chunk %d micro-batch %d: %lld to %lld, simulated %.0f to %.0f",
		 c->step, t->stage, t->kind, t->chunk, t->micro_batch, (long long)(o->start - zero),
		 (long long)(o->third - zero), t->start, t->end);
}

/* extra: on top of the latency of hops over TCP. */
static void simulate_with(const struct vpipe *p, int64_t extra, struct compared *c, double *step_time)
{
	double numbers[7][VSTAGES_MAX];
	struct pipeline sim = { .schedule = p->schedule, .tf = numbers[0], .tb = numbers[1], .tw = numbers[2],
		.fwd_latency = numbers[3], .fwd_serialisation = numbers[4], .rev_latency = numbers[5],
		.rev_serialisation = numbers[6], .no_overlap = p->no_overlap };
	struct pipeline_result r = { .on_op = c ? compare_op : NULL, .arg = c };
	struct bace_err e;

	for (int i = 0; i < p->schedule.stages; i++) {
		for (int k = 0; k < 3; k++)
			numbers[k][i] = (double)p->duration[i][k];
		for (int d = 0; d < 2; d++) {
			numbers[3 + 2 * d][i] = (double)(p->latency[i][d] + (p->tcp[i] ? extra : 0));
			numbers[4 + 2 * d][i] = (double)p->serialisation[i][d];
		}
	}
	if (pipeline_simulate(&sim, &r, &e))
		fail_msg("%s", e.msg);
	*step_time = r.step_time;
}

static void simulate(const struct vpipe *p, struct compared *c, double *step_time)
{
	simulate_with(p, 0, c, step_time);
}

static void equals_simulator(void **state)
{
	struct vpipe *p = malloc(sizeof(*p));
	struct bace_rng rng;

	bace_rng_init(&rng, 11, 0);
	for (int i = 0; i < RANDOM_PIPELINES; i++) {
		int64_t last = INT64_MIN;
		struct vnet *v;

		random_pipe(&rng, (enum schedule_kind)(i % 5), p);
		v = vnet_create(p);
		run(v);
		for (int step = -1; step < 2; step++) {
			struct compared c = { .v = v, .step = step };
			int64_t end, ops = 0;
			double want;

			vnet_step(v, step, &c.start, &end);
			simulate(p, &c, &want);
			for (int s = 0; s < p->schedule.stages; s++)
				ops += schedule_n_ops(&p->schedule, s);
			assert_int_equal(c.n, ops);
			assert_int_equal(end - c.start, llround(want));
			/* A step begins only when all stages have ended the one before. */
			assert_true(c.start >= last);
			last = end;
		}
		vnet_destroy(v);
	}
	free(p);
}

/* A stage that is held until its message has left: the same operations at the
 * same times, and steps that are as far apart. */
static void equals_simulator_without_overlap(void **state)
{
	struct vpipe *p = malloc(sizeof(*p));
	struct bace_rng rng;

	bace_rng_init(&rng, 14, 0);
	for (int i = 0; i < RANDOM_PIPELINES; i++) {
		int64_t before = 0;
		struct vnet *v;
		double want;

		random_pipe(&rng, (enum schedule_kind)(i % 5), p);
		p->no_overlap = true;
		for (int h = 0; h < p->schedule.stages; h++)
			p->serialisation[h][1] = p->serialisation[h][0];
		v = vnet_create(p);
		run(v);
		for (int step = -1; step < 2; step++) {
			struct compared c = { .v = v, .step = step };
			int64_t end;

			vnet_step(v, step, &c.start, &end);
			simulate(p, &c, &want);
			assert_true(c.n > 0);
			assert_true(end - c.start <= llround(want));
			/* The last message of a step holds its stage and is part of it. */
			if (step > -1)
				assert_true(c.start - before >= llround(want));
			before = c.start;
		}
		vnet_destroy(v);
	}
	free(p);
}

/* ---- machines with clocks of their own ---- */

/* A message's time is the sender's: only what its receiver saw of it counts. */
static void check_arrivals(const struct vnet *v)
{
	int64_t n = 0;

	for (int w = 0; w < vnet_n_workers(v); w++) {
		const struct timeline *t = engine_timeline(vnet_engine(v, w));

		for (size_t i = 0; i < t->n_ops; i++) {
			const struct op_record *o = &t->ops[i];

			if (o->kind != WORKER_RECV_ACTIVATION && o->kind != WORKER_RECV_GRADIENT)
				continue;
			n++;
			assert_true(o->start <= o->third && o->third <= o->end);
			assert_true(o->start >= START + vnet_clock(v, w));
		}
	}
	assert_true(n > 0 || vnet_n_workers(v) == 1);
}

/* Whole centuries apart, and some ns: the same operations at the same times. */
static void equals_simulator_on_several_machines(void **state)
{
	struct vpipe *p = malloc(sizeof(*p));
	struct bace_rng rng;

	bace_rng_init(&rng, 15, 0);
	for (int i = 0; i < RANDOM_PIPELINES; i++) {
		struct vnet *v;

		random_pipe(&rng, (enum schedule_kind)(i % 5), p);
		p->own_clocks = true;
		for (int s = 0; s < p->schedule.stages; s++)
			p->clock[s] = (int64_t)bace_rng_below(&rng, 1ull << 62);
		/* Hosts of several machines are joined by links. */
		for (int h = 0; h < p->schedule.stages; h++)
			p->tcp[h] = p->worker[h] != p->worker[(h + 1) % p->schedule.stages];
		v = vnet_create(p);
		run(v);
		for (int step = -1; step < 2; step++) {
			struct compared c = { .v = v, .step = step };
			int64_t end;
			double want;

			for (int s = 0; s < p->schedule.stages; s++)
				c.clock[s] = p->clock[p->worker[s]];
			vnet_step(v, step, &c.start, &end);
			simulate(p, &c, &want);
			assert_true(c.n > 0);
			assert_int_equal(end - c.start, llround(want));
		}
		check_arrivals(v);
		vnet_destroy(v);
	}
	free(p);
}

/* ---- a host that is late ---- */

static void lateness_does_not_accumulate(void **state)
{
	struct vpipe *p = malloc(sizeof(*p));
	struct bace_rng rng;

	bace_rng_init(&rng, 12, 0);
	for (int i = 0; i < 100; i++) {
		double want;
		struct vnet *v;

		random_pipe(&rng, (enum schedule_kind)(i % 5), p);
		/* Local hops only: what a network makes late is late. */
		memset(p->tcp, 0, sizeof(p->tcp));
		for (int h = 0; h < p->schedule.stages; h++) {
			p->latency[h][1] = p->latency[h][0];
			p->serialisation[h][1] = p->serialisation[h][0];
		}
		v = vnet_create(p);
		vnet_host_is_late(v, 3001, 2000, (uint64_t)i);
		run(v);
		simulate(p, NULL, &want);
		for (int step = -1; step < 2; step++) {
			int64_t start, end;

			vnet_step(v, step, &start, &end);
			assert_int_equal(end - start, llround(want));
		}
		for (int w = 0; w < vnet_n_workers(v); w++) {
			const struct timeline *t = engine_timeline(vnet_engine(v, w));

			/* Seen late, and said so. */
			for (size_t k = 0; k < t->n_ops; k++)
				if (t->ops[k].kind <= WORKER_WEIGHT)
					assert_true(t->ops[k].end >= t->ops[k].third &&
						    t->ops[k].end % 3001 == 0);
		}
		vnet_destroy(v);
	}
	free(p);
}

/* Over TCP a message does leave late, but that is all: a step takes no longer
 * than if each such hop were one tick longer. */
static void lateness_is_bounded_over_tcp(void **state)
{
	const int64_t tick = 701;
	struct vpipe *p = malloc(sizeof(*p));
	struct bace_rng rng;

	bace_rng_init(&rng, 13, 0);
	for (int i = 0; i < 300; i++) {
		double least, most;
		struct vnet *v;

		random_pipe(&rng, (enum schedule_kind)(i % 5), p);
		v = vnet_create(p);
		vnet_host_is_late(v, tick, 0, 0);
		run(v);
		simulate(p, NULL, &least);
		simulate_with(p, tick, NULL, &most);
		for (int step = -1; step < 2; step++) {
			int64_t start, end;

			vnet_step(v, step, &start, &end);
			assert_true(end - start >= llround(least));
			assert_true(end - start <= llround(most));
		}
		vnet_destroy(v);
	}
	free(p);
}

static void many_stages_in_one_loop(void **state)
{
	struct vpipe *p = calloc(1, sizeof(*p));
	double want;
	int64_t start, end;
	struct vnet *v;

	*p = (struct vpipe){ .schedule = { SCHED_1F1B, 640, 16, 1 }, .warmup_steps = 0,
			     .steps = 1, .timeline = TIMELINE_OPS };
	for (int i = 0; i < 640; i++) {
		p->duration[i][OP_FORWARD] = 20000000;
		p->duration[i][OP_BACKWARD] = 40000000;
		p->latency[i][0] = p->latency[i][1] = 100000;
		p->serialisation[i][0] = p->serialisation[i][1] = 1000000;
	}
	v = vnet_create(p);
	run(v);
	vnet_step(v, 0, &start, &end);
	simulate(p, NULL, &want);
	assert_int_equal(end - start, llround(want));
	vnet_destroy(v);
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_vectors),
		cmocka_unit_test(equals_simulator), cmocka_unit_test(equals_simulator_without_overlap),
		cmocka_unit_test(equals_simulator_on_several_machines),
		cmocka_unit_test(lateness_does_not_accumulate),
		cmocka_unit_test(lateness_is_bounded_over_tcp),
		cmocka_unit_test(many_stages_in_one_loop),
	};

	return cmocka_run_group_tests_name("worker-engine", tests, NULL, NULL);
}
