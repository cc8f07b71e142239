#include "workloads/nccl/transport_internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PEERS_MAX 2

/* ---- NCCL's log ---- */

static void read_log(struct transport *t)
{
	char text[4096];
	ssize_t n;

	while ((n = pread(t->log_fd, text, sizeof(text), t->log_at)) > 0) {
		nccl_log_feed(&t->log, text, (size_t)n);
		t->log_at += n;
	}
}

int transport_check_log(struct transport *t, struct bace_err *e)
{
	int peers[PEERS_MAX];
	size_t n = 0;

	read_log(t);
	for (int i = 0; i < t->spec->n_hops && n < PEERS_MAX; i++)
		if (t->spec->hops[i].kind == HOP_NCCL)
			peers[n++] = calls_peer(t->spec, i);
	return nccl_log_check(&t->log, t->spec->stages[0].stage, peers, n, t->interface, e);
}

int transport_explain(struct transport *t, struct bace_err *e)
{
	struct bace_err was = *e;

	read_log(t);
	if (!t->log.warning[0] || was.errnum == EPROTO || was.errnum == EINVAL)
		return -e->errnum;
	return bace_fail(e, was.errnum, "%.340s (NCCL's log: %.120s)", was.msg, t->log.warning);
}

/* ---- what went over the wire ---- */

/* Another hop to the same address has all of its bytes already. */
static bool counted_before(const struct transport *t, int hop)
{
	for (int i = 0; i < hop; i++)
		if (t->spec->hops[i].kind == HOP_NCCL && !strcmp(t->carried[i].peer, t->carried[hop].peer))
			return true;
	return false;
}

uint64_t transport_count(struct transport *t)
{
	uint64_t unacked = 0;
	struct bace_err e;

	for (int i = 0; i < t->spec->n_hops; i++) {
		struct carried *c = &t->carried[i];

		if (t->spec->hops[i].kind != HOP_NCCL || counted_before(t, i))
			continue;
		if (sockets_count(c->peer, &c->sockets, &e))
			bace_log(BACE_WARN, "nccl", "%s", e.msg);
		unacked += c->sockets.unacked;
	}
	return unacked;
}

void transport_step_ended(struct mover *mover, int step)
{
	struct transport *t = (struct transport *)mover;

	transport_count(t);
	for (int i = 0; i < t->spec->n_hops; i++) {
		struct carried *c = &t->carried[i];

		if (c->rows && c->n_rows < t->spec->warmup_steps + t->spec->steps)
			c->rows[c->n_rows++] = (struct flow_row){ .step = step, .t = c->sockets.sum };
	}
}

/* ---- energy ---- */

void transport_power_start(struct transport *t)
{
	if (!t->power)
		return;
	t->energy_j = power_energy_j(t->power);
	t->energy_ns = bace_mono_ns();
}

void transport_power_stop(struct transport *t)
{
	double now = t->power ? power_energy_j(t->power) : -1;

	t->energy_j = now < 0 || t->energy_j < 0 ? -1 : now - t->energy_j;
	t->energy_ns = bace_mono_ns() - t->energy_ns;
}

/* ---- the report ---- */

static json_t *flow_json(const struct transport *t, int hop)
{
	const struct carried *c = &t->carried[hop];
	const struct net_info *s = &c->sockets.sum;
	const struct { const char *key; uint64_t value; } v[] = {
		{ "payload_bytes", c->bytes },		{ "messages", c->messages },
		{ "wire_bytes", s->wire_bytes },	{ "bytes_sent", s->bytes_sent },
		{ "retrans_bytes", s->retrans_bytes },	{ "segs_out", s->segs_out },
		{ "rtt_us", s->rtt_us },		{ "min_rtt_us", s->min_rtt_us },
		{ "delivery_rate_bps", s->delivery_rate_bps }, { "busy_us", s->busy_us },
		{ "rwnd_limited_us", s->rwnd_limited_us }, { "sndbuf_limited_us", s->sndbuf_limited_us },
		{ "cwnd_bytes", s->cwnd_bytes }, { "sockets", (uint64_t)c->sockets.n },
	};
	json_t *j = json_pack("{s:i,s:b,s:s,s:s}", "hop", t->spec->hops[hop].hop, "forward",
		t->spec->hops[hop].role == HOP_CONNECT, "peer", c->peer, "congestion_control", s->congestion_control);

	for (size_t i = 0; j && i < ARRAY_LEN(v); i++)
		json_object_set_new(j, v[i].key, json_integer((json_int_t)v[i].value));
	if (j)
		json_object_set_new(j, "steps", flow_rows_json(c->rows, c->n_rows));
	return j;
}

static json_t *paths_json(const struct nccl_log *log)
{
	static const char *const ends[] = { "", " send", " receive" };
	json_t *a = json_array();

	for (size_t i = 0; i < log->n_paths; i++) {
		char text[96];

		snprintf(text, sizeof(text), "%d -> %d%s via %s", log->paths[i].from, log->paths[i].to,
			 ends[log->paths[i].end], log->paths[i].via);
		json_array_append_new(a, json_string(text));
	}
	return a;
}

static json_t *gpu_json(const struct transport *t)
{
	json_t *j = json_pack("{s:i,s:s}", "device", t->device, "bus", t->bus);

	if (t->power)
		json_object_set_new(j, "name", json_string(power_gpu_name(t->power)));
	if (t->energy_j >= 0) {
		json_object_set_new(j, "energy_j", json_real(t->energy_j));
		json_object_set_new(j, "seconds", json_real((double)t->energy_ns / 1e9));
	}
	return j;
}

int transport_report(const struct mover *mover, json_t *flows, json_t *done, struct bace_err *e)
{
	const struct transport *t = (const struct transport *)mover;
	int version = 0;

	ncclGetVersion(&version);
	for (int i = 0; i < t->spec->n_hops; i++)
		if (t->spec->hops[i].kind == HOP_NCCL && json_array_append_new(flows, flow_json(t, i)))
			return bace_fail(e, ENOMEM, "report: out of memory");
	if (json_object_set_new(done, "nccl", json_pack("{s:i,s:s,s:o,s:o}", "version", version, "interface",
							t->interface, "paths", paths_json(&t->log), "gpu", gpu_json(t))))
		return bace_fail(e, ENOMEM, "report: out of memory");
	return 0;
}
