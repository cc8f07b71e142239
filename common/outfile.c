#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/common.h"

#define OUT_BUFFER_BYTES (1u << 18)

static bool same_file(int fd, const struct stat *st)
{
	struct stat own;

	return !fstat(fd, &own) && own.st_dev == st->st_dev && own.st_ino == st->st_ino;
}

static int refuse(const char *path, mode_t mode, struct bace_err *e)
{
	if (S_ISDIR(mode))
		return bace_fail(e, EISDIR, "write %s: it is a folder: name a file in it", path);
	return bace_fail(e, EINVAL, "write %s: it is a %s: name a file, a pipe or a character device", path,
			 S_ISBLK(mode) ? "disk" : "socket");
}

/* What is no regular file is written to as it is: a rename would replace it. */
static int open_as_it_is(const char *path, int flags, struct bace_outfile *o, struct bace_err *e)
{
	struct stat st;
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | flags, 0666);

	if (fd < 0 || fstat(fd, &st)) {
		int saved = errno;

		if (fd >= 0)
			close(fd);
		return bace_fail_errno(e, saved, "write %s", path);
	}
	o->f = fdopen(fd, "w");
	if (o->f)
		return 0;
	close(fd);
	return bace_fail(e, ENOMEM, "write %s: out of memory", path);
}

/* A new file beside the old one, with its permissions. */
static int open_beside(const char *path, const struct stat *old, struct bace_outfile *o, struct bace_err *e)
{
	uint32_t salt = 0;
	int fd;

	/* The end of a link, so that the link stays one. */
	o->target = old ? realpath(path, NULL) : strdup(path);
	if (!o->target)
		return bace_fail_errno(e, errno, "write %s", path);
	if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		salt = (uint32_t)bace_mono_ns();
	if (asprintf(&o->part, "%s.%d-%08x.part", o->target, getpid(), salt) < 0) {
		o->part = NULL;
		return bace_fail(e, ENOMEM, "write %s: out of memory", path);
	}
	fd = open(o->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0) {
		int saved = errno;

		free(STEAL_PTR(o->part));
		return bace_fail_errno(e, saved, "write %s: make a file beside it", path);
	}
	if ((old && fchmod(fd, old->st_mode & 07777)) || !(o->f = fdopen(fd, "w"))) {
		int saved = errno;

		close(fd);
		return bace_fail_errno(e, saved, "write %s", path);
	}
	return 0;
}

static int choose(const char *path, struct bace_outfile *o, struct bace_err *e)
{
	struct stat st, link;

	if (stat(path, &st)) {
		if (errno != ENOENT)
			return bace_fail_errno(e, errno, "write %s", path);
		/* A link that leads nowhere yet: its end is made. */
		if (!lstat(path, &link))
			return open_as_it_is(path, O_CREAT, o, e);
		return open_beside(path, NULL, o, e);
	}
	if (S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode))
		return open_as_it_is(path, 0, o, e);
	if (!S_ISREG(st.st_mode))
		return refuse(path, st.st_mode, e);
	/* /dev/stdout of a shell's `> FILE': others write to that very file. */
	if (same_file(STDOUT_FILENO, &st) || same_file(STDERR_FILENO, &st))
		return open_as_it_is(path, O_APPEND, o, e);
	return open_beside(path, &st, o, e);
}

static void clear(struct bace_outfile *o)
{
	if (o->f)
		fclose(o->f);
	if (o->part)
		unlink(o->part);
	free(o->part);
	free(o->target);
	free(o->buffer);
	*o = (struct bace_outfile){ 0 };
}

int bace_outfile_open(const char *path, struct bace_outfile *o, struct bace_err *e)
{
	int rc;

	*o = (struct bace_outfile){ 0 };
	rc = choose(path, o, e);
	if (rc) {
		clear(o);
		return rc;
	}
	o->buffer = malloc(OUT_BUFFER_BYTES);
	if (o->buffer)
		setvbuf(o->f, o->buffer, _IOFBF, OUT_BUFFER_BYTES);
	snprintf(o->path, sizeof(o->path), "%s", path);
	return 0;
}

int bace_outfile_close(struct bace_outfile *o, int rc, struct bace_err *e)
{
	struct stat st;
	int bad;

	if (!o->f)
		return rc;
	errno = 0;
	bad = ferror(o->f) | fflush(o->f);
	if (bad && !rc)
		rc = bace_fail_errno(e, errno ? errno : EIO, "write %s", o->path);
	bad = fclose(STEAL_PTR(o->f));
	if (bad && !rc)
		rc = bace_fail_errno(e, errno, "write %s", o->path);
	/* Again: it may have become something else meanwhile. */
	if (!rc && o->part && !lstat(o->target, &st) && !S_ISREG(st.st_mode))
		rc = bace_fail(e, EEXIST, "write %s: it has become something that is no file", o->path);
	if (!rc && o->part) {
		if (rename(o->part, o->target))
			rc = bace_fail_errno(e, errno, "write %s", o->path);
		else
			free(STEAL_PTR(o->part));
	}
	clear(o);
	return rc;
}
