/*
 * Chrome trace-event JSON, "Trace Event Format" (Google, 2016): X is a slice,
 * s and f the ends of a flow, C a counter, M names a process or thread. Times
 * are microseconds of the testbed; cells follow one another.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/timeline.h"

#define CELL_GAP_S 0.1
#define CELLS_PID 1
#define LINKS_PID 2
#define REGION_PID 10		/* the first region's */
#define REGIONS_MAX 256

struct trace {
	FILE *to;
	struct store *s;
	struct bace_err *e;
	bool any;		/* an event was written */
	int n_regions;
	char regions[REGIONS_MAX][64];
	int64_t flow;
	double offset;		/* of the cell, s */
	int cell, lane;		/* of the placement within its cell */
};

static void text(struct trace *t, const char *s)
{
	fputc('"', t->to);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', t->to);
		if ((unsigned char)*s >= 32)
			fputc(*s, t->to);
	}
	fputc('"', t->to);
}

static void event(struct trace *t, const char *ph, int pid, int tid, double at_s)
{
	fprintf(t->to, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f", t->any ? "," : "", ph, pid, tid,
		(at_s + t->offset) * 1e6);
	t->any = true;
}

static void name_it(struct trace *t, const char *what, int pid, int tid, const char *name)
{
	event(t, "M", pid, tid, -t->offset);
	fprintf(t->to, ",\"name\":\"%s\",\"args\":{\"name\":", what);
	text(t, name);
	fputs("}}", t->to);
}

static int region_pid(struct trace *t, const char *name)
{
	for (int i = 0; i < t->n_regions; i++)
		if (!strcmp(t->regions[i], name))
			return REGION_PID + i;
	if (t->n_regions == REGIONS_MAX)
		return REGION_PID + REGIONS_MAX - 1;
	snprintf(t->regions[t->n_regions], sizeof(t->regions[0]), "%s", name);
	name_it(t, "process_name", REGION_PID + t->n_regions, 0, name);
	return REGION_PID + t->n_regions++;
}

/* "ireland:2 > frankfurt:1": whose host a stage is on. */
static int stage_pid(struct trace *t, const char *placement, int stage)
{
	char name[64] = "?";
	int seen = 0;

	for (const char *p = placement; *p;) {
		size_t len = strcspn(p, ":");
		int gpus = p[len] ? atoi(p + len + 1) : 1;

		snprintf(name, sizeof(name), "%.*s", (int)(len < 63 ? len : 63), p);
		seen += gpus;
		if (stage < seen)
			break;
		p = strstr(p, " > ");
		p = p ? p + 3 : "";
	}
	return region_pid(t, name);
}

static int thread_id(const struct trace *t, int stage)
{
	return 1 + t->lane * 2048 + stage;
}

static void slices(struct trace *t, const struct placement_row *p, const struct timeline *tl)
{
	for (size_t i = 0; i < tl->n; i++) {
		const struct timeline_op *o = &tl->ops[i];

		if (o->received)
			continue;
		event(t, "X", stage_pid(t, p->placement, o->stage), thread_id(t, o->stage), o->start);
		fprintf(t->to, ",\"dur\":%.3f,\"cat\":\"compute\",\"name\":\"%c%d\",\"args\":{\"step\":%d,"
			"\"micro_batch\":%d,\"late_us\":%.1f}}", (o->end - o->start) * 1e6, o->kind,
			o->micro_batch, o->step, o->micro_batch, (o->end - o->planned_end) * 1e6);
	}
}

static void flow_end(struct trace *t, const char *ph, int pid, int tid, double at)
{
	event(t, ph, pid, tid, at);
	fprintf(t->to, ",\"cat\":\"message\",\"name\":\"message\",\"id\":%lld}", (long long)t->flow);
}

static void flows(struct trace *t, const struct placement_row *p, const struct timeline *tl)
{
	for (size_t i = 0; i < tl->n; i++) {
		const struct timeline_op *o = &tl->ops[i];
		int from = (o->stage + (o->kind == 'F' ? tl->n_stages - 1 : 1)) % tl->n_stages;

		if (!o->received)
			continue;
		t->flow++;
		/* Just inside the slice that made it: a flow ends at the next one to begin. */
		flow_end(t, "s", stage_pid(t, p->placement, from), thread_id(t, from), o->start - 1e-6);
		flow_end(t, "f", stage_pid(t, p->placement, o->stage), thread_id(t, o->stage), o->end);
	}
}

static void thread_names(struct trace *t, const struct placement_row *p, int n_stages)
{
	char name[128];

	for (int i = 0; i < n_stages; i++) {
		snprintf(name, sizeof(name), "%.60s stage %d", p->job, i);
		name_it(t, "thread_name", stage_pid(t, p->placement, i), thread_id(t, i), name);
	}
}

/* ---- messages on the links, as counters ---- */

struct change {
	double at;
	int delta;
};

