/*
 * bace with grow = "tree": the set of regions grows from any of its members
 * over the widest feasible residual link; for every set on the way the best
 * Hamiltonian path over its feasible links is the candidate, best = least sum
 * of L + 8A/b over hops and directions, which is least T as long as every hop
 * hides. Exact (Held-Karp), so a set stops growing at 12 regions.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "harness/policy/hampath.h"
#include "harness/policy/internal.h"

#define TREE_MAX 12

struct tree {
	struct hampath h;
	double w[TREE_MAX * TREE_MAX];
	int n, gpus;
	int member[TREE_MAX];		/* in order of name */
	double slow_min;
};

int tree_bind(struct policy *p, struct bace_err *err)
{
	if (p->spec.grow != GROW_TREE)
		return 0;
	p->scratch = calloc(1, sizeof(struct tree));
	return p->scratch ? 0 : bace_fail(err, ENOMEM, "policy %s: out of memory", p->spec.label);
}

void tree_unbind(struct policy *p)
{
	struct tree *t = p->scratch;

	hampath_free(&t->h);
	free(t);
}

static void tree_add(const struct policy *p, const struct situation *s, struct tree *t, int r)
{
	int i = t->n++;

	while (i > 0 && p->f.name_rank[t->member[i - 1]] > p->f.name_rank[r]) {
		t->member[i] = t->member[i - 1];
		i--;
	}
	t->member[i] = r;
	t->gpus += s->free_gpus[r];
	t->slow_min = fmin(t->slow_min, p->f.slow[r]);
}

/* One link under the rule at the k that `gpus` GPUs would give. */
static bool hop_hides(const struct policy *p, const struct situation *s, const struct job_class *c, int a,
		      int b, int gpus, double slow)
{
	struct path two = { .n = 1, .region = (int[]){ a }, .slow_min = slow,
			    .gpus = gpus - s->free_gpus[b] };

	return path_may_extend(&p->f, s, c, p->spec.stall_rule, &two, b, link_width(&p->f, s, a, b));
}

static int widest_feasible(const struct policy *p, const struct situation *s, const struct job_class *c,
			   const struct tree *t)
{
	int best = -1;
	double width = 0;

	for (int i = 0; i < p->f.n; i++) {
		int r = p->f.by_name[i];
		bool member = !s->free_gpus[r];

		for (int j = 0; j < t->n && !member; j++)
			member = t->member[j] == r;
		for (int j = 0; j < t->n && !member; j++) {
			double w = link_width(&p->f, s, t->member[j], r);

			if (w > width && hop_hides(p, s, c, t->member[j], r, t->gpus + s->free_gpus[r],
						   t->slow_min)) {
				best = r;
				width = w;
			}
		}
	}
	return best;
}

static double edge(const struct policy *p, const struct situation *s, const struct job_class *c,
		   const struct tree *t, int a, int b)
{
	const struct facts *f = &p->f;
	int there = a * f->n + b, back = b * f->n + a;

	if (a == b || !hop_hides(p, s, c, a, b, t->gpus, t->slow_min))
		return INFINITY;
	return f->latency_s[there] + f->latency_s[back] +
	       c->boundary_bits / s->residual[there] + c->boundary_bits / s->residual[back];
}

static int consider_set(struct policy *p, const struct situation *s, const struct job_class *c,
			struct tree *t, int need, struct bace_err *err)
{
	uint32_t all = (1u << t->n) - 1;
	int order[TREE_MAX];

	for (int i = 0; i < t->n; i++)
		for (int j = 0; j <= i; j++)
			t->w[i * t->n + j] = t->w[j * t->n + i] =
				edge(p, s, c, t, t->member[j], t->member[i]);
	if (hampath_solve(&t->h, t->n, t->w, false))
		return bace_fail(err, ENOMEM, "policy %s: out of memory", p->spec.label);
	if (!(hampath_cost(&t->h, all) < INFINITY))
		return 0;
	hampath_path(&t->h, all, order);
	path_start(&p->f, s, &p->path, t->member[order[0]]);
	for (int i = 1; i < t->n; i++)
		path_extend(&p->f, s, c, &p->path, t->member[order[i]]);
	consider(p, s, c, &p->path, need, p->path.gpus);
	return 0;
}

int tree_search(struct policy *p, const struct situation *s, const struct job_class *c, int seed,
		int need, struct bace_err *err)
{
	struct tree *t = p->scratch;
	int rc, r = seed;

	t->n = t->gpus = 0;
	t->slow_min = INFINITY;
	do {
		tree_add(p, s, t, r);
		rc = consider_set(p, s, c, t, need, err);
	} while (!rc && t->n < TREE_MAX && t->gpus < c->k_star &&
		 (r = widest_feasible(p, s, c, t)) >= 0);
	return rc;
}
