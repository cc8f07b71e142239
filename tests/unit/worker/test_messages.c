/* Messages that are not the ones the schedule wants, what is waited for, and
 * the header that messages begin with. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/worker/virtual.h"

struct meddling {
	int hop;
	enum message_kind kind;
	int32_t step, micro_batch;	/* of the message that is meddled with */
	void (*change)(struct message *m);	/* NULL: it is lost */
};

static bool meddle(void *arg, int hop, struct message *m)
{
	const struct meddling *d = arg;

	if (hop != d->hop || m->kind != d->kind || m->step != d->step || m->micro_batch != d->micro_batch)
		return false;
	if (!d->change)
		return true;
	d->change(m);
	return false;
}

/* 3 stages, a worker each, 4 micro-batches, 10 ns an operation. */
static struct vpipe *three_stages(enum schedule_kind kind)
{
	struct vpipe *p = calloc(1, sizeof(*p));

	*p = (struct vpipe){ .schedule = { kind, 3, 4, 1 }, .overlap = true, .warmup_steps = 1, .steps = 2,
			     .timeline = TIMELINE_OPS };
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3; k++)
			p->duration[i][k] = 10;
		p->worker[i] = i;
		p->tcp[i] = true;
	}
	return p;
}

static int run(struct vpipe *p, struct meddling *d, struct bace_err *e)
{
	struct vnet *v = vnet_create(p);
	int rc;

	*e = (struct bace_err){ 0 };
	vnet_meddle_with(v, meddle, d);
	rc = vnet_run(v, 1000, e);
	/* Lost: say who waits. */
	for (int w = 0; rc == -EDEADLK && w < vnet_n_workers(v); w++) {
		if (engine_done(vnet_engine(v, w)) || w < d->hop)
			continue;
		rc = engine_waited(vnet_engine(v, message_is_forward(d->kind) ? d->hop + 1 : d->hop),
				   2500000000, e);
	}
	vnet_destroy(v);
	free(p);
	return rc;
}

static void expect(struct meddling d, enum schedule_kind kind, int errnum, const char *text)
{
	struct bace_err e;
	int rc = run(three_stages(kind), &d, &e);

	assert_int_equal(rc, -errnum);
	assert_string_equal(e.msg, text);
}

static void other_micro_batch(struct message *m) { m->micro_batch = 3; }
static void other_step(struct message *m) { m->step = 7; }
static void other_chunk(struct message *m) { m->chunk = 1; }
static void other_direction(struct message *m) { m->kind = MESSAGE_GRADIENT; }

static void wrong_message(void **state)
{
	expect((struct meddling){ 0, MESSAGE_ACTIVATION, 0, 1, other_micro_batch }, SCHED_1F1B, EPROTO,
	       "hop 0 step 0: stage 1 wanted the activation of step 0 micro-batch 1 chunk 0, got step 0 "
	       "micro-batch 3 chunk 0");
	expect((struct meddling){ 1, MESSAGE_GRADIENT, 1, 2, other_step }, SCHED_1F1B, EPROTO,
	       "hop 1 step 1: stage 1 wanted the gradient of step 1 micro-batch 2 chunk 0, got step 7 "
	       "micro-batch 2 chunk 0");
	expect((struct meddling){ 1, MESSAGE_ACTIVATION, -1, 0, other_chunk }, SCHED_GPIPE, EPROTO,
	       "hop 1 step -1: stage 2 wanted the activation of step -1 micro-batch 0 chunk 0, got step -1 "
	       "micro-batch 0 chunk 1");
	expect((struct meddling){ 0, MESSAGE_ACTIVATION, 0, 0, other_direction }, SCHED_1F1B, EPROTO,
	       "hop 0 step 0: a message for stage 0, which is not here");
	expect((struct meddling){ 0, MESSAGE_TOKEN, 0, 0, other_step }, SCHED_1F1B, EPROTO,
	       "hop 0 step 0: the end of step 7 came, wanted that of step 0");
}

/* The next one comes in its place, or nothing does. */
static void lost_message(void **state)
{
	expect((struct meddling){ 0, MESSAGE_ACTIVATION, 0, 1, NULL }, SCHED_GPIPE, EPROTO,
	       "hop 0 step 0: stage 1 wanted the activation of step 0 micro-batch 1 chunk 0, got step 0 "
	       "micro-batch 2 chunk 0");
	expect((struct meddling){ 1, MESSAGE_ACTIVATION, 1, 3, NULL }, SCHED_1F1B, ETIMEDOUT,
	       "hop 1 step 1: no activation of micro-batch 3 for stage 2 within 2.5 s");
	expect((struct meddling){ 0, MESSAGE_GRADIENT, -1, 3, NULL }, SCHED_ZB_H1, ETIMEDOUT,
	       "hop 0 step -1: no gradient of micro-batch 3 for stage 0 within 2.5 s");
	expect((struct meddling){ 0, MESSAGE_TOKEN, 0, 0, NULL }, SCHED_1F1B, ETIMEDOUT,
	       "hop 0 step 0: stage 1 did not end the step within 2.5 s");
}

