/* gso_max_size of the sending interface: set, read back, put back. */
#include <errno.h>

#include "shaper/calc.h"
#include "shaper/shaping_state.h"

static int set_and_look(struct shaping *s, const char *ifname, struct if_info *info, uint32_t bytes, uint32_t ipv4_bytes,
			struct bace_err *e)
{
	int rc = kernel_set_gso_max(&s->nl, info, bytes, ipv4_bytes, e);

	if (!rc)
		rc = kernel_if_info(&s->nl, ifname, info, e);
	if (rc)
		return rc;
	if (info->gso_max_bytes != bytes || (ipv4_bytes && info->gso_ipv4_max_bytes != ipv4_bytes))
		rc = bace_fail(e, EIO, "read back `%s': gso_max_size is %u (IPv4: %u), not %u", ifname, info->gso_max_bytes,
			       info->gso_ipv4_max_bytes, bytes);
	return rc;
}

int shaping_restore_gso(struct shaping *s, struct journal_entry *t, struct bace_err *e)
{
	struct if_info info;
	int rc;

	if (!t->gso_before)
		return 0;
	rc = kernel_if_info(&s->nl, t->ifname, &info, e);
	if (!rc)
		rc = set_and_look(s, t->ifname, &info, t->gso_before, t->gso_ipv4_before, e);
	/* The interface went away. */
	if (!rc || rc == -ENODEV)
		t->gso_before = 0;
	return rc == -ENODEV ? 0 : rc;
}

int shaping_apply_gso(struct shaping *s, const struct shape_spec *spec, size_t *n_changes, struct bace_err *e)
{
	struct journal_entry *t = shaping_touch(s, spec->egress, e);
	bool restored = false;
	struct if_info info;
	int rc;

	if (!t)
		return -ENOMEM;
	for (size_t i = 0; i < s->touched.n; i++) {
		if ((&s->touched.v[i] == t && spec->gso_max_bytes) || !s->touched.v[i].gso_before)
			continue;
		rc = shaping_restore_gso(s, &s->touched.v[i], e);
		if (rc)
			return rc;
		restored = true;
	}
	if (restored && (rc = shaping_keep_journal(s, e)))
		return rc;
	if (!spec->gso_max_bytes)
		return 0;
	rc = kernel_if_info(&s->nl, spec->egress, &info, e);
	if (rc || info.gso_max_bytes == spec->gso_max_bytes)
		return rc;
	if (!t->gso_before) {
		t->gso_before = info.gso_max_bytes ? info.gso_max_bytes : CALC_GSO_MAX_DEFAULT;
		t->gso_ipv4_before = info.gso_ipv4_max_bytes;
		rc = shaping_keep_journal(s, e);
		if (rc)
			return rc;
	}
	rc = set_and_look(s, spec->egress, &info, spec->gso_max_bytes, 0, e);
	*n_changes += !rc;
	return rc;
}
