#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/profiles/tree.h"

const char *const tree_good_regions =
	"regions = (\n"
	"  { name = \"a\"; pue = 1.1; },\n"
	"  { name = \"b\"; pue = 1.2; location = \"B town\"; },\n"
	"  { name = \"c\"; pue = 1.3; }\n"
	");\n";

const char *const tree_good_links =
	"links = (\n"
	"  { from = \"a\"; to = \"b\"; rate = \"1gbit\"; latency = \"10ms\"; },\n"
	"  { from = \"b\"; to = \"a\"; rate = \"2gbit\"; latency = \"11ms\"; },\n"
	"  { from = \"a\"; to = \"c\"; both_ways = true; rate = \"3gbit\"; latency = \"20ms\";\n"
	"    jitter = \"1ms\"; loss = 0.001; buffer = \"1MB\"; usd_per_gb = 0.02; }\n"
	");\n";

const char *const tree_good_prices =
	"kind = \"retail\";\n"
	"prices = (\n"
	"  { region = \"a\"; usd_per_kwh = 0.2; },\n"
	"  { region = \"b\"; usd_per_kwh = [0.1, -0.3]; every = \"1h\"; },\n"
	"  { region = \"c\"; usd_per_kwh = [1, 2, 3]; start = [\"0s\", \"1h\", \"3h\"]; period = \"1d\"; }\n"
	");\n";

const char *const tree_good_gpus =
	"gpus = (\n"
	"  { name = \"big\"; active_w = 300; idle_ctx_w = 70.5; memory = \"48GB\"; flops_eff = 60e12; },\n"
	"  { name = \"unused\"; active_w = 1; idle_ctx_w = 1; memory = \"1GB\"; flops_eff = 1e12; },\n"
	"  { name = \"small\"; active_w = 100; idle_ctx_w = 20; memory = \"8GB\"; flops_eff = 20e12; }\n"
	");\n";

const char *const tree_good_models =
	"models = (\n"
	"  { name = \"m1\"; params = 1e9; layers = 10; hidden = 1000; seq = 1000; },\n"
	"  { name = \"m2\"; params = 2e9; layers = 4; hidden = 1000; seq = 500; recompute = false;\n"
	"    bytes_per_element = 4; state_bytes_per_param = 18;\n"
	"    measured = { forward = \"10ms\"; backward = \"30ms\"; boundary = \"2MB\"; }; }\n"
	");\n";

const char *const tree_good_cluster =
	"regions_file = \"r\";\n"
	"links_file = \"l\";\n"
	"prices_file = \"p\";\n"
	"gpu = \"big\";\n"
	"bandwidth = \"10gbit\";\n"
	"regions = (\n"
	"  { name = \"c\"; gpus = 2; },\n"
	"  { name = \"a\"; gpus = 1; gpu = \"small\"; bandwidth = \"20gbit\"; intra_latency = \"50us\"; },\n"
	"  { name = \"b\"; gpus = 0; pue = 1.5; }\n"
	");\n";

const char *const tree_good_jobs =
	"jobs = (\n"
	"  { name = \"j1\"; model = \"m2\"; micro_batches = 4; steps = 100; arrival = \"1min\"; },\n"
	"  { name = \"j2\"; model = \"m1\"; micro_batches = 8; micro_batch_size = 2; dataset = \"1MB\";\n"
	"    epochs = 2; },\n"
	"  { name = \"j3\"; model = \"m1\"; micro_batches = 8; dataset = \"1MB\"; seq = 100; }\n"
	");\n";

const char *const tree_good_experiment =
	"cluster = \"c\";\n"
	"jobs = \"j\";\n"
	"policies = (\n"
	"  { name = \"bace\"; },\n"
	"  { name = \"bace\"; label = \"bace-0\"; alpha = 0; order = \"sjf\"; start = \"k_star\"; }\n"
	");\n";

static char dir[] = "/tmp/bace-test-profiles-XXXXXX";

static const struct {
	const char *name;
	const char *const *text;
} files[] = {
	{ "regions/r.cfg", &tree_good_regions },	{ "links/l.cfg", &tree_good_links },
	{ "prices/p.cfg", &tree_good_prices },		{ "gpus/gpus.cfg", &tree_good_gpus },
	{ "models/models.cfg", &tree_good_models },	{ "clusters/c.cfg", &tree_good_cluster },
	{ "jobs/j.cfg", &tree_good_jobs },		{ "experiments/e.cfg", &tree_good_experiment },
};

const char *tree_dir(void)
{
	return dir;
}

void tree_write(const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (!text) {
		unlink(path);
		return;
	}
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

void tree_reset(void)
{
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		tree_write(files[i].name, *files[i].text);
}

int tree_setup(void **state)
{
	char path[256];

	if (!mkdtemp(dir))
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof(path), "%s/%.*s", dir, (int)strcspn(files[i].name, "/"),
			 files[i].name);
		if (mkdir(path, 0700))
			return -1;
	}
	tree_reset();
	return setenv("BACE_PROFILES", dir, 1);
}

int tree_teardown(void **state)
{
	char path[256];

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		tree_write(files[i].name, NULL);
		snprintf(path, sizeof(path), "%s/%.*s", dir, (int)strcspn(files[i].name, "/"),
			 files[i].name);
		rmdir(path);
	}
	return rmdir(dir);
}
