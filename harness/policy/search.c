#include "harness/policy/search.h"

#include <math.h>

#include "harness/policy/predict.h"

enum grow_by { GROW_WIDEST, GROW_QUICKEST, GROW_CHEAPEST, GROWS };
enum share_kind { SHARE_CHEAP, SHARE_FRONT, SHARE_BACK, SHARES };

void search_cost(const struct search *x, struct candidate *c)
{
	const struct facts *f = &x->p->f;
	const struct cluster *cl = &f->exp->cluster;
	double busy_s = x->c->m * x->c->total_s / c->k, usd = 0, egress = 0;

	for (int i = 0; i < c->n; i++) {
		int r = c->parts[i].region;
		const struct gpu_type *g = &cl->gpus[f->gpu[r]];

		usd += c->parts[i].gpus * x->s->unit_cost[r] *
		       (g->idle_ctx_w * c->step_s + (g->active_w - g->idle_ctx_w) * busy_s * f->slow[r]);
		if (i + 1 < c->n)
			egress += cluster_link(cl, r, c->parts[i + 1].region)->usd_per_byte +
				  cluster_link(cl, c->parts[i + 1].region, r)->usd_per_byte;
	}
	c->cost_usd = x->steps * (usd / 3.6e6 + egress * x->c->m * x->c->boundary_bits / 8);
}

/* One GPU each, the rest by the order of `kind`. */
static void share_out(const struct search *x, const struct path *path, enum share_kind kind,
		      struct candidate *c)
{
	int rest = c->k - path->n;

	c->n = path->n;
	for (int i = 0; i < path->n; i++)
		c->parts[i].region = path->region[i];
	for (int i = 0; i < path->n; i++) {
		int at = kind == SHARE_BACK ? path->n - 1 - i : i;

		if (kind == SHARE_CHEAP) {
			at = 0;
			while (path->region[at] != path->cheap[i])
				at++;
		}
		c->parts[at].gpus = path_share(x->s, path->region[at], &rest);
	}
}

static bool same(const struct candidate *a, const struct candidate *b)
{
	if (a->n != b->n || a->k != b->k)
		return false;
	for (int i = 0; i < a->n; i++)
		if (a->parts[i].region != b->parts[i].region || a->parts[i].gpus != b->parts[i].gpus)
			return false;
	return true;
}

/* Ties: fewer GPUs, fewer regions, then by name; so the order of visits leaves no trace. */
static bool before(const struct search *x, double key, const struct candidate *c, double other_key,
		   const struct candidate *o)
{
	if (key != other_key)
		return key < other_key;
	if (c->k != o->k)
		return c->k < o->k;
	if (c->n != o->n)
		return c->n < o->n;
	for (int i = 0; i < c->n; i++) {
		int a = x->p->f.name_rank[c->parts[i].region], b = x->p->f.name_rank[o->parts[i].region];

		if (a != b)
			return a < b;
	}
	for (int i = 0; i < c->n; i++)
		if (c->parts[i].gpus != o->parts[i].gpus)
			return c->parts[i].gpus > o->parts[i].gpus;
	return false;
}

static double key_of(const struct candidate *c, bool by_cost)
{
	return by_cost ? c->cost_usd : c->objective_s;
}

static void keep(const struct search *x, struct candidate *list, int *n, const struct candidate *c,
		 bool by_cost)
{
	double key = key_of(c, by_cost);
	int at = *n;

	if (*n == SEARCH_KEEP && !before(x, key, c, key_of(&list[*n - 1], by_cost), &list[*n - 1]))
		return;
	while (at > 0 && before(x, key, c, key_of(&list[at - 1], by_cost), &list[at - 1]))
		at--;
	for (int i = 0; i < *n; i++)
		if (same(&list[i], c))
			return;
	if (*n < SEARCH_KEEP)
		++*n;
	for (int i = *n - 1; i > at; i--)
		list[i] = list[i - 1];
	list[at] = *c;
}

