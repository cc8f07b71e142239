/* Why the messages that a step waited for were slow: what slow_split is told of
 * each hop, direction and step, from the store. Testbed seconds. */
#include "results/slow.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/spans.h"

#define SAME_S 1e-6
#define RETRY_S 0.2		/* the least time-out after which a pause resets the window */

struct sent {			/* a message, without what its maker was late by */
	double made, planned, end, charged;
	int step;		/* whose counters have it */
	bool after_pause;
};

struct rows {			/* one hop's messages, and its counters by step */
	struct sent *v;
	size_t n;
	int first, last;	/* steps */
	struct tcp_row {
		bool known;
		double limited_s, retrans_bytes, cwnd_bytes, min_rtt_s;
	} *tcp;			/* [last - first + 1] */
};

/* ---- messages ---- */

static int by_planned_end(const void *a, const void *b)
{
	const struct timeline_op *x = *(struct timeline_op *const *)a, *y = *(struct timeline_op *const *)b;

	return (x->planned_end > y->planned_end) - (x->planned_end < y->planned_end);
}

/* What the sending stage computed, in order of when it was to end. */
static struct timeline_op **made_by(struct timeline *t, const struct hop_plan *h, size_t *n)
{
	struct timeline_op **v = calloc(t->n + 1, sizeof(*v));

	*n = 0;
	for (size_t i = 0; v && i < t->n; i++)
		if (!t->ops[i].received && t->ops[i].stage == h->sender)
			v[(*n)++] = &t->ops[i];
	if (v)
		qsort(v, *n, sizeof(*v), by_planned_end);
	return v;
}

/* The counters of a step are read as the stage ends it: what its last operation
 * sends is counted with the next. */
static bool ends_step(struct timeline_op *const *made, size_t n, size_t i)
{
	return i + 1 == n || made[i + 1]->step != made[i]->step;
}

static int read_messages(struct timeline *t, const struct hop_plan *h, struct rows *r)
{
	size_t n_made, n, k = 0;
	CLEANUP_FREE struct timeline_op **made = made_by(t, h, &n_made);
	CLEANUP_FREE struct timeline_op **v = timeline_messages(t, h, &n);
	double before = -INFINITY;

	r->v = calloc(n + 1, sizeof(*r->v));
	if (!made || !v || !r->v)
		return -ENOMEM;
	r->n = n;
	for (size_t i = 0; i < n; i++) {
		double overrun = 0;
		int step = v[i]->step;

		while (k < n_made && made[k]->planned_end < v[i]->start - SAME_S)
			k++;
		if (k < n_made && fabs(made[k]->planned_end - v[i]->start) < SAME_S) {
			overrun = fmax(0, made[k]->end - made[k]->planned_end);
			step += ends_step(made, n_made, k);
		}
		r->v[i] = (struct sent){ .made = v[i]->start + overrun, .end = v[i]->end,
			.planned = v[i]->end - v[i]->late + overrun, .charged = v[i]->charged, .step = step,
			.after_pause = v[i]->start - before > RETRY_S };
		before = v[i]->end;
		r->first = i ? r->first : v[i]->step;
		r->last = v[i]->step > r->last ? v[i]->step : r->last;
	}
	return 0;
}

/* ---- counters ---- */

static int read_tcp(struct store *s, int64_t placement, const struct hop_plan *h, struct rows *r, struct bace_err *e)
{
	size_t steps = (size_t)(r->last - r->first) + 1;
	sqlite3_stmt *q;
	int rc;

	r->tcp = calloc(steps, sizeof(*r->tcp));
	if (!r->tcp)
		return bace_fail(e, ENOMEM, "causes: out of memory");
	rc = store_query(s, "SELECT step, rwnd_limited_s + sndbuf_limited_s, retrans_bytes, cwnd_bytes, min_rtt_s FROM"
			 " transfer_step WHERE placement_id = ?1 AND hop = ?2 AND forward = ?3 AND step BETWEEN ?4 AND ?5",
			 NULL, &q, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, placement);
	sqlite3_bind_int(q, 2, h->hop);
	sqlite3_bind_int(q, 3, h->forward);
	sqlite3_bind_int(q, 4, r->first);
	sqlite3_bind_int(q, 5, r->last);
	while (store_next(s, q, &rc, e))
		r->tcp[sqlite3_column_int(q, 0) - r->first] = (struct tcp_row){ true, column_number(q, 1),
			column_number(q, 2), column_number(q, 3), column_number(q, 4) };
	sqlite3_finalize(q);
	return rc;
}

/* ---- what else the link carried ---- */

struct other_flow {
	int64_t placement;
	int stage;
	char kind[8];
	double link_s;		/* of one message */
};

static int add_other(struct store *s, const struct other_flow *o, double latency_s, struct spans *out, struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT end_s FROM op WHERE placement_id = ?1 AND stage = ?2 AND kind = ?3", NULL, &q, e);

	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, o->placement);
	sqlite3_bind_int(q, 2, o->stage);
	sqlite3_bind_text(q, 3, o->kind, -1, SQLITE_STATIC);
	while (store_next(s, q, &rc, e)) {
		double left = column_number(q, 0) - latency_s;

		if (spans_add(out, left - o->link_s, left))
			rc = bace_fail(e, ENOMEM, "causes: out of memory");
	}
	sqlite3_finalize(q);
	return rc;
}

