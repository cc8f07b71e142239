#include "harness/lab/codec.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int bad(struct bace_err *e, const char *what, const json_error_t *je)
{
	return bace_fail(e, EPROTO, "%s: %s", what, je ? je->text : "malformed");
}

static void copy_string(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
}

/* calloc for a JSON array's items; n is 0 for an empty or missing array. */
static void *items(const json_t *array, int *n, size_t size)
{
	*n = (int)json_array_size(array);
	return calloc((size_t)(*n ? *n : 1), size);
}

static json_t *stages_json(const struct tb_job *j)
{
	json_t *a = json_array();

	for (int i = 0; i < j->n_stages; i++)
		json_array_append_new(a, json_pack("[i,i,i,I,I,I]", j->stages[i].host,
			j->stages[i].region, j->stages[i].worker, (json_int_t)j->stages[i].fwd_ns,
			(json_int_t)j->stages[i].bwd_ns, (json_int_t)j->stages[i].w_ns));
	return a;
}

static json_t *hops_json(const struct tb_hop *hops, int n)
{
	json_t *a = json_array();

	for (int i = 0; i < n; i++) {
		const struct tb_hop *h = &hops[i];

		json_array_append_new(a, json_pack("[b,I,I,I,I,I,I,I]", h->local, (json_int_t)h->local_rate_bps,
			(json_int_t)h->local_latency_ns, (json_int_t)h->bytes, (json_int_t)h->rate_bps,
			(json_int_t)h->reverse_rate_bps, (json_int_t)h->latency_ns,
			(json_int_t)h->reverse_latency_ns));
	}
	return a;
}

json_t *codec_cell(const struct tb_cell *c)
{
	json_t *jobs = json_array();

	for (int i = 0; i < c->n_jobs; i++) {
		const struct tb_job *j = &c->jobs[i];

		json_array_append_new(jobs, json_pack("{s:s,s:i,s:i,s:i,s:b,s:i,s:o,s:o,s:i,s:i,s:o}",
			"name", j->name, "schedule", (int)j->schedule, "chunks", j->chunks,
			"micro_batches", j->micro_batches, "overlap", j->overlap, "hidden", j->hidden,
			"stages", stages_json(j), "hops", hops_json(j->hops, tb_hops(j)), "replicas", j->replicas,
			"replica", j->replica, "rings", hops_json(j->rings, j->rings ? j->n_stages : 0)));
	}
	json_t *cell = json_pack("{s:o,s:i,s:i,s:i,s:s,s:i,s:i,s:f}", "jobs", jobs, "transport",
			 (int)c->transport, "warmup_steps", c->warmup_steps,
			 "steps", c->steps, "congestion_control", c->congestion_control,
			 "sockets_per_hop", c->sockets_per_hop, "compute", (int)c->compute, "timeout_s", c->timeout_s);

	if (c->timeline_sends)
		json_object_set_new(cell, "timeline_sends", json_true());
	if (c->steady_ppm)
		json_object_set_new(cell, "steady", json_pack("[i,i]", c->steady_ppm, c->steady_steps));
	if (c->script)
		json_object_set_new(cell, "script", codec_script(c->script));
	return cell;
}

static int read_stages(const json_t *a, struct tb_job *j, struct bace_err *e)
{
	json_error_t je;

	j->stages = items(a, &j->n_stages, sizeof(*j->stages));
	if (!j->stages)
		return bace_fail(e, ENOMEM, "cell: out of memory");
	for (int i = 0; i < j->n_stages; i++) {
		struct tb_stage *s = &j->stages[i];
		json_int_t f, b, w;

		if (json_unpack_ex(json_array_get(a, (size_t)i), &je, 0, "[i,i,i,I,I,I!]", &s->host,
				   &s->region, &s->worker, &f, &b, &w))
			return bad(e, "cell: stage", &je);
		s->fwd_ns = f;
		s->bwd_ns = b;
		s->w_ns = w;
	}
	return 0;
}

