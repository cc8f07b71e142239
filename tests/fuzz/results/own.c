/*
 * Results of another simulator: the CSV up to a line "%%", then the placements
 * as JSON. Refused with one line that says why, or printed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/memory_file.h"
#include "tests/unit/results/fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct store *store;
static char id[32];

static void open_store(void)
{
	CLEANUP_FREE char *path = fixture_path("own.db");
	struct bace_err e;

	if (store_open(path, &store, &e))
		abort();
	fixture_run(store, 1, (struct fixture_size){ 2, 2, false, true }, id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct compare_options o = { .seed = 1, .resamples = 10 };
	const uint8_t *cut = memmem(data, size, "\n%%\n", 4);
	size_t n = cut ? (size_t)(cut - data) + 1 : size;
	struct compare_summary summary;
	struct bace_err e = { 0 };
	char csv[32], placements[32];
	CLEANUP_FREE char *text = NULL;
	size_t text_len;
	FILE *to = open_memstream(&text, &text_len);
	int a = memory_file(data, n, csv);
	int b = memory_file(cut ? cut + 4 : data, cut ? size - n - 3 : 0, placements);
	int rc;

	if (!store)
		open_store();
	if (!to)
		abort();
	rc = results_compare_own(store, id, csv, placements, &o, to, size & 1, false, 80, &summary, &e);
	fclose(to);
	if (rc && ((rc != -EINVAL && rc != -ENODATA) || !e.msg[0] || strchr(e.msg, '\n')))
		abort();
	close(a);
	close(b);
	return 0;
}
