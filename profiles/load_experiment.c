#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profiles/load.h"
#include "profiles/names.h"

#define O(f) offsetof(struct experiment, f)

static const struct cfg_key experiment_keys[] = {
	{ "name", CFG_NAME, 0, O(name) },
	{ "seed", CFG_SEED, 0, O(seed) },
	{ "cluster", CFG_FILE, CFG_REQUIRED },
	{ "jobs", CFG_FILE, CFG_REQUIRED },
	{ "models_file", CFG_FILE },
	{ "policies", CFG_LIST, CFG_REQUIRED },
	{ "schedule", CFG_CHOICE, 0, O(schedule), .choices = schedule_names },
	{ "interleave", CFG_INT, 0, O(interleave), .min = 1, .max = 64 },
	{ "overlap", CFG_BOOL, 0, O(overlap) },
	{ "k_limit", CFG_ANY },
	{ "bill_idle", CFG_BOOL, 0, O(bill_idle) },
	{ "oracles", CFG_ANY },
	{ "view", CFG_GROUP },
	{ "testbed", CFG_GROUP },
};

static const struct cfg_key k_limit_key = { "k_limit", CFG_INT, 0, 0, .min = 1, .max = K_LIMIT_MAX };

static void set_defaults(struct experiment *e)
{
	*e = (struct experiment){
		.seed = 1,
		.schedule = SCHED_1F1B,
		.interleave = 1,
		.overlap = true,
		.k_limit = K_LIMIT_LAYERS,
		.testbed = { .max_ranks = 64, .scale_bytes = 1, .scale_time = 1, .warmup_steps = 1, .steady_steps = 3,
			     .steps = 3, .verify_s = 1, .congestion_control = "cubic",
			     .hosts_per_region = 1, .sockets_per_hop = 1 },
	};
}

static void read_k_limit(config_setting_t *s, struct experiment *e)
{
	const char *text = s ? config_setting_get_string(s) : NULL;

	if (!s || (text && !strcmp(text, "layers")))
		return;
	if (text || config_setting_is_aggregate(s)) {
		cfg_error(s, "must be \"layers\" or a whole number from 1 to %d", K_LIMIT_MAX);
		return;
	}
	if (cfg_read_value(s, &k_limit_key, &e->k_limit_n))
		e->k_limit = K_LIMIT_N;
}

static void read_oracles(config_setting_t *s, struct experiment *e)
{
	static const char *const names[] = { "closed-form", "event-sim", "measured", NULL };
	static const struct cfg_key key = { "oracles", CFG_CHOICE, .choices = names };
	bool *on[] = { &e->oracle_closed_form, &e->oracle_event_sim, &e->oracle_measured };

	if (!s) {
		e->oracle_closed_form = e->oracle_event_sim = true;
		return;
	}
	if (!config_setting_is_array(s) || !config_setting_length(s)) {
		cfg_error(s, "must be an array of \"closed-form\", \"event-sim\", \"measured\"");
		return;
	}
	for (int i = 0; i < config_setting_length(s); i++) {
		config_setting_t *one = config_setting_get_elem(s, (unsigned)i);
		int which;

		if (!cfg_read_value(one, &key, &which))
			continue;
		if (*on[which])
			cfg_error(one, "is there before: each once");
		*on[which] = true;
	}
}

static void check_interleave(config_setting_t *root, const struct experiment *e)
{
	config_setting_t *s = config_setting_get_member(root, "interleave");
	bool interleaved = e->schedule == SCHED_INTERLEAVED_1F1B;

	if (s && !interleaved && e->interleave > 1)
		cfg_error(s, "must be 1 unless schedule = \"interleaved-1f1b\"");
	if (interleaved && s && e->interleave < 2)
		cfg_error(s, "must be at least 2 with schedule = \"interleaved-1f1b\"");
	if (interleaved && !s)
		cfg_missing(root, "interleave", "the chunks a stage, at least 2, with "
			    "schedule = \"interleaved-1f1b\"");
}

static void load_parts(struct cfg_loader *l, config_setting_t *root, struct experiment *e)
{
	CLEANUP_FREE char *cluster = cfg_reference(root, "cluster", "clusters", "");
	CLEANUP_FREE char *jobs = cfg_reference(root, "jobs", "jobs", "");
	CLEANUP_FREE char *models = cfg_reference(root, "models_file", "models", "models");
	struct model_table catalogue = { 0 };
	size_t before = l->diags->n;
	bool cluster_known;

	if (cluster)
		load_cluster(l, cluster, &e->cluster);
	cluster_known = cluster && !l->rc && l->diags->n == before;
	if (models)
		load_models(l, models, &catalogue);
	if (jobs)
		load_jobs(l, jobs, &catalogue, cluster_known, e);
	free(catalogue.v);
}

static void load_root(struct cfg_loader *l, config_setting_t *root, struct experiment *e)
{
	config_setting_t *policies = config_setting_get_member(root, "policies");
	config_setting_t *testbed = config_setting_get_member(root, "testbed");

	cfg_read(root, experiment_keys, ARRAY_LEN(experiment_keys), e);
	read_k_limit(config_setting_get_member(root, "k_limit"), e);
	read_oracles(config_setting_get_member(root, "oracles"), e);
	check_interleave(root, e);
	if (policies)
		load_policies(policies, e);
	load_view(config_setting_get_member(root, "view"), &e->view);
	load_testbed(testbed, &e->testbed);
	if (e->testbed.transport == TRANSPORT_NCCL && e->schedule == SCHED_INTERLEAVED_1F1B)
		cfg_error(config_setting_get_member(testbed, "transport"),
			  "must be \"tcp\" with schedule = \"interleaved-1f1b\"");
	/* Without overlap, workers need to know the link; then they see to their buffers. */
	if (e->testbed.socket_buffer_bytes && !e->overlap)
		cfg_error(config_setting_get_member(testbed, "socket_buffer"),
			  "must not be given with overlap = false");
	load_parts(l, root, e);
	if (testbed && !l->rc && e->cluster.n_regions && e->cluster.links)
		load_disturb(config_setting_get_member(testbed, "disturb"), &e->cluster, &e->testbed);
}