static int read_hops(const json_t *a, int want, struct tb_hop **out, struct bace_err *e)
{
	json_error_t je;
	int n;

	*out = items(a, &n, sizeof(**out));
	if (!*out)
		return bace_fail(e, ENOMEM, "cell: out of memory");
	if (n != want)
		return bace_fail(e, EPROTO, "cell: %d hops, not %d", n, want);
	for (int i = 0; i < n; i++) {
		json_int_t rate, latency, bytes, v[4];
		int local;

		if (json_unpack_ex(json_array_get(a, (size_t)i), &je, 0, "[b,I,I,I,I,I,I,I!]", &local, &rate,
				   &latency, &bytes, &v[0], &v[1], &v[2], &v[3]))
			return bad(e, "cell: hop", &je);
		(*out)[i] = (struct tb_hop){ .local = local, .local_rate_bps = (uint64_t)rate,
			.local_latency_ns = latency, .bytes = (uint64_t)bytes, .rate_bps = (uint64_t)v[0],
			.reverse_rate_bps = (uint64_t)v[1], .latency_ns = v[2], .reverse_latency_ns = v[3] };
	}
	return 0;
}

static int read_job(const json_t *in, struct tb_job *j, struct bace_err *e)
{
	const char *name;
	json_t *stages, *hops, *rings;
	json_error_t je;
	int schedule, overlap, rc;

	if (json_unpack_ex((json_t *)in, &je, 0, "{s:s,s:i,s:i,s:i,s:b,s:i,s:o,s:o,s:i,s:i,s:o}", "name", &name,
			   "schedule", &schedule, "chunks", &j->chunks, "micro_batches",
			   &j->micro_batches, "overlap", &overlap, "hidden", &j->hidden, "stages", &stages, "hops", &hops, "replicas", &j->replicas,
			   "replica", &j->replica, "rings", &rings))
		return bad(e, "cell: job", &je);
	copy_string(j->name, sizeof(j->name), name);
	j->schedule = (enum schedule_kind)schedule;
	j->overlap = overlap;
	rc = read_stages(stages, j, e);
	if (!rc)
		rc = read_hops(hops, tb_hops(j), &j->hops, e);
	return rc || j->replicas < 2 ? rc : read_hops(rings, j->n_stages, &j->rings, e);
}

int codec_cell_read(const json_t *in, struct tb_cell *out, struct bace_err *e)
{
	const char *cc;
	json_t *jobs;
	json_error_t je;
	int transport, compute;

	*out = (struct tb_cell){ 0 };
	if (json_unpack_ex((json_t *)in, &je, 0, "{s:o,s:i,s:i,s:i,s:s,s:i,s:i,s:F}", "jobs", &jobs,
			   "transport", &transport, "warmup_steps", &out->warmup_steps, "steps", &out->steps,
			   "congestion_control", &cc, "sockets_per_hop", &out->sockets_per_hop, "compute", &compute,
			   "timeout_s", &out->timeout_s))
		return bad(e, "cell", &je);
	if (transport < TRANSPORT_TCP || transport > TRANSPORT_NCCL || compute < COMPUTE_AS_TIMED || compute > COMPUTE_ON_GPU)
		return bace_fail(e, EPROTO, "cell: transport %d, compute %d: unknown", transport, compute);
	out->timeline_sends = json_is_true(json_object_get(in, "timeline_sends"));
	out->transport = (enum transport_mode)transport;
	out->compute = (enum compute_mode)compute;
	copy_string(out->congestion_control, sizeof(out->congestion_control), cc);
	out->jobs = items(jobs, &out->n_jobs, sizeof(*out->jobs));
	if (!out->jobs)
		return bace_fail(e, ENOMEM, "cell: out of memory");
	for (int i = 0; i < out->n_jobs; i++) {
		int rc = read_job(json_array_get(jobs, (size_t)i), &out->jobs[i], e);

		if (rc)
			return rc;
	}
	if (json_object_get(in, "steady") && json_unpack_ex(json_object_get(in, "steady"), &je, 0, "[i,i!]",
							    &out->steady_ppm, &out->steady_steps))
		return bad(e, "cell: steady", &je);
	if (!json_object_get(in, "script"))
		return 0;
	out->script = calloc(1, sizeof(*out->script));
	return out->script ? codec_script_read(json_object_get(in, "script"), out->script, e) :
			     bace_fail(e, ENOMEM, "cell: out of memory");
}

void codec_cell_free(struct tb_cell *c)
{
	for (int i = 0; c->jobs && i < c->n_jobs; i++) {
		free(c->jobs[i].stages);
		free(c->jobs[i].hops);
		free(c->jobs[i].rings);
	}
	free(c->jobs);
	if (c->script)
		codec_script_free(c->script);
	free(c->script);
	*c = (struct tb_cell){ 0 };
}

