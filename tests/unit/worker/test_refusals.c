/* Messages that are not the ones a schedule wants, or do not come at all; what
 * a header must be. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/worker/virtual.h"

/* What becomes of the n-th message of a kind over a hop. */
struct meddling {
	int hop, n;
	enum message_kind kind;
	bool lose;
	int step, micro_batch, chunk;	/* added to it */
	int seen;
};

static bool meddle(void *arg, int hop, struct message *m)
{
	struct meddling *x = arg;

	if (hop != x->hop || m->kind != x->kind || x->seen++ != x->n)
		return false;
	m->step += x->step;
	m->micro_batch += x->micro_batch;
	m->chunk = (uint8_t)(m->chunk + x->chunk);
	return x->lose;
}

/* A worker a stage, TCP between them. */
static struct vpipe *pipe_of(enum schedule_kind kind, int stages, int micro_batches, int chunks)
{
	struct vpipe *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->schedule = (struct schedule_spec){ kind, stages, micro_batches, chunks };
	p->warmup_steps = 1;
	p->steps = 2;
	p->timeline = TIMELINE_OPS;
	for (int i = 0; i < stages; i++) {
		p->duration[i][OP_FORWARD] = p->duration[i][OP_BACKWARD] = 100;
		p->latency[i][0] = p->latency[i][1] = 10;
		p->tcp[i] = true;
		p->worker[i] = i;
	}
	return p;
}

static void expect_refused(struct vpipe *p, struct meddling x, const char *says)
{
	struct vnet *v = vnet_create(p);
	struct bace_err e = { 0 };

	vnet_meddle_with(v, meddle, &x);
	assert_int_equal(vnet_run(v, 1000, &e), -EPROTO);
	if (!strstr(e.msg, says))
		fail_msg("`%s' does not say `%s'", e.msg, says);
	vnet_destroy(v);
	free(p);
}

static void wrong_step(void **state)
{
	expect_refused(pipe_of(SCHED_1F1B, 3, 4, 1), (struct meddling){ .hop = 0, .kind = MESSAGE_ACTIVATION,
		.n = 5, .step = 1 }, "hop 0 step 0: stage 1 wanted the activation of step 0 micro-batch 1 chunk 0, got "
		"step 1 micro-batch 1 chunk 0");
	expect_refused(pipe_of(SCHED_ZB_H1, 3, 4, 1), (struct meddling){ .hop = 1, .kind = MESSAGE_GRADIENT,
		.step = -1 }, "hop 1 step -1: stage 1 wanted the gradient of step -1 micro-batch 0 chunk 0, got step "
		"-2 micro-batch 0 chunk 0");
}

static void wrong_micro_batch(void **state)
{
	expect_refused(pipe_of(SCHED_GPIPE, 3, 4, 1), (struct meddling){ .hop = 1, .kind = MESSAGE_ACTIVATION,
		.n = 2, .micro_batch = -1 }, "hop 1 step -1: stage 2 wanted the activation of step -1 micro-batch 2 "
		"chunk 0, got step -1 micro-batch 1 chunk 0");
	expect_refused(pipe_of(SCHED_EAGER_1F1B, 3, 4, 1), (struct meddling){ .hop = 0,
		.kind = MESSAGE_GRADIENT, .n = 1, .micro_batch = 7 }, "hop 0 step -1: stage 0 wanted the gradient of "
		"step -1 micro-batch 1 chunk 0, got step -1 micro-batch 8 chunk 0");
}

/* Over the wrap hop stage 0 takes what the last stage made of the chunk before. */
static void wrong_chunk(void **state)
{
	expect_refused(pipe_of(SCHED_INTERLEAVED_1F1B, 2, 2, 2), (struct meddling){ .hop = 1,
		.kind = MESSAGE_ACTIVATION, .chunk = 1 }, "hop 1 step -1: stage 0 wanted the activation of step -1 "
		"micro-batch 0 chunk 0, got step -1 micro-batch 0 chunk 1");
}

static void wrong_end_of_step(void **state)
{
	expect_refused(pipe_of(SCHED_1F1B, 3, 4, 1), (struct meddling){ .hop = 1, .kind = MESSAGE_TOKEN,
		.n = 1, .step = 1 }, "hop 1 step 0: the end of step 1 came, wanted that of step 0");
}