static void try_candidate(struct search *x, const struct path *path, int k, enum share_kind kind,
			  bool cheapest)
{
	struct candidate c = { .k = k };

	share_out(x, path, kind, &c);
	c.step_s = predict_step(x->p, x->s, x->c, c.parts, c.n, k);
	if (!(c.step_s < INFINITY))
		return;
	c.length_s = x->steps * c.step_s;
	c.objective_s = c.length_s * (1 + k * x->gpu_price);
	if (!cheapest) {
		keep(x, x->best, &x->n_best, &c, false);
		return;
	}
	if (c.objective_s > x->limit_s)
		return;
	search_cost(x, &c);
	keep(x, x->cheap, &x->n_cheap, &c, true);
}

/* The useful k: those that shorten the largest stage, and no more than enough
 * of them where stages are equal fractions. */
static bool useful(const struct search *x, const uint8_t *fits, int k, int *last_useful)
{
	if (!fits[k])
		return false;
	if (*last_useful && k < x->c->k_star) {
		if (x->c->equal_split && k < *last_useful * 1.06 + 0.5 && k > 16)
			return false;
		if (!x->c->equal_split &&
		    class_largest_stage(x->c, k) == class_largest_stage(x->c, *last_useful))
			return false;
	}
	*last_useful = k;
	return true;
}

static void try_path(struct search *x, const struct path *path, bool cheapest)
{
	const uint8_t *fits = class_fits(x->c, path->gpu);
	int most = x->most < path->gpus ? x->most : path->gpus, last = 0;
	int least = x->least > path->n ? x->least : path->n;

	if (!path_closes(&x->p->f, path))
		return;
	for (int k = least; k <= most; k++) {
		if (!useful(x, fits, k, &last))
			continue;
		for (int kind = 0; kind < (path->n > 1 ? SHARES : 1); kind++)
			try_candidate(x, path, k, kind, cheapest);
	}
}

static double hop_s(const struct search *x, int a, int b, double width)
{
	const struct facts *f = &x->p->f;

	return f->latency_s[a * f->n + b] + f->latency_s[b * f->n + a] + 2 * x->c->boundary_bits / width;
}

/* A step's computation there, and its messages to get there. */
static double step_usd(const struct search *x, int a, int b)
{
	const struct cluster *c = &x->p->f.exp->cluster;
	double joule = c->gpus[x->p->f.gpu[b]].active_w * x->c->m * x->c->total_s * x->p->f.slow[b];

	return x->s->unit_cost[b] * joule / 3.6e6 + x->c->m * x->c->boundary_bits / 8 *
		(cluster_link(c, a, b)->usd_per_byte + cluster_link(c, b, a)->usd_per_byte);
}

static int next_region(const struct search *x, const struct path *path, enum grow_by by)
{
	const struct facts *f = &x->p->f;
	int best = -1, end = path->region[path->n - 1];
	double best_key = INFINITY;

	for (int i = 0; i < f->n; i++) {
		int r = f->by_name[i];
		double w, key;

		if (path->on[r] || x->s->free_gpus[r] <= 0)
			continue;
		w = link_width(f, x->s, end, r);
		if (!(w > 0))
			continue;
		key = by == GROW_WIDEST ? -w : by == GROW_QUICKEST ? hop_s(x, end, r, w) : step_usd(x, end, r);
		if (key < best_key) {
			best = r;
			best_key = key;
		}
	}
	return best;
}

static void visit_paths(struct search *x, bool cheapest)
{
	const struct facts *f = &x->p->f;
	struct path *path = &x->p->path;
	int r;

	for (int i = 0; i < f->n; i++) {
		int seed = f->by_name[i];

		if (x->s->free_gpus[seed] <= 0)
			continue;
		for (int by = 0; by < GROWS; by++) {
			path_start(f, x->s, path, seed);
			if (!by)
				try_path(x, path, cheapest);
			while (path->gpus < x->most && path->n < SEARCH_PATH_MAX &&
			       (r = next_region(x, path, by)) >= 0) {
				path_extend(f, x->s, x->c, path, r);
				try_path(x, path, cheapest);
			}
		}
	}
}

bool search_run(struct search *x)
{
	x->n_best = x->n_cheap = 0;
	if (x->most > x->c->k_star)
		x->most = x->c->k_star;
	visit_paths(x, false);
	return x->n_best > 0;
}

void search_cheapest(struct search *x)
{
	x->n_cheap = 0;
	visit_paths(x, true);
}
