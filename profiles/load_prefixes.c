/* Addresses of regions: what a cluster and a shape file have in common. */
#include <stdlib.h>
#include <string.h>

#include "profiles/load.h"

bool load_prefixes(config_setting_t *s, struct shape_prefix v[SHAPE_PREFIXES_MAX], int *n)
{
	int length = config_setting_is_array(s) || config_setting_is_list(s) ? config_setting_length(s) : 0;
	bool ok = true;

	if (!length || length > SHAPE_PREFIXES_MAX) {
		cfg_error(s, "must be an array of 1 to %d address prefixes", SHAPE_PREFIXES_MAX);
		return false;
	}
	for (int i = 0; i < length; i++) {
		config_setting_t *element = config_setting_get_elem(s, (unsigned)i);
		const char *text = config_setting_get_string(element);
		struct bace_err e = { 0 };

		if (text && !shape_prefix_parse(text, &v[*n], &e)) {
			++*n;
			continue;
		}
		cfg_error(element, "%s", text ? e.msg : "must be a string such as \"10.16.0.0/16\" or \"fd00:16::/32\"");
		ok = false;
	}
	return ok;
}

bool load_address_within(const char *address, const struct shape_prefix *v, int n)
{
	struct shape_prefix p;

	if (shape_prefix_parse(address, &p, NULL))
		return false;
	for (int i = 0; i < n; i++)
		if (shape_prefix_covers(&v[i], p.family, p.addr))
			return true;
	return false;
}

static int by_prefix(const void *a, const void *b)
{
	const struct load_owned *x = a, *y = b;
	int c = shape_prefix_cmp(&x->prefix, &y->prefix);

	return c ? c : x->region - y->region;
}

void load_overlaps(struct load_owned *v, size_t n, load_overlap_fn fn, void *arg)
{
	const struct load_owned *last = NULL;

	qsort(v, n, sizeof(*v), by_prefix);
	/* In this order the nearest one kept covers whatever any of them does. */
	for (size_t i = 0; i < n; i++) {
		if (!last || !shape_prefix_covers(&last->prefix, v[i].prefix.family, v[i].prefix.addr))
			last = &v[i];
		else if (last->region != v[i].region)
			fn(&v[i], last, arg);
	}
}
