/* Parts of the controller by themselves: no agents, no sockets. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "harness/control/cell.h"
#include "harness/control/monitor.h"

#define S 1000000000ll
#define OFFSET 700		/* of a host's clock */

/* Two hosts of region 0 that share its link to region 1. */
struct inside {
	struct tb_host spec[2];
	struct shape_link links[2];
	char names[2][NAME_LEN];
	struct tb_topology topo;
	struct host hosts[2];
	struct host_monitor monitors[2];
	struct link_seen *to[2][2], seen[2];
	struct controller c;
};

static void inside_begin(struct inside *x)
{
	*x = (struct inside){ 0 };
	x->topo = (struct tb_topology){ .n_regions = 2, .region_names = x->names, .n_hosts = 2, .hosts = x->spec };
	x->c = (struct controller){ .n_hosts = 2, .hosts = x->hosts, .cfg.topo = &x->topo, .base = event_base_new() };
	for (int i = 0; i < 2; i++) {
		snprintf(x->spec[i].name, NAME_LEN, "h%d", i);
		snprintf(x->spec[i].shape.egress, sizeof(x->spec[i].shape.egress), "eth0");
		x->links[i] = (struct shape_link){ .region = 1, .rate_bps = 50000000 };
		x->spec[i].shape.links = &x->links[i];
		x->spec[i].shape.n_links = 1;
		x->to[i][1] = &x->seen[i];
		x->monitors[i].to = x->to[i];
		x->hosts[i] = (struct host){ .c = &x->c, .spec = &x->spec[i], .index = i, .monitor = &x->monitors[i] };
	}
}

static void inside_end(struct inside *x)
{
	for (int i = 0; i < 2; i++)
		x->hosts[i].monitor = NULL;
	event_base_free(x->c.base);
}

/* ---- scripts ---- */

static void unexpected(void *arg, const struct bace_err *err)
{
	fail_msg("done, though it was cancelled");
}

/* A host that is gone when a script is cancelled comes back to its own plan. */
static void cancelled_without_hosts(void **state)
{
	struct tb_action a = { .kind = TB_ACT_RATE, .src = 0, .dst = 1, .rate_bps = 20000000 };
	struct tb_script s = { .n = 1, .actions = &a };
	struct tb_log log = { 0 };
	struct bace_err e = { 0 };
	struct inside x;

	inside_begin(&x);
	assert_int_equal(script_start(&x.c, &s, bace_mono_ns(), &log, unexpected, NULL, &e), 0);
	for (int i = 0; i < 100 && !x.hosts[1].now.n_links; i++)
		event_base_loop(x.c.base, EVLOOP_ONCE);
	for (int i = 0; i < 2; i++)
		assert_int_equal(host_shape(&x.hosts[i])->links[0].rate_bps, 10000000);
	script_cancel(&x.c);
	for (int i = 0; i < 2; i++)
		assert_int_equal(host_shape(&x.hosts[i])->links[0].rate_bps, 50000000);
	/* What was asked of them is answered meanwhile, to nobody. */
	for (int i = 0; i < 2; i++)
		while (x.hosts[i].requests)
			event_base_loop(x.c.base, EVLOOP_ONCE);
	tb_log_free(&log);
	inside_end(&x);
}

/* ---- the view ---- */

static void hears(struct link_seen *l, enum tb_method m, double age_s, double rate_bps, bool lower_bound)
{
	struct estimate *e = m == TB_COUNTERS ? &l->counters.e : m == TB_TCP_INFO ? &l->tcp.e : &l->probe.e;

	*e = (struct estimate){ .known = true, .lower_bound = lower_bound, .rate_bps = rate_bps, .error_bps = 1e6 };
	l->heard_ns[m] = bace_mono_ns() - (int64_t)(age_s * 1e9);
}

static void view_adds_what_is_of_one_time(void **state)
{
	struct tb_view_link v;
	struct inside x;

	inside_begin(&x);
	assert_false(view_of_method(&x.c, 0, 1, TB_TCP_INFO, &v));
	assert_false(v.known);
	hears(&x.seen[0], TB_TCP_INFO, 1.5, 60e6, false);
	hears(&x.seen[1], TB_TCP_INFO, 0.5, 40e6, false);
	assert_true(view_of_method(&x.c, 0, 1, TB_TCP_INFO, &v));
	assert_true(v.capacity_bps == 100e6 && v.error_bps == 2e6);
	/* As old as the oldest of what was added. */
	assert_true(v.age_s >= 1.5 && v.age_s < 30);
	/* Of an earlier cell: the link was full then, and is full now. */
	hears(&x.seen[0], TB_TCP_INFO, 20, 100e6, false);
	hears(&x.seen[1], TB_TCP_INFO, 0.5, 90e6, false);
	assert_true(view_of_method(&x.c, 0, 1, TB_TCP_INFO, &v));
	assert_true(v.capacity_bps == 90e6 && v.error_bps == 1e6);
	assert_true(v.age_s >= 0.5 && v.age_s < 20);
	/* Where samples come every 10 s, they are of one time within three periods. */
	x.c.period_ms[TB_SRC_TCP] = 10000;
	assert_true(view_of_method(&x.c, 0, 1, TB_TCP_INFO, &v));
	assert_true(v.capacity_bps == 190e6);
	assert_false(view_of_method(&x.c, 1, 0, TB_TCP_INFO, &v));
	inside_end(&x);
}

