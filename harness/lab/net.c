#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/lab/lab.h"

#define HEADERS_IPV4_TS 52	/* IPv4 20, TCP 20, timestamps 12 */
#define LAB_REGIONS_MAX 64	/* second octet 16..79 */
#define LAB_HOSTS_PER_REGION_MAX 200

int cluster_scaled(const struct cluster *from, double scale_bytes, double scale_time,
		   struct cluster *out)
{
	size_t n = (size_t)from->n_regions;
	double rate = scale_bytes / scale_time;

	*out = *from;
	out->regions = calloc(n, sizeof(*out->regions));
	out->links = calloc(n * n, sizeof(*out->links));
	if (!out->regions || !out->links) {
		cluster_scaled_free(out);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		out->regions[i] = from->regions[i];
		out->regions[i].bandwidth_bps *= rate;
		out->regions[i].intra_latency_ns =
			llround((double)from->regions[i].intra_latency_ns * scale_time);
	}
	for (size_t i = 0; i < n * n; i++) {
		struct link *l = &out->links[i];

		*l = from->links[i];
		l->rate_bps = (uint64_t)llround((double)l->rate_bps * rate);
		l->latency_ns = llround((double)l->latency_ns * scale_time);
		l->jitter_ns = llround((double)l->jitter_ns * scale_time);
		l->buffer_bytes = (uint64_t)llround((double)l->buffer_bytes * scale_bytes);
	}
	return 0;
}

void cluster_scaled_free(struct cluster *c)
{
	free(c->regions);
	free(c->links);
	c->regions = NULL;
	c->links = NULL;
}

static void host_init(struct lab_host *h, int index, int region, bool gateway)
{
	h->region = region;
	h->gateway = gateway;
	snprintf(h->mgmt, sizeof(h->mgmt), "10.15.%d.%d", (index + 10) / 250, (index + 10) % 250);
}

int lab_net_build(const struct cluster *c, int hosts_per_region, struct lab_net *out,
		  struct bace_err *e)
{
	int n = 0;

	*out = (struct lab_net){ .n_regions = c->n_regions, .hosts_per_region = hosts_per_region };
	if (c->n_regions > LAB_REGIONS_MAX)
		return bace_fail(e, EINVAL, "a lab has at most %d regions, not %d", LAB_REGIONS_MAX,
				 c->n_regions);
	if (hosts_per_region < 1 || hosts_per_region > LAB_HOSTS_PER_REGION_MAX)
		return bace_fail(e, EINVAL, "hosts_per_region = %d: must be 1 to %d",
				 hosts_per_region, LAB_HOSTS_PER_REGION_MAX);
	out->n_hosts = c->n_regions * (1 + hosts_per_region);
	out->hosts = calloc((size_t)out->n_hosts, sizeof(*out->hosts));
	if (!out->hosts)
		return bace_fail(e, ENOMEM, "lab of %d hosts: out of memory", out->n_hosts);
	for (int r = 0; r < c->n_regions; r++, n++) {
		struct lab_host *h = &out->hosts[n];

		host_init(h, n, r, true);
		snprintf(h->name, sizeof(h->name), "%.40s-gw", c->regions[r].name);
		snprintf(h->addr, sizeof(h->addr), "10.%d.0.1", 16 + r);
	}
	for (int r = 0; r < c->n_regions; r++) {
		for (int i = 0; i < hosts_per_region; i++, n++) {
			struct lab_host *h = &out->hosts[n];

			host_init(h, n, r, false);
			snprintf(h->name, sizeof(h->name), "%.40s-%d", c->regions[r].name, i);
			snprintf(h->addr, sizeof(h->addr), "10.%d.0.%d", 16 + r, 10 + i);
		}
	}
	return 0;
}

void lab_net_free(struct lab_net *n)
{
	free(n->hosts);
	*n = (struct lab_net){ 0 };
}

int lab_host_of(const struct lab_net *n, int region, int gpu)
{
	int hosts = 0, nth;

	for (int i = 0; i < n->n_hosts; i++)
		hosts += n->hosts[i].region == region && !n->hosts[i].gateway;
	if (!hosts)
		return -1;
	nth = gpu % hosts;
	for (int i = 0; i < n->n_hosts; i++)
		if (n->hosts[i].region == region && !n->hosts[i].gateway && nth-- == 0)
			return i;
	return -1;
}

static double bdp_bytes(const struct cluster *c, int src, int dst)
{
	const struct link *there = cluster_link(c, src, dst);
	const struct link *back = cluster_link(c, dst, src);

	return (double)there->rate_bps / 8 * (double)(there->latency_ns + back->latency_ns) / 1e9;
}

unsigned lab_initial_window(const struct cluster *c, int src, int dst,
			    const struct lab_traffic *t)
{
	double bytes = bdp_bytes(c, src, dst) + (double)t->message_bytes;

	return (unsigned)ceil(bytes / (c->mtu - HEADERS_IPV4_TS));
}

