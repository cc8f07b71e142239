/*
 * Two ranks and one link: one message to and fro, and a stream of messages, of
 * each size. A pipeline of two stages that compute nothing is what plays it, so
 * that engine, transport and shaping are those of a run.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/cell.h"

#define TRIES 4			/* when the machine was too busy */
#define STREAM_S 0.5		/* about so long a stream is one way */
#define STREAM_MIN 4
#define STREAM_MAX 512
#define STEPS_PING 20
#define STEPS_STREAM 2

struct p2p_job {
	const struct experiment *exp;
	const struct p2p_options *o;
	struct testbed *testbed;
	double rate_bps[2], latency_s[2];	/* goodput and one-way, there and back, scaled */
};

static void fill_job(const struct p2p_job *j, uint64_t bytes, int messages, struct tb_stage stages[2],
		     struct tb_hop *hop, struct tb_job *out)
{
	int region[2] = { j->o->src, j->o->dst };

	for (int i = 0; i < 2; i++)
		stages[i] = (struct tb_stage){ .host = lab_host_of(testbed_net(j->testbed), region[i], 0),
					       .region = region[i], .worker = i };
	cell_fill_hop(j->exp, bytes, true, region[0], region[1], hop);
	/* 1f1b of one micro-batch: there, and back at once. gpipe: all there, then all back. */
	*out = (struct tb_job){ .name = "p2p", .schedule = messages > 1 ? SCHED_GPIPE : SCHED_1F1B, .chunks = 1,
		.micro_batches = messages, .overlap = true, .n_stages = 2, .stages = stages, .hops = hop };
}

static int run_cell(const struct p2p_job *j, uint64_t bytes, int messages, int steps, struct tb_result *res,
		    struct bace_err *e)
{
	struct tb_stage stages[2];
	struct tb_hop hop;
	struct tb_job job;
	struct tb_cell cell;
	double step = (double)bytes * 8 * messages * (1 / j->rate_bps[0] + 1 / j->rate_bps[1]) + j->latency_s[0] +
		      j->latency_s[1];
	int rc = 0;

	fill_job(j, bytes, messages, stages, &hop, &job);
	cell_settings(j->exp, &cell);
	cell.n_jobs = 1;
	cell.jobs = &job;
	cell.warmup_steps = 1;
	cell.steps = steps;
	/* Nothing is computed, and nothing left out. */
	cell.compute = COMPUTE_AS_TIMED;
	cell.steady_ppm = 0;
	cell.timeline_sends = false;
	cell.timeout_s = cell_timeout_s(step * (steps + 1));
	for (int i = 0; i < TRIES; i++) {
		rc = testbed_run(j->testbed, &cell, res, e);
		if (rc || res->valid)
			return rc;
		rc = bace_fail(e, EBADMSG, "%llu bytes: %s", (unsigned long long)bytes, res->invalid_why);
		tb_result_free(res);
	}
	return rc;
}

static int ping(const struct p2p_job *j, struct p2p_row *row, struct bace_err *e)
{
	double v[STEPS_PING];
	struct tb_result res;
	int n = 0, rc = run_cell(j, row->bytes, 1, STEPS_PING, &res, e);

	if (rc)
		return rc;
	for (int i = 0; i < res.n_steps && n < STEPS_PING; i++)
		if (res.steps[i].step >= 0)
			v[n++] = (double)(res.steps[i].end_ns - res.steps[i].start_ns) / 2e9;
	tb_result_free(&res);
	row->one_way_s = stats_median(v, (size_t)n);
	row->one_way_p95_s = stats_quantile(v, (size_t)n, 0.95);
	return 0;
}

/* From the first message's last byte to the last one's, at the receiver; the
 * better of the steps: what disturbs only takes away. */