/* When the link carried messages of other flows that ran in the same cell. */
static int read_others(struct store *s, int64_t placement, const struct hop_plan *h, struct spans *out,
		       struct bace_err *e)
{
	sqlite3_stmt *q;
	int rc = store_query(s, "SELECT t.placement_id, t.hop, t.forward, t.payload_bytes, o.stages,"
		" (SELECT count(*) FROM op WHERE placement_id = o.id AND kind = iif(t.forward, 'recvF', 'recvB') AND stage"
		" = iif(t.forward, (t.hop + 1) % o.stages, t.hop)), (SELECT count(*) FROM step WHERE placement_id = o.id),"
		" (SELECT count(*) FROM step WHERE placement_id = o.id AND step >= 0)"
		" FROM placement p JOIN placement o ON o.run_id = p.run_id AND o.policy = p.policy AND o.moment = p.moment"
		" AND o.valid JOIN transfer t ON t.placement_id = o.id WHERE p.id = ?1 AND t.src = ?2 AND t.dst = ?3 AND NOT"
		" (o.id = ?1 AND t.hop = ?4 AND t.forward = ?5)", NULL, &q, e);

	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, placement);
	sqlite3_bind_text(q, 2, h->src, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 3, h->dst, -1, SQLITE_STATIC);
	sqlite3_bind_int(q, 4, h->hop);
	sqlite3_bind_int(q, 5, h->forward);
	while (store_next(s, q, &rc, e)) {
		bool forward = sqlite3_column_int(q, 2);
		int hop = sqlite3_column_int(q, 1), stages = sqlite3_column_int(q, 4);
		double messages = column_number(q, 5) * column_number(q, 6) / column_number(q, 7) + 1;
		struct other_flow o = { .placement = sqlite3_column_int64(q, 0),
			.stage = forward ? (hop + 1) % stages : hop,
			.link_s = column_number(q, 3) / messages * 8 / h->link_goodput_bps };

		snprintf(o.kind, sizeof(o.kind), "%s", forward ? "recvF" : "recvB");
		if (isfinite(o.link_s))
			rc = add_other(s, &o, h->latency, out, e);
	}
	sqlite3_finalize(q);
	return rc;
}

/* ---- together ---- */


static int one_step(const struct hop_plan *h, const struct rows *r, int step, const struct spans *others,
		    struct slow_flow *f)
{
	struct spans real = { 0 }, planned = { 0 }, window = { 0 };
	const struct tcp_row *tcp = &r->tcp[step - r->first];
	double own = h->message_bytes * 8 * (1 / h->goodput_bps - 1 / h->link_goodput_bps);
	bool pause = false;
	int rc = 0;

	*f = (struct slow_flow){ .known = tcp->known, .limited_s = tcp->limited_s, .retrans_bytes = tcp->retrans_bytes,
		.rtt_s = tcp->min_rtt_s, .message_bytes = h->message_bytes, .goodput_bps = h->link_goodput_bps };
	for (size_t i = 0; !rc && i < r->n; i++) {
		const struct sent *m = &r->v[i];

		/* The counters of the last step have what there is. */
		if ((m->step > r->last ? r->last : m->step) != step)
			continue;
		f->messages++;
		f->late_s += m->charged;
		pause |= m->after_pause;
		rc = spans_add(&real, m->made, m->end) || spans_add(&planned, m->made, fmax(m->made, m->planned)) ||
		     spans_add(&window, m->made, m->end - h->latency) ? -ENOMEM : 0;
	}
	if (!rc) {
		f->window_bytes = pause && h->idle_window_bytes > 0 ? h->idle_window_bytes : tcp->cwnd_bytes;
		f->extra_s = spans_merge(&real) - spans_merge(&planned);
		spans_merge(&window);
		f->others_s = fmax(0, spans_common(&window, others) - f->messages * own);
	}
	spans_free(&real);
	spans_free(&planned);
	spans_free(&window);
	return rc;
}

static int one_hop(struct store *s, int64_t placement, struct timeline *t, const struct hop_plan *h,
		   double part[SLOW_CAUSES], struct bace_err *e)
{
	struct spans others = { 0 };
	struct rows r = { 0 };
	int rc = read_messages(t, h, &r) ? bace_fail(e, ENOMEM, "causes: out of memory") : 0;

	if (!rc)
		rc = read_tcp(s, placement, h, &r, e);
	if (!rc)
		rc = read_others(s, placement, h, &others, e);
	spans_merge(&others);
	for (int step = r.first; !rc && r.n && step <= r.last; step++) {
		double of_step[SLOW_CAUSES];
		struct slow_flow f;

		if (one_step(h, &r, step, &others, &f)) {
			rc = bace_fail(e, ENOMEM, "causes: out of memory");
			break;
		}
		slow_split(&f, of_step);
		for (int i = 0; i < SLOW_CAUSES; i++)
			part[i] += of_step[i];
	}
	spans_free(&others);
	free(r.v);
	free(r.tcp);
	return rc;
}

int timeline_causes(struct store *s, int64_t placement, struct timeline *t, double part[SLOW_CAUSES], struct bace_err *e)
{
	CLEANUP_FREE struct hop_plan *hops = NULL;
	double charged = 0, named = 0;
	size_t n;
	int rc = timeline_hops(s, placement, t, &hops, &n, e);

	memset(part, 0, SLOW_CAUSES * sizeof(*part));
	for (size_t i = 0; !rc && i < n; i++)
		rc = one_hop(s, placement, t, &hops[i], part, e);
	/* Messages within a region have no counters: what they are charged is other. */
	for (size_t i = 0; i < t->n; i++)
		charged += t->ops[i].charged;
	for (int i = 0; i < SLOW_CAUSES; i++)
		named += part[i];
	part[SLOW_OTHER] += charged - named;
	return rc;
}
