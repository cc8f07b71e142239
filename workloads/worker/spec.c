#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/worker/steady.h"
#include "workloads/worker/worker.h"

#define NS_PER_MS 1000000
#define DURATION_MAX_NS ((json_int_t)3600 * 1000000000)
#define TIMEOUT_MAX_MS 10000000000	/* 116 days */
#define STEPS_MAX 1000000

/* Range-checked integer field. */
static int get_int(const json_t *j, const char *what, const char *key, json_int_t lo, json_int_t hi,
		   json_int_t *out, struct bace_err *e)
{
	const json_t *v = json_object_get(j, key);

	if (!json_is_integer(v))
		return bace_fail(e, EINVAL, "%s: `%s' must be an integer", what, key);
	*out = json_integer_value(v);
	if (*out < lo || *out > hi)
		return bace_fail(e, EINVAL, "%s: `%s' = %lld: must be %lld to %lld", what, key,
				 (long long)*out, (long long)lo, (long long)hi);
	return 0;
}

static int get_string(const json_t *j, const char *what, const char *key, char *out, size_t size,
		      struct bace_err *e)
{
	const char *v = json_string_value(json_object_get(j, key));

	if (!v)
		return bace_fail(e, EINVAL, "%s: `%s' must be a string", what, key);
	if (strlen(v) >= size)
		return bace_fail(e, EINVAL, "%s: `%s' is longer than %zu characters", what, key, size - 1);
	memcpy(out, v, strlen(v) + 1);
	return 0;
}

/* As the two above; absent leaves *out as it is. */
static int opt_int(const json_t *j, const char *what, const char *key, json_int_t lo, json_int_t hi,
		   json_int_t *out, struct bace_err *e)
{
	return json_object_get(j, key) ? get_int(j, what, key, lo, hi, out, e) : 0;
}

static int opt_bool(const json_t *j, const char *key, bool *out, struct bace_err *e)
{
	const json_t *v = json_object_get(j, key);

	if (v && !json_is_boolean(v))
		return bace_fail(e, EINVAL, "spec: `%s' must be true or false", key);
	if (v)
		*out = json_is_true(v);
	return 0;
}

/* One of n words; *out is its index. */
static int opt_word(const json_t *j, const char *key, const char *const *words, int n, int *out,
		    struct bace_err *e)
{
	struct bace_buf all = { 0 };
	char word[32];
	int rc;

	if (!json_object_get(j, key))
		return 0;
	rc = get_string(j, "spec", key, word, sizeof(word), e);
	for (int i = 0; !rc && i < n; i++) {
		if (!strcmp(word, words[i])) {
			*out = i;
			bace_buf_free(&all);
			return 0;
		}
		bace_buf_addf(&all, "%s%s", i ? ", " : "", words[i]);
	}
	if (!rc)
		rc = bace_fail(e, EINVAL, "spec: `%s' = %s: must be one of %s", key, word,
			       all.p ? all.p : "?");
	bace_buf_free(&all);
	return rc;
}

/* Unknown keys are errors, with the nearest known one. */
static int check_keys(const json_t *j, const char *what, const char *const *known, size_t n,
		      struct bace_err *e)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)j, key, v) {
		const char *near = bace_nearest(key, known, n);
		size_t i = 0;

		while (i < n && strcmp(known[i], key))
			i++;
		if (i == n)
			return bace_fail(e, EINVAL, "%s: unknown key `%.40s'%s%s%s", what, key,
					 near ? "; did you mean `" : "", near ? near : "", near ? "'?" : "");
	}
	return 0;
}

static int read_stage(const json_t *j, const struct worker_spec *s, struct worker_stage_spec *out,
		      struct bace_err *e)
{
	static const char *const keys[] = { "fwd_ns", "bwd_ns", "w_ns" };
	static const char *const known[] = { "stage", "fwd_ns", "bwd_ns", "w_ns" };
	json_int_t v = 0;
	int rc = check_keys(j, "stage", known, ARRAY_LEN(known), e);

	if (!rc)
		rc = get_int(j, "stage", "stage", 0, s->schedule.stages - 1, &v, e);
	out->stage = (int)v;
	for (int i = 0; !rc && i < 3; i++) {
		rc = get_int(j, "stage", keys[i], 0, DURATION_MAX_NS, &v, e);
		out->duration_ns[i] = v;
	}
	return rc;
}

