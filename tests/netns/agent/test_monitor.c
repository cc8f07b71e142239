/* Monitoring over shaped links: classes and their backlog are read without
 * privilege at the gateway, a script changes a rate in the kernel and puts it
 * back, probes do not make a cell look as if traffic had bypassed the shaper. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/netns/agent/fixture.h"

static void test_counters_and_probes(void **state)
{
	struct tb_action acts[] = { { .kind = TB_ACT_MONITOR, .at_s = 0.1, .on = true },
				    { .kind = TB_ACT_RATE, .at_s = 0.5, .src = 0, .dst = 1, .rate_bps = 50000000 },
				    { .kind = TB_ACT_MONITOR, .at_s = 3 } };
	struct tb_script script = { .monitor = { .push_ms = 5, .probe_packets = 16 }, .n = 3, .actions = acts };
	int seen[TB_METHODS] = { 0 };
	struct tb_view_link view[9];
	struct world *w = *state;
	struct bace_err e = { 0 };
	struct tb_cell cell;
	struct tb_result r;
	char text[8192];

	script.monitor.period_ms[TB_SRC_CLASS] = script.monitor.period_ms[TB_SRC_TCP] = 10;
	script.monitor.period_ms[TB_SRC_PROBE] = 100;
	cell_across(&cell, 12, 20000000, 200000);
	cell.script = &script;
	expect_valid(w, &cell, &r);
	assert_int_equal(r.log.n_acted, 3);
	for (int i = 0; i < r.log.n_estimates; i++) {
		const struct tb_estimate *x = &r.log.estimates[i];

		/* Only the link that the script changes is followed. */
		assert_int_equal(x->src, 0);
		assert_int_equal(x->dst, 1);
		seen[x->method]++;
	}
	for (int m = 0; m < TB_METHODS; m++)
		assert_true(seen[m] > 0);
	assert_int_equal(controller_view(w->controller, view, &e), 0);
	for (int i = 0; i < 9; i++) {
		if (i / 3 == i % 3)
			continue;
		/* Probes go between all pairs. */
		assert_true(view[i].known && view[i].capacity_bps > 0);
		assert_true(view[i].age_s >= 0);
	}
	/* The rate is as planned again. */
	assert_int_equal(run_in(w, 0, "tc class show dev wan0", text, sizeof(text)), 0);
	assert_non_null(strstr(text, "rate 100Mbit"));
	assert_null(strstr(text, "rate 50Mbit"));
	tb_result_free(&r);
	cell_release(&cell);
}

static void test_rate_changes(void **state)
{
	struct tb_action acts[] = { { .kind = TB_ACT_RATE, .at_s = 0, .src = 1, .dst = 2, .rate_bps = 25000000 },
				    { .kind = TB_ACT_MONITOR, .at_s = 0.5, .on = false } };
	struct tb_script script = { .n = 2, .actions = acts };
	struct world *w = *state;
	struct bace_err e = { 0 };
	struct tb_log log;
	char before[8192], after[8192];

	assert_int_equal(run_in(w, 1, "tc class show dev wan0", before, sizeof(before)), 0);
	if (controller_script(w->controller, &script, &log, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(log.n_acted, 2);
	assert_true(log.acted[0].settled_ns >= log.acted[0].began_ns);
	assert_int_equal(run_in(w, 1, "tc class show dev wan0", after, sizeof(after)), 0);
	assert_string_equal(before, after);
	tb_log_free(&log);
}

/* a-0's way to c, as the lab set it: (100 Mbit/s x 70 ms / 8 + 250000) / 1448 = 776.9 */
static void check_route(const char *text)
{
	json_t *all = json_loads(text, 0, NULL), *routes = json_object_get(json_object_get(all, "a-0"), "routes");
	json_t *to = json_object_get(json_object_get(routes, "to"), "c");

	assert_string_equal(json_string_value(json_object_get(routes, "control")), "mgmt0");
	assert_string_equal(json_string_value(json_object_get(to, "dev")), "eth0");
	assert_int_equal(json_integer_value(json_object_get(to, "initcwnd")), 777);
	assert_int_equal(json_integer_value(json_object_get(to, "initrwnd")), 777);
	json_decref(all);
}

static void test_inventory(void **state)
{
	struct world *w = *state;
	struct bace_err e = { 0 };
	char *text;

	assert_int_equal(controller_inventory(w->controller, &text, &e), 0);
	assert_non_null(strstr(text, "\"gpus\""));
	assert_non_null(strstr(text, "\"measured_rtt_ns\""));
	assert_non_null(strstr(text, delay == DELAY_NETEM ? "\"delay\": \"netem\"" : "\"delay\": \"nfqueue\""));
	check_route(text);
	free(text);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_counters_and_probes),
					    cmocka_unit_test(test_rate_changes), cmocka_unit_test(test_inventory),
					    { 0 } };

	return fixture_main(argc, argv, tests);
}
