/* Trace files: CSV with named columns, and Mahimahi packet-delivery traces. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/calc.h"
#include "shaper/shaper.h"

#define FILE_MAX (64u << 20)
#define LINE_MAX_BYTES 1024
#define COLUMNS_MAX 8
#define TIME_MAX_S 1e8
#define BIN_DEFAULT_NS 100000000LL
#define DELIVERY_BITS (1514.0 * 8)
#define MS_MAX 100000000000ULL

enum column { T_S, RATE, RATE_BPS, RATE_MBIT, LATENCY, LATENCY_S, LATENCY_MS, LOSS, N_COLUMNS };

static const char *const names[N_COLUMNS] = {
	"t_s", "rate", "rate_bps", "rate_mbit", "latency", "latency_s", "latency_ms", "loss",
};

struct reader {
	const char *name;
	int line;
	struct shape_trace *out;
	size_t cap;
	int n_columns;
	enum column columns[COLUMNS_MAX];
	/* Mahimahi */
	int64_t bin_ns, bin;
	uint64_t last_ms, in_bin;
	struct bace_err *e;
};

void shape_trace_free(struct shape_trace *t)
{
	free(t->v);
	*t = (struct shape_trace){ 0 };
}

unsigned shape_trace_sets(const struct shape_trace *t)
{
	unsigned all = 0;

	for (size_t i = 0; i < t->n; i++)
		all |= t->v[i].to.set;
	return all;
}

static int fail(const struct reader *r, const char *fmt, ...) BACE_PRINTF(2, 3);
static int fail(const struct reader *r, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return r->line ? bace_fail(r->e, EINVAL, "%s:%d: %s", r->name, r->line, text)
		       : bace_fail(r->e, EINVAL, "%s: %s", r->name, text);
}

static int add(struct reader *r, const struct shape_trace_point *p)
{
	if (r->out->n == SHAPE_TRACE_POINTS_MAX)
		return fail(r, "more than %d changes", SHAPE_TRACE_POINTS_MAX);
	return BACE_PUSH(r->out->v, r->out->n, r->cap, *p) ? bace_fail(r->e, ENOMEM, "out of memory") : 0;
}

/* ---- CSV ---- */
static char *strip(char *s)
{
	char *end;

	while (isspace((unsigned char)*s))
		s++;
	for (end = s + strlen(s); end > s && isspace((unsigned char)end[-1]);)
		*--end = '\0';
	return s;
}

static int take_header(struct reader *r, char *line)
{
	unsigned seen = 0;

	for (char *save = NULL, *f = strtok_r(line, ",", &save); f; f = strtok_r(NULL, ",", &save)) {
		int c = 0;

		f = strip(f);
		while (c < N_COLUMNS && strcmp(names[c], f))
			c++;
		if (c == N_COLUMNS) {
			const char *near = bace_nearest(f, names, N_COLUMNS);

			return fail(r, "unknown column `%.40s'%s%s%s", f, near ? ": did you mean `" : "", near ? near : "",
				    near ? "'?" : "");
		}
		if (r->n_columns == COLUMNS_MAX || seen & 1u << c)
			return fail(r, "column `%s' appears twice", f);
		seen |= 1u << c;
		r->columns[r->n_columns++] = (enum column)c;
	}
	if (!(seen & 1u << T_S))
		return fail(r, "no column `t_s': the first line names the columns (t_s, rate, latency, loss)");
	if (__builtin_popcount(seen & (1u << RATE | 1u << RATE_BPS | 1u << RATE_MBIT)) > 1 ||
	    __builtin_popcount(seen & (1u << LATENCY | 1u << LATENCY_S | 1u << LATENCY_MS)) > 1)
		return fail(r, "two columns give the same value in different units");
	if (r->n_columns < 2)
		return fail(r, "no column but `t_s': there is nothing to change");
	return 0;
}

static int number(const struct reader *r, enum column c, const char *text, double max, double *v)
{
	char *end;

	*v = strtod(text, &end);
	if (end == text || *end || !(*v >= 0 && *v <= max))
		return fail(r, "%s = `%.40s': must be a number from 0 to %g", names[c], text, max);
	return 0;
}

