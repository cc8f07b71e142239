#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/shape/shape.h"

static void list_hosts(const struct shape_file *f, char *buf, size_t cap)
{
	*buf = '\0';
	for (int i = 0; i < f->n_hosts && strlen(buf) + 64 < cap; i++)
		snprintf(buf + strlen(buf), cap - strlen(buf), "%s%s", i ? ", " : "", f->hosts[i].name);
}

int shape_find_host(const struct shape_file *f, const char *name, int *host, struct bace_err *e)
{
	char own[NAME_LEN] = "", all[300];

	if (!name && f->n_hosts == 1 && !f->hosts[0].name[0]) {
		*host = 0;
		return 0;
	}
	if (!name && gethostname(own, sizeof(own) - 1))
		return bace_fail_errno(e, errno, "this machine's name");
	for (int i = 0; i < f->n_hosts; i++) {
		if (!strcmp(f->hosts[i].name, name ? name : own)) {
			*host = i;
			return 0;
		}
	}
	list_hosts(f, all, sizeof(all));
	return bace_fail(e, EINVAL, "%s has no host `%s': --host one of %s", f->path, name ? name : own, all);
}

enum delay_kind shape_choose_delay(const struct shape_file *f, int host, const char **why)
{
	const struct shape_host *h = &f->hosts[host];
	enum delay_kind best;

	*why = "the file says so";
	if (f->delay == SHAPE_DELAY_NETEM)
		return DELAY_NETEM;
	if (f->delay == SHAPE_DELAY_NFQUEUE)
		return DELAY_NFQUEUE;
	best = shape_probe_delay(why);
	if (best == DELAY_NETEM && !strcmp(h->egress, h->ingress)) {
		*why = "with one interface what comes in cannot be delayed by netem, which delays what leaves";
		return DELAY_NFQUEUE;
	}
	return best;
}

static int64_t added_latency(const struct shape_path *p)
{
	return p && p->link.latency_ns > p->own_latency_ns ? p->link.latency_ns - p->own_latency_ns : 0;
}

static int64_t rtt_of(const struct shape_path *out, const struct shape_path *in)
{
	int64_t there = out ? out->link.latency_ns : in->link.latency_ns;

	return there + (in ? in->link.latency_ns : there);
}

static uint64_t buffer_of(const struct shape_path *p, int64_t rtt_ns)
{
	double bytes_ps = (double)p->link.rate_bps / 8;

	switch (p->buffer) {
	case BUFFER_BYTES:
		return (uint64_t)p->buffer_value;
	case BUFFER_SECONDS:
		return (uint64_t)(p->buffer_value * bytes_ps);
	case BUFFER_BDP:
		return (uint64_t)(p->buffer_value * bytes_ps * (double)rtt_ns / 1e9);
	case BUFFER_COMPUTED:
		break;
	}
	return 0;
}

int shape_hosts_sharing(const struct shape_file *f, int region)
{
	int n = 0;

	for (int i = 0; i < f->n_hosts && f->mode == SHAPE_HOST; i++)
		n += f->hosts[i].region == region;
	return n > 0 ? n : 1;
}

static void make_link(const struct shape_file *f, int remote, int hosts_here, const struct shape_path *out,
		      const struct shape_path *in, struct shape_link *l)
{
	const struct shape_region *r = &f->regions[remote];

	*l = (struct shape_link){ .region = (uint16_t)remote, .n_prefixes = r->n_prefixes, .rtt_ns = rtt_of(out, in) };
	snprintf(l->name, sizeof(l->name), "%s", r->name);
	memcpy(l->prefixes, r->prefixes, sizeof(l->prefixes));
	if (out) {
		l->rate_bps = out->link.rate_bps / (uint64_t)hosts_here;
		l->buffer_bytes = buffer_of(out, l->rtt_ns);
		l->message_bytes = out->message_bytes;
	}
	if (in) {
		l->latency_ns = added_latency(in);
		l->jitter_ns = in->link.jitter_ns;
		l->jitter_dist = in->link.jitter_dist;
		l->jitter_table = (uint16_t)in->jitter_table;
		l->loss = in->link.loss;
		l->reverse_rate_bps = in->link.rate_bps;
		l->impair = in->impair;
	}
}

int shape_spec_of(const struct shape_file *f, int host, enum delay_kind delay, struct shape_spec *s,
		  struct bace_err *e)
{
	const struct shape_host *h = &f->hosts[host];
	char jitter[BACE_FMT_MAX], left[BACE_FMT_MAX];

	*s = (struct shape_spec){ .delay = delay, .mtu = f->mtu, .gso_max_bytes = (uint32_t)f->gso_max_bytes };
	memcpy(s->egress, h->egress, sizeof(s->egress));
	/* The delay line works where packets come in from the other regions. */
	if (delay == DELAY_NETEM || strcmp(h->ingress, h->egress))
		memcpy(s->ingress, h->ingress, sizeof(s->ingress));
	s->links = calloc((size_t)f->n_regions + 1, sizeof(*s->links));
	s->tables = calloc((size_t)f->n_tables + 1, sizeof(*s->tables));
	if (!s->links || !s->tables)
		return bace_fail(e, ENOMEM, "out of memory");
	if (f->n_tables)
		memcpy(s->tables, f->tables, (size_t)f->n_tables * sizeof(*s->tables));
	s->n_tables = f->n_tables;
	for (int r = 0; r < f->n_regions; r++) {
		const struct shape_path *out = shape_file_path(f, h->region, r), *in = shape_file_path(f, r, h->region);
		struct shape_link *l = &s->links[s->n_links];

		if (!out && !in)
			continue;
		make_link(f, r, shape_hosts_sharing(f, h->region), out, in, l);
		s->n_links++;
		if (l->jitter_ns > l->latency_ns)
			return bace_fail(e, EINVAL, "link `%s': jitter %s is above the %s that are left once the path's own "
					 "latency is subtracted", l->name, bace_fmt_time(jitter, (double)l->jitter_ns / 1e9),
					 bace_fmt_time(left, (double)l->latency_ns / 1e9));
	}
	return s->n_links ? 0 : bace_fail(e, EINVAL, "%s: no link leads to region %s or from it", f->path,
					  f->regions[h->region].name);
}
