#include "harness/oracle/shares.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double max_min_level(double capacity, const double *demand, size_t n)
{
	double sum = 0, level = capacity / (double)n;
	size_t satisfied = 0;

	for (size_t i = 0; i < n; i++)
		sum += demand[i];
	if (sum <= capacity)
		return INFINITY;
	/* Those below the level leave the rest to the others, which raises it. */
	for (;;) {
		double left = capacity;
		size_t now = 0;

		for (size_t i = 0; i < n; i++) {
			if (demand[i] <= level) {
				left -= demand[i];
				now++;
			}
		}
		if (now == satisfied || now == n)
			return level;
		satisfied = now;
		level = left / (double)(n - now);
	}
}

static int reserve(struct shares *s, const struct moment *m, bool wraps)
{
	size_t links = (size_t)m->exp->cluster.n_regions * (size_t)m->exp->cluster.n_regions;
	size_t had = s->cap_head, crossings = 0, n = (size_t)m->n;

	for (int i = 0; i < m->n; i++)
		crossings += 2 * (size_t)path_boundaries(m->placements[i], wraps);
	if ((crossings > s->cap && bace_grow(&s->v, &s->cap, crossings, sizeof(*s->v))) ||
	    (n > s->cap_first && bace_grow(&s->first, &s->cap_first, n, sizeof(*s->first))) ||
	    (n > s->cap_scratch && bace_grow(&s->scratch, &s->cap_scratch, n, sizeof(*s->scratch))) ||
	    (links > had && bace_grow(&s->head, &s->cap_head, links, sizeof(*s->head))))
		return -ENOMEM;
	if (s->cap_head > had)
		memset(s->head + had, 0, (s->cap_head - had) * sizeof(*s->head));
	return 0;
}

static void add_crossings(struct shares *s, int which, int chunks)
{
	const struct moment *m = s->m;
	const struct placement *p = m->placements[which];
	int regions = m->exp->cluster.n_regions, n = path_boundaries(p, chunks > 1);
	double demand = n ? chunks * placement_demand_bps(m->exp, m->models, p) : 0;

	s->first[which] = s->n;
	for (int i = 0; i < n; i++) {
		int a = p->parts[i].region, b = p->parts[(i + 1) % p->n_parts].region;

		s->v[s->n++] = (struct crossing){ .link = a * regions + b, .demand_bps = demand };
		s->v[s->n++] = (struct crossing){ .link = b * regions + a, .demand_bps = demand };
	}
}

/* Divides one link among those on its list, which ends here. */
static void divide(struct shares *s, int link)
{
	const struct cluster *c = &s->m->exp->cluster;
	double capacity = goodput_bps(s->m->capacity_bps[link], c->mtu), level, given = 0;
	size_t n = 0;

	for (int x = s->head[link] - 1; x >= 0; x = s->v[x].next)
		s->scratch[n++] = s->v[x].demand_bps;
	level = max_min_level(capacity, s->scratch, n);
	for (size_t i = 0; i < n; i++)
		given += fmin(s->scratch[i], level);
	for (int x = s->head[link] - 1; x >= 0; x = s->v[x].next) {
		double own = fmin(s->v[x].demand_bps, level);

		s->v[x].goodput_bps = n == 1 ? capacity : fmax(own, capacity - (given - own));
	}
	s->head[link] = 0;
}

int shares_compute(struct shares *s, const struct moment *m, int chunks)
{
	if (reserve(s, m, chunks > 1))
		return -ENOMEM;
	s->m = m;
	s->n = 0;
	for (int i = 0; i < m->n; i++)
		add_crossings(s, i, chunks);
	for (size_t x = s->n; x--;) {
		struct crossing *c = &s->v[x];

		c->next = s->head[c->link] - 1;
		s->head[c->link] = (int)x + 1;
	}
	for (size_t x = 0; x < s->n; x++)
		if (s->head[s->v[x].link])
			divide(s, s->v[x].link);
	return 0;
}

void shares_free(struct shares *s)
{
	free(s->v);
	free(s->first);
	free(s->head);
	free(s->scratch);
	*s = (struct shares){ 0 };
}

static double serialisation(double bits, double goodput)
{
	return bits > 0 ? bits / goodput : 0;
}

static struct hop_cost local_hop(const struct cluster *c, int region, double bits)
{
	const struct region *r = &c->regions[region];

	return (struct hop_cost){ .serialisation_s = serialisation(bits, goodput_bps(r->bandwidth_bps, c->mtu)),
				  .latency_s = (double)r->intra_latency_ns * 1e-9 };
}

static struct hop_cost link_hop(const struct shares *s, size_t crossing, double bits)
{
	const struct crossing *x = &s->v[crossing];

	return (struct hop_cost){ .serialisation_s = serialisation(bits, x->goodput_bps),
		.latency_s = (double)s->m->exp->cluster.links[x->link].latency_ns * 1e-9 };
}

void shares_hops(const struct shares *s, int which, bool wraps, struct hop_cost *fwd, struct hop_cost *rev)
{
	const struct placement *p = s->m->placements[which];
	const struct cluster *c = &s->m->exp->cluster;
	double bits = 8 * s->m->models->v[p->job].boundary_bytes;
	size_t x = s->first[which];
	int hop = 0;

	for (int part = 0; part < p->n_parts; part++) {
		struct hop_cost local = local_hop(c, p->parts[part].region, bits);

		for (int i = 0; i + 1 < p->parts[part].gpus; i++, hop++)
			fwd[hop] = rev[hop] = local;
		if (part + 1 == p->n_parts)
			break;
		fwd[hop] = link_hop(s, x++, bits);
		rev[hop++] = link_hop(s, x++, bits);
	}
	if (!wraps)
		return;
	if (p->n_parts == 1) {
		fwd[hop] = rev[hop] = local_hop(c, p->parts[0].region, bits);
		return;
	}
	bool turned = p->n_parts == 2;
	size_t last = turned ? s->first[which] : x;

	fwd[hop] = link_hop(s, last + turned, bits);
	rev[hop] = link_hop(s, last + !turned, bits);
}
