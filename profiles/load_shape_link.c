#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiles/load_shape.h"
#include "profiles/names.h"

#define P(f) offsetof(struct entry, path.f)
#define RATE_MIN_BPS 8e3
#define RATE_MAX_BPS 4e12
#define BUFFER_MAX_BYTES 4e9

/* One element of the list. */
struct entry {
	char from[NAME_LEN], to[NAME_LEN];
	bool both_ways;
	struct shape_path path;
};

static const struct cfg_key link_keys[] = {
	{ "from", CFG_NAME, CFG_REQUIRED, offsetof(struct entry, from) },
	{ "to", CFG_NAME, CFG_REQUIRED, offsetof(struct entry, to) },
	{ "both_ways", CFG_BOOL, 0, offsetof(struct entry, both_ways) },
	{ "rate", CFG_RATE, 0, P(link.rate_bps), .min = RATE_MIN_BPS, .max = RATE_MAX_BPS },
	{ "latency", CFG_TIME_NS, 0, P(link.latency_ns), .min = 0, .max = 60 },
	{ "own_latency", CFG_TIME_NS, 0, P(own_latency_ns), .min = 0, .max = 60 },
	{ "jitter", CFG_TIME_NS, 0, P(link.jitter_ns), .min = 0, .max = 60 },
	{ "jitter_distribution", CFG_CHOICE, 0, P(link.jitter_dist), .choices = jitter_names },
	{ "jitter_table", CFG_ANY },
	{ "jitter_correlation", CFG_NUMBER, 0, P(impair.jitter_corr), .min = 0, .max = 1 },
	{ "buffer", CFG_ANY },
	{ "message", CFG_SIZE, CFG_ABOVE, P(message_bytes), .min = 0, .max = BUFFER_MAX_BYTES },
	{ "loss", CFG_NUMBER, 0, P(link.loss), .min = 0, .max = 1 },
	{ "loss_correlation", CFG_NUMBER, 0, P(impair.loss_corr), .min = 0, .max = 1 },
	{ "gilbert_elliott", CFG_GROUP },
	{ "four_state", CFG_GROUP },
	{ "duplicate", CFG_NUMBER, 0, P(impair.duplicate), .min = 0, .max = 1 },
	{ "duplicate_correlation", CFG_NUMBER, 0, P(impair.duplicate_corr), .min = 0, .max = 1 },
	{ "corrupt", CFG_NUMBER, 0, P(impair.corrupt), .min = 0, .max = 1 },
	{ "corrupt_correlation", CFG_NUMBER, 0, P(impair.corrupt_corr), .min = 0, .max = 1 },
	{ "reorder", CFG_NUMBER, 0, P(impair.reorder), .min = 0, .max = 1 },
	{ "reorder_correlation", CFG_NUMBER, 0, P(impair.reorder_corr), .min = 0, .max = 1 },
	{ "reorder_gap", CFG_INT, 0, P(impair.reorder_gap), .min = 1, .max = 1000000 },
	{ "ecn", CFG_BOOL, 0, P(impair.ecn) },
	{ "seed", CFG_SEED, 0, P(impair.seed) },
};

/* The order of struct shape_impair's loss_p. */
static const struct cfg_key gilbert_elliott_keys[] = {
	{ "to_bad", CFG_NUMBER, CFG_REQUIRED, 0 * sizeof(double), .min = 0, .max = 1 },
	{ "to_good", CFG_NUMBER, CFG_REQUIRED, 1 * sizeof(double), .min = 0, .max = 1 },
	{ "loss_bad", CFG_NUMBER, 0, 2 * sizeof(double), .min = 0, .max = 1 },
	{ "loss_good", CFG_NUMBER, 0, 3 * sizeof(double), .min = 0, .max = 1 },
};

