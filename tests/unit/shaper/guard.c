/* Which interfaces are refused before anything is touched. */
#include "tests/unit/shaper/support.h"

#include <errno.h>

#include "shaper/guard.h"

static void a_slave_of_a_bond_is_refused(void **state)
{
	static const struct {
		const char *kind, *said;
	} v[] = { { "bond", "is a slave of a bond: shape the bond itself" }, { "team", "is a slave of a team" } };
	struct bace_err e;

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		struct if_info info = { .ifname = "eth1", .up = true, .master = 7 };

		strcpy(info.slave_kind, v[i].kind);
		assert_int_equal(guard_check_usable(&info, &e), -EINVAL);
		assert_non_null(strstr(e.msg, "`eth1'"));
		assert_non_null(strstr(e.msg, v[i].said));
	}
}

static void a_port_of_a_bridge_may_be_shaped(void **state)
{
	const struct if_info port = { .ifname = "eth1", .up = true, .master = 7, .slave_kind = "bridge" };
	struct if_info down = { .ifname = "eth1" };
	struct bace_err e;

	assert_int_equal(guard_check_usable(&port, &e), 0);
	assert_int_equal(guard_check_usable(&down, &e), -ENETDOWN);
	assert_non_null(strstr(e.msg, "ip link set eth1 up"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slave_of_a_bond_is_refused),
		cmocka_unit_test(a_port_of_a_bridge_may_be_shaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
