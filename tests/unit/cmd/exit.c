/* What a failure is to who called: 2 is input, 3 the machine, 1 the rest. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "harness/cmd/cmd.h"

static void the_table(void **state)
{
	static const struct {
		int errnum, before, after;	/* it began */
	} rows[] = {
		{ 0, 0, 0 }, { EINVAL, 2, 2 }, { ENODEV, 2, 2 }, { ENETDOWN, 2, 2 }, { EEXIST, 2, 2 }, { ENOTSUP, 2, 2 },
		{ ENOENT, 2, 2 }, { EISCONN, 2, 2 }, { EPERM, 3, 3 }, { EACCES, 3, 3 }, { ENOSYS, 3, 3 }, { ENOPKG, 3, 3 },
		{ EUCLEAN, 2, 1 }, { EPROTO, 2, 1 }, { EROFS, 3, 1 }, { ENOSPC, 3, 1 }, { ENOMEM, 1, 1 }, { EBADMSG, 1, 1 },
		{ ENOMSG, 1, 1 }, { ENOTEMPTY, 1, 1 }, { ECANCELED, 1, 1 }, { ETIMEDOUT, 1, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(cmd_exit_of(-rows[i].errnum, false), rows[i].before);
		assert_int_equal(cmd_exit_of(-rows[i].errnum, true), rows[i].after);
		assert_int_equal(cmd_exit_of(rows[i].errnum, true), rows[i].after);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_table) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
