/* External programs as policies: good ones, and every way to go wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"
#include "tests/unit/policy/fixture.h"

#define EXAMPLE BACE_SOURCE_ROOT "/profiles/policies/largest_region.py"

static struct fixture f;
static struct policy *p;
static char command[4096];

static int setup(void **state)
{
	fix_init(&f, 2);
	fix_region(&f, 0, "a", 6, 0.1, 1e12);
	fix_region(&f, 1, "b", 4, 0.2, 1e12);
	fix_link(&f, 0, 1, 10e9, 0.01);
	fix_model(&f, "net", 4, 4, 8, 1e6, 1e9);
	fix_job(&f, "j1", 0, 4, 10, 0);
	fix_job(&f, "j2", 0, 4, 10, 0);
	fix_job(&f, "j3", 0, 4, 10, 0);
	fix_ready(&f);
	bace_log_setup(&(struct bace_log_config){ .level = BACE_ERROR, .program = "test", .fd = 2 });
	return 0;
}

static int teardown(void **state)
{
	policy_destroy(p);
	p = NULL;
	fix_free(&f);
	/* nothing of ours is left running or unreaped */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	return 0;
}

static void use(const char *cmd, double timeout_s)
{
	struct policy_spec s = fix_spec("external");
	struct bace_err err;

	s.command = (char *)cmd;
	s.timeout_s = timeout_s;
	if (policy_create(&s, 1, &p, &err))
		fail_msg("%s", err.msg);
}

/* A program that gives the same answer whatever it is asked. */
static void answer(const char *json)
{
	snprintf(command, sizeof(command), "while read -r line; do echo '%s'; done", json);
	use(command, 20);
}

static const char *why(void)
{
	const char *last = NULL;

	policy_failures(p, &last);
	return last ? last : "";
}

/* Applies what was decided, as the event loop would. */
static void place(int region, int gpus, int queue_at)
{
	f.free_gpus[region] -= gpus;
	memmove(&f.queued[queue_at], &f.queued[queue_at + 1],
		sizeof(f.queued[0]) * (size_t)(f.q.n - queue_at - 1));
	f.q.n--;
}

static void test_example(void **state)
{
	snprintf(command, sizeof(command), "python3 %s", EXAMPLE);
	use(command, 60);
	assert_string_equal(fix_decide_with(&f, p), "j1: a:4");
	place(0, 4, 0);
	assert_string_equal(fix_decide_with(&f, p), "j2: b:4");
	place(1, 4, 0);
	assert_string_equal(fix_decide_with(&f, p), "j3: a:2");
	place(0, 2, 0);
	assert_string_equal(fix_decide_with(&f, p), "-");
	/* time passes, GPUs come back, the same program is asked again */
	f.q.n = 1;
	f.queued[0].job = 1;
	f.free_gpus[1] = 3;
	f.v.now_s = 10;
	assert_string_equal(fix_decide_with(&f, p), "j2: b:3");
	assert_int_equal(policy_failures(p, NULL), 0);
}

static void test_paths_and_lists(void **state)
{
	answer("{\"placements\": [{\"job\": \"j2\", \"path\": [[\"b\", 1], [\"a\", 3]]}, "
	       "{\"job\": \"j1\", \"path\": [[\"a\", 2]]}]}");
	assert_string_equal(fix_decide_with(&f, p), "j2: b:1 > a:3");
	place(1, 1, 1);
	place(0, 3, 1);
	f.q.n = 1;
	assert_string_equal(fix_decide_with(&f, p), "j1: a:2");
}

/* What was answered at another time is not used: the program is asked again. */
static void test_stale_answers(void **state)
{
	use("n=0; while read -r line; do n=$((n+1)); "
	    "echo \"{\\\"placements\\\": [{\\\"job\\\": \\\"j1\\\", \\\"path\\\": [[\\\"a\\\", $n]]}, "
	    "{\\\"job\\\": \\\"j2\\\", \\\"path\\\": [[\\\"a\\\", 1]]}]}\"; done", 20);
	assert_string_equal(fix_decide_with(&f, p), "j1: a:1");
	f.v.now_s = 1;
	assert_string_equal(fix_decide_with(&f, p), "j1: a:2");
	assert_string_equal(fix_decide_with(&f, p), "j2: a:1");
}

