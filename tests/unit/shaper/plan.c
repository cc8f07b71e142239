#include "tests/unit/shaper/support.h"

#include <errno.h>
#include <linux/pkt_sched.h>
#include <math.h>
#include <stdlib.h>

#include "shaper/calc.h"

#define ROOT 0xbace0000u

static void egress_has_one_class_a_region_and_an_unshaped_default(void **state)
{
	struct shape_link l[3];
	struct shape_spec s = test_spec(l, 3);
	struct shape_plan p;
	const struct tcobj *o;

	l[1].rate_bps = 10000000;
	l[2].buffer_bytes = 54321;
	assert_int_equal(plan_build(&s, &p, NULL), 0);
	assert_string_equal(p.egress.ifname, "wan0");
	assert_non_null(o = find_object(&p.egress, TCOBJ_QDISC, ROOT));
	assert_int_equal(o->parent, TC_H_ROOT);
	assert_int_equal(o->u.htb_root.default_minor, 1);
	/* With 0 a device without a queue would drop what no class takes. */
	assert_true(o->u.htb_root.direct_qlen_pkts >= 1000);
	assert_non_null(o = find_object(&p.egress, TCOBJ_CLASS, ROOT | 1));
	assert_true(o->u.htb_class.rate_bytes_ps >= 125000000000ULL);
	assert_non_null(o = find_object(&p.egress, TCOBJ_CLASS, ROOT | 0x11));
	assert_int_equal(o->u.htb_class.rate_bytes_ps, 1250000);
	assert_int_equal(o->u.htb_class.ceil_bytes_ps, 1250000);
	assert_int_equal(calc_ticks_bytes(o->u.htb_class.burst_ticks, 1250000), 3028);
	assert_int_equal(o->u.htb_class.burst_ticks, o->u.htb_class.cburst_ticks);
	assert_true(o->u.htb_class.quantum_bytes >= 1514);
	assert_non_null(o = find_object(&p.egress, TCOBJ_QDISC, 0x12 << 16));
	assert_ptr_equal(o->kind, &kind_bfifo);
	assert_int_equal(o->u.fifo.limit, 54321);
	plan_free(&p);
}

static void rates_above_34_gbit_are_64_bit(void **state)
{
	const uint64_t rates[] = { 1000000000ULL, 10000000000ULL, 40000000000ULL, 100000000000ULL, 400000000000ULL };
	struct shape_link l[1];
	struct shape_spec s = test_spec(l, 1);
	struct shape_plan p;

	for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
		l[0].rate_bps = rates[i];
		assert_int_equal(plan_build(&s, &p, NULL), 0);
		assert_int_equal(find_object(&p.egress, TCOBJ_CLASS, ROOT | 0x10)->u.htb_class.rate_bytes_ps, rates[i] / 8);
		plan_free(&p);
	}
}

static void netem_carries_latency_and_loss_on_the_inner_interface(void **state)
{
	struct shape_link l[2];
	struct shape_spec s = test_spec(l, 2);
	struct shape_plan p;
	const struct tcobj *o;

	l[0].loss = 0.01;
	l[1].jitter_ns = 2000000;
	l[1].jitter_dist = JITTER_NORMAL;
	assert_int_equal(plan_build(&s, &p, NULL), 0);
	assert_string_equal(p.ingress.ifname, "lan0");
	assert_non_null(o = find_object(&p.ingress, TCOBJ_QDISC, 0x10 << 16));
	assert_ptr_equal(o->kind, &kind_netem);
	assert_int_equal(o->u.netem.latency_ns, 20000000);
	assert_int_equal(o->u.netem.loss, (uint32_t)llround(0.01 * UINT32_MAX));
	/* 100 Mbit/s x 20 ms = 165 full packets and more small ones. */
	assert_true(o->u.netem.limit_pkts > 1000);
	/* A falling latency and jitter keep order: netem does so once it has a rate, which
	 * must not be one that limits: the link's is HTB's, and two in a row pile up seconds. */
	assert_int_equal(o->u.netem.rate_bytes_ps, 500000000000);
	assert_non_null(o = find_object(&p.ingress, TCOBJ_QDISC, 0x11 << 16));
	assert_int_equal(o->u.netem.jitter_ns, 2000000);
	assert_int_equal(o->u.netem.rate_bytes_ps, 500000000000);
	assert_true(o->n_table > 0);
	plan_free(&p);

	l[1].impair.reorder = 0.1;
	assert_int_equal(plan_build(&s, &p, NULL), 0);
	o = find_object(&p.ingress, TCOBJ_QDISC, 0x11 << 16);
	assert_int_equal(o->u.netem.rate_bytes_ps, 0);
	assert_int_equal(o->u.netem.gap, 1);
	plan_free(&p);
}

