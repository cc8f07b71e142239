#include <stdlib.h>
#include <string.h>

#include "profiles/load.h"

enum link_rates { LINK_RATES_MEASURED, LINK_RATES_MEAN_OF_ENDS };

static const char *const link_rates_names[] = { "measured", "mean-of-ends", NULL };

/* One region as the cluster file has it. */
struct member {
	char name[NAME_LEN];
	char gpu[NAME_LEN];
	struct region r;
	config_setting_t *s;
};

struct building {
	struct cfg_loader *l;
	struct cluster *out;
	struct region_table regions;
	struct link_table links;
	struct price_table prices;
	struct gpu_table gpus;
	size_t n, cap;
	struct member *members;
	char name[NAME_LEN];
	/* defaults of the file, and its choices */
	char gpu[NAME_LEN];
	double bandwidth_bps;
	int link_rates;
	bool bill_egress;
	int mtu;
};

#define B(f) offsetof(struct building, f)
#define M(f) offsetof(struct member, f)

static const struct cfg_key cluster_keys[] = {
	{ "name", CFG_NAME, 0, B(name) },
	{ "regions_file", CFG_FILE },
	{ "links_file", CFG_FILE },
	{ "prices_file", CFG_FILE },
	{ "gpus_file", CFG_FILE },
	{ "gpu", CFG_NAME, 0, B(gpu) },
	{ "bandwidth", CFG_RATE_D, 0, B(bandwidth_bps), .min = 1e3, .max = 1e14 },
	{ "link_rates", CFG_CHOICE, 0, B(link_rates), .choices = link_rates_names },
	{ "bill_egress", CFG_BOOL, 0, B(bill_egress) },
	{ "mtu", CFG_INT, 0, B(mtu), .min = 576, .max = 65535 },
	{ "regions", CFG_LIST, CFG_REQUIRED },
	{ "hosts", CFG_LIST },
};

static const struct cfg_key member_keys[] = {
	{ "name", CFG_NAME, CFG_REQUIRED, M(name) },
	{ "gpus", CFG_INT, CFG_REQUIRED, M(r.n_gpus), .min = 0, .max = 100000 },
	{ "gpu", CFG_NAME, 0, M(gpu) },
	{ "bandwidth", CFG_RATE_D, 0, M(r.bandwidth_bps), .min = 1e3, .max = 1e14 },
	{ "intra_latency", CFG_TIME_NS, 0, M(r.intra_latency_ns), .min = 0, .max = 60 },
	{ "pue", CFG_NUMBER, 0, M(r.pue), .min = 1, .max = 10 },
	{ "prefixes", CFG_ANY },
};

static config_setting_t *member_setting(const struct member *m, const char *key)
{
	config_setting_t *s = config_setting_get_member(m->s, key);

	return s ? s : m->s;
}

static bool is_given(config_setting_t *s, const char *key)
{
	return config_setting_get_member(s, key) ||
	       config_setting_get_member(config_root_setting(s->config), key);
}

static bool read_member(config_setting_t *s, void *arg)
{
	struct building *b = arg;
	struct member m = { .s = s };
	bool unique;

	m.r.bandwidth_bps = b->bandwidth_bps;
	snprintf(m.gpu, sizeof(m.gpu), "%s", b->gpu);
	cfg_read(s, member_keys, ARRAY_LEN(member_keys), &m);
	if (!*m.name || !config_setting_is_group(s))
		return false;
	if (config_setting_get_member(s, "prefixes"))
		load_prefixes(config_setting_get_member(s, "prefixes"), m.r.prefixes, &m.r.n_prefixes);
	unique = load_unique(s, "name", "region", b->members, b->n, sizeof(m), M(name), m.name);
	if (!is_given(s, "gpu"))
		cfg_missing(s, "gpu", "a type of the GPU file, here or for the whole cluster");
	if (!is_given(s, "bandwidth"))
		cfg_missing(s, "bandwidth", "a rate like \"25gbit\", here or for the whole cluster");
	if (BACE_PUSH(b->members, b->n, b->cap, m))
		return cfg_no_memory(b->l);
	return unique;
}

/* ---- what the members name ---- */

static void take_region(struct building *b, struct member *m)
{
	const struct region_table *t = &b->regions;
	int i = cfg_find_name(t->v, t->n, sizeof(*t->v), offsetof(struct region_entry, name), m->name);
	char near[256];

	snprintf(m->r.name, sizeof(m->r.name), "%s", m->name);
	if (i >= 0) {
		snprintf(m->r.location, sizeof(m->r.location), "%s", t->v[i].location);
		if (!(m->r.pue > 0))
			m->r.pue = t->v[i].pue;
		return;
	}
	load_suggest(m->name, t->v, t->n, sizeof(*t->v), offsetof(struct region_entry, name), near,
		     sizeof(near));
	if (t->complete)
		cfg_error(member_setting(m, "name"), "must be a region of the regions file%s", near);
}

