/* For the tests of traces: files with a given text, jobs compared. */
#ifndef TESTS_TRACEGEN_SUPPORT_H
#define TESTS_TRACEGEN_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "harness/sim/tracegen.h"

struct file {
	char path[64];
};

static inline struct file file_of(const char *text)
{
	struct file f = { "/tmp/bace-trace-XXXXXX" };
	int fd = mkstemp(f.path);

	assert_true(fd >= 0);
	assert_int_equal(bace_write_all(fd, text, strlen(text)), 0);
	close(fd);
	return f;
}

static inline void assert_job(const struct trace_job *j, const char *name, double arrival_s, int gpus, double duration_s)
{
	assert_string_equal(j->name, name);
	assert_true(j->arrival_s == arrival_s);
	assert_int_equal(j->gpus, gpus);
	assert_true(j->duration_s == duration_s);
}

#endif
