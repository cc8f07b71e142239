/* What a good file says arrives, in the right unit and place; and every profile
 * that is shipped loads. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"
#include "tests/unit/profiles/tree.h"

static void load(struct experiment *e)
{
	struct bace_diags d = { 0 };
	struct bace_err err;

	if (experiment_load("e", e, &d, &err)) {
		bace_diags_print(&d, stderr);
		fail_msg("%s", err.msg);
	}
	assert_int_equal(d.n, 0);
}

static void test_cluster(void **state)
{
	struct experiment e;

	tree_reset();
	load(&e);
	const struct cluster *c = &e.cluster;

	assert_string_equal(c->name, "c");
	assert_int_equal(c->n_regions, 3);
	/* In the order of the cluster file, not of the regions file. */
	assert_string_equal(c->regions[0].name, "c");
	assert_string_equal(c->regions[1].name, "a");
	assert_string_equal(c->regions[2].name, "b");
	assert_string_equal(c->regions[2].location, "B town");
	assert_int_equal(c->regions[0].n_gpus, 2);
	assert_true(c->regions[0].pue == 1.3 && c->regions[1].pue == 1.1);
	assert_true(c->regions[2].pue == 1.5);
	assert_true(c->regions[0].bandwidth_bps == 10e9 && c->regions[1].bandwidth_bps == 20e9);
	assert_int_equal(c->regions[1].intra_latency_ns, 50000);
	assert_int_equal(c->mtu, 1500);
	/* Only the types that are there. */
	assert_int_equal(c->n_gpus, 2);
	assert_string_equal(c->gpus[c->regions[0].gpu].name, "big");
	assert_string_equal(c->gpus[c->regions[1].gpu].name, "small");
	assert_true(c->gpus[0].memory_bytes == 48e9 && c->gpus[0].flops_eff == 60e12);
	assert_true(c->gpus[0].active_w == 300 && c->gpus[0].idle_ctx_w == 70.5);
	experiment_free(&e);
	assert_null(e.text);
}

static void test_links(void **state)
{
	struct experiment e;

	tree_reset();
	load(&e);
	const struct cluster *k = &e.cluster;
	const struct link *ab = cluster_link(k, 1, 2), *ba = cluster_link(k, 2, 1);
	const struct link *ac = cluster_link(k, 1, 0), *ca = cluster_link(k, 0, 1);

	assert_true(ab->present && ba->present && ac->present && ca->present);
	assert_int_equal(ab->rate_bps, 1000000000);
	assert_int_equal(ab->latency_ns, 10000000);
	assert_int_equal(ab->jitter_dist, JITTER_NONE);
	assert_int_equal(ba->rate_bps, 2000000000);
	assert_int_equal(ba->latency_ns, 11000000);
	assert_memory_equal(ac, ca, sizeof(*ac));
	assert_int_equal(ac->jitter_ns, 1000000);
	assert_int_equal(ac->jitter_dist, JITTER_UNIFORM);
	assert_true(ac->loss == 0.001);
	assert_int_equal(ac->buffer_bytes, 1000000);
	assert_true(ac->usd_per_byte == 0);
	assert_false(cluster_link(k, 0, 2)->present);
	assert_false(cluster_link(k, 2, 0)->present);
	for (int i = 0; i < 3; i++)
		assert_false(cluster_link(k, i, i)->present);
	experiment_free(&e);
}

static void test_cluster_choices(void **state)
{
	struct bace_buf text = { 0 };
	struct bace_diags d = { 0 };
	struct experiment e;
	struct cluster c;
	struct bace_err err;

	tree_reset();
	bace_buf_addf(&text, "name = \"other\"; link_rates = \"mean-of-ends\"; bill_egress = true;\n"
		      "mtu = 9000;\n%s", tree_good_cluster);
	tree_write("clusters/c.cfg", text.p);
	load(&e);
	assert_string_equal(e.cluster.name, "other");
	assert_int_equal(e.cluster.mtu, 9000);
	assert_int_equal(cluster_link(&e.cluster, 0, 1)->rate_bps, 15000000000);
	assert_int_equal(cluster_link(&e.cluster, 1, 2)->rate_bps, 15000000000);
	assert_int_equal(cluster_link(&e.cluster, 1, 2)->latency_ns, 10000000);
	assert_true(fabs(cluster_link(&e.cluster, 0, 1)->usd_per_byte - 0.02e-9) < 1e-20);
	experiment_free(&e);
	assert_int_equal(cluster_load("c", &c, &d, &err), 0);
	assert_string_equal(c.name, "other");
	cluster_free(&c);

	/* Rates that were converted for one MTU are not right for another. */
	bace_buf_free(&text);
	bace_buf_addf(&text, "mtu = 1500;\n%s", tree_good_links);
	tree_write("links/l.cfg", text.p);
	bace_buf_free(&text);
	bace_buf_addf(&text, "mtu = 9000;\n%s", tree_good_cluster);
	tree_write("clusters/c.cfg", text.p);
	assert_int_equal(cluster_load("c", &c, &d, &err), -22);
	assert_int_equal(d.n, 1);
	assert_int_equal(d.v[0].line, 1);
	assert_non_null(strstr(d.v[0].text, "converted for an MTU of 1500"));
	bace_diags_free(&d);
	bace_buf_free(&text);
	tree_reset();
}