uint64_t lab_socket_buffer_max(const struct cluster *c, const struct lab_traffic *t)
{
	double most = 4 << 20;

	for (int s = 0; s < c->n_regions; s++)
		for (int d = 0; d < c->n_regions; d++)
			if (s != d && cluster_link(c, s, d)->present)
				most = fmax(most, 2 * (bdp_bytes(c, s, d) + (double)t->message_bytes));
	return (uint64_t)most;
}

static void set_prefixes(const struct cluster *c, int region, bool real, struct shape_link *l)
{
	const struct region *r = &c->regions[region];

	l->n_prefixes = real ? r->n_prefixes : 1;
	memcpy(l->prefixes, r->prefixes, (size_t)r->n_prefixes * sizeof(*r->prefixes));
	if (!real)
		l->prefixes[0] = (struct shape_prefix){
			.family = AF_INET, .len = 16, .addr = { 10, (uint8_t)(16 + region) } };
}

int lab_shape_links(const struct cluster *c, int region, bool real, const struct lab_traffic *t,
		    struct shape_spec *s)
{
	s->links = calloc((size_t)c->n_regions, sizeof(*s->links));
	if (!s->links)
		return -ENOMEM;
	for (int q = 0; q < c->n_regions; q++) {
		const struct link *to = cluster_link(c, region, q), *from = cluster_link(c, q, region);

		if (q == region || (!to->present && !from->present))
			continue;
		struct shape_link *l = &s->links[s->n_links++];

		snprintf(l->name, sizeof(l->name), "%s", c->regions[q].name);
		l->region = (uint16_t)q;
		set_prefixes(c, q, real, l);
		l->rate_bps = to->present ? to->rate_bps : 0;
		l->buffer_bytes = to->buffer_bytes;
		l->latency_ns = from->present ? from->latency_ns : 0;
		l->jitter_ns = from->jitter_ns;
		l->jitter_dist = from->jitter_dist;
		l->loss = from->loss;
		l->reverse_rate_bps = from->rate_bps;
		l->rtt_ns = to->latency_ns + from->latency_ns;
		l->message_bytes = t->message_bytes * (uint64_t)(t->jobs_on_link > 0 ? t->jobs_on_link : 1);
	}
	return 0;
}

static int gateway_shape(const struct cluster *c, int region, enum delay_kind delay,
			 const struct lab_traffic *t, struct shape_spec *s)
{
	snprintf(s->egress, sizeof(s->egress), "wan0");
	snprintf(s->ingress, sizeof(s->ingress), "lan0");
	s->delay = delay;
	s->mtu = c->mtu;
	s->fail_closed = true;
	return lab_shape_links(c, region, false, t, s);
}

/* A GSO packet of at most 2 % of the smallest message, at least one segment. */
uint32_t lab_gso_max(const struct cluster *c, const struct lab_traffic *t)
{
	double two_percent = 0.02 * (double)t->min_message_bytes;

	return (uint32_t)fmin(65536, fmax(two_percent, c->mtu + 14));
}

int lab_topology_build(const struct cluster *c, const struct lab_net *net, enum delay_kind delay,
		       const struct lab_traffic *t, struct tb_topology *out, struct bace_err *e)
{
	*out = (struct tb_topology){ .n_regions = c->n_regions };
	out->region_names = calloc((size_t)c->n_regions, NAME_LEN);
	out->hosts = calloc((size_t)net->n_hosts, sizeof(*out->hosts));
	if (!out->region_names || !out->hosts)
		goto nomem;
	for (int r = 0; r < c->n_regions; r++)
		memcpy(out->region_names[r], c->regions[r].name, NAME_LEN);
	for (int i = 0; i < net->n_hosts; i++) {
		const struct lab_host *from = &net->hosts[i];
		struct tb_host *h = &out->hosts[out->n_hosts++];

		memcpy(h->name, from->name, NAME_LEN);
		h->region = from->region;
		h->gateway = from->gateway;
		snprintf(h->addr, sizeof(h->addr), "%.45s", from->addr);
		if (h->gateway) {
			if (gateway_shape(c, h->region, delay, t, &h->shape))
				goto nomem;
		} else {
			snprintf(h->shape.egress, sizeof(h->shape.egress), "eth0");
			h->shape.mtu = c->mtu;
			h->shape.gso_max_bytes = lab_gso_max(c, t);
		}
	}
	return 0;
nomem:
	lab_topology_free(out);
	return bace_fail(e, ENOMEM, "topology of %d hosts: out of memory", net->n_hosts);
}

void lab_topology_free(struct tb_topology *t)
{
	for (int i = 0; i < t->n_hosts; i++)
		free(t->hosts[i].shape.links);
	free(t->hosts);
	free(t->region_names);
	*t = (struct tb_topology){ 0 };
}
