#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/policy/internal.h"

static int compare_names(const void *a, const void *b, void *arg)
{
	const struct cluster *c = arg;

	return strcmp(c->regions[*(const int *)a].name, c->regions[*(const int *)b].name);
}

static void facts_fill(struct facts *f)
{
	const struct cluster *c = &f->exp->cluster;
	double ref = c->gpus[f->models->ref_gpu].flops_eff;
	int n = f->n;

	f->goodput_factor = goodput_bps(1e12, c->mtu) / 1e12;
	f->one_gpu_type = true;
	for (int r = 0; r < n; r++) {
		const struct region *reg = &c->regions[r];

		f->by_name[r] = r;
		f->intra_s_per_bit[r] = 1 / (reg->bandwidth_bps * f->goodput_factor);
		f->intra_latency_s[r] = (double)reg->intra_latency_ns * 1e-9;
		f->gpu[r] = reg->gpu;
		f->slow[r] = ref / c->gpus[reg->gpu].flops_eff;
		f->one_gpu_type &= reg->gpu == f->models->ref_gpu;
		for (int s = 0; s < n; s++) {
			const struct link *l = cluster_link(c, r, s);

			f->linked[r * n + s] = r != s && l->present && cluster_link(c, s, r)->present;
			f->latency_s[r * n + s] = (double)l->latency_ns * 1e-9;
		}
	}
	qsort_r(f->by_name, (size_t)n, sizeof(*f->by_name), compare_names, (void *)c);
	for (int i = 0; i < n; i++)
		f->name_rank[f->by_name[i]] = i;
}

static int facts_alloc(struct facts *f)
{
	size_t n = (size_t)f->n;

	f->by_name = calloc(n, sizeof(*f->by_name));
	f->name_rank = calloc(n, sizeof(*f->name_rank));
	f->linked = calloc(n * n, sizeof(*f->linked));
	f->latency_s = calloc(n * n, sizeof(*f->latency_s));
	f->intra_s_per_bit = calloc(n, sizeof(*f->intra_s_per_bit));
	f->intra_latency_s = calloc(n, sizeof(*f->intra_latency_s));
	f->slow = calloc(n, sizeof(*f->slow));
	f->gpu = calloc(n, sizeof(*f->gpu));
	return f->by_name && f->name_rank && f->linked && f->latency_s && f->intra_s_per_bit &&
	       f->intra_latency_s && f->slow && f->gpu ? 0 : -ENOMEM;
}

static void facts_free(struct facts *f)
{
	free(f->by_name);
	free(f->name_rank);
	free(f->linked);
	free(f->latency_s);
	free(f->intra_s_per_bit);
	free(f->intra_latency_s);
	free(f->slow);
	free(f->gpu);
	*f = (struct facts){ 0 };
}

static int situation_alloc(const struct facts *f, struct situation *s)
{
	size_t n = (size_t)f->n;

	s->unit_cost = calloc(n, sizeof(*s->unit_cost));
	s->by_cost = calloc(n, sizeof(*s->by_cost));
	s->cost_rank = calloc(n, sizeof(*s->cost_rank));
	s->capacity = calloc(n * n, sizeof(*s->capacity));
	s->residual = calloc(n * n, sizeof(*s->residual));
	if (!s->unit_cost || !s->by_cost || !s->cost_rank || !s->capacity || !s->residual)
		return -ENOMEM;
	memcpy(s->by_cost, f->by_name, n * sizeof(*s->by_cost));
	return 0;
}

static void situation_free(struct situation *s)
{
	free(s->unit_cost);
	free(s->by_cost);
	free(s->cost_rank);
	free(s->capacity);
	free(s->residual);
	*s = (struct situation){ 0 };
}

/* Insertion sort: the order of the last view is nearly right already. The
 * names make the order total, so history leaves no trace. */
void situation_sort(const struct facts *f, struct situation *s)
{
	int *o = s->by_cost;

	for (int i = 1; i < f->n; i++) {
		int r = o[i], j = i;
		double u = s->unit_cost[r];

		while (j > 0 && (u < s->unit_cost[o[j - 1]] ||
				 (u == s->unit_cost[o[j - 1]] &&
				  f->name_rank[r] < f->name_rank[o[j - 1]]))) {
			o[j] = o[j - 1];
			j--;
		}
		o[j] = r;
	}
	for (int i = 0; i < f->n; i++)
		s->cost_rank[o[i]] = i;
}

