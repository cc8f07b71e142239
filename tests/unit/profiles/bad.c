/*
 * Every kind of bad input: the file, the line and what is said about it. The
 * good tree with one file replaced; the errors that are expected are all the
 * errors there are.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/profiles/tree.h"

struct said {
	const char *file;	/* relative to the tree */
	int line;
	const char *text;	/* part of the message */
};

struct broken {
	const char *file;
	const char *find, *replace;	/* in the good text; find = NULL: the whole */
	struct said said[8];
};

#define R "regions/r.cfg"
#define L "links/l.cfg"
#define P "prices/p.cfg"
#define G "gpus/gpus.cfg"
#define M "models/models.cfg"
#define C "clusters/c.cfg"
#define J "jobs/j.cfg"
#define E "experiments/e.cfg"

/* The good cluster with machines: region c's prefix, the address and the interface
 * of its host. */
#define HOSTS(prefix, address, egress) \
	"regions_file = \"r\"; links_file = \"l\"; prices_file = \"p\";\n" \
	"gpu = \"big\"; bandwidth = \"10gbit\";\n" \
	"regions = (\n" \
	"  { name = \"c\"; gpus = 2; prefixes = [ \"" prefix "\" ]; },\n" \
	"  { name = \"a\"; gpus = 1; prefixes = [ \"10.1.0.0/16\", \"fd00:1::/32\" ]; },\n" \
	"  { name = \"b\"; gpus = 0; prefixes = [ \"10.2.0.0/16\" ]; }\n" \
	");\n" \
	"hosts = (\n" \
	"  { name = \"c0\"; region = \"c\"; address = \"" address "\"; egress = \"" egress "\"; },\n" \
	"  { name = \"a0\"; region = \"a\"; address = \"fd00:1::7\"; egress = \"eth0\"; },\n" \
	"  { name = \"agw\"; region = \"a\"; address = \"192.0.2.1\"; gateway = true; egress = \"wan0\"; ingress = \"lan0\"; }\n" \
	");\n"