/* Message lost: the receiver says what it waits for. */
static void expect_waits(struct vpipe *p, struct meddling x, int worker, const char *says)
{
	struct vnet *v = vnet_create(p);
	struct bace_err e = { 0 };

	x.lose = true;
	vnet_meddle_with(v, meddle, &x);
	assert_int_equal(vnet_run(v, 1000, &e), -EDEADLK);
	assert_false(engine_done(vnet_engine(v, worker)));
	assert_int_equal(engine_waited(vnet_engine(v, worker), 2500000000, &e), -ETIMEDOUT);
	assert_string_equal(e.msg, says);
	vnet_destroy(v);
	free(p);
}

static void says_what_it_waits_for(void **state)
{
	expect_waits(pipe_of(SCHED_1F1B, 2, 1, 1), (struct meddling){ .hop = 0, .kind = MESSAGE_ACTIVATION,
		.n = 1 }, 1, "hop 0 step 0: no activation of micro-batch 0 for stage 1 within 2.5 s");
	expect_waits(pipe_of(SCHED_1F1B, 2, 1, 1), (struct meddling){ .hop = 0, .kind = MESSAGE_GRADIENT,
		.n = 2 }, 0, "hop 0 step 1: no gradient of micro-batch 0 for stage 0 within 2.5 s");
	expect_waits(pipe_of(SCHED_1F1B, 2, 4, 1), (struct meddling){ .hop = 0, .kind = MESSAGE_TOKEN, .n = 0 },
		0, "hop 0 step -1: stage 1 did not end the step within 2.5 s");
	/* A rank of several stages names the network hop, not what waits behind it. */
	struct vpipe *p = pipe_of(SCHED_1F1B, 3, 1, 1);

	p->worker[1] = 0;
	p->tcp[0] = false;
	p->worker[2] = 1;
	expect_waits(p, (struct meddling){ .hop = 1, .kind = MESSAGE_GRADIENT, .n = 1 }, 0,
		     "hop 1 step 0: no gradient of micro-batch 0 for stage 1 within 2.5 s");
}

static void not_for_a_stage_here(void **state)
{
	struct vpipe *p = pipe_of(SCHED_1F1B, 3, 4, 1);
	struct vnet *v = vnet_create(p);
	struct engine *en = (struct engine *)vnet_engine(v, 1);
	struct bace_err e = { 0 };
	struct message m = { .kind = MESSAGE_GRADIENT, .step = -1 };

	/* Hop 0 brings stage 1 activations; a gradient over it would be stage 0's. */
	assert_int_equal(engine_receive(en, 0, &m, 1000, 1000, &e), -EPROTO);
	assert_non_null(strstr(e.msg, "hop 0 step -1: a message for stage 0, which is not here"));
	vnet_destroy(v);
	free(p);
}

/* A time that no clock of this machine can have been: arithmetic would overflow, or
 * the stage wait for ever. */
static void made_at_no_time(void **state)
{
	static const int64_t bad[] = { INT64_MAX, -1, INT64_MIN, 1000 + 1000ll * 3600 * 1000000000 + 1 };
	struct vpipe *p = pipe_of(SCHED_1F1B, 3, 4, 1);
	struct vnet *v = vnet_create(p);
	struct engine *en = (struct engine *)vnet_engine(v, 1);
	struct bace_err e = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(engine_receive(en, 0, &(struct message){ .kind = MESSAGE_ACTIVATION, .step = -1,
			.made = bad[i] }, 1000, 1000, &e), -EPROTO);
		assert_non_null(strstr(e.msg, "hop 0 step -1: a message that was made at an impossible time"));
	}
	/* A local hop's may well lie ahead. */
	assert_int_equal(engine_receive(en, 0, &(struct message){ .kind = MESSAGE_ACTIVATION, .step = -1,
		.made = 60000000000 }, 1000, 1000, &e), 0);
	vnet_destroy(v);
	free(p);
}

