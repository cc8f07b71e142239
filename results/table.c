#include "results/table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int table_text(struct table *t, const char *text)
{
	struct cell c = { .text = strdup(text ? text : ""), .number = NAN };

	if (c.text && !BACE_PUSH(t->cells, t->n_cells, t->cap_cells, c))
		return 0;
	free(c.text);
	return -ENOMEM;
}

int table_number(struct table *t, double v)
{
	struct cell c = { .number = v };

	return BACE_PUSH(t->cells, t->n_cells, t->cap_cells, c);
}

void table_free(struct table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i].text);
	free(t->cells);
	*t = (struct table){ 0 };
}

struct scale {
	double below;		/* used for values under this */
	const char *name;
	double factor;
};

static const struct scale seconds[] = { { 1e-3, "us", 1e-6 }, { 1, "ms", 1e-3 }, { 600, "s", 1 },
	{ 10 * 3600, "min", 60 }, { 20 * 86400, "h", 3600 }, { INFINITY, "d", 86400 } };
static const struct scale joules[] = { { 3.6e3, "J", 1 }, { 3.6e6, "Wh", 3.6e3 },
	{ 3.6e9, "kWh", 3.6e6 }, { INFINITY, "MWh", 3.6e9 } };
static const struct scale bits[] = { { 1e6, "kbit/s", 1e3 }, { 1e9, "Mbit/s", 1e6 },
	{ INFINITY, "Gbit/s", 1e9 } };
static const struct scale bytes[] = { { 1e3, "B", 1 }, { 1e6, "kB", 1e3 }, { 1e9, "MB", 1e6 },
	{ INFINITY, "GB", 1e9 } };
static const struct scale dollars[] = { { INFINITY, "USD", 1 } };
static const struct scale percents[] = { { INFINITY, "%", 0.01 } };
static const struct scale plain[] = { { INFINITY, "", 1 } };

static const struct scale *scales_of(enum quantity what)
{
	switch (what) {
	case SECONDS: return seconds;
	case JOULES: return joules;
	case BITS_PER_S: return bits;
	case BYTES: return bytes;
	case DOLLARS: return dollars;
	case PERCENT: return percents;
	default: return plain;
	}
}

/* Four significant digits of the least, at most three after the point (six of
 * less than ten cents), and no more of a column that has large numbers too. */
static int digits_for(enum quantity what, double least, double most)
{
	int d, deepest = what == DOLLARS && most < 0.1 ? 6 : 3;

	if (what == COUNT || !(most > 0))
		return 0;
	if (what == PERCENT)
		return most < 2 ? 2 : 1;
	d = least > 0 ? 3 - (int)floor(log10(least)) : 3;
	d = d < 0 ? 0 : d > deepest ? deepest : d;
	if (most >= 1e5)
		return 0;
	if (most >= 1e3 && d > 2)
		return 2;
	return what == DOLLARS && d < 2 ? 2 : d;
}

struct unit unit_for(enum quantity what, double typical, double least, double most)
{
	const struct scale *s = scales_of(what);

	while (s->below < INFINITY && typical >= s->below)
		s++;
	return (struct unit){ s->name, s->factor, digits_for(what, least / s->factor, most / s->factor) };
}

static bool same_group(const struct column *a, const struct column *b)
{
	return a == b || (a->group && a->group == b->group && a->what == b->what);
}

static struct unit column_unit(const struct table *t, int column, double *scratch)
{
	const struct column *c = &t->columns[column];
	double least = INFINITY, most = 0;
	size_t n = 0;

	for (size_t i = 0; i < t->n_cells; i++) {
		double v = fabs(t->cells[i].number);

		if (!isfinite(v) || v == 0 || !same_group(&t->columns[i % (size_t)t->n_columns], c))
			continue;
		scratch[n++] = v;
		least = fmin(least, v);
		most = fmax(most, v);
	}
	return unit_for(c->what, n ? stats_median(scratch, n) : 1, least, most);
}

void table_units(const struct table *t, struct unit *out)
{
	CLEANUP_FREE double *scratch = calloc(t->n_cells + 1, sizeof(*scratch));

	for (int c = 0; c < t->n_columns; c++)
		out[c] = scratch ? column_unit(t, c, scratch) : unit_for(t->columns[c].what, 1, 1, 1);
}

const char *cell_format(const struct cell *c, const struct column *col, const struct unit *u,
			char buf[32])
{
	double v;

	if (c->text)
		return c->text;
	if (!isfinite(c->number))
		return "-";
	v = c->number / u->factor;
	/* What rounds to nothing has no sign. */
	if (col->what != RATIO && fabs(v) < 0.5 * pow(10, -u->digits))
		v = 0;
	if (col->what == RATIO)
		snprintf(buf, 32, "%.4g", v);
	else
		snprintf(buf, 32, col->what == PERCENT ? "%+.*f" : "%.*f", u->digits, v);
	return buf;
}
