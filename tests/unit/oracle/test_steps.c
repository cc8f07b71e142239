/* Step times by both oracles, and the key of a moment. */
#include "harness/sim/sim.h"
#include "tests/unit/oracle/moments.h"

/* ---- step times ---- */

static struct step_estimate ask(struct oracle *o, const struct moment *m, int which)
{
	struct step_estimate out[16];
	struct bace_err e = { 0 };

	if (o->step_times(o, m, out, &e))
		fail_msg("%s: %s", o->name, e.msg);
	return out[which];
}

static struct step_estimate closed_form(const struct moment *m, int which)
{
	struct oracle *o;

	assert_int_equal(oracle_closed_form(&o, NULL), 0);
	struct step_estimate e = ask(o, m, which);

	oracle_destroy(o);
	return e;
}

static struct step_estimate event_sim(const struct moment *m, enum schedule_kind s, int v, bool overlap)
{
	struct oracle *o;

	assert_int_equal(oracle_event_sim(s, v, overlap, &o, NULL), 0);
	struct step_estimate e = ask(o, m, 0);

	oracle_destroy(o);
	return e;
}

static void closed_form_by_hand(void **state)
{
	struct bench b;
	struct step_estimate e;

	begin(&b);
	/* tau = 1.5, T = 3 * 1.5 + 3 + (0.25 + 0.08) + (0.25 + 0.16) */
	pair(&b, 0, 0, 1);
	e = closed_form(&b.m, 0);
	assert_close(e.step_s, 8.24);
	assert_close(e.busy, 4 * 1.5 / 8.24);
	/* a link that is slower than a stage: tau = 8 / 4 */
	b.f.capacity_bps[4] = l2_rate_bps(4 * MBIT, 1500);
	assert_close(closed_form(&b.m, 0).step_s, 3 * 2 + 3 + 0.33 + 2.25);
	/* one GPU: m (F + B), always busy */
	b.m.n = 0;
	add(&b, 0, 1, (struct placement_part[]){ { 0, 1 } });
	e = closed_form(&b.m, 0);
	assert_close(e.step_s, 12);
	assert_close(e.busy, 1);
	end(&b);
}

static void slower_gpus(void **state)
{
	struct bench b;

	begin(&b);
	b.f.e.cluster.regions[1].gpu = fix_gpu(&b.f, "half", 0.5e12, 100e9);
	fix_ready(&b.f);
	b.f.capacity_bps[1] = b.f.capacity_bps[4] = l2_rate_bps(100 * MBIT, 1500);
	pair(&b, 0, 0, 1);
	/* stages of 1.5 and 3 */
	assert_close(closed_form(&b.m, 0).step_s, 3 * 3 + 4.5 + 2 * 0.33);
	assert_close(closed_form(&b.m, 0).busy, 4 * 4.5 / 2 / (3 * 3 + 4.5 + 2 * 0.33));
	end(&b);
}

/* Uniform stages of the path a:1 > b:1 through pipeline_simulate itself. */
static double simulate(enum schedule_kind s, int v, bool overlap, double tb, double tw)
{
	const double f[2] = { 0.5, 0.5 }, bwd[2] = { tb, tb }, w[2] = { tw, tw }, latency[2] = { 0.25, 0.25 };
	const double up[2] = { 0.08, 0.16 }, down[2] = { 0.16, 0.08 };
	struct pipeline_result r = { 0 };

	assert_int_equal(pipeline_simulate(&(struct pipeline){ .schedule = { s, 2, 4, v }, .tf = f, .tb = bwd,
		.tw = w, .fwd_latency = latency, .rev_latency = latency, .fwd_serialisation = up,
		.rev_serialisation = down, .no_overlap = !overlap }, &r, NULL), 0);
	return r.step_time;
}

static void event_simulation(void **state)
{
	struct bench b;

	begin(&b);
	pair(&b, 0, 0, 1);
	assert_close(event_sim(&b.m, SCHED_1F1B, 1, true).step_s, simulate(SCHED_1F1B, 1, true, 1, 0));
	assert_close(event_sim(&b.m, SCHED_GPIPE, 1, true).step_s, simulate(SCHED_GPIPE, 1, true, 1, 0));
	assert_close(event_sim(&b.m, SCHED_EAGER_1F1B, 1, false).step_s,
		     simulate(SCHED_EAGER_1F1B, 1, false, 1, 0));
	assert_close(event_sim(&b.m, SCHED_INTERLEAVED_1F1B, 3, true).step_s,
		     simulate(SCHED_INTERLEAVED_1F1B, 3, true, 1, 0));
	/* B and W half each; a third is W when the forward is done again */
	assert_close(event_sim(&b.m, SCHED_ZB_H1, 1, true).step_s, simulate(SCHED_ZB_H1, 1, true, 0.5, 0.5));
	b.f.e.models[0].recompute = true;
	assert_close(event_sim(&b.m, SCHED_ZB_H1, 1, true).step_s,
		     simulate(SCHED_ZB_H1, 1, true, 2.0 / 3, 1.0 / 3));
	struct step_estimate e = event_sim(&b.m, SCHED_1F1B, 1, true);

	assert_close(e.busy, 4 * 1.5 / e.step_s);
	/* 1f1b waits where the closed form hides everything but the first */
	assert_true(e.step_s > closed_form(&b.m, 0).step_s);
	end(&b);
}