static const struct cfg_key four_state_keys[] = {
	{ "p13", CFG_NUMBER, CFG_REQUIRED, 0 * sizeof(double), .min = 0, .max = 1 },
	{ "p31", CFG_NUMBER, CFG_REQUIRED, 1 * sizeof(double), .min = 0, .max = 1 },
	{ "p32", CFG_NUMBER, 0, 2 * sizeof(double), .min = 0, .max = 1 },
	{ "p14", CFG_NUMBER, 0, 3 * sizeof(double), .min = 0, .max = 1 },
	{ "p23", CFG_NUMBER, 0, 4 * sizeof(double), .min = 0, .max = 1 },
};

static int by_ends(const void *a, const void *b)
{
	const struct shape_path *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return x->line - y->line;
}

static bool add_path(struct shape_building *b, const struct shape_path *p)
{
	return !BACE_PUSH(b->out->paths, b->n_paths, b->cap_paths, *p) || cfg_no_memory(b->l);
}

/* ---- the base ---- */
static void add_base(struct shape_building *b, const char *from, const char *to, const struct link *l)
{
	struct shape_path p = { .from = shape_region_find(b, from), .to = shape_region_find(b, to), .link = *l,
				.own_latency_ns = b->own_latency_ns };

	if (p.from < 0 || p.to < 0 || p.from == p.to)
		return;
	if (l->buffer_bytes) {
		p.buffer = BUFFER_BYTES;
		p.buffer_value = (double)l->buffer_bytes;
	}
	add_path(b, &p);
}

static void base_from_cluster(struct shape_building *b, const char *path)
{
	struct cluster c = { 0 };
	size_t errors = b->l->diags->n;

	load_cluster(b->l, path, &c);
	/* Every region must be one of the cluster's: the file says it is that cluster. */
	for (size_t i = 0; i < b->n_regions && b->l->diags->n == errors; i++) {
		size_t at = offsetof(struct region, name);
		const char *name = b->out->regions[i].name;
		char near[256];

		if (cfg_find_name(c.regions, (size_t)c.n_regions, sizeof(*c.regions), at, name) >= 0)
			continue;
		load_suggest(name, c.regions, (size_t)c.n_regions, sizeof(*c.regions), at, near, sizeof(near));
		cfg_error(config_setting_get_member(b->region_settings[i], "name"),
			  "must be a region of the cluster%s", near);
		errors = b->l->diags->n;
	}
	for (int i = 0; i < c.n_regions && c.links; i++)
		for (int j = 0; j < c.n_regions; j++)
			if (cluster_link(&c, i, j)->present)
				add_base(b, c.regions[i].name, c.regions[j].name, cluster_link(&c, i, j));
	if (!b->mtu)
		b->mtu = (int)c.mtu;
	cluster_free(&c);
}

static void base_from_links(struct shape_building *b, const char *path)
{
	struct link_table t = { 0 };

	load_links(b->l, path, &t);
	for (size_t i = 0; i < t.n; i++) {
		add_base(b, t.v[i].from, t.v[i].to, &t.v[i].link);
		if (t.v[i].both_ways)
			add_base(b, t.v[i].to, t.v[i].from, &t.v[i].link);
	}
	if (!b->mtu)
		b->mtu = (int)t.mtu;
	free(t.v);
}

void load_shape_base(struct shape_building *b, config_setting_t *root)
{
	config_setting_t *cluster = config_setting_get_member(root, "cluster");
	config_setting_t *links = config_setting_get_member(root, "links_file");
	CLEANUP_FREE char *path = NULL;

	if (cluster && links) {
		cfg_error(links, "the cluster names a links file already: one of the two");
		return;
	}
	if (cluster)
		path = cfg_reference(root, "cluster", "clusters", NULL);
	else if (links)
		path = cfg_reference(root, "links_file", "links", NULL);
	else if (!config_setting_get_member(root, "links"))
		cfg_missing(root, "links", "what the links are: here, or by `cluster' or `links_file'");
	if (path && cluster)
		base_from_cluster(b, path);
	else if (path)
		base_from_links(b, path);
	if (b->n_paths)
		qsort(b->out->paths, b->n_paths, sizeof(*b->out->paths), by_ends);
}

