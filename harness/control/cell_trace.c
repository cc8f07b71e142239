/* Links that change while ranks run: traces, played by the shapers of both ends. */
#include <errno.h>
#include <stdlib.h>

#include "harness/control/cell.h"

void controller_traces(struct controller *c, int n, const struct tb_trace *v)
{
	c->n_traces = n;
	c->traces = v;
}

static bool shapes(const struct host *h, int region, int other)
{
	for (int i = 0; h->spec->region == region && i < h->spec->shape.n_links; i++)
		if (h->spec->shape.links[i].region == other)
			return true;
	return false;
}

/* The sender's side has the rate, the receiver's the rest. */
static int part_of(const struct shape_trace *t, unsigned sets, struct shape_trace *out)
{
	*out = (struct shape_trace){ .period_ns = t->period_ns, .v = calloc(t->n + 1, sizeof(*out->v)) };
	if (!out->v)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		struct shape_trace_point p = t->v[i];

		p.to.set &= (uint16_t)sets;
		if (p.to.set)
			out->v[out->n++] = p;
	}
	return 0;
}

static void on_playing(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct cell_run *r = arg;
	char why[600];

	if (!err || r->phase >= PHASE_STOP)
		return;
	snprintf(why, sizeof(why), "%s: trace: %s", h->spec->name, err->msg);
	cell_fail(r, SEVERITY_CAUSE, why);
}

/* In pieces that an agent takes; it plays them when it has all. */
static void send_trace(struct cell_run *r, struct host *h, struct wire_trace head, const struct shape_trace *t)
{
	for (size_t from = 0; from < t->n; from += WIRE_TRACE_PIECE_MAX) {
		size_t left = t->n - from;
		const struct shape_trace piece = { .n = left < WIRE_TRACE_PIECE_MAX ? left : WIRE_TRACE_PIECE_MAX,
						   .v = t->v + from, .period_ns = t->period_ns };

		head.more = left > WIRE_TRACE_PIECE_MAX;
		host_request(h, json_pack("{s:s,s:o}", "type", "trace", "trace", wire_encode_trace(&head, &piece)),
			     ANSWER_S, on_playing, r);
	}
}

static int play(struct cell_run *r, const struct tb_trace *t, int at, int other, unsigned sets, int64_t at_ns)
{
	struct shape_trace part;
	int rc = part_of(&t->points, sets, &part);

	for (int i = 0; !rc && part.n && i < r->c->n_hosts; i++) {
		struct host *h = &r->c->hosts[i];
		const struct wire_trace head = { .region = (uint16_t)other, .loop = t->loop,
						 .start_mono_ns = at_ns + h->offset_ns };

		if (shapes(h, at, other) && host_ready(h) && cell_reads(r, h))
			send_trace(r, h, head, &part);
	}
	shape_trace_free(&part);
	return rc;
}

int cell_traces_start(struct cell_run *r, int64_t at_ns, struct bace_err *e)
{
	for (int i = 0; i < r->c->n_traces; i++) {
		const struct tb_trace *t = &r->c->traces[i];

		if (play(r, t, t->src, t->dst, SHAPE_SET_RATE, at_ns) ||
		    play(r, t, t->dst, t->src, SHAPE_SET_LATENCY | SHAPE_SET_LOSS, at_ns))
			return bace_fail(e, ENOMEM, "trace: out of memory");
	}
	return 0;
}

static bool plays(const struct cell_run *r, const struct host *h)
{
	for (int i = 0; i < r->c->n_traces; i++) {
		const struct tb_trace *t = &r->c->traces[i];

		if (shapes(h, t->src, t->dst) || shapes(h, t->dst, t->src))
			return cell_reads(r, h);
	}
	return false;
}

bool cell_trace_loses(const struct cell_run *r, const struct host *h)
{
	for (int i = 0; i < r->c->n_traces; i++) {
		const struct tb_trace *t = &r->c->traces[i];

		if (shapes(h, t->dst, t->src) && (shape_trace_sets(&t->points) & SHAPE_SET_LOSS))
			return true;
	}
	return false;
}

/* A plan ends the traces and puts back what they changed. */
void cell_traces_end(struct cell_run *r)
{
	for (int i = 0; i < r->c->n_hosts; i++)
		if (host_ready(&r->c->hosts[i]) && plays(r, &r->c->hosts[i]))
			host_put_back(&r->c->hosts[i]);
}
