/* Deadlines of the worker's loop. One that is lost is waited for in vain: the alarm
 * ends the test then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "workloads/worker/loop.h"

#define MS 1000000ll
#define PATIENCE_S 25
#define FAR (3600000 * MS)
/* More than a turn of the loop takes. */
#define FILES 100

static struct loop *loop;

static int setup(void **state)
{
	struct bace_err e;

	alarm(PATIENCE_S);
	return loop_create(&loop, &e);
}

static int teardown(void **state)
{
	loop_destroy(loop);
	alarm(0);
	return 0;
}

static void turn(int64_t until)
{
	struct bace_err e = { 0 };

	if (loop_turn(loop, until, &e))
		fail_msg("%s", e.msg);
}

/* How many turns it took until it was time. */
static int wait_until(int64_t until)
{
	int turns = 0;

	do {
		turn(until);
		turns++;
	} while (loop_now(loop) < until);
	return turns;
}

/* Nothing here would ever end a wait. */
static void test_past(void **state)
{
	turn(INT64_MIN);
	turn(0);
	turn(loop_now(loop));
	turn(loop_look(loop));
}

static void test_deadlines(void **state)
{
	/* What follows after what: each later than the last one, or earlier. */
	static const int64_t ahead[] = { 5 * MS, 9 * MS, 1 * MS, 1, 7 * MS, 2 * MS, 1, 1, 3 * MS };

	for (size_t i = 0; i < ARRAY_LEN(ahead); i++)
		assert_int_equal(wait_until(loop_look(loop) + ahead[i]), 1);
}

struct file {
	struct watch watch;
	int other;			/* end of the pipe */
	int calls;
};

static int count(struct watch *w, uint32_t events, int64_t now, struct bace_err *e)
{
	struct file *f = w->owner;

	assert_int_equal(events, EPOLLIN);
	assert_int_equal(now, loop_now(loop));
	f->calls++;
	return 0;
}

static void make_ready(struct file *f)
{
	struct bace_err e;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	*f = (struct file){ .watch = { .fd = ends[0], .fn = count, .owner = f }, .other = ends[1] };
	assert_int_equal(write(f->other, "x", 1), 1);
	assert_int_equal(loop_watch(loop, &f->watch, EPOLLIN, &e), 0);
}

static void drain(struct file *f)
{
	char c;

	assert_int_equal(read(f->watch.fd, &c, 1), 1);
}

static void drop(struct file *f)
{
	struct bace_err e;

	assert_int_equal(loop_watch(loop, &f->watch, 0, &e), 0);
	close(f->watch.fd);
	close(f->other);
}

/* A deadline that moves: what was armed for the first is left, or is made earlier.
 * Each of them is asked for by a turn that something else ends. */
static void test_moved(void **state)
{
	static const int64_t asked[][3] = {
		{ FAR, 2 * MS, 5 * MS }, { 2 * MS, FAR, 5 * MS }, { 5 * MS, 2 * MS, FAR }, { FAR, FAR, 2 * MS },
		{ 2 * MS, 2 * MS, 2 * MS }, { 1, FAR, 4 * MS }, { 1, FAR, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
		struct file f;
		int64_t now;

		make_ready(&f);
		now = loop_look(loop);
		for (int k = 0; k < 3; k++)
			turn(now + asked[i][k]);
		assert_int_equal(f.calls, 3);
		drain(&f);
		/* One that was left may wake it, once, before it is time. */
		assert_in_range(wait_until(loop_look(loop) + 3 * MS), 1, 2);
		assert_int_equal(wait_until(loop_look(loop) + 3 * MS), 1);
		drop(&f);
	}
}

/* Files that always have something, more than one turn takes, do not keep the timer out. */
static void test_busy(void **state)
{
	struct file *f = calloc(FILES, sizeof(*f));
	int64_t until;

	assert_non_null(f);
	for (int i = 0; i < FILES; i++)
		make_ready(&f[i]);
	for (int round = 0; round < 3; round++) {
		until = loop_look(loop) + MS;
		while (loop_now(loop) < until)
			turn(until);
		for (int k = 0; k < 4; k++)
			turn(until);
	}
	for (int i = 0; i < FILES; i++) {
		assert_true(f[i].calls > 0);
		drain(&f[i]);
	}
	assert_in_range(wait_until(loop_look(loop) + 2 * MS), 1, 2);
	assert_int_equal(wait_until(loop_look(loop) + 2 * MS), 1);
	for (int i = 0; i < FILES; i++)
		drop(&f[i]);
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_past, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deadlines, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_busy, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