static void view_believes(void **state)
{
	const struct tb_view_link none = { 0 };
	const struct tb_view_link exact = { .known = true, .capacity_bps = 100e6, .error_bps = 1e6, .age_s = 10 };
	const struct tb_view_link newer = { .known = true, .capacity_bps = 80e6, .age_s = 5 };
	const struct tb_view_link least = { .known = true, .lower_bound = true, .capacity_bps = 60e6, .age_s = 1 };
	const struct tb_view_link more = { .known = true, .lower_bound = true, .capacity_bps = 150e6, .age_s = 1 };
	const struct tb_view_link old_more = { .known = true, .lower_bound = true, .capacity_bps = 150e6, .age_s = 20 };
	const struct tb_view_link burst = { .known = true, .lower_bound = true, .capacity_bps = 102.5e6, .age_s = 1 };

	assert_true(view_better(&least, &none));
	assert_true(view_better(&newer, &exact) && !view_better(&exact, &newer));
	assert_true(view_better(&more, &least) && !view_better(&least, &more));
	assert_true(view_better(&exact, &least) && !view_better(&least, &exact));
	/* More passed since: the exact one was wrong, or is no more. */
	assert_true(view_better(&more, &exact) && !view_better(&exact, &more));
	assert_true(view_better(&exact, &old_more) && !view_better(&old_more, &exact));
	assert_true(view_better(&exact, &burst) && !view_better(&burst, &exact));
}

/* ---- reports ---- */

static json_t *report(int64_t started_ns, int stage, int kind)
{
	return json_pack("{s:I,s:i,s:[[i,i,I,I,i]],s:[[i,i,i,i,I,I,I]],s:[]}", "started_ns", (json_int_t)started_ns,
		"lateness_p99_ns", 0, "steps", stage, 0, (json_int_t)(started_ns + 1), (json_int_t)(started_ns + 9), 4, "ops",
		stage, 0, 0, kind, (json_int_t)(started_ns + 1), (json_int_t)(started_ns + 2), (json_int_t)(started_ns + 2), "flows");
}

static int take_with(bool sends, enum schedule_kind schedule, int64_t started_ns, int stage, int kind,
		     struct bace_err *e)
{
	int ranks[2] = { 0, 1 };
	struct tb_job job = { .name = "j", .schedule = schedule, .chunks = 1, .micro_batches = 1, .n_stages = 2 };
	struct tb_cell cell = { .n_jobs = 1, .jobs = &job, .steps = 1, .timeline_sends = sends };
	struct cell_job own = { .rank_of_stage = ranks };
	struct host h = { .offset_ns = OFFSET };
	struct tb_result out = { .valid = true };
	struct cell_run r = { .cell = &cell, .out = &out, .jobs = &own };
	struct cell_rank k = { .run = &r, .n_stages = 1, .go_ns = 1000, .proc = { .host = &h, .rank = stage } };
	json_t *j = report(started_ns, stage, kind);
	int rc = cell_take_done(&r, &k, j, e);

	assert_true(rc || k.late_ns == started_ns - 1000);
	/* By the controller's clock. */
	if (!rc) {
		assert_int_equal(out.steps[0].start_ns, started_ns + 1 - OFFSET);
		assert_int_equal(out.steps[0].end_ns, started_ns + 9 - OFFSET);
		assert_int_equal(out.ops[0].start_ns, started_ns + 1 - OFFSET);
		assert_int_equal(out.ops[0].end_ns, started_ns + 2 - OFFSET);
		assert_int_equal(out.ops[0].planned_end_ns, started_ns + 2 - OFFSET);
	}
	json_decref(j);
	tb_result_free(&out);
	return rc;
}

static int take(enum schedule_kind schedule, int64_t started_ns, int stage, int kind, struct bace_err *e)
{
	return take_with(false, schedule, started_ns, stage, kind, e);
}