static json_t *steps_json(const struct tb_result *r)
{
	json_t *a = json_array();

	for (int i = 0; i < r->n_steps; i++)
		json_array_append_new(a, json_pack("[i,i,I,I,I]", r->steps[i].job, r->steps[i].step,
			(json_int_t)r->steps[i].start_ns, (json_int_t)r->steps[i].end_ns,
			(json_int_t)r->steps[i].compute_ns));
	return a;
}

static json_t *ops_json(const struct tb_result *r)
{
	json_t *a = json_array();

	for (int i = 0; i < r->n_ops; i++) {
		const struct tb_op *o = &r->ops[i];

		json_array_append_new(a, json_pack("[i,i,i,i,i,I,I,I]", o->job, o->stage, o->step,
			o->micro_batch, o->kind, (json_int_t)o->start_ns, (json_int_t)o->end_ns,
			(json_int_t)o->planned_end_ns));
	}
	return a;
}

static json_t *flows_json(const struct tb_result *r)
{
	json_t *a = json_array();

	for (int i = 0; i < r->n_flows; i++) {
		const struct tb_flow *f = &r->flows[i];

		json_array_append_new(a, json_pack("[i,i,i,i,b,I,I,I,I,I,s]", f->job, f->hop,
			f->src_region, f->dst_region, f->forward, (json_int_t)f->payload_bytes,
			(json_int_t)f->wire_bytes, (json_int_t)f->retrans_bytes,
			(json_int_t)f->rtt_us, (json_int_t)f->min_rtt_us, f->congestion_control));
	}
	return a;
}

static json_t *flow_steps_json(const struct tb_result *r)
{
	json_t *a = json_array();

	for (int i = 0; i < r->n_flow_steps; i++) {
		const struct tb_flow_step *s = &r->flow_steps[i];

		json_array_append_new(a, json_pack("[i,i,I,I,I,I,I,I,I,I,I,b]", s->flow, s->step,
			(json_int_t)s->bytes_sent, (json_int_t)s->retrans_bytes, (json_int_t)s->delivery_rate_bps,
			(json_int_t)s->cwnd_bytes, (json_int_t)s->busy_us, (json_int_t)s->rwnd_limited_us,
			(json_int_t)s->sndbuf_limited_us, (json_int_t)s->rtt_us, (json_int_t)s->min_rtt_us,
			s->app_limited));
	}
	return a;
}

static json_t *links_json(const struct tb_result *r)
{
	json_t *a = json_array();

	for (int i = 0; i < r->n_links; i++) {
		const struct tb_link_check *l = &r->links[i];

		json_array_append_new(a, json_pack("[i,i,I,I,I,b]", l->src, l->dst,
			(json_int_t)l->tc_bytes, (json_int_t)l->wire_bytes, (json_int_t)l->drops,
			l->valid));
	}
	return a;
}

static json_t *energy_json(const struct tb_result *r)
{
	json_t *a = json_array();

	for (int i = 0; i < r->n_energy; i++)
		json_array_append_new(a, json_pack("[s,s,s,f,f]", r->energy[i].host, r->energy[i].source,
			r->energy[i].device, r->energy[i].seconds, r->energy[i].energy_j));
	return a;
}

json_t *codec_result(const struct tb_result *r)
{
	return json_pack("{s:b,s:s,s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:o,s:o}", "valid", r->valid, "why",
		r->invalid_why, "steps", steps_json(r), "ops", ops_json(r), "flows", flows_json(r),
		"flow_steps", flow_steps_json(r), "links", links_json(r), "barrier_spread_ns", (json_int_t)r->barrier_spread_ns,
		"lateness_p99_ns", (json_int_t)r->lateness_p99_ns, "delay_lateness_p99_ns",
		(json_int_t)r->delay_lateness_p99_ns, "log", codec_log(&r->log), "energy",
		energy_json(r));
}

