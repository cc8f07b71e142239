#include "results/timeline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FRAME 1514.0		/* of an MTU of 1500, with its L2 header */
#define SEGMENT 1448.0
#define SAME_S 1e-7		/* times of one event on two rows */

static int by_place(const void *a, const void *b)
{
	const struct timeline_op *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->stage != y->stage)
		return x->stage < y->stage ? -1 : 1;
	return (x->start > y->start) - (x->start < y->start);
}

static struct timeline_op read_op(sqlite3_stmt *q)
{
	const char *kind = column_text(q, 3);
	bool received = !strncmp(kind, "recv", 4);

	return (struct timeline_op){ .stage = sqlite3_column_int(q, 0), .step = sqlite3_column_int(q, 1),
		.micro_batch = sqlite3_column_int(q, 2), .received = received,
		.kind = received ? kind[4] : kind[0], .start = column_number(q, 4),
		.end = column_number(q, 5), .planned_end = column_number(q, 6) };
}

int timeline_load(struct store *s, int64_t placement, bool simulated, int first, int last,
		  struct timeline *out, struct bace_err *e)
{
	sqlite3_stmt *q;
	size_t cap = 0;
	int step = SQLITE_DONE, rc = store_query(s, simulated ?
		"SELECT stage, step, micro_batch, kind, start_s, end_s, end_s FROM sim_op WHERE placement_id ="
		" ?1 AND step BETWEEN ?2 AND ?3" : "SELECT stage, step, micro_batch, kind, start_s, end_s,"
		" planned_end_s FROM op WHERE placement_id = ?1 AND step BETWEEN ?2 AND ?3 AND kind NOT LIKE 'send%'",
		NULL, &q, e);

	*out = (struct timeline){ 0 };
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, placement);
	sqlite3_bind_int(q, 2, first);
	sqlite3_bind_int(q, 3, last);
	while (!rc && (step = sqlite3_step(q)) == SQLITE_ROW) {
		struct timeline_op op = read_op(q);

		if (op.stage >= out->n_stages)
			out->n_stages = op.stage + 1;
		rc = BACE_PUSH(out->ops, out->n, cap, op);
	}
	if (rc)
		bace_fail(e, ENOMEM, "timeline: out of memory");
	else if (step != SQLITE_DONE)
		rc = store_fail(s, e, "read");
	sqlite3_finalize(q);
	if (rc)
		timeline_free(out);
	else if (out->n)
		qsort(out->ops, out->n, sizeof(*out->ops), by_place);
	return rc;
}

void timeline_free(struct timeline *t)
{
	free(t->ops);
	*t = (struct timeline){ 0 };
}

/* ---- messages over the link as planned ---- */

static int by_start(const void *a, const void *b)
{
	const struct timeline_op *x = *(struct timeline_op *const *)a, *y = *(struct timeline_op *const *)b;

	return (x->start > y->start) - (x->start < y->start);
}

struct timeline_op **timeline_messages(struct timeline *t, const struct hop_plan *h, size_t *n)
{
	struct timeline_op **v = calloc(t->n + 1, sizeof(*v));
	char kind = h->forward ? 'F' : 'B';

	*n = 0;
	for (size_t i = 0; v && i < t->n; i++) {
		struct timeline_op *o = &t->ops[i];

		if (o->received && o->stage == h->receiver && o->kind == kind)
			v[(*n)++] = o;
	}
	if (v)
		qsort(v, *n, sizeof(*v), by_start);
	return v;
}

static double messages_a_step(const struct timeline *t, const struct hop_plan *h)
{
	int n = 0;

	for (size_t i = 0; i < t->n && t->ops[i].step == t->ops[0].step; i++)
		n += t->ops[i].received && t->ops[i].stage == h->receiver && t->ops[i].kind == (h->forward ? 'F' : 'B');
	return n;
}

static struct hop_plan read_hop(sqlite3_stmt *q, const struct timeline *t)
{
	struct hop_plan h = { .hop = sqlite3_column_int(q, 0), .forward = sqlite3_column_int(q, 1),
		.latency = column_number(q, 5), .goodput_bps = column_number(q, 6),
		.link_goodput_bps = column_number(q, 7), .idle_window_bytes = column_number(q, 9) };
	int next = (h.hop + 1) % t->n_stages;

	snprintf(h.src, sizeof(h.src), "%s", column_text(q, 2));
	snprintf(h.dst, sizeof(h.dst), "%s", column_text(q, 3));
	h.sender = h.forward ? h.hop : next;
	h.receiver = h.forward ? next : h.hop;
	/* One message more went over the hop before the first step, to warm it. */
	h.message_bytes = column_number(q, 4) / (messages_a_step(t, &h) * sqlite3_column_int(q, 10) + 1);
	if (!(h.link_goodput_bps > 0))
		h.link_goodput_bps = column_number(q, 8) * SEGMENT / FRAME;
	if (!(h.goodput_bps > 0))
		h.goodput_bps = h.link_goodput_bps;
	return h;
}

int timeline_hops(struct store *s, int64_t placement, const struct timeline *t, struct hop_plan **out, size_t *n,
		  struct bace_err *e)
{
	sqlite3_stmt *q;
	size_t cap = 0;
	int step = SQLITE_DONE, rc = store_query(s, "SELECT t.hop, t.forward, t.src, t.dst, t.payload_bytes,"
		" l.scaled_latency_s, t.planned_goodput_bps, (SELECT planned_goodput_bps FROM plan_check c WHERE"
		" c.run_id = p.run_id AND c.src = t.src AND c.dst = t.dst), l.scaled_rate_bps, t.idle_window_bytes,"
		" (SELECT count(*) FROM step WHERE placement_id = p.id) FROM transfer t JOIN placement p ON p.id ="
		" t.placement_id JOIN link_truth l ON l.run_id = p.run_id AND l.src = t.src AND l.dst = t.dst WHERE"
		" p.id = ?1", NULL, &q, e);

