/*
 * Hosts of several machines, as far as one kernel can play them: agents in time
 * namespaces, whose CLOCK_MONOTONIC is far from ours, and with a boot id of their
 * own. What comes back is by one clock, within the uncertainty that is said.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/control/fixture.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#define SKIP 77
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define HOSTS 3
#define S 1000000000ll

/* The second is on the first's machine, to which this program belongs. */
static const int64_t ahead_s[HOSTS] = { 0, 0, 123456 };

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), rc;

	if (fd < 0)
		return -1;
	rc = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
	close(fd);
	return rc;
}

static int become_root(void)
{
	char map[64];
	uid_t uid = geteuid();

	snprintf(map, sizeof(map), "0 %u 1\n", (unsigned)uid);
	return !uid ? 0 : unshare(CLONE_NEWUSER) || write_text("/proc/self/uid_map", map);
}

/* This process's clock from now on is so far ahead, and its boot id another. */
static int become_machine(const char *boot_id_path, int64_t seconds)
{
	char text[64];
	int fd;

	snprintf(text, sizeof(text), "monotonic %lld 0\n", (long long)seconds);
	if (become_root() || unshare(CLONE_NEWNS | CLONE_NEWTIME) || write_text("/proc/self/timens_offsets", text) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount(boot_id_path, BOOT_ID, NULL, MS_BIND, NULL))
		return -1;
	fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -1 : setns(fd, CLONE_NEWTIME);
}

static void boot_id_path(const struct world *w, char path[128])
{
	snprintf(path, 128, "%s/boot_id", w->dir);
}

static void be_a_machine(const struct world *w, int i)
{
	char path[128];

	boot_id_path(w, path);
	if (ahead_s[i] && become_machine(path, ahead_s[i]))
		_exit(126);
}

