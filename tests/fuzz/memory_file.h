/* An input as a file, for what reads paths. */
#ifndef TESTS_FUZZ_MEMORY_FILE_H
#define TESTS_FUZZ_MEMORY_FILE_H

#include <stdlib.h>
#include <sys/mman.h>

#include "common/common.h"

/* The caller's to close; path is good until then. */
static inline int memory_file(const uint8_t *data, size_t size, char path[32])
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || bace_write_all(fd, data, size))
		abort();
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}

#endif
