/* bace check: exit status, where output goes, and what machines read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "config.h"
#include "harness/cmd/cmd.h"
#include "tests/unit/profiles/tree.h"

int cmd_error(const struct command *c, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	return code;
}

int cmd_misuse(const struct command *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	return BACE_EXIT_INPUT;
}

static char out[16384], err[16384];

static void read_back(FILE *f, char *buf, size_t cap)
{
	rewind(f);
	buf[fread(buf, 1, cap - 1, f)] = '\0';
	fclose(f);
}

static int run(bool json, int argc, ...)
{
	struct cmd_globals g = { .json = json };
	char *argv[8] = { (char *)"check" };
	FILE *to[] = { tmpfile(), tmpfile() };
	int saved[2], code;
	va_list ap;

	va_start(ap, argc);
	for (int i = 1; i < argc; i++)
		argv[i] = va_arg(ap, char *);
	va_end(ap);
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		saved[i] = dup(i + 1);
		assert_non_null(to[i]);
		assert_true(dup2(fileno(to[i]), i + 1) >= 0);
	}
	code = cmd_check.run(&g, argc, argv);
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		dup2(saved[i], i + 1);
		close(saved[i]);
	}
	read_back(to[0], out, sizeof(out));
	read_back(to[1], err, sizeof(err));
	return code;
}

static void test_good(void **state)
{
	tree_reset();
	assert_int_equal(run(false, 2, "e"), BACE_EXIT_OK);
	assert_string_equal(err, "");
	assert_non_null(strstr(out, "no errors in 8 files"));
	assert_non_null(strstr(out, "4 links of 1 Gbit/s to 3 Gbit/s (L2), one-way latency up to 20 ms"));
	assert_non_null(strstr(out, "policies: bace bace-0\n"));
}

static void test_json(void **state)
{
	json_t *root, *jobs;

	tree_reset();
	assert_int_equal(run(true, 2, "e"), BACE_EXIT_OK);
	root = json_loads(out, 0, NULL);
	assert_non_null(root);
	assert_true(json_is_true(json_object_get(root, "ok")));
	assert_int_equal(json_array_size(json_object_get(root, "errors")), 0);
	assert_int_equal(json_array_size(json_object_get(root, "regions")), 3);
	jobs = json_object_get(root, "jobs");
	assert_int_equal(json_array_size(jobs), 3);
	assert_string_equal(json_string_value(json_object_get(json_array_get(jobs, 2), "name")), "j3");
	assert_int_equal(json_integer_value(json_object_get(json_array_get(jobs, 2), "k_min")), 1);
	assert_int_equal(json_number_value(json_object_get(json_array_get(jobs, 2), "steps")), 313);
	json_decref(root);
}

static void test_bad(void **state)
{
	json_t *root, *one;

	tree_reset();
	tree_write("experiments/e.cfg", "cluster = \"c\";\njobs = \"j\";\npolicies = (\n"
		   "  { name = \"bcae\"; },\n  { name = \"lcf\"; }\n);\n");
	assert_int_equal(run(false, 2, "e"), BACE_EXIT_INPUT);
	assert_string_equal(out, "");
	assert_non_null(strstr(err, "experiments/e.cfg:4: key `name' = \"bcae\": no policy `bcae'; "
			       "did you mean `bace'?"));
	/* A value that is no UTF-8 must not cost the message. */
	tree_write("experiments/e.cfg", "cluster = \"c\";\njobs = \"j\";\npolicies = ( { name = \"\xff\"; } );\n");
	assert_int_equal(run(true, 2, "e"), BACE_EXIT_INPUT);
	assert_string_equal(err, "");
	root = json_loads(out, 0, NULL);
	assert_non_null(root);
	assert_true(json_is_false(json_object_get(root, "ok")));
	assert_int_equal(json_array_size(json_object_get(root, "errors")), 1);
	one = json_array_get(json_object_get(root, "errors"), 0);
	assert_int_equal(json_integer_value(json_object_get(one, "line")), 3);
	assert_non_null(strstr(json_string_value(json_object_get(one, "message")), "= \"?\": must be"));
	json_decref(root);
	tree_reset();
}

static void test_note(void **state)
{
	tree_reset();
	tree_write("experiments/e.cfg", "cluster = \"c\"; jobs = \"j\"; policies = ( { name = \"ldf\"; } );\n");
	assert_int_equal(run(false, 2, "e"), BACE_EXIT_OK);
	assert_null(strstr(out, "note:"));
	/* 1e10 parameters: 160 GB of state, in 53 GB thirds; no region has three GPUs. */
	tree_write("models/models.cfg", "models = (\n"
		   "{ name = \"m1\"; params = 1e10; layers = 10; hidden = 10; seq = 10; },\n"
		   "{ name = \"m2\"; params = 1e9; layers = 10; hidden = 10; seq = 10; } );\n");
	tree_write("gpus/gpus.cfg", "gpus = ( { name = \"big\"; active_w = 1; idle_ctx_w = 1; memory = \"70GB\";\n"
		   "flops_eff = 1e12; }, { name = \"small\"; active_w = 1; idle_ctx_w = 1; memory = \"70GB\";\n"
		   "flops_eff = 1e12; } );\n");
	assert_int_equal(run(false, 2, "e"), BACE_EXIT_OK);
	assert_non_null(strstr(out, "note: job j2 needs at least 3 GPUs and no region has more than 2"));
	tree_reset();
}

static void test_misuse(void **state)
{
	assert_int_equal(run(false, 1), BACE_EXIT_INPUT);
	assert_int_equal(run(false, 3, "e", "f"), BACE_EXIT_INPUT);
	assert_int_equal(run(false, 3, "e", "--jso"), BACE_EXIT_INPUT);
	assert_non_null(strstr(err, "unknown option `--jso'"));
	assert_int_equal(run(false, 2, "/nowhere.cfg"), BACE_EXIT_INPUT);
	assert_non_null(strstr(err, "/nowhere.cfg: read /nowhere.cfg: No such file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good), cmocka_unit_test(test_json),   cmocka_unit_test(test_bad),
		cmocka_unit_test(test_note), cmocka_unit_test(test_misuse),
	};

	return cmocka_run_group_tests(tests, tree_setup, tree_teardown);
}
