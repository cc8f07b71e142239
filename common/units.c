/*
 * Decimal arithmetic in 128-bit integers: "38.2ms" is 38,200,000 ns exactly.
 * Every refusal says what to write instead.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/common.h"

#define FRACTION_DIGITS 12

struct unit {
	const char *name;
	uint64_t factor;	/* in the base unit: bit/s, ns, byte; 0: refused, with the hint */
	const char *hint;
};

struct quantity {
	const char *what;	/* "a rate" */
	const char *example;
	const char *smallest;	/* "1 bit/s" */
	const char *largest;
	const char *units;	/* all that are allowed, for messages */
	uint64_t max;
	bool fold_case;
	const struct unit *table;
	size_t n;
};

/* A number as it stood: whole + fraction / 10^digits. */
struct decimal {
	unsigned __int128 whole;
	uint64_t fraction;
	int digits;
};

static const uint64_t ten_to_the[FRACTION_DIGITS + 1] = {
	1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000,
	10000000000, 100000000000, 1000000000000,
};

#define BITS_OR_BYTES "is ambiguous (bits or bytes?)"

static const struct unit rate_units[] = {
	{ "bit", 1 }, { "kbit", 1000 }, { "mbit", 1000000 }, { "gbit", 1000000000 },
	{ "tbit", 1000000000000 }, { "bit/s", 1 }, { "kbit/s", 1000 }, { "mbit/s", 1000000 },
	{ "gbit/s", 1000000000 }, { "tbit/s", 1000000000000 },
	{ "b", 0, "bit" }, { "kb", 0, "kbit" }, { "mb", 0, "mbit" }, { "gb", 0, "gbit" },
	{ "tb", 0, "tbit" }, { "bps", 0, "bit" }, { "kbps", 0, "kbit" }, { "mbps", 0, "mbit" },
	{ "gbps", 0, "gbit" }, { "tbps", 0, "tbit" }, { "b/s", 0, "bit" }, { "kb/s", 0, "kbit" },
	{ "mb/s", 0, "mbit" }, { "gb/s", 0, "gbit" }, { "tb/s", 0, "tbit" },
	{ "k", 0, "kbit" }, { "m", 0, "mbit" }, { "g", 0, "gbit" }, { "t", 0, "tbit" },
	{ "bits", 0, "bit" }, { "kbits", 0, "kbit" }, { "mbits", 0, "mbit" },
	{ "gbits", 0, "gbit" },
};

static const struct unit time_units[] = {
	{ "ns", 1 }, { "us", 1000 }, { "µs", 1000 }, { "ms", 1000000 }, { "s", 1000000000 },
	{ "min", 60000000000 }, { "h", 3600000000000 }, { "d", 86400000000000 },
	{ "m", 0, "min" }, { "mins", 0, "min" }, { "minutes", 0, "min" }, { "sec", 0, "s" },
	{ "secs", 0, "s" }, { "seconds", 0, "s" }, { "hours", 0, "h" }, { "hour", 0, "h" },
	{ "hr", 0, "h" }, { "days", 0, "d" }, { "day", 0, "d" }, { "msec", 0, "ms" },
	{ "usec", 0, "us" }, { "nsec", 0, "ns" },
};

static const struct unit size_units[] = {
	{ "B", 1 }, { "kB", 1000 }, { "MB", 1000000 }, { "GB", 1000000000 },
	{ "TB", 1000000000000 }, { "KiB", 1 << 10 }, { "MiB", 1 << 20 }, { "GiB", 1 << 30 },
	{ "TiB", UINT64_C(1) << 40 },
	{ "KB", 0, "kB" }, { "kb", 0, "kB" }, { "Kb", 0, "kB" }, { "Mb", 0, "MB" },
	{ "mb", 0, "MB" }, { "mB", 0, "MB" }, { "Gb", 0, "GB" }, { "gb", 0, "GB" },
	{ "gB", 0, "GB" }, { "Tb", 0, "TB" }, { "tb", 0, "TB" }, { "b", 0, "B" },
	{ "k", 0, "kB" }, { "K", 0, "kB" }, { "M", 0, "MB" }, { "m", 0, "MB" },
	{ "G", 0, "GB" }, { "T", 0, "TB" }, { "bytes", 0, "B" }, { "kib", 0, "KiB" },
	{ "kiB", 0, "KiB" }, { "mib", 0, "MiB" }, { "gib", 0, "GiB" },
};