/* ---- the list ---- */

/* "1.5bdp", a time at the link's rate, or bytes. */
static void read_buffer(config_setting_t *s, struct shape_path *p)
{
	const char *text = config_setting_get_string(s);
	size_t n = text ? strlen(text) : 0;
	uint64_t bytes;
	int64_t ns;
	char *end;

	p->buffer_value = 0;
	if (n > 3 && !strcmp(text + n - 3, "bdp") && text[0] >= '0' && text[0] <= '9') {
		p->buffer = BUFFER_BDP;
		p->buffer_value = strtod(text, &end);
		if (end != text + n - 3 || p->buffer_value > 1000)
			p->buffer_value = 0;
	} else if (text && !bace_parse_time_ns(text, &ns, NULL)) {
		p->buffer = BUFFER_SECONDS;
		p->buffer_value = (double)ns / 1e9;
	} else if (text && !bace_parse_size_bytes(text, &bytes, NULL)) {
		p->buffer = BUFFER_BYTES;
		p->buffer_value = (double)bytes;
	}
	if (!(p->buffer_value > 0) || (p->buffer == BUFFER_BYTES && p->buffer_value > BUFFER_MAX_BYTES) ||
	    (p->buffer == BUFFER_SECONDS && p->buffer_value > 3600))
		cfg_error(s, "must be above 0, as a multiple of the bandwidth-delay product (\"1.5bdp\"), a time "
			  "at the rate (\"200ms\") or a size below 4 GB (\"4MB\")");
}

static void read_loss_model(config_setting_t *s, struct shape_path *p)
{
	config_setting_t *ge = config_setting_get_member(s, "gilbert_elliott");
	config_setting_t *four = config_setting_get_member(s, "four_state");
	double *v = p->impair.loss_p;

	if (!ge && !four)
		return;
	if (ge && four)
		cfg_error(four, "there is a gilbert_elliott model already: one of the two");
	if (config_setting_get_member(s, "loss") || config_setting_get_member(s, "loss_correlation"))
		cfg_error(ge ? ge : four, "a loss model has its own probabilities: it stands in the place of `loss'");
	p->link.loss = p->impair.loss_corr = 0;
	if (ge && config_setting_is_group(ge)) {
		p->impair.loss_model = LOSS_GILBERT_ELLIOTT;
		memcpy(v, (double[5]){ [2] = 1 }, sizeof(p->impair.loss_p));
		cfg_read(ge, gilbert_elliott_keys, ARRAY_LEN(gilbert_elliott_keys), v);
	} else if (!ge && config_setting_is_group(four)) {
		p->impair.loss_model = LOSS_4STATE;
		memcpy(v, (double[5]){ [4] = 1 }, sizeof(p->impair.loss_p));
		cfg_read(four, four_state_keys, ARRAY_LEN(four_state_keys), v);
	}
}

static void read_table(struct shape_building *b, config_setting_t *s, struct shape_path *p)
{
	config_setting_t *table = config_setting_get_member(s, "jitter_table");

	if (!table)
		return;
	if (config_setting_get_member(s, "jitter_distribution"))
		cfg_error(table, "there is a jitter_distribution already: one of the two");
	p->link.jitter_dist = JITTER_TABLE;
	p->jitter_table = load_shape_table(b, table);
}

/* The setting of a key, or what it stands in. */
static config_setting_t *at(config_setting_t *s, const char *key)
{
	config_setting_t *m = config_setting_get_member(s, key);

	return m ? m : s;
}