static void take_gpu(struct building *b, struct member *m)
{
	const struct gpu_table *t = &b->gpus;
	char near[256];

	m->r.gpu = cfg_find_name(t->v, t->n, sizeof(*t->v), offsetof(struct gpu_type, name), m->gpu);
	if (m->r.gpu >= 0 || !*m->gpu || !t->complete)
		return;
	load_suggest(m->gpu, t->v, t->n, sizeof(*t->v), offsetof(struct gpu_type, name), near,
		     sizeof(near));
	/* The default is said once, where it stands. */
	config_setting_t *own = config_setting_get_member(m->s, "gpu");
	config_setting_t *common = config_setting_get_member(config_root_setting(m->s->config), "gpu");

	if (own || m == b->members)
		cfg_error(own ? own : common, "must be a GPU of the GPU file%s", near);
}

static bool copy_series(const struct price_series *from, struct price_series *to)
{
	*to = *from;
	to->start_s = malloc(from->n * sizeof(double));
	to->usd_per_kwh = malloc(from->n * sizeof(double));
	if (!to->start_s || !to->usd_per_kwh)
		return false;
	memcpy(to->start_s, from->start_s, from->n * sizeof(double));
	memcpy(to->usd_per_kwh, from->usd_per_kwh, from->n * sizeof(double));
	return !price_sum(to);
}

static void take_price(struct building *b, struct member *m)
{
	const struct price_table *t = &b->prices;
	size_t at = offsetof(struct price_entry, region);
	int i = cfg_find_name(t->v, t->n, sizeof(*t->v), at, m->name);
	char near[256];

	if (i >= 0) {
		if (!copy_series(&t->v[i].series, &m->r.price))
			cfg_no_memory(b->l);
		return;
	}
	load_suggest(m->name, t->v, t->n, sizeof(*t->v), at, near, sizeof(near));
	if (t->complete)
		cfg_error(member_setting(m, "name"), "has no price in the prices file%s", near);
}

/* ---- links ---- */

static int member_index(const struct building *b, const char *name)
{
	return cfg_find_name(b->members, b->n, sizeof(*b->members), M(name), name);
}

/* A link between regions that the regions file does not have is a typing error;
 * one between regions that this cluster does not use is not. */
static void check_endpoint(struct building *b, const struct link_entry *e, const char *key,
			   const char *name)
{
	const struct region_table *t = &b->regions;
	size_t at = offsetof(struct region_entry, name);
	char near[256];

	if (!t->complete || cfg_find_name(t->v, t->n, sizeof(*t->v), at, name) >= 0)
		return;
	load_suggest(name, t->v, t->n, sizeof(*t->v), at, near, sizeof(near));
	bace_diag_add(b->l->diags, b->links.file, e->line,
		      "key `%s' = \"%s\": must be a region of the regions file%s", key, name, near);
}

static void put_link(struct building *b, int src, int dst, const struct link *l)
{
	struct link *to;

	if (src < 0 || dst < 0 || src == dst)
		return;
	to = &b->out->links[(size_t)src * b->n + (size_t)dst];
	*to = *l;
	if (!b->bill_egress)
		to->usd_per_byte = 0;
	if (b->link_rates == LINK_RATES_MEAN_OF_ENDS)
		to->rate_bps = (uint64_t)((b->members[src].r.bandwidth_bps +
					   b->members[dst].r.bandwidth_bps) / 2);
}

static void take_links(struct building *b)
{
	for (size_t i = 0; i < b->links.n; i++) {
		const struct link_entry *e = &b->links.v[i];
		int src = member_index(b, e->from), dst = member_index(b, e->to);

		check_endpoint(b, e, "from", e->from);
		check_endpoint(b, e, "to", e->to);
		put_link(b, src, dst, &e->link);
		if (e->both_ways)
			put_link(b, dst, src, &e->link);
	}
}

static void check_reach(struct building *b)
{
	for (size_t i = 0; i < b->n && b->n > 1; i++) {
		int out = 0, one_way = -1;

		for (size_t j = 0; j < b->n; j++) {
			bool to = b->out->links[i * b->n + j].present;
			bool from = b->out->links[j * b->n + i].present;

			out += to || from;
			if (to && !from)
				one_way = (int)j;
		}
		if (!out)
			cfg_error(member_setting(&b->members[i], "name"),
				  "no link of the links file reaches this region from another here");
		if (one_way >= 0)
			cfg_error(member_setting(&b->members[i], "name"),
				  "there is a link to %s and none back: gradients go the other way",
				  b->members[one_way].name);
	}
}

