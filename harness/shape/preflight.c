/* What may surprise: said before it does. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/shape/shape.h"

#define HTB_CEILING_BPS 4e9	/* of one core, bulk TCP with GSO; measured 4 to 6 Gbit/s */
#define MODERN_GSO 65536

static void note(struct shape_notes *n, const char *fmt, ...) BACE_PRINTF(2, 3);

static void note(struct shape_notes *n, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (text && BACE_PUSH(n->v, n->n, n->cap, text))
		free(text);
}

void shape_notes_free(struct shape_notes *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->v[i]);
	free(n->v);
	*n = (struct shape_notes){ 0 };
}

/* The last number of a sysctl; 0: there is none. */
static double sysctl_last(const char *path)
{
	CLEANUP_FREE char *text = NULL;
	const char *last;
	size_t n;

	if (bace_read_file(path, 256, &text, &n, NULL))
		return 0;
	while (n && (text[n - 1] == '\n' || text[n - 1] == '\t' || text[n - 1] == ' '))
		text[--n] = '\0';
	last = strrchr(text, '\t');
	return strtod(last ? last + 1 : text, NULL);
}

/* Half of the receive buffer is for the kernel's own bookkeeping. */
static void check_window(const struct shape_spec *s, struct shape_notes *n)
{
	double rmem = sysctl_last("/proc/sys/net/ipv4/tcp_rmem") / 2, wmem = sysctl_last("/proc/sys/net/ipv4/tcp_wmem");
	double window = rmem < wmem ? rmem : wmem;
	char w[BACE_FMT_MAX], b[BACE_FMT_MAX], r[BACE_FMT_MAX];

	for (int i = 0; i < s->n_links && window > 0; i++) {
		const struct shape_link *l = &s->links[i];
		double bdp = (double)l->rate_bps / 8 * (double)l->rtt_ns / 1e9;

		if (bdp <= window)
			continue;
		note(n, "%s: one TCP connection carries at most %s: its window here is %s, rate x RTT is %s; raise "
		     "net.ipv4.tcp_rmem and tcp_wmem on the hosts, or use more connections", l->name,
		     bace_fmt_rate(r, window * 8 / ((double)l->rtt_ns / 1e9)), bace_fmt_size(w, window),
		     bace_fmt_size(b, bdp));
	}
}

static void check_ceiling(const struct shape_spec *s, struct shape_notes *n)
{
	char r[BACE_FMT_MAX], c[BACE_FMT_MAX];
	double sum = 0;

	for (int i = 0; i < s->n_links; i++)
		sum += (double)s->links[i].rate_bps;
	if (sum > HTB_CEILING_BPS)
		note(n, "the links add up to %s; HTB has one lock and takes the place of mq: one core carries about %s",
		     bace_fmt_rate(r, sum), bace_fmt_rate(c, HTB_CEILING_BPS));
}

/* HTB sends a GSO packet as one, at once. */
static void check_offloads(const struct shape_spec *s, struct shape_notes *n)
{
	double gso = s->gso_max_bytes ? s->gso_max_bytes : MODERN_GSO;
	char t[BACE_FMT_MAX], g[BACE_FMT_MAX];

	for (int i = 0; i < s->n_links; i++) {
		const struct shape_link *l = &s->links[i];
		double seconds = l->rate_bps ? gso * 8 / (double)l->rate_bps : 0;

		if (seconds > 0.005)
			note(n, "%s: a GSO packet of %s leaves as one and is %s of the link's time; gso_max makes them smaller",
			     l->name, bace_fmt_size(g, gso), bace_fmt_time(t, seconds));
		if (s->delay == DELAY_NETEM && (l->loss > 0 || l->impair.loss_model != LOSS_RANDOM) && gso > 2048)
			note(n, "%s: netem loses whole GSO packets, so TCP's losses come in bursts; gso_max = \"2048B\" on the "
			     "hosts' devices avoids it", l->name);
	}
}

void shape_module_hint(const char *modules, char *buf, size_t cap)
{
	CLEANUP_FREE char *os = NULL;
	const char *package = "the package with your kernel's further modules (Debian: linux-image-amd64 instead of "
			      "-cloud; Ubuntu: linux-modules-extra-$(uname -r); Fedora, RHEL: kernel-modules-extra)";

	if (!bace_read_file("/etc/os-release", 65536, &os, NULL, NULL)) {
		if (strstr(os, "\nID=ubuntu") || !strncmp(os, "ID=ubuntu", 9))
			package = "linux-modules-extra-$(uname -r)";
		else if (strstr(os, "ID=fedora") || strstr(os, "rhel"))
			package = "kernel-modules-extra";
		else if (strstr(os, "ID=debian"))
			package = "linux-image-amd64 (its cloud variant and many container and microVM kernels lack them)";
	}
	snprintf(buf, cap, "this kernel has no %s; install %s", modules, package);
}

void shape_preflight(const struct shape_spec *s, struct shape_notes *n)
{
	char modules[128], hint[400];

	if (!shape_missing_modules(s->delay, modules, sizeof(modules)) && *modules) {
		shape_module_hint(modules, hint, sizeof(hint));
		note(n, "%s", hint);
	}
	check_window(s, n);
	check_ceiling(s, n);
	check_offloads(s, n);
	if (sysctl_last("/proc/sys/net/ipv4/tcp_slow_start_after_idle") > 0)
		note(n, "net.ipv4.tcp_slow_start_after_idle is 1: connections fall back to slow start after each pause");
}
