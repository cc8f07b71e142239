/* What fails in the middle: the cell is invalid and says why, nothing is left,
 * the next cell runs. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/control/fixture.h"

static void expect_invalid(struct world *w, const struct tb_cell *cell, const char *why)
{
	struct bace_err e = { 0 };
	struct tb_result r;

	if (controller_run(w->controller, cell, &r, &e))
		fail_msg("%s", e.msg);
	if (r.valid)
		fail_msg("valid, though %s", why);
	if (!strstr(r.invalid_why, why))
		fail_msg("invalid because `%s', not `%s'", r.invalid_why, why);
	tb_result_free(&r);
}

static void expect_valid(struct world *w)
{
	struct bace_err e = { 0 };
	struct tb_cell cell;
	struct tb_result r;

	cell_pipeline(&cell, "after", w->topo.n_hosts, 2, 5000000, 1000);
	if (controller_run(w->controller, &cell, &r, &e))
		fail_msg("%s", e.msg);
	/* This machine may be busy with something else; all the rest must be right. */
	if (!r.valid && !strstr(r.invalid_why, "overloaded"))
		fail_msg("invalid: %s", r.invalid_why);
	tb_result_free(&r);
	cell_release(&cell);
}

static void expect_no_children(struct world *w)
{
	pid_t pids[16];

	for (int i = 0; i < w->topo.n_hosts; i++)
		if (w->agents[i])
			assert_int_equal(world_children(w, i, pids, 16), 0);
}

/* A cell of about twelve seconds; faults come well within it. */
static void long_cell(struct tb_cell *c)
{
	cell_pipeline(c, "long", 3, 8, 100000000, 1000);
}

static void kill_worker(void *arg)
{
	struct world *w = arg;
	pid_t pid;

	if (world_children(w, 1, &pid, 1) == 1)
		kill(pid, SIGKILL);
}

static void test_worker_killed(void **state)
{
	struct world w;
	struct tb_cell cell;
	struct later *l;

	world_open(&w, 3);
	world_agents(&w);
	long_cell(&cell);
	l = later_at_work(&w, 1, 0.7, kill_worker, &w);
	expect_invalid(&w, &cell, "rank 1 (long, stage 1) on h1: killed by signal 9");
	later_join(l);
	expect_no_children(&w);
	expect_valid(&w);
	cell_release(&cell);
	world_close(&w);
}

static void pause_worker(void *arg)
{
	struct world *w = arg;
	pid_t pid;

	if (world_children(w, 1, &pid, 1) != 1)
		return;
	kill(pid, SIGSTOP);
	/* The agent is told, where it gets the CPU before it goes on. */
	usleep(1000000);
	kill(pid, SIGCONT);
}

/* It goes on, and ends well; what it measured is not of the links. */
static void test_worker_paused(void **state)
{
	struct world w;
	struct tb_cell cell;
	struct later *l;

	world_open(&w, 3);
	world_agents(&w);
	cell_pipeline(&cell, "long", 3, 4, 50000000, 1000);
	l = later_at_work(&w, 1, 0.7, pause_worker, &w);
	expect_invalid(&w, &cell, "rank 1 (long, stage 1) on h1: was stopped for a while");
	later_join(l);
	cell_release(&cell);
	world_close(&w);
}

static pid_t orphan_candidate;

static void kill_agent(void *arg)
{
	struct world *w = arg;

	orphan_candidate = 0;
	world_children(w, 1, &orphan_candidate, 1);
	world_kill_agent(w, 1, SIGKILL);
}

static void test_agent_killed(void **state)
{
	struct world w;
	struct tb_cell cell;
	struct later *l;

	world_open(&w, 3);
	world_agents(&w);
	long_cell(&cell);
	l = later_at_work(&w, 1, 0.7, kill_agent, &w);
	expect_invalid(&w, &cell, "h1: its agent is gone");
	later_join(l);
	assert_true(orphan_candidate > 0);
	assert_true(pid_gone(orphan_candidate));
	expect_no_children(&w);
	/* Still away: says so, in time. Back: goes on. */
	expect_invalid(&w, &cell, "h1");
	world_agent(&w, 1);
	expect_valid(&w);
	cell_release(&cell);
	world_close(&w);
}

static void stop_agent(void *arg)
{
	world_kill_agent(arg, 1, SIGSTOP);
}

