/* What is where on a real cluster: pure. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/launch/launch.h"

int launch_net(const struct cluster *c, struct lab_net *out, struct bace_err *e)
{
	*out = (struct lab_net){ .n_regions = c->n_regions, .n_hosts = c->n_hosts };
	out->hosts = calloc((size_t)c->n_hosts + 1, sizeof(*out->hosts));
	if (!out->hosts)
		return bace_fail(e, ENOMEM, "cluster of %d hosts: out of memory", c->n_hosts);
	for (int i = 0; i < c->n_hosts; i++) {
		const struct cluster_host *from = &c->hosts[i];
		struct lab_host *h = &out->hosts[i];

		h->region = from->region;
		h->gateway = from->gateway;
		memcpy(h->name, from->name, sizeof(h->name));
		snprintf(h->addr, sizeof(h->addr), "%s", from->address);
	}
	return 0;
}

static bool has_gateway(const struct cluster *c, int region)
{
	for (int i = 0; i < c->n_hosts; i++)
		if (c->hosts[i].region == region && c->hosts[i].gateway)
			return true;
	return false;
}

static int hosts_of(const struct cluster *c, int region)
{
	int n = 0;

	for (int i = 0; i < c->n_hosts; i++)
		n += c->hosts[i].region == region && !c->hosts[i].gateway;
	return n;
}

/* Hosts without a gateway share their region's links: each plan has an even part
 * of the rate, of which the controller makes what each needs, and room for as
 * much as if it had all of it. */
static void take_part(struct shape_spec *s, int sharers)
{
	for (int i = 0; sharers > 1 && i < s->n_links; i++) {
		struct shape_link *l = &s->links[i];
		double bdp = (double)l->rate_bps * (double)l->rtt_ns / 8e9;

		if (!l->rate_bps)
			continue;
		if (!l->buffer_bytes)
			l->buffer_bytes = (uint64_t)fmax(fmax(bdp, 1.2 * (double)l->message_bytes), 2 * s->mtu);
		l->rate_bps = l->rate_bps / (uint64_t)sharers;
	}
}

static int shape_of(const struct cluster *c, const struct cluster_host *h, const struct lab_traffic *t,
		    enum delay_kind delay, struct shape_spec *s)
{
	bool alone = !h->gateway && !has_gateway(c, h->region);

	snprintf(s->egress, sizeof(s->egress), "%s", h->egress);
	s->mtu = c->mtu;
	if (!*h->egress)
		return 0;
	if (!h->gateway)
		s->gso_max_bytes = lab_gso_max(c, t);
	if (!h->gateway && !alone)
		return 0;	/* its gateway shapes */
	/* What comes in is delayed where it comes in. */
	snprintf(s->ingress, sizeof(s->ingress), "%s", h->ingress);
	s->delay = delay;
	if (lab_shape_links(c, h->region, true, t, s))
		return -ENOMEM;
	if (alone)
		take_part(s, hosts_of(c, h->region));
	return 0;
}

int launch_topology(const struct cluster *c, const struct lab_traffic *t, enum delay_kind delay,
		    const struct launch_options *o, struct tb_topology *out, struct bace_err *e)
{
	*out = (struct tb_topology){ .n_regions = c->n_regions };
	out->region_names = calloc((size_t)c->n_regions, NAME_LEN);
	out->hosts = calloc((size_t)c->n_hosts + 1, sizeof(*out->hosts));
	if (!out->region_names || !out->hosts)
		goto nomem;
	for (int r = 0; r < c->n_regions; r++)
		memcpy(out->region_names[r], c->regions[r].name, NAME_LEN);
	for (int i = 0; i < c->n_hosts; i++) {
		const struct cluster_host *from = &c->hosts[i];
		struct tb_host *h = &out->hosts[out->n_hosts++];

		memcpy(h->name, from->name, NAME_LEN);
		h->region = from->region;
		h->gateway = from->gateway;
		snprintf(h->addr, sizeof(h->addr), "%.45s", from->address);
		h->shape.allow_control_interface = o->allow_control_interface;
		h->shape.replace_foreign = o->replace_foreign;
		if (shape_of(c, from, t, delay, &h->shape))
			goto nomem;
	}
	return 0;
nomem:
	lab_topology_free(out);
	return bace_fail(e, ENOMEM, "topology of %d hosts: out of memory", c->n_hosts);
}