static const struct quantity rate = {
	.what = "a rate", .example = "25gbit", .smallest = "1 bit/s",
	.largest = "18446744073709551615 bit/s", .units = "bit, kbit, mbit, gbit, tbit",
	.max = UINT64_MAX, .fold_case = true, .table = rate_units, .n = ARRAY_LEN(rate_units),
};

static const struct quantity duration = {
	.what = "a time", .example = "38.2ms", .smallest = "1 ns", .largest = "106751 days",
	.units = "ns, us, ms, s, min, h, d", .max = INT64_MAX, .table = time_units,
	.n = ARRAY_LEN(time_units),
};

static const struct quantity size = {
	.what = "a size", .example = "500kB", .smallest = "1 byte",
	.largest = "18446744073709551615 bytes", .units = "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
	.max = UINT64_MAX, .table = size_units, .n = ARRAY_LEN(size_units),
};

static int refuse_number(const char *s, const struct quantity *q, struct bace_err *e)
{
	if (!*s)
		return bace_fail(e, EINVAL, "empty: write %s like %s", q->what, q->example);
	if (*s == '-')
		return bace_fail(e, EINVAL, "negative: write %s like %s", q->what, q->example);
	if (*s == '+')
		return bace_fail(e, EINVAL, "has a sign: write %s", s + 1);
	if (!strncasecmp(s, "inf", 3) || !strncasecmp(s, "nan", 3))
		return bace_fail(e, EINVAL, "not a finite number: write %s like %s", q->what,
				 q->example);
	return bace_fail(e, EINVAL, "does not begin with a number: write %s like %s", q->what,
			 q->example);
}

static int too_large(const struct quantity *q, struct bace_err *e)
{
	return bace_fail(e, ERANGE, "too large: at most %s", q->largest);
}

/* Reads the number at *s and moves *s behind it. */
static int parse_decimal(const char **s, const struct quantity *q, struct decimal *d,
			 struct bace_err *e)
{
	const char *c = *s;

	*d = (struct decimal){ 0 };
	if (!isdigit((unsigned char)*c))
		return refuse_number(c, q, e);
	for (; isdigit((unsigned char)*c); c++) {
		d->whole = d->whole * 10 + (*c - '0');
		if (d->whole > UINT64_MAX)
			return too_large(q, e);
	}
	if (*c == ',')
		return bace_fail(e, EINVAL, "has a comma: write the number with a point and without "
				 "separators, like %s", q->example);
	if (*c == '.') {
		if (!isdigit((unsigned char)*++c))
			return bace_fail(e, EINVAL, "has no digit after the point: write %s like %s",
					 q->what, q->example);
		for (; isdigit((unsigned char)*c); c++) {
			if (++d->digits > FRACTION_DIGITS)
				return bace_fail(e, EINVAL, "has more than %d decimals: use a "
						 "smaller unit", FRACTION_DIGITS);
			d->fraction = d->fraction * 10 + (*c - '0');
		}
	}
	if ((*c == 'e' || *c == 'E') && (isdigit((unsigned char)c[1]) || c[1] == '-' || c[1] == '+'))
		return bace_fail(e, EINVAL, "has an exponent: write the number out with a larger or "
				 "smaller unit (%s)", q->units);
	*s = c;
	return 0;
}

