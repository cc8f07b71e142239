/* The two halves of the reader of shape files. */
#ifndef BACE_PROFILES_LOAD_SHAPE_H
#define BACE_PROFILES_LOAD_SHAPE_H

#include "profiles/load.h"

/* A region, or a path, and the setting that it was read from. */
struct shape_building {
	struct cfg_loader *l;
	struct shape_file *out;
	size_t n_regions, cap_regions, n_hosts, cap_hosts, n_paths, cap_paths;
	config_setting_t **region_settings;
	size_t cap_settings;
	int *by_name;			/* regions, sorted by name */
	bool complete;			/* every region could be read */
	int mtu;
	char **table_paths;		/* as many as out->n_tables */
	size_t cap_tables, cap_table_paths;
	int64_t own_latency_ns;		/* of every path that does not say its own */
};

/* Index of the region of this name, or -1; needs by_name. */
int shape_region_find(const struct shape_building *b, const char *name);
/* Suggests a name near to one that is no region's. */
void shape_region_suggest(const struct shape_building *b, const char *name, char *buf, size_t cap);

/* Paths from the cluster or the links file that the root names. */
void load_shape_base(struct shape_building *b, config_setting_t *root);
/* Paths of the file's own list, which add to those or change them. */
void load_shape_links(struct shape_building *b, config_setting_t *list);
/* Index of the jitter table whose path `s' is, read once; -1 with a diagnostic. */
int load_shape_table(struct shape_building *b, config_setting_t *s);
void load_shape_tables_done(struct shape_building *b);
/* Sorts the paths, and refuses what no path can be. */
void load_shape_check(struct shape_building *b, config_setting_t *root);

#endif
