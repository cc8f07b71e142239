/* What happens to a plan that stands: traces, shared links, foreign changes. */
#include "tests/unit/shaper/support.h"

#include <linux/rtnetlink.h>
#include <stdlib.h>

#include "shaper/player.h"
#include "shaper/watch.h"

/* ---- traces ---- */
static struct shape_trace rates(int64_t step_ns, size_t n)
{
	struct shape_trace t = { .n = n, .v = calloc(n, sizeof(*t.v)), .period_ns = step_ns * (int64_t)n };

	for (size_t i = 0; i < n; i++)
		t.v[i] = (struct shape_trace_point){
			.at_ns = step_ns * (int64_t)i,
			.to = { .set = SHAPE_SET_RATE, .rate_bps = 1000 * (i + 1) } };
	return t;
}

static void each_point_comes_once_and_in_its_turn(void **state)
{
	struct player p = { 0 };
	struct shape_trace t = rates(100, 3);
	struct shape_change c[4];
	int64_t due;

	assert_int_equal(player_next_ns(&p), INT64_MAX);
	assert_int_equal(player_start(&p, 7, &t, false, 1000, 0), 0);
	assert_int_equal(player_next_ns(&p), 1000);
	assert_int_equal(player_take(&p, 999, c, 4, &due), 0);
	assert_int_equal(player_take(&p, 1000, c, 4, &due), 1);
	assert_int_equal(due, 1000);
	assert_int_equal(c[0].region, 7);
	assert_int_equal(c[0].rate_bps, 1000);
	assert_int_equal(player_next_ns(&p), 1100);
	/* Late by two: the last one counts, and the lateness is that of the first. */
	assert_int_equal(player_take(&p, 1250, c, 4, &due), 1);
	assert_int_equal(due, 1100);
	assert_int_equal(c[0].rate_bps, 3000);
	assert_int_equal(player_next_ns(&p), INT64_MAX);
	player_free(&p);
}

static void a_loop_goes_round_and_a_late_joiner_is_in_step(void **state)
{
	struct player p = { 0 };
	struct shape_trace t = rates(100, 3), late = rates(100, 3);
	struct shape_change c[4];
	int64_t due;

	assert_int_equal(player_start(&p, 1, &t, true, 0, 0), 0);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(player_next_ns(&p), 100 * i);
		assert_int_equal(player_take(&p, 100 * i, c, 4, &due), 1);
		assert_int_equal(c[0].rate_bps, 1000 * (i % 3 + 1));
	}
	/* Started at 0 as well, but only now, at 250 of the round that began at 90000. */
	assert_int_equal(player_start(&p, 2, &late, true, 0, 90250), 0);
	assert_int_equal(player_take(&p, 90250, c, 4, &due), 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(c[i].rate_bps, 3000);
	assert_int_equal(player_next_ns(&p), 90300);
	player_stop(&p, 1);
	player_stop(&p, 2);
	assert_int_equal(player_next_ns(&p), INT64_MAX);
	player_free(&p);
}

static void values_of_a_missed_point_are_not_lost(void **state)
{
	struct player p = { 0 };
	struct shape_trace t = rates(100, 2);
	struct shape_change c[1];
	int64_t due;

	t.v[1].to = (struct shape_change){ .set = SHAPE_SET_LATENCY, .latency_ns = 5 };
	assert_int_equal(player_start(&p, 1, &t, false, 0, 0), 0);
	assert_int_equal(player_take(&p, 500, c, 1, &due), 1);
	assert_int_equal(c[0].set, SHAPE_SET_RATE | SHAPE_SET_LATENCY);
	assert_int_equal(c[0].rate_bps, 1000);
	assert_int_equal(c[0].latency_ns, 5);
	player_free(&p);
}

/* ---- shared links ---- */
#define CAPACITY 100000000000ull	/* above what 32 bits of bytes/s hold */
#define PERIOD 100000000ll

static uint64_t bytes_at(uint64_t bps)
{
	return bps / 8 / 10;
}

static void greedy_hosts_get_even_parts(void **state)
{
	struct shape_share v[3];

	for (int i = 0; i < 3; i++)
		v[i] = (struct shape_share){ bytes_at(CAPACITY / 3), 5000000, CAPACITY / 3 };
	shape_divide(CAPACITY, CAPACITY / 100, PERIOD, v, 3);
	assert_int_equal(v[0].rate_bps + v[1].rate_bps + v[2].rate_bps, CAPACITY);
	for (int i = 0; i < 3; i++)
		assert_in_range(v[i].rate_bps, CAPACITY / 3 - 2, CAPACITY / 3 + 2);
}

static void an_idle_part_goes_to_who_wants_it(void **state)
{
	struct shape_share v[3] = { { bytes_at(CAPACITY / 3), 0, CAPACITY / 3 },
				    { bytes_at(CAPACITY / 3), 0, CAPACITY / 3 }, { 0, 0, CAPACITY / 3 } };

	shape_divide(CAPACITY, CAPACITY / 100, PERIOD, v, 3);
	assert_int_equal(v[2].rate_bps, CAPACITY / 100);
	assert_int_equal(v[0].rate_bps + v[1].rate_bps, CAPACITY - CAPACITY / 100);
	assert_in_range(v[0].rate_bps, v[1].rate_bps - 1, v[1].rate_bps + 1);
	/* It wakes: its small part is full at once, so it gets as much as the others. */
	v[0].sent_bytes = v[1].sent_bytes = bytes_at(v[0].rate_bps);
	v[2].sent_bytes = bytes_at(v[2].rate_bps);
	shape_divide(CAPACITY, CAPACITY / 100, PERIOD, v, 3);
	assert_in_range(v[2].rate_bps, CAPACITY / 3 - 2, CAPACITY / 3 + 2);
}

