#include "tests/bench/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "common/common.h"

struct figure figure_of(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), bace_by_double);
	return n ? (struct figure){ v[n / 2], v[0], v[n - 1], n } : (struct figure){ 0 };
}

struct figure figure_one(double x)
{
	return (struct figure){ x, x, x, 1 };
}

static void describe(struct asked a, const char *unit, char text[48])
{
	switch (a.kind) {
	case ASKED_NOTHING: *text = '\0'; break;
	case ASKED_MOST: snprintf(text, 48, "<= %g %s", a.value, unit); break;
	case ASKED_LEAST: snprintf(text, 48, ">= %g %s", a.value, unit); break;
	case ASKED_RATIO_MOST: snprintf(text, 48, "ratio <= %.3g", a.value); break;
	case ASKED_RATIO_LEAST: snprintf(text, 48, "ratio >= %.3g", a.value); break;
	case ASKED_RATIO_WITHIN: snprintf(text, 48, "ratio 1 +- %g", a.value); break;
	case ASKED_WITHIN: snprintf(text, 48, "+- %.3g %s", a.value, unit); break;
	case ASKED_ABOVE_MOST: snprintf(text, 48, "<= +%g %s", a.value, unit); break;
	}
}

static bool meets(struct asked a, double ours, double peer)
{
	switch (a.kind) {
	case ASKED_NOTHING: return true;
	case ASKED_MOST: return ours <= a.value;
	case ASKED_LEAST: return ours >= a.value;
	case ASKED_RATIO_MOST: return ours <= a.value * peer;
	case ASKED_RATIO_LEAST: return ours >= a.value * peer;
	case ASKED_RATIO_WITHIN: return fabs(ours / peer - 1) <= a.value;
	case ASKED_WITHIN: return fabs(ours - peer) <= a.value;
	case ASKED_ABOVE_MOST: return ours - peer <= a.value;
	}
	return false;
}

static void append(json_t *row)
{
	const char *path = getenv("BACE_BENCH_ROWS");
	FILE *f = path && *path ? fopen(path, "a") : NULL;

	if (f) {
		json_dumpf(row, f, JSON_COMPACT | JSON_SORT_KEYS);
		fputc('\n', f);
		fclose(f);
	}
	json_decref(row);
}

static json_t *figure_json(const struct figure *f)
{
	return f->n ? json_pack("{s:f,s:f,s:f,s:i}", "median", f->median, "least", f->least, "most", f->most, "n", f->n) :
		      json_null();
}

void table_head(const char *title)
{
	printf("\n%s\n%-66s %16s %16s %8s  %s\n", title, "", "ours", "peer", "ratio", "asked");
}

void table_row(const char *what, const char *unit, struct figure ours, struct figure peer, struct asked a)
{
	char x[32], y[32] = "-", ratio[32] = "-", asked[48];
	bool met = meets(a, ours.median, peer.median);

	snprintf(x, sizeof(x), "%.5g %s", ours.median, unit);
	if (peer.n) {
		snprintf(y, sizeof(y), "%.5g %s", peer.median, unit);
		snprintf(ratio, sizeof(ratio), "%.4f", ours.median / peer.median);
	}
	describe(a, unit, asked);
	printf("%-66s %16s %16s %8s  %s%s\n", what, x, y, ratio, asked, met ? "" : " MISSED");
	fflush(stdout);
	append(json_pack("{s:s,s:s,s:o,s:o,s:s,s:b}", "what", what, "unit", unit, "ours", figure_json(&ours), "peer",
			 figure_json(&peer), "asked", asked, "met", (int)met));
}

void table_growth(const char *what, const char *axis, double size, double cost, const char *unit)
{
	append(json_pack("{s:s,s:s,s:f,s:f,s:s}", "growth", what, "axis", axis, "size", size, "cost", cost, "unit", unit));
}

double now_ms(void)
{
	return (double)bace_mono_ns() / 1e6;
}
