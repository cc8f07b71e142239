#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/common.h"

/* Through a buffer of its own: an argument may point into e->msg. */
static void set_message(struct bace_err *e, const char *fmt, va_list ap, const char *suffix)
{
	char text[sizeof(e->msg)];
	int n = vsnprintf(text, sizeof(text), fmt, ap);

	if (n < 0)
		text[n = 0] = '\0';
	if ((size_t)n < sizeof(text) && suffix)
		snprintf(text + n, sizeof(text) - n, ": %s", suffix);
	for (char *c = text; *c; c++)
		if (*c == '\n' || *c == '\r')
			*c = ' ';
	memcpy(e->msg, text, sizeof(text));
}

int bace_fail(struct bace_err *e, int errnum, const char *fmt, ...)
{
	if (e) {
		va_list ap;

		va_start(ap, fmt);
		set_message(e, fmt, ap, NULL);
		va_end(ap);
		e->errnum = errnum;
	}
	return -errnum;
}

int bace_fail_errno(struct bace_err *e, int errnum, const char *fmt, ...)
{
	if (e) {
		char buf[128];
		va_list ap;

		va_start(ap, fmt);
		set_message(e, fmt, ap, strerror_r(errnum, buf, sizeof(buf)));
		va_end(ap);
		e->errnum = errnum;
	}
	return -errnum;
}

int bace_err_context(struct bace_err *e, const char *fmt, ...)
{
	if (!e)
		return -EINVAL;

	char old[sizeof(e->msg)];
	va_list ap;

	memcpy(old, e->msg, sizeof(old));
	va_start(ap, fmt);
	set_message(e, fmt, ap, old);
	va_end(ap);
	return -e->errnum;
}

void bace_cleanup_free(void *pp)
{
	/* free() must not change the errno that the function is about to report. */
	int saved = errno;

	free(*(void **)pp);
	errno = saved;
}

void bace_cleanup_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	/* Some call it themselves, and twice. */
	*fd = -1;
	errno = saved;
}

void bace_cleanup_fclose(FILE **f)
{
	int saved = errno;

	if (*f)
		fclose(*f);
	errno = saved;
}