static void a_small_demand_is_met_with_room_to_grow(void **state)
{
	struct shape_share v[2] = { { bytes_at(10000000000), 0, 50000000000 },
				    { bytes_at(50000000000), 1 << 30, 50000000000 } };

	shape_divide(CAPACITY, CAPACITY / 100, PERIOD, v, 2);
	assert_int_equal(v[0].rate_bps, 15000000000);
	assert_int_equal(v[1].rate_bps, CAPACITY - 15000000000);
}

static void nobody_wants_anything_and_all_is_given(void **state)
{
	struct shape_share v[7] = { { 0 } };
	uint64_t sum = 0;

	for (int i = 0; i < 7; i++)
		v[i].rate_bps = CAPACITY / 7;
	shape_divide(CAPACITY, CAPACITY / 100, PERIOD, v, 7);
	for (int i = 0; i < 7; i++) {
		sum += v[i].rate_bps;
		assert_in_range(v[i].rate_bps, CAPACITY / 7 - 10, CAPACITY / 7 + 10);
	}
	assert_int_equal(sum, CAPACITY);
}

/* Max-min: nobody could get more without taking from who has no more than he. */
static void random_demands_are_shared_max_min(void **state)
{
	struct bace_rng r;

	bace_rng_init(&r, 5, 0);
	for (int k = 0; k < 2000; k++) {
		enum { N = 9 };
		struct shape_share v[N];
		double want[N];
		uint64_t sum = 0, most = 0;

		for (int i = 0; i < N; i++) {
			uint64_t bps = bace_rng_below(&r, 30000000000ull);

			v[i] = (struct shape_share){ bytes_at(bps), 0, 60000000000ull };
			want[i] = 1.5 * 80 * (double)v[i].sent_bytes;
			want[i] = want[i] < 1e9 ? 1e9 : want[i];
		}
		shape_divide(CAPACITY, 1000000000, PERIOD, v, N);
		for (int i = 0; i < N; i++) {
			sum += v[i].rate_bps;
			most = v[i].rate_bps > most ? v[i].rate_bps : most;
		}
		assert_int_equal(sum, CAPACITY);
		for (int i = 0; i < N; i++)
			if ((double)v[i].rate_bps < want[i] - 20)
				assert_true(v[i].rate_bps + 20 >= most);
	}
}

/* ---- foreign changes ---- */
static struct nlmsghdr *note(char *buf, uint16_t type, unsigned portid, int ifindex)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);

	nlh->nlmsg_type = type;
	nlh->nlmsg_pid = portid;
	if (type == RTM_DELLINK || type == RTM_NEWLINK)
		((struct ifinfomsg *)mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg)))->ifi_index = ifindex;
	else
		((struct tcmsg *)mnl_nlmsg_put_extra_header(nlh, sizeof(struct tcmsg)))->tcm_ifindex = ifindex;
	return nlh;
}

static void others_changes_to_our_interfaces_concern_us(void **state)
{
	const int ours[] = { 4, 9 };
	_Alignas(NLMSG_ALIGNTO) char buf[256];

	assert_true(watch_concerns(note(buf, RTM_NEWTCLASS, 77, 9), 1, ours, 2));
	assert_true(watch_concerns(note(buf, RTM_DELQDISC, 77, 4), 1, ours, 2));
	assert_true(watch_concerns(note(buf, RTM_DELTFILTER, 0, 4), 1, ours, 2));
	assert_true(watch_concerns(note(buf, RTM_DELLINK, 0, 4), 1, ours, 2));
	assert_false(watch_concerns(note(buf, RTM_NEWLINK, 0, 4), 1, ours, 2));
	assert_false(watch_concerns(note(buf, RTM_NEWTCLASS, 1, 9), 1, ours, 2));
	assert_false(watch_concerns(note(buf, RTM_NEWTCLASS, 77, 5), 1, ours, 2));
	note(buf, RTM_NEWTCLASS, 77, 9)->nlmsg_len = NLMSG_HDRLEN;
	assert_false(watch_concerns((struct nlmsghdr *)buf, 1, ours, 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_point_comes_once_and_in_its_turn),
		cmocka_unit_test(a_loop_goes_round_and_a_late_joiner_is_in_step),
		cmocka_unit_test(values_of_a_missed_point_are_not_lost),
		cmocka_unit_test(greedy_hosts_get_even_parts),
		cmocka_unit_test(an_idle_part_goes_to_who_wants_it),
		cmocka_unit_test(a_small_demand_is_met_with_room_to_grow),
		cmocka_unit_test(nobody_wants_anything_and_all_is_given),
		cmocka_unit_test(random_demands_are_shared_max_min),
		cmocka_unit_test(others_changes_to_our_interfaces_concern_us),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