/* A stage that waits for another worker explains those that wait for it. */
static void the_cause_is_named(void **state)
{
	struct vpipe *p = three_stages(SCHED_1F1B);
	struct meddling d = { 1, MESSAGE_GRADIENT, 0, 0, NULL };
	struct bace_err e = { 0 };
	struct vnet *v;

	p->worker[1] = 0;		/* stages 0 and 1 in one worker */
	p->worker[2] = 1;
	p->tcp[0] = false;
	v = vnet_create(p);
	vnet_meddle_with(v, meddle, &d);
	assert_int_equal(vnet_run(v, 0, &e), -EPROTO);
	assert_string_equal(e.msg, "hop 1 step 0: stage 1 wanted the gradient of step 0 micro-batch 0 chunk 0, got "
			    "step 0 micro-batch 1 chunk 0");
	vnet_destroy(v);
	v = vnet_create(p);
	d.micro_batch = 3;
	vnet_meddle_with(v, meddle, &d);
	assert_int_equal(vnet_run(v, 0, &e), -EDEADLK);
	engine_waited(vnet_engine(v, 0), 1000000000, &e);
	assert_string_equal(e.msg, "hop 1 step 0: no gradient of micro-batch 3 for stage 1 within 1.0 s");
	vnet_destroy(v);
	free(p);
}

static int swallow(void *arg, int hop, const struct message *m, bool tell_left, struct bace_err *e)
{
	assert_true(tell_left);
	++*(int *)arg;
	return 0;
}

/* Without overlap a stage is held until its message has left. */
static void not_acknowledged(void **state)
{
	struct vpipe *p = three_stages(SCHED_GPIPE);
	int sent = 0;
	const struct engine_io io = { .send = swallow, .arg = &sent };
	struct compute *c;
	struct engine *en;
	struct vnet *v;
	struct bace_err e;

	p->overlap = false;
	v = vnet_create(p);
	assert_int_equal(compute_timed(vnet_spec(v, 0), &c, &e), 0);
	assert_int_equal(engine_create(vnet_spec(v, 0), &io, c, &en, &e), 0);
	assert_int_equal(engine_go(en, 100, &e), 0);
	assert_int_equal(engine_advance(en, 1000, &e), 0);
	assert_int_equal(sent, 1);
	assert_int_equal(engine_waited(en, 3000000000, &e), -ETIMEDOUT);
	assert_string_equal(e.msg, "hop 0 step -1: a message of stage 0 was not acknowledged within 3.0 s");
	assert_int_equal(engine_left(en, 0, true, 500, &e), 0);
	assert_int_equal(engine_deadline(en), 510);
	assert_int_equal(engine_advance(en, 1000, &e), 0);
	assert_int_equal(sent, 2);
	engine_destroy(en);
	c->ops->destroy(c);
	vnet_destroy(v);
	free(p);
}

/* ---- the timeline ---- */

static void sends_are_recorded_if_asked(void **state)
{
	const struct message m = { .kind = MESSAGE_ACTIVATION, .step = 0, .micro_batch = 2, .made = 5 };

	for (int full = 0; full < 2; full++) {
		struct vpipe *p = three_stages(SCHED_1F1B);
		struct bace_err e;
		const struct op_record *o;
		struct vnet *v;

		p->timeline = full ? TIMELINE_FULL : TIMELINE_OPS;
		v = vnet_create(p);
		assert_int_equal(vnet_run(v, 0, &e), 0);
		engine_sent((struct engine *)vnet_engine(v, 0), 0, &m, 77);
		o = vnet_op(v, WORKER_SEND_ACTIVATION, 0, 0, 0, 2);
		assert_int_equal(o != NULL, full);
		if (o)
			assert_true(o->start == 5 && o->end == 77);
		vnet_destroy(v);
		free(p);
	}
}