static void test_agent_stopped(void **state)
{
	struct world w;
	struct tb_cell cell;
	struct later *l;
	pid_t pids[4];

	world_open(&w, 3);
	world_agents(&w);
	long_cell(&cell);
	l = later_at_work(&w, 1, 0.7, stop_agent, &w);
	expect_invalid(&w, &cell, "h1: its agent is gone: nothing heard from h1");
	later_join(l);
	/* Its rank went on meanwhile; when it wakes it finds itself without a controller. */
	assert_int_equal(world_children(&w, 1, pids, 4), 1);
	world_kill_agent(&w, 1, SIGCONT);
	assert_true(pid_gone(pids[0]));
	expect_valid(&w);
	expect_no_children(&w);
	cell_release(&cell);
	world_close(&w);
}

/* The controller goes: agents end what they run, and connect to the next one. */
static void test_controller_gone(void **state)
{
	struct bace_err e = { 0 };
	struct world w;
	struct tb_cell cell;
	uint16_t port;
	pid_t pids[4];

	world_open(&w, 2);
	port = controller_port(w.controller);
	world_agents(&w);
	expect_valid(&w);
	controller_close(w.controller);
	assert_int_equal(world_children(&w, 0, pids, 4), 0);
	assert_int_equal(controller_open(&(struct controller_config){ .listen_addr = "127.0.0.1", .port = port,
		.master_key = w.key, .topo = &w.topo }, &w.controller, &e), 0);
	assert_int_equal(controller_wait_hosts(w.controller, 30, &e), 0);
	expect_valid(&w);
	long_cell(&cell);
	cell_release(&cell);
	world_close(&w);
}

static void test_missing(void **state)
{
	struct bace_err e = { 0 };
	struct world w;
	struct tb_cell cell;

	world_open(&w, 3);
	world_agent(&w, 0);
	assert_int_equal(controller_wait_hosts(w.controller, 3, &e), -ETIMEDOUT);
	assert_non_null(strstr(e.msg, "2 of 3 agents"));
	assert_non_null(strstr(e.msg, "h1; h2"));
	long_cell(&cell);
	expect_invalid(&w, &cell, "h1; h2");
	cell_release(&cell);
	world_close(&w);
}

static atomic_bool interrupted;

static bool is_interrupted(void *arg)
{
	return interrupted;
}

static void interrupt(void *arg)
{
	interrupted = true;
}

/* Ctrl-C while a link is measured for a minute: it ends then, and its probes. */
static void test_interrupted(void **state)
{
	struct tb_verify pair = { .src = 0, .dst = 1, .planned_rtt_s = 0.001, .planned_goodput_bps = 1e9 };
	struct bace_err e = { 0 };
	struct tb_view_link view[4];
	struct later *l;
	struct world w;

	world_open(&w, 2);
	controller_close(w.controller);
	interrupted = false;
	assert_int_equal(controller_open(&(struct controller_config){ .listen_addr = "127.0.0.1", .master_key = w.key,
		.topo = &w.topo, .cancelled = is_interrupted }, &w.controller, &e), 0);
	world_agents(&w);
	l = later(0.5, interrupt, NULL);
	assert_int_equal(controller_verify(w.controller, 1, &pair, 60, &e), -ECANCELED);
	later_join(l);
	expect_no_children(&w);
	assert_int_equal(controller_look(w.controller, 60, view, &e), -ECANCELED);
	world_close(&w);
}

/* A second agent of the same name is refused; the first one is not disturbed. */
static void test_same_name(void **state)
{
	struct world w;
	pid_t first;

	world_open(&w, 2);
	world_agents(&w);
	first = w.agents[1];
	world_agent(&w, 1);
	usleep(500000);
	expect_valid(&w);
	world_kill_agent(&w, 1, SIGTERM);
	w.agents[1] = first;
	expect_valid(&w);
	world_close(&w);
}

static void test_unknown_name(void **state)
{
	struct bace_err e = { 0 };
	struct world w;

	world_open(&w, 2);
	world_agent(&w, 0);
	snprintf(w.hosts[1].name, sizeof(w.hosts[1].name), "stranger");
	world_agent(&w, 1);
	snprintf(w.hosts[1].name, sizeof(w.hosts[1].name), "h1");
	assert_int_equal(controller_wait_hosts(w.controller, 3, &e), -ETIMEDOUT);
	assert_non_null(strstr(e.msg, "h1"));
	world_close(&w);
}

