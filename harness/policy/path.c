/* A path of regions, and Cost-Min on it (design sections 4 and 5). */
#include <math.h>
#include <string.h>

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

void path_start(const struct facts *f, const struct situation *s, struct path *p, int region)
{
	for (int i = 0; i < p->n; i++)
		p->on[p->region[i]] = false;
	p->n = 0;
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

void path_shrink(const struct facts *f, const struct situation *s, const struct job_class *c,
		 struct path *p)
{
	int n = p->n - 1, first = p->region[0];

	/* Rebuilt rather than subtracted: sums stay exact to the bit. */
	for (int i = 0; i < p->n; i++)
		p->on[p->region[i]] = false;
	p->n = 0;
	path_start(f, s, p, first);
	for (int i = 1; i < n; i++)
		path_extend(f, s, c, p, p->region[i]);
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

/* GPUs of the regions of the path, in the order in which they are handed out. */
static const int *fill_order(const struct policy *p, const struct path *path)
{
	return p->spec.cost_min ? path->cheap : path->region;
}

static int share(const struct situation *s, int region, int *rest)
{
	int g = s->free_gpus[region] - 1;

	if (g > *rest)
		g = *rest;
	*rest -= g;
	return 1 + g;
}

struct within {
	double sum_s;			/* of hops inside regions, both directions */
	double ser_max_s;
	double usd_per_s_idle;		/* sum of unit cost * idle power */
	double usd_busy;		/* sum of unit cost * (active - idle) * slow, per reference second */
};

static void measure_within(const struct policy *p, const struct situation *s, const struct job_class *c,
			   const struct path *path, int k, struct within *w)
{
	const struct facts *f = &p->f;
	const int *order = fill_order(p, path);
	int rest = k - path->n;

	*w = (struct within){ 0 };
	for (int i = 0; i < path->n; i++) {
		int r = order[i], g = share(s, r, &rest);
		const struct gpu_type *t = &f->exp->cluster.gpus[f->gpu[r]];

		if (g > 1) {
			double ser = c->boundary_bits * f->intra_s_per_bit[r];

			w->sum_s += 2.0 * (g - 1) * (f->intra_latency_s[r] + ser);
			w->ser_max_s = fmax(w->ser_max_s, ser);
		}
		w->usd_per_s_idle += g * s->unit_cost[r] * t->idle_ctx_w;
		w->usd_busy += g * s->unit_cost[r] * (t->active_w - t->idle_ctx_w) * f->slow[r];
	}
}

/* Slowest stage and sum of stages where GPU types differ; stages run along the path. */
static void mixed_stages(const struct policy *p, const struct situation *s, const struct job_class *c,
			 const struct path *path, int k, double *slot, double *sum)
{
	int g_of[path->n], rest = k - path->n, stage = 0;
	const int *order = fill_order(p, path);
	int base = c->layers / k, odd = c->layers % k;

	for (int i = 0; i < path->n; i++) {
		int g = share(s, order[i], &rest);

		for (int j = 0; j < path->n; j++)
			if (path->region[j] == order[i])
				g_of[j] = g;
	}
	*slot = *sum = 0;
	for (int i = 0; i < path->n; i++) {
		double t = c->total_s * p->f.slow[path->region[i]] / (c->equal_split ? k : c->layers);
		int extra = stage < odd ? (odd - stage < g_of[i] ? odd - stage : g_of[i]) : 0;

		*sum += c->equal_split ? t * g_of[i] : t * (base * g_of[i] + extra);
		*slot = fmax(*slot, c->equal_split ? t : t * (base + (extra > 0)));
		stage += g_of[i];
	}
}

static double step_time(const struct policy *p, const struct situation *s, const struct job_class *c,
			const struct path *path, int k, const struct within *w)
{
	double slot = c->total_s * class_largest_stage(c, k), sum = c->total_s;

	if (!p->f.one_gpu_type)
		mixed_stages(p, s, c, path, k, &slot, &sum);
	slot = fmax(slot, fmax(path->ser_max_s, w->ser_max_s));
	return (c->m - 1) * slot + (sum + path->hop_sum_s + w->sum_s);
}

/* No k' <= k can be faster than this: fewer GPUs never shorten the largest stage. */
static double step_bound(const struct policy *p, const struct job_class *c, const struct path *path, int k)
{
	double slow = p->f.one_gpu_type ? 1 : path->slow_min;
	double slot = fmax(c->total_s * class_largest_stage(c, k) * slow, path->ser_max_s);

	return (c->m - 1) * slot + (c->total_s * slow + path->hop_sum_s) * (slow == 1 ? 1 : 1 - 1e-12);
}

bool cost_min(const struct policy *p, const struct situation *s, const struct job_class *c,
	      const struct path *path, int least, int most, struct choice *out)
{
	const uint8_t *fits = class_fits(c, path->gpu);
	struct within w, best_w = { 0 };

	if (most > c->k_star)
		most = c->k_star;
	if (most > path->gpus)
		most = path->gpus;
	if (least < path->n)
		least = path->n;
	out->k = 0;
	out->step_s = INFINITY;
	for (int k = most; k >= least && k > 0; k--) {
		if (!fits[k])
			continue;
		if (out->k && step_bound(p, c, path, k) > out->step_s)
			break;
		measure_within(p, s, c, path, k, &w);
		double t = step_time(p, s, c, path, k, &w);

		if (t <= out->step_s && t < INFINITY) {
			out->k = k;
			out->step_s = t;
			best_w = w;
		}
	}
	if (!out->k)
		return false;
	out->width_bps = path->width_bps;
	out->cost_usd = (best_w.usd_per_s_idle * out->step_s +
			 best_w.usd_busy * c->m * c->total_s / out->k) / 3.6e6;
	return true;
}

void cost_min_parts(const struct policy *p, const struct situation *s, const struct path *path,
		    struct choice *out)
{
	const int *order = fill_order(p, path);
	int rest = out->k - path->n;

	out->n = path->n;
	for (int i = 0; i < path->n; i++)
		out->parts[i] = (struct placement_part){ .region = path->region[i] };
	for (int i = 0; i < path->n; i++) {
		int g = share(s, order[i], &rest);

		for (int j = 0; j < path->n; j++)
			if (path->region[j] == order[i])
				out->parts[j].gpus = g;
	}
}

/* -1: a first; 1: b first; 0: equal. Fewer of x, more of y. */
static int less(double a, double b)
{
	return (a > b) - (a < b);
}

static int compare_keys(const struct policy *p, const struct choice *a, const struct choice *b)
{
	int gpus = less(b->k, a->k), cost = less(a->cost_usd, b->cost_usd), jct = less(a->step_s, b->step_s);

	if (!p->spec.cost_min)
		return gpus ? gpus : less(b->width_bps, a->width_bps);
	switch (p->spec.prefer) {
	case PREFER_JCT:
		return jct ? jct : gpus ? gpus : cost;
	case PREFER_COST:
		return cost ? cost : gpus ? gpus : jct;
	case PREFER_GPUS:
		break;
	}
	return gpus ? gpus : cost ? cost : jct;
}

/* Ties: fewer regions, then the path by name. */
bool choice_better(const struct policy *p, const struct choice *a, const struct choice *b)
{
	int c;

	if (!b->n)
		return true;
	c = compare_keys(p, a, b);
	if (c || a->n != b->n)
		return c ? c < 0 : a->n < b->n;
	for (int i = 0; i < a->n; i++) {
		int x = p->f.name_rank[a->parts[i].region], y = p->f.name_rank[b->parts[i].region];

		if (x != y)
			return x < y;
	}
	return false;
}
