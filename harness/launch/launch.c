#include "harness/launch/launch.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "harness/launch/internal.h"

static const char *const names[] = { [LAUNCH_LAB] = "lab", [LAUNCH_MANUAL] = "manual", [LAUNCH_SSH] = "ssh",
				     [LAUNCH_SLURM] = "slurm" };

static const struct launcher *const launchers[] = {
	[LAUNCH_MANUAL] = &launcher_manual, [LAUNCH_SSH] = &launcher_ssh, [LAUNCH_SLURM] = &launcher_slurm };

const char *launcher_name(enum launcher_kind k)
{
	return names[k];
}

int launcher_from_name(const char *name, enum launcher_kind *out)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (!strcmp(names[i], name)) {
			*out = (enum launcher_kind)i;
			return 0;
		}
	}
	return -EINVAL;
}

const struct launcher *launcher_of(enum launcher_kind k)
{
	return k > LAUNCH_LAB && k < (int)ARRAY_LEN(launchers) ? launchers[k] : NULL;
}

int launch_check(const struct launch_options *o, const struct cluster *c, struct bace_err *e)
{
	const struct launcher *l = launcher_of(o->kind);
	uint8_t master[WIRE_KEY_BYTES];
	int rc;

	if (!l)
		return bace_fail(e, EINVAL, "no such launcher");
	if (!c->n_hosts)
		return bace_fail(e, EINVAL, "--launcher %s: cluster %s names no `hosts'; see docs/cluster.md",
				 l->name, c->name);
	if (!o->controller || !o->key_path)
		return bace_fail(e, EINVAL, "--launcher %s: --controller ADDR:PORT and --key FILE are needed too",
				 l->name);
	rc = wire_key_load(o->key_path, master, e);
	OPENSSL_cleanse(master, sizeof(master));
	if (rc)
		return rc == -ENOMEM ? rc : -EINVAL;
	return l->check ? l->check(o, c, e) : 0;
}

/* ---- command lines ---- */

void args_add(struct launch_args *a, const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (a->n == LAUNCH_ARGS_MAX || vasprintf(&s, fmt, ap) < 0)
		a->failed = true;
	else
		a->v[a->n++] = s;
	va_end(ap);
}

void args_free(struct launch_args *a)
{
	for (int i = 0; i < a->n; i++)
		free(a->v[i]);
	*a = (struct launch_args){ 0 };
}

void args_agent(struct launch_args *a, const struct launch_options *o, const struct cluster_host *h, const char *key)
{
	args_add(a, "%s", o->agent_path);
	args_add(a, "--controller");
	args_add(a, "%s", o->controller);
	args_add(a, "--name");
	args_add(a, "%s", h->name);
	args_add(a, "--key");
	args_add(a, "%s", key);
	if (*h->egress && *h->shaperd) {
		args_add(a, "--shaperd");
		args_add(a, "%s", h->shaperd);
	}
}
