#include <math.h>

#include "common/common.h"

struct scale {
	double from;		/* use this unit from here on (after rounding) */
	double factor;
	const char *name;
};

/* Four digits say as much as anything here was measured to. */
static const char *format(char buf[BACE_FMT_MAX], double v, const struct scale *s, size_t n)
{
	size_t i = 0;

	if (!isfinite(v)) {
		snprintf(buf, BACE_FMT_MAX, "%g %s", v, s[0].name);
		return buf;
	}
	for (size_t j = 1; j < n; j++) {
		char rounded[BACE_FMT_MAX];
		double r;

		snprintf(rounded, sizeof(rounded), "%.4g", fabs(v) / s[j].factor);
		sscanf(rounded, "%lf", &r);
		if (r * s[j].factor >= s[j].from * (1 - 1e-12))
			i = j;
	}
	/* Below 1e4 of the last unit %.4g has no exponent. */
	if (fabs(v) / s[i].factor < 9999.5)
		snprintf(buf, BACE_FMT_MAX, "%.4g %s", v / s[i].factor, s[i].name);
	else if (fabs(v) / s[i].factor < 1e15)
		snprintf(buf, BACE_FMT_MAX, "%.0f %s", v / s[i].factor, s[i].name);
	else
		snprintf(buf, BACE_FMT_MAX, "%.4g %s", v / s[i].factor, s[i].name);
	return buf;
}

const char *bace_fmt_rate(char buf[BACE_FMT_MAX], double bps)
{
	static const struct scale s[] = {
		{ 0, 1, "bit/s" }, { 1e3, 1e3, "kbit/s" }, { 1e6, 1e6, "Mbit/s" },
		{ 1e9, 1e9, "Gbit/s" }, { 1e12, 1e12, "Tbit/s" },
	};

	return format(buf, bps, s, ARRAY_LEN(s));
}

const char *bace_fmt_time(char buf[BACE_FMT_MAX], double seconds)
{
	static const struct scale s[] = {
		{ 0, 1e-9, "ns" }, { 1e-6, 1e-6, "us" }, { 1e-3, 1e-3, "ms" }, { 1, 1, "s" },
		{ 120, 60, "min" }, { 7200, 3600, "h" }, { 172800, 86400, "d" },
	};

	if (seconds == 0)
		return format(buf, 0, &s[3], 1);
	return format(buf, seconds, s, ARRAY_LEN(s));
}

const char *bace_fmt_size(char buf[BACE_FMT_MAX], double bytes)
{
	static const struct scale s[] = {
		{ 0, 1, "B" }, { 1e3, 1e3, "kB" }, { 1e6, 1e6, "MB" }, { 1e9, 1e9, "GB" },
		{ 1e12, 1e12, "TB" },
	};

	return format(buf, bytes, s, ARRAY_LEN(s));
}

int bace_by_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}
