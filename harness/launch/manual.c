/* manual: prints what is to be typed on each host, and waits. */
#include <stdlib.h>

#include "harness/launch/internal.h"

static void say_one(const struct launch_config *cfg, const struct cluster_host *h)
{
	struct launch_args a = { 0 };
	char key[NAME_LEN + 8];

	fprintf(stderr, "  on %s, with the key of `bace keygen --host %s --from %s %s.key':\n", h->name, h->name,
		cfg->o->key_path, h->name);
	if (*h->egress)
		fprintf(stderr, "    as root:  bace-shaperd --socket %s --iface %s%s%s --state /run/bace &\n", h->shaperd,
			h->egress, *h->ingress ? "," : "", h->ingress);
	snprintf(key, sizeof(key), "%s.key", h->name);
	args_agent(&a, cfg->o, h, key);
	fputs("    as a user:", stderr);
	for (int i = 0; i < a.n; i++)
		fprintf(stderr, " %s", a.v[i]);
	fputs("\n", stderr);
	args_free(&a);
}

static void announce(const struct launch_config *cfg)
{
	fprintf(stderr, "start an agent on each of the %d hosts; waiting for them:\n", cfg->cluster->n_hosts);
	for (int i = 0; i < cfg->cluster->n_hosts; i++)
		say_one(cfg, &cfg->cluster->hosts[i]);
	fflush(stderr);
}

const struct launcher launcher_manual = { .name = "manual", .wait_s = 600, .announce = announce };
