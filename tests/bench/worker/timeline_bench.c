/* Nanoseconds that an event of a rank's timeline costs: a record written, beside
 * a clock read and a system call of this machine. Asserts nothing. */
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "workloads/worker/timeline.h"
#include "tests/bench/table.h"

#define MICRO_BATCHES 50000
#define ROUNDS 7
#define CALLS 10000

static double least(double a, double b)
{
	return a < b ? a : b;
}

int main(void)
{
	struct worker_stage_spec stage = { .duration_ns = { 1, 2, 0 } };
	struct worker_spec s = { .schedule = { SCHED_1F1B, 1, MICRO_BATCHES, 1 }, .timeline = TIMELINE_FULL,
		.steps = 2, .n_stages = 1, .stages = &stage };
	double add = 1e18, clock_ns = 1e18, call = 1e18;
	struct timeline t;
	struct bace_err e;

	if (timeline_init(&t, &s, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	for (int r = 0; r < ROUNDS; r++) {
		int64_t at[4];

		t.n_ops = 0;
		at[0] = bace_mono_ns();
		for (size_t i = 0; i < t.cap_ops; i++)
			timeline_add(&t, &(struct op_record){ .step = (int32_t)i, .start = at[0], .end = (int64_t)i });
		at[1] = bace_mono_ns();
		for (size_t i = 0; i < t.cap_ops; i++)
			at[3] = bace_mono_ns();
		at[2] = bace_mono_ns();
		for (int i = 0; i < CALLS; i++)
			syscall(SYS_getppid);
		at[3] = bace_mono_ns();
		add = least(add, (double)(at[1] - at[0]) / (double)t.cap_ops);
		clock_ns = least(clock_ns, (double)(at[2] - at[1]) / (double)t.cap_ops);
		call = least(call, (double)(at[3] - at[2]) / CALLS);
	}
	table_head("timeline: an event of a worker");
	table_row("keep an event (a clock read)", "ns", figure_one(add), figure_one(clock_ns), (struct asked){ ASKED_MOST, 1000 });
	table_row("keep an event (a system call)", "ns", figure_one(add), figure_one(call), (struct asked){ 0 });
	timeline_free(&t);
	return 0;
}