static void check_jitter(config_setting_t *s, struct shape_path *p)
{
	config_setting_t *dist = config_setting_get_member(s, "jitter_distribution");

	if (p->link.jitter_ns > p->link.latency_ns)
		cfg_error(at(s, "jitter"), "must be at most the latency: no packet arrives before it was sent");
	if (p->link.jitter_ns && dist && p->link.jitter_dist == JITTER_NONE)
		cfg_error(dist, "must be one of the others where there is jitter");
	if (p->link.jitter_ns && p->link.jitter_dist == JITTER_NONE)
		p->link.jitter_dist = JITTER_UNIFORM;
	if (!p->link.jitter_ns && dist && p->link.jitter_dist != JITTER_NONE)
		cfg_missing(s, "jitter", "there is a jitter_distribution");
	if (!p->link.jitter_ns && config_setting_get_member(s, "jitter_table"))
		cfg_missing(s, "jitter", "there is a jitter_table");
	if (!p->link.jitter_ns && p->impair.jitter_corr > 0)
		cfg_missing(s, "jitter", "there is a jitter_correlation");
}

/* What depends on another key, once what is given stands over the base. */
static void check_link(config_setting_t *s, struct shape_path *p)
{
	char own[BACE_FMT_MAX];

	check_jitter(s, p);
	if (p->link.latency_ns && p->own_latency_ns > p->link.latency_ns)
		cfg_error(at(s, "latency"), "is below the %s that the path itself takes",
			  bace_fmt_time(own, (double)p->own_latency_ns / 1e9));
	if (p->impair.reorder > 0 && !p->link.latency_ns)
		cfg_error(at(s, "reorder"), "needs a latency: packets sent at once overtake those that wait");
	if (p->impair.reorder_gap && !(p->impair.reorder > 0))
		cfg_error(at(s, "reorder_gap"), "needs reorder above 0");
	if (!p->link.rate_bps && p->buffer != BUFFER_COMPUTED)
		cfg_error(at(s, "buffer"), "needs a rate: only a link that is limited has a queue");
}

/* Keys that are given, over what the path has from the base. The values have
 * been checked once: this reading says nothing new. */
static void overlay(config_setting_t *s, const struct shape_path *base, const struct shape_path *read,
		    struct shape_path *to)
{
	struct entry e = { .path = *base };

	cfg_read(s, link_keys, ARRAY_LEN(link_keys), &e);
	if (config_setting_get_member(s, "buffer")) {
		e.path.buffer = read->buffer;
		e.path.buffer_value = read->buffer_value;
	}
	if (config_setting_get_member(s, "jitter_table")) {
		e.path.link.jitter_dist = JITTER_TABLE;
		e.path.jitter_table = read->jitter_table;
	}
	if (read->impair.loss_model != LOSS_RANDOM) {
		e.path.impair.loss_model = read->impair.loss_model;
		memcpy(e.path.impair.loss_p, read->impair.loss_p, sizeof(e.path.impair.loss_p));
		e.path.link.loss = e.path.impair.loss_corr = 0;
	}
	e.path.from = to->from;
	e.path.to = to->to;
	*to = e.path;
	to->line = (int)config_setting_source_line(s);
}

static bool put_path(struct shape_building *b, config_setting_t *s, const struct entry *e, int from, int to,
		     size_t n_base)
{
	struct shape_path p = { .from = from, .to = to }, *base;

	base = n_base ? bsearch(&p, b->out->paths, n_base, sizeof(p), by_ends) : NULL;
	if (!base) {
		p = e->path;
		p.from = from;
		p.to = to;
		p.line = (int)config_setting_source_line(s);
		if (!config_setting_get_member(s, "own_latency"))
			p.own_latency_ns = b->own_latency_ns;
		check_link(s, &p);
		return add_path(b, &p);
	}
	/* Looked up as untouched: a second entry finds none, and is a duplicate. */
	struct shape_path changed = { .from = from, .to = to };

	overlay(s, base, &e->path, &changed);
	check_link(s, &changed);
	base->line = -1;
	return add_path(b, &changed);
}

struct reading {
	struct shape_building *b;
	size_t n_base;
};

static int find_end(struct shape_building *b, config_setting_t *s, const char *key, const char *name)
{
	int i = *name ? shape_region_find(b, name) : -1;
	char near[256];

	if (i >= 0 || !*name || !b->complete)
		return i;
	shape_region_suggest(b, name, near, sizeof(near));
	cfg_error(config_setting_get_member(s, key), "must be a region of this file%s", near);
	return -1;
}

