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

static void check_window(const struct shape_spec *s, const struct shape_machine *m, struct shape_notes *n)
{
	double window = m->rcv_window_bytes < m->snd_window_bytes ? m->rcv_window_bytes : m->snd_window_bytes;
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

/* Where the file says how large messages are. */
static void check_buffers(const struct shape_spec *s, struct shape_notes *n)
{
	char has[BACE_FMT_MAX], wants[BACE_FMT_MAX];

	for (int i = 0; i < s->n_links; i++) {
		const struct shape_link *l = &s->links[i];
		uint64_t wanted = shape_buffer_wanted(s, l);

		if (l->buffer_bytes && l->message_bytes && l->buffer_bytes < wanted)
			note(n, "%s: a buffer of %s is less than rate x RTT or than 1.2 messages need, %s: packets are lost, and "
			     "with less than one message it takes 37 to 83 %% longer", l->name,
			     bace_fmt_size(has, (double)l->buffer_bytes), bace_fmt_size(wants, (double)wanted));
	}
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

/* Who asks for ECN may expect a bottleneck that marks. */
static void check_ecn(const struct shape_spec *s, struct shape_notes *n)
{
	for (int i = 0; i < s->n_links; i++)
		if (s->links[i].impair.ecn)
			note(n, "%s: ecn marks what `loss' would drop; a full buffer of the link (bfifo) drops and marks nothing",
			     s->links[i].name);
}

/* What leaves by another interface meets no class, and nothing else would say so. */
static void check_way(const struct shape_spec *s, const struct shape_machine *m, struct shape_notes *n)
{
	char prefix[64], more[48] = "";

	if (!m->stray.n)
		return;
	if (m->stray.n > 1)
		snprintf(more, sizeof(more), ", nor to %d more prefixes", m->stray.n - 1);
	note(n, "%s: the way to %s leaves by %s, not by %s: what is sent there is not shaped%s (see `ip route get')",
	     m->stray.name, shape_prefix_format(&m->stray.prefix, prefix), m->stray.ifname, s->egress, more);
}

/* Is `word' among what a line KEY=... of os-release says? */
static bool line_has(const char *os, const char *key, const char *word)
{
	size_t n = strlen(word);

	for (const char *line = os; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *end = line + strcspn(line, "\n");

		if (strncmp(line, key, strlen(key)))
			continue;
		for (const char *p = line + strlen(key); p + n <= end; p++)
			if (!strncmp(p, word, n) && strchr("= \"\'", p[-1]) && (p + n == end || strchr(" \"\'", p[n])))
				return true;
	}
	return false;
}

static const struct {
	const char *id, *package;
} packages[] = {
	/* A derived distribution is like its parent: the more special first. */
	{ "ubuntu", "linux-modules-extra-$(uname -r)" },
	{ "debian", "linux-image-amd64 (its cloud variant and many container and microVM kernels lack them)" },
	{ "rhel", "kernel-modules-extra" },
	{ "fedora", "kernel-modules-extra" },
	{ "suse", "kernel-default (in place of kernel-default-base)" },
	{ "opensuse", "kernel-default (in place of kernel-default-base)" },
	{ "arch", "linux (and reboot if it was updated: modules of the old one are gone)" },
	{ "alpine", "linux-lts (in place of linux-virt)" },
};

void shape_module_hint(const char *modules, const char *os_release, char *buf, size_t cap)
{
	const char *package = "the package with your kernel's further modules (Debian: linux-image-amd64 instead of "
			      "-cloud; Ubuntu: linux-modules-extra-$(uname -r); Fedora, RHEL: kernel-modules-extra)";
	static const char *const keys[] = { "ID=", "ID_LIKE=" };
	bool found = !os_release;

	for (size_t k = 0; k < ARRAY_LEN(keys) && !found; k++) {
		for (size_t i = 0; i < ARRAY_LEN(packages) && !found; i++) {
			found = line_has(os_release, keys[k], packages[i].id);
			package = found ? packages[i].package : package;
		}
	}
	snprintf(buf, cap, "this kernel has no %s; install %s", modules, package);
}

/* What delays it needs: none where no link has one. */
static enum delay_kind delay_needed(const struct shape_spec *s)
{
	struct shape_computed c;

	for (int i = 0; i < s->n_links; i++) {
		shape_compute(s, &s->links[i], &c);
		if (c.delay_limit_pkts)
			return s->delay;
	}
	return DELAY_NONE;
}

void shape_machine_read(const struct shape_spec *s, struct shape_machine *m)
{
	*m = (struct shape_machine){
		/* Half of the receive buffer is for the kernel's own bookkeeping. */
		.rcv_window_bytes = sysctl_last("/proc/sys/net/ipv4/tcp_rmem") / 2,
		.snd_window_bytes = sysctl_last("/proc/sys/net/ipv4/tcp_wmem"),
		.slow_start_after_idle = sysctl_last("/proc/sys/net/ipv4/tcp_slow_start_after_idle") > 0 };
	if (shape_missing_modules(delay_needed(s), m->missing, sizeof(m->missing)))
		*m->missing = '\0';
	shape_find_stray(s, &m->stray, NULL);
	bace_read_file("/etc/os-release", 65536, &m->os_release, NULL, NULL);
}

void shape_machine_free(struct shape_machine *m)
{
	free(m->os_release);
	m->os_release = NULL;
}

void shape_notes_of(const struct shape_spec *s, const struct shape_machine *m, struct shape_notes *n)
{
	char hint[400];

	if (*m->missing) {
		shape_module_hint(m->missing, m->os_release, hint, sizeof(hint));
		note(n, "%s", hint);
	}
	check_way(s, m, n);
	check_window(s, m, n);
	check_ceiling(s, n);
	check_offloads(s, n);
	check_ecn(s, n);
	check_buffers(s, n);
	if (m->slow_start_after_idle)
		note(n, "net.ipv4.tcp_slow_start_after_idle is 1: connections fall back to slow start after each pause");
}

void shape_preflight(const struct shape_spec *s, struct shape_notes *n)
{
	struct shape_machine m;

	shape_machine_read(s, &m);
	shape_notes_of(s, &m, n);
	shape_machine_free(&m);
}

int shape_check_modules(const struct shape_spec *s, struct bace_err *e)
{
	CLEANUP_FREE char *os = NULL;
	char missing[128], hint[400];

	/* Where no scratch namespace can be made to try, the kernel says it in its own words. */
	if (shape_missing_modules(delay_needed(s), missing, sizeof(missing)) || !*missing)
		return 0;
	bace_read_file("/etc/os-release", 65536, &os, NULL, NULL);
	shape_module_hint(missing, os, hint, sizeof(hint));
	return bace_fail(e, ENOSYS, "%s", hint);
}
