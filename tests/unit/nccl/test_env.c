/* What NCCL is told by its environment, and what of the user's is dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "workloads/nccl/env.h"

static void test_user_settings_are_dropped(void **state)
{
	struct worker_stage_spec stage = { .stage = 1 };
	struct worker_spec spec = { .host = "h", .n_stages = 1, .stages = &stage,
		.nccl = { .used = true, .addr = "127.0.0.1", .threads = 2, .sockets = 3 } };
	char ifname[IF_NAMESIZE];
	struct bace_err e = { 0 };

	setenv("NCCL_PROTO", "LL", 1);
	setenv("NCCL_NET", "IB", 1);
	setenv("NCCL_CONF_FILE", "/home/user/mine.conf", 1);
	if (nccl_env_set(&spec, 2, ifname, &e))
		fail_msg("%s", e.msg);
	assert_null(getenv("NCCL_PROTO"));
	assert_string_equal(getenv("NCCL_NET"), "Socket");
	/* Or NCCL would read ~/.nccl.conf. */
	assert_string_equal(getenv("NCCL_CONF_FILE"), "/dev/null");
	assert_string_equal(getenv("NCCL_SOCKET_IFNAME"), "=lo");
	assert_string_equal(getenv("NCCL_SOCKET_NTHREADS"), "2");
	assert_string_equal(getenv("NCCL_NSOCKS_PERTHREAD"), "3");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_user_settings_are_dropped) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