static void interleaved_needs_divisor(void **state)
{
	struct step_estimate out;
	struct bace_err e = { 0 };
	struct oracle *o;
	struct bench b;

	begin(&b);
	add(&b, 0, 1, (struct placement_part[]){ { 0, 3 } });
	assert_int_equal(oracle_event_sim(SCHED_INTERLEAVED_1F1B, 2, true, &o, NULL), 0);
	assert_int_equal(o->step_times(o, &b.m, &out, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "ja: micro-batches = 4"));
	oracle_destroy(o);
	end(&b);
}

static void dead_link(void **state)
{
	struct bench b;

	begin(&b);
	pair(&b, 0, 0, 1);
	b.f.capacity_bps[1] = 0;
	assert_true(isinf(closed_form(&b.m, 0).step_s) && closed_form(&b.m, 0).busy == 0);
	assert_true(isinf(event_sim(&b.m, SCHED_1F1B, 1, true).step_s));
	assert_true(moment_link_goodput_bps(&b.m, 0, 0, 1) == 0);
	end(&b);
}

/* An oracle gives the same answer whatever it was asked before. */
static void scratch_leaves_nothing(void **state)
{
	struct bace_rng rng;
	struct oracle *used;

	bace_rng_init(&rng, 23, 0);
	assert_int_equal(oracle_event_sim(SCHED_1F1B, 1, true, &used, NULL), 0);
	for (int i = 0; i < 50; i++) {
		struct bench b;

		begin(&b);
		for (int j = 0; j <= i % 12; j++)
			draw_path(&b, &rng, j);
		struct step_estimate again = ask(used, &b.m, 0), fresh = event_sim(&b.m, SCHED_1F1B, 1, true);

		assert_true(again.step_s == fresh.step_s && again.busy == fresh.busy);
		end(&b);
	}
	oracle_destroy(used);
}

/* ---- the key ---- */

static void keys(void **state)
{
	struct bench b;

	begin(&b);
	pair(&b, 1, 0, 1);
	pair(&b, 0, 2, 3);
	CLEANUP_FREE char *one = moment_key(&b.m);

	b.m.n = 0;
	pair(&b, 0, 2, 3);
	pair(&b, 1, 0, 1);
	CLEANUP_FREE char *turned = moment_key(&b.m);

	assert_string_equal(one, turned);
	assert_int_equal(strncmp(one, "M (m 4, beta 1, F 1 s, B 2 s, A 1000000 B) @ a:1 > b:1; M (", 59), 0);
	/* jobs that are alike are one and the same, whatever their names */
	strcpy(b.f.e.jobs[0].name, "zz");
	CLEANUP_FREE char *renamed = moment_key(&b.m);
	int place[2];

	assert_string_equal(one, renamed);
	assert_int_equal(moment_order(&b.m, place), 0);
	/* jb, on a > b, comes first, and was placed second. */
	assert_int_equal(place[0], 1);
	assert_int_equal(place[1], 0);
	/* what nobody uses does not matter, what somebody does, does */
	b.f.capacity_bps[0 * 4 + 2] *= 2;
	CLEANUP_FREE char *unused = moment_key(&b.m);

	assert_string_equal(one, unused);
	b.f.capacity_bps[1 * 4 + 0] *= 2;
	CLEANUP_FREE char *used = moment_key(&b.m);

	assert_string_not_equal(one, used);
	b.parts[0][0].gpus = 2;
	CLEANUP_FREE char *moved = moment_key(&b.m);

	assert_string_not_equal(used, moved);
	b.m.n = 0;
	CLEANUP_FREE char *empty = moment_key(&b.m);

	assert_string_equal(empty, "");
	end(&b);
}

/* The same moment of a config that lists its regions in another order. */
static void key_by_names(void **state)
{
	struct bench b, c;

	begin(&b);
	begin(&c);
	strcpy(c.f.e.cluster.regions[0].name, "d");
	strcpy(c.f.e.cluster.regions[3].name, "a");
	c.f.capacity_bps[4] = l2_rate_bps(100 * MBIT, 1500);
	c.f.capacity_bps[1 * 4 + 3] = l2_rate_bps(50 * MBIT, 1500);
	add(&b, 0, 3, (struct placement_part[]){ { 0, 1 }, { 1, 2 }, { 2, 1 } });
	add(&c, 0, 3, (struct placement_part[]){ { 3, 1 }, { 1, 2 }, { 2, 1 } });
	CLEANUP_FREE char *x = moment_key(&b.m);
	CLEANUP_FREE char *y = moment_key(&c.m);

	assert_string_equal(x, y);
	end(&b);
	end(&c);
}

