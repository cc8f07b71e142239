/* What the baselines share: regions in some order, each as far as it goes. */
#include "harness/policy/internal.h"

void choose_single(struct policy *p, int region, int k)
{
	p->best.n = 1;
	p->best.k = k;
	p->best.parts[0] = (struct placement_part){ .region = region, .gpus = k };
}

bool choose_fill(struct policy *p, const struct situation *s, const struct job_class *c,
		 struct path *path, int need)
{
	int k, rest;

	if (!path_closes(&p->f, path))
		return false;
	k = class_k_best(c, path->gpu, path->gpus < c->k_star ? path->gpus : c->k_star);
	if (!k || k < need)
		return false;
	p->best.n = 0;
	p->best.k = k;
	rest = k;
	for (int i = 0; i < path->n && rest > 0; i++) {
		int r = path->region[i], g = s->free_gpus[r] < rest ? s->free_gpus[r] : rest;

		p->best.parts[p->best.n++] = (struct placement_part){ .region = r, .gpus = g };
		rest -= g;
	}
	return true;
}
