/* What a failure's errno means for who called: one table for all that shapes links. */
#include <errno.h>
#include <stdlib.h>

#include "harness/cmd/cmd.h"

int cmd_exit_of(int rc, bool began)
{
	switch (abs(rc)) {
	case 0:
		return BACE_EXIT_OK;
	/* What was asked for is wrong, or is not what there is. */
	case EINVAL:
	case ENODEV:
	case ENETDOWN:
	case EEXIST:			/* somebody's qdisc */
	case ENOTSUP:			/* by this delay, with this qdisc in the way */
	case ENOENT:
	case EISCONN:			/* the interface of the default route */
		return BACE_EXIT_INPUT;
	/* The same would do elsewhere, or with what the message names. */
	case EPERM:
	case EACCES:
	case ENOSYS:
	case ENOPKG:
		return BACE_EXIT_ENV;
	/* What keeps a run from beginning is its store. */
	case EUCLEAN:
	case EPROTO:
		return began ? BACE_EXIT_FAILED : BACE_EXIT_INPUT;
	case EROFS:
	case ENOSPC:
		return began ? BACE_EXIT_FAILED : BACE_EXIT_ENV;
	default:
		return BACE_EXIT_FAILED;
	}
}