static void test_jobs_and_models(void **state)
{
	struct experiment e;

	tree_reset();
	load(&e);
	assert_int_equal(e.n_jobs, 3);
	assert_string_equal(e.jobs[0].name, "j1");
	assert_true(e.jobs[0].arrival_s == 60 && e.jobs[0].steps == 100);
	const struct model *m2 = &e.models[e.jobs[0].model];

	assert_string_equal(m2->name, "m2");
	assert_false(m2->recompute);
	assert_true(m2->measured_fwd_s == 0.01 && m2->measured_bwd_s == 0.03);
	assert_true(m2->measured_boundary_bytes == 2e6);
	assert_true(m2->bytes_per_element == 4 && m2->state_bytes_per_param == 18);

	const struct model *m1 = &e.models[e.jobs[1].model];

	assert_true(m1->recompute && m1->bytes_per_element == 2 && m1->state_bytes_per_param == 16);
	/* 2 epochs x 250,000 tokens / (8 x 2 x 1000) = 31.25 */
	assert_true(e.jobs[1].steps == 32);
	assert_int_equal(e.jobs[1].micro_batch_size, 2);
	assert_true(e.jobs[1].arrival_s == 0);
	/* The same weights on another length: a model of its own. 250,000 / 800 = 312.5 */
	assert_int_equal(e.n_models, 3);
	assert_string_equal(e.models[e.jobs[2].model].name, "m1-s100");
	assert_int_equal(e.models[e.jobs[2].model].seq, 100);
	assert_true(e.models[e.jobs[2].model].params == 1e9);
	assert_true(e.jobs[2].steps == 313);
	experiment_free(&e);
}

static void test_defaults(void **state)
{
	struct experiment e;

	tree_reset();
	load(&e);
	assert_string_equal(e.name, "e");
	assert_int_equal(e.seed, 1);
	assert_int_equal(e.schedule, SCHED_1F1B);
	assert_int_equal(e.interleave, 1);
	assert_true(e.overlap && !e.bill_idle);
	assert_int_equal(e.k_limit, K_LIMIT_LAYERS);
	assert_true(e.oracle_closed_form && e.oracle_event_sim && !e.oracle_measured);
	assert_true(e.testbed.scale_bytes == 1 && e.testbed.scale_time == 1);
	assert_string_equal(e.testbed.congestion_control, "cubic");
	assert_int_equal(e.n_policies, 2);
	const struct policy_spec *p = &e.policies[0], *q = &e.policies[1];

	assert_string_equal(p->label, "bace");
	assert_true(isnan(p->alpha) && p->alpha_gain == 1 && p->aging_s == 0);
	assert_false(p->has_order || p->has_backfill);
	assert_true(p->pathfinder && p->cost_min && !p->elastic);
	assert_int_equal(p->start, START_K_MIN);
	assert_int_equal(p->line, 4);
	assert_non_null(strstr(p->file, "experiments/e.cfg"));
	assert_string_equal(q->label, "bace-0");
	assert_string_equal(q->name, "bace");
	assert_true(q->alpha == 0 && q->has_order && q->order == ORDER_SJF);
	assert_int_equal(q->start, START_K_STAR);
	experiment_free(&e);
}

