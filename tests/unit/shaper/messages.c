/* What we tell the kernel is what we would read back from it. */
#include "tests/unit/shaper/support.h"

#include <errno.h>
#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>

#include "shaper/kernel.h"

static void round_trip(const struct tcobj *o)
{
	const struct plan_step step = { .verb = PLAN_ADD, .o = o };
	struct netlink_batch b = { 0 };
	struct tcobj back;
	struct bace_buf text = { 0 };

	assert_int_equal(kernel_put_step(&b, 7, &step), 0);
	assert_int_equal(b.n, 1);
	/* A node below a root table is dumped under the number of that table. */
	if (o->type == TCOBJ_FILTER && TC_U32_HTID(o->handle) == TC_U32_ROOT) {
		struct tcmsg *tc = mnl_nlmsg_get_payload((struct nlmsghdr *)b.buf);

		tc->tcm_handle |= 0x80100000u;
	}
	assert_int_equal(kernel_parse_tc((struct nlmsghdr *)b.buf, 7, &back), 0);
	if (!tcobj_equal(o, &back)) {
		tcobj_print(&back, "is", "x", &text);
		fail_msg("%s", text.p);
	}
	assert_int_equal(kernel_parse_tc((struct nlmsghdr *)b.buf, 8, &back), 1);
	netlink_batch_free(&b);
}

static void every_object_of_a_plan_round_trips(void **state)
{
	enum { N = 40 };
	struct shape_link l[N];
	struct shape_spec s = test_spec(l, N);
	struct shape_plan p;

	l[1].rate_bps = 100000000000ULL;
	l[2].jitter_ns = 1234567;
	l[2].jitter_dist = JITTER_PARETO;
	l[2].impair.jitter_corr = 0.25;
	l[3].latency_ns = 5000000001LL;
	l[4].impair = (struct shape_impair){ .loss_model = LOSS_GILBERT_ELLIOTT, .loss_p = { 0.01, 0.3, 0.9, 0.001 } };
	l[5].impair = (struct shape_impair){ .loss_model = LOSS_4STATE, .loss_p = { 0.01, 0.3, 0.2, 0.001, 0.4 } };
	l[6].impair = (struct shape_impair){ .duplicate = 0.1, .duplicate_corr = 0.2, .corrupt = 0.3,
					     .corrupt_corr = 0.4, .reorder = 0.5, .reorder_corr = 0.6,
					     .reorder_gap = 5, .ecn = true };
	l[7].prefixes[0] = (struct shape_prefix){ .family = AF_INET6, .len = 61, .addr = { 0xfd, 1, 2, 3, 4, 5, 6, 8 } };
	l[8].impair.seed = 0x123456789abcdef0;
	assert_int_equal(plan_build(&s, &p, NULL), 0);
	for (size_t i = 0; i < p.egress.n; i++)
		round_trip(&p.egress.v[i]);
	for (size_t i = 0; i < p.ingress.n; i++)
		round_trip(&p.ingress.v[i]);
	plan_free(&p);
}

/* Linux 6.7 and later show a seed always. */
static void a_seed_counts_where_it_is_asked_for(void **state)
{
	struct tcobj want = { .type = TCOBJ_QDISC, .handle = 0x100000, .kind = &kind_netem, .kind_name = "netem" };
	struct tcobj have = want;

	have.u.netem.seed = 99;
	assert_true(tcobj_equal(&want, &have));
	want.u.netem.seed = 7;
	assert_false(tcobj_equal(&want, &have));
	have.u.netem.seed = 7;
	assert_true(tcobj_equal(&want, &have));
	have.u.netem.limit_pkts = 1;
	assert_false(tcobj_equal(&want, &have));
	have.u.netem.seed = 0;
	have.u.netem.limit_pkts = 0;
	assert_false(tcobj_equal(&want, &have));
}

/* Pitfall: attributes that a change leaves out persist in the kernel. */
static void a_netem_change_names_every_attribute(void **state)
{
	const struct tcobj o = { .type = TCOBJ_QDISC, .parent = 0xbace0010, .handle = 0x100000, .kind = &kind_netem,
				 .kind_name = "netem", .u.netem = { .latency_ns = 1000000, .limit_pkts = 1000 } };
	const struct plan_step step = { .verb = PLAN_CHANGE, .o = &o };
	const struct nlattr *tb[TCA_MAX + 1], *opt[TCA_NETEM_MAX + 1];
	struct netlink_batch b = { 0 };

	assert_int_equal(kernel_put_step(&b, 7, &step), 0);
	assert_int_equal(attrs_parse_msg((struct nlmsghdr *)b.buf, sizeof(struct tcmsg), tb, TCA_MAX), 0);
	assert_int_equal(attrs_parse_at(tb[TCA_OPTIONS], sizeof(struct tc_netem_qopt), opt, TCA_NETEM_MAX), 0);
	assert_non_null(opt[TCA_NETEM_CORR]);
	assert_non_null(opt[TCA_NETEM_REORDER]);
	assert_non_null(opt[TCA_NETEM_CORRUPT]);
	assert_non_null(opt[TCA_NETEM_RATE]);
	assert_non_null(opt[TCA_NETEM_RATE64]);
	assert_non_null(opt[TCA_NETEM_LATENCY64]);
	assert_non_null(opt[TCA_NETEM_JITTER64]);
	assert_non_null(opt[TCA_NETEM_ECN]);
	netlink_batch_free(&b);
}

/* Cut at every length, and with every byte disturbed: no crash, no read
 * beyond the end (ASan looks on). */
static void broken_messages_are_survived(void **state)
{
	enum { N = 12 };
	struct shape_link l[N];
	struct shape_spec s = test_spec(l, N);
	struct shape_plan p;

	l[0].impair = (struct shape_impair){ .loss_model = LOSS_4STATE, .loss_p = { 0.1, 0.1, 0.1, 0.1, 0.1 } };
	assert_int_equal(plan_build(&s, &p, NULL), 0);
	for (size_t i = 0; i < p.ingress.n; i++) {
		const struct plan_step step = { .verb = PLAN_ADD, .o = &p.ingress.v[i] };
		struct netlink_batch b = { 0 };
		struct tcobj back;

		assert_int_equal(kernel_put_step(&b, 7, &step), 0);
		for (size_t len = sizeof(struct nlmsghdr); len < b.len; len++) {
			struct nlmsghdr *cut = malloc(len);

			memcpy(cut, b.buf, len);
			cut->nlmsg_len = (uint32_t)len;
			kernel_parse_tc(cut, 7, &back);
			free(cut);
		}
		for (size_t at = sizeof(struct nlmsghdr); at < b.len; at++) {
			char *copy = malloc(b.len);

			memcpy(copy, b.buf, b.len);
			copy[at] ^= (char)0xff;
			kernel_parse_tc((struct nlmsghdr *)copy, 7, &back);
			free(copy);
		}
		netlink_batch_free(&b);
	}
	plan_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_object_of_a_plan_round_trips),
		cmocka_unit_test(a_seed_counts_where_it_is_asked_for),
		cmocka_unit_test(a_netem_change_names_every_attribute),
		cmocka_unit_test(broken_messages_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