static int read_steps(const json_t *a, struct tb_result *r)
{
	r->steps = items(a, &r->n_steps, sizeof(*r->steps));
	for (int i = 0; r->steps && i < r->n_steps; i++) {
		json_int_t v[3];

		if (json_unpack(json_array_get(a, (size_t)i), "[i,i,I,I,I]", &r->steps[i].job,
				&r->steps[i].step, &v[0], &v[1], &v[2]))
			return -EPROTO;
		r->steps[i].start_ns = v[0];
		r->steps[i].end_ns = v[1];
		r->steps[i].compute_ns = v[2];
	}
	return r->steps ? 0 : -ENOMEM;
}
static int read_ops(const json_t *a, struct tb_result *r)
{
	r->ops = items(a, &r->n_ops, sizeof(*r->ops));
	for (int i = 0; r->ops && i < r->n_ops; i++) {
		struct tb_op *o = &r->ops[i];
		json_int_t v[3];
		int kind;

		if (json_unpack(json_array_get(a, (size_t)i), "[i,i,i,i,i,I,I,I]", &o->job, &o->stage,
				&o->step, &o->micro_batch, &kind, &v[0], &v[1], &v[2]))
			return -EPROTO;
		o->kind = (uint8_t)kind;
		o->start_ns = v[0];
		o->end_ns = v[1];
		o->planned_end_ns = v[2];
	}
	return r->ops ? 0 : -ENOMEM;
}

static int read_flows(const json_t *a, struct tb_result *r)
{
	r->flows = items(a, &r->n_flows, sizeof(*r->flows));
	for (int i = 0; r->flows && i < r->n_flows; i++) {
		struct tb_flow *f = &r->flows[i];
		json_int_t v[5];
		const char *cc;
		int forward;

		if (json_unpack(json_array_get(a, (size_t)i), "[i,i,i,i,b,I,I,I,I,I,s]", &f->job,
				&f->hop, &f->src_region, &f->dst_region, &forward, &v[0], &v[1],
				&v[2], &v[3], &v[4], &cc))
			return -EPROTO;
		f->forward = forward;
		f->payload_bytes = (uint64_t)v[0];
		f->wire_bytes = (uint64_t)v[1];
		f->retrans_bytes = (uint64_t)v[2];
		f->rtt_us = (uint32_t)v[3];
		f->min_rtt_us = (uint32_t)v[4];
		copy_string(f->congestion_control, sizeof(f->congestion_control), cc);
	}
	return r->flows ? 0 : -ENOMEM;
}

static int read_flow_steps(const json_t *a, struct tb_result *r)
{
	r->flow_steps = items(a, &r->n_flow_steps, sizeof(*r->flow_steps));
	for (int i = 0; r->flow_steps && i < r->n_flow_steps; i++) {
		struct tb_flow_step *s = &r->flow_steps[i];
		json_int_t v[9];
		int app_limited;

		if (json_unpack(json_array_get(a, (size_t)i), "[i,i,I,I,I,I,I,I,I,I,I,b]", &s->flow, &s->step, &v[0],
				&v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8], &app_limited) ||
		    s->flow < 0 || s->flow >= r->n_flows)
			return -EPROTO;
		s->bytes_sent = (uint64_t)v[0];
		s->retrans_bytes = (uint64_t)v[1];
		s->delivery_rate_bps = (uint64_t)v[2];
		s->cwnd_bytes = (uint64_t)v[3];
		s->busy_us = (uint64_t)v[4];
		s->rwnd_limited_us = (uint64_t)v[5];
		s->sndbuf_limited_us = (uint64_t)v[6];
		s->rtt_us = (uint32_t)v[7];
		s->min_rtt_us = (uint32_t)v[8];
		s->app_limited = app_limited;
	}
	return r->flow_steps ? 0 : -ENOMEM;
}

static int read_links(const json_t *a, struct tb_result *r)
{
	r->links = items(a, &r->n_links, sizeof(*r->links));
	for (int i = 0; r->links && i < r->n_links; i++) {
		struct tb_link_check *l = &r->links[i];
		json_int_t v[3];
		int valid;

		if (json_unpack(json_array_get(a, (size_t)i), "[i,i,I,I,I,b]", &l->src, &l->dst,
				&v[0], &v[1], &v[2], &valid))
			return -EPROTO;
		l->tc_bytes = (uint64_t)v[0];
		l->wire_bytes = (uint64_t)v[1];
		l->drops = (uint64_t)v[2];
		l->valid = valid;
	}
	return r->links ? 0 : -ENOMEM;
}

static int read_energy(const json_t *a, struct tb_result *r)
{
	r->energy = items(a, &r->n_energy, sizeof(*r->energy));
	for (int i = 0; r->energy && i < r->n_energy; i++) {
		struct tb_energy *x = &r->energy[i];
		const char *host, *source, *device;

		if (json_unpack(json_array_get(a, (size_t)i), "[s,s,s,F,F]", &host, &source, &device, &x->seconds,
				&x->energy_j))
			return -EPROTO;
		copy_string(x->host, sizeof(x->host), host);
		copy_string(x->source, sizeof(x->source), source);
		copy_string(x->device, sizeof(x->device), device);
	}
	return r->energy ? 0 : -ENOMEM;
}

