#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "harness/sim/tracegen.h"

/* Days from 1970-01-01 in the Gregorian calendar, for any year. */
static int64_t days_from_date(int64_t year, int month, int day)
{
	static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
	int64_t y = year - (month <= 2), days = 365 * (year - 1970) + before[month - 1] + day - 1;

	/* leap days since 1970 (the 477th since year 0), this year's from March on */
	return days + y / 4 - y / 100 + y / 400 - 477;
}

static bool digits(const char **p, int n, int *out)
{
	*out = 0;
	for (int i = 0; i < n; i++, (*p)++) {
		if (!isdigit((unsigned char)**p))
			return false;
		*out = 10 * *out + (**p - '0');
	}
	return true;
}

static bool literal(const char **p, char c)
{
	if (**p != c)
		return false;
	(*p)++;
	return true;
}

/* "", "Z", "UTC", "+08:00", "+0800", "-08" */
static bool zone(const char *p, int *seconds)
{
	int h, m = 0, sign = *p == '-' ? -1 : 1;

	*seconds = 0;
	while (*p == ' ')
		p++;
	if (!*p || (*p == 'Z' && !p[1]) || (p[0] == 'U' && p[1] == 'T' && p[2] == 'C' && !p[3]))
		return true;
	sign = *p == '-' ? -1 : 1;
	if (!literal(&p, '+') && !literal(&p, '-'))
		return false;
	if (!digits(&p, 2, &h))
		return false;
	literal(&p, ':');
	if (*p && !digits(&p, 2, &m))
		return false;
	*seconds = sign * (h * 3600 + m * 60);
	return !*p && h <= 14 && m < 60;
}

static int month_days(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

static bool parse_date(const char *p, double *seconds)
{
	int year, month, day, h = 0, m = 0, s = 0, offset = 0;
	double fraction = 0;

	if (!digits(&p, 4, &year) || !literal(&p, '-') || !digits(&p, 2, &month) || !literal(&p, '-') ||
	    !digits(&p, 2, &day) || year < 1 || month < 1 || month > 12 || day < 1 || day > month_days(year, month))
		return false;
	if (*p) {
		if (!literal(&p, ' ') && !literal(&p, 'T'))
			return false;
		if (!digits(&p, 2, &h) || !literal(&p, ':') || !digits(&p, 2, &m) || !literal(&p, ':') ||
		    !digits(&p, 2, &s) || h > 23 || m > 59 || s > 60)
			return false;
		if (*p == '.') {
			char *end;

			fraction = strtod(p, &end);
			p = end;
		}
		if (!zone(p, &offset))
			return false;
	}
	*seconds = 86400.0 * (double)days_from_date(year, month, day) + h * 3600 + m * 60 + s + fraction - offset;
	return true;
}

bool trace_parse_time(const char *text, double *seconds, bool *is_date)
{
	char *end;

	*is_date = parse_date(text, seconds);
	if (*is_date)
		return true;
	*seconds = strtod(text, &end);
	return end != text && !*end && isfinite(*seconds);
}