static void endless_timeline(void **state)
{
	struct worker_stage_spec stage = { .stage = 0 };
	struct worker_spec s = { .schedule = { SCHED_1F1B, 1, 1000, 1 }, .n_stages = 1, .stages = &stage,
				 .steps = 1000000, .timeline = TIMELINE_OPS };
	struct timeline t;
	struct bace_err e;

	assert_int_equal(timeline_init(&t, &s, &e), -E2BIG);
	assert_non_null(strstr(e.msg, "timeline of"));
}

/* ---- headers ---- */

static struct worker_hop_spec hop_of(enum hop_kind kind, enum hop_role role, uint64_t bytes, int sockets)
{
	return (struct worker_hop_spec){ .hop = 1, .kind = kind, .role = role, .bytes = bytes,
					 .sockets = sockets };
}

static void damaged_header(void **state)
{
	struct worker_spec s = { .job = 4, .schedule = { SCHED_1F1B, 3, 4, 1 } };
	struct worker_hop_spec up = hop_of(HOP_TCP, HOP_CONNECT, 5000, 1);
	struct message m = { .kind = MESSAGE_ACTIVATION, .step = 3, .micro_batch = 2, .made = 99 }, back;
	struct header h;
	struct bace_err e;

	header_fill(&h, &s, &up, &m, 0);
	assert_int_equal(header_check(&h, &s, &up, true, &e), 0);
	header_read(&h, &back);
	assert_true(back.kind == m.kind && back.step == 3 && back.micro_batch == 2 && back.chunk == 0 &&
		    back.made == 99);
	/* Every bit counts. */
	for (size_t bit = 0; bit < sizeof(h) * 8; bit++) {
		struct header bad = h;

		((unsigned char *)&bad)[bit / 8] ^= (unsigned char)(1u << bit % 8);
		assert_int_equal(header_check(&bad, &s, &up, true, &e), -EPROTO);
	}
}

static void strange_header(void **state)
{
	struct worker_spec s = { .job = 4, .schedule = { SCHED_1F1B, 3, 4, 1 } }, other = s;
	struct worker_hop_spec hop = hop_of(HOP_TCP, HOP_CONNECT, 5000, 1), longer = hop, shared = hop;
	struct message m = { .kind = MESSAGE_ACTIVATION, .step = 3 };
	struct header h;
	struct bace_err e;

	other.job = 5;
	header_fill(&h, &other, &hop, &m, 0);
	assert_int_equal(header_check(&h, &s, &hop, true, &e), -EPROTO);
	assert_string_equal(e.msg, "a message of job 5 hop 1, wanted job 4 hop 1");
	longer.bytes = 5001;
	header_fill(&h, &s, &longer, &m, 0);
	assert_int_equal(header_check(&h, &s, &hop, true, &e), -EPROTO);
	assert_string_equal(e.msg, "activation of step 3 micro-batch 0 has 5001 bytes, wanted 5000");
	shared.sockets = 2;
	header_fill(&h, &s, &shared, &m, 1);
	assert_int_equal(header_check(&h, &s, &hop, true, &e), -EPROTO);
	/* From the wrong side. */
	header_fill(&h, &s, &hop, &m, 0);
	assert_int_equal(header_check(&h, &s, &hop, false, &e), -EPROTO);
	assert_string_equal(e.msg, "a message of the wrong kind (activation from stage 1)");
}

static void parts_make_the_whole(void **state)
{
	const uint64_t sizes[] = { 64 * 64, 100000, 100001, WORKER_MESSAGE_MAX };

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		for (int parts = 1; parts <= WORKER_SOCKETS_MAX; parts++) {
			uint64_t sum = 0;

			for (int k = 0; k < parts; k++)
				sum += message_part_bytes(sizes[i], k, parts);
			assert_int_equal(sum, sizes[i]);
		}
	}
	/* A part is never less than its header. */
	assert_int_equal(message_part_bytes(100, 3, 4), WORKER_MESSAGE_MIN);
	struct worker_hop_spec local = hop_of(HOP_LOCAL, HOP_CONNECT, 5000, 1);

	assert_int_equal(message_bytes(&local, MESSAGE_ACTIVATION), WORKER_MESSAGE_MIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_message), cmocka_unit_test(lost_message),
		cmocka_unit_test(the_cause_is_named), cmocka_unit_test(not_acknowledged),
		cmocka_unit_test(sends_are_recorded_if_asked), cmocka_unit_test(endless_timeline),
		cmocka_unit_test(damaged_header), cmocka_unit_test(strange_header),
		cmocka_unit_test(parts_make_the_whole),
	};

	return cmocka_run_group_tests_name("worker-messages", tests, NULL, NULL);
}