static bool read_link(config_setting_t *s, void *arg)
{
	struct reading *r = arg;
	size_t errors = r->b->l->diags->n;
	struct entry e = { .path.link.present = true };
	bool ok = cfg_read(s, link_keys, ARRAY_LEN(link_keys), &e);
	config_setting_t *buffer;
	int from, to;

	if (!config_setting_is_group(s))
		return false;
	buffer = config_setting_get_member(s, "buffer");
	if (buffer)
		read_buffer(buffer, &e.path);
	read_loss_model(s, &e.path);
	read_table(r->b, s, &e.path);
	from = find_end(r->b, s, "from", e.from);
	to = find_end(r->b, s, "to", e.to);
	if (from < 0 || to < 0)
		return false;
	if (from == to) {
		cfg_error(config_setting_get_member(s, "to"), "must not be the same region: what stays inside one is not shaped");
		return false;
	}
	if (!ok || !put_path(r->b, s, &e, from, to, r->n_base))
		return false;
	/* What is wrong with one direction is said once. */
	if (!e.both_ways || r->b->l->diags->n > errors)
		return true;
	return put_path(r->b, s, &e, to, from, r->n_base);
}

void load_shape_links(struct shape_building *b, config_setting_t *list)
{
	struct reading r = { b, b->n_paths };

	load_each(list, read_link, &r);
}

/* ---- in the end ---- */
static void refuse_twice(struct shape_building *b, const struct shape_path *first, const struct shape_path *again)
{
	bace_diag_add(b->l->diags, b->out->path, again->line, "the link from %s to %s is in line %d already",
		      b->out->regions[again->from].name, b->out->regions[again->to].name, first->line);
}

/* Drops what the list has changed, refuses what it says twice. */
static void settle(struct shape_building *b)
{
	struct shape_path *v = b->out->paths;
	size_t kept = 0;

	if (b->n_paths)
		qsort(v, b->n_paths, sizeof(*v), by_ends);
	for (size_t i = 0; i < b->n_paths; i++) {
		if (v[i].line < 0)
			continue;
		if (kept && v[kept - 1].from == v[i].from && v[kept - 1].to == v[i].to) {
			refuse_twice(b, &v[kept - 1], &v[i]);
			continue;
		}
		v[kept++] = v[i];
	}
	b->n_paths = kept;
}

static void check_base(struct shape_building *b, config_setting_t *root)
{
	char latency[BACE_FMT_MAX], own[BACE_FMT_MAX];

	for (size_t i = 0; i < b->n_paths; i++) {
		const struct shape_path *p = &b->out->paths[i];

		if (!p->line && p->link.latency_ns && p->own_latency_ns > p->link.latency_ns)
			cfg_error(at(root, "own_latency"), "the link from %s to %s has a latency of %s, below the %s that the "
				  "path itself takes", b->out->regions[p->from].name, b->out->regions[p->to].name,
				  bace_fmt_time(latency, (double)p->link.latency_ns / 1e9),
				  bace_fmt_time(own, (double)p->own_latency_ns / 1e9));
	}
}

void load_shape_check(struct shape_building *b, config_setting_t *root)
{
	CLEANUP_FREE bool *linked = calloc(b->n_regions + 1, sizeof(*linked));

	settle(b);
	check_base(b, root);
	if (!linked) {
		cfg_no_memory(b->l);
		return;
	}
	for (size_t i = 0; i < b->n_paths; i++)
		linked[b->out->paths[i].from] = linked[b->out->paths[i].to] = true;
	for (size_t i = 0; i < b->n_regions && b->complete && !cfg_loader_status(b->l, 0, NULL); i++)
		if (!linked[i])
			cfg_error(config_setting_get_member(b->region_settings[i], "name"),
				  "no link leads to this region or from it");
}
