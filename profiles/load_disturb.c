/* What a testbed does to links that nobody is told of. */
#include <stdlib.h>
#include <string.h>

#include "profiles/load.h"
#include "profiles/names.h"

#define D(f) offsetof(struct disturbance, f)

struct raw {
	struct disturbance d;
	char from[NAME_LEN], to[NAME_LEN];
	bool both_ways;
};

static const struct cfg_key keys[] = {
	{ "from", CFG_NAME, CFG_REQUIRED, offsetof(struct raw, from) },
	{ "to", CFG_NAME, CFG_REQUIRED, offsetof(struct raw, to) },
	{ "both_ways", CFG_BOOL, 0, offsetof(struct raw, both_ways) },
	{ "jitter", CFG_TIME_NS, CFG_ABOVE, D(jitter_ns), .min = 0, .max = 60 },
	{ "jitter_distribution", CFG_CHOICE, 0, D(jitter_dist), .choices = jitter_names },
	{ "loss", CFG_NUMBER, CFG_ABOVE, D(loss), .min = 0, .max = 1 },
	{ "trace", CFG_ANY },
	{ "loop", CFG_BOOL, 0, D(loop) },
};

static int region_of(config_setting_t *s, const char *key, const char *name, const struct cluster *c)
{
	int at = cfg_find_name(c->regions, (size_t)c->n_regions, sizeof(*c->regions), offsetof(struct region, name), name);
	char near[96];

	if (at < 0) {
		load_suggest(name, c->regions, (size_t)c->n_regions, sizeof(*c->regions), offsetof(struct region, name), near,
			     sizeof(near));
		cfg_error(config_setting_get_member(s, key), "must be a region of the cluster%s", near);
	}
	return at;
}

/* "flap" is traces/flap.csv of the profiles, anything with a slash or a point a
 * path relative to the file. */
static char *trace_path(const struct cfg_file *f, const char *name)
{
	char *path;

	if (strpbrk(name, "/."))
		return cfg_relative(name, f->path);
	return asprintf(&path, "%s/traces/%s.csv", profiles_dir(), name) < 0 ? NULL : path;
}

static void read_trace(config_setting_t *s, struct disturbance *d)
{
	config_setting_t *t = config_setting_get_member(s, "trace");
	struct cfg_file *f = cfg_file_of(s);
	const char *name = t ? config_setting_get_string(t) : NULL;
	struct bace_err e = { 0 };
	size_t len;

	if (!t)
		return;
	if (!name || !*name) {
		cfg_error(t, "must be the name of a file of profiles/traces, or its path");
		return;
	}
	d->trace_path = trace_path(f, name);
	if (!d->trace_path)
		cfg_no_memory(f->loader);
	else if (cfg_keep_text(f->loader, d->trace_path, &d->trace, &len, &e))
		cfg_error(t, "%s", e.msg);
}

static void check(config_setting_t *s, const struct disturbance *d, const struct cluster *c)
{
	const struct link *l = cluster_link(c, d->from, d->to);
	config_setting_t *jitter = config_setting_get_member(s, "jitter");

	if (!l->present) {
		cfg_error(config_setting_get_member(s, "to"), "must have a link from %s, and has none",
			  c->regions[d->from].name);
		return;
	}
	if (jitter && d->jitter_ns > l->latency_ns)
		cfg_error(jitter, "must be at most the link's latency: no packet arrives before it was sent");
	if (!jitter && config_setting_get_member(s, "jitter_distribution"))
		cfg_missing(s, "jitter", "there is a jitter_distribution");
	if (d->loop && !config_setting_get_member(s, "trace"))
		cfg_missing(s, "trace", "there is a loop");
	if (!jitter && !(d->loss > 0) && !config_setting_get_member(s, "trace"))
		cfg_missing(s, "jitter", "or loss, or trace: else nothing is done to the link");
}

static bool add(struct testbed_spec *t, const struct disturbance *d)
{
	struct disturbance *v = realloc(t->disturb, ((size_t)t->n_disturb + 1) * sizeof(*v));

	if (!v)
		return false;
	t->disturb = v;
	v += t->n_disturb++;
	*v = *d;
	v->trace = d->trace ? strdup(d->trace) : NULL;
	v->trace_path = d->trace_path ? strdup(d->trace_path) : NULL;
	return (!d->trace || v->trace) && (!d->trace_path || v->trace_path);
}

struct reading {
	struct testbed_spec *t;
	const struct cluster *c;
};

static bool read_one(config_setting_t *s, void *arg)
{
	struct reading *r = arg;
	struct raw x = { 0 };
	bool ok = cfg_read(s, keys, ARRAY_LEN(keys), &x), kept = true;

	if (!*x.from || !*x.to)
		return false;
	x.d.from = region_of(s, "from", x.from, r->c);
	x.d.to = region_of(s, "to", x.to, r->c);
	if (x.d.from < 0 || x.d.to < 0)
		return false;
	if (x.d.from == x.d.to) {
		cfg_error(config_setting_get_member(s, "to"), "must not be the same region: only links are disturbed");
		return false;
	}
	if (x.d.jitter_ns && x.d.jitter_dist == JITTER_NONE)
		x.d.jitter_dist = JITTER_UNIFORM;
	read_trace(s, &x.d);
	for (int i = 0; i < r->t->n_disturb; i++)
		if ((r->t->disturb[i].from == x.d.from && r->t->disturb[i].to == x.d.to) ||
		    (x.both_ways && r->t->disturb[i].from == x.d.to && r->t->disturb[i].to == x.d.from))
			cfg_error(config_setting_get_member(s, "to"), "is there before: each link once");
	for (int back = 0; ok && kept && back <= x.both_ways; back++) {
		check(s, &x.d, r->c);
		kept = add(r->t, &x.d);
		int from = x.d.from;

		x.d.from = x.d.to;
		x.d.to = from;
	}
	free(x.d.trace);
	free(x.d.trace_path);
	return kept || cfg_no_memory(cfg_file_of(s)->loader);
}

void load_disturb(config_setting_t *list, const struct cluster *c, struct testbed_spec *out)
{
	if (list && config_setting_is_list(list))
		load_each(list, read_one, &(struct reading){ out, c });
}

void disturb_free(struct testbed_spec *t)
{
	for (int i = 0; i < t->n_disturb; i++) {
		free(t->disturb[i].trace);
		free(t->disturb[i].trace_path);
	}
	free(t->disturb);
	t->disturb = NULL;
	t->n_disturb = 0;
}
