#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profiles/load_shape.h"
#include "profiles/names.h"

#define F(f) offsetof(struct shape_file, f)
#define R(f) offsetof(struct shape_region, f)
#define H(f) offsetof(struct shape_host, f)

static const struct cfg_key file_keys[] = {
	{ "name", CFG_NAME, 0, F(name) },
	{ "cluster", CFG_FILE },
	{ "links_file", CFG_FILE },
	{ "mode", CFG_CHOICE, 0, F(mode), .choices = shape_mode_names },
	{ "delay", CFG_CHOICE, 0, F(delay), .choices = shape_delay_names },
	{ "mtu", CFG_ANY },
	{ "gso_max", CFG_SIZE, 0, F(gso_max_bytes), .min = 2048, .max = 524280 },
	{ "own_latency", CFG_ANY },
	{ "regions", CFG_LIST, CFG_REQUIRED },
	{ "hosts", CFG_LIST, CFG_REQUIRED },
	{ "links", CFG_LIST },
};

static const struct cfg_key mtu_key = { "mtu", CFG_INT, 0, 0, .min = 576, .max = 65535 };
static const struct cfg_key own_latency_key = { "own_latency", CFG_TIME_NS, 0, 0, .min = 0, .max = 60 };

static const struct cfg_key region_keys[] = {
	{ "name", CFG_NAME, CFG_REQUIRED, R(name) },
	{ "prefixes", CFG_ANY, CFG_REQUIRED },
	{ "probe", CFG_TEXT, 0, R(probe), .max = sizeof(((struct shape_region *)0)->probe) },
};

struct host_entry {
	struct shape_host h;
	char region[NAME_LEN];
};

static const struct cfg_key host_keys[] = {
	{ "name", CFG_NAME, 0, H(name) },
	{ "region", CFG_NAME, CFG_REQUIRED, offsetof(struct host_entry, region) },
	{ "egress", CFG_TEXT, CFG_REQUIRED, H(egress), .max = sizeof(((struct shape_host *)0)->egress) },
	{ "ingress", CFG_TEXT, 0, H(ingress), .max = sizeof(((struct shape_host *)0)->ingress) },
};

/* ---- regions ---- */
static void check_probe(config_setting_t *s, const struct shape_region *r)
{
	struct shape_prefix p;

	if (shape_prefix_parse(r->probe, &p, NULL) || strchr(r->probe, '/'))
		cfg_error(s, "must be the address of a host");
	else if (!load_address_within(r->probe, r->prefixes, r->n_prefixes))
		cfg_error(s, "must be within a prefix of its region, or the way to it is not shaped");
}

static bool read_region(config_setting_t *s, void *arg)
{
	struct shape_building *b = arg;
	struct shape_region r = { 0 };
	config_setting_t *prefixes, *probe;

	cfg_read(s, region_keys, ARRAY_LEN(region_keys), &r);
	if (!config_setting_is_group(s))
		return false;
	prefixes = config_setting_get_member(s, "prefixes");
	probe = config_setting_get_member(s, "probe");
	if (prefixes)
		load_prefixes(prefixes, r.prefixes, &r.n_prefixes);
	if (probe && r.probe[0] && r.n_prefixes)
		check_probe(probe, &r);
	if (!*r.name)
		return false;
	if (bace_grow(&b->region_settings, &b->cap_settings, b->n_regions + 1, sizeof(s)) ||
	    BACE_PUSH(b->out->regions, b->n_regions, b->cap_regions, r))
		return cfg_no_memory(b->l);
	b->region_settings[b->n_regions - 1] = s;
	return true;
}

static int by_region_name(const void *a, const void *b, void *arg)
{
	const struct shape_region *v = arg;
	int x = *(const int *)a, y = *(const int *)b, c = strcmp(v[x].name, v[y].name);

	return c ? c : x - y;
}

static bool index_regions(struct shape_building *b)
{
	const struct shape_region *v = b->out->regions;

	b->by_name = calloc(b->n_regions + 1, sizeof(*b->by_name));
	if (!b->by_name)
		return cfg_no_memory(b->l);
	for (size_t i = 0; i < b->n_regions; i++)
		b->by_name[i] = (int)i;
	if (b->n_regions)
		qsort_r(b->by_name, b->n_regions, sizeof(int), by_region_name, b->out->regions);
	for (size_t i = 1; i < b->n_regions; i++)
		if (!strcmp(v[b->by_name[i]].name, v[b->by_name[i - 1]].name))
			cfg_error(config_setting_get_member(b->region_settings[b->by_name[i]], "name"),
				  "there is a region of this name before: each name once");
	return true;
}