static void the_delay_line_leaves_the_inner_interface_alone(void **state)
{
	struct shape_link l[2];
	struct shape_spec s = test_spec(l, 2);
	struct shape_plan p;

	s.delay = DELAY_NFQUEUE;
	assert_int_equal(plan_build(&s, &p, NULL), 0);
	assert_int_equal(p.ingress.n, 0);
	assert_true(p.queue_limit_pkts >= 60000);
	plan_free(&p);
}

/* Of what comes in at no known rate the delay line holds what netem would. */
static void an_unknown_rate_has_room_in_both_delays(void **state)
{
	struct shape_link l[1];
	struct shape_spec s = test_spec(l, 1);
	struct shape_plan p;
	uint32_t limit;

	l[0].rate_bps = l[0].reverse_rate_bps = 0;
	l[0].latency_ns = 80000000;
	assert_int_equal(plan_build(&s, &p, NULL), 0);
	limit = find_object(&p.ingress, TCOBJ_QDISC, 0x10 << 16)->u.netem.limit_pkts;
	/* 10 Gbit/s x 80 ms in full packets. */
	assert_true(limit >= 66000);
	plan_free(&p);
	s.delay = DELAY_NFQUEUE;
	assert_int_equal(plan_build(&s, &p, NULL), 0);
	assert_true(p.queue_limit_pkts >= limit);
	plan_free(&p);
}

static void a_host_without_links_has_no_tc_state(void **state)
{
	struct shape_spec s = { .egress = "eth0", .mtu = 1500, .gso_max_bytes = 5000 };
	struct shape_plan p;

	assert_int_equal(plan_build(&s, &p, NULL), 0);
	assert_int_equal(p.egress.n + p.ingress.n, 0);
	plan_free(&p);
}

static void refuse(struct shape_spec *s, const char *why)
{
	struct shape_plan p;
	struct bace_err e;

	assert_int_equal(plan_build(s, &p, &e), -EINVAL);
	if (!strstr(e.msg, why))
		fail_msg("`%s' does not say `%s'", e.msg, why);
	assert_int_equal(p.egress.n + p.ingress.n, 0);
}

static void out_of_range_is_refused_never_clipped(void **state)
{
	struct shape_link good[2], l[2];
	struct shape_spec s = test_spec(good, 2);

	s.links = l;
#define REFUSE(change, why) do { memcpy(l, good, sizeof(l)); change; refuse(&s, why); } while (0)
	REFUSE(l[0].rate_bps = 7999, "rate");
	REFUSE(l[0].rate_bps = 4000000000001ULL, "4 Tbit/s");
	REFUSE(l[1].latency_ns = -1, "latency");
	REFUSE(l[1].latency_ns = 60000000001LL, "60 s");
	REFUSE((l[1].jitter_ns = 21000000, l[1].jitter_dist = JITTER_UNIFORM), "jitter");
	REFUSE(l[1].jitter_ns = 1000000, "distribution");
	REFUSE(l[1].loss = 1.01, "loss");
	REFUSE(l[1].loss = NAN, "loss");
	REFUSE(l[1].impair.duplicate = -0.1, "duplicate");
	REFUSE(l[1].buffer_bytes = 1ULL << 32, "4 GiB");
	REFUSE(l[1].region = 0, "same region number");
	REFUSE(l[1].region = 40000, "at most");
	REFUSE(l[1].n_prefixes = 0, "prefixes");
	REFUSE(l[1].n_prefixes = SHAPE_PREFIXES_MAX + 1, "prefixes");
	REFUSE(l[1].prefixes[0] = l[0].prefixes[0], "overlap");
	REFUSE((l[0].latency_ns = 0, l[0].impair.reorder = 0.5), "reorder");
	memcpy(l, good, sizeof(l));
	s.mtu = 100;
	refuse(&s, "mtu");
	s.mtu = 1500;
	snprintf(s.ingress, sizeof(s.ingress), "wan0");
	refuse(&s, "wan0");
	s.ingress[0] = '\0';
	refuse(&s, "netem needs");
	s.n_links = 70000;
	refuse(&s, "at most");
}

