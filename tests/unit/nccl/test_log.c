/* NCCL's log: lines as version 2.28 writes them, whole and in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "workloads/nccl/log.h"

#define HEAD "gpu1:4711:4712 [0] NCCL INFO "
#define GOOD \
	HEAD "NET/Socket : Using [0]eth0:10.1.2.3<0>\n" \
	HEAD "Initialized NET plugin Socket\n" \
	HEAD "Using network Socket\n" \
	HEAD "Channel 00/02 : 0 1 2 3\n" \
	HEAD "Trees [0] 2/-1/-1->1->0 [1] 2/-1/-1->1->0\n" \
	HEAD "Channel 00/1 : 0[0] -> 1[0] [receive] via NET/Socket/0\n" \
	HEAD "Channel 01/1 : 0[0] -> 1[0] [receive] via NET/Socket/0\n" \
	HEAD "Channel 00/1 : 1[0] -> 0[0] [send] via NET/Socket/0\n" \
	HEAD "Channel 00/1 : 2[0] -> 1[0] [receive] via NET/Socket/0/Shared\n" \
	HEAD "Channel 00/1 : 1[0] -> 2[0] [send] via NET/Socket/0/Shared\n"

static const int neighbours[] = { 0, 2 };

static int check(const char *text, struct bace_err *e)
{
	CLEANUP_FREE struct nccl_log *log = calloc(1, sizeof(*log));

	assert_non_null(log);
	nccl_log_feed(log, text, strlen(text));
	return nccl_log_check(log, 1, neighbours, 2, "eth0:10.1.2.3", e);
}

static void sockets_are_accepted(void **state)
{
	struct bace_err e;

	assert_int_equal(check(GOOD, &e), 0);
}

static void in_pieces(void **state)
{
	struct bace_err e;

	for (size_t size = 1; size < 70; size += 3) {
		struct nccl_log log = { 0 };
		const char *p = GOOD;

		for (size_t left = strlen(p); left;) {
			size_t n = left < size ? left : size;

			nccl_log_feed(&log, p, n);
			p += n;
			left -= n;
		}
		assert_int_equal(log.n_paths, 4);
		assert_int_equal(nccl_log_check(&log, 1, neighbours, 2, "eth0:10.1.2.3", &e), 0);
	}
}

static void refused(const char *text, const char *why)
{
	struct bace_err e = { 0 };

	assert_int_equal(check(text, &e), -71);		/* EPROTO */
	if (!strstr(e.msg, why))
		fail_msg("`%s' does not say `%s'", e.msg, why);
}

static void other_ways_are_refused(void **state)
{
	refused(GOOD HEAD "Channel 00 : 1[0] -> 2[0] via SHM/direct/direct\n",
		"rank 1 reaches rank 2 via SHM/direct/direct");
	refused(GOOD HEAD "Channel 00/0 : 0[0] -> 3[1] via P2P/CUMEM/read\n", "rank 0 reaches rank 3 via P2P/CUMEM/read");
	refused(GOOD HEAD "Channel 01/0 : 1[0] -> 2[0] [send] via NET/IB/0/GDRDMA\n", "via NET/IB/0/GDRDMA");
	refused(HEAD "Using network IB\n", "uses the network `IB'");
	refused("", "uses the network `nothing'");
}

static void other_interfaces_are_refused(void **state)
{
	refused(HEAD "Using network Socket\n", "uses `no interface'");
	refused(HEAD "NET/Socket : Using [0]mgmt0:10.1.2.3<0>\n" HEAD "Using network Socket\n", "not eth0:10.1.2.3 alone");
	refused(HEAD "NET/Socket : Using [0]eth0:10.1.2.34<0>\n" HEAD "Using network Socket\n", "not eth0:10.1.2.3 alone");
	refused(HEAD "NET/Socket : Using [0]eth0:10.1.2.3<0> [1]eth1:10.9.9.9<0>\n" HEAD "Using network Socket\n",
		"not eth0:10.1.2.3 alone");
}

static void silence_is_refused(void **state)
{
	refused(HEAD "NET/Socket : Using [0]eth0:10.1.2.3<0>\n" HEAD "Using network Socket\n"
		HEAD "Channel 00/1 : 1[0] -> 0[0] [send] via NET/Socket/0\n", "sends to rank 0 and receives from it");
}

static void keeps_the_last_warning(void **state)
{
	struct nccl_log log = { 0 };
	const char *text = "h:1:2 [0] NCCL WARN socketPollConnect: connect to 10.0.0.1<1> \x1b[0m failed\nh:1:2 [0] NCCL INFO x\n";

	nccl_log_feed(&log, text, strlen(text));
	assert_string_equal(log.warning, "socketPollConnect: connect to 10.0.0.1<1>  [0m failed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sockets_are_accepted),
		cmocka_unit_test(in_pieces),
		cmocka_unit_test(other_ways_are_refused),
		cmocka_unit_test(other_interfaces_are_refused),
		cmocka_unit_test(silence_is_refused),
		cmocka_unit_test(keeps_the_last_warning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
