/* For those who write JSON with jansson; common itself does not. */
#ifndef BACE_JSON_H
#define BACE_JSON_H

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/common.h"

static inline void *json_room(size_t bytes)
{
	void *p = malloc(bytes);

	if (!p && bytes) {
		bace_log(BACE_ERROR, "json", "out of memory");
		_exit(BACE_EXIT_FAILED);
	}
	return p;
}

/* For main(): a tree is built by many calls, and one that fails leaves a hole that looks
 * like an answer. Without memory for it the program says so and ends, as if killed. */
static inline void json_end_without_memory(void)
{
	json_set_alloc_funcs(json_room, free);
}

/* JSON knows neither NAN nor infinity: null. */
static inline json_t *json_number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

/* A path or a bad value may be no UTF-8, which JSON does not take: ? for what it is not. */
static inline json_t *json_text(const char *s)
{
	json_t *v = json_string(s);
	char *ascii = v ? NULL : strdup(s);

	for (char *c = ascii; c && *c; c++)
		if (*c & 0x80)
			*c = '?';
	v = v || !ascii ? v : json_string(ascii);
	free(ascii);
	return v;
}

#endif