/* ---- diff ---- */
static size_t count(const struct plan_steps *st, enum plan_verb verb)
{
	size_t n = 0;

	for (size_t i = 0; i < st->n; i++)
		n += st->v[i].verb == verb;
	return n;
}

static void the_same_state_needs_nothing(void **state)
{
	struct shape_link l[6];
	struct shape_spec s = test_spec(l, 6);
	struct shape_plan a, b;
	struct plan_steps st;

	assert_int_equal(plan_build(&s, &a, NULL), 0);
	assert_int_equal(plan_build(&s, &b, NULL), 0);
	assert_int_equal(plan_diff(&a.egress, &b.egress, &st), 0);
	assert_int_equal(st.n, 0);
	assert_int_equal(plan_diff(&a.ingress, &b.ingress, &st), 0);
	assert_int_equal(st.n, 0);
	plan_free(&a);
	plan_free(&b);
}

static void one_changed_rate_is_one_message(void **state)
{
	struct shape_link l[6];
	struct shape_spec s = test_spec(l, 6);
	struct shape_plan a, b;
	struct plan_steps st;

	assert_int_equal(plan_build(&s, &a, NULL), 0);
	l[3].rate_bps = 200000000;
	l[3].buffer_bytes = plan_buffer_bytes(&s, &l[0]);
	assert_int_equal(plan_build(&s, &b, NULL), 0);
	assert_int_equal(plan_diff(&b.egress, &a.egress, &st), 0);
	assert_int_equal(st.n, 1);
	assert_int_equal(st.v[0].verb, PLAN_CHANGE);
	assert_int_equal(st.v[0].o->handle, ROOT | 0x13);
	plan_steps_free(&st);
	plan_free(&a);
	plan_free(&b);
}

static void a_link_that_goes_takes_filter_then_class(void **state)
{
	struct shape_link l[3];
	struct shape_spec s = test_spec(l, 3);
	struct shape_plan a, b;
	struct plan_steps st;
	size_t filter = 0, class = 0;

	assert_int_equal(plan_build(&s, &a, NULL), 0);
	s.n_links = 2;
	assert_int_equal(plan_build(&s, &b, NULL), 0);
	assert_int_equal(plan_diff(&b.egress, &a.egress, &st), 0);
	assert_int_equal(st.n, 2);
	for (size_t i = 0; i < st.n; i++)
		*(st.v[i].o->type == TCOBJ_FILTER ? &filter : &class) = i + 1;
	assert_int_equal(count(&st, PLAN_DELETE), 2);
	assert_true(filter && filter < class);
	plan_steps_free(&st);
	plan_free(&a);
	plan_free(&b);
}

