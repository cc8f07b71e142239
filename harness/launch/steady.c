/*
 * `wan = "steady"' on real hosts: a lab sets what makes a first step like any
 * other; on hosts it takes root, so what is not so is said, with the commands.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "harness/launch/internal.h"

/* The last number of "4096 131072 6291456". */
static uint64_t last_number(const char *text)
{
	const char *at = text ? strrchr(text, ' ') : NULL;

	return text ? strtoull(at ? at + 1 : text, NULL, 10) : 0;
}

static const char *setting(const json_t *sysctls, const char *name)
{
	char key[96];

	snprintf(key, sizeof(key), "net/ipv4/%s", name);
	return json_string_value(json_object_get(sysctls, key));
}

static void want_word(struct bace_buf *b, const json_t *sysctls, const char *name, const char *word)
{
	const char *is = setting(sysctls, name);

	if (is && strcmp(is, word))
		bace_buf_addf(b, " net.ipv4.%s=%s", name, word);
}

static void want_room(struct bace_buf *b, const json_t *sysctls, const char *name, uint64_t bytes)
{
	const char *is = setting(sysctls, name);

	if (is && last_number(is) < bytes)
		bace_buf_addf(b, " net.ipv4.%s='4096 131072 %llu'", name, (unsigned long long)bytes);
}

/* As a word among others. */
static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = words; p && (p = strstr(p, word)); p += n)
		if ((p == words || p[-1] == ' ') && (!p[n] || p[n] == ' '))
			return true;
	return false;
}

void launch_steady_host(const struct cluster *c, const struct lab_traffic *t, const struct cluster_host *h,
			const json_t *sysctls, struct bace_buf *out)
{
	const char *known = setting(sysctls, "tcp_available_congestion_control");
	uint64_t room = lab_socket_buffer_max(c, t);
	struct bace_buf set = { 0 };

	if (t->wan != WAN_STEADY || h->gateway)
		return;
	want_word(&set, sysctls, "tcp_slow_start_after_idle", "0");
	want_word(&set, sysctls, "tcp_no_metrics_save", "1");
	want_room(&set, sysctls, "tcp_rmem", room);
	want_room(&set, sysctls, "tcp_wmem", room);
	if (set.len)
		bace_buf_addf(out, "%s: for wan = \"steady\", as root: sysctl -w%s", h->name, set.p);
	for (int q = 0; set.len && q < c->n_regions; q++) {
		unsigned n = q != h->region && cluster_link(c, h->region, q)->present ?
			     lab_initial_window(c, h->region, q, t) : 0;

		if (n)
			bace_buf_addf(out, "; towards %s: ip route ... initcwnd %u initrwnd %u", c->regions[q].name, n, n);
	}
	if (known && t->congestion_control[0] && !has_word(known, t->congestion_control))
		bace_buf_addf(out, "%s%s: its kernel has no %s loaded (%s): modprobe tcp_%s", out->len ? "; " : "", h->name,
			      t->congestion_control, known, t->congestion_control);
	bace_buf_free(&set);
}
