#include <string.h>

#include "profiles/load.h"
#include "profiles/names.h"

#define O(f) offsetof(struct link_entry, f)
#define L(f) offsetof(struct link_entry, link.f)

struct egress {
	struct link_entry e;
	double usd_per_gb;
};

static const struct cfg_key link_keys[] = {
	{ "from", CFG_NAME, CFG_REQUIRED, O(from) },
	{ "to", CFG_NAME, CFG_REQUIRED, O(to) },
	{ "both_ways", CFG_BOOL, 0, O(both_ways) },
	{ "rate", CFG_RATE, CFG_REQUIRED, L(rate_bps), .min = 1e3, .max = 1e14 },
	{ "latency", CFG_TIME_NS, CFG_REQUIRED, L(latency_ns), .min = 0, .max = 60 },
	{ "jitter", CFG_TIME_NS, 0, L(jitter_ns), .min = 0, .max = 60 },
	{ "jitter_distribution", CFG_CHOICE, 0, L(jitter_dist), .choices = jitter_names },
	{ "loss", CFG_NUMBER, 0, L(loss), .min = 0, .max = 1 },
	{ "buffer", CFG_SIZE, CFG_ABOVE, L(buffer_bytes), .min = 0, .max = 1e12 },
	{ "usd_per_gb", CFG_NUMBER, 0, offsetof(struct egress, usd_per_gb), .min = 0, .max = 1000 },
};

static const struct cfg_key file_keys[] = {
	{ "mtu", CFG_INT, 0, offsetof(struct link_table, mtu), .min = 576, .max = 65535 },
	{ "links", CFG_LIST, CFG_REQUIRED },
};

struct reading {
	struct cfg_loader *l;
	struct link_table *out;
};

static void check_jitter(config_setting_t *s, struct link *l)
{
	config_setting_t *jitter = config_setting_get_member(s, "jitter");
	config_setting_t *dist = config_setting_get_member(s, "jitter_distribution");

	if (jitter && l->jitter_ns > l->latency_ns)
		cfg_error(jitter, "must be at most the latency: no packet arrives before it was sent");
	if (l->jitter_ns && !dist)
		l->jitter_dist = JITTER_UNIFORM;
	if (!jitter && dist && l->jitter_dist != JITTER_NONE)
		cfg_missing(s, "jitter", "there is a jitter_distribution");
	if (l->jitter_ns && dist && l->jitter_dist == JITTER_NONE)
		cfg_error(dist, "must be one of the others where there is jitter");
}

static bool same_link(const struct link_entry *e, const char *from, const char *to)
{
	return (!strcmp(e->from, from) && !strcmp(e->to, to)) ||
	       (e->both_ways && !strcmp(e->from, to) && !strcmp(e->to, from));
}

static bool read_link(config_setting_t *s, void *arg)
{
	struct reading *r = arg;
	struct link_table *t = r->out;
	struct egress x = { .e = { .link = { .present = true } } };
	struct link_entry *e = &x.e;
	bool ok = cfg_read(s, link_keys, ARRAY_LEN(link_keys), &x);

	if (!*e->from || !*e->to)
		return false;
	e->line = config_setting_source_line(s);
	e->link.usd_per_byte = x.usd_per_gb / 1e9;
	if (!strcmp(e->from, e->to))
		cfg_error(config_setting_get_member(s, "to"),
			  "must not be the same region: hops inside one have the region's bandwidth");
	else if (ok)
		check_jitter(s, &e->link);
	for (size_t i = 0; i < t->n; i++) {
		if (!same_link(&t->v[i], e->from, e->to) &&
		    !(e->both_ways && same_link(&t->v[i], e->to, e->from)))
			continue;
		cfg_error(config_setting_get_member(s, "to"),
			  "the link from %s to %s is in line %d already", e->from, e->to, t->v[i].line);
		break;
	}
	return !BACE_PUSH(t->v, t->n, t->cap, *e) || cfg_no_memory(r->l);
}

void load_links(struct cfg_loader *l, const char *path, struct link_table *out)
{
	struct reading r = { l, out };

	out->complete = load_list_file(l, path, file_keys, ARRAY_LEN(file_keys), out, "links",
				       read_link, &r);
	/* The loader's copy outlives `path`. */
	out->file = l->n_files ? l->files[l->n_files - 1] : "";
}