/* Same handle, another kind: the kernel refuses a change, so it goes first. */
static void a_leaf_of_another_kind_is_deleted_first(void **state)
{
	struct shape_link l[1];
	struct shape_spec s = test_spec(l, 1);
	struct shape_plan a, b;
	struct plan_steps st;

	assert_int_equal(plan_build(&s, &a, NULL), 0);
	assert_int_equal(plan_build(&s, &b, NULL), 0);
	for (size_t i = 0; i < a.egress.n; i++)
		if (a.egress.v[i].kind == &kind_bfifo)
			a.egress.v[i].kind = &kind_pfifo;
	assert_int_equal(plan_diff(&b.egress, &a.egress, &st), 0);
	assert_int_equal(st.n, 2);
	assert_int_equal(st.v[0].verb, PLAN_DELETE);
	assert_int_equal(st.v[1].verb, PLAN_ADD);
	plan_steps_free(&st);
	plan_free(&a);
	plan_free(&b);
}

/* `tc qdisc replace dev wan0 parent bace:10 KIND`: the kernel numbers it, and
 * forgets it when ours takes its place again. */
static void a_foreign_leaf_is_displaced_not_deleted(void **state)
{
	static const struct tckind *const kinds[] = { NULL, &kind_pfifo };
	struct shape_link l[2];
	struct shape_spec s = test_spec(l, 2);
	struct shape_plan a, b;
	struct plan_steps st;

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		assert_int_equal(plan_build(&s, &a, NULL), 0);
		assert_int_equal(plan_build(&s, &b, NULL), 0);
		for (size_t i = 0; i < b.egress.n; i++) {
			if (b.egress.v[i].type != TCOBJ_QDISC || b.egress.v[i].handle != 0x10 << 16)
				continue;
			b.egress.v[i].handle = 0x80010000;
			b.egress.v[i].kind = kinds[k];
		}
		assert_int_equal(plan_diff(&a.egress, &b.egress, &st), 0);
		assert_int_equal(st.n, 1);
		assert_int_equal(st.v[0].verb, PLAN_ADD);
		assert_int_equal(st.v[0].o->handle, 0x10 << 16);
		plan_steps_free(&st);
		plan_free(&a);
		plan_free(&b);
	}
}

static void a_foreign_root_is_replaced_and_nothing_of_it_kept(void **state)
{
	struct shape_link l[2];
	struct shape_spec s = test_spec(l, 2);
	struct if_state foreign = { 0 };
	struct tcobj root = { .type = TCOBJ_QDISC, .parent = TC_H_ROOT, .handle = 1 << 16, .kind_name = "fq" };
	struct shape_plan a;
	struct plan_steps st;

	assert_int_equal(plan_build(&s, &a, NULL), 0);
	assert_int_equal(if_state_add(&foreign, &root), 0);
	assert_int_equal(plan_diff(&a.egress, &foreign, &st), 0);
	assert_int_equal(st.n, a.egress.n);
	assert_int_equal(st.v[0].verb, PLAN_REPLACE_ROOT);
	plan_steps_free(&st);
	/* And a plan for nothing does not touch what is not ours. */
	plan_free(&a);
	assert_int_equal(plan_diff(&a.egress, &foreign, &st), 0);
	assert_int_equal(st.n, 0);
	if_state_free(&foreign);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(egress_has_one_class_a_region_and_an_unshaped_default),
		cmocka_unit_test(rates_above_34_gbit_are_64_bit),
		cmocka_unit_test(netem_carries_latency_and_loss_on_the_inner_interface),
		cmocka_unit_test(the_delay_line_leaves_the_inner_interface_alone),
		cmocka_unit_test(an_unknown_rate_has_room_in_both_delays),
		cmocka_unit_test(a_host_without_links_has_no_tc_state),
		cmocka_unit_test(out_of_range_is_refused_never_clipped),
		cmocka_unit_test(the_same_state_needs_nothing),
		cmocka_unit_test(one_changed_rate_is_one_message),
		cmocka_unit_test(a_link_that_goes_takes_filter_then_class),
		cmocka_unit_test(a_leaf_of_another_kind_is_deleted_first),
		cmocka_unit_test(a_foreign_leaf_is_displaced_not_deleted),
		cmocka_unit_test(a_foreign_root_is_replaced_and_nothing_of_it_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