/* A timeline is held in memory and reported whole. */
static void endless_timeline(void **state)
{
	struct worker_stage_spec stage = { 0 };
	struct worker_spec s = { .schedule = { SCHED_INTERLEAVED_1F1B, 1, 1 << 23, 255 }, .n_stages = 1,
		.stages = &stage, .warmup_steps = 1000000, .steps = 1000000, .timeline = TIMELINE_FULL };
	struct timeline t;
	struct bace_err e = { 0 };

	assert_int_equal(timeline_init(&t, &s, &e), -E2BIG);
	assert_non_null(strstr(e.msg, "fewer steps, or timeline \"none\""));
	s.timeline = TIMELINE_NONE;
	assert_int_equal(timeline_init(&t, &s, &e), 0);
	timeline_free(&t);
	s.schedule.micro_batches = s.schedule.chunks = 1;
	s.schedule.kind = SCHED_1F1B;
	s.timeline = TIMELINE_OPS;
	assert_int_equal(timeline_init(&t, &s, &e), -E2BIG);
	s.warmup_steps = 0;
	s.steps = 700000;
	assert_int_equal(timeline_init(&t, &s, &e), 0);
	timeline_free(&t);
}

/* ---- headers ---- */

static const struct worker_hop_spec hop = { .hop = 2, .kind = HOP_TCP, .role = HOP_CONNECT, .bytes = 5000 };
static const struct worker_spec spec = { .job = 4, .schedule = { SCHED_1F1B, 5, 8, 1 } };

static void headers_come_back(void **state)
{
	struct message m = { .kind = MESSAGE_ACTIVATION, .step = -2, .micro_batch = 7, .chunk = 3, .made = 99 };
	struct message got;
	struct header h;
	struct bace_err e = { 0 };

	header_fill(&h, &spec, &hop, &m);
	assert_int_equal(h.bytes, 5000);
	assert_int_equal(header_check(&h, &spec, &hop, true, &e), 0);
	header_read(&h, &got);
	assert_int_equal(got.kind, m.kind);
	assert_int_equal(got.step, m.step);
	assert_int_equal(got.micro_batch, m.micro_batch);
	assert_int_equal(got.chunk, m.chunk);
	assert_int_equal(got.made, m.made);
	/* The end of a step is a header and nothing else. */
	header_fill(&h, &spec, &hop, &(struct message){ .kind = MESSAGE_TOKEN });
	assert_int_equal(h.bytes, WORKER_MESSAGE_MIN);
	assert_int_equal(header_check(&h, &spec, &hop, false, &e), 0);
}

static void expect_bad(const struct header *h, const struct worker_spec *s, const struct worker_hop_spec *at,
		       bool from_below, const char *says)
{
	struct bace_err e = { 0 };

	assert_int_equal(header_check(h, s, at, from_below, &e), -EPROTO);
	if (!strstr(e.msg, says))
		fail_msg("`%s' does not say `%s'", e.msg, says);
}

static void bad_headers(void **state)
{
	struct worker_hop_spec other_hop = hop, other_bytes = hop;
	struct worker_spec other_job = spec, other_cell = spec;
	struct header h, bad;

	header_fill(&h, &spec, &hop, &(struct message){ .kind = MESSAGE_GRADIENT, .step = 3, .micro_batch = 2 });
	/* Any byte of it. */
	for (size_t i = 0; i < sizeof(h); i++) {
		bad = h;
		((unsigned char *)&bad)[i] ^= 0x10;
		expect_bad(&bad, &spec, &hop, false, "damaged");
	}
	expect_bad(&h, &spec, &hop, true, "wrong kind (gradient from stage 3)");
	other_hop.hop = 1;
	expect_bad(&h, &spec, &other_hop, false, "job 4 hop 2, wanted job 4 hop 1");
	other_job.job = 5;
	expect_bad(&h, &other_job, &hop, false, "job 4 hop 2, wanted job 5 hop 2");
	other_cell.token = 1;
	expect_bad(&h, &other_cell, &hop, false, "damaged message, or one of another cell");
	other_bytes.bytes = 5001;
	expect_bad(&h, &spec, &other_bytes, false, "gradient of step 3 micro-batch 2 has 5000 bytes, wanted 5001");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_step), cmocka_unit_test(wrong_micro_batch), cmocka_unit_test(wrong_chunk),
		cmocka_unit_test(wrong_end_of_step), cmocka_unit_test(says_what_it_waits_for),
		cmocka_unit_test(not_for_a_stage_here), cmocka_unit_test(made_at_no_time), cmocka_unit_test(endless_timeline),
		cmocka_unit_test(headers_come_back), cmocka_unit_test(bad_headers),
	};

	return cmocka_run_group_tests_name("worker-refusals", tests, NULL, NULL);
}
