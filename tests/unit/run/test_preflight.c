/* What a run says before it begins, and what it keeps of how links were made. */
#include "harness/run/internal.h"
#include "tests/unit/oracle/moments.h"

static void scaled(struct bench *b, double bytes, double time)
{
	b->f.e.cluster.mtu = 1500;
	b->f.e.testbed = (struct testbed_spec){ .scale_bytes = bytes, .scale_time = time, .hosts_per_region = 2,
						.wan = WAN_STEADY };
	b->f.e.schedule = SCHED_1F1B;
}

/* 8 Mbit of a message in 1.5 s, both ways: 5.33 Mbit/s of payload, 5.58 with headers. */
static void packets_of_a_pair(void **state)
{
	struct lab_traffic t = { .min_message_bytes = 1000000 };
	struct bench b;
	double one;

	begin(&b);
	scaled(&b, 1, 1);
	assert_close(moment_packets_per_s(&b.m, &t), 0);
	pair(&b, 0, 0, 1);
	one = 2 * 8e6 / 1.5 * 1514 / 1448 / 8 / (1.6 * 1514);
	assert_close(moment_packets_per_s(&b.m, &t), one);
	/* Half of the bytes in a tenth of the time; small messages go in single frames. */
	scaled(&b, 0.5, 0.1);
	assert_close(moment_packets_per_s(&b.m, &t), 5 * one);
	t.min_message_bytes = 10000;
	assert_close(moment_packets_per_s(&b.m, &t), 1.6 * 5 * one);
	/* Within a region nothing goes over a link. */
	pair(&b, 1, 2, 2);
	assert_close(moment_packets_per_s(&b.m, &t), 1.6 * 5 * one);
	end(&b);
}

/* What design and doctor go by: 30 links of 20 Mbit/s, 31,000 packets a second. */
static void full_links(void **state)
{
	struct lab_traffic t = { .min_message_bytes = 1000000 };
	struct bench b;

	begin(&b);
	scaled(&b, 1, 1);
	for (int i = 0; i < b.f.models.n; i++)
		b.f.models.v[i].boundary_bytes *= 1000;
	for (int i = 0; i < 16; i++)
		b.f.capacity_bps[i] = 300e6;
	b.m.capacity_bps = b.f.capacity_bps;
	/* Two jobs want more of the one link than there is. */
	pair(&b, 0, 0, 1);
	pair(&b, 1, 1, 0);
	assert_in_range((long)moment_packets_per_s(&b.m, &t), 30900, 31000);
	end(&b);
}

static void what_fits(void **state)
{
	struct testbed_spec t = { .scale_bytes = 0.01, .scale_time = 0.5 };
	char text[400];

	assert_false(packets_note(&t, "ldf", 31000, 2, text, sizeof(text)));
	assert_true(packets_note(&t, "ldf", 31001, 2, text, sizeof(text)));
	assert_non_null(strstr(text, "testbed.scale.time = 0.51 in place of 0.5"));
	assert_true(packets_note(&t, "ldf", 77500, 2, text, sizeof(text)));
	assert_non_null(strstr(text, "where ldf has most jobs on links"));
	assert_non_null(strstr(text, "about 77500 packets a second"));
	assert_non_null(strstr(text, "2 processors carries about 31000"));
	assert_non_null(strstr(text, "testbed.scale.time = 1.3 in place of 0.5"));
}

/* 100 Mbit/s of payload and 0.25 s each way; messages of 100 kB. */
static void computed_of_a_lab(void **state)
{
	struct run_options o = { 0 };
	struct bench b;
	struct link_computed v[16];
	struct bace_err e;

	begin(&b);
	scaled(&b, 1, 1);
	b.f.e.oracle_measured = true;
	struct run r = { .exp = &b.f.e, .o = &o, .backend = BACKEND_NFQUEUE,
			 .traffic = { .message_bytes = 100000, .min_message_bytes = 100000, .jobs_on_link = 2,
				      .wan = WAN_STEADY } };
	double rate = (double)b.f.e.cluster.links[1].rate_bps;

	assert_int_equal(links_computed(&r, v, &e), 0);
	/* 0.5 s at the rate; 0.25 ms of it. */
	assert_true(fabs(v[1].queue_bytes - rate / 8 * 0.5) <= 1);
	assert_true(fabs(v[1].burst_bytes - rate / 8 * 0.25e-3) <= 1);
	assert_true(v[1].gso_max_bytes == 2000);
	assert_true(v[1].initcwnd_segments == ceil((rate / 8 * 0.5 + 100000) / 1448));
	assert_true(v[1].delay_limit_packets >= 1.5 * rate / 8 * 0.25 / 1514);
	/* There is no link from a region to itself. */
	assert_true(isnan(v[0].queue_bytes) && isnan(v[0].initcwnd_segments));
	b.f.e.cluster.links[1].buffer_bytes = 77777;
	r.traffic.wan = b.f.e.testbed.wan = WAN_STOCK;
	assert_int_equal(links_computed(&r, v, &e), 0);
	assert_true(v[1].queue_bytes == 77777 && isnan(v[1].initcwnd_segments));
	end(&b);
}

static bool differs(const struct run *r, char **was)
{
	char *now = run_settings(r);
	bool other = strcmp(now, *was) != 0;

	free(*was);
	*was = now;
	return other;
}

/* Of what acts on a cell and is not in its moment's key. */
static void settings_are_of_the_cell(void **state)
{
	struct disturbance d = { .from = 0, .to = 1, .trace = (char[]){ "t_s,loss\n0,0\n" } };
	struct run_options o = { 0 };
	struct bench b;

	begin(&b);
	scaled(&b, 1, 1);
	struct run r = { .exp = &b.f.e, .o = &o };
	char *was = run_settings(&r);

	b.f.e.text_hash++;
	b.f.e.seed++;
	b.f.e.cluster.regions[0].pue = 2;
	b.f.e.jobs[0].steps *= 2;
	b.f.e.n_policies++;
	b.f.e.testbed.verify_s = 7;
	assert_false(differs(&r, &was));
	b.f.e.n_policies--;
	b.f.e.cluster.mtu = 9000;
	assert_true(differs(&r, &was));
	b.f.e.cluster.regions[1].intra_latency_ns++;
	assert_true(differs(&r, &was));
	b.f.e.cluster.links[2].buffer_bytes++;
	assert_true(differs(&r, &was));
	b.f.e.models[b.f.e.jobs[0].model].recompute ^= true;
	assert_true(differs(&r, &was));
	b.f.e.models[b.f.e.jobs[0].model].hidden++;
	assert_true(differs(&r, &was));
	b.f.e.testbed.timeline = TIMELINE_WITH_SENDS;
	assert_true(differs(&r, &was));
	b.f.e.testbed.sockets_per_hop = 2;
	assert_true(differs(&r, &was));
	b.f.e.testbed.steps++;
	assert_true(differs(&r, &was));
	r.traffic.message_bytes++;
	assert_true(differs(&r, &was));
	b.f.e.testbed.n_disturb = 1;
	b.f.e.testbed.disturb = &d;
	assert_true(differs(&r, &was));
	d.trace[9] = '1';
	assert_true(differs(&r, &was));
	b.f.e.testbed.n_disturb = 0;
	b.f.e.testbed.disturb = NULL;
	free(was);
	end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_of_a_pair), cmocka_unit_test(full_links), cmocka_unit_test(what_fits),
		cmocka_unit_test(computed_of_a_lab), cmocka_unit_test(settings_are_of_the_cell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