static void test_everything_given(void **state)
{
	struct experiment e;

	tree_reset();
	tree_write("experiments/e.cfg",
		   "name = \"full\"; cluster = \"../clusters/c.cfg\"; jobs = \"j\"; models_file = \"models\";\n"
		   "seed = 9000000000000L; schedule = \"interleaved-1f1b\"; interleave = 2;\n"
		   "overlap = false; k_limit = 40; bill_idle = true; oracles = [\"measured\"];\n"
		   "policies = ( { name = \"external\"; command = \"./x --y\"; timeout = \"2s\"; backfill = false;\n"
		   "  stall_rule = \"latency\"; grow = \"tree\"; prefer = \"cost\"; alpha = \"view\";\n"
		   "  alpha_gain = 2; aging = \"1h\"; pathfinder = false; cost_min = false; elastic = true;\n"
		   "  restart = \"1min\"; } );\n"
		   "view = { delay = \"20ms\"; period = \"1s\"; bandwidth_noise = 0.3; price_noise = 0.1;\n"
		   "  noise = \"multiplicative\"; distribution = \"gaussian\"; bandwidth_bias = -0.1;\n"
		   "  price_bias = 0.2; correlation = 1; };\n"
		   "testbed = { backend = \"uml\"; ranks = \"region\"; max_ranks = 9; warmup_steps = 0;\n"
		   "  scale = { bytes = 0.01; time = 2; }; steps = 5; verify_s = 0; wan = \"stock\";\n"
		   "  congestion_control = \"bbr\"; hosts_per_region = 3; };\n");
	load(&e);
	assert_string_equal(e.name, "full");
	assert_int_equal(e.seed, 9000000000000);
	assert_int_equal(e.schedule, SCHED_INTERLEAVED_1F1B);
	assert_int_equal(e.interleave, 2);
	assert_true(!e.overlap && e.bill_idle);
	assert_int_equal(e.k_limit, K_LIMIT_N);
	assert_int_equal(e.k_limit_n, 40);
	assert_true(!e.oracle_closed_form && !e.oracle_event_sim && e.oracle_measured);
	const struct policy_spec *p = &e.policies[0];

	assert_string_equal(p->command, "./x --y");
	assert_true(p->timeout_s == 2 && p->has_backfill && !p->backfill && isnan(p->alpha));
	assert_true(p->stall_rule == STALL_LATENCY && p->grow == GROW_TREE && p->prefer == PREFER_COST);
	assert_true(p->alpha_gain == 2 && p->aging_s == 3600 && !p->pathfinder && !p->cost_min);
	assert_true(p->elastic && p->restart_s == 60);
	const struct view_spec *v = &e.view;

	assert_true(v->delay_s == 0.02 && v->period_s == 1 && v->bandwidth_noise == 0.3);
	assert_true(v->price_noise == 0.1 && v->multiplicative && v->dist == NOISE_GAUSSIAN);
	assert_true(v->bias_bandwidth == -0.1 && v->bias_price == 0.2 && v->correlation == 1);
	const struct testbed_spec *t = &e.testbed;

	assert_true(t->backend == BACKEND_UML && t->ranks == RANKS_REGION && t->max_ranks == 9);
	assert_true(t->scale_bytes == 0.01 && t->scale_time == 2 && t->wan == WAN_STOCK);
	assert_true(t->warmup_steps == 0 && t->steps == 5 && t->verify_s == 0);
	assert_string_equal(t->congestion_control, "bbr");
	assert_int_equal(t->hosts_per_region, 3);
	experiment_free(&e);
	tree_reset();
}

/* The text is every file whole, so that a run can be repeated from its record. */
static void test_text(void **state)
{
	const char *const parts[] = { tree_good_experiment, tree_good_cluster, tree_good_regions,
				      tree_good_links,	    tree_good_prices,  tree_good_gpus,
				      tree_good_models,	    tree_good_jobs };
	struct experiment e, again;

	tree_reset();
	load(&e);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		assert_non_null(strstr(e.text, parts[i]));
	assert_int_equal(e.n_files, 8);
	/* Under the names they have among the profiles, wherever those are. */
	assert_non_null(strstr(e.text, "#### clusters/c.cfg, "));
	assert_null(strstr(e.text, tree_dir()));
	assert_int_equal(e.text_hash, bace_hash64(e.text, strlen(e.text), 0));
	load(&again);
	assert_int_equal(again.text_hash, e.text_hash);
	experiment_free(&again);
	tree_write("experiments/e.cfg", "# a comment\ncluster = \"c\"; jobs = \"j\"; policies = ({name = \"x\";});");
	load(&again);
	assert_int_not_equal(again.text_hash, e.text_hash);
	experiment_free(&again);
	experiment_free(&e);
	tree_reset();
}

