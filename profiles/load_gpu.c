#include "profiles/load.h"

#define O(f) offsetof(struct gpu_type, f)

static const struct cfg_key gpu_keys[] = {
	{ "name", CFG_NAME, CFG_REQUIRED, O(name) },
	{ "active_w", CFG_NUMBER, CFG_REQUIRED, O(active_w), .min = 0, .max = 1e6 },
	{ "idle_ctx_w", CFG_NUMBER, CFG_REQUIRED, O(idle_ctx_w), .min = 0, .max = 1e6 },
	{ "memory", CFG_SIZE_D, CFG_REQUIRED, O(memory_bytes), .min = 1e6, .max = 1e15 },
	{ "flops_eff", CFG_NUMBER, CFG_REQUIRED, O(flops_eff), .min = 1e6, .max = 1e18 },
};

static const struct cfg_key file_keys[] = {
	{ "gpus", CFG_LIST, CFG_REQUIRED },
};

struct reading {
	struct cfg_loader *l;
	struct gpu_table *out;
};

static bool read_gpu(config_setting_t *s, void *arg)
{
	struct reading *r = arg;
	struct gpu_table *t = r->out;
	struct gpu_type e = { 0 };
	bool ok = cfg_read(s, gpu_keys, ARRAY_LEN(gpu_keys), &e);

	if (!*e.name)
		return false;
	if (ok && e.idle_ctx_w > e.active_w)
		cfg_error(config_setting_get_member(s, "idle_ctx_w"),
			  "must be at most active_w (%.10g)", e.active_w);
	load_unique(s, "name", "GPU", t->v, t->n, sizeof(e), O(name), e.name);
	return !BACE_PUSH(t->v, t->n, t->cap, e) || cfg_no_memory(r->l);
}

void load_gpus(struct cfg_loader *l, const char *path, struct gpu_table *out)
{
	struct reading r = { l, out };

	out->complete = load_list_file(l, path, file_keys, ARRAY_LEN(file_keys), NULL, "gpus",
				       read_gpu, &r);
}