static int read_role(const char *role, enum hop_role *out)
{
	static const char *const names[] = { "listen", "connect", "internal" };

	for (int i = 0; i < 3; i++) {
		if (strcmp(role, names[i]))
			continue;
		*out = (enum hop_role)i;
		return 0;
	}
	return -EINVAL;
}

static int read_local(const json_t *j, const char *what, struct worker_hop_spec *out, struct bace_err *e)
{
	json_int_t v = 0;
	int rc = get_int(j, what, "rate_bps", 0, INT64_MAX, &v, e);

	if (rc)
		return rc;
	out->rate_bps = (uint64_t)v;
	if (v && (double)out->bytes * 8e9 / (double)v > (double)DURATION_MAX_NS)
		return bace_fail(e, EINVAL, "%s: %llu bytes at `rate_bps' = %lld take more than an hour", what,
				 (unsigned long long)out->bytes, (long long)v);
	rc = get_int(j, what, "latency_ns", 0, DURATION_MAX_NS, &v, e);
	out->latency_ns = v;
	return rc;
}

/* What is known of the network under a tcp hop. */
static int read_link(const json_t *j, const char *what, bool needed, struct worker_hop_spec *out,
		     struct bace_err *e)
{
	json_int_t rate = 0, back = 0, there_ns = 0, back_ns = 0;
	int rc = opt_int(j, what, "rate_bps", 0, INT64_MAX, &rate, e);

	if (!rc)
		rc = opt_int(j, what, "reverse_rate_bps", 0, INT64_MAX, &back, e);
	if (!rc)
		rc = opt_int(j, what, "latency_ns", 0, DURATION_MAX_NS, &there_ns, e);
	if (!rc)
		rc = opt_int(j, what, "reverse_latency_ns", 0, DURATION_MAX_NS, &back_ns, e);
	if (!rc && needed && (!rate || !back))
		return bace_fail(e, EINVAL, "%s: `overlap' = false needs its `rate_bps' and `reverse_rate_bps'", what);
	out->rate_bps = (uint64_t)rate;
	out->reverse_rate_bps = (uint64_t)back;
	out->latency_ns = there_ns;
	out->reverse_latency_ns = back_ns;
	return rc;
}

static int read_hop(const json_t *j, const struct worker_spec *s, struct worker_hop_spec *out,
		    struct bace_err *e)
{
	static const char *const known[] = { "hop", "kind", "role", "bytes", "addr", "rate_bps", "latency_ns",
		"reverse_rate_bps", "reverse_latency_ns" };
	char kind[16], role[16], what[24];
	json_int_t v = 0;
	int rc = check_keys(j, "hop", known, ARRAY_LEN(known), e);

	if (!rc)
		rc = get_int(j, "hop", "hop", 0, s->schedule.stages * (s->replicas > 1 ? 2 : 1) - 1, &v, e);
	out->hop = (int)v;
	snprintf(what, sizeof(what), "hop %d", out->hop);
	if (!rc)
		rc = get_string(j, what, "kind", kind, sizeof(kind), e);
	if (!rc)
		rc = get_string(j, what, "role", role, sizeof(role), e);
	if (!rc)
		rc = get_int(j, what, "bytes", WORKER_MESSAGE_MIN, WORKER_MESSAGE_MAX, &v, e);
	if (rc)
		return rc;
	out->bytes = (uint64_t)v;
	if (read_role(role, &out->role))
		return bace_fail(e, EINVAL, "hop %d: `role' = %s: must be listen, connect or internal",
				 out->hop, role);
	if (strcmp(kind, "tcp") && strcmp(kind, "local") && strcmp(kind, "nccl"))
		return bace_fail(e, EINVAL, "hop %d: `kind' = %s: must be tcp, local or nccl", out->hop, kind);
	out->kind = !strcmp(kind, "tcp") ? HOP_TCP : !strcmp(kind, "nccl") ? HOP_NCCL : HOP_LOCAL;
	if (out->role == HOP_INTERNAL && out->kind != HOP_LOCAL)
		return bace_fail(e, EINVAL, "hop %d: an internal hop must be local", out->hop);
	if (out->role == HOP_LISTEN && out->kind != HOP_NCCL)
		rc = get_string(j, what, "addr", out->addr, sizeof(out->addr), e);
	if (!rc && out->kind == HOP_LOCAL)
		rc = read_local(j, what, out, e);
	else if (!rc)
		rc = read_link(j, what, !s->overlap, out, e);
	return rc;
}