/* The path of what was asked for on the command line; a wrong one is bad input. */
char *load_find_top(struct cfg_loader *l, const char *kind, const char *name)
{
	char *path = cfg_resolve(kind, name, NULL);
	CLEANUP_FREE char *text = NULL;
	struct bace_err err;
	char near[CFG_SUGGEST_MAX];
	size_t len;

	if (!path) {
		cfg_no_memory(l);
		return NULL;
	}
	if (!bace_read_file(path, CFG_FILE_MAX, &text, &len, &err)) {
		if (cfg_bundle_is(text, len) && !cfg_bundle_take(l, path, STEAL_PTR(text), len))
			free(STEAL_PTR(path));
		return path;
	}
	free(path);
	if (err.errnum == ENOMEM) {
		cfg_no_memory(l);
		return NULL;
	}
	cfg_suggest_profile(kind, name, near);
	bace_diag_add(l->diags, name, 0, "%s%s", err.msg, near);
	return NULL;
}

int experiment_load(const char *path, struct experiment *out, struct bace_diags *diags,
		    struct bace_err *err)
{
	struct cfg_loader l = { .diags = diags };
	size_t since = diags->n;
	struct cfg_file f;
	int rc;

	set_defaults(out);
	out->path = load_find_top(&l, "experiments", path);
	if (out->path) {
		const char *top = l.bundle.n ? l.bundle.v[0].path : out->path;

		load_default_name(top, out->name);
		if (cfg_open(&l, top, &f))
			load_root(&l, cfg_root(&f), out);
		cfg_close(&f);
	}
	/* The policies borrow the names. */
	out->files = STEAL_PTR(l.files);
	out->n_files = (int)l.n_files;
	l.n_files = 0;
	out->text_hash = bace_hash64(l.text.p ? l.text.p : "", l.text.len, 0);
	out->text = STEAL_PTR(l.text.p);
	rc = cfg_loader_status(&l, since, err);
	cfg_loader_free(&l);
	if (rc)
		experiment_free(out);
	return rc;
}

void experiment_free(struct experiment *e)
{
	cluster_free(&e->cluster);
	disturb_free(&e->testbed);
	for (int i = 0; i < e->n_policies; i++)
		free(e->policies[i].command);
	for (int i = 0; i < e->n_files; i++)
		free(e->files[i]);
	free(e->policies);
	free(e->models);
	free(e->jobs);
	free(e->files);
	free(e->text);
	free(e->path);
	*e = (struct experiment){ 0 };
}

int cluster_load(const char *name_or_path, struct cluster *out, struct bace_diags *diags,
		 struct bace_err *err)
{
	struct cfg_loader l = { .diags = diags };
	size_t since = diags->n;
	int rc;

	*out = (struct cluster){ 0 };
	CLEANUP_FREE char *path = load_find_top(&l, "clusters", name_or_path);
	if (path)
		load_cluster(&l, l.bundle.n ? l.bundle.v[0].path : path, out);
	rc = cfg_loader_status(&l, since, err);
	cfg_loader_free(&l);
	if (rc)
		cluster_free(out);
	return rc;
}

int models_load(const char *name_or_path, struct model **out, size_t *n, struct bace_diags *diags,
		struct bace_err *err)
{
	struct cfg_loader l = { .diags = diags };
	struct model_table t = { 0 };
	size_t since = diags->n;
	int rc;

	CLEANUP_FREE char *path = load_find_top(&l, "models", name_or_path);
	if (path)
		load_models(&l, path, &t);
	rc = cfg_loader_status(&l, since, err);
	cfg_loader_free(&l);
	if (rc)
		free(t.v);
	*out = rc ? NULL : t.v;
	*n = rc ? 0 : t.n;
	return rc;
}

static void take_prices(const char *path, const struct price_table *t, const struct cluster *c,
			struct price_series *out, struct cfg_loader *l)
{
	for (int r = 0; r < c->n_regions; r++) {
		int at = cfg_find_name(t->v, t->n, sizeof(*t->v), offsetof(struct price_entry, region),
				       c->regions[r].name);

		if (at < 0) {
			bace_diag_add(l->diags, path, 0, "has no price of region `%s'", c->regions[r].name);
			continue;
		}
		out[r] = t->v[at].series;
		t->v[at].series = (struct price_series){ 0 };
	}
}

int cluster_prices_load(const char *name_or_path, const struct cluster *c, struct price_series *out,
			struct bace_diags *diags, struct bace_err *err)
{
	struct cfg_loader l = { .diags = diags };
	struct price_table t = { 0 };
	size_t since = diags->n;
	int rc;

	memset(out, 0, (size_t)c->n_regions * sizeof(*out));
	CLEANUP_FREE char *path = load_find_top(&l, "prices", name_or_path);
	if (path)
		load_prices(&l, path, &t);
	if (path && diags->n == since)
		take_prices(path, &t, c, out, &l);
	rc = cfg_loader_status(&l, since, err);
	price_table_free(&t);
	cfg_loader_free(&l);
	return rc;
}

void cluster_free(struct cluster *c)
{
	for (int r = 0; r < c->n_regions; r++)
		price_series_free(&c->regions[r].price);
	free(c->regions);
	free(c->links);
	free(c->gpus);
	free(c->hosts);
	*c = (struct cluster){ 0 };
}
