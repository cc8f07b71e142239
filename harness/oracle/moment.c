#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/oracle/oracle.h"

/* Does the placement cross the directed link? Activations use a hop in the
 * order of the path, gradients against it: both directions are crossed. */
static bool crosses(const struct placement *p, int src, int dst)
{
	for (int i = 0; i + 1 < p->n_parts; i++) {
		int a = p->parts[i].region, b = p->parts[i + 1].region;

		if ((a == src && b == dst) || (a == dst && b == src))
			return true;
	}
	return false;
}

/* Max-min share of `own` among demands that it and the others have: grows the
 * common level until the capacity is used up. */
static double others_share(double capacity, const double *demand, int n, double own)
{
	double left = capacity, level = 0, given = 0;
	int open = n + 1;

	/* Fill to the least unsatisfied demand, as often as there are distinct ones. */
	while (open > 0 && left > 0) {
		double next = own > level ? own : INFINITY;

		for (int i = 0; i < n; i++)
			if (demand[i] > level && demand[i] < next)
				next = demand[i];
		open = own > level;
		for (int i = 0; i < n; i++)
			open += demand[i] > level;
		if (!open)
			break;
		double step = fmin(next - level, left / open);

		left -= step * open;
		level += step;
		if (level < next)
			break;
	}
	for (int i = 0; i < n; i++)
		given += fmin(demand[i], level);
	return given;
}

double moment_link_goodput_bps(const struct moment *m, int which, int src, int dst)
{
	const struct cluster *c = &m->exp->cluster;
	double capacity = goodput_bps(m->capacity_bps[src * c->n_regions + dst], c->mtu);
	double few[32], *demand = few, given;
	int n = 0;

	if (m->n > 32) {
		demand = malloc((size_t)m->n * sizeof(*demand));
		if (!demand)
			return NAN;
	}
	for (int i = 0; i < m->n; i++)
		if (i != which && crosses(m->placements[i], src, dst))
			demand[n++] = placement_demand_bps(m->exp, m->models, m->placements[i]);
	given = n ? others_share(capacity, demand, n,
				 placement_demand_bps(m->exp, m->models, m->placements[which])) : 0;
	if (demand != few)
		free(demand);
	return capacity - given;
}

static struct hop_cost local_hop(const struct region *r, double bits, unsigned mtu)
{
	return (struct hop_cost){ .serialisation_s = bits / goodput_bps(r->bandwidth_bps, mtu),
				  .latency_s = (double)r->intra_latency_ns / 1e9 };
}

static struct hop_cost link_hop(const struct moment *m, int which, int src, int dst, double bits)
{
	return (struct hop_cost){
		.serialisation_s = bits / moment_link_goodput_bps(m, which, src, dst),
		.latency_s = (double)cluster_link(&m->exp->cluster, src, dst)->latency_ns / 1e9 };
}

void moment_hops(const struct moment *m, int which, struct hop_cost *fwd, struct hop_cost *rev)
{
	const struct placement *p = m->placements[which];
	const struct cluster *c = &m->exp->cluster;
	double bits = 8 * m->models->v[p->job].boundary_bytes;
	int hop = 0;

	for (int part = 0; part < p->n_parts; part++) {
		int r = p->parts[part].region;
		struct hop_cost local = local_hop(&c->regions[r], bits, c->mtu);

		for (int i = 0; i + 1 < p->parts[part].gpus; i++, hop++)
			fwd[hop] = rev[hop] = local;
		if (part + 1 == p->n_parts)
			break;
		int next = p->parts[part + 1].region;

		fwd[hop] = link_hop(m, which, r, next, bits);
		rev[hop] = link_hop(m, which, next, r, bits);
		hop++;
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *placement_key(const struct moment *m, const struct placement *p)
{
	CLEANUP_FREE char *path = placement_format(&m->exp->cluster, p);
	char *text = NULL;

	if (!path || asprintf(&text, "%s @ %s", m->exp->jobs[p->job].name, path) < 0)
		return NULL;
	return text;
}

/* The truth of a moment: capacities of the links that some placement crosses. */
static int add_links(const struct moment *m, struct bace_buf *b)
{
	const struct cluster *c = &m->exp->cluster;
	int n = c->n_regions;

	for (int i = 0; i < n * n; i++) {
		bool used = false;

		for (int k = 0; k < m->n && !used; k++)
			used = crosses(m->placements[k], i / n, i % n);
		if (used && bace_buf_addf(b, "; %s-%s %.17g", c->regions[i / n].name,
					  c->regions[i % n].name, m->capacity_bps[i]))
			return -ENOMEM;
	}
	return 0;
}

char *moment_key(const struct moment *m)
{
	char **texts = calloc((size_t)m->n + 1, sizeof(*texts));
	struct bace_buf b = { 0 };
	int rc = texts ? bace_buf_add(&b, "", 0) : -ENOMEM;

	for (int i = 0; !rc && i < m->n; i++) {
		texts[i] = placement_key(m, m->placements[i]);
		rc = texts[i] ? 0 : -ENOMEM;
	}
	if (!rc)
		qsort(texts, (size_t)m->n, sizeof(*texts), by_text);
	for (int i = 0; !rc && i < m->n; i++)
		rc = bace_buf_addf(&b, "%s%s", i ? "; " : "", texts[i]);
	if (!rc)
		rc = add_links(m, &b);
	for (int i = 0; texts && i < m->n; i++)
		free(texts[i]);
	free(texts);
	if (rc)
		bace_buf_free(&b);
	return rc ? NULL : b.p;
}