static int read_arrays(const json_t *j, struct worker_spec *s, struct bace_err *e)
{
	const json_t *stages = json_object_get(j, "stages"), *hops = json_object_get(j, "hops");
	size_t n = json_array_size(stages), k = json_array_size(hops);
	int rc = 0;

	if (!json_is_array(stages) || !json_is_array(hops))
		return bace_fail(e, EINVAL, "spec: `%s' must be an array", json_is_array(stages) ? "hops" :
				 "stages");
	if (!n || n > WORKER_STAGES_MAX || k > 4 * WORKER_STAGES_MAX)
		return bace_fail(e, EINVAL, "spec: %zu stages, %zu hops: must be 1 to %d and at most %d", n,
				 k, WORKER_STAGES_MAX, 4 * WORKER_STAGES_MAX);
	s->stages = calloc(n, sizeof(*s->stages));
	s->hops = calloc(k + 1, sizeof(*s->hops));
	if (!s->stages || !s->hops)
		return bace_fail(e, ENOMEM, "spec: out of memory");
	for (; !rc && s->n_stages < (int)n; s->n_stages++)
		rc = read_stage(json_array_get(stages, (size_t)s->n_stages), s,
				&s->stages[s->n_stages], e);
	for (; !rc && s->n_hops < (int)k; s->n_hops++)
		rc = read_hop(json_array_get(hops, (size_t)s->n_hops), s, &s->hops[s->n_hops], e);
	return rc;
}

static int read_schedule(const json_t *j, struct schedule_spec *s, struct bace_err *e)
{
	char name[32];
	json_int_t v;
	int rc = get_string(j, "spec", "schedule", name, sizeof(name), e);

	if (rc)
		return rc;
	if (schedule_from_name(name, &s->kind))
		return bace_fail(e, EINVAL, "spec: `schedule' = %s: unknown", name);
	rc = get_int(j, "spec", "n_stages", 1, 1 << 20, &v, e);
	s->stages = (int)v;
	if (!rc)
		rc = get_int(j, "spec", "micro_batches", 1, 1 << 24, &v, e);
	s->micro_batches = (int)v;
	if (!rc)
		rc = get_int(j, "spec", "chunks", 1, 255, &v, e);
	s->chunks = (int)v;
	return rc ? rc : schedule_check(s, e);
}

static int read_timeouts(const json_t *j, struct worker_spec *out, struct bace_err *e)
{
	json_int_t connect = 0, go = 0, step = 0, peer = 3000;
	int rc = get_int(j, "spec", "connect_timeout_ms", 1, TIMEOUT_MAX_MS, &connect, e);

	if (!rc)
		rc = opt_int(j, "spec", "go_timeout_ms", 0, TIMEOUT_MAX_MS, &go, e);
	if (!rc)
		rc = get_int(j, "spec", "step_timeout_ms", 1, TIMEOUT_MAX_MS, &step, e);
	if (!rc)
		rc = opt_int(j, "spec", "peer_timeout_ms", 1, TIMEOUT_MAX_MS, &peer, e);
	if (rc)
		return rc;
	out->connect_timeout_ns = connect * NS_PER_MS;
	out->go_timeout_ns = go * NS_PER_MS;
	out->step_timeout_ns = step * NS_PER_MS;
	out->peer_timeout_ns = (peer < step ? peer : step) * NS_PER_MS;
	return 0;
}

static int read_options(const json_t *j, struct worker_spec *out, struct bace_err *e)
{
	static const char *const timelines[] = { "none", "ops", "full" };
	static const char *const computes[] = { "timed", "cuda", "cpu" };	/* enum compute_kind */
	int timeline = TIMELINE_OPS, compute = COMPUTE_TIMED, rc;
	json_int_t sockets = 1, hidden = 0;

	out->shared_clock = out->overlap = true;
	rc = opt_bool(j, "overlap", &out->overlap, e);
	if (!rc)
		rc = opt_int(j, "spec", "sockets", 1, WORKER_SOCKETS_MAX, &sockets, e);
	if (!rc)
		rc = opt_int(j, "spec", "hidden", 0, 1 << 24, &hidden, e);
	out->sockets_per_hop = (int)sockets;
	out->hidden = (int)hidden;
	if (!rc)
		rc = opt_bool(j, "shared_clock", &out->shared_clock, e);
	if (!rc)
		rc = opt_word(j, "timeline", timelines, ARRAY_LEN(timelines), &timeline, e);
	if (!rc)
		rc = opt_word(j, "compute", computes, ARRAY_LEN(computes), &compute, e);
	if (!rc && json_object_get(j, "host"))
		rc = get_string(j, "spec", "host", out->host, sizeof(out->host), e);
	out->timeline = (enum timeline_kind)timeline;
	out->compute = (enum compute_kind)compute;
	return rc;
}