static const struct broken broken[] = {
	/* keys */
	{ L, "latency = \"10ms\"", "latncy = \"10ms\"",
	  { { L, 2, "key `links[0].latncy' = \"10ms\": unknown key; did you mean `latency'?" },
	    { L, 2, "key `links[0].latency' is missing" } } },
	{ R, "location", "colour", { { R, 3, "unknown key; the keys here are name, location, pue" } } },
	{ R, "regions = (", "region = (",
	  { { R, 1, "key `region' = ( ... ): unknown key; did you mean `regions'?" },
	    { R, 1, "key `regions' is missing" } } },
	{ E, "jobs = \"j\";", "",
	  { { E, 1, "key `jobs' is missing" } } },
	{ E, "policies = (", "testbed = { scale = { byte = 0.5; }; };\npolicies = (",
	  { { E, 3, "key `testbed.scale.byte' = 0.5: unknown key; did you mean `bytes'?" } } },
	{ M, "layers = 10; ", "layers = 10; layers = 12; ", { { M, 2, "key `layers' is given twice" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\nseed = 1;\n\nseed = 2;\n", { { E, 5, "key `seed' is given twice" } } },
	/* types */
	{ R, "pue = 1.2", "pue = \"1.2\"",
	  { { R, 3, "key `regions[1].pue' = \"1.2\": must be a finite number from 1 to 10" } } },
	{ R, "\"b\"", "7", { { R, 3, "key `regions[1].name' = 7: must be a string of 1 to 47" } } },
	{ R, "\"b\"", "\"a b\"", { { R, 3, "key `regions[1].name' = \"a b\": must be a string" } } },
	{ R, "  { name = \"b\"; pue = 1.2; location = \"B town\"; },\n", "  \"b\",\n",
	  { { R, 3, "key `regions[1]' = \"b\": must be a group" } } },
	{ M, "recompute = false", "recompute = 0", { { M, 3, "= 0: must be true or false" } } },
	{ M, "layers = 10", "layers = 10.5", { { M, 2, "= 10.5: must be a whole number from 1 to 65536" } } },
	{ L, NULL, "links = [ \"a\" ];\n", { { L, 1, "key `links' = [ ... ]: must be a list ( ... ) that is not empty" } } },
	{ L, NULL, "links = ( );\n", { { L, 1, "key `links' = ( ): must be a list" } } },
	{ E, "cluster = \"c\"", "cluster = 3", { { E, 1, "must be a string: the name of a profile" } } },
	{ E, "{ name = \"bace\"; }", "{ name = \"bace\"; start = \"kmin\"; }",
	  { { E, 4, "= \"kmin\": must be one of \"k_min\", \"k_star\"; did you mean \"k_min\"?" } } },
	/* units and ranges */
	{ L, "\"1gbit\"", "1000000", { { L, 2, "must be a string with a unit, like \"25gbit\"; a bare number has none" } } },
	{ L, "\"1gbit\"", "\"1000000\"", { { L, 2, "has no unit: write 1000000 followed by" } } },
	{ L, "\"1gbit\"", "\"10Gb\"", { { L, 2, "ambiguous (bits or bytes?): write 10gbit" } } },
	{ L, "\"1gbit\"", "\"0bit\"", { { L, 2, "must be from 1 kbit/s to 100 Tbit/s" } } },
	{ L, "\"10ms\"", "\"-10ms\"", { { L, 2, "key `links[0].latency' = \"-10ms\": negative" } } },
	{ L, "\"10ms\"", "\"2h\"", { { L, 2, "must be from 0 s to 60 s" } } },
	{ L, "\"1ms\"", "\"21ms\"", { { L, 5, "must be at most the latency" } } },
	{ L, "jitter = \"1ms\"", "jitter_distribution = \"normal\"", { { L, 4, "key `links[2].jitter' is missing" } } },
	{ L, "0.001", "1.5", { { L, 5, "key `links[2].loss' = 1.5: must be a finite number from 0 to 1" } } },
	{ L, "0.001", "-0.1", { { L, 5, "from 0 to 1" } } },
	{ L, "0.001", "nan", { { L, 5, "key `loss' = nan: must be a finite number" } } },
	{ L, "0.001", "-inf", { { L, 5, "key `loss' = -inf: must be a finite number" } } },
	{ L, "0.001", "1e999", { { L, 5, "must be a finite number from 0 to 1" } } },
	{ G, "idle_ctx_w = 70.5", "idle_ctx_w = 301", { { G, 2, "must be at most active_w (300)" } } },
	{ G, "60e12", "60000000000000", { { G, 2, "60000000000000: does not fit 32 bits: write it with a point or an exponent" } } },
	{ M, "params = 1e9", "params = 0x1000000000", { { M, 2, "does not fit 32 bits" } } },
	{ M, "params = 1e9", "params = 99999999999999999999L", { { M, 2, "does not fit 32 bits" } } },
	{ J, "\"1min\"", "\"-1min\"", { { J, 2, "key `jobs[0].arrival' = \"-1min\": negative" } } },
	{ J, "\"1min\"", "-1", { { J, 2, "must be a string with a unit, like \"38.2ms\"" } } },
	{ J, "micro_batches = 4", "micro_batches = 0",
	  { { J, 2, "key `jobs[0].micro_batches' = 0: must be a whole number from 1 to 1048576" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\nseed = -1;", { { E, 3, "must be a whole number from 0 to" } } },
	/* names */
	{ R, "\"b\"", "\"a\"",
	  { { R, 3, "there is a region of this name before" }, { L, 2, "must be a region" },
	    { L, 3, "must be a region" }, { C, 9, "must be a region of the regions file; there are a, a, c" } } },
	{ M, "\"m2\"", "\"m1\"",
	  { { M, 3, "there is a model of this name before" },
	    { J, 2, "must be a model of the models file; did you mean `m1'?" } } },
	{ J, "\"j2\"", "\"j1\"", { { J, 3, "there is a job of this name before: each name once" } } },
	{ J, "\"m2\"", "\"m3\"", { { J, 2, "key `jobs[0].model' = \"m3\": must be a model of the models file; did you mean `m1'?" } } },
	{ C, "\"b\"", "\"a\"", { { C, 9, "there is a region of this name before" } } },
	{ C, "\"b\"", "\"bb\"",
	  { { C, 9, "key `regions[2].name' = \"bb\": must be a region of the regions file; did you mean `b'?" },
	    { C, 9, "has no price" }, { C, 9, "no link" } } },
	{ C, "\"small\"", "\"smal\"", { { C, 8, "must be a GPU of the GPU file; did you mean `small'?" } } },
	{ C, "\"big\"", "\"bigg\"", { { C, 4, "must be a GPU of the GPU file; did you mean `big'?" } } },
	{ C, "gpu = \"big\";\n", "",
	  { { C, 6, "key `regions[0].gpu' is missing" }, { C, 8, "key `regions[2].gpu' is missing" } } },
	{ C, "bandwidth = \"10gbit\";\n", "",
	  { { C, 6, "key `regions[0].bandwidth' is missing" }, { C, 8, "key `regions[2].bandwidth' is missing" } } },
	{ P, "\"c\"", "\"d\"", { { C, 7, "key `regions[0].name' = \"c\": has no price in the prices file" } } },
	{ P, "\"b\"", "\"a\"", { { P, 4, "there is a price of this name before" }, { C, 9, "has no price" } } },
	/* machines */
	{ C, NULL, HOSTS("10.0.0.0/16", "10.3.0.10", "eth0"),
	  { { C, 9, "key `hosts[0].address' = \"10.3.0.10\": must be within a prefix of its region" } } },
	{ C, NULL, HOSTS("10.0.0.0/16", "10.0.0.0/24", "eth0"), { { C, 9, "must be the address at which ranks listen" } } },
	{ C, NULL, HOSTS("10.0.0.0/16", "10.0.0.10", "eth0:1"),
	  { { C, 9, "key `hosts[0].egress' = \"eth0:1\": must be the name of an interface" } } },
	{ C, NULL, HOSTS("10.0.0.0/14", "10.0.0.10", "eth0"),
	  { { C, 8, "has 10.1.0.0/16 of region a within 10.0.0.0/14 of region c" },
	    { C, 8, "has 10.2.0.0/16 of region b within 10.0.0.0/14 of region c" } } },
	{ G, "\"small\"", "\"big\"", { { G, 4, "there is a GPU of this name before" }, { C, 8, "must be a GPU" } } },
	{ E, "label = \"bace-0\"; ", "",
	  { { E, 5, "there is a policy labelled \"bace\" before: give this one a `label'" } } },
	/* links */
	{ L, "to = \"c\"", "to = \"cc\"",
	  { { L, 4, "key `to' = \"cc\": must be a region of the regions file; did you mean `c'?" },
	    { C, 7, "no link of the links file reaches this region" } } },
	{ L, "both_ways = true", "both_ways = false",
	  { { C, 8, "there is a link to c and none back" } } },
	{ L, "to = \"b\"", "to = \"a\"",
	  { { L, 2, "must not be the same region" }, { C, 9, "there is a link to a and none back" } } },
	{ L, "from = \"b\"; to = \"a\"", "from = \"a\"; to = \"b\"",
	  { { L, 3, "the link from a to b is in line 2 already" }, { C, 8, "there is a link to b and none back" } } },
	{ L, "from = \"a\"; to = \"c\"", "from = \"a\"; to = \"b\"",
	  { { L, 4, "the link from a to b is in line 2 already" }, { C, 7, "no link of the links file reaches" } } },
	{ C, "gpu = \"big\"", "mtu = 100;\ngpu = \"big\"", { { C, 4, "from 576 to 65535" } } },
	{ C, "gpu = \"big\"", "link_rates = \"mean\";\ngpu = \"big\"", { { C, 4, "must be one of \"measured\", \"mean-of-ends\"" } } },
	/* prices */
	{ P, "[0.1, -0.3]", "[]", { { P, 4, "key `prices[1].usd_per_kwh' = [ ]: must be an array [ ... ] that is not empty" } } },
	{ P, "every = \"1h\"; ", "", { { P, 4, "key `prices[1].every' is missing" } } },
	{ P, "0.2;", "0.2; every = \"1h\";", { { P, 3, "only where usd_per_kwh is an array" } } },
	{ P, "[0.1, -0.3]", "[0.1, \"x\"]", { { P, 4, "numbers with and without a point" } } },
	{ P, "[0.1, -0.3]", "(0.1, \"x\")", { { P, 4, "key `prices[1].usd_per_kwh[1]' = \"x\": must be a finite number" } } },
	{ P, "[1, 2, 3]", "[1, nan, 3]", { { P, 5, "nan: must be a finite number" } } },
	{ P, "[1, 2, 3]", "[1, 2.5, 3]", { { P, 5, "write [1.0, 2.5], or a list (1, 2.5)" } } },
	{ P, "[0.1, -0.3]", "[0.1, nan]", { { P, 4, "nan: must be a finite number" } } },
	{ P, "[0.1, -0.3]", "[0.1, 1000.0]", { { P, 4, "key `prices[1].usd_per_kwh[1]' = 1000: must be a finite number from -100 to 100" } } },
	{ P, "\"0s\", \"1h\"", "\"0s\", \"4h\"", { { P, 5, "key `prices[2].start[2]' = \"3h\": must be after the one before" } } },
	{ P, "\"0s\", \"1h\"", "\"1s\", \"1h\"", { { P, 5, "must begin with \"0s\"" } } },
	{ P, ", \"3h\"", "", { { P, 5, "has 2 times for 3 prices: one each" } } },
	{ P, "\"1d\"", "\"2h\"", { { P, 5, "must be after the last start" } } },
	{ P, " period = \"1d\";", "", { { P, 5, "key `prices[2].period' is missing" } } },
	{ P, "\"retail\"", "\"retale\"", { { P, 1, "must be one of \"retail\", \"wholesale\", \"synthetic\"; did you mean \"retail\"?" } } },
	{ P, "kind = \"retail\";\n", "", { { P, 1, "key `kind' is missing" } } },
	/* the cluster as a whole */
	{ C, NULL, "regions_file = \"r\";\nlinks_file = \"l\";\nprices_file = \"p\";\ngpu = \"big\";\n"
	  "bandwidth = \"10gbit\";\nregions = (\n  { name = \"a\"; gpus = 0; },\n  { name = \"b\"; gpus = 0; }\n);\n",
	  { { C, 6, "no region has a GPU" } } },
	{ C, "gpus = 1", "gpus = -1", { { C, 8, "must be a whole number from 0 to 100000" } } },
	/* jobs */
	{ J, "steps = 100", "steps = 100; epochs = 3", { { J, 2, "either steps, or dataset and epochs, not both" } } },
	{ J, "steps = 100; ", "", { { J, 2, "key `jobs[0].dataset' is missing: a size like \"500MB\" (or `steps'" } } },
	{ J, "\"j1\"; ", "\"j1\"; seq = 10; ", { { J, 2, "the model's times were measured at 500" } } },
	{ M, "params = 1e9", "params = 100e9",
	  { { J, 3, "key `jobs[1].model' = \"m1\": fits nowhere: on 3 GPUs (all that the cluster has) the first stage needs 640" },
	    { J, 5, "key `jobs[2].model' = \"m1\": fits nowhere" } } },
	/* schedule and limits */
	{ E, "jobs = \"j\";", "jobs = \"j\";\nk_limit = 0;", { { E, 3, "must be a whole number from 1 to 65536" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\nk_limit = \"all\";", { { E, 3, "must be \"layers\" or a whole number" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\ninterleave = 2;", { { E, 3, "must be 1 unless schedule" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\nschedule = \"interleaved-1f1b\";", { { E, 1, "key `interleave' is missing" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\nschedule = \"1f1n\";", { { E, 3, "did you mean \"1f1b\"?" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\noracles = [\"measured\", \"measured\"];", { { E, 3, "is there before" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\noracles = [\"guess\"];", { { E, 3, "key `oracles[0]' = \"guess\": must be one of" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\noracles = \"measured\";", { { E, 3, "must be an array" } } },
	{ E, "alpha = 0", "alpha = 1.5", { { E, 5, "must be a finite number from 0 to 1" } } },
	{ E, "alpha = 0", "alpha = \"auto\"", { { E, 5, "must be a number from 0 to 1, or \"view\"" } } },
	{ E, "alpha = 0", "command = \"x\"", { { E, 5, "only with name = \"external\"" } } },
	{ E, "{ name = \"bace\"; }", "{ name = \"external\"; }", { { E, 4, "key `policies[0].command' is missing" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\ntestbed = { congestion_control = \"cubic; rm\"; };", { { E, 3, "must be the kernel's name" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\ntestbed = { congestion_control = \"a_very_long_algorithm\"; };", { { E, 3, "must be shorter than 16 bytes" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\ntestbed = { steady = { within = 0.02; }; };",
	  { { E, 3, "warmup_steps = 1 is the most that the warm-up takes: must be above the 3 steps" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\ntestbed = { warmup_steps = 9; steady = { steps = 3; }; };", { { E, 3, "key `testbed.steady.within' is missing" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\ntestbed = { transport = \"nccl\"; warmup_steps = 9; steady = { within = 0.02; }; };",
	  { { E, 3, "needs transport = \"tcp\"" } } },
	{ E, "jobs = \"j\";", "jobs = \"j\";\nview = { bandwidth_noise = -1; };", { { E, 3, "key `view.bandwidth_noise' = -1: must be" } } },
	/* files */
	{ E, "cluster = \"c\"", "cluster = \"cc\"", { { E, 1, "clusters/cc.cfg: No such file or directory; did you mean `c'?" } } },
	{ E, "jobs = \"j\";", "jobs = \"./no.cfg\";", { { E, 2, "experiments/./no.cfg: No such file" } } },
	{ C, "\"l\"", "\"links\"", { { C, 2, "key `links_file' = \"links\": cannot read" } } },
	{ G, NULL, "", { { G, 1, "key `gpus' is missing" } } },
	{ E, "jobs = \"j\";", "@include \"x.cfg\"\njobs = \"j\";", { { E, 2, "@include \"x.cfg\": not allowed in profiles" } } },
	/* syntax */
	{ M, "params = 1e9;", "params = ;", { { M, 2, "syntax error: settings are `key = value;'" } } },
	{ M, "(", "[", { { M, 2, "syntax error" } } },
	{ M, NULL, "models = ( { name = \"m1; }", { { M, 1, "" } } },
};

static const char *good_text(const char *file)
{
	const char *const names[] = { R, L, P, G, M, C, J, E };
	const char *const texts[] = { tree_good_regions, tree_good_links,   tree_good_prices,
				      tree_good_gpus,	 tree_good_models,  tree_good_cluster,
				      tree_good_jobs,	 tree_good_experiment };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(names[i], file))
			return texts[i];
	fail_msg("no file %s", file);
	return NULL;
}

static void break_file(const struct broken *b)
{
	const char *good = good_text(b->file);
	struct bace_buf text = { 0 };

	if (!b->find) {
		tree_write(b->file, b->replace);
		return;
	}
	const char *at = strstr(good, b->find);

	if (!at)
		fail_msg("%s has no `%s'", b->file, b->find);
	bace_buf_add(&text, good, (size_t)(at - good));
	bace_buf_addf(&text, "%s%s", b->replace, at + strlen(b->find));
	tree_write(b->file, text.p);
	bace_buf_free(&text);
}

static void dump(const struct broken *b, const struct bace_diags *d)
{
	print_message("--- %s: `%s' -> `%s'\n", b->file, b->find ? b->find : "", b->replace);
	bace_diags_print(d, stderr);
}

static void expect(const struct broken *b, const struct bace_diags *d)
{
	size_t n = 0;
	char path[256];

	while (n < ARRAY_LEN(b->said) && b->said[n].file)
		n++;
	if (d->n != n) {
		dump(b, d);
		fail_msg("%zu errors, expected %zu", d->n, n);
	}
	for (size_t i = 0; i < n; i++) {
		bool found = false;

		snprintf(path, sizeof(path), "%s/%s", tree_dir(), b->said[i].file);
		for (size_t j = 0; j < n; j++)
			found |= !strcmp(d->v[j].file, path) && d->v[j].line == b->said[i].line &&
				 strstr(d->v[j].text, b->said[i].text);
		if (!found) {
			dump(b, d);
			fail_msg("no `%s' in %s:%d", b->said[i].text, b->said[i].file, b->said[i].line);
		}
	}
}

static void test_each(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
		const struct broken *b = &broken[i];
		struct bace_diags d = { 0 };
		struct experiment e;
		struct bace_err err = { 0 };
		int rc;

		tree_reset();
		break_file(b);
		rc = experiment_load("e", &e, &d, &err);
		expect(b, &d);
		assert_int_equal(rc, -EINVAL);
		/* The error is the first of the diagnostics, and nothing is left to free. */
		assert_non_null(strstr(err.msg, d.v[0].file));
		assert_null(e.jobs);
		assert_null(e.cluster.regions);
		bace_diags_free(&d);
	}
	tree_reset();
}

/* One error in each of the files: all are said at once. */
static void test_all_at_once(void **state)
{
	static const struct broken all[] = {
		{ R, "1.1", "0.5" },	   { L, "\"1gbit\"", "\"1\"" },	{ P, "0.2", "200.0" },
		{ G, "= 300", "= -300" },  { M, "= 10;", "= 0;" },	{ C, "= 2;", "= -2;" },
		{ J, "= 4;", "= 0;" },	   { E, "alpha = 0", "alpah = 0" },
	};
	static const struct broken sum = { "all", NULL, "", {
		{ R, 2, "pue" }, { L, 2, "no unit" }, { P, 3, "200" }, { G, 2, "active_w" },
		{ M, 2, "layers" }, { C, 7, "gpus" }, { J, 2, "micro_batches" }, { E, 5, "`alpha'" } } };
	struct bace_diags d = { 0 };
	struct experiment e;
	struct bace_err err;

	tree_reset();
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		break_file(&all[i]);
	assert_int_equal(experiment_load("e", &e, &d, &err), -EINVAL);
	expect(&sum, &d);
	bace_diags_free(&d);
	tree_reset();
}

static void test_no_such_experiment(void **state)
{
	struct bace_diags d = { 0 };
	struct experiment e;
	struct cluster c;
	struct bace_err err;

	assert_int_equal(experiment_load("ee", &e, &d, &err), -EINVAL);
	assert_int_equal(d.n, 1);
	assert_non_null(strstr(d.v[0].text, "experiments/ee.cfg: No such file or directory; did you mean `e'?"));
	assert_int_equal(cluster_load("/nowhere/x.cfg", &c, &d, &err), -EINVAL);
	assert_int_equal(d.n, 2);
	assert_string_equal(d.v[1].text, "read /nowhere/x.cfg: No such file or directory");
	assert_int_equal(cluster_load("/tmp/", &c, &d, &err), -EINVAL);
	/* Near none: all are named. */
	assert_int_equal(experiment_load("something", &e, &d, &err), -EINVAL);
	assert_non_null(strstr(d.v[3].text, "experiments/something.cfg: No such file or directory; there are e"));
	bace_diags_free(&d);
}

static void test_not_text(void **state)
{
	struct bace_diags d = { 0 };
	struct experiment e;
	struct bace_err err;
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/" E, tree_dir());
	f = fopen(path, "w");
	assert_non_null(f);
	fwrite("cluster = \"c\";\0jobs", 1, 19, f);
	fclose(f);
	assert_int_equal(experiment_load("e", &e, &d, &err), -EINVAL);
	assert_int_equal(d.n, 1);
	assert_non_null(strstr(d.v[0].text, "zero byte"));
	bace_diags_free(&d);
	tree_reset();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each),
		cmocka_unit_test(test_all_at_once),
		cmocka_unit_test(test_no_such_experiment),
		cmocka_unit_test(test_not_text),
	};

	return cmocka_run_group_tests(tests, tree_setup, tree_teardown);
}
