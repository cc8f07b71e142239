#include "workloads/worker/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FLUSH_BYTES (256u << 10)

/* A timeline is too large for a tree of JSON values: it is written as it is read. */
struct writer {
	struct bace_buf b;
	int rc;
};

static void flush(struct writer *w, size_t least)
{
	if (w->b.len < least || w->rc)
		return;
	w->rc = bace_write_all(1, w->b.p, w->b.len);
	w->b.len = 0;
}

static void put(struct writer *w, const char *fmt, ...) BACE_PRINTF(2, 3);
static void put(struct writer *w, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!w->rc)
		w->rc = bace_buf_add(&w->b, text, (size_t)n);
	flush(w, FLUSH_BYTES);
}

static void put_steps(struct writer *w, const struct timeline *t)
{
	for (size_t i = 0; i < t->n_steps; i++) {
		const struct step_record *s = &t->steps[i];

		put(w, "%s[%d,%d,%lld,%lld,%lld]", i ? "," : "", s->stage, s->step, (long long)s->start,
		    (long long)s->end, (long long)s->compute);
	}
}

static void put_ops(struct writer *w, const struct timeline *t)
{
	for (size_t i = 0; i < t->n_ops; i++) {
		const struct op_record *o = &t->ops[i];

		put(w, "%s[%d,%d,%d,%d,%lld,%lld,%lld]", i ? "," : "", o->stage, o->step, o->micro_batch,
		    o->kind, (long long)o->start, (long long)o->end, (long long)o->third);
	}
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

struct lateness {
	int64_t p50, p99, max;
};

/* How late timed operations were noticed, measured steps. */
static int lateness(const struct timeline *t, struct lateness *out)
{
	CLEANUP_FREE int64_t *late = malloc((t->n_ops + 1) * sizeof(*late));
	size_t k = 0;

	*out = (struct lateness){ 0 };
	if (!late)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_ops; i++)
		if (t->ops[i].kind <= WORKER_WEIGHT && t->ops[i].step >= 0)
			late[k++] = t->ops[i].end - t->ops[i].third;
	if (!k)
		return 0;
	qsort(late, k, sizeof(*late), by_value);
	*out = (struct lateness){ .p50 = late[(k - 1) / 2], .p99 = late[(k - 1) * 99 / 100],
				  .max = late[k - 1] };
	return 0;
}

static void put_value(struct writer *w, const char *key, const json_t *value)
{
	CLEANUP_FREE char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	if (!text)
		w->rc = -ENOMEM;
	put(w, ",\"%s\":", key);
	if (!w->rc)
		w->rc = bace_buf_add(&w->b, text, strlen(text));
}

int report_done(const struct engine *en, const json_t *flows, const json_t *more, int64_t started,
		struct bace_err *e)
{
	const struct timeline *t = engine_timeline(en);
	struct writer w = { 0 };
	struct lateness late;
	const char *key;
	json_t *value;

	if (lateness(t, &late))
		return bace_fail(e, ENOMEM, "report: out of memory");
	put(&w, "{\"event\":\"done\",\"started_ns\":%lld,\"lateness_p50_ns\":%lld,\"lateness_p99_ns\":%lld,"
	    "\"lateness_max_ns\":%lld,\"steps\":[", (long long)started, (long long)late.p50,
	    (long long)late.p99, (long long)late.max);
	put_steps(&w, t);
	put(&w, "],\"ops\":[");
	put_ops(&w, t);
	put(&w, "]");
	put_value(&w, "flows", flows);
	json_object_foreach((json_t *)more, key, value)
		put_value(&w, key, value);
	put(&w, "}\n");
	flush(&w, 0);
	bace_buf_free(&w.b);
	return w.rc ? bace_fail_errno(e, -w.rc, "report") : 0;
}
