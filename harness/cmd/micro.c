#include "harness/cmd/micro.h"

#include <stdlib.h>
#include <string.h>

int micro_sizes(const struct command *c, const char *text, uint64_t least, uint64_t most, uint64_t *v, int *n)
{
	CLEANUP_FREE char *copy = strdup(text);
	char *at = copy, *word;

	for (*n = 0; (word = strsep(&at, ","));) {
		struct bace_err e;
		uint64_t x;

		if (*n == MICRO_SIZES_MAX || bace_parse_size_bytes(word, &x, &e) || x < least || x > most)
			return cmd_misuse(c, "--sizes %s: must be at most %d sizes with a unit, with commas between, %llu B to "
					  "%g GiB each", text, MICRO_SIZES_MAX, (unsigned long long)least,
					  (double)most / (1ull << 30));
		v[(*n)++] = x;
	}
	return *n ? 0 : cmd_error(c, BACE_EXIT_FAILED, "out of memory");
}

int micro_region(const struct experiment *exp, const char *name)
{
	for (int i = 0; i < exp->cluster.n_regions; i++)
		if (!strcmp(exp->cluster.regions[i].name, name))
			return i;
	return -1;
}
