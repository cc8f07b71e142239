#include <errno.h>
#include <stdlib.h>

#include "harness/lab/codec.h"

json_t *codec_script(const struct tb_script *s)
{
	json_t *periods = json_array(), *actions = json_array();

	for (int i = 0; i < TB_SOURCES; i++)
		json_array_append_new(periods, json_integer(s->monitor.period_ms[i]));
	for (int i = 0; i < s->n; i++) {
		const struct tb_action *a = &s->actions[i];

		json_array_append_new(actions, json_pack("[i,f,b,i,i,i,I]", (int)a->kind, a->at_s, a->on,
			a->stretch_ppm, a->src, a->dst, (json_int_t)a->rate_bps));
	}
	return json_pack("{s:o,s:i,s:i,s:o}", "periods", periods, "push_ms", s->monitor.push_ms,
			 "probe_packets", s->monitor.probe_packets, "actions", actions);
}

int codec_script_read(const json_t *in, struct tb_script *out, struct bace_err *e)
{
	json_t *periods, *actions;
	json_error_t je;

	*out = (struct tb_script){ 0 };
	if (json_unpack_ex((json_t *)in, &je, 0, "{s:o,s:i,s:i,s:o}", "periods", &periods, "push_ms",
			   &out->monitor.push_ms, "probe_packets", &out->monitor.probe_packets, "actions",
			   &actions))
		return bace_fail(e, EPROTO, "script: %s", je.text);
	for (size_t i = 0; i < TB_SOURCES; i++)
		out->monitor.period_ms[i] = (int)json_integer_value(json_array_get(periods, i));
	out->actions = calloc(json_array_size(actions) + 1, sizeof(*out->actions));
	if (!out->actions)
		return bace_fail(e, ENOMEM, "script: out of memory");
	for (size_t i = 0; i < json_array_size(actions); i++) {
		struct tb_action *a = &out->actions[out->n++];
		json_int_t rate;
		int kind, on;

		if (json_unpack_ex(json_array_get(actions, i), &je, 0, "[i,F,b,i,i,i,I!]", &kind, &a->at_s, &on,
				   &a->stretch_ppm, &a->src, &a->dst, &rate)) {
			codec_script_free(out);
			return bace_fail(e, EPROTO, "script: %s", je.text);
		}
		a->kind = kind == TB_ACT_RATE ? TB_ACT_RATE : TB_ACT_MONITOR;
		a->on = on;
		a->rate_bps = (uint64_t)rate;
	}
	return 0;
}

void codec_script_free(struct tb_script *s)
{
	free(s->actions);
	*s = (struct tb_script){ 0 };
}

json_t *codec_log(const struct tb_log *l)
{
	json_t *acted = json_array(), *estimates = json_array();

	for (int i = 0; i < l->n_acted; i++) {
		const struct tb_acted *a = &l->acted[i];

		json_array_append_new(acted, json_pack("[I,I,I,I,I,I,I,I,I,i]", (json_int_t)a->began_ns,
			(json_int_t)a->settled_ns, (json_int_t)a->cpu_ns, (json_int_t)a->rss_bytes,
			(json_int_t)a->samples, (json_int_t)a->dropped, (json_int_t)a->wire_bytes,
			(json_int_t)a->probe_bytes, (json_int_t)a->rss_max_bytes, a->n_hosts));
	}
	for (int i = 0; i < l->n_estimates; i++) {
		const struct tb_estimate *x = &l->estimates[i];

		json_array_append_new(estimates, json_pack("[i,i,i,b,I,f,f]", x->src, x->dst, (int)x->method,
			x->lower_bound, (json_int_t)x->at_ns, x->rate_bps, x->error_bps));
	}
	return json_pack("{s:o,s:o}", "acted", acted, "estimates", estimates);
}

static int read_acted(const json_t *a, struct tb_log *l)
{
	l->acted = calloc(json_array_size(a) + 1, sizeof(*l->acted));
	for (size_t i = 0; l->acted && i < json_array_size(a); i++) {
		struct tb_acted *x = &l->acted[l->n_acted++];
		json_int_t v[9];

		if (json_unpack(json_array_get(a, i), "[I,I,I,I,I,I,I,I,I,i]", &v[0], &v[1], &v[2], &v[3], &v[4],
				&v[5], &v[6], &v[7], &v[8], &x->n_hosts))
			return -EPROTO;
		x->began_ns = v[0];
		x->settled_ns = v[1];
		x->cpu_ns = (uint64_t)v[2];
		x->rss_bytes = (uint64_t)v[3];
		x->samples = (uint64_t)v[4];
		x->dropped = (uint64_t)v[5];
		x->wire_bytes = (uint64_t)v[6];
		x->probe_bytes = (uint64_t)v[7];
		x->rss_max_bytes = (uint64_t)v[8];
	}
	return l->acted ? 0 : -ENOMEM;
}

static int read_estimates(const json_t *a, struct tb_log *l)
{
	l->estimates = calloc(json_array_size(a) + 1, sizeof(*l->estimates));
	for (size_t i = 0; l->estimates && i < json_array_size(a); i++) {
		struct tb_estimate *x = &l->estimates[l->n_estimates++];
		int method, lower;
		json_int_t at;

		if (json_unpack(json_array_get(a, i), "[i,i,i,b,I,F,F]", &x->src, &x->dst, &method, &lower, &at,
				&x->rate_bps, &x->error_bps) || method < 0 || method >= TB_METHODS)
			return -EPROTO;
		x->method = (enum tb_method)method;
		x->lower_bound = lower;
		x->at_ns = at;
	}
	return l->estimates ? 0 : -ENOMEM;
}

int codec_log_read(const json_t *in, struct tb_log *out, struct bace_err *e)
{
	int rc;

	*out = (struct tb_log){ 0 };
	rc = read_acted(json_object_get(in, "acted"), out);
	if (!rc)
		rc = read_estimates(json_object_get(in, "estimates"), out);
	if (rc) {
		tb_log_free(out);
		return bace_fail(e, -rc, "script: malformed log");
	}
	return 0;
}
