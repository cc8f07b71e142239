/*
 * Traces of links (CSV and Mahimahi) and tables of jitter: the first byte says
 * which reader, the rest is the file. A refusal has a message and leaves nothing
 * allocated; what is accepted is within what the shaper takes.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/shaper.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(int rc, const struct bace_err *e)
{
	if ((rc != -EINVAL && rc != -ENOMEM) || rc != -e->errnum || strncmp(e->msg, "seed", 4))
		abort();
}

static void check_trace(const char *text, size_t len, int64_t bin_ns)
{
	struct bace_err e = { 0 };
	struct shape_trace t = { 0 };
	int64_t last_ns = 0;
	unsigned sets = 0;
	int rc = shape_trace_parse(text, len, "seed", bin_ns, &t, &e);

	if (rc) {
		check_refusal(rc, &e);
		if (t.v)
			abort();
		return;
	}
	if (!t.n || t.n > SHAPE_TRACE_POINTS_MAX || t.period_ns < 0)
		abort();
	for (size_t i = 0; i < t.n; i++) {
		const struct shape_trace_point *p = &t.v[i];

		if (p->at_ns < last_ns || (t.period_ns && p->at_ns > t.period_ns) ||
		    p->to.set & ~(SHAPE_SET_RATE | SHAPE_SET_LATENCY | SHAPE_SET_LOSS))
			abort();
		if ((p->to.set & SHAPE_SET_RATE && !p->to.rate_bps) || (p->to.set & SHAPE_SET_LATENCY && p->to.latency_ns < 0) ||
		    (p->to.set & SHAPE_SET_LOSS && !(p->to.loss >= 0 && p->to.loss <= 1)))
			abort();
		last_ns = p->at_ns;
		sets |= p->to.set;
	}
	if (sets != shape_trace_sets(&t))
		abort();
	shape_trace_free(&t);
}

static void check_table(const char *text, size_t len)
{
	struct jitter_table *t = malloc(sizeof(*t));
	struct bace_err e = { 0 };
	int rc;

	if (!t)
		return;
	rc = jitter_table_parse(text, len, "seed", t, &e);
	if (rc)
		check_refusal(rc, &e);
	else if (t->n < JITTER_TABLE_MIN || t->n > JITTER_TABLE_MAX || strcmp(t->name, "seed"))
		abort();
	free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size)
		return 0;
	/* Of its very length, so that reading on is seen. */
	text = malloc(size);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	if ((data[0] & 3) == 3)
		check_table(text, size - 1);
	else
		check_trace(text, size - 1, (data[0] & 3) == 1 ? 1000000 : 0);
	free(text);
	return 0;
}
