/*
 * Cost-Min (design section 5) on one path: how many GPUs, from which regions,
 * and which of two candidates is better.
 */
#include <math.h>

#include "harness/policy/internal.h"

/* GPUs of the regions of the path, in the order in which they are handed out. */
static const int *fill_order(const struct policy *p, const struct path *path)
{
	return p->spec.cost_min ? path->cheap : path->region;
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
		int r = order[i], g = path_share(s, r, &rest);
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
		int g = path_share(s, order[i], &rest);

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

double step_bound(const struct job_class *c, const struct path *path, int k, double slow)
{
	double slot = fmax(c->total_s * class_largest_stage(c, k) * slow, path->ser_max_s);

	return (c->m - 1) * slot + (c->total_s * slow + path->hop_sum_s);
}

bool cost_min(const struct policy *p, const struct situation *s, const struct job_class *c,
	      const struct path *path, int least, int most, struct choice *out)
{
	const uint8_t *fits = class_fits(c, path->gpu);
	/* Sums over stages of several types round differently from the bound. */
	double slow = p->f.one_gpu_type ? 1 : path->slow_min * (1 - 1e-12);
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
		if (out->k && step_bound(c, path, k, slow) > out->step_s)
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
		int g = path_share(s, order[i], &rest);

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

void consider(struct policy *p, const struct situation *s, const struct job_class *c,
	      const struct path *path, int need, int most)
{
	int least = need > 1 ? need : 1;

	/* Most GPUs win whatever they cost: fewer need no further look. */
	if (p->best.n && (p->spec.prefer == PREFER_GPUS || !p->spec.cost_min) && p->best.k > least)
		least = p->best.k;
	if (path->gpus < least || !path_closes(&p->f, path))
		return;
	if (!cost_min(p, s, c, path, need, most, &p->trial) || p->trial.k < least)
		return;
	cost_min_parts(p, s, path, &p->trial);
	if (choice_better(p, &p->trial, &p->best)) {
		struct choice worse = p->best;

		p->best = p->trial;
		p->trial = worse;
	}
}
