#include "profiles/load.h"

#define O(f) offsetof(struct region_entry, f)

static const struct cfg_key region_keys[] = {
	{ "name", CFG_NAME, CFG_REQUIRED, O(name) },
	{ "location", CFG_TEXT, 0, O(location), .max = sizeof(((struct region_entry *)0)->location) },
	{ "pue", CFG_NUMBER, CFG_REQUIRED, O(pue), .min = 1, .max = 10 },
};

static const struct cfg_key file_keys[] = {
	{ "regions", CFG_LIST, CFG_REQUIRED },
};

struct reading {
	struct cfg_loader *l;
	struct region_table *out;
};

static bool read_region(config_setting_t *s, void *arg)
{
	struct reading *r = arg;
	struct region_table *t = r->out;
	struct region_entry e = { .pue = 1 };

	cfg_read(s, region_keys, ARRAY_LEN(region_keys), &e);
	if (!*e.name)
		return false;
	load_unique(s, "name", "region", t->v, t->n, sizeof(e), O(name), e.name);
	return !BACE_PUSH(t->v, t->n, t->cap, e) || cfg_no_memory(r->l);
}

void load_regions(struct cfg_loader *l, const char *path, struct region_table *out)
{
	struct reading r = { l, out };

	out->complete = load_list_file(l, path, file_keys, ARRAY_LEN(file_keys), NULL, "regions",
				       read_region, &r);
}