/* ---- the whole ---- */

static void check_members(struct building *b, config_setting_t *list)
{
	int gpus = 0;

	for (size_t i = 0; i < b->n; i++) {
		struct member *m = &b->members[i];

		gpus += m->r.n_gpus;
		take_region(b, m);
		take_gpu(b, m);
		take_price(b, m);
	}
	if (b->n && !gpus)
		cfg_error(list, "no region has a GPU: at least one needs `gpus' above 0");
	if (b->n > REGIONS_MAX)
		cfg_error(list, "has %zu regions: at most %d", b->n, REGIONS_MAX);
}

/* Only the types that some region has, in the order of the GPU file. */
static bool keep_gpus(struct building *b)
{
	struct cluster *c = b->out;
	CLEANUP_FREE int *kept = calloc(b->gpus.n + 1, sizeof(*kept));

	c->gpus = calloc(b->gpus.n + 1, sizeof(*c->gpus));
	if (!kept || !c->gpus)
		return cfg_no_memory(b->l);
	for (int r = 0; r < c->n_regions; r++)
		if (c->regions[r].gpu >= 0)
			kept[c->regions[r].gpu] = 1;
	for (size_t g = 0; g < b->gpus.n; g++) {
		if (!kept[g])
			continue;
		c->gpus[c->n_gpus] = b->gpus.v[g];
		kept[g] = c->n_gpus++;
	}
	for (int r = 0; r < c->n_regions; r++)
		if (c->regions[r].gpu >= 0)
			c->regions[r].gpu = kept[c->regions[r].gpu];
	return true;
}

static void finish(struct building *b, bool complete)
{
	struct cluster *c = b->out;

	c->links = calloc(b->n * b->n, sizeof(*c->links));
	c->regions = calloc(b->n, sizeof(*c->regions));
	if (!c->links || !c->regions) {
		cfg_no_memory(b->l);
		for (size_t i = 0; i < b->n; i++)
			price_series_free(&b->members[i].r.price);
		return;
	}
	c->n_regions = (int)b->n;
	for (size_t i = 0; i < b->n; i++)
		c->regions[i] = b->members[i].r;
	c->mtu = (unsigned)b->mtu;
	if (!keep_gpus(b))
		return;
	take_links(b);
	if (complete && b->links.complete)
		check_reach(b);
}

static void load_files(struct building *b, config_setting_t *root)
{
	CLEANUP_FREE char *regions = cfg_reference(root, "regions_file", "regions", NULL);
	CLEANUP_FREE char *links = cfg_reference(root, "links_file", "links", NULL);
	CLEANUP_FREE char *prices = cfg_reference(root, "prices_file", "prices", NULL);
	CLEANUP_FREE char *gpus = cfg_reference(root, "gpus_file", "gpus", "gpus");
	config_setting_t *mtu = config_setting_get_member(root, "mtu");

	if (regions)
		load_regions(b->l, regions, &b->regions);
	if (links)
		load_links(b->l, links, &b->links);
	if (prices)
		load_prices(b->l, prices, &b->prices);
	if (gpus)
		load_gpus(b->l, gpus, &b->gpus);
	if (!mtu && b->links.mtu)
		b->mtu = (int)b->links.mtu;
	if (mtu && b->links.mtu && b->mtu != (int)b->links.mtu &&
	    b->link_rates == LINK_RATES_MEASURED)
		cfg_error(mtu, "the rates of the links file were converted for an MTU of %u",
			  b->links.mtu);
}

void load_cluster(struct cfg_loader *l, const char *path, struct cluster *out)
{
	struct building b = { .l = l, .out = out, .mtu = 1500 };
	config_setting_t *root, *list;
	struct cfg_file f;

	load_default_name(path, b.name);
	if (cfg_open(l, path, &f)) {
		root = cfg_root(&f);
		list = config_setting_get_member(root, "regions");
		cfg_read(root, cluster_keys, ARRAY_LEN(cluster_keys), &b);
		load_files(&b, root);
		if (list && config_setting_is_list(list)) {
			bool complete = load_each(list, read_member, &b);

			check_members(&b, list);
			if (b.n)
				finish(&b, complete);
			if (b.n && out->regions)
				load_hosts(l, config_setting_get_member(root, "hosts"), out);
		}
	}
	cfg_close(&f);
	memcpy(out->name, b.name, sizeof(out->name));
	free(b.members);
	free(b.regions.v);
	free(b.links.v);
	price_table_free(&b.prices);
	free(b.gpus.v);
}
