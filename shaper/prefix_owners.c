#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shaper/prefix.h"

static int by_prefix(const void *a, const void *b)
{
	const struct prefix_owner *x = a, *y = b;

	return shape_prefix_cmp(&x->prefix, &y->prefix);
}

/* In sorted order a prefix overlaps another exactly if one before it covers
 * it, and then the nearest kept one does. */
static int drop_covered(const struct shape_spec *s, struct prefix_owner *v, size_t *n, struct bace_err *e)
{
	size_t kept = 0;
	char a[64], b[64];

	for (size_t i = 0; i < *n; i++) {
		const struct prefix_owner *last = kept ? &v[kept - 1] : NULL;

		if (last && shape_prefix_covers(&last->prefix, v[i].prefix.family, v[i].prefix.addr)) {
			if (last->link != v[i].link)
				return bace_fail(e, EINVAL, "prefixes overlap: %s of `%s' and %s of `%s'",
						 shape_prefix_format(&last->prefix, a),
						 s->links[last->link].name,
						 shape_prefix_format(&v[i].prefix, b),
						 s->links[v[i].link].name);
			continue;
		}
		v[kept++] = v[i];
	}
	*n = kept;
	return 0;
}

int prefix_owners(const struct shape_spec *s, struct prefix_owner **out, size_t *n, struct bace_err *e)
{
	CLEANUP_FREE struct prefix_owner *v = NULL;
	size_t count = 0, cap = 0;
	int rc;

	for (int i = 0; i < s->n_links; i++) {
		const struct shape_link *l = &s->links[i];

		for (int j = 0; j < l->n_prefixes; j++) {
			const struct prefix_owner o = { .prefix = l->prefixes[j], .link = i };

			rc = shape_prefix_check(&o.prefix, e);
			if (rc)
				return bace_err_context(e, "link `%s'", l->name);
			if (BACE_PUSH(v, count, cap, o))
				return bace_fail(e, ENOMEM, "out of memory");
		}
	}
	if (count)
		qsort(v, count, sizeof(*v), by_prefix);
	rc = drop_covered(s, v, &count, e);
	if (rc)
		return rc;
	*out = STEAL_PTR(v);
	*n = count;
	return 0;
}

int prefix_lookup(const struct prefix_owner *v, size_t n, uint8_t family, const uint8_t *addr)
{
	size_t lo = 0, hi = n, bytes = family == AF_INET ? 4 : 16;

	/* The last prefix whose address is not above this one. */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct shape_prefix *p = &v[mid].prefix;

		if (p->family < family || (p->family == family && memcmp(p->addr, addr, bytes) <= 0))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && shape_prefix_covers(&v[lo - 1].prefix, family, addr) ? v[lo - 1].link : -1;
}