static void write_text(const char *path, const char *text, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* What a run keeps loads as the experiment it was, whatever became of its files. */
static void test_bundle(void **state)
{
	struct bace_diags d = { 0 };
	struct experiment e, again;
	char path[256];

	tree_reset();
	/* A comment that looks like the line between files; a file without an end of line. */
	tree_write("jobs/j.cfg", "#### jobs/x.cfg, 3 bytes\njobs = ({name=\"a\"; model=\"m1\"; micro_batches=4; steps=2.0;})");
	tree_write("models/models.cfg", tree_good_models);
	load(&e);
	snprintf(path, sizeof(path), "%s/../bace-bundle-%d.cfg", tree_dir(), getpid());
	write_text(path, e.text, strlen(e.text));
	tree_write("jobs/j.cfg", NULL);
	tree_write("clusters/c.cfg", "nonsense");
	assert_int_equal(experiment_load(path, &again, &d, NULL), 0);
	assert_string_equal(again.text, e.text);
	assert_int_equal(again.text_hash, e.text_hash);
	assert_string_equal(again.name, e.name);
	assert_string_equal(again.path, path);
	assert_int_equal(again.n_jobs, 1);
	experiment_free(&again);
	/* A truncated one is no experiment at all. */
	write_text(path, e.text, strlen(e.text) - 20);
	assert_int_equal(experiment_load(path, &again, &d, NULL), -EINVAL);
	assert_non_null(strstr(d.v[0].text, "damaged"));
	bace_diags_free(&d);
	unlink(path);
	experiment_free(&e);
	tree_reset();
}

/* By path and by bare name it is the same experiment. */
static void test_paths(void **state)
{
	struct bace_diags d = { 0 };
	struct experiment e;
	struct bace_err err;
	char path[256], old[4096];

	tree_reset();
	snprintf(path, sizeof(path), "%s/experiments/e.cfg", tree_dir());
	assert_int_equal(experiment_load(path, &e, &d, &err), 0);
	assert_string_equal(e.path, path);
	experiment_free(&e);
	assert_non_null(getcwd(old, sizeof(old)));
	snprintf(path, sizeof(path), "%s/experiments", tree_dir());
	assert_int_equal(chdir(path), 0);
	assert_int_equal(experiment_load("e.cfg", &e, &d, &err), 0);
	assert_string_equal(e.name, "e");
	experiment_free(&e);
	assert_int_equal(chdir(old), 0);
	assert_int_equal(d.n, 0);
}

static int each_profile(const char *kind, int (*fn)(const char *name))
{
	DIR *dir;
	struct dirent *f;
	char path[4096], name[256];
	int n = 0;

	snprintf(path, sizeof(path), BACE_SOURCE_ROOT "/profiles/%s", kind);
	dir = opendir(path);
	assert_non_null(dir);
	while ((f = readdir(dir))) {
		if (!strstr(f->d_name, ".cfg"))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strlen(f->d_name) - 4, f->d_name);
		assert_int_equal(fn(name), 0);
		n++;
	}
	closedir(dir);
	return n;
}

static int load_shipped_experiment(const char *name)
{
	struct bace_diags d = { 0 };
	struct experiment e;
	struct bace_err err;
	int rc = experiment_load(name, &e, &d, &err);

	bace_diags_print(&d, stderr);
	bace_diags_free(&d);
	experiment_free(&e);
	return rc;
}

static int load_shipped_cluster(const char *name)
{
	struct bace_diags d = { 0 };
	struct cluster c;
	struct bace_err err;
	int rc = cluster_load(name, &c, &d, &err);

	bace_diags_print(&d, stderr);
	bace_diags_free(&d);
	/* Where a region is reached at all, it is from every other here. */
	for (int i = 0; i < c.n_regions; i++)
		for (int j = 0; j < c.n_regions; j++)
			assert_true(cluster_link(&c, i, j)->present == (i != j));
	cluster_free(&c);
	return rc;
}

static void test_shipped(void **state)
{
	setenv("BACE_PROFILES", BACE_SOURCE_ROOT "/profiles", 1);
	assert_true(each_profile("experiments", load_shipped_experiment) >= 4);
	assert_true(each_profile("clusters", load_shipped_cluster) >= 7);
	setenv("BACE_PROFILES", tree_dir(), 1);
}

