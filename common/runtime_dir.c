#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/common.h"

static int make_private(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	/* What is read there is believed: somebody else's will not do. */
	if (lstat(path, &st))
		return -errno;
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022) ? 0 : -EPERM;
}

int bace_runtime_dir(const char *name, char *buf, size_t cap, struct bace_err *e)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char places[3][200] = { "/run/bace", "", "" };
	int rc = -ENOENT;

	if (runtime && *runtime == '/')
		snprintf(places[1], sizeof(places[1]), "%.150s/bace", runtime);
	snprintf(places[2], sizeof(places[2]), "/tmp/bace-%u", geteuid());
	for (size_t i = 0; i < ARRAY_LEN(places) && rc; i++) {
		if (!places[i][0] || (rc = make_private(places[i])))
			continue;
		if ((size_t)snprintf(buf, cap, "%s/%s", places[i], name) >= cap)
			return bace_fail(e, ENAMETOOLONG, "%s/%s: too long a path", places[i], name);
		rc = make_private(buf);
	}
	return rc ? bace_fail_errno(e, -rc, "make a private folder in /run/bace or %s", places[2]) : 0;
}
