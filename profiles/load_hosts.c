/*
 * The machines of a real cluster: `prefixes` of a region, and the list `hosts`
 * of a cluster file. A lab makes its own and reads neither.
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

bool load_prefixes(config_setting_t *s, struct region *r)
{
	int n = config_setting_is_array(s) || config_setting_is_list(s) ? config_setting_length(s) : 0;
	bool ok = n > 0 && n <= (int)ARRAY_LEN(r->prefixes);

	if (!ok)
		cfg_error(s, "must be an array of 1 to %zu address prefixes", ARRAY_LEN(r->prefixes));
	for (int i = 0; ok && i < n; i++) {
		config_setting_t *element = config_setting_get_elem(s, (unsigned)i);
		const char *text = config_setting_get_string(element);
		struct bace_err e = { 0 };

		if (!text || shape_prefix_parse(text, &r->prefixes[i], &e)) {
			cfg_error(element, "%s", text ? e.msg : "must be a string like \"10.16.0.0/16\"");
			ok = false;
		}
	}
	r->n_prefixes = ok ? n : 0;
	return ok;
}

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

static bool read_host(config_setting_t *s, void *arg)
{
	struct hosts *b = arg;
	struct entry e = { .h.shaperd = CLUSTER_SHAPERD };
	config_setting_t *address = config_setting_is_group(s) ? config_setting_get_member(s, "address") : NULL;
	struct shape_prefix p;
	struct bace_err err = { 0 };

	if (!cfg_read(s, host_keys, ARRAY_LEN(host_keys), &e))
		return false;
	e.h.region = region_of(b, s, e.region);
	if (e.h.region < 0)
		return false;
	if (strchr(e.h.address, '/') || shape_prefix_parse(e.h.address, &p, &err)) {
		cfg_error(address, "must be the address at which ranks listen, like \"10.16.0.10\"");
		return false;
	}
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

void load_hosts(struct cfg_loader *l, config_setting_t *list, struct cluster *c)
{
	struct hosts b = { .l = l, .c = c };

	if (!list || !config_setting_is_list(list) || !load_each(list, read_host, &b))
		return;
	for (int r = 0; r < c->n_regions; r++)
		check_region(c, list, r);
}