/* Sums go in order of name: the last bit must not depend on the config's order. */
static void read_links(const struct facts *f, const struct view *v, struct situation *s)
{
	double reserved = 0, capacity = 0;
	int n = f->n;

	for (int i = 0; i < n; i++) {
		int row = f->by_name[i] * n;

		for (int j = 0; j < n; j++) {
			int at = row + f->by_name[j];
			double cap = f->linked[at] ? v->capacity_bps[at] * f->goodput_factor : 0;

			s->capacity[at] = cap;
			s->residual[at] = cap - v->reserved_bps[at];
			if (cap > 0) {
				capacity += cap;
				reserved += v->reserved_bps[at];
			}
		}
	}
	s->load = capacity > 0 ? reserved / capacity : 0;
}

void situation_read(const struct facts *f, const struct view *v, bool links, struct situation *s)
{
	const struct region *reg = f->exp->cluster.regions;

	s->now_s = v->now_s;
	s->free_gpus = v->free_gpus;
	s->price = v->price;
	s->total_free = 0;
	s->idle = true;
	for (int r = 0; r < f->n; r++) {
		s->unit_cost[r] = v->price[r] * reg[r].pue;
		s->total_free += v->free_gpus[r];
		s->idle &= v->free_gpus[r] == reg[r].n_gpus;
	}
	situation_sort(f, s);
	s->links = links;
	if (links)
		read_links(f, v, s);
}

/* The empty cluster: nominal links, nothing reserved, prices of time 0. */
static int read_empty(struct policy *p)
{
	const struct cluster *c = &p->f.exp->cluster;
	size_t n = (size_t)p->f.n;
	CLEANUP_FREE double *capacity = calloc(n * n, sizeof(*capacity));
	CLEANUP_FREE double *reserved = calloc(n * n, sizeof(*reserved));

	p->empty_free = calloc(n, sizeof(*p->empty_free));
	p->empty_price = calloc(n, sizeof(*p->empty_price));
	if (!capacity || !reserved || !p->empty_free || !p->empty_price)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		p->empty_free[i] = c->regions[i].n_gpus;
		p->empty_price[i] = price_at(&c->regions[i].price, 0, NULL);
	}
	for (size_t i = 0; i < n * n; i++)
		capacity[i] = c->links[i].present ? (double)c->links[i].rate_bps : 0;
	struct view v = { .exp = p->f.exp, .models = p->f.models, .free_gpus = p->empty_free,
			  .price = p->empty_price, .capacity_bps = capacity, .reserved_bps = reserved };
	situation_read(&p->f, &v, true, &p->empty);
	return 0;
}

static int path_alloc(struct path *path, size_t n)
{
	path->region = calloc(n, sizeof(*path->region));
	path->cheap = calloc(n, sizeof(*path->cheap));
	path->on = calloc(n, sizeof(*path->on));
	return path->region && path->cheap && path->on ? 0 : -ENOMEM;
}

static void path_free(struct path *path)
{
	free(path->region);
	free(path->cheap);
	free(path->on);
	*path = (struct path){ 0 };
}

void policy_unbind(struct policy *p)
{
	if (p->rule->unbind && p->scratch)
		p->rule->unbind(p);
	p->scratch = NULL;
	facts_free(&p->f);
	situation_free(&p->now);
	situation_free(&p->empty);
	path_free(&p->path);
	free(p->empty_free);
	free(p->empty_price);
	free(p->reach);
	free(p->failed);
	free(p->best.parts);
	free(p->trial.parts);
	p->empty_free = NULL;
	p->empty_price = NULL;
	p->reach = NULL;
	p->failed = NULL;
	p->best = p->trial = (struct choice){ 0 };
}

static int bind_all(struct policy *p)
{
	size_t n = (size_t)p->f.n, classes = (size_t)p->f.models->n_classes + 1;

	if (facts_alloc(&p->f))
		return -ENOMEM;
	facts_fill(&p->f);
	p->reach = malloc(classes * sizeof(*p->reach));
	p->failed = calloc(classes, sizeof(*p->failed));
	p->best.parts = calloc(n, sizeof(*p->best.parts));
	p->trial.parts = calloc(n, sizeof(*p->trial.parts));
	if (!p->reach || !p->failed || !p->best.parts || !p->trial.parts || path_alloc(&p->path, n) ||
	    situation_alloc(&p->f, &p->now) || situation_alloc(&p->f, &p->empty) || read_empty(p))
		return -ENOMEM;
	for (size_t i = 0; i < classes; i++)
		p->reach[i] = -1;
	p->epoch = 0;
	return 0;
}

int policy_bind(struct policy *p, const struct view *v, struct bace_err *err)
{
	int rc;

	policy_unbind(p);
	p->f.exp = v->exp;
	p->f.models = v->models;
	p->f.n = v->exp->cluster.n_regions;
	rc = bind_all(p);
	if (rc)
		rc = bace_fail(err, -rc, "policy %s: out of memory", p->spec.label);
	else if (p->rule->bind)
		rc = p->rule->bind(p, err);
	if (rc)
		policy_unbind(p);
	return rc;
}
