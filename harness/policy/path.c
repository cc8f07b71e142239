/* A path of regions as it grows, and the stall rule on it. */
#include <math.h>

#include "harness/policy/internal.h"

double link_width(const struct facts *f, const struct situation *s, int a, int b)
{
	double x = s->residual[a * f->n + b], y = s->residual[b * f->n + a];

	return x < y ? x : y;
}

static void insert_cheap(const struct situation *s, struct path *p, int region)
{
	int j = p->n;

	while (j > 0 && s->cost_rank[p->cheap[j - 1]] > s->cost_rank[region]) {
		p->cheap[j] = p->cheap[j - 1];
		j--;
	}
	p->cheap[j] = region;
}

static void add_region(const struct facts *f, const struct situation *s, struct path *p, int region)
{
	const struct gpu_type *g = f->exp->cluster.gpus;

	insert_cheap(s, p, region);
	p->region[p->n++] = region;
	p->on[region] = true;
	p->gpus += s->free_gpus[region];
	if (g[f->gpu[region]].memory_bytes < g[p->gpu].memory_bytes)
		p->gpu = f->gpu[region];
	if (f->slow[region] < p->slow_min)
		p->slow_min = f->slow[region];
}

void path_clear(struct path *p)
{
	for (int i = 0; i < p->n; i++)
		p->on[p->region[i]] = false;
	p->n = 0;
}

void path_start(const struct facts *f, const struct situation *s, struct path *p, int region)
{
	path_clear(p);
	p->gpus = 0;
	p->gpu = f->gpu[region];
	p->slow_min = f->slow[region];
	p->hop_sum_s = p->ser_max_s = p->hop_max_s = 0;
	p->width_bps = INFINITY;
	add_region(f, s, p, region);
}

void path_extend(const struct facts *f, const struct situation *s, const struct job_class *c,
		 struct path *p, int region)
{
	int end = p->region[p->n - 1];
	int there = end * f->n + region, back = region * f->n + end;
	double fwd = c->boundary_bits / s->residual[there], rev = c->boundary_bits / s->residual[back];
	double width = link_width(f, s, end, region);

	/* A link that is used up, or over-reserved, never gets a message across. */
	if (width <= 0)
		fwd = rev = INFINITY;
	p->hop_sum_s += (f->latency_s[there] + fwd) + (f->latency_s[back] + rev);
	p->ser_max_s = fmax(p->ser_max_s, fmax(fwd, rev));
	p->hop_max_s = fmax(p->hop_max_s, fmax(f->latency_s[there] + fwd, f->latency_s[back] + rev));
	p->width_bps = fmin(p->width_bps, width);
	add_region(f, s, p, region);
}

void path_restore(struct path *p, const struct path *before)
{
	while (p->n > before->n) {
		int last = p->region[--p->n], i = 0;

		p->on[last] = false;
		while (p->cheap[i] != last)
			i++;
		for (; i < p->n; i++)
			p->cheap[i] = p->cheap[i + 1];
	}
	*p = *before;
}

int path_share(const struct situation *s, int region, int *rest)
{
	int g = s->free_gpus[region] - 1;

	if (g > *rest)
		g = *rest;
	*rest -= g;
	return 1 + g;
}

bool path_closes(const struct facts *f, const struct path *p)
{
	return f->exp->schedule != SCHED_INTERLEAVED_1F1B || p->n < 2 ||
	       f->linked[p->region[p->n - 1] * f->n + p->region[0]];
}

static double slot_limit(const struct job_class *c, enum stall_rule rule, double slow)
{
	return (rule == STALL_SLOT ? c->total_s : c->fwd_s) * slow;
}

bool path_may_extend(const struct facts *f, const struct situation *s, const struct job_class *c,
		     enum stall_rule rule, const struct path *p, int region, double width_bps)
{
	int end = p->region[p->n - 1];
	int k = p->gpus + s->free_gpus[region];
	double hop, slow = fmin(p->slow_min, f->slow[region]);

	if (width_bps <= 0)
		return false;
	if (rule == STALL_NONE)
		return true;
	if (k > c->k_star)
		k = c->k_star;
	if (rule == STALL_LATENCY)
		hop = fmax(p->hop_max_s,
			   fmax(f->latency_s[end * f->n + region] +
					c->boundary_bits / s->residual[end * f->n + region],
				f->latency_s[region * f->n + end] +
					c->boundary_bits / s->residual[region * f->n + end]));
	else
		hop = fmax(p->ser_max_s, c->boundary_bits / width_bps);
	return hop * k <= slot_limit(c, rule, slow);
}

int stall_cap(const struct job_class *c, enum stall_rule rule, const struct path *p, int k)
{
	double hop = rule == STALL_LATENCY ? p->hop_max_s : p->ser_max_s;

	if (rule == STALL_NONE || p->n < 2)
		return isinf(p->ser_max_s) ? 0 : k;
	while (k > 0 && !(hop * k <= slot_limit(c, rule, p->slow_min)))
		k--;
	return k;
}
