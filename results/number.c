#include "results/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DIGITS 12
#define LEAST_EXPONENT (-5)	/* where "%g" begins to write 1e-05 */

static const long double powers[] = { 1e0L, 1e1L, 1e2L, 1e3L, 1e4L, 1e5L, 1e6L, 1e7L, 1e8L, 1e9L, 1e10L, 1e11L,
	1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L };

size_t format_integer(char buf[NUMBER_MAX], int64_t v)
{
	uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	char digits[24];
	size_t n = 0, len = 0;

	do
		digits[n++] = (char)('0' + left % 10);
	while (left /= 10);
	if (v < 0)
		buf[len++] = '-';
	while (n)
		buf[len++] = digits[--n];
	buf[len] = '\0';
	return len;
}

/* x = d.ddd * 10^exponent as DIGITS digits; false: the table does not reach. */
static int decompose(double x, char digits[DIGITS], int *exponent)
{
	long double scaled;
	uint64_t whole;
	int ten, shift;

	if (!(x >= 1e-5 && x < 1e12))
		return 0;
	ten = (int)floor(log10(x));
	shift = DIGITS - 1 - ten;
	if (ten < LEAST_EXPONENT || shift < 0)
		return 0;
	scaled = (long double)x * powers[shift];
	whole = (uint64_t)(scaled + 0.5L);
	/* A half might round either way: the C library decides by all digits. */
	if (fabsl(scaled + 0.5L - roundl(scaled + 0.5L)) < 1e-4L)
		return 0;
	if (whole >= 1000000000000ull) {
		whole = (whole + 5) / 10;
		ten++;
	} else if (whole < 100000000000ull) {
		return 0;
	}
	for (int i = DIGITS - 1; i >= 0; i--, whole /= 10)
		digits[i] = (char)('0' + whole % 10);
	*exponent = ten;
	return 1;
}

size_t format_number(char buf[NUMBER_MAX], double v)
{
	char digits[DIGITS], *to = buf;
	int ten, n = DIGITS;

	if (v == floor(v) && fabs(v) < 1e12 && !(v == 0 && signbit(v)))
		return format_integer(buf, (int64_t)v);
	if (!decompose(fabs(v), digits, &ten) || ten < -4 || ten >= DIGITS)
		return (size_t)snprintf(buf, NUMBER_MAX, "%.12g", v);
	while (n > 1 && digits[n - 1] == '0')
		n--;
	if (v < 0)
		*to++ = '-';
	if (ten < 0) {
		*to++ = '0';
		*to++ = '.';
		for (int i = -1; i > ten; i--)
			*to++ = '0';
		memcpy(to, digits, (size_t)n);
		to += n;
	} else {
		int whole = ten + 1;

		memcpy(to, digits, (size_t)whole);
		to += whole;
		if (n > whole) {
			*to++ = '.';
			memcpy(to, digits + whole, (size_t)(n - whole));
			to += n - whole;
		}
	}
	*to = '\0';
	return (size_t)(to - buf);
}