int codec_result_read(const json_t *in, struct tb_result *out, struct bace_err *e)
{
	json_t *steps, *ops, *flows, *flow_steps, *links;
	json_int_t v[3];
	json_error_t je;
	const char *why;
	int valid, rc;

	*out = (struct tb_result){ 0 };
	if (json_unpack_ex((json_t *)in, &je, 0, "{s:b,s:s,s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:I}", "valid",
			   &valid, "why", &why, "steps", &steps, "ops", &ops, "flows", &flows,
			   "flow_steps", &flow_steps, "links", &links, "barrier_spread_ns", &v[0], "lateness_p99_ns", &v[1],
			   "delay_lateness_p99_ns", &v[2]))
		return bad(e, "result", &je);
	out->valid = valid;
	copy_string(out->invalid_why, sizeof(out->invalid_why), why);
	out->barrier_spread_ns = v[0];
	out->lateness_p99_ns = v[1];
	out->delay_lateness_p99_ns = v[2];
	if ((rc = read_steps(steps, out)) || (rc = read_ops(ops, out)) ||
	    (rc = read_flows(flows, out)) || (rc = read_flow_steps(flow_steps, out)) || (rc = read_links(links, out)) ||
	    (rc = read_energy(json_object_get(in, "energy"), out)) ||
	    (rc = codec_log_read(json_object_get(in, "log"), &out->log, e))) {
		tb_result_free(out);
		return bace_fail(e, -rc, "result: malformed rows");
	}
	return 0;
}

json_t *codec_verify(int n, const struct tb_verify *v)
{
	json_t *a = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(a, json_pack("[i,i,f,f,f,f,f,f]", v[i].src, v[i].dst,
			v[i].rtt_min_s, v[i].rtt_median_s, v[i].rtt_p99_s, v[i].goodput_bps,
			v[i].planned_rtt_s, v[i].planned_goodput_bps));
	return a;
}

int codec_verify_read(const json_t *a, int n, struct tb_verify *v, struct bace_err *e)
{
	json_error_t je;

	if ((int)json_array_size(a) != n)
		return bace_fail(e, EPROTO, "verify: %d links for %d", (int)json_array_size(a), n);
	for (int i = 0; i < n; i++)
		if (json_unpack_ex(json_array_get(a, (size_t)i), &je, 0, "[i,i,F,F,F,F,F,F]",
				   &v[i].src, &v[i].dst, &v[i].rtt_min_s, &v[i].rtt_median_s,
				   &v[i].rtt_p99_s, &v[i].goodput_bps, &v[i].planned_rtt_s,
				   &v[i].planned_goodput_bps))
			return bad(e, "verify", &je);
	return 0;
}

json_t *codec_view(int n, const struct tb_view_link *v)
{
	json_t *a = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(a, v[i].known ? json_pack("[i,b,f,f,f,f]", (int)v[i].method, (int)v[i].lower_bound,
			v[i].capacity_bps, v[i].error_bps, v[i].used_bps, v[i].age_s) : json_null());
	return a;
}

int codec_view_read(const json_t *a, int n, struct tb_view_link *v, struct bace_err *e)
{
	json_error_t je;

	if ((int)json_array_size(a) != n)
		return bace_fail(e, EPROTO, "view: %d links for %d", (int)json_array_size(a), n);
	for (int i = 0; i < n; i++) {
		json_t *j = json_array_get(a, (size_t)i);
		int method, lower_bound;

		v[i] = (struct tb_view_link){ .age_s = NAN };
		if (json_is_null(j))
			continue;
		if (json_unpack_ex(j, &je, 0, "[i,b,F,F,F,F]", &method, &lower_bound, &v[i].capacity_bps,
				   &v[i].error_bps, &v[i].used_bps, &v[i].age_s))
			return bad(e, "view", &je);
		if (method < 0 || method >= TB_METHODS)
			return bace_fail(e, EPROTO, "view: method %d", method);
		v[i].known = true;
		v[i].method = (enum tb_method)method;
		v[i].lower_bound = lower_bound;
	}
	return 0;
}
