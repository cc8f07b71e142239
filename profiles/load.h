/*
 * The parts of a load: one reader a kind of file. Each reads a whole file into
 * an array, diagnosing as it goes. What could be read is in the array also when
 * something was wrong, so that later checks can go on.
 */
#ifndef BACE_PROFILES_LOAD_H
#define BACE_PROFILES_LOAD_H

#include "profiles/cfg.h"

struct region_entry {
	char name[NAME_LEN];
	char location[64];
	double pue;
};

struct region_table {
	size_t n, cap;
	struct region_entry *v;
	bool complete;		/* every entry is here: "unknown name" is worth saying */
};

struct link_entry {
	char from[NAME_LEN], to[NAME_LEN];
	struct link link;
	bool both_ways;
	int line;
};

struct link_table {
	size_t n, cap;
	struct link_entry *v;
	bool complete;
	unsigned mtu;		/* that the rates were converted for; 0: not given */
	const char *file;	/* borrowed from the loader */
};

enum price_kind { PRICE_RETAIL, PRICE_WHOLESALE, PRICE_SYNTHETIC };

struct price_entry {
	char region[NAME_LEN];
	struct price_series series;
};

struct price_table {
	size_t n, cap;
	struct price_entry *v;
	bool complete;		/* every entry is here: "unknown name" is worth saying */
	enum price_kind kind;
};

struct gpu_table {
	size_t n, cap;
	struct gpu_type *v;
	bool complete;		/* every entry is here: "unknown name" is worth saying */
};

struct model_table {
	size_t n, cap;
	struct model *v;
	bool complete;		/* every entry is here: "unknown name" is worth saying */
};

void load_regions(struct cfg_loader *l, const char *path, struct region_table *out);
void load_links(struct cfg_loader *l, const char *path, struct link_table *out);
void load_prices(struct cfg_loader *l, const char *path, struct price_table *out);
void load_gpus(struct cfg_loader *l, const char *path, struct gpu_table *out);
void load_models(struct cfg_loader *l, const char *path, struct model_table *out);
void price_table_free(struct price_table *t);

/* ---- addresses of regions ---- */
/* Adds to the *n that are there; false if one was wrong. */
bool load_prefixes(config_setting_t *s, struct shape_prefix v[SHAPE_PREFIXES_MAX], int *n);
/* Is it an address, and within one of the prefixes? */
bool load_address_within(const char *address, const struct shape_prefix *v, int n);

struct load_owned {
	struct shape_prefix prefix;
	int region, index;	/* whose, and which of its prefixes */
};

/* Calls fn for each prefix with addresses that `first', another region's, has too.
 * Sorts v. */
typedef void (*load_overlap_fn)(const struct load_owned *one, const struct load_owned *first, void *arg);
void load_overlaps(struct load_owned *v, size_t n, load_overlap_fn fn, void *arg);

/* The machines of a cluster whose regions are known; NULL: none. */
void load_hosts(struct cfg_loader *l, config_setting_t *list, struct cluster *c);

void load_cluster(struct cfg_loader *l, const char *path, struct cluster *out);

/* Jobs, and the models of the catalogue that they use. Whether each fits is
 * checked if the cluster is known: loaded, and without an error. */
void load_jobs(struct cfg_loader *l, const char *path, const struct model_table *catalogue,
	       bool cluster_known, struct experiment *e);
/* The policies list of an experiment. */
void load_policies(config_setting_t *list, struct experiment *e);
/* The view and testbed groups; NULL: defaults. */
void load_view(config_setting_t *group, struct view_spec *out);
void load_testbed(config_setting_t *group, struct testbed_spec *out);
/* testbed.disturb, when the cluster's regions are known; NULL: nothing. */
void load_disturb(config_setting_t *list, const struct cluster *c, struct testbed_spec *out);
void disturb_free(struct testbed_spec *t);

/* The path of the profile named on the command line, if it can be read; NULL
 * with a diagnostic otherwise. malloc'd. */
char *load_find_top(struct cfg_loader *l, const char *kind, const char *name);

/* One element of a list; false if it could not be kept. */
typedef bool (*load_entry_fn)(config_setting_t *s, void *arg);

/* Reads a file that is `keys` and a list of entries under list_key. True if
 * every entry was kept. */
bool load_list_file(struct cfg_loader *l, const char *path, const struct cfg_key *keys, size_t n_keys,
		    void *out, const char *list_key, load_entry_fn fn, void *arg);
/* Calls fn for each element, all of them; true if all were true. */
bool load_each(config_setting_t *list, load_entry_fn fn, void *arg);
/* Refuses the name, and returns false, if one of the n items before has it. */
bool load_unique(config_setting_t *entry, const char *key, const char *what, const void *v, size_t n,
		 size_t item_size, size_t name_offset, const char *name);
/* "; did you mean `x'?" or "" for a name that is none of the n items'. */
void load_suggest(const char *name, const void *v, size_t n, size_t item_size, size_t name_offset,
		  char *buf, size_t cap);
/* The name of a profile that does not say its own: the file's. */
void load_default_name(const char *path, char name[NAME_LEN]);

#endif
