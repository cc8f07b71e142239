/* What a worker is told: every bad field is refused with its name. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "workloads/worker/worker.h"

/* Stages 1 and 2 of 4: a network hop on each side and one inside. */
static const char good[] =
	"{\"mode\": \"pipeline\", \"job\": 3, \"name\": \"qwen\", \"schedule\": \"1f1b\", \"chunks\": 1,"
	" \"micro_batches\": 8, \"n_stages\": 4, \"overlap\": true,"
	" \"stages\": [{\"stage\": 1, \"fwd_ns\": 10, \"bwd_ns\": 20, \"w_ns\": 0},"
	"              {\"stage\": 2, \"fwd_ns\": 11, \"bwd_ns\": 21, \"w_ns\": 5}],"
	" \"hops\": [{\"hop\": 0, \"kind\": \"tcp\", \"role\": \"listen\", \"bytes\": 1000, \"addr\": \"10.0.0.1\"},"
	"            {\"hop\": 1, \"kind\": \"local\", \"role\": \"internal\", \"bytes\": 1000,"
	"             \"rate_bps\": 1000000, \"latency_ns\": 7},"
	"            {\"hop\": 2, \"kind\": \"tcp\", \"role\": \"connect\", \"bytes\": 4294967296}],"
	" \"warmup_steps\": 1, \"steps\": 3, \"congestion_control\": \"cubic\","
	" \"connect_timeout_ms\": 1000, \"step_timeout_ms\": 2000}";

/* One stage, no hops. */
static const char lone[] =
	"{\"job\": 0, \"name\": \"x\", \"schedule\": \"gpipe\", \"chunks\": 1, \"micro_batches\": 1,"
	" \"n_stages\": 1, \"overlap\": true,"
	" \"stages\": [{\"stage\": 0, \"fwd_ns\": 0, \"bwd_ns\": 0, \"w_ns\": 0}], \"hops\": [],"
	" \"warmup_steps\": 0, \"steps\": 1, \"congestion_control\": \"\","
	" \"connect_timeout_ms\": 1, \"step_timeout_ms\": 1}";

static json_t *parse(const char *text)
{
	json_error_t e;
	json_t *j = json_loads(text, 0, &e);

	if (!j)
		fail_msg("line %d column %d: %s", e.line, e.column, e.text);
	return j;
}

static int read_spec(const json_t *j, struct worker_spec *s, struct bace_err *e)
{
	*s = (struct worker_spec){ 0 };
	*e = (struct bace_err){ 0 };
	return worker_spec_read(j, s, e);
}

