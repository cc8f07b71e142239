/*
 * What is worth saying of a real host. `wan = "steady"': a lab sets what makes a
 * first step like any other; on hosts it takes root, so what is not so is said,
 * with the commands.
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

/* The initial windows towards a region: those that its route has, as far as the agent
 * could tell, against those with which a first message goes out whole. */
static void want_window(struct bace_buf *b, const json_t *routes, const char *region, unsigned n)
{
	const json_t *to = json_object_get(json_object_get(routes, "to"), region);
	json_int_t out = json_integer_value(json_object_get(to, "initcwnd"));
	json_int_t in = json_integer_value(json_object_get(to, "initrwnd"));

	if (out < (json_int_t)n || in < (json_int_t)n)
		bace_buf_addf(b, "%stowards %s: ip route ... initcwnd %u initrwnd %u", b->len ? "; " : "", region, n, n);
}

void launch_steady_host(const struct cluster *c, const struct lab_traffic *t, const struct cluster_host *h,
			const json_t *inventory, struct bace_buf *out)
{
	const json_t *sysctls = json_object_get(inventory, "sysctls");
	const char *known = setting(sysctls, "tcp_available_congestion_control");
	uint64_t room = lab_socket_buffer_max(c, t);
	struct bace_buf set = { 0 }, as_root = { 0 };

	if (t->wan != WAN_STEADY || h->gateway)
		return;
	want_word(&set, sysctls, "tcp_slow_start_after_idle", "0");
	want_word(&set, sysctls, "tcp_no_metrics_save", "1");
	want_room(&set, sysctls, "tcp_rmem", room);
	want_room(&set, sysctls, "tcp_wmem", room);
	if (set.len)
		bace_buf_addf(&as_root, "sysctl -w%s", set.p);
	for (int q = 0; q < c->n_regions; q++)
		if (q != h->region && cluster_link(c, h->region, q)->present)
			want_window(&as_root, json_object_get(inventory, "routes"), c->regions[q].name,
				    lab_initial_window(c, h->region, q, t));
	if (as_root.len)
		bace_buf_addf(out, "%s: for wan = \"steady\", as root: %s", h->name, as_root.p);
	if (known && t->congestion_control[0] && !has_word(known, t->congestion_control))
		bace_buf_addf(out, "%s%s: its kernel has no %s loaded (%s): modprobe tcp_%s", out->len ? "; " : "", h->name,
			      t->congestion_control, known, t->congestion_control);
	bace_buf_free(&set);
	bace_buf_free(&as_root);
}

void launch_control_interface(const struct tb_host *h, const json_t *inventory, struct bace_buf *out)
{
	const char *dev = json_string_value(json_object_get(json_object_get(inventory, "routes"), "control"));
	bool shapes = h->shape.n_links > 0;

	if (dev && *dev && shapes && (!strcmp(dev, h->shape.egress) || !strcmp(dev, h->shape.ingress)))
		bace_buf_addf(out, "%s: %s, which it shapes, carries its connection with the controller, too: if that is cut "
			      "off, so is the run", h->name, dev);
}

void launch_unbounded(const struct cluster *c, const struct lab_traffic *t, struct bace_buf *out)
{
	int n = 0;

	for (int i = 0; i < c->n_hosts; i++)
		if (!c->hosts[i].gateway && !*c->hosts[i].egress)
			bace_buf_addf(out, "%s%s", n++ ? ", " : "no egress given of ", c->hosts[i].name);
	if (n)
		bace_buf_addf(out, ": GSO packets of up to 64 kB leave %s, where %u bytes at most are 2 %% of the smallest "
			      "message", n == 1 ? "it" : "them", lab_gso_max(c, t));
}
