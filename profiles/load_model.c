#include "profiles/load.h"

#define O(f) offsetof(struct model, f)

static const struct cfg_key model_keys[] = {
	{ "name", CFG_NAME, CFG_REQUIRED, O(name) },
	{ "params", CFG_NUMBER, CFG_REQUIRED, O(params), .min = 1, .max = 1e15 },
	{ "layers", CFG_INT, CFG_REQUIRED, O(layers), .min = 1, .max = 65536 },
	{ "hidden", CFG_INT, CFG_REQUIRED, O(hidden), .min = 1, .max = 1 << 24 },
	{ "seq", CFG_INT, CFG_REQUIRED, O(seq), .min = 1, .max = 1 << 24 },
	{ "bytes_per_element", CFG_NUMBER, CFG_ABOVE, O(bytes_per_element), .min = 0, .max = 16 },
	{ "state_bytes_per_param", CFG_NUMBER, 0, O(state_bytes_per_param), .min = 0, .max = 64 },
	{ "recompute", CFG_BOOL, 0, O(recompute) },
	{ "measured", CFG_GROUP },
};

static const struct cfg_key measured_keys[] = {
	{ "forward", CFG_TIME_S, CFG_REQUIRED | CFG_ABOVE, O(measured_fwd_s), .min = 0,
	  .max = CFG_NO_MAX },
	{ "backward", CFG_TIME_S, CFG_REQUIRED | CFG_ABOVE, O(measured_bwd_s), .min = 0,
	  .max = CFG_NO_MAX },
	{ "boundary", CFG_SIZE_D, CFG_ABOVE, O(measured_boundary_bytes), .min = 0, .max = 1e15 },
};

static const struct cfg_key file_keys[] = {
	{ "models", CFG_LIST, CFG_REQUIRED },
};

struct reading {
	struct cfg_loader *l;
	struct model_table *out;
};

static bool read_model(config_setting_t *s, void *arg)
{
	struct reading *r = arg;
	struct model_table *t = r->out;
	struct model e = { .params = 1, .layers = 1, .hidden = 1, .seq = 1, .bytes_per_element = 2,
			   .state_bytes_per_param = 16, .recompute = true };
	config_setting_t *measured;

	cfg_read(s, model_keys, ARRAY_LEN(model_keys), &e);
	measured = config_setting_is_group(s) ? config_setting_get_member(s, "measured") : NULL;
	if (measured && config_setting_is_group(measured))
		cfg_read(measured, measured_keys, ARRAY_LEN(measured_keys), &e);
	if (!*e.name)
		return false;
	load_unique(s, "name", "model", t->v, t->n, sizeof(e), O(name), e.name);
	return !BACE_PUSH(t->v, t->n, t->cap, e) || cfg_no_memory(r->l);
}

void load_models(struct cfg_loader *l, const char *path, struct model_table *out)
{
	struct reading r = { l, out };

	out->complete = load_list_file(l, path, file_keys, ARRAY_LEN(file_keys), NULL, "models",
				       read_model, &r);
}