/* ---- the operations behind a step ---- */

struct ops {
	size_t n, cap;
	struct predicted_op *v;
};

static void keep_op(void *arg, const struct predicted_op *op)
{
	struct ops *o = arg;

	assert_int_equal(BACE_PUSH(o->v, o->n, o->cap, *op), 0);
}

static struct ops ask_ops(const struct moment *m, enum schedule_kind s, int v, double *step_s)
{
	struct ops ops = { 0 };
	struct oracle *o;

	assert_int_equal(oracle_event_sim(s, v, true, &o, NULL), 0);
	assert_int_equal(oracle_event_sim_ops(o, m, 0, keep_op, &ops, NULL), 0);
	*step_s = ask(o, m, 0).step_s;
	oracle_destroy(o);
	return ops;
}

static const struct predicted_op *message_for(const struct ops *o, const struct predicted_op *op)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->v[i].received && o->v[i].stage == op->stage && o->v[i].kind == op->kind &&
		    o->v[i].micro_batch == op->micro_batch)
			return &o->v[i];
	return NULL;
}

/* Every operation starts when its message is there and the GPU is free, whichever is later. */
static void operations_follow_messages(void **state)
{
	static const enum schedule_kind kinds[] = { SCHED_GPIPE, SCHED_1F1B, SCHED_EAGER_1F1B, SCHED_ZB_H1 };

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		struct bench b;
		double step_s, last = 0, free_at[4] = { 0 };
		size_t messages = 0;

		begin(&b);
		add(&b, 0, 3, (struct placement_part[]){ { 0, 1 }, { 1, 2 }, { 2, 1 } });
		struct ops o = ask_ops(&b.m, kinds[k], 1, &step_s);

		for (size_t i = 0; i < o.n; i++) {
			const struct predicted_op *op = &o.v[i], *m = message_for(&o, op);
			bool first = op->kind == OP_WEIGHT || op->stage == (op->kind == OP_FORWARD ? 0 : 3);

			messages += op->received;
			if (op->received)
				continue;
			assert_int_equal(m == NULL, first);
			assert_close(op->start_s, fmax(m ? m->end_s : 0, free_at[op->stage]));
			free_at[op->stage] = op->end_s;
			last = fmax(last, op->end_s);
		}
		assert_int_equal(messages, 2 * 4 * 3);	/* both ways, m = 4, three hops */
		assert_close(last, step_s);
		free(o.v);
		end(&b);
	}
}

static void operations_by_hand(void **state)
{
	struct bench b;
	double step_s;

	begin(&b);
	pair(&b, 0, 0, 1);
	struct ops o = ask_ops(&b.m, SCHED_GPIPE, 1, &step_s);
	const struct predicted_op *m = message_for(&o, &(struct predicted_op){ .stage = 1, .kind = OP_FORWARD });

	/* 0.5 s to make, 8 Mbit at 100 Mbit/s, 0.25 s on the way */
	assert_close(m->start_s, 0.5);
	assert_close(m->end_s, 0.83);
	/* back at 50 Mbit/s: forwards are through at 0.83 + 4 x 0.5, then 1 s */
	m = message_for(&o, &(struct predicted_op){ .stage = 0, .kind = OP_BACKWARD });
	assert_close(m->start_s, 3.83);
	assert_close(m->end_s, 3.83 + 0.16 + 0.25);
	free(o.v);
	/* interleaved: a message between all chunks of a micro-batch, forth and back */
	o = ask_ops(&b.m, SCHED_INTERLEAVED_1F1B, 2, &step_s);
	size_t messages = 0;
	for (size_t i = 0; i < o.n; i++)
		messages += o.v[i].received;
	assert_int_equal(messages, 2 * 4 * (2 * 2 - 1));
	assert_int_equal(o.n - messages, 2 * 4 * 2 * 2);
	free(o.v);
	end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closed_form_by_hand), cmocka_unit_test(slower_gpus), cmocka_unit_test(event_simulation),
		cmocka_unit_test(interleaved_needs_divisor), cmocka_unit_test(dead_link),
		cmocka_unit_test(scratch_leaves_nothing), cmocka_unit_test(keys), cmocka_unit_test(key_by_names),
		cmocka_unit_test(operations_follow_messages), cmocka_unit_test(operations_by_hand),
	};

	return cmocka_run_group_tests_name("oracle-steps", tests, NULL, NULL);
}
