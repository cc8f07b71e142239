/*
 * A store that was damaged: the input is a list of 5-byte changes, place (three
 * bytes, modulo the file's length), what is xored into the byte there, and
 * another byte to shorten the file. It is refused with a reason, or read as far
 * as it goes, and stays as it is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/results/fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *whole, *path, id[32];
static size_t whole_len;

static void make(void)
{
	struct store *s;
	struct bace_err e;

	path = fixture_path("damaged.db");
	if (store_open(path, &s, &e))
		abort();
	fixture_run(s, 1, (struct fixture_size){ 1, 1, true, true }, id);
	store_close(s);
	if (bace_read_file(path, 1 << 26, &whole, &whole_len, &e))
		abort();
}

static size_t damage(const uint8_t *data, size_t size, char *copy)
{
	size_t len = whole_len;

	memcpy(copy, whole, whole_len);
	for (; size >= 5; data += 5, size -= 5) {
		copy[((size_t)data[0] << 16 | (size_t)data[1] << 8 | data[2]) % whole_len] ^= (char)data[3];
		if (data[4] >= 0xf0 && len > 4096)
			len -= (size_t)(data[4] & 15) * 512 % (len - 4096);
	}
	return len;
}

static void write_copy(const char *copy, size_t len)
{
	FILE *f = fopen(path, "w");

	if (!f || fwrite(copy, 1, len, f) != len || fclose(f))
		abort();
}

static void read_all(struct store *s, FILE *to)
{
	const struct export_options rows = { .table = "placement" };
	const struct runs_filter all = { 0 };
	struct bace_err e = { 0 };
	int problems = 0;

	results_print_runs(s, &all, to, false, false, 80, &e);
	results_print_run(s, id, to, false, 80, &e);
	results_print_run_json(s, id, to, &e);
	results_export(s, id, &rows, to, &e);
	results_write_trace(s, id, to, &e);
	store_check(s, to, false, &problems, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FREE char *copy = NULL, *text = NULL, *after = NULL;
	struct bace_err e = { 0 };
	struct store *s = NULL;
	size_t len, text_len, after_len;
	FILE *to;

	if (!whole)
		make();
	copy = malloc(whole_len);
	to = open_memstream(&text, &text_len);
	if (!copy || !to)
		abort();
	len = damage(data, size, copy);
	write_copy(copy, len);
	if (!store_open_readonly(path, &s, &e)) {
		read_all(s, to);
		store_close(s);
	} else if (!e.msg[0] || strchr(e.msg, '\n')) {
		abort();
	}
	fclose(to);
	if (bace_read_file(path, 1 << 26, &after, &after_len, &e) || after_len != len || memcmp(after, copy, len))
		abort();
	return 0;
}