static int take_rate(const struct reader *r, enum column c, const char *text, struct shape_change *to)
{
	struct bace_err e;
	double v = 0;

	if (c == RATE) {
		if (bace_parse_rate_bps(text, &to->rate_bps, &e))
			return fail(r, "rate: %.200s", e.msg);
	} else {
		if (number(r, c, text, 1e13, &v))
			return -EINVAL;
		to->rate_bps = (uint64_t)llround(c == RATE_MBIT ? v * 1e6 : v);
	}
	if (to->rate_bps < CALC_RATE_MIN_BPS || to->rate_bps > CALC_RATE_MAX_BPS)
		return fail(r, "%s = `%.40s': must be 8 kbit/s to 4 Tbit/s%s", names[c], text,
			    to->rate_bps ? "" : " (for an outage, loss = 1)");
	to->set |= SHAPE_SET_RATE;
	return 0;
}

static int take_latency(const struct reader *r, enum column c, const char *text, struct shape_change *to)
{
	struct bace_err e;
	double v = 0;

	if (c == LATENCY) {
		if (bace_parse_time_ns(text, &to->latency_ns, &e))
			return fail(r, "latency: %.200s", e.msg);
	} else {
		if (number(r, c, text, 1e6, &v))
			return -EINVAL;
		to->latency_ns = llround(v * (c == LATENCY_MS ? 1e6 : 1e9));
	}
	if (to->latency_ns > CALC_LATENCY_MAX_NS)
		return fail(r, "%s = `%.40s': must be 0 to 60 s", names[c], text);
	to->set |= SHAPE_SET_LATENCY;
	return 0;
}

static int take_loss(const struct reader *r, char *text, struct shape_change *to)
{
	size_t n = strlen(text);
	bool percent = n && text[n - 1] == '%';

	if (percent)
		text[n - 1] = '\0';
	if (number(r, LOSS, text, percent ? 100 : 1, &to->loss))
		return -EINVAL;
	if (percent)
		to->loss /= 100;
	to->set |= SHAPE_SET_LOSS;
	return 0;
}

static int take_time(const struct reader *r, const char *text, int64_t *at_ns)
{
	double v;

	if (number(r, T_S, text, TIME_MAX_S, &v))
		return -EINVAL;
	*at_ns = llround(v * 1e9);
	if (r->out->n && *at_ns <= r->out->v[r->out->n - 1].at_ns)
		return fail(r, "t_s = %.40s: time goes %s", text,
			    *at_ns < r->out->v[r->out->n - 1].at_ns ? "backwards" : "not on: two lines for one time");
	return 0;
}

static int take_field(const struct reader *r, enum column c, char *text, struct shape_trace_point *p)
{
	switch (c) {
	case T_S:
		return take_time(r, text, &p->at_ns);
	case RATE:
	case RATE_BPS:
	case RATE_MBIT:
		return *text ? take_rate(r, c, text, &p->to) : 0;
	case LATENCY:
	case LATENCY_S:
	case LATENCY_MS:
		return *text ? take_latency(r, c, text, &p->to) : 0;
	default:
		return *text ? take_loss(r, text, &p->to) : 0;
	}
}

static int take_row(struct reader *r, char *line)
{
	struct shape_trace_point p = { 0 };
	int c = 0;

	for (char *f = strsep(&line, ","); f; f = strsep(&line, ","), c++) {
		if (c >= r->n_columns)
			return fail(r, "more than %d fields", r->n_columns);
		if (take_field(r, r->columns[c], strip(f), &p))
			return -EINVAL;
	}
	if (c != r->n_columns)
		return fail(r, "%d fields: the first line names %d", c, r->n_columns);
	return add(r, &p);
}

static int end_csv(struct reader *r)
{
	const struct shape_trace *t = r->out;

	if (!t->n)
		return fail(r, "no line after the names of the columns");
	if (t->n > 1)
		r->out->period_ns = 2 * t->v[t->n - 1].at_ns - t->v[t->n - 2].at_ns;
	return 0;
}

/* ---- Mahimahi ---- */
static int end_bin(struct reader *r, int64_t length_ns)
{
	struct shape_trace_point p = { .at_ns = r->bin * r->bin_ns, .to.set = SHAPE_SET_RATE };
	double packets = r->in_bin ? (double)r->in_bin : 1;

	p.to.rate_bps = (uint64_t)llround(packets * DELIVERY_BITS * 1e9 / (double)length_ns);
	if (p.to.rate_bps < CALC_RATE_MIN_BPS)
		p.to.rate_bps = CALC_RATE_MIN_BPS;
	r->out->outages += !r->in_bin;
	r->in_bin = 0;
	if (p.to.rate_bps > CALC_RATE_MAX_BPS)
		return fail(r, "more deliveries than 4 Tbit/s");
	if (r->out->n && r->out->v[r->out->n - 1].to.rate_bps == p.to.rate_bps)
		return 0;
	return add(r, &p);
}

