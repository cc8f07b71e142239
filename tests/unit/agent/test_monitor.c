/* Netlink's answers, and the receiving end of probes. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/monitor/internal.h"
#include "tests/unit/agent/fixture.h"

#define TOKEN 4711

/* ---- netlink ---- */

static int count(const struct nlmsghdr *h, void *arg)
{
	++*(int *)arg;
	return MNL_CB_OK;
}

static size_t put(char *at, uint16_t type, uint16_t flags, uint32_t seq)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(at);

	h->nlmsg_type = type;
	h->nlmsg_flags = NLM_F_MULTI | flags;
	h->nlmsg_seq = seq;
	if (type == NLMSG_DONE)
		mnl_nlmsg_put_extra_header(h, sizeof(int));
	return h->nlmsg_len;
}

/* A dump that was interrupted is read to its end: what is left unread would be
 * taken for the answer to the next question. */
static void test_interrupted_dump(void **state)
{
	char buf[256] __attribute__((aligned(4)));
	int seen = 0;
	size_t n = put(buf, NLMSG_MIN_TYPE, 0, 7);

	n += put(buf + n, NLMSG_MIN_TYPE, NLM_F_DUMP_INTR, 7);
	n += put(buf + n, NLMSG_MIN_TYPE, NLM_F_DUMP_INTR, 7);
	assert_int_equal(nl_take(buf, n, 7, 0, count, &seen), 1);
	assert_int_equal(seen, 3);
	n = put(buf, NLMSG_DONE, NLM_F_DUMP_INTR, 7);
	assert_int_equal(nl_take(buf, n, 7, 0, count, &seen), 0);
	/* Of an earlier question. */
	n = put(buf, NLMSG_MIN_TYPE, 0, 6);
	assert_int_equal(nl_take(buf, n, 7, 0, count, &seen), -EPROTO);
	assert_int_equal(seen, 3);
}

/* ---- probes ---- */

struct probed {
	struct agent a;
	struct responder *r;
	int fd;				/* the prober's */
	struct probe_report got[8];
	int n_got;
};

static void probed_open(struct probed *p)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct bace_err e = { 0 };

	agent_begin(&p->a);
	if (responder_open(&p->a, "127.0.0.1", &p->r, &e))
		fail_msg("%s", e.msg);
	responder_set_token(p->r, TOKEN);
	sa.sin_port = htons(responder_port(p->r));
	p->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	assert_int_equal(connect(p->fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	p->n_got = 0;
}

static void probed_close(struct probed *p)
{
	responder_close(p->r);
	close(p->fd);
	agent_over(&p->a);
}

static void probe(const struct probed *p, uint32_t train, int index, int packets)
{
	char buf[200] = { 0 };
	struct probe_packet head = { .magic = PROBE_MAGIC, .index = (uint16_t)index, .count = (uint16_t)packets,
				     .token = TOKEN, .train = train };

	memcpy(buf, &head, sizeof(head));
	assert_int_equal(send(p->fd, buf, sizeof(buf), 0), sizeof(buf));
}

static bool hears(void *arg)
{
	struct probed *p = arg;

	while (p->n_got < 8 && recv(p->fd, &p->got[p->n_got], sizeof(p->got[0]), 0) > 0)
		p->n_got++;
	return p->n_got > 0;
}

static bool never(void *arg)
{
	hears(arg);
	return false;
}

/* Lets all patience pass. */
static void wait_a_while(struct probed *p)
{
	struct timeval tv = { .tv_usec = 400000 };

	event_base_loopexit(p->a.base, &tv);
	event_base_dispatch(p->a.base);
	never(p);
}

static void test_overtaken_and_doubled(void **state)
{
	static const int order[] = { 0, 2, 2, 3, 1, 1, 3, 0 };
	struct probed p;

	probed_open(&p);
	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		probe(&p, 9, order[i], 4);
	assert_true(spin(&p.a, hears, &p));
	wait_a_while(&p);
	/* One report, of all, each once. */
	assert_int_equal(p.n_got, 1);
	assert_int_equal(p.got[0].head.magic, PROBE_REPORT_MAGIC);
	assert_int_equal(p.got[0].head.train, 9);
	assert_int_equal(p.got[0].head.index, 4);
	assert_int_equal(p.got[0].bytes, 200 + 42);
	for (int i = 1; i < 4; i++)
		assert_true(p.got[0].at_us10[i] >= p.got[0].at_us10[i - 1]);
	probed_close(&p);
}

static void test_lost(void **state)
{
	struct probed p;

	probed_open(&p);
	probe(&p, 1, 0, 4);
	probe(&p, 1, 3, 4);		/* the middle */
	probe(&p, 2, 0, 4);
	probe(&p, 2, 1, 4);		/* the end */
	wait_a_while(&p);
	assert_int_equal(p.n_got, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(p.got[i].head.index, 2);
	/* Too late to be a train of its own. */
	probe(&p, 1, 1, 4);
	probe(&p, 2, 3, 4);
	wait_a_while(&p);
	assert_int_equal(p.n_got, 2);
	probed_close(&p);
}

static void test_strangers(void **state)
{
	struct probe_packet bad[] = {
		{ .magic = PROBE_MAGIC + 1, .count = 1, .token = TOKEN },
		{ .magic = PROBE_MAGIC, .count = 1, .token = TOKEN + 1 },
		{ .magic = PROBE_MAGIC, .count = 0, .token = TOKEN },
		{ .magic = PROBE_MAGIC, .count = PROBE_PACKETS_MAX + 1, .token = TOKEN },
		{ .magic = PROBE_MAGIC, .count = 4, .index = 4, .token = TOKEN },
	};
	struct probed p;

	probed_open(&p);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_true(send(p.fd, &bad[i], sizeof(bad[i]), 0) > 0);
	assert_true(send(p.fd, "short", 5, 0) > 0);
	/* A token that was never set lets nobody in. */
	wait_a_while(&p);
	responder_set_token(p.r, 0);
	bad[1].token = 0;
	assert_true(send(p.fd, &bad[1], sizeof(bad[1]), 0) > 0);
	wait_a_while(&p);
	assert_int_equal(p.n_got, 0);
	probed_close(&p);
}

/* More than there is room for: the oldest give way, the others are answered. */
static void test_many_trains(void **state)
{
	struct probed p;

	probed_open(&p);
	for (uint32_t t = 0; t < 100; t++)
		probe(&p, t, 0, 2);
	for (uint32_t t = 92; t < 100; t++)
		probe(&p, t, 1, 2);
	assert_true(spin(&p.a, hears, &p));
	wait_a_while(&p);
	assert_int_equal(p.n_got, 8);
	for (int i = 0; i < 8; i++)
		assert_int_equal(p.got[i].head.index, 2);
	probed_close(&p);
}

/* A full packet of either family is 1514 bytes at layer 2. */
static void test_sizes(void **state)
{
	assert_int_equal(probe_payload(AF_INET), 1472);
	assert_int_equal(probe_payload(AF_INET6), 1452);
	assert_true(probe_payload(AF_INET) <= PROBE_PAYLOAD_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_interrupted_dump),      cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_overtaken_and_doubled), cmocka_unit_test(test_lost),
		cmocka_unit_test(test_strangers),	      cmocka_unit_test(test_many_trains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
