#include "workloads/worker/flows.h"

#include <errno.h>
#include <stdlib.h>

struct counters {
	struct net_info t;
	uint64_t payload_bytes, messages;
};

struct flow {
	int slot;			/* of the stage that sends; -1: not a tcp hop */
	struct counters start;
	struct flow_row *rows;
	int n_rows;
};

struct flows {
	const struct worker_spec *spec;
	const struct hop *hops;
	struct flow *v;			/* [spec->n_hops] */
};

static int sending_slot(const struct worker_spec *s, const struct worker_hop_spec *h)
{
	int stage = h->role == HOP_CONNECT ? worker_hop_from(s, h->hop) : worker_hop_to(s, h->hop);

	for (int i = 0; i < s->n_stages; i++)
		if (s->stages[i].stage == stage)
			return i;
	return -1;
}

int flows_create(const struct worker_spec *spec, const struct hop *hops, struct flows **out,
		 struct bace_err *e)
{
	struct flows *f = calloc(1, sizeof(*f));
	size_t steps = (size_t)(spec->warmup_steps + spec->steps);

	if (!f)
		return bace_fail(e, ENOMEM, "flows: out of memory");
	f->spec = spec;
	f->hops = hops;
	f->v = calloc((size_t)spec->n_hops + 1, sizeof(*f->v));
	for (int i = 0; f->v && i < spec->n_hops; i++) {
		const struct worker_hop_spec *h = &spec->hops[i];

		f->v[i].slot = h->kind == HOP_TCP ? sending_slot(spec, h) : -1;
		if (f->v[i].slot < 0)
			continue;
		f->v[i].rows = calloc(steps, sizeof(*f->v[i].rows));
		if (!f->v[i].rows) {
			flows_destroy(f);
			return bace_fail(e, ENOMEM, "flows of %zu steps: out of memory", steps);
		}
	}
	if (!f->v) {
		flows_destroy(f);
		return bace_fail(e, ENOMEM, "flows: out of memory");
	}
	*out = f;
	return 0;
}

void flows_destroy(struct flows *f)
{
	for (int i = 0; f->v && i < f->spec->n_hops; i++)
		free(f->v[i].rows);
	free(f->v);
	free(f);
}

static void read_counters(const struct hop *h, struct counters *c)
{
	hop_info(h, &c->t, &c->payload_bytes, &c->messages);
}

void flows_start(struct flows *f)
{
	for (int i = 0; i < f->spec->n_hops; i++)
		if (f->v[i].slot >= 0)
			read_counters(&f->hops[i], &f->v[i].start);
}

void flows_step_ended(struct flows *f, int slot, int step)
{
	for (int i = 0; i < f->spec->n_hops; i++) {
		struct flow *x = &f->v[i];

		if (x->slot != slot || x->n_rows == f->spec->warmup_steps + f->spec->steps)
			continue;
		x->rows[x->n_rows].step = step;
		struct counters now;

		read_counters(&f->hops[i], &now);
		x->rows[x->n_rows++].t = now.t;
		if (step < 0)			/* any may be the warm-up's last */
			x->start = now;
	}
}

static int add_counters(json_t *j, const struct counters *now, const struct counters *then)
{
	const struct { const char *key; uint64_t value; } v[] = {
		{ "payload_bytes", now->payload_bytes - then->payload_bytes },
		{ "messages", now->messages - then->messages },
		{ "wire_bytes", now->t.wire_bytes - then->t.wire_bytes },
		{ "bytes_sent", now->t.bytes_sent - then->t.bytes_sent },
		{ "retrans_bytes", now->t.retrans_bytes - then->t.retrans_bytes },
		{ "segs_out", now->t.segs_out - then->t.segs_out },
		{ "busy_us", now->t.busy_us - then->t.busy_us },
		{ "rwnd_limited_us", now->t.rwnd_limited_us - then->t.rwnd_limited_us },
		{ "sndbuf_limited_us", now->t.sndbuf_limited_us - then->t.sndbuf_limited_us },
	};
	int rc = 0;

	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		rc |= json_object_set_new(j, v[i].key, json_integer((json_int_t)v[i].value));
	return rc;
}

json_t *flow_rows_json(const struct flow_row *rows, int n)
{
	json_t *a = json_array();

	for (int i = 0; i < n; i++) {
		static const struct net_info none;
		const struct net_info *t = &rows[i].t, *was = i ? &rows[i - 1].t : &none;

		json_array_append_new(a, json_pack("[i,I,I,I,I,I,I,I,I,I,i]", rows[i].step,
			(json_int_t)(t->bytes_sent - was->bytes_sent), (json_int_t)(t->retrans_bytes - was->retrans_bytes),
			(json_int_t)t->rtt_us, (json_int_t)t->delivery_rate_bps, (json_int_t)t->min_rtt_us,
			(json_int_t)t->cwnd_bytes, (json_int_t)(t->busy_us - was->busy_us),
			(json_int_t)(t->rwnd_limited_us - was->rwnd_limited_us),
			(json_int_t)(t->sndbuf_limited_us - was->sndbuf_limited_us), t->app_limited));
	}
	return a;
}

json_t *flows_json(const struct flows *f)
{
	json_t *a = json_array();

	for (int i = 0; i < f->spec->n_hops; i++) {
		const struct hop *h = &f->hops[i];
		struct counters now, none = { 0 };
		json_t *j, *measured = json_object();

		if (f->v[i].slot < 0) {
			json_decref(measured);
			continue;
		}
		read_counters(h, &now);
		j = json_pack("{s:i,s:b,s:s,s:s,s:I,s:I,s:I,s:I,s:b}", "hop", hop_spec(h)->hop, "forward",
			hop_spec(h)->role == HOP_CONNECT, "peer", h->peer, "congestion_control",
			now.t.congestion_control, "rtt_us", (json_int_t)now.t.rtt_us, "min_rtt_us",
			(json_int_t)now.t.min_rtt_us, "delivery_rate_bps", (json_int_t)now.t.delivery_rate_bps,
			"cwnd_bytes", (json_int_t)now.t.cwnd_bytes, "app_limited", now.t.app_limited);
		add_counters(j, &now, &none);
		add_counters(measured, &now, &f->v[i].start);
		json_object_set_new(j, "measured", measured);
		json_object_set_new(j, "steps", flow_rows_json(f->v[i].rows, f->v[i].n_rows));
		json_array_append_new(a, j);
	}
	return a;
}
