/* A small tree of profiles in a temporary directory, good as it is, to break
 * one file at a time. */
#ifndef TEST_PROFILES_TREE_H
#define TEST_PROFILES_TREE_H

#include "profiles/profiles.h"

/* cmocka group set-up and tear-down: makes the directory, sets BACE_PROFILES. */
int tree_setup(void **state);
int tree_teardown(void **state);
/* Writes every file as it is when good. */
void tree_reset(void);
/* Replaces one file ("links/l.cfg"), or with text = NULL removes it. */
void tree_write(const char *name, const char *text);
const char *tree_dir(void);

extern const char *const tree_good_regions, *const tree_good_links, *const tree_good_prices,
	*const tree_good_gpus, *const tree_good_models, *const tree_good_cluster,
	*const tree_good_jobs, *const tree_good_experiment;

#endif
