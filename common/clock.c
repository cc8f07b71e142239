#include <time.h>

#include "common/common.h"

static int64_t read_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int64_t bace_mono_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

int64_t bace_wall_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}