static void test_constraints(void **state)
{
	static const char *const bad[][2] = {
		{ "{\"job\": \"j1\", \"path\": [[\"a\", 7]]}", "7 GPUs in a: only 6 are free" },
		{ "{\"job\": \"j1\", \"path\": [[\"a\", 0]]}", "0 GPUs in a: at least 1" },
		{ "{\"job\": \"j1\", \"path\": [[\"c\", 1]]}", "no region `c'" },
		{ "{\"job\": \"j9\", \"path\": [[\"a\", 1]]}", "no such job in the queue" },
		{ "{\"job\": \"j1\", \"path\": [[\"a\", 1], [\"a\", 1]]}", "region a appears twice" },
		{ "{\"job\": \"j1\", \"path\": [[\"a\", 5]]}", "5 stages: 1 to 4 are allowed" },
		{ "{\"job\": \"j1\", \"path\": []}", "no region" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char json[512];

		snprintf(json, sizeof(json), "{\"placements\": [%s]}", bad[i][0]);
		answer(json);
		const char *got = fix_decide_with(&f, p);
		if (strncmp(got, "error: policy external: placement of ", 37) || !strstr(got, bad[i][1]))
			fail_msg("%s: %s", bad[i][0], got);
		policy_destroy(p);
		p = NULL;
	}
}

static void test_garbage(void **state)
{
	static const char *const bad[][2] = {
		{ "hello", "not JSON" },
		{ "", "not JSON" },
		{ "[1, 2]", "no list `placements'" },
		{ "{\"placements\": 3}", "no list `placements'" },
		{ "{\"placements\": [{\"job\": 3, \"path\": []}]}", "placement 1 of its answer" },
		{ "{\"placements\": [{\"job\": \"j1\", \"path\": [[\"a\"]]}]}", "placement 1 of its answer" },
		{ "{\"placements\": [{\"job\": \"j1\", \"path\": [[\"a\", 1.5]]}]}", "placement 1 of its answer" },
		{ "{\"placements\": [{\"job\": \"j1\"}]}", "placement 1 of its answer" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		answer(bad[i][0]);
		assert_string_equal(fix_decide_with(&f, p), "-");
		assert_int_equal(policy_failures(p, NULL), 1);
		if (!strstr(why(), bad[i][1]))
			fail_msg("`%s': %s", bad[i][0], why());
		policy_destroy(p);
		p = NULL;
	}
}

static void test_exit(void **state)
{
	use("exit 3", 20);
	assert_string_equal(fix_decide_with(&f, p), "-");
	assert_non_null(strstr(why(), "exited with status 3"));
	policy_destroy(p);
	use("read -r line; kill -9 $$", 20);
	assert_string_equal(fix_decide_with(&f, p), "-");
	assert_non_null(strstr(why(), "signal 9"));
	policy_destroy(p);
	use("/no/such/program", 20);
	assert_string_equal(fix_decide_with(&f, p), "-");
	assert_non_null(strstr(why(), "exited with status 127"));
}

/* Started afresh after a failure; given up after three in a row. */
static void test_restart_and_give_up(void **state)
{
	char path[] = "/tmp/bace-test-external-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	/* fails the first time, answers the second */
	snprintf(command, sizeof(command),
		 "read -r line; if [ -s %s ]; then echo '{\"placements\": [{\"job\": \"j1\", "
		 "\"path\": [[\"a\", 1]]}]}'; else echo x > %s; fi", path, path);
	use(command, 20);
	assert_string_equal(fix_decide_with(&f, p), "-");
	assert_string_equal(fix_decide_with(&f, p), "j1: a:1");
	assert_int_equal(policy_failures(p, NULL), 1);
	policy_destroy(p);
	use("exit 1", 20);
	for (int i = 0; i < 5; i++)
		assert_string_equal(fix_decide_with(&f, p), "-");
	assert_int_equal(policy_failures(p, NULL), 3);
	remove(path);
	close(fd);
}

static void test_timeout(void **state)
{
	use("sleep 1000", 0.05);
	assert_string_equal(fix_decide_with(&f, p), "-");
	assert_non_null(strstr(why(), "no answer within 0.05 s"));
	policy_destroy(p);
	/* half a line is no answer */
	use("printf '{\"placements\": '; sleep 1000", 0.2);
	assert_string_equal(fix_decide_with(&f, p), "-");
	assert_non_null(strstr(why(), "no answer within"));
}

/* The child in a child goes with it. */
static void test_leaves_no_orphan(void **state)
{
	char path[] = "/tmp/bace-test-external-XXXXXX";
	int fd = mkstemp(path);
	char pid[32] = "";

	assert_true(fd >= 0);
	snprintf(command, sizeof(command), "sleep 1000 & echo $! > %s; wait", path);
	use(command, 3);
	assert_string_equal(fix_decide_with(&f, p), "-");
	assert_true(read(fd, pid, sizeof(pid) - 1) > 0);
	/* reparented, killed: gone, or a zombie of init's for a moment */
	for (int i = 0; i < 100 && !kill((pid_t)atol(pid), 0); i++) {
		char stat[64], state_of = '?';
		FILE *s;

		snprintf(stat, sizeof(stat), "/proc/%ld/stat", atol(pid));
		s = fopen(stat, "r");
		if (!s)
			break;
		if (fscanf(s, "%*d %*s %c", &state_of) != 1)
			state_of = '?';
		fclose(s);
		if (state_of == 'Z')
			break;
		assert_true(i < 99);
		usleep(10000);
	}
	remove(path);
	close(fd);
}

#define NOTHING "{\"placements\": []}"
#define PLACE_J1 "{\"placements\": [{\"job\": \"j1\", \"path\": [[\"a\", 1]]}]}"

/* A second line, however good and however late, answers no question. */
static void test_chatter(void **state)
{
	char path[] = "/tmp/bace-test-external-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0 && !close(fd));
	use("while read -r line; do printf '" NOTHING "\\n" PLACE_J1 "\\n'; done", 20);
	assert_string_equal(fix_decide_with(&f, p), "-");
	f.v.now_s = 1;
	assert_string_equal(fix_decide_with(&f, p), "-");
	assert_int_equal(policy_failures(p, NULL), 1);
	assert_non_null(strstr(why(), "answers no question"));
	policy_destroy(p);
	/* it removes the file when the second line is written */
	snprintf(command, sizeof(command), "read -r line; echo '%s'; sleep 0.05; echo '%s'; rm %s; sleep 1000",
		 NOTHING, PLACE_J1, path);
	use(command, 20);
	assert_string_equal(fix_decide_with(&f, p), "-");
	while (!access(path, F_OK))
		usleep(1000);
	f.v.now_s = 2;
	assert_string_equal(fix_decide_with(&f, p), "-");
	assert_int_equal(policy_failures(p, NULL), 1);
	assert_non_null(strstr(why(), "answers no question"));
	policy_destroy(p);
	/* 17 MB without a newline */
	use("read -r line; head -c 17000000 /dev/zero | tr '\\0' x; sleep 1000", 20);
	assert_string_equal(fix_decide_with(&f, p), "-");
	assert_non_null(strstr(why(), "longer than 16 MiB"));
}

/* A question larger than any socket buffer, to a program that reads slowly. */
static void test_long_question(void **state)
{
	fix_free(&f);
	fix_init(&f, 1);
	fix_region(&f, 0, "a", 6, 0.1, 1e12);
	f.e.k_limit = K_LIMIT_N;
	f.e.k_limit_n = 20000;
	fix_model(&f, "net", 4, 4, 8, 1, 1e9);
	f.e.models[0].state_bytes_per_param = 1;
	for (int i = 0; i < 4; i++) {
		char name[NAME_LEN];

		snprintf(name, sizeof(name), "j%d", i);
		fix_job(&f, name, 0, 4, 10, 0);
	}
	fix_ready(&f);
	use("sleep 0.2; while read -r line; do echo '{\"placements\": [{\"job\": \"j3\", \"path\": [[\"a\", 6]]}]}'; "
	    "done", 60);
	assert_string_equal(fix_decide_with(&f, p), "j3: a:6");
	policy_destroy(p);
	/* A few bytes of it are read, the rest would be taken for the next one. */
	use("head -c 1 > /dev/null; echo '{\"placements\": [{\"job\": \"j3\", \"path\": [[\"a\", 6]]}]}'; "
	    "sleep 1000", 60);
	assert_string_equal(fix_decide_with(&f, p), "-");
	assert_non_null(strstr(why(), "before it had read the question"));
}

/* Where types of GPU differ a program is told what fits which. */
static void test_fits_by_gpu(void **state)
{
	/* The model's 1 GB in 4 layers: no layer more than 2 a stage into 0.6 GB. */
	f.e.cluster.regions[1].gpu = fix_gpu(&f, "small", 1e12, 0.6e9);
	fix_ready(&f);
	use("read -r line; case \"$line\" in *'\"fits\":[1,2,3,4],\"fits_by_gpu\":{\"g\":[1,2,3,4],\"small\":[2,3,4]}'*) "
	    "echo '{\"placements\": [{\"job\": \"j2\", \"path\": [[\"b\", 2]]}]}';; *) echo \"$line\" >&2;; esac", 20);
	assert_string_equal(fix_decide_with(&f, p), "j2: b:2");
}

/* When no waiting job could run on what is left, what is left of the list is dropped; at
 * another time it is asked anew. */
static void test_rest_of_list(void **state)
{
	use("while read -r line; do echo '{\"placements\": [{\"job\": \"j1\", \"path\": [[\"a\", 2]]}, {\"job\": "
	    "\"j2\", \"path\": [[\"nowhere\", 2]]}]}'; done", 20);
	assert_string_equal(fix_decide_with(&f, p), "j1: a:2");
	f.v.now_s = 5;
	assert_string_equal(fix_decide_with(&f, p), "j1: a:2");
	assert_non_null(strstr(fix_decide_with(&f, p), "no region `nowhere'"));
	assert_int_equal(policy_failures(p, NULL), 0);
}

static void test_needs_command(void **state)
{
	struct policy_spec s = fix_spec("external");
	struct bace_err err;

	assert_int_equal(policy_create(&s, 1, &p, &err), -22);
	assert_non_null(strstr(err.msg, "needs `command'"));
	s.command = (char *)"true";
	s.timeout_s = 0;
	assert_int_equal(policy_create(&s, 1, &p, &err), -22);
	assert_non_null(strstr(err.msg, "must be above 0"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest example[] = {
		cmocka_unit_test_setup_teardown(test_example, setup, teardown),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_paths_and_lists, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stale_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_constraints, setup, teardown),
		cmocka_unit_test_setup_teardown(test_garbage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restart_and_give_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_timeout, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leaves_no_orphan, setup, teardown),
		cmocka_unit_test_setup_teardown(test_chatter, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_question, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fits_by_gpu, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rest_of_list, setup, teardown),
		cmocka_unit_test_setup_teardown(test_needs_command, setup, teardown),
	};

	if (argc > 1 && !strcmp(argv[1], "python")) {
		if (system("python3 -c '' 2>/dev/null")) {
			puts("skipped: no python3 on the PATH");
			return 77;
		}
		return cmocka_run_group_tests(example, NULL, NULL);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