/* Each price file that no shipped cluster names, through one that does. */
static int load_shipped_prices(const char *name)
{
	struct bace_buf text = { 0 };
	struct bace_diags d = { 0 };
	struct cluster c;
	struct bace_err err;
	int rc;

	bace_buf_addf(&text, "regions_file = \"aws\"; links_file = \"aws-skyplane\"; prices_file = \"%s\";\n"
		      "gpu = \"A6000\"; bandwidth = \"1gbit\"; regions = ( { name = \"ireland\"; gpus = 1; },\n"
		      "{ name = \"frankfurt\"; gpus = 1; }, { name = \"us-east-2\"; gpus = 1; } );\n", name);
	tree_write("clusters/c.cfg", text.p);
	bace_buf_free(&text);
	bace_buf_addf(&text, "%s/clusters/c.cfg", tree_dir());
	rc = cluster_load(text.p, &c, &d, &err);
	bace_diags_print(&d, stderr);
	bace_diags_free(&d);
	bace_buf_free(&text);
	for (int r = 0; r < c.n_regions; r++) {
		const struct price_series *p = &c.regions[r].price;
		double mean = price_integral(p, 0, p->n > 1 ? p->period_s : 1) /
			      (p->n > 1 ? p->period_s : 1);

		assert_true(mean > 0.01 && mean < 0.5);
	}
	cluster_free(&c);
	return rc;
}

static void test_shipped_prices(void **state)
{
	setenv("BACE_PROFILES", BACE_SOURCE_ROOT "/profiles", 1);
	assert_true(each_profile("prices", load_shipped_prices) >= 4);
	setenv("BACE_PROFILES", tree_dir(), 1);
	tree_reset();
}

/* The six regions: what was measured, carried over. */
static void test_six_regions(void **state)
{
	struct bace_diags d = { 0 };
	struct experiment e;
	struct bace_err err;

	setenv("BACE_PROFILES", BACE_SOURCE_ROOT "/profiles", 1);
	assert_int_equal(experiment_load("six-regions", &e, &d, &err), 0);
	setenv("BACE_PROFILES", tree_dir(), 1);
	const struct cluster *c = &e.cluster;
	int largest = 0;

	assert_int_equal(c->n_regions, 6);
	assert_string_equal(c->regions[0].name, "ireland");
	assert_string_equal(c->regions[5].name, "sydney");
	for (int i = 0; i < 6; i++) {
		for (int j = 0; j < 6; j++) {
			const struct link *l = cluster_link(c, i, j);

			if (i == j)
				continue;
			/* skyplane's six: 22 to 256 ms there and back, 2.59 to 4.66 Gbit/s */
			assert_in_range(l->latency_ns, 11000000, 128000000);
			double goodput = goodput_bps((double)l->rate_bps, c->mtu);

			assert_true(goodput > 2.58e9 && goodput < 4.67e9);
		}
		assert_in_range(c->regions[i].n_gpus, 2, 6);
		largest = c->regions[i].n_gpus > largest ? c->regions[i].n_gpus : largest;
		assert_true(c->regions[i].price.usd_per_kwh[0] >= 0.156);
		assert_true(c->regions[i].price.usd_per_kwh[0] <= 0.295);
	}
	/* Ireland to Ohio: 76.45 ms, 4.24 Gbit/s */
	assert_int_equal(cluster_link(c, 0, 1)->latency_ns, 38225000);
	assert_true(fabs(goodput_bps((double)cluster_link(c, 0, 1)->rate_bps, 1500) - 4.24e9) < 1e6);
	/* The jobs need 1, 2, 3 and 5 nodes; a policy of one region can place them all. */
	assert_true(largest >= 5);
	const int k_min[] = { 1, 2, 3, 5 };

	for (int j = 0; j < e.n_jobs; j++) {
		struct pipeline_shape s = experiment_shape(&e, &e.jobs[j]);

		assert_int_equal(model_k_min(&e.models[e.jobs[j].model], &s, 8, 384e9), k_min[j]);
	}
	experiment_free(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cluster),	   cmocka_unit_test(test_links),
		cmocka_unit_test(test_cluster_choices), cmocka_unit_test(test_jobs_and_models),
		cmocka_unit_test(test_defaults),   cmocka_unit_test(test_everything_given),
		cmocka_unit_test(test_text), cmocka_unit_test(test_bundle),	   cmocka_unit_test(test_paths),
		cmocka_unit_test(test_shipped),	   cmocka_unit_test(test_shipped_prices),
		cmocka_unit_test(test_six_regions),
	};

	return cmocka_run_group_tests(tests, tree_setup, tree_teardown);
}
