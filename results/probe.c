/*
 * A file is looked at before SQLite opens it, which may write to it (roll back
 * a journal, make a log). Offsets are those of the database header, see
 * "Database File Format" at sqlite.org.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "results/schema.h"
#include "results/store.h"

#define HEADER 100

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool has_log(const char *path)
{
	CLEANUP_FREE char *log = NULL;
	struct stat st;

	if (asprintf(&log, "%s-wal", path) < 0) {
		log = NULL;
		return true;
	}
	return !stat(log, &st) && st.st_size > 0;
}

static int check_size(const char *path, const uint8_t *h, off_t size, struct bace_err *e)
{
	unsigned page = (unsigned)h[16] << 8 | h[17];
	off_t want = (off_t)be32(h + 28) * (page == 1 ? 65536 : page);

	/* The count of pages holds only where both change counters agree. */
	if (be32(h + 24) != be32(h + 92) || size >= want)
		return 0;
	return bace_fail(e, EUCLEAN, "store %s: cut off: %lld bytes of %lld are there; it was not touched",
			 path, (long long)size, (long long)want);
}

int store_probe(const char *path, int *version, struct bace_err *e)
{
	uint8_t h[HEADER] = { 0 };
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	*version = 0;
	if (fd < 0)
		return errno == ENOENT ? 0 : bace_fail_errno(e, errno, "store %s", path);
	if (fstat(fd, &st))
		return bace_fail_errno(e, errno, "store %s", path);
	if (!S_ISREG(st.st_mode))
		return bace_fail(e, EINVAL, "store %s: not a file", path);
	n = pread(fd, h, sizeof(h), 0);
	if (n < 0)
		return bace_fail_errno(e, errno, "store %s: read", path);
	*version = -1;
	if (!n)
		return 0;
	if (memcmp(h, "SQLite format 3", (size_t)(n < 16 ? n : 16)))
		return bace_fail(e, EUCLEAN, "store %s: not a store of bace; it was not touched", path);
	if (n < HEADER)
		return bace_fail(e, EUCLEAN, "store %s: cut off: %zd bytes are there; it was not touched",
				 path, n);
	if (has_log(path))
		return 0;
	*version = (int)be32(h + 60);
	/* A database without a table yet is one that was being made. */
	if (be32(h + 68) != STORE_APPLICATION_ID && (be32(h + 68) || be32(h + 40) || be32(h + 60)))
		return bace_fail(e, EUCLEAN, "store %s: a database of something else; it was not touched",
				 path);
	if (*version > store_version)
		return bace_fail(e, EPROTO, "store %s: schema version %d; this bace knows up to %d: use a "
				 "newer bace; it was not touched", path, *version, store_version);
	return check_size(path, h, st.st_size, e);
}