/* Messages over hops that the job has not, and starts before the barrier. */
static void impossible_reports(void **state)
{
	struct bace_err e = { 0 };

	assert_int_equal(take(SCHED_1F1B, 1000, 1, TB_RECV_ACTIVATION, &e), 0);
	assert_int_equal(take(SCHED_1F1B, 1700, 0, TB_RECV_GRADIENT, &e), 0);
	assert_int_equal(take(SCHED_1F1B, 1000, 0, TB_RECV_ACTIVATION, &e), -EPROTO);
	assert_int_equal(take(SCHED_1F1B, 1000, 1, TB_RECV_GRADIENT, &e), -EPROTO);
	assert_int_equal(take(SCHED_INTERLEAVED_1F1B, 1000, 0, TB_RECV_ACTIVATION, &e), 0);
	assert_int_equal(take(SCHED_INTERLEAVED_1F1B, 1000, 1, TB_RECV_GRADIENT, &e), 0);
	assert_int_equal(take_with(true, SCHED_1F1B, 1000, 0, TB_SEND_ACTIVATION, &e), 0);
	assert_int_equal(take_with(true, SCHED_1F1B, 1000, 1, TB_SEND_GRADIENT, &e), 0);
	assert_int_equal(take_with(true, SCHED_1F1B, 1000, 1, TB_SEND_ACTIVATION, &e), -EPROTO);
	assert_int_equal(take_with(true, SCHED_1F1B, 1000, 0, TB_SEND_GRADIENT, &e), -EPROTO);
	assert_int_equal(take_with(true, SCHED_1F1B, 1000, 0, TB_SEND_REDUCE, &e), -EPROTO);
	/* Nobody asked for it. */
	assert_int_equal(take(SCHED_1F1B, 1000, 0, TB_SEND_ACTIVATION, &e), -EPROTO);
	assert_int_equal(take(SCHED_1F1B, 999, 1, TB_RECV_ACTIVATION, &e), -EPROTO);
	assert_non_null(strstr(e.msg, "before it was to"));
}

/* ---- clocks ---- */

/* Two machines drift by 10 ppm, and the round trip rises for good: what is taken
 * is always about as good as what is known by then. */
static void clocks_drift(void **state)
{
	struct host_clock k = { 0 };
	const double ppm = 10e-6;
	int64_t worst = 0, taken = 0;

	for (int64_t at = 0; at < 3600 * S; at += 10 * S) {
		int64_t rtt = at < 60 * S ? 200000 : 1000000, sent = 1000 * S + at, there = sent + rtt / 2, wrong;

		taken += clock_take(&k, sent, there + (int64_t)(ppm * (double)at), sent + rtt);
		wrong = k.offset_ns - (int64_t)(ppm * (double)at);
		wrong = wrong < 0 ? -wrong : wrong;
		assert_true(wrong <= clock_uncertainty_ns(&k, sent + rtt));
		worst = wrong > worst ? wrong : worst;
	}
	/* In a hour of drift: 36 ms. */
	assert_true(worst < 2000000);
	assert_true(taken > 20);
}

/* ---- loss: chances by the binomial distribution, of 600 packets unless said ---- */

static void loss_is_judged_by_chance(void **state)
{
	/* As asked, two thirds of it, and so many that it is one in ten thousand. */
	assert_true(cell_loss_as_asked(0.05, 570, 30, 1));
	assert_true(cell_loss_as_asked(0.05, 580, 20, 1));
	assert_true(cell_loss_as_asked(0.05, 548, 52, 1));
	/* None: 4e-14. Ten times as many. */
	assert_false(cell_loss_as_asked(0.05, 600, 0, 1));
	assert_false(cell_loss_as_asked(0.05, 300, 300, 1));
	/* Too few packets to tell: none of 100 is 0.6 % likely. */
	assert_true(cell_loss_as_asked(0.05, 100, 0, 1));
	assert_true(cell_loss_as_asked(0.05, 0, 0, 1));
	/* Of very many, a sixth more than asked. */
	assert_true(cell_loss_as_asked(0.01, 99000, 1000, 1));
	assert_false(cell_loss_as_asked(0.01, 98800, 1200, 1));
	assert_false(cell_loss_as_asked(0.01, 99200, 800, 1));
	/* Rare loss: three where 0.1 are expected is one in 7000, thirty is none at all. */
	assert_true(cell_loss_as_asked(0.0001, 997, 3, 1));
	assert_false(cell_loss_as_asked(0.0001, 970, 30, 1));
	assert_true(cell_loss_as_asked(1, 0, 70, 1));
	assert_false(cell_loss_as_asked(1, 1, 70, 1));
}

/* 3000 segments in packets of three: 1000 were drawn for, of which 5 % were lost. */
static void bundles_are_lost_as_one(void **state)
{
	assert_true(cell_loss_as_asked(0.05, 2850, 50, 3));
	assert_false(cell_loss_as_asked(0.05, 2850, 50, 1));
	/* Not less than one in three, nor more than all. */
	assert_false(cell_loss_as_asked(0.05, 2850, 5, 3));
	assert_false(cell_loss_as_asked(0.05, 2850, 300, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cancelled_without_hosts), cmocka_unit_test(view_adds_what_is_of_one_time),
		cmocka_unit_test(view_believes), cmocka_unit_test(impossible_reports), cmocka_unit_test(clocks_drift),
		cmocka_unit_test(loss_is_judged_by_chance), cmocka_unit_test(bundles_are_lost_as_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
