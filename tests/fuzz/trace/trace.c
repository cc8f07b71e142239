/*
 * Traces of jobs: the first byte (its low two bits) says which layout, the rest
 * is the file; with layout 1 its first line is a mapping of columns. Bad input must leave a diagnostic and nothing allocated; good
 * input must give jobs within their ranges, in order.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/sim/tracegen.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_jobs(const struct trace *t)
{
	double before = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct trace_job *j = &t->v[i];

		if (!*j->name || !(j->arrival_s >= before) || isinf(j->arrival_s) || j->gpus < 1 ||
		    j->gpus > TRACE_MAX_GPUS || !(j->duration_s > 0) || isinf(j->duration_s))
			abort();
		before = j->arrival_s;
	}
}

static size_t line_length(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, '\n', size);

	return end ? (size_t)(end - data) : size;
}

static int read_mapped(const char *path, const char *mapping, struct trace *t, struct trace_skipped *skipped,
		       struct bace_diags *d, struct bace_err *e)
{
	struct trace_columns c;

	if (!trace_columns_known("csv", &c))
		abort();
	*t = (struct trace){ 0 };
	if (!trace_columns_set(&c, mapping, e))
		return trace_read_csv(path, &c, true, t, skipped, d, e);
	bace_diag_add(d, path, 0, "%s", e->msg);
	return -EINVAL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bace_diags d = { 0 };
	struct bace_err e = { 0 };
	struct trace_skipped skipped;
	struct trace_columns c;
	struct trace t;
	char path[32];
	size_t skip = 1;
	int fd, rc;

	if (!size)
		return 0;
	CLEANUP_FREE char *line = strndup((const char *)data + 1, line_length(data + 1, size - 1));

	if (!line)
		abort();
	if ((data[0] & 3) == 1)
		skip += line_length(data + 1, size - 1);
	fd = memory_file(data + skip, size - skip, path);
	if ((data[0] & 3) == 0)
		rc = trace_read_philly(path, false, &t, &skipped, &d, &e);
	else if ((data[0] & 3) == 1)
		rc = read_mapped(path, line, &t, &skipped, &d, &e);
	else if (trace_columns_known((data[0] & 3) == 2 ? "csv" : "helios", &c))
		rc = trace_read_csv(path, &c, false, &t, &skipped, &d, &e);
	else
		abort();
	if ((rc != 0) != (d.n != 0) || (rc && (rc != -EINVAL || t.v)))
		abort();
	check_jobs(&t);
	for (size_t i = 0; i < d.n; i++)
		if (!*d.v[i].text || d.v[i].line < 0)
			abort();
	trace_free(&t);
	bace_diags_free(&d);
	close(fd);
	return 0;
}