int shape_region_find(const struct shape_building *b, const char *name)
{
	size_t lo = 0, hi = b->n_regions;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(b->out->regions[b->by_name[mid]].name, name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < b->n_regions && !strcmp(b->out->regions[b->by_name[lo]].name, name) ? b->by_name[lo] : -1;
}

void shape_region_suggest(const struct shape_building *b, const char *name, char *buf, size_t cap)
{
	load_suggest(name, b->out->regions, b->n_regions, sizeof(*b->out->regions), R(name), buf, cap);
}

/* ---- no address in two regions ---- */
static void on_overlap(const struct load_owned *one, const struct load_owned *first, void *arg)
{
	const struct shape_building *b = arg;
	config_setting_t *s = config_setting_get_member(b->region_settings[one->region], "prefixes");
	char text[64];

	cfg_error(config_setting_get_elem(s, (unsigned)one->index), "overlaps %s of region %s: an address is in one region",
		  shape_prefix_format(&first->prefix, text), b->out->regions[first->region].name);
}

static void check_overlaps(struct shape_building *b)
{
	CLEANUP_FREE struct load_owned *v = calloc(b->n_regions * SHAPE_PREFIXES_MAX + 1, sizeof(*v));
	size_t n = 0;

	if (!v) {
		cfg_no_memory(b->l);
		return;
	}
	for (size_t i = 0; i < b->n_regions; i++)
		for (int j = 0; j < b->out->regions[i].n_prefixes; j++)
			v[n++] = (struct load_owned){ b->out->regions[i].prefixes[j], (int)i, j };
	load_overlaps(v, n, on_overlap, b);
}

/* ---- hosts ---- */
static void check_interfaces(config_setting_t *s, const struct shape_file *f, struct shape_host *h)
{
	config_setting_t *ingress = config_setting_get_member(s, "ingress");
	config_setting_t *egress = config_setting_get_member(s, "egress");

	if (egress && h->egress[0] && !shape_is_ifname(h->egress))
		cfg_error(egress, "must be the name of an interface");
	if (ingress && h->ingress[0] && !shape_is_ifname(h->ingress))
		cfg_error(ingress, "must be the name of an interface");
	if (f->mode == SHAPE_HOST) {
		if (ingress)
			cfg_error(ingress, "a host has the one interface; `mode = \"gateway\"' has two");
		memcpy(h->ingress, h->egress, sizeof(h->ingress));
	} else if (!ingress) {
		cfg_missing(s, "ingress", "the interface towards this region's hosts; a host that is no gateway "
			    "says mode = \"host\"");
	} else if (h->egress[0] && !strcmp(h->egress, h->ingress)) {
		cfg_error(ingress, "must not be the egress; a host that is no gateway says mode = \"host\"");
	}
}

static bool read_host(config_setting_t *s, void *arg)
{
	struct shape_building *b = arg;
	struct host_entry x = { 0 };
	char near[256];

	cfg_read(s, host_keys, ARRAY_LEN(host_keys), &x);
	if (!config_setting_is_group(s))
		return false;
	check_interfaces(s, b->out, &x.h);
	x.h.region = *x.region ? shape_region_find(b, x.region) : -1;
	if (*x.region && x.h.region < 0 && b->complete) {
		shape_region_suggest(b, x.region, near, sizeof(near));
		cfg_error(config_setting_get_member(s, "region"), "must be a region of this file%s", near);
	}
	if (!*x.h.name && config_setting_length(config_setting_parent(s)) > 1)
		cfg_missing(s, "name", "as `hostname' prints it, for there are several hosts");
	else if (*x.h.name)
		load_unique(s, "name", "host", b->out->hosts, b->n_hosts, sizeof(x.h), H(name), x.h.name);
	return !BACE_PUSH(b->out->hosts, b->n_hosts, b->cap_hosts, x.h) || cfg_no_memory(b->l);
}

/* ---- the whole ---- */
static config_setting_t *list_of(config_setting_t *root, const char *key)
{
	config_setting_t *s = config_setting_get_member(root, key);

	return s && config_setting_is_list(s) && config_setting_length(s) ? s : NULL;
}

static void load_root(struct shape_building *b, config_setting_t *root)
{
	config_setting_t *regions = list_of(root, "regions"), *hosts = list_of(root, "hosts");
	config_setting_t *links = list_of(root, "links"), *s;

	cfg_read(root, file_keys, ARRAY_LEN(file_keys), b->out);
	if ((s = config_setting_get_member(root, "mtu")))
		cfg_read_value(s, &mtu_key, &b->mtu);
	if ((s = config_setting_get_member(root, "own_latency")))
		cfg_read_value(s, &own_latency_key, &b->own_latency_ns);
	if (regions && config_setting_length(regions) > SHAPE_REGIONS_MAX) {
		cfg_error(regions, "has %d regions: at most %d, one class each on an interface",
			  config_setting_length(regions), SHAPE_REGIONS_MAX);
		return;
	}
	b->complete = regions && load_each(regions, read_region, b);
	if (!index_regions(b))
		return;
	check_overlaps(b);
	if (hosts)
		load_each(hosts, read_host, b);
	load_shape_base(b, root);
	if (links)
		load_shape_links(b, links);
	load_shape_check(b, root);
}

int shape_file_load(const char *name_or_path, struct shape_file *out, struct bace_diags *diags,
		    struct bace_err *err)
{
	struct cfg_loader l = { .diags = diags };
	struct shape_building b = { .l = &l, .out = out };
	size_t since = diags->n;
	struct cfg_file f;
	int rc;

	*out = (struct shape_file){ 0 };
	out->path = load_find_top(&l, "shapes", name_or_path);
	if (out->path) {
		load_default_name(out->path, out->name);
		if (cfg_open(&l, out->path, &f))
			load_root(&b, cfg_root(&f));
		cfg_close(&f);
	}
	out->mtu = b.mtu ? (unsigned)b.mtu : 1500;
	out->n_regions = (int)b.n_regions;
	out->n_hosts = (int)b.n_hosts;
	out->n_paths = (int)b.n_paths;
	rc = cfg_loader_status(&l, since, err);
	free(b.region_settings);
	free(b.by_name);
	load_shape_tables_done(&b);
	cfg_loader_free(&l);
	if (rc)
		shape_file_free(out);
	return rc;
}

void shape_file_free(struct shape_file *f)
{
	free(f->regions);
	free(f->hosts);
	free(f->paths);
	free(f->tables);
	free(f->path);
	*f = (struct shape_file){ 0 };
}

const struct shape_path *shape_file_path(const struct shape_file *f, int from, int to)
{
	size_t lo = 0, hi = (size_t)f->n_paths;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct shape_path *p = &f->paths[mid];

		if (p->from == from && p->to == to)
			return p;
		if (p->from < from || (p->from == from && p->to < to))
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}
