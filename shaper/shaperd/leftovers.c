#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "shaper/delay/rules.h"
#include "shaper/kernel.h"
#include "shaper/shaperd/shaperd.h"

/* What is ours says so by its handle: no journal is needed to find it. */
static int clear_interface(struct netlink *nl, const char *ifname, struct bace_err *e)
{
	struct if_state nothing = { 0 };
	size_t sent = 0;
	int rc;

	snprintf(nothing.ifname, sizeof(nothing.ifname), "%s", ifname);
	rc = kernel_apply(nl, &nothing, &sent, e);
	if (!rc && sent)
		bace_log(BACE_INFO, "shaperd", "removed the shaping of %s", ifname);
	return rc == -ENODEV ? 0 : rc;
}

int clear_leftovers(const struct shaperd_config *c, struct bace_err *e)
{
	struct if_nameindex *all = if_nameindex();
	struct netlink nl;
	int rc = netlink_open(&nl, NETLINK_ROUTE, e);

	if (rc) {
		if_freenameindex(all);
		return rc;
	}
	for (struct if_nameindex *i = all; i && i->if_index && !rc; i++)
		rc = clear_interface(&nl, i->if_name, e);
	if_freenameindex(all);
	netlink_close(&nl);
	return rc ? rc : delay_rules_clear_leftovers(e);
}
