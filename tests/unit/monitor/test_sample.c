/* Agents on loopback with true workers: what is sampled reaches the view. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "harness/control/monitor.h"
#include "tests/unit/control/fixture.h"

static struct tb_monitor all_sources(int period_ms)
{
	struct tb_monitor m = { .push_ms = 10, .probe_packets = 16 };

	for (int i = 0; i < TB_SOURCES; i++)
		m.period_ms[i] = period_ms;
	return m;
}

/* What the script's two switches say that monitoring took in between. */
static void check_use(const struct tb_acted *on, const struct tb_acted *off)
{
	assert_int_equal(off->n_hosts, 2);
	assert_true(off->settled_ns >= off->began_ns);
	assert_true(off->samples >= on->samples + 20);
	assert_int_equal(off->dropped, 0);
	assert_true(off->cpu_ns > on->cpu_ns);
	assert_true(off->wire_bytes > on->wire_bytes);
	/* Whole trains: 16 packets of 1514 bytes. */
	assert_true(off->probe_bytes > on->probe_bytes);
	assert_int_equal((off->probe_bytes - on->probe_bytes) % (16 * 1514), 0);
	assert_true(off->rss_max_bytes > 1 << 20);
}

/* Two ranks in two regions: their sockets are seen, and nobody else's; probes go
 * both ways; the agents' own use is told. */
static void test_sources(void **state)
{
	struct tb_action acts[] = { { .kind = TB_ACT_MONITOR, .at_s = 0.05, .on = true },
				    { .kind = TB_ACT_RATE, .at_s = 0.06, .src = 0, .dst = 1 },
				    { .kind = TB_ACT_RATE, .at_s = 0.07, .src = 1, .dst = 0 },
				    { .kind = TB_ACT_MONITOR, .at_s = 0.9 } };
	struct tb_script script = { .monitor = all_sources(20), .n = 4, .actions = acts };
	int seen[TB_METHODS] = { 0 };
	struct tb_view_link view[4];
	struct bace_err e = { 0 };
	struct tb_result r;
	struct tb_cell cell;
	struct world w;

	world_open(&w, 2);
	world_agents(&w);
	cell_pipeline(&cell, "watched", 2, 20, 5000000, 200000);
	cell.script = &script;
	if (controller_run(w.controller, &cell, &r, &e))
		fail_msg("%s", e.msg);
	if (!r.valid && !strstr(r.invalid_why, "overloaded"))
		fail_msg("%s", r.invalid_why);
	assert_int_equal(r.log.n_acted, 4);
	for (int i = 0; i < r.log.n_estimates; i++) {
		assert_true(r.log.estimates[i].rate_bps > 0);
		assert_true(r.log.estimates[i].src != r.log.estimates[i].dst);
		seen[r.log.estimates[i].method]++;
	}
	assert_int_equal(seen[TB_COUNTERS], 0);		/* nothing is shaped here */
	assert_true(seen[TB_TCP_INFO] > 0);
	assert_true(seen[TB_PROBE] > 0);
	const struct tb_acted *off = &r.log.acted[3];

	check_use(&r.log.acted[0], off);
	assert_int_equal(controller_view(w.controller, view, &e), 0);
	assert_false(view[0].known);
	assert_true(view[1].known && view[2].known && view[1].capacity_bps > 0 && view[1].age_s >= 0);
	/* Off is off. */
	struct tb_log log;
	struct tb_action idle = { .kind = TB_ACT_MONITOR, .at_s = 0.2 };

	assert_int_equal(controller_script(w.controller, &(struct tb_script){ .n = 1, .actions = &idle }, &log, &e), 0);
	assert_int_equal(log.acted[0].samples, off->samples);
	assert_int_equal(log.acted[0].probe_bytes, off->probe_bytes);
	tb_log_free(&log);
	/* A look says what its own probes found, and nothing of a link that none crossed. */
	assert_int_equal(controller_look(w.controller, 1, view, &e), 0);
	for (int i = 1; i < 3; i++)
		assert_true(view[i].known && view[i].method == TB_PROBE && view[i].capacity_bps > 0);
	world_kill_agent(&w, 1, SIGKILL);
	usleep(500000);		/* until that is known */
	assert_int_equal(controller_look(w.controller, 1, view, &e), 0);
	for (int i = 0; i < 4; i++)
		assert_false(view[i].known);
	assert_int_equal(controller_view(w.controller, view, &e), 0);
	assert_true(view[1].known && view[2].known);
	tb_result_free(&r);
	cell_release(&cell);
	world_close(&w);
}

/* The known slowdown: steps with compute stretched by half take longer by half of
 * their compute. */
static void test_stretch(void **state)
{
	/* The second one only keeps the script going: its end puts everything back. */
	struct tb_action acts[] = { { .kind = TB_ACT_MONITOR, .at_s = 0, .stretch_ppm = 500000 },
				    { .kind = TB_ACT_MONITOR, .at_s = 3, .stretch_ppm = 500000 } };
	struct tb_script script = { .n = 2, .actions = acts };
	struct bace_err e = { 0 };
	struct tb_result r;
	struct tb_cell cell;
	struct world w;

	world_open(&w, 1);
	world_agents(&w);
	cell_pipeline(&cell, "stretched", 1, 4, 10000000, 1000);	/* 4 (10 + 20) ms */
	cell.script = &script;
	cell.steps = 6;
	assert_int_equal(controller_run(w.controller, &cell, &r, &e), 0);
	for (int i = 0; i < r.n_steps; i++)
		if (r.steps[i].step == cell.steps - 1)
			assert_int_equal(r.steps[i].compute_ns, 180000000);
	tb_result_free(&r);
	cell_release(&cell);
	world_close(&w);
}

static void test_bad_scripts(void **state)
{
	const struct tb_action bad[] = { { .kind = TB_ACT_RATE, .src = 0, .dst = 7 }, { .at_s = -1 },
					 { .stretch_ppm = 2000000 } };
	struct bace_err e = { 0 };
	struct tb_log log;
	struct world w;

	world_open(&w, 1);
	world_agents(&w);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct tb_action a = bad[i];

		assert_int_equal(controller_script(w.controller, &(struct tb_script){ .n = 1, .actions = &a },
						   &log, &e), -EINVAL);
	}
	/* What an agent refuses comes back as its own words. */
	assert_int_equal(controller_monitor(w.controller, &(struct tb_monitor){ .period_ms = { 5 } }, &e), -EPROTO);
	assert_non_null(strstr(e.msg, "link must be an integer from 10 to 600000"));
	world_close(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sources), cmocka_unit_test(test_stretch),
					    cmocka_unit_test(test_bad_scripts) };
	int rc = fixture_args(argc, argv);

	return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
