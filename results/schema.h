/* Private to results: the schema, as the steps that lead to it. */
#ifndef BACE_RESULTS_SCHEMA_H
#define BACE_RESULTS_SCHEMA_H

#define STORE_APPLICATION_ID 0x62616365	/* "bace" */

/* store_migrations[v] takes a store from version v to v + 1. */
extern const char *const store_migrations[];
extern const int store_version;

#endif