static void reads_all(void **state)
{
	json_t *j = parse(good);
	struct worker_spec s;
	struct bace_err e;

	if (read_spec(j, &s, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(s.job, 3);
	assert_string_equal(s.name, "qwen");
	assert_int_equal(s.schedule.kind, SCHED_1F1B);
	assert_int_equal(s.schedule.stages, 4);
	assert_int_equal(s.schedule.micro_batches, 8);
	assert_int_equal(s.n_stages, 2);
	assert_int_equal(s.stages[1].stage, 2);
	assert_int_equal(s.stages[1].duration_ns[OP_FORWARD], 11);
	assert_int_equal(s.stages[1].duration_ns[OP_BACKWARD], 21);
	assert_int_equal(s.stages[1].duration_ns[OP_WEIGHT], 5);
	assert_int_equal(s.n_hops, 3);
	assert_int_equal(s.hops[0].role, HOP_LISTEN);
	assert_string_equal(s.hops[0].addr, "10.0.0.1");
	assert_int_equal(s.hops[1].kind, HOP_LOCAL);
	assert_int_equal(s.hops[1].role, HOP_INTERNAL);
	assert_int_equal(s.hops[1].rate_bps, 1000000);
	assert_int_equal(s.hops[1].latency_ns, 7);
	assert_int_equal(s.hops[2].role, HOP_CONNECT);
	assert_int_equal(s.hops[2].bytes, 4294967296);
	assert_int_equal(s.warmup_steps, 1);
	assert_int_equal(s.steps, 3);
	assert_string_equal(s.congestion_control, "cubic");
	assert_int_equal(s.connect_timeout_ns, 1000000000);
	assert_int_equal(s.step_timeout_ns, 2000000000);
	/* what was not given */
	assert_int_equal(s.rank, 1);
	assert_int_equal(s.go_timeout_ns, 0);
	assert_int_equal(s.timeline, TIMELINE_OPS);
	assert_true(s.shared_clock);
	worker_spec_free(&s);
	json_decref(j);
}

static void one_stage(void **state)
{
	json_t *j = parse(lone);
	struct worker_spec s;
	struct bace_err e;

	if (read_spec(j, &s, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(s.n_hops, 0);
	worker_spec_free(&s);
	/* Interleaved, it has a hop to itself. */
	json_object_set_new(j, "schedule", json_string("interleaved-1f1b"));
	json_object_set_new(j, "chunks", json_integer(2));
	assert_int_equal(read_spec(j, &s, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "hop 0"));
	worker_spec_free(&s);
	json_array_append_new(json_object_get(j, "hops"), parse("{\"hop\": 0, \"kind\": \"local\", \"role\": "
		"\"internal\", \"bytes\": 64, \"rate_bps\": 0, \"latency_ns\": 0}"));
	if (read_spec(j, &s, &e))
		fail_msg("%s", e.msg);
	worker_spec_free(&s);
	json_decref(j);
}

/* array: "stages" or "hops" and which of it, or NULL: the spec itself. */
struct bad {
	const char *array;
	int index;
	const char *key, *value;	/* JSON; NULL: the key is not there */
	const char *says;
};

static const struct bad bads[] = {
	{ NULL, 0, "schedule", "\"2f2b\"", "`schedule' = 2f2b: unknown" },
	{ NULL, 0, "schedule", NULL, "`schedule' must be a string" },
	{ NULL, 0, "schedule", "7", "`schedule' must be a string" },
	{ NULL, 0, "schedule", "\"0123456789012345678901234567890123456789\"", "`schedule' is longer" },
	{ NULL, 0, "n_stages", "0", "`n_stages' = 0: must be 1 to" },
	{ NULL, 0, "n_stages", "2000000", "`n_stages' = 2000000: must be 1 to" },
	{ NULL, 0, "n_stages", "4.5", "`n_stages' must be an integer" },
	{ NULL, 0, "micro_batches", "0", "`micro_batches' = 0: must be 1 to" },
	{ NULL, 0, "micro_batches", "-1", "`micro_batches' = -1: must be" },
	{ NULL, 0, "micro_batches", NULL, "`micro_batches' must be an integer" },
	{ NULL, 0, "chunks", "0", "`chunks' = 0: must be" },
	{ NULL, 0, "chunks", "2", "chunks = 2: only interleaved-1f1b" },
	{ NULL, 0, "chunks", "256", "`chunks' = 256: must be" },
	{ NULL, 0, "job", "-1", "`job' = -1: must be" },
	{ NULL, 0, "job", NULL, "`job' must be an integer" },
	{ NULL, 0, "name", "5", "`name' must be a string" },
	{ NULL, 0, "name", "\"a-name-that-is-much-too-long-to-be-one-of-a-job-of-ours\"", "`name' is longer" },
	{ NULL, 0, "overlap", "false", "hop 0: `overlap' = false needs its `rate_bps' and `reverse_rate_bps'" },
	{ NULL, 0, "sockets", "0", "`sockets' = 0: must be 1 to 16" },
	{ NULL, 0, "peer_timeout_ms", "0", "`peer_timeout_ms' = 0: must be 1 to" },
	{ NULL, 0, "overlap", "1", "`overlap' must be true or false" },
	{ NULL, 0, "token", "-1", "`token' = -1: must be 0 to" },
	{ NULL, 0, "shared_clock", "\"yes\"", "`shared_clock' must be true or false" },
	{ NULL, 0, "timeline", "\"all\"", "`timeline' = all: must be one of none, ops, full" },
	{ NULL, 0, "host", "3", "`host' must be a string" },
	{ NULL, 0, "rank", "-1", "`rank' = -1: must be" },
	{ NULL, 0, "go_timeout_ms", "-1", "`go_timeout_ms' = -1: must be" },
	{ NULL, 0, "step_timeout", "1", "unknown key `step_timeout'; did you mean `step_timeout_ms'?" },
	{ "stages", 0, "forward_ns", "1", "stage: unknown key `forward_ns'" },
	{ "hops", 0, "sockets", "2", "hop: unknown key `sockets'" },
	{ NULL, 0, "warmup_steps", "-1", "`warmup_steps' = -1: must be" },
	{ NULL, 0, "steps", "0", "`steps' = 0: must be" },
	{ NULL, 0, "steps", "1000001", "`steps' = 1000001: must be" },
	{ NULL, 0, "congestion_control", "\"a-congestion-control\"", "`congestion_control' is longer" },
	{ NULL, 0, "congestion_control", NULL, "`congestion_control' must be a string" },
	{ NULL, 0, "connect_timeout_ms", "0", "`connect_timeout_ms' = 0: must be" },
	{ NULL, 0, "connect_timeout_ms", "9223372036854775807", "`connect_timeout_ms'" },
	{ NULL, 0, "step_timeout_ms", "0", "`step_timeout_ms' = 0: must be" },
	{ NULL, 0, "step_timeout_ms", "9223372036854775807", "`step_timeout_ms'" },
	{ NULL, 0, "stages", "[]", "0 stages" },
	{ NULL, 0, "stages", "7", "`stages' must be an array" },
	{ NULL, 0, "hops", "{}", "`hops' must be an array" },
	{ NULL, 0, "hops", "[]", "stage 1: its hop 0 is not in the spec" },
	{ "stages", 0, "stage", "4", "`stage' = 4: must be 0 to 3" },
	{ "stages", 0, "stage", "2", "stage 2 is given twice" },
	{ "stages", 0, "stage", NULL, "`stage' must be an integer" },
	{ "stages", 0, "fwd_ns", "-1", "`fwd_ns' = -1: must be" },
	{ "stages", 0, "bwd_ns", "4000000000000", "`bwd_ns' = 4000000000000: must be" },
	{ "stages", 0, "w_ns", NULL, "`w_ns' must be an integer" },
	{ "hops", 0, "hop", "-1", "`hop' = -1: must be" },
	{ "hops", 0, "hop", "3", "hop 3: only interleaved-1f1b goes" },
	{ "hops", 0, "hop", "2", "hop 2: given twice" },
	{ "hops", 0, "bytes", "0", "`bytes' = 0: must be 64 to 4294967296" },
	{ "hops", 0, "bytes", "63", "`bytes' = 63: must be 64" },
	{ "hops", 0, "bytes", "8589934592", "`bytes' = 8589934592: must be 64" },
	{ "hops", 0, "kind", "\"udp\"", "hop 0: `kind' = udp: must be tcp, local or nccl" },
	{ "hops", 0, "kind", NULL, "`kind' must be a string" },
	{ "hops", 0, "role", "\"both\"", "hop 0: `role' = both: must be listen, connect or internal" },
	{ "hops", 0, "role", NULL, "`role' must be a string" },
	{ "hops", 0, "role", "\"connect\"", "hop 0: `role' = connect: must be listen" },
	{ "hops", 2, "role", "\"listen\"", "`addr' must be a string" },
	{ "hops", 0, "addr", NULL, "`addr' must be a string" },
	{ "hops", 0, "addr", "\"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000\"",
	  "`addr' is longer" },
	{ "hops", 1, "kind", "\"tcp\"", "hop 1: an internal hop must be local" },
	{ "hops", 1, "role", "\"connect\"", "hop 1: `role' = connect: must be internal" },
	{ "hops", 1, "rate_bps", "-1", "`rate_bps' = -1: must be" },
	{ "hops", 1, "rate_bps", NULL, "`rate_bps' must be an integer" },
	{ "hops", 1, "rate_bps", "1", "hop 1: 1000 bytes at `rate_bps' = 1 take more than an hour" },
	{ "hops", 1, "latency_ns", "-1", "`latency_ns' = -1: must be" },
	{ "hops", 1, "latency_ns", "4000000000000", "`latency_ns' = 4000000000000: must be" },
};

static void refuses_bad_fields(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bads); i++) {
		const struct bad *b = &bads[i];
		json_t *j = parse(good), *in = j;
		struct worker_spec s;
		struct bace_err e;
		int rc;

		if (b->array)
			in = json_array_get(json_object_get(j, b->array), (size_t)b->index);
		if (b->value)
			json_object_set_new(in, b->key, json_loads(b->value, JSON_DECODE_ANY, NULL));
		else
			assert_int_equal(json_object_del(in, b->key), 0);
		rc = read_spec(j, &s, &e);
		if (!rc || !strstr(e.msg, b->says) || (rc != -EINVAL && rc != -ENOTSUP))
			fail_msg("%s %s = %s: %d, `%s', not `%s'", b->array ? b->array : "spec", b->key,
				 b->value ? b->value : "(none)", rc, e.msg, b->says);
		worker_spec_free(&s);
		json_decref(j);
	}
}

static void refuses_what_is_not_a_spec(void **state)
{
	static const char *const texts[] = { "{}", "{\"stages\": 3}", "{\"schedule\": \"gpipe\"}" };
	struct worker_spec s;
	struct bace_err e;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		json_t *j = parse(texts[i]);

		assert_int_equal(read_spec(j, &s, &e), -EINVAL);
		assert_true(e.msg[0] != '\0');
		worker_spec_free(&s);
		json_decref(j);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_all), cmocka_unit_test(one_stage), cmocka_unit_test(refuses_bad_fields),
		cmocka_unit_test(refuses_what_is_not_a_spec),
	};

	return cmocka_run_group_tests_name("worker-spec", tests, NULL, NULL);
}
