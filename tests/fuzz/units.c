/* Parsers of rates, times and sizes: whatever is accepted has the value that
 * long double arithmetic gives, and every refusal has a message. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/common.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int rc, const struct bace_err *e, const char *s, long double value)
{
	if (rc) {
		if (rc != -e->errnum || !*e->msg)
			abort();
		return;
	}
	/* No unit is below one or above a day, so value / number is a factor we know. */
	long double number = strtold(s, NULL);

	if (number < 0 || !isfinite(number))
		abort();
	if (number > 0 && (value < number * 0.49L - 1 || value > number * 1.2e14L + 1))
		abort();
}

static void check_nearest(const char *s)
{
	static const char *const words[] = { "latency", "rate", "", "jitter_distribution" };
	const char *near = bace_nearest(s, words, ARRAY_LEN(words));

	for (size_t i = 0; near && i < ARRAY_LEN(words); i++)
		if (near == words[i])
			return;
	if (near)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *s = malloc(size + 1);
	struct bace_err e = { 0 };
	uint64_t u = 0;
	int64_t ns = 0;
	int rc;

	if (!s)
		return 0;
	if (size)
		memcpy(s, data, size);
	s[size] = '\0';
	rc = bace_parse_rate_bps(s, &u, &e);
	check(rc, &e, s, (long double)u);
	rc = bace_parse_size_bytes(s, &u, &e);
	check(rc, &e, s, (long double)u);
	rc = bace_parse_time_ns(s, &ns, &e);
	if (!rc && ns < 0)
		abort();
	check(rc, &e, s, (long double)ns);
	check_nearest(s);
	free(s);
	return 0;
}
