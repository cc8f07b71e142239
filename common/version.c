#include "common/common.h"
#include "config.h"
#include "git_revision.h"

const char *bace_version(void)
{
	return BACE_VERSION;
}

const char *bace_git_revision(void)
{
	return GIT_REVISION[0] ? GIT_REVISION : NULL;
}
