#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/worker/worker.h"

#define NS_PER_MS 1000000
#define DURATION_MAX_NS ((json_int_t)3600 * 1000000000)
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

static int read_stage(const json_t *j, const struct worker_spec *s, struct worker_stage_spec *out,
		      struct bace_err *e)
{
	static const char *const keys[] = { "fwd_ns", "bwd_ns", "w_ns" };
	json_int_t v;
	int rc = get_int(j, "stage", "stage", 0, s->schedule.stages - 1, &v, e);

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

static int read_local(const json_t *j, struct worker_hop_spec *out, struct bace_err *e)
{
	json_int_t v;
	int rc = get_int(j, "local hop", "rate_bps", 0, INT64_MAX, &v, e);

	if (rc)
		return rc;
	out->rate_bps = (uint64_t)v;
	rc = get_int(j, "local hop", "latency_ns", 0, DURATION_MAX_NS, &v, e);
	out->latency_ns = v;
	return rc;
}

static int read_hop(const json_t *j, const struct worker_spec *s, struct worker_hop_spec *out,
		    struct bace_err *e)
{
	char kind[16], role[16];
	json_int_t v;
	int rc = get_int(j, "hop", "hop", 0, s->schedule.stages - 1, &v, e);

	out->hop = (int)v;
	if (!rc)
		rc = get_string(j, "hop", "kind", kind, sizeof(kind), e);
	if (!rc)
		rc = get_string(j, "hop", "role", role, sizeof(role), e);
	if (!rc)
		rc = get_int(j, "hop", "bytes", WORKER_MESSAGE_MIN, WORKER_MESSAGE_MAX, &v, e);
	if (rc)
		return rc;
	out->bytes = (uint64_t)v;
	if (read_role(role, &out->role))
		return bace_fail(e, EINVAL, "hop %d: `role' = %s: must be listen, connect or internal",
				 out->hop, role);
	if (strcmp(kind, "tcp") && strcmp(kind, "local"))
		return bace_fail(e, EINVAL, "hop %d: `kind' = %s: must be tcp or local", out->hop, kind);
	out->kind = strcmp(kind, "tcp") ? HOP_LOCAL : HOP_TCP;
	if (out->role == HOP_INTERNAL && out->kind != HOP_LOCAL)
		return bace_fail(e, EINVAL, "hop %d: an internal hop must be local", out->hop);
	if (out->role == HOP_LISTEN)
		rc = get_string(j, "hop", "addr", out->addr, sizeof(out->addr), e);
	if (!rc && out->kind == HOP_LOCAL)
		rc = read_local(j, out, e);
	return rc;
}

static int read_arrays(const json_t *j, struct worker_spec *s, struct bace_err *e)
{
	const json_t *stages = json_object_get(j, "stages"), *hops = json_object_get(j, "hops");
	size_t n = json_array_size(stages), k = json_array_size(hops);
	int rc = 0;

	if (!n || n > WORKER_STAGES_MAX || k > 2 * WORKER_STAGES_MAX)
		return bace_fail(e, EINVAL, "spec: %zu stages, %zu hops: must be 1 to %d and at most %d", n,
				 k, WORKER_STAGES_MAX, 2 * WORKER_STAGES_MAX);
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

int worker_spec_read(const json_t *j, struct worker_spec *out, struct bace_err *e)
{
	json_int_t v;
	int rc = read_schedule(j, &out->schedule, e);

	if (!rc)
		rc = get_int(j, "spec", "job", 0, 1 << 20, &v, e);
	if (rc)
		return rc;
	out->job = (int)v;
	rc = get_string(j, "spec", "name", out->name, sizeof(out->name), e);
	if (!rc)
		rc = get_string(j, "spec", "congestion_control", out->congestion_control,
				sizeof(out->congestion_control), e);
	if (!rc)
		rc = get_int(j, "spec", "warmup_steps", 0, STEPS_MAX, &v, e);
	out->warmup_steps = (int)v;
	if (!rc)
		rc = get_int(j, "spec", "steps", 1, STEPS_MAX, &v, e);
	out->steps = (int)v;
	if (!rc)
		rc = get_int(j, "spec", "connect_timeout_ms", 1, 3600000, &v, e);
	out->connect_timeout_ns = v * NS_PER_MS;
	if (!rc)
		rc = get_int(j, "spec", "step_timeout_ms", 1, 36000000, &v, e);
	out->step_timeout_ns = v * NS_PER_MS;
	if (!rc && json_is_false(json_object_get(j, "overlap")))
		rc = bace_fail(e, ENOTSUP, "spec: overlap = false cannot be executed over TCP: the host does "
			       "not see when a message has left the link; simulate it instead");
	return rc ? rc : read_arrays(j, out, e);
}

void worker_spec_free(struct worker_spec *s)
{
	free(s->stages);
	free(s->hops);
	*s = (struct worker_spec){ 0 };
}
