/* What an event costs a rank: some stores. No allocation, no system call: of the
 * timeline, and of all that a step is made of but sockets and clock. */
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "workloads/worker/engine.h"
#include "workloads/worker/timeline.h"

#define SKIP 77

static int n_allocations;

/* skip() alone counts as passed, and nobody is told. */
static void skip_without_seccomp(const char *test)
{
	printf("skipped in part: %s: strict seccomp is refused here\n", test);
	fflush(stdout);
	skip();
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
	n_allocations++;
	return __real_malloc(n);
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
	n_allocations++;
	return __real_calloc(n, size);
}

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n)
{
	n_allocations++;
	return __real_realloc(p, n);
}

static struct worker_stage_spec stage = { .duration_ns = { 1, 2, 0 } };

static void make(struct timeline *t, int micro_batches)
{
	static struct worker_spec s;
	struct bace_err e;

	s = (struct worker_spec){ .schedule = { SCHED_1F1B, 1, micro_batches, 1 }, .timeline = TIMELINE_FULL,
		.warmup_steps = 1, .steps = 4, .n_stages = 1, .stages = &stage };
	if (timeline_init(t, &s, &e))
		fail_msg("%s", e.msg);
}

static void fill(struct timeline *t)
{
	for (size_t i = 0; i < t->cap_ops; i++)
		timeline_add(t, &(struct op_record){ .step = (int32_t)i, .kind = WORKER_FORWARD, .start = (int64_t)i,
						     .end = (int64_t)i + 1, .third = (int64_t)i + 2 });
}

static void has_room_for_a_whole_run(void **state)
{
	struct timeline t;

	make(&t, 100);
	/* F and B, with what each could receive and send; 5 steps. */
	assert_int_equal(t.cap_ops, 5 * 100 * 2 * 3);
	fill(&t);
	assert_int_equal(t.n_ops, t.cap_ops);
	assert_int_equal(t.ops[t.n_ops - 1].third, t.n_ops + 1);
	timeline_free(&t);
}

static void adds_without_allocating(void **state)
{
	struct timeline t;
	int before;

	make(&t, 20000);
	assert_true(n_allocations > 0);
	before = n_allocations;
	fill(&t);
	assert_int_equal(n_allocations, before);
	timeline_free(&t);
}

/* A process that may call nothing but read, write and exit adds them all. */
static void adds_without_a_system_call(void **state)
{
	struct timeline t;
	int status;
	pid_t child;

	make(&t, 20000);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
			_exit(SKIP);
		fill(&t);
		syscall(SYS_exit, t.n_ops == t.cap_ops ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIP)
		skip_without_seccomp(__func__);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	timeline_free(&t);
}

/* ---- a whole rank's engine, its stages joined in-process ---- */

enum { STAGES = 4, MICRO_BATCHES = 8, STEPS = 200 };

static int never_sends(void *arg, int hop, const struct message *m, struct bace_err *e)
{
	abort();
}

static void play(struct engine *en, bool to_the_end)
{
	struct bace_err e;

	while (!engine_done(en) && (to_the_end || engine_step_at(en, 0) < 0))
		if (engine_advance(en, engine_deadline(en), &e))
			abort();
}

/* The measured part of a run allocates nothing and calls nothing, whatever the
 * schedule, with every event recorded. */
static void runs_without_either(void **state)
{
	for (int kind = SCHED_GPIPE; kind <= SCHED_ZB_H1; kind++) {
		struct worker_stage_spec stages[STAGES];
		struct worker_hop_spec hops[STAGES];
		struct worker_spec s = { .schedule = { (enum schedule_kind)kind, STAGES, MICRO_BATCHES, 1 + (kind == SCHED_INTERLEAVED_1F1B) },
			.overlap = true, .shared_clock = true, .timeline = TIMELINE_FULL, .warmup_steps = 1, .steps = STEPS,
			.n_stages = STAGES, .stages = stages, .n_hops = STAGES - (kind != SCHED_INTERLEAVED_1F1B), .hops = hops };
		struct engine_io io = { .send = never_sends };
		struct compute *compute;
		struct engine *en = NULL;
		struct bace_err e;
		int status;
		pid_t child;

		for (int i = 0; i < STAGES; i++) {
			stages[i] = (struct worker_stage_spec){ .stage = i, .duration_ns = { 20, 40, 10 } };
			hops[i] = (struct worker_hop_spec){ .hop = i, .kind = HOP_LOCAL, .role = HOP_INTERNAL, .bytes = 64,
							    .latency_ns = 7 };
		}
		if (compute_timed(&s, &compute, &e) || engine_create(&s, &io, compute, &en, &e) || engine_go(en, 1000, &e))
			fail_msg("%s", e.msg);
		play(en, false);
		n_allocations = 0;
		child = fork();
		assert_true(child >= 0);
		if (!child) {
			if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
				_exit(SKIP);
			play(en, true);
			syscall(SYS_exit, n_allocations ? 1 : 0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		engine_destroy(en);
		compute->ops->destroy(compute);
		if (WIFEXITED(status) && WEXITSTATUS(status) == SKIP)
			skip_without_seccomp(__func__);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(has_room_for_a_whole_run), cmocka_unit_test(adds_without_allocating),
		cmocka_unit_test(adds_without_a_system_call), cmocka_unit_test(runs_without_either),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
