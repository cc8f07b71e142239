/* Every key that a file may have is in profiles/README.md. The loaders
 * themselves say which there are, when asked for one that there is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config.h"
#include "tests/unit/profiles/tree.h"

#define UNKNOWN "qqqqqqqqqq = 1; "

static char *readme;

static int setup(void **state)
{
	struct bace_err err;

	if (bace_read_file(BACE_SOURCE_ROOT "/profiles/README.md", 1 << 20, &readme, NULL, &err))
		return -1;
	return tree_setup(state);
}

static int teardown(void **state)
{
	free(readme);
	return tree_teardown(state);
}

static int check_keys(char *list)
{
	int n = 0;

	for (char *key = strtok(list, ", "); key; key = strtok(NULL, ", "), n++) {
		char quoted[64];

		snprintf(quoted, sizeof(quoted), "`%s`", key);
		if (!strstr(readme, quoted))
			fail_msg("key %s is not in profiles/README.md", quoted);
	}
	return n;
}

/* Loads with the unknown key in front of `before` in one file. */
static void ask(const char *file, const char *good, const char *before)
{
	static const char mark[] = "the keys here are ";
	struct bace_diags d = { 0 };
	struct bace_buf text = { 0 };
	struct experiment e;
	struct bace_err err;
	const char *at = strstr(good, before);
	int n = 0;

	assert_non_null(at);
	bace_buf_add(&text, good, (size_t)(at - good));
	bace_buf_addf(&text, UNKNOWN "%s", at);
	tree_reset();
	tree_write(file, text.p);
	assert_int_equal(experiment_load("e", &e, &d, &err), -22);
	for (size_t i = 0; i < d.n; i++) {
		char *list = strstr(d.v[i].text, mark);

		if (list)
			n += check_keys(list + strlen(mark));
	}
	assert_true(n >= 1);
	bace_diags_free(&d);
	bace_buf_free(&text);
	tree_reset();
}

static void test_documented(void **state)
{
	const char *const testbed = "testbed = { steps = 1; scale = { bytes = 1; }; steady = { within = 0.1; };\n"
				    "  disturb = ( { from = \"a\"; to = \"b\"; loss = 0.1; } ); };\n";
	const char *const hosts = "hosts = ( { address = \"10.0.0.1\"; name = \"h\"; region = \"a\"; egress = \"eth0\"; } );\n";
	const char *const view = "view = { delay = \"1s\"; };\n";
	struct bace_buf text = { 0 };

	ask("regions/r.cfg", tree_good_regions, "regions");
	ask("regions/r.cfg", tree_good_regions, "name");
	ask("links/l.cfg", tree_good_links, "links");
	ask("links/l.cfg", tree_good_links, "from");
	ask("prices/p.cfg", tree_good_prices, "kind");
	ask("prices/p.cfg", tree_good_prices, "region");
	ask("gpus/gpus.cfg", tree_good_gpus, "gpus");
	ask("gpus/gpus.cfg", tree_good_gpus, "name");
	ask("models/models.cfg", tree_good_models, "models");
	ask("models/models.cfg", tree_good_models, "name");
	ask("models/models.cfg", tree_good_models, "forward");
	ask("clusters/c.cfg", tree_good_cluster, "regions_file");
	ask("clusters/c.cfg", tree_good_cluster, "name");
	ask("jobs/j.cfg", tree_good_jobs, "jobs");
	ask("jobs/j.cfg", tree_good_jobs, "name");
	ask("experiments/e.cfg", tree_good_experiment, "cluster");
	ask("experiments/e.cfg", tree_good_experiment, "name");
	bace_buf_addf(&text, "%s%s", tree_good_cluster, hosts);
	ask("clusters/c.cfg", text.p, "address");
	bace_buf_free(&text);
	bace_buf_addf(&text, "%s%s%s", tree_good_experiment, testbed, view);
	ask("experiments/e.cfg", text.p, "steps");
	ask("experiments/e.cfg", text.p, "bytes");
	ask("experiments/e.cfg", text.p, "within");
	ask("experiments/e.cfg", text.p, "from");
	ask("experiments/e.cfg", text.p, "delay");
	bace_buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_documented) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