static int stream(const struct p2p_job *j, struct p2p_row *row, struct bace_err *e)
{
	double count = STREAM_S * j->rate_bps[0] / 8 / (double)row->bytes;
	struct tb_result res;
	int rc;

	row->messages = count < STREAM_MIN ? STREAM_MIN : count > STREAM_MAX ? STREAM_MAX : (int)count;
	rc = run_cell(j, row->bytes, row->messages, STEPS_STREAM, &res, e);
	for (int step = 0; !rc && step < STEPS_STREAM; step++) {
		int64_t first = INT64_MAX, last = INT64_MIN;
		double bps;

		for (int i = 0; i < res.n_ops; i++) {
			const struct tb_op *o = &res.ops[i];

			if (o->step != step || o->kind != TB_RECV_ACTIVATION)
				continue;
			first = o->end_ns < first ? o->end_ns : first;
			last = o->end_ns > last ? o->end_ns : last;
		}
		bps = last > first ? (double)row->bytes * 8e9 * (row->messages - 1) / (double)(last - first) : 0;
		row->goodput_bps = fmax(row->goodput_bps, bps);
	}
	if (!rc)
		tb_result_free(&res);
	return rc;
}

static int prepare(struct p2p_job *j, struct p2p *out, struct lab_traffic *traffic, struct bace_err *e)
{
	const struct cluster *c = &j->exp->cluster;
	const struct testbed_spec *t = &j->exp->testbed;
	uint64_t least = UINT64_MAX, most = 0;

	for (int d = 0; d < 2; d++) {
		const struct link *l = d ? cluster_link(c, j->o->dst, j->o->src) : cluster_link(c, j->o->src, j->o->dst);

		if (!l->present)
			return bace_fail(e, EINVAL, "%s: there is no link %s %s and back", j->exp->path,
					 c->regions[j->o->src].name, c->regions[j->o->dst].name);
		j->rate_bps[d] = goodput_bps((double)l->rate_bps, c->mtu) * t->scale_bytes / t->scale_time;
		j->latency_s[d] = (double)l->latency_ns / 1e9 * t->scale_time;
	}
	for (int i = 0; i < j->o->n_sizes; i++) {
		least = j->o->sizes[i] < least ? j->o->sizes[i] : least;
		most = j->o->sizes[i] > most ? j->o->sizes[i] : most;
	}
	*traffic = (struct lab_traffic){ .wan = t->wan, .jobs_on_link = 1, .min_message_bytes = least,
		/* Framed: headers of every segment. */
		.message_bytes = (uint64_t)ceil((double)most * (c->mtu + 14) / (c->mtu - 52)) };
	memcpy(traffic->congestion_control, t->congestion_control, sizeof(traffic->congestion_control));
	out->rows = calloc((size_t)j->o->n_sizes + 1, sizeof(*out->rows));
	return out->rows ? 0 : bace_fail(e, ENOMEM, "p2p: out of memory");
}

static int measure(const struct p2p_job *j, struct p2p *out, struct bace_err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < j->o->n_sizes; i++) {
		struct p2p_row *row = &out->rows[out->n];

		row->bytes = j->o->sizes[i];
		row->planned_one_way_s = (j->latency_s[0] + j->latency_s[1] + (double)row->bytes * 8 *
					  (1 / j->rate_bps[0] + 1 / j->rate_bps[1])) / 2;
		row->planned_goodput_bps = j->rate_bps[0];
		rc = ping(j, row, e);
		if (!rc)
			rc = stream(j, row, e);
		out->n += !rc;
	}
	return rc;
}

int p2p_run(const struct experiment *exp, const struct p2p_options *o, struct p2p *out, struct bace_err *e)
{
	struct p2p_job j = { .exp = exp, .o = o };
	const struct bare_options lab = { .self = o->self, .has_backend = o->has_backend, .backend = o->backend,
					  .cancelled = o->cancelled, .arg = o->arg };
	struct lab_traffic traffic;
	int rc;

	*out = (struct p2p){ 0 };
	rc = prepare(&j, out, &traffic, e);
	if (!rc)
		rc = lab_open_for(exp, &lab, &traffic, false, &j.testbed, &out->backend, e);
	if (!rc)
		rc = measure(&j, out, e);
	testbed_close(j.testbed);
	if (rc)
		p2p_free(out);
	return rc;
}

void p2p_free(struct p2p *p)
{
	free(p->rows);
	p->rows = NULL;
	p->n = 0;
}