/* An outage is one change, however many bins long, so that its one packet takes
 * all of it and none of what follows. */
static int take_delivery(struct reader *r, const char *text)
{
	char *end;
	uint64_t ms;
	int64_t bin;
	int rc = 0;

	errno = 0;
	ms = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || ms > MS_MAX)
		return fail(r, "`%.40s': must be a time in whole milliseconds", text);
	if (ms < r->last_ms)
		return fail(r, "%.40s: time goes backwards", text);
	r->last_ms = ms;
	/* A packet at time ms uses up the ms before it. */
	bin = ms ? ((int64_t)ms * 1000000 - 1) / r->bin_ns : 0;
	if (bin > r->bin) {
		if (r->in_bin) {
			rc = end_bin(r, r->bin_ns);
			r->bin++;
		}
		if (!rc && bin > r->bin)
			rc = end_bin(r, (bin - r->bin) * r->bin_ns);
		r->bin = bin;
	}
	r->in_bin++;
	return rc;
}

static int end_deliveries(struct reader *r)
{
	int64_t end_ns = (int64_t)r->last_ms * 1000000;
	int rc;

	if (!end_ns)
		return fail(r, "the last delivery is at 0 ms: there is no time in this trace");
	rc = end_bin(r, end_ns - r->bin * r->bin_ns);
	r->out->period_ns = end_ns;
	return rc;
}

/* ---- both ---- */
static int take_line(struct reader *r, char *line)
{
	line = strip(line);
	if (!*line || *line == '#')
		return 0;
	if (r->n_columns)
		return take_row(r, line);
	if (isdigit((unsigned char)*line) || *line == '-' || *line == '+') {
		/* One number a line and nothing before it: Mahimahi. */
		if (strchr(line, ','))
			return fail(r, "the first line must name the columns (t_s, rate, latency, loss)");
		return take_delivery(r, line);
	}
	return r->last_ms || r->in_bin ? fail(r, "`%.40s': must be a time in whole milliseconds", line)
				       : take_header(r, line);
}

static int parse(struct reader *r, const char *text, size_t len)
{
	char line[LINE_MAX_BYTES];
	int rc = 0;

	for (size_t at = 0; at < len && !rc;) {
		const char *nl = memchr(text + at, '\n', len - at);
		size_t n = nl ? (size_t)(nl - text) - at : len - at;

		r->line++;
		if (n >= sizeof(line))
			return fail(r, "a line of %zu bytes", n);
		memcpy(line, text + at, n);
		line[n] = '\0';
		if (memchr(line, '\0', n))
			return fail(r, "a byte 0: this is not a text file");
		rc = take_line(r, line);
		at += n + 1;
	}
	if (rc)
		return rc;
	if (r->n_columns)
		return end_csv(r);
	if (r->in_bin)
		return end_deliveries(r);
	r->line = 0;
	return fail(r, "an empty trace");
}

int shape_trace_parse(const char *text, size_t len, const char *name, int64_t bin_ns,
		      struct shape_trace *out, struct bace_err *e)
{
	struct bace_err scratch;
	struct reader r = { .name = name, .out = out, .bin_ns = bin_ns ? bin_ns : BIN_DEFAULT_NS,
			    .e = e ? e : &scratch };
	int rc;

	*out = (struct shape_trace){ 0 };
	if (r.bin_ns < 1000000)
		return bace_fail(r.e, EINVAL, "bins of a delivery trace must be 1 ms or longer");
	rc = parse(&r, text, len);
	if (rc)
		shape_trace_free(out);
	return rc;
}

int shape_trace_read(const char *path, int64_t bin_ns, struct shape_trace *out, struct bace_err *e)
{
	CLEANUP_FREE char *text = NULL;
	size_t len = 0;
	int rc = bace_read_file(path, FILE_MAX, &text, &len, e);

	*out = (struct shape_trace){ 0 };
	return rc ? rc : shape_trace_parse(text, len, path, bin_ns, out, e);
}