static int read_replicas(const json_t *j, struct worker_spec *out, struct bace_err *e)
{
	json_int_t n = 1, k = 0;
	int rc = opt_int(j, "spec", "replicas", 1, WORKER_REPLICAS_MAX, &n, e);

	if (!rc)
		rc = opt_int(j, "spec", "replica", 0, n - 1, &k, e);
	out->replicas = (int)n;
	out->replica = (int)k;
	return rc;
}

static int read_steady(const json_t *j, struct worker_spec *out, struct bace_err *e)
{
	static const char *const known[] = { "ppm", "steps" };
	json_int_t ppm = 0, steps = 0;
	int rc = check_keys(j, "steady", known, ARRAY_LEN(known), e);

	if (!rc)
		rc = get_int(j, "steady", "ppm", 1, 1000000, &ppm, e);
	if (!rc)
		rc = get_int(j, "steady", "steps", 2, STEADY_STEPS_MAX, &steps, e);
	if (!rc && out->replicas > 1)
		rc = bace_fail(e, ENOTSUP, "spec: `steady' with %d replicas: all must leave out the same steps", out->replicas);
	out->steady_ppm = (int)ppm;
	out->steady_steps = (int)steps;
	return rc;
}

static int read_steps(const json_t *j, struct worker_spec *out, struct bace_err *e)
{
	json_int_t warmup = 0, steps = 0;
	int rc = get_int(j, "spec", "warmup_steps", 0, STEPS_MAX, &warmup, e);

	if (!rc)
		rc = get_int(j, "spec", "steps", 1, STEPS_MAX, &steps, e);
	out->warmup_steps = (int)warmup;
	out->steps = (int)steps;
	return rc || !json_object_get(j, "steady") ? rc : read_steady(json_object_get(j, "steady"), out, e);
}

int worker_spec_read(const json_t *j, struct worker_spec *out, struct bace_err *e)
{
	static const char *const known[] = { "mode", "job", "name", "schedule", "chunks", "micro_batches",
		"n_stages", "overlap", "stages", "hops", "warmup_steps", "steps", "congestion_control",
		"connect_timeout_ms", "step_timeout_ms", "go_timeout_ms", "host", "rank", "shared_clock",
		"timeline", "compute", "nccl", "sockets", "peer_timeout_ms", "replicas", "replica", "steady", "token", "hidden" };
	json_int_t v = 0, rank = -1, token = 0;
	int rc = check_keys(j, "spec", known, ARRAY_LEN(known), e);

	if (!rc)
		rc = read_schedule(j, &out->schedule, e);
	if (!rc)
		rc = get_int(j, "spec", "job", 0, 1 << 20, &v, e);
	out->job = (int)v;
	if (!rc)
		rc = get_string(j, "spec", "name", out->name, sizeof(out->name), e);
	if (!rc)
		rc = opt_int(j, "spec", "rank", 0, INT32_MAX, &rank, e);
	if (!rc)
		rc = opt_int(j, "spec", "token", 0, INT64_MAX, &token, e);
	out->token = (uint64_t)token;
	if (!rc)
		rc = get_string(j, "spec", "congestion_control", out->congestion_control,
				sizeof(out->congestion_control), e);
	if (!rc)
		rc = read_replicas(j, out, e);
	if (!rc)
		rc = read_options(j, out, e);
	if (!rc)
		rc = read_steps(j, out, e);
	if (!rc)
		rc = read_timeouts(j, out, e);
	if (!rc)
		rc = read_arrays(j, out, e);
	if (!rc)
		rc = worker_spec_read_nccl(j, out, e);
	if (!rc)
		rc = worker_spec_check(out, e);
	if (!rc)
		out->rank = rank >= 0 ? (int)rank : out->stages[0].stage;
	return rc;
}

void worker_spec_free(struct worker_spec *s)
{
	free(s->stages);
	free(s->hops);
	*s = (struct worker_spec){ 0 };
}