static int by_time(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

static int link_counter(struct trace *t, const struct timeline *tl, int hop, bool forward, const char *name)
{
	int receiver = forward ? (hop + 1) % tl->n_stages : hop, value = 0;
	struct change *v = NULL;
	size_t n = 0, cap = 0;
	int rc = 0;

	for (size_t i = 0; !rc && i < tl->n; i++) {
		const struct timeline_op *o = &tl->ops[i];

		if (!o->received || o->stage != receiver || (o->kind == 'F') != forward)
			continue;
		rc = BACE_PUSH(v, n, cap, ((struct change){ o->start, 1 }));
		if (!rc)
			rc = BACE_PUSH(v, n, cap, ((struct change){ o->end, -1 }));
	}
	if (n)
		qsort(v, n, sizeof(*v), by_time);
	for (size_t i = 0; !rc && i < n; i++) {
		value += v[i].delta;
		if (i + 1 < n && v[i + 1].at == v[i].at)
			continue;
		event(t, "C", LINKS_PID, 0, v[i].at);
		fputs(",\"name\":", t->to);
		text(t, name);
		fprintf(t->to, ",\"args\":{\"messages on the way\":%d}}", value);
	}
	free(v);
	return rc ? bace_fail(t->e, ENOMEM, "trace: out of memory") : 0;
}

static int link_counters(struct trace *t, int64_t id, const struct placement_row *p, const struct timeline *tl)
{
	sqlite3_stmt *q;
	int rc = store_query(t->s, "SELECT hop, forward, src, dst FROM transfer WHERE placement_id = ?1", NULL, &q,
			     t->e);

	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, id);
	while (store_next(t->s, q, &rc, t->e)) {
		char name[200];

		snprintf(name, sizeof(name), "%.50s to %.50s, %.60s", column_text(q, 2), column_text(q, 3), p->job);
		rc = link_counter(t, tl, sqlite3_column_int(q, 0), sqlite3_column_int(q, 1), name);
	}
	sqlite3_finalize(q);
	return rc;
}

/* ---- cells ---- */

static int write_placement(struct trace *t, int64_t id, const struct placement_row *p, double *end)
{
	struct timeline tl;
	double last = 0;
	char name[160];
	int rc = timeline_load(t->s, id, false, 0, 1 << 30, &tl, t->e);

	if (rc || !tl.n) {
		timeline_free(&tl);
		return rc;
	}
	for (size_t i = 0; i < tl.n; i++)
		last = fmax(last, tl.ops[i].end);
	thread_names(t, p, tl.n_stages);
	snprintf(name, sizeof(name), "%.60s: %.80s", p->policy, p->job);
	event(t, "X", CELLS_PID, t->lane + 1, 0);
	fprintf(t->to, ",\"dur\":%.3f,\"cat\":\"cell\",\"name\":", last * 1e6);
	text(t, name);
	fputs(",\"args\":{\"placement\":", t->to);
	text(t, p->placement);
	fputs("}}", t->to);
	slices(t, p, &tl);
	flows(t, p, &tl);
	rc = link_counters(t, id, p, &tl);
	timeline_free(&tl);
	*end = fmax(*end, last);
	t->lane++;
	return rc;
}

static int write_cells(struct trace *t, const char *run)
{
	char cell[1024] = "", this[1024];
	double end = 0;
	sqlite3_stmt *q;
	int rc = store_query(t->s, "SELECT id, policy, job, placement, moment, valid FROM placement p WHERE run_id ="
			     " ?1 AND EXISTS (SELECT 1 FROM op WHERE placement_id = p.id) ORDER BY id", run, &q, t->e);

	while (store_next(t->s, q, &rc, t->e)) {
		struct placement_row p = { .policy = column_text(q, 1), .job = column_text(q, 2),
			.placement = column_text(q, 3) };

		/* The jobs of one cell share its clock; the next cell comes after it. */
		snprintf(this, sizeof(this), "%.100s %d %.800s", p.policy, sqlite3_column_int(q, 5),
			 column_text(q, 4));
		if (strcmp(cell, this)) {
			t->offset += end > 0 ? end + CELL_GAP_S : 0;
			t->lane = 0;
			end = 0;
			strcpy(cell, this);
		}
		rc = write_placement(t, sqlite3_column_int64(q, 0), &p, &end);
	}
	sqlite3_finalize(q);
	return rc;
}

int results_write_trace(struct store *s, const char *given, FILE *to, struct bace_err *e)
{
	struct trace *t = calloc(1, sizeof(*t));
	char run[32];
	int rc = t ? store_find_run(s, given, run, e) : bace_fail(e, ENOMEM, "trace: out of memory");

	if (!rc) {
		*t = (struct trace){ .to = to, .s = s, .e = e };
		fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"run\":", to);
		text(t, run);
		fputs("},\"traceEvents\":[", to);
		name_it(t, "process_name", CELLS_PID, 0, "cells");
		name_it(t, "process_name", LINKS_PID, 0, "links");
		rc = write_cells(t, run);
		fputs("\n]}\n", to);
		if (!rc && !t->flow && !t->n_regions)
			rc = bace_fail(e, ENODATA, "run %s has no timeline: it was not measured, or run with "
				       "--no-timeline", run);
	}
	if (!rc && (fflush(to) || ferror(to)))
		rc = bace_fail_errno(e, errno, "trace of %s", run);
	free(t);
	return rc;
}
