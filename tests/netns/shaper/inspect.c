/* What `show` finds in the kernel is what was asked for, also without a daemon
 * that remembers it. */
#include "tests/netns/shaper/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "shaper/inspect.h"

static void enter_g(void)
{
	int fd = open("/run/netns/g", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0 && !setns(fd, CLONE_NEWNET));
	close(fd);
}

static struct shape_seen inspect(void)
{
	struct shape_seen seen;
	struct bace_err e;

	if (shape_inspect(&seen, &e))
		fail_msg("%s", e.msg);
	return seen;
}

/* By its name; NULL: nothing of ours is on it. */
static const struct shape_seen_if *find(const struct shape_seen *seen, const char *ifname)
{
	for (size_t i = 0; i < seen->n; i++)
		if (!strcmp(seen->v[i].ifname, ifname))
			return &seen->v[i];
	return NULL;
}

static bool has_prefix(const struct shape_seen_class *c, const struct shape_prefix *p)
{
	for (int i = 0; i < c->n_prefixes; i++)
		if (!shape_prefix_cmp(&c->prefixes[i], p))
			return true;
	return false;
}

/* Prefixes are read back from u32 keys, also where they stand in hash tables. */
static void check_classes(const struct shape_seen_if *i, const struct shape_spec *s, bool by_source)
{
	assert_int_equal(i->n, s->n_links);
	for (int k = 0; k < s->n_links; k++) {
		const struct shape_seen_class *c = &i->v[k];
		const struct shape_link *l = &s->links[k];

		assert_int_equal(c->region, l->region);
		assert_int_equal(c->by_source, by_source);
		assert_int_equal(c->n_prefixes, l->n_prefixes);
		for (int p = 0; p < l->n_prefixes; p++)
			assert_true(has_prefix(c, &l->prefixes[p]));
		if (!by_source) {
			assert_int_equal(c->rate_bps, l->rate_bps);
			assert_int_equal(c->buffer_bytes, l->buffer_bytes);
		} else {
			assert_true(c->netem);
			assert_int_equal(c->latency_ns, l->latency_ns);
			assert_int_equal(c->jitter_ns, l->jitter_ns);
		}
	}
}

static void what_was_asked_is_what_is_seen(void **state)
{
	enum { N = 40 };
	static struct shape_link l[N];
	struct shape_spec s = spec_to_a(&l[0], 10000000000, 5000000);
	struct shaperd_client *client;
	struct shape_seen seen = inspect();
	struct bace_err e;

	assert_int_equal(seen.n, 0);
	assert_false(seen.queue_bound);
	shape_seen_free(&seen);
	l[0].buffer_bytes = 1000000;
	for (int i = 1; i < N; i++) {
		l[i] = l[0];
		l[i].region = (uint16_t)(1 + 3 * i);
		l[i].rate_bps = 5000000000 + 8000 * (uint64_t)i;
		l[i].latency_ns = 1000000 + i;
		l[i].jitter_ns = i % 2 ? 1000 : 0;
		l[i].jitter_dist = JITTER_UNIFORM;
		l[i].prefixes[0] = (struct shape_prefix){ .family = AF_INET, .len = 24, .addr = { 10, 32, (uint8_t)i } };
		l[i].prefixes[1] = (struct shape_prefix){ .family = AF_INET6, .len = 64, .addr = { 0xfd, 0, 1, (uint8_t)i } };
	}
	s.n_links = N;
	if (shaperd_connect(SOCKET, &client, &e) || shaperd_plan(client, &s, &e))
		fail_msg("%s", e.msg);
	sh("ip netns exec b ping -qc3 -i0.2 " ADDR_A " >/dev/null");
	seen = inspect();
	assert_non_null(find(&seen, "wan0"));
	check_classes(find(&seen, "wan0"), &s, false);
	assert_true(find(&seen, "wan0")->v[0].packets >= 3 && find(&seen, "wan0")->v[0].bytes >= 3 * 98);
	assert_int_equal(find(&seen, "wan0")->v[1].packets, 0);
	if (backend == DELAY_NETEM)
		check_classes(find(&seen, "lan0"), &s, true);
	else
		assert_null(find(&seen, "lan0"));
	assert_int_equal(seen.queue_bound, backend == DELAY_NFQUEUE);
	shape_seen_free(&seen);
	shaperd_close(client);
}

/* Somebody else's HTB has another handle. */
static void what_is_not_ours_is_not_seen(void **state)
{
	struct shape_seen seen;

	sh("for i in $(seq 50); do tc qdisc show dev wan0 | grep -q bace: || break; sleep 0.1; done\n"
	   "tc qdisc add dev wan0 root handle 1: htb default 10; tc class add dev wan0 parent 1: classid 1:10 htb rate 1gbit");
	seen = inspect();
	assert_null(find(&seen, "wan0"));
	shape_seen_free(&seen);
	sh("tc qdisc del dev wan0 root");
}

static int body(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_asked_is_what_is_seen),
		cmocka_unit_test(what_is_not_ours_is_not_seen),
	};
	pid_t daemon;
	int rc;

	network_up();
	daemon = shaperd_start("g", "");
	enter_g();
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	shaperd_stop(daemon, SIGTERM);
	return rc;
}

int main(int argc, char **argv)
{
	return sandbox_main(argc, argv, body);
}