/* In a process of its own; what is refused here once is refused always. */
static bool can_be_a_machine(void)
{
	int status;
	pid_t child = fork();

	if (!child) {
		char path[] = "/tmp/bace-test-machines-XXXXXX";
		int fd = mkstemp(path), rc = fd < 0 || become_machine(path, 1000);

		unlink(path);
		_exit(rc ? SKIP : 0);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

static void machines_open(struct world *w)
{
	char path[128];

	world_open(w, HOSTS);
	w->machine = be_a_machine;
	boot_id_path(w, path);
	assert_int_equal(write_text(path, "00000000-0000-4000-8000-000000000002\n"), 0);
	world_agents(w);
}

static void machines_close(struct world *w)
{
	char path[128];

	boot_id_path(w, path);
	unlink(path);
	world_close(w);
}

/* Of a host, as the inventory has it. */
static int64_t said(const struct world *w, const char *host, const char *key, char source[64])
{
	CLEANUP_FREE char *text = NULL;
	struct bace_err e = { 0 };
	json_t *j, *clock;
	int64_t v;

	if (controller_inventory(w->controller, &text, &e))
		fail_msg("%s", e.msg);
	j = json_loads(text, 0, NULL);
	clock = json_object_get(json_object_get(j, host), "clock");
	assert_true(json_is_integer(json_object_get(clock, key)));
	v = json_integer_value(json_object_get(clock, key));
	snprintf(source, 64, "%s", json_string_value(json_object_get(clock, "source")));
	json_decref(j);
	return v;
}

static const struct tb_op *find(const struct tb_result *r, int kind, int stage, int step, int micro_batch)
{
	for (int i = 0; i < r->n_ops; i++)
		if (r->ops[i].kind == kind && r->ops[i].stage == stage && r->ops[i].step == step &&
		    r->ops[i].micro_batch == micro_batch)
			return &r->ops[i];
	fail_msg("no operation of kind %d, stage %d, step %d, micro-batch %d", kind, stage, step, micro_batch);
	return NULL;
}

/* Nothing is received before it was made, on whatever machine. */
static void check_order(const struct tb_cell *cell, const struct tb_result *r, int64_t uncertain_ns)
{
	const struct tb_job *j = &cell->jobs[0];

	for (int step = -cell->warmup_steps; step < cell->steps; step++)
		for (int mb = 0; mb < j->micro_batches; mb++)
			for (int i = 0; i + 1 < j->n_stages; i++) {
				const struct tb_op *made = find(r, TB_FORWARD, i, step, mb);
				const struct tb_op *came = find(r, TB_RECV_ACTIVATION, i + 1, step, mb);
				const struct tb_op *next = find(r, TB_FORWARD, i + 1, step, mb);

				assert_true(came->start_ns + uncertain_ns >= made->planned_end_ns);
				assert_true(came->end_ns >= came->start_ns);
				assert_true(next->start_ns >= came->end_ns);
				made = find(r, TB_BACKWARD, i + 1, step, mb);
				came = find(r, TB_RECV_GRADIENT, i, step, mb);
				assert_true(came->start_ns + uncertain_ns >= made->planned_end_ns);
			}
}

static void check_steps(const struct tb_cell *cell, const struct tb_result *r, int64_t uncertain_ns)
{
	const struct tb_job *j = &cell->jobs[0];
	int64_t least = (j->micro_batches + j->n_stages - 1) * (j->stages[0].fwd_ns + j->stages[0].bwd_ns);

	assert_int_equal(r->n_steps, cell->warmup_steps + cell->steps);
	for (int i = 0; i < r->n_steps; i++) {
		int64_t took = r->steps[i].end_ns - r->steps[i].start_ns;

		assert_true(took >= least - uncertain_ns);
		assert_true(took < (int64_t)(cell->timeout_s * 1e9));
		/* A step begins when the one before was to end, which is seen later. */
		if (i)
			assert_true(r->steps[i].start_ns > r->steps[i - 1].start_ns);
	}
}

/* Of three stages the last is on another machine. */
static void a_cell_over_two_machines(void **state)
{
	int64_t before = bace_mono_ns(), uncertain_ns, offset_ns;
	struct bace_err e = { 0 };
	struct tb_cell cell;
	struct tb_result r;
	char source[64];
	struct world w;

	machines_open(&w);
	cell_pipeline(&cell, "machines", HOSTS, 4, 5000000, 50000);
	if (controller_run(w.controller, &cell, &r, &e))
		fail_msg("%s", e.msg);
	if (!r.valid && !strstr(r.invalid_why, "overloaded"))
		fail_msg("invalid: %s", r.invalid_why);
	uncertain_ns = said(&w, "h2", "uncertainty_ns", source);
	assert_string_equal(source, "least round trip");
	offset_ns = said(&w, "h2", "offset_ns", source);
	print_message("h2's clock: %+.6f s, uncertain by %.3f ms\n", (double)offset_ns / 1e9, (double)uncertain_ns / 1e6);
	/* It is one crystal: what is known by now is only better than what was. */
	assert_true(uncertain_ns > 0 && uncertain_ns < S);
	assert_true(llabs(offset_ns - ahead_s[2] * S) <= uncertain_ns);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(said(&w, i ? "h1" : "h0", "offset_ns", source), 0);
		assert_int_equal(said(&w, i ? "h1" : "h0", "uncertainty_ns", source), 0);
		assert_string_equal(source, "same kernel: one clock");
	}
	/* All were told the same moment, each by its own clock. */
	assert_true(r.barrier_spread_ns < (int64_t)(cell.timeout_s * 1e9));
	check_order(&cell, &r, 2 * uncertain_ns);
	check_steps(&cell, &r, 2 * uncertain_ns);
	for (int i = 0; i < r.n_ops; i++)
		assert_true(r.ops[i].start_ns + 2 * uncertain_ns >= before && r.ops[i].end_ns <= bace_mono_ns() + 2 * uncertain_ns);
	tb_result_free(&r);
	cell_release(&cell);
	machines_close(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_cell_over_two_machines) };

	if (fixture_args(argc, argv))
		return 2;
	if (!can_be_a_machine()) {
		printf("skipped: time namespaces are refused here\n");
		return SKIP;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