	*out = NULL;
	*n = 0;
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, placement);
	while (!rc && t->n && (step = sqlite3_step(q)) == SQLITE_ROW) {
		struct hop_plan h = read_hop(q, t);

		if (h.hop >= 0 && h.goodput_bps > 0 && h.latency >= 0 && BACE_PUSH(*out, *n, cap, h))
			rc = bace_fail(e, ENOMEM, "timeline: out of memory");
	}
	if (!rc && step != SQLITE_DONE)
		rc = store_fail(s, e, "read");
	sqlite3_finalize(q);
	if (rc) {
		free(*out);
		*out = NULL;
		*n = 0;
	}
	return rc;
}

static int replay_hop(struct timeline *t, const struct hop_plan *h)
{
	double ser = h->message_bytes * 8 / h->goodput_bps, free_at = -INFINITY;
	size_t n;
	CLEANUP_FREE struct timeline_op **v = timeline_messages(t, h, &n);

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		double leaves = fmax(v[i]->start, free_at);

		free_at = leaves + ser;
		v[i]->late = v[i]->end - (free_at + h->latency);
	}
	return 0;
}

int timeline_replay(struct store *s, int64_t placement, struct timeline *t, struct bace_err *e)
{
	CLEANUP_FREE struct hop_plan *hops = NULL;
	size_t n;
	int rc = timeline_hops(s, placement, t, &hops, &n, e);

	for (size_t i = 0; !rc && i < n; i++)
		if (replay_hop(t, &hops[i]))
			rc = bace_fail(e, ENOMEM, "timeline: out of memory");
	return rc;
}

/* ---- the critical path ---- */

struct range {
	struct timeline_op *v;
	size_t n;
};

static struct range step_range(const struct timeline *t, int step)
{
	struct range r = { t->ops, 0 };
	size_t i = 0;

	while (i < t->n && t->ops[i].step < step)
		i++;
	r.v = t->ops + i;
	while (i + r.n < t->n && r.v[r.n].step == step)
		r.n++;
	return r;
}

static struct range stage_range(struct range step, int stage)
{
	struct range r = { step.v, 0 };
	size_t i = 0;

	while (i < step.n && step.v[i].stage < stage)
		i++;
	r.v = step.v + i;
	while (i + r.n < step.n && r.v[r.n].stage == stage)
		r.n++;
	return r;
}

/* The computation of this stage that ended last before `at`. */
static const struct timeline_op *before(struct range stage, const struct timeline_op *op)
{
	const struct timeline_op *best = NULL;

	for (size_t i = 0; i < stage.n; i++) {
		const struct timeline_op *o = &stage.v[i];

		if (o != op && !o->received && o->start < op->start && o->planned_end <= op->start + SAME_S &&
		    (!best || o->planned_end > best->planned_end))
			best = o;
	}
	return best;
}

/* The message that `op` is computed from. */
static struct timeline_op *input(struct range stage, const struct timeline_op *op)
{
	struct timeline_op *best = NULL;

	for (size_t i = 0; op->kind != 'W' && i < stage.n; i++) {
		struct timeline_op *o = &stage.v[i];

		if (o->received && o->kind == op->kind && o->micro_batch == op->micro_batch &&
		    o->end <= op->start + SAME_S && (!best || o->end > best->end))
			best = o;
	}
	return best;
}

/* The computation that made message m: its planned end is when m was made. */
static const struct timeline_op *maker(struct range step, const struct timeline_op *m, int n_stages)
{
	int from = (m->stage + (m->kind == 'F' ? n_stages - 1 : 1)) % n_stages;
	struct range stage = stage_range(step, from);

	for (size_t i = 0; i < stage.n; i++) {
		const struct timeline_op *o = &stage.v[i];

		if (!o->received && o->kind == m->kind && o->micro_batch == m->micro_batch &&
		    fabs(o->planned_end - m->start) < 1e-6)
			return o;
	}
	return NULL;
}

static void add_message(struct timeline_op *m, const struct timeline_op *made,
			struct path_time *out)
{
	/* Made late is the host's doing, not the link's. */
	double overrun = made ? fmax(0, made->end - made->planned_end) : 0;
	double slower = m->late - overrun;

	m->charged = slower;
	out->overrun += overrun;
	out->slower += slower;
	out->transfer += m->end - m->start - overrun - slower;
}

bool timeline_path(struct timeline *t, int step, struct path_time *out)
{
	struct range all = step_range(t, step);
	const struct timeline_op *op = NULL;
	double begin = INFINITY;

	*out = (struct path_time){ 0 };
	for (size_t i = 0; i < all.n; i++) {
		if (all.v[i].received)
			continue;
		begin = fmin(begin, all.v[i].start);
		if (!op || all.v[i].end > op->end)
			op = &all.v[i];
	}
	if (!op)
		return false;
	out->overrun = op->end - op->planned_end;
	for (size_t hops = 0; op && hops < all.n; hops++) {
		struct range stage = stage_range(all, op->stage);
		struct timeline_op *m = input(stage, op);
		const struct timeline_op *p = before(stage, op), *made;

		out->compute += op->planned_end - op->start;
		if (m && (!p || m->end >= p->planned_end)) {
			made = maker(all, m, t->n_stages);
			out->wait += op->start - m->end;
			add_message(m, made, out);
			if (!made)
				out->wait += m->start - begin;
			op = made;
		} else {
			out->wait += op->start - (p ? p->planned_end : begin);
			op = p;
		}
	}
	return true;
}
