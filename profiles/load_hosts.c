/*
 * The machines of a real cluster: the list `hosts` of a cluster file. A lab makes
 * its own and does not read it.
 */
#include <stdlib.h>
#include <string.h>

#include "profiles/load.h"

#define H(f) offsetof(struct cluster_host, f)
#define HOST_TEXT(f) .max = sizeof(((struct cluster_host *)0)->f)

struct entry {
	struct cluster_host h;
	char region[NAME_LEN];
};

struct hosts {
	struct cfg_loader *l;
	struct cluster *c;
	size_t n, cap;
};

static const struct cfg_key host_keys[] = {
	{ "name", CFG_NAME, CFG_REQUIRED, H(name) },
	{ "region", CFG_NAME, CFG_REQUIRED, offsetof(struct entry, region) },
	{ "address", CFG_TEXT, CFG_REQUIRED, H(address), HOST_TEXT(address) },
	{ "gateway", CFG_BOOL, 0, H(gateway) },
	{ "egress", CFG_TEXT, 0, H(egress), HOST_TEXT(egress) },
	{ "ingress", CFG_TEXT, 0, H(ingress), HOST_TEXT(ingress) },
	{ "login", CFG_TEXT, 0, H(login), HOST_TEXT(login) },
	{ "shaperd", CFG_TEXT, 0, H(shaperd), HOST_TEXT(shaperd) },
};

static int region_of(const struct hosts *b, config_setting_t *s, const char *name)
{
	const struct cluster *c = b->c;
	int i = cfg_find_name(c->regions, (size_t)c->n_regions, sizeof(*c->regions), offsetof(struct region, name),
			      name);
	char near[256];

	if (i < 0 && *name) {
		load_suggest(name, c->regions, (size_t)c->n_regions, sizeof(*c->regions),
			     offsetof(struct region, name), near, sizeof(near));
		cfg_error(config_setting_get_member(s, "region"), "must be a region of this cluster%s", near);
	}
	return i;
}

static bool check_address(const struct hosts *b, config_setting_t *s, const struct cluster_host *h)
{
	config_setting_t *address = config_setting_get_member(s, "address");
	const struct region *r = &b->c->regions[h->region];
	struct shape_prefix p;

	if (strchr(h->address, '/') || shape_prefix_parse(h->address, &p, NULL)) {
		cfg_error(address, "must be the address at which ranks listen, like \"10.16.0.10\"");
		return false;
	}
	/* A region without prefixes is another error. A gateway's own is not shaped. */
	if (r->n_prefixes && !h->gateway && !load_address_within(h->address, r->prefixes, r->n_prefixes)) {
		cfg_error(address, "must be within a prefix of its region, or the way to it is not shaped");
		return false;
	}
	return true;
}

static bool check_interface(config_setting_t *s, const char *key, const char *name)
{
	if (!*name || shape_is_ifname(name))
		return true;
	cfg_error(config_setting_get_member(s, key), "must be the name of an interface");
	return false;
}

static bool read_host(config_setting_t *s, void *arg)
{
	struct hosts *b = arg;
	struct entry e = { .h.shaperd = CLUSTER_SHAPERD };

	if (!cfg_read(s, host_keys, ARRAY_LEN(host_keys), &e))
		return false;
	e.h.region = region_of(b, s, e.region);
	if (e.h.region < 0 || !check_address(b, s, &e.h) || !check_interface(s, "egress", e.h.egress) ||
	    !check_interface(s, "ingress", e.h.ingress))
		return false;
	if (e.h.gateway && (!*e.h.egress || !*e.h.ingress)) {
		cfg_error(s, "a gateway needs `egress', its interface towards the other regions, and `ingress', "
			  "the one towards its own hosts");
		return false;
	}
	if (!load_unique(s, "name", "host", b->c->hosts, b->n, sizeof(e.h), H(name), e.h.name))
		return false;
	if (BACE_PUSH(b->c->hosts, b->n, b->cap, e.h))
		return cfg_no_memory(b->l);
	b->c->n_hosts = (int)b->n;
	return true;
}

/* Who shapes: one gateway, or each host for itself. */
static void check_region(const struct cluster *c, config_setting_t *list, int region)
{
	const struct region *r = &c->regions[region];
	int gateways = 0, hosts = 0, shaped = 0;

	for (int i = 0; i < c->n_hosts; i++) {
		const struct cluster_host *h = &c->hosts[i];

		if (h->region != region)
			continue;
		gateways += h->gateway;
		hosts += !h->gateway;
		shaped += !h->gateway && *h->egress;
	}
	if (!hosts && r->n_gpus)
		cfg_error(list, "has no host in region %s, which has GPUs", r->name);
	if (gateways > 1)
		cfg_error(list, "has %d gateways in region %s: one, through which all its traffic goes", gateways,
			  r->name);
	if (!gateways && shaped < hosts)
		cfg_error(list, "has no gateway in region %s: each host there needs `egress', the interface to shape",
			  r->name);
	if (!r->n_prefixes)
		cfg_error(list, "region %s needs `prefixes', the addresses of its hosts", r->name);
}

struct overlapping {
	const struct cluster *c;
	config_setting_t *list;
};

static void on_overlap(const struct load_owned *one, const struct load_owned *first, void *arg)
{
	const struct overlapping *o = arg;
	char text[64], other[64];

	cfg_error(o->list, "has %s of region %s within %s of region %s: an address is in one region",
		  shape_prefix_format(&one->prefix, text), o->c->regions[one->region].name,
		  shape_prefix_format(&first->prefix, other), o->c->regions[first->region].name);
}

static void check_overlaps(struct cfg_loader *l, const struct cluster *c, config_setting_t *list)
{
	CLEANUP_FREE struct load_owned *v = calloc((size_t)c->n_regions * SHAPE_PREFIXES_MAX + 1, sizeof(*v));
	size_t n = 0;

	if (!v) {
		cfg_no_memory(l);
		return;
	}
	for (int i = 0; i < c->n_regions; i++)
		for (int j = 0; j < c->regions[i].n_prefixes; j++)
			v[n++] = (struct load_owned){ c->regions[i].prefixes[j], i, j };
	load_overlaps(v, n, on_overlap, &(struct overlapping){ c, list });
}

void load_hosts(struct cfg_loader *l, config_setting_t *list, struct cluster *c)
{
	struct hosts b = { .l = l, .c = c };

	if (!list || !config_setting_is_list(list) || !load_each(list, read_host, &b))
		return;
	for (int r = 0; r < c->n_regions; r++)
		check_region(c, list, r);
	check_overlaps(l, c, list);
}