static bool is_ambiguous(const struct quantity *q, const char *name)
{
	size_t n = strlen(name);

	if (q == &rate)
		return name[n - 1] == 'b' || !strcmp(name + (n > 2 ? n - 2 : 0), "ps") ||
		       !strcmp(name + (n > 3 ? n - 3 : 0), "b/s");
	return q == &size && name[n - 1] == 'b' && strcmp(name + n - 1 - (n > 1), "ib");
}

static int find_unit(const char *given, const char *number, int number_len,
		     const struct quantity *q, const struct unit **found, struct bace_err *e)
{
	const char *names[64];
	size_t n = 0;

	for (size_t i = 0; i < q->n; i++) {
		const struct unit *u = &q->table[i];

		if (q->fold_case ? strcasecmp(given, u->name) : strcmp(given, u->name)) {
			if (u->factor && n < ARRAY_LEN(names))
				names[n++] = u->name;
			continue;
		}
		if (u->factor) {
			*found = u;
			return 0;
		}
		if (is_ambiguous(q, u->name))
			return bace_fail(e, EINVAL, "%s " BITS_OR_BYTES ": write %.*s%s%s", given,
					 number_len, number, u->hint,
					 q == &rate ? " if bits a second are meant, eight times that "
						      "if bytes are" : " for bytes");
		return bace_fail(e, EINVAL, "unknown unit `%s': write %.*s%s", given, number_len,
				 number, u->hint);
	}
	const char *near = bace_nearest(given, names, n);

	if (near)
		return bace_fail(e, EINVAL, "unknown unit `%.16s': write %.*s%s (%s)", given,
				 number_len, number, near, q->units);
	return bace_fail(e, EINVAL, "unknown unit `%.16s': use one of %s", given, q->units);
}

static int parse_quantity(const char *s, const struct quantity *q, uint64_t *out,
			  struct bace_err *e)
{
	const struct unit *u = NULL;
	const char *start, *end;
	unsigned __int128 value, part;
	struct decimal d;
	char name[24];
	size_t len;
	int rc;

	while (isspace((unsigned char)*s))
		s++;
	start = s;
	rc = parse_decimal(&s, q, &d, e);
	if (rc)
		return rc;
	end = s;
	while (isspace((unsigned char)*s))
		s++;
	len = strlen(s);
	while (len && isspace((unsigned char)s[len - 1]))
		len--;
	if (!len)
		return bace_fail(e, EINVAL, "has no unit: write %.*s followed by one of %s",
				 (int)(end - start), start, q->units);
	snprintf(name, sizeof(name), "%.*s", (int)len, s);
	rc = find_unit(name, start, end - start, q, &u, e);
	if (rc)
		return rc;
	part = (unsigned __int128)d.fraction * u->factor;
	value = d.whole * u->factor + (part + ten_to_the[d.digits] / 2) / ten_to_the[d.digits];
	if (value > q->max)
		return too_large(q, e);
	if (!value && (d.whole || d.fraction))
		return bace_fail(e, EINVAL, "less than %s", q->smallest);
	*out = value;
	return 0;
}

int bace_parse_rate_bps(const char *s, uint64_t *bps, struct bace_err *e)
{
	return parse_quantity(s, &rate, bps, e);
}

int bace_parse_time_ns(const char *s, int64_t *ns, struct bace_err *e)
{
	uint64_t v;
	int rc = parse_quantity(s, &duration, &v, e);

	if (!rc)
		*ns = v;
	return rc;
}

int bace_parse_size_bytes(const char *s, uint64_t *bytes, struct bace_err *e)
{
	return parse_quantity(s, &size, bytes, e);
}

bool bace_parse_whole(const char *s, uint64_t lo, uint64_t hi, uint64_t *out)
{
	unsigned long long v;
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno || *end || v < lo || v > hi)
		return false;
	*out = v;
	return true;
}

bool bace_parse_int(const char *s, int lo, int hi, int *out)
{
	uint64_t v;

	if (!bace_parse_whole(s, (uint64_t)lo, (uint64_t)hi, &v))
		return false;
	*out = (int)v;
	return true;
}
