#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "harness/lab/lab.h"
#include "harness/lab/sandbox.h"

/* What native namespaces can do here, found once. */
struct native {
	bool usable;
	enum delay_kind delay;
	char why[256];		/* why not usable, or what delay was found missing */
};

static int probe_delay(void)
{
	const char *why;

	return (int)shape_probe_delay(&why);
}

static void probe_native(struct native *n)
{
	struct bace_err e = { 0 };
	int rc = sandbox_probe(probe_delay, &e);

	*n = (struct native){ .usable = rc >= 0, .delay = rc > 0 ? (enum delay_kind)rc : DELAY_NONE };
	if (rc < 0)
		snprintf(n->why, sizeof(n->why), "%.250s", e.msg);
}

static const char *uml_missing(void)
{
	glob_t g;
	bool modules = !glob("/usr/lib/uml/modules/*/modules.dep", 0, NULL, &g);

	if (modules)
		globfree(&g);
	if (access("/usr/bin/linux.uml", X_OK))
		return "/usr/bin/linux.uml is missing (Debian package user-mode-linux)";
	if (!modules)
		return "/usr/lib/uml/modules is missing (Debian package user-mode-linux)";
	return NULL;
}

static int refuse(struct bace_err *e, const char *backend, const char *why)
{
	return bace_fail(e, ENOSYS, "backend %s: %s", backend, why);
}

static int say(char **why, enum backend_kind k, enum backend_kind *chosen, const char *fmt, ...)
{
	va_list ap;
	int rc;

	*chosen = k;
	va_start(ap, fmt);
	rc = vasprintf(why, fmt, ap);
	va_end(ap);
	return rc < 0 ? -ENOMEM : 0;
}

static int choose_auto(const struct native *n, const struct utsname *u, enum backend_kind *chosen,
		       char **why, struct bace_err *e)
{
	const char *no_uml = uml_missing();

	if (n->usable && n->delay == DELAY_NETEM)
		return say(why, BACKEND_NETEM, chosen, "kernel %s has sch_netem", u->release);
	if (n->usable && n->delay == DELAY_NFQUEUE)
		return say(why, BACKEND_NFQUEUE, chosen,
			   "kernel %s has no sch_netem, but NFQUEUE: delays by a delay line", u->release);
	if (!no_uml)
		return say(why, BACKEND_UML, chosen, "%s%s: a kernel with netem in User-Mode Linux",
			   n->usable ? "this kernel has neither sch_netem nor NFQUEUE" : n->why, "");
	return bace_fail(e, ENOSYS, "no backend: %s; and %s",
			 n->usable ? "this kernel has neither sch_netem nor NFQUEUE (iptables missing?)" :
			 n->why, no_uml);
}

int lab_choose_backend(enum backend_kind wanted, enum backend_kind *chosen, char **why,
		       struct bace_err *e)
{
	struct native n;
	struct utsname u;
	const char *no_uml;

	uname(&u);
	if (wanted == BACKEND_UML) {
		no_uml = uml_missing();
		if (no_uml)
			return refuse(e, "uml", no_uml);
		return say(why, BACKEND_UML, chosen, "asked for: a kernel with netem in User-Mode Linux");
	}
	probe_native(&n);
	if (wanted == BACKEND_AUTO)
		return choose_auto(&n, &u, chosen, why, e);
	if (!n.usable)
		return refuse(e, backend_name(wanted), n.why);
	if (wanted == BACKEND_NETEM && n.delay != DELAY_NETEM)
		return refuse(e, "netem", "this kernel has no sch_netem (Debian: the module is in "
			      "linux-image; cloud kernels lack it); try --backend nfqueue or uml");
	/* A kernel with netem usually has NFQUEUE as well; if not, shaperd says so. */
	if (wanted == BACKEND_NFQUEUE && n.delay == DELAY_NONE)
		return refuse(e, "nfqueue", "this kernel has no NFQUEUE target, or iptables is missing "
			      "(Debian package iptables); try --backend uml");
	return say(why, wanted, chosen, "asked for");
}
