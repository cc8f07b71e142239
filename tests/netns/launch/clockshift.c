/*
 * To be preloaded: CLOCK_REALTIME is that of the machine plus as many seconds as
 * the file $BACE_CLOCK_SHIFT says (a signed 64-bit number, mapped), so that a test
 * can step it for some programs; no namespace can.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift_s;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("BACE_CLOCK_SHIFT");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *p = fd >= 0 ? mmap(NULL, sizeof(*shift_s), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	*(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	if (p != MAP_FAILED)
		shift_s = p;
	if (fd >= 0)
		close(fd);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int rc;

	if (!real_clock_gettime)
		begin();
	rc = real_clock_gettime(id, ts);
	if (!rc && shift_s && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		ts->tv_sec += *shift_s;
	return rc;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_REALTIME, &ts))
		return -1;
	*tv = (struct timeval){ ts.tv_sec, ts.tv_nsec / 1000 };
	return 0;
}

time_t time(time_t *out)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_REALTIME_COARSE, &ts))
		return -1;
	if (out)
		*out = ts.tv_sec;
	return ts.tv_sec;
}