static void test_bad_workers(void **state)
{
	static const struct {
		const char *name, *why;
	} cases[] = {
		{ "dies", "ended with status 7: out of luck" },
		{ "dies-badly", "ended with status 7: out of ? luck" },
		/* Only status 1 is of a worker that has said why, in its own words. */
		{ "dies-first", "ended with status 13" },
		{ "garbage", "wrote what is not an event" },
		{ "array", "wrote what is not an event" },
		{ "deep", "wrote what is not an event" },
		{ "binary", "not UTF-8" },
		{ "nul", "not UTF-8" },
		{ "unknown", "unexpected event `surprise'" },
		{ "early-done", "unexpected event `done'" },
		{ "foreign-port", "on h" },
	};
	struct world w;

	world_open(&w, 2);
	w.worker_dir = bad_worker_dir;
	world_agents(&w);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct tb_cell cell;

		cell_pipeline(&cell, cases[i].name, 2, 2, 1000000, 1000);
		expect_invalid(&w, &cell, cases[i].why);
		expect_no_children(&w);
		cell_release(&cell);
	}
	world_close(&w);
}

static void test_silent_worker(void **state)
{
	struct world w;
	struct tb_cell cell;

	world_open(&w, 2);
	w.worker_dir = bad_worker_dir;
	world_agents(&w);
	cell_pipeline(&cell, "silent", 2, 2, 1000000, 1000);
	cell.timeout_s = 2;
	expect_invalid(&w, &cell, "waiting for rank 1 (silent, stage 1) on h1 to start");
	expect_no_children(&w);
	cell_release(&cell);
	world_close(&w);
}

/* Output without end neither fills memory nor keeps the stop away. */
static void test_flood(void **state)
{
	struct bace_err e = { 0 };
	struct tb_result r;
	struct world w;
	struct tb_cell cell;

	world_open(&w, 1);
	w.worker_dir = bad_worker_dir;
	world_agents(&w);
	cell_pipeline(&cell, "flood", 1, 2, 1000000, 1000);
	cell.timeout_s = 10;
	if (controller_run(w.controller, &cell, &r, &e))
		fail_msg("%s", e.msg);
	assert_false(r.valid);
	/* 256 MiB, which takes a busy machine longer than the cell may; not the end of
	 * the agent or of its session. */
	if (!strstr(r.invalid_why, "wrote a line that is too long") && !strstr(r.invalid_why, "gave up after 10.0 s"))
		fail_msg("%s", r.invalid_why);
	tb_result_free(&r);
	expect_no_children(&w);
	check_agent_memory(w.agents[0], "output without end");
	cell_release(&cell);
	world_close(&w);
}

/* What a worker leaves in a session of its own is found and ended. */
static void test_daemon(void **state)
{
	struct world w;
	struct tb_cell cell;
	char path[128];
	int pid = 0;
	FILE *f;

	world_open(&w, 1);
	w.worker_dir = bad_worker_dir;
	snprintf(path, sizeof(path), "%s/pid", w.dir);
	setenv("BACE_TEST_PIDFILE", path, 1);
	world_agents(&w);
	cell_pipeline(&cell, "daemon", 1, 2, 1000000, 1000);
	expect_invalid(&w, &cell, "ended with status 3");
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &pid), 1);
	fclose(f);
	unlink(path);
	assert_true(pid_gone(pid));
	cell_release(&cell);
	world_close(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worker_killed),	cmocka_unit_test(test_worker_paused),
		cmocka_unit_test(test_agent_killed),
		cmocka_unit_test(test_agent_stopped),	cmocka_unit_test(test_controller_gone),
		cmocka_unit_test(test_missing),		cmocka_unit_test(test_same_name),
		cmocka_unit_test(test_unknown_name),	cmocka_unit_test(test_bad_workers),
		cmocka_unit_test(test_silent_worker),	cmocka_unit_test(test_flood),
		cmocka_unit_test(test_daemon),		cmocka_unit_test(test_interrupted),
	};

	return fixture_args(argc, argv) ? 2 : cmocka_run_group_tests(tests, NULL, NULL);
}
