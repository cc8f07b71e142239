#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiles/load.h"
#include "profiles/names.h"

#define O(f) offsetof(struct policy_spec, f)

static const struct cfg_key policy_keys[] = {
	{ "name", CFG_NAME, CFG_REQUIRED, O(name) },
	{ "label", CFG_NAME, 0, O(label) },
	{ "order", CFG_CHOICE, 0, O(order), .choices = order_names },
	{ "start", CFG_CHOICE, 0, O(start), .choices = start_names },
	{ "stall_rule", CFG_CHOICE, 0, O(stall_rule), .choices = stall_names },
	{ "grow", CFG_CHOICE, 0, O(grow), .choices = grow_names },
	{ "prefer", CFG_CHOICE, 0, O(prefer), .choices = prefer_names },
	{ "alpha", CFG_ANY },
	{ "alpha_gain", CFG_NUMBER, 0, O(alpha_gain), .min = 0, .max = 1e6 },
	{ "aging", CFG_TIME_S, CFG_ABOVE, O(aging_s), .min = 0, .max = CFG_NO_MAX },
	{ "backfill", CFG_BOOL, 0, O(backfill) },
	{ "pathfinder", CFG_BOOL, 0, O(pathfinder) },
	{ "cost_min", CFG_BOOL, 0, O(cost_min) },
	{ "elastic", CFG_BOOL, 0, O(elastic) },
	{ "restart", CFG_TIME_S, 0, O(restart_s), .min = 0, .max = CFG_NO_MAX },
	{ "command", CFG_STRING, 0, O(command) },
	{ "timeout", CFG_TIME_S, CFG_ABOVE, O(timeout_s), .min = 0, .max = 86400 },
};

static const struct cfg_key alpha_key = { "alpha", CFG_NUMBER, 0, 0, .min = 0, .max = 1 };

struct reading {
	struct experiment *e;
	size_t n, cap;
};

static void read_alpha(config_setting_t *s, double *alpha)
{
	const char *text = s ? config_setting_get_string(s) : NULL;

	if (!s || (text && !strcmp(text, "view")))
		return;
	if (text)
		cfg_error(s, "must be a number from 0 to 1, or \"view\"");
	else
		cfg_read_value(s, &alpha_key, alpha);
}

/* Two entries of one rule need labels of their own. */
static void check_label(struct reading *r, config_setting_t *s, const struct policy_spec *p)
{
	config_setting_t *at = config_setting_get_member(s, "label");

	if (cfg_find_name(r->e->policies, r->n, sizeof(*p), O(label), p->label) < 0)
		return;
	if (!at)
		at = config_setting_get_member(s, "name");
	cfg_error(at, "there is a policy labelled \"%s\" before: give this one a `label'", p->label);
}

static void check_external(config_setting_t *s, const struct policy_spec *p)
{
	config_setting_t *command = config_setting_get_member(s, "command");

	if (!strcmp(p->name, "external") && !command)
		cfg_missing(s, "command", "the program that decides, for /bin/sh -c");
	if (strcmp(p->name, "external") && command)
		cfg_error(command, "only with name = \"external\"");
}

static bool read_policy(config_setting_t *s, void *arg)
{
	struct reading *r = arg;
	struct cfg_file *f = cfg_file_of(s);
	struct policy_spec p = {
		.start = START_K_MIN, .stall_rule = STALL_FORWARD, .grow = GROW_PATH,
		.prefer = PREFER_GPUS, .alpha = NAN, .alpha_gain = 1, .pathfinder = true,
		.cost_min = true, .restart_s = 120, .timeout_s = 10,
		.file = f->path, .line = config_setting_source_line(s),
	};

	cfg_read(s, policy_keys, ARRAY_LEN(policy_keys), &p);
	if (!config_setting_is_group(s))
		return false;
	if (!*p.label)
		memcpy(p.label, p.name, sizeof(p.label));
	p.has_order = config_setting_get_member(s, "order");
	p.has_backfill = config_setting_get_member(s, "backfill");
	read_alpha(config_setting_get_member(s, "alpha"), &p.alpha);
	if (*p.name) {
		check_label(r, s, &p);
		check_external(s, &p);
	}
	if (BACE_PUSH(r->e->policies, r->n, r->cap, p)) {
		free(p.command);
		return cfg_no_memory(f->loader);
	}
	r->e->n_policies = (int)r->n;
	return true;
}

void load_policies(config_setting_t *list, struct experiment *e)
{
	struct reading r = { .e = e };

	if (config_setting_is_list(list))
		load_each(list, read_policy, &r);
}
