#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/common.h"

int bace_read_file(const char *path, size_t max_bytes, char **text, size_t *len, struct bace_err *e)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct bace_buf b = { 0 };
	struct stat st;
	char chunk[16384];
	ssize_t n;
	int rc;

	if (fd < 0 || fstat(fd, &st))
		return bace_fail_errno(e, errno, "read %s", path);
	if (S_ISDIR(st.st_mode))
		return bace_fail_errno(e, EISDIR, "read %s", path);
	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			rc = bace_fail_errno(e, errno, "read %s", path);
			goto undo;
		}
		if ((size_t)n > max_bytes - b.len) {
			rc = bace_fail(e, EFBIG, "read %s: longer than %zu bytes", path, max_bytes);
			goto undo;
		}
		rc = bace_buf_add(&b, chunk, n);
		if (rc) {
			bace_fail_errno(e, -rc, "read %s", path);
			goto undo;
		}
	}
	rc = bace_buf_add(&b, "", 0);	/* an empty file is an empty string */
	if (rc) {
		bace_fail_errno(e, -rc, "read %s", path);
		goto undo;
	}
	if (len)
		*len = b.len;
	*text = b.p;
	return 0;
undo:
	bace_buf_free(&b);
	return rc;
}

int bace_write_all(int fd, const void *p, size_t n)
{
	const char *c = p;

	while (n) {
		ssize_t w = write(fd, c, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -errno;
		c += w;
		n -= w;
	}
	return 0;
}
