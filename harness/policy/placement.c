#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/policy/model.h"

void placement_free(struct placement *p)
{
	free(p->parts);
	*p = (struct placement){ 0 };
}

int placement_copy(const struct placement *from, struct placement *to)
{
	size_t bytes = sizeof(*from->parts) * (size_t)from->n_parts;
	struct placement_part *parts = malloc(bytes ? bytes : 1);

	if (!parts)
		return -ENOMEM;
	memcpy(parts, from->parts, bytes);
	*to = *from;
	to->parts = parts;
	return 0;
}

int placement_region_of_stage(const struct placement *p, int stage)
{
	for (int i = 0; i < p->n_parts; i++) {
		if (stage < p->parts[i].gpus)
			return p->parts[i].region;
		stage -= p->parts[i].gpus;
	}
	return -1;
}

char *placement_format(const struct cluster *c, const struct placement *p)
{
	struct bace_buf b = { 0 };

	for (int i = 0; i < p->n_parts; i++)
		if (bace_buf_addf(&b, "%s%s:%d", i ? " > " : "", c->regions[p->parts[i].region].name,
				  p->parts[i].gpus)) {
			bace_buf_free(&b);
			return NULL;
		}
	return b.p ? b.p : strdup("");
}

double placement_demand_bps(const struct experiment *e, const struct job_models *m,
			    const struct placement *p)
{
	const struct job_model *j = &m->v[p->job];
	double slow = 0;

	for (int i = 0; i < p->n_parts; i++)
		slow += p->parts[i].gpus *
			(j->ref_flops_eff / e->cluster.gpus[e->cluster.regions[p->parts[i].region].gpu].flops_eff);
	/* mean (t_F + t_B) over p stages = total / p * (slow / p) */
	return 8 * j->boundary_bytes * p->n_gpus * p->n_gpus / ((j->fwd_s + j->bwd_s) * slow);
}

double placement_reservation_bps(const struct experiment *e, const struct job_models *m,
				 const struct placement *p)
{
	int chunks = e->schedule == SCHED_INTERLEAVED_1F1B ? e->interleave : 1;

	return p->n_parts > 1 ? chunks * placement_demand_bps(e, m, p) : 0;
}

/* ---- constraints ---- */

struct check {
	const struct view *v;
	const struct placement *own;	/* GPUs that it holds already, or NULL */
	const struct placement *p;
	const struct cluster *c;
	const char *job;
};

static int available(const struct check *k, int region)
{
	int n = k->v->free_gpus[region];

	for (int i = 0; k->own && i < k->own->n_parts; i++)
		if (k->own->parts[i].region == region)
			n += k->own->parts[i].gpus;
	return n;
}

static int check_regions(const struct check *k, struct bace_err *err)
{
	int sum = 0;

	for (int i = 0; i < k->p->n_parts; i++) {
		const struct placement_part *part = &k->p->parts[i];

		if (part->region < 0 || part->region >= k->c->n_regions)
			return bace_fail(err, EINVAL, "placement of %s: part %d: no region %d", k->job, i + 1,
					 part->region);
		const struct region *r = &k->c->regions[part->region];

		for (int j = 0; j < i; j++)
			if (k->p->parts[j].region == part->region)
				return bace_fail(err, EINVAL,
						 "placement of %s: region %s appears twice: a path visits a region once",
						 k->job, r->name);
		if (part->gpus < 1)
			return bace_fail(err, EINVAL, "placement of %s: %d GPUs in %s: at least 1", k->job,
					 part->gpus, r->name);
		if (part->gpus > available(k, part->region))
			return bace_fail(err, EINVAL, "placement of %s: %d GPUs in %s: only %d are free", k->job,
					 part->gpus, r->name, available(k, part->region));
		sum += part->gpus;
	}
	if (sum != k->p->n_gpus)
		return bace_fail(err, EINVAL, "placement of %s: parts add up to %d GPUs, not %d", k->job, sum,
				 k->p->n_gpus);
	return 0;
}

static int check_stages(const struct check *k, struct bace_err *err)
{
	const struct experiment *e = k->v->exp;
	const struct job_model *j = &k->v->models->v[k->p->job];
	int p = k->p->n_gpus;

	if (p < 1 || p > j->k_limit)
		return bace_fail(err, EINVAL, "placement of %s: %d stages: 1 to %d are allowed", k->job, p,
				 j->k_limit);
	if (e->schedule == SCHED_INTERLEAVED_1F1B && (p < 2 || j->m % p))
		return bace_fail(err, EINVAL,
				 "placement of %s: %d stages: interleaved-1f1b needs at least 2 and a divisor of %d micro-batches",
				 k->job, p, j->m);
	for (int i = 0, part = 0, left = k->p->parts[0].gpus; i < p; i++, left--) {
		if (!left)
			left = k->p->parts[++part].gpus;
		const struct region *r = &k->c->regions[k->p->parts[part].region];
		double need = stage_memory_bytes(e, j, p, i), have = k->c->gpus[r->gpu].memory_bytes;

		if (need > have) {
			char a[BACE_FMT_MAX], b[BACE_FMT_MAX];

			return bace_fail(err, EINVAL, "placement of %s: stage %d of %d in %s: needs %s of memory, a %s has %s",
					 k->job, i, p, r->name, bace_fmt_size(a, need), k->c->gpus[r->gpu].name,
					 bace_fmt_size(b, have));
		}
	}
	return 0;
}

static int check_hop(const struct check *k, int a, int b, struct bace_err *err)
{
	if (cluster_link(k->c, a, b)->present && cluster_link(k->c, b, a)->present)
		return 0;
	return bace_fail(err, EINVAL, "placement of %s: no link both ways between %s and %s", k->job,
			 k->c->regions[a].name, k->c->regions[b].name);
}

static int check_all(const struct check *k, struct bace_err *err)
{
	const struct placement *p = k->p;
	int rc;

	if (p->n_parts < 1)
		return bace_fail(err, EINVAL, "placement of %s: no region", k->job);
	rc = check_regions(k, err);
	if (!rc)
		rc = check_stages(k, err);
	for (int i = 0; !rc && i + 1 < p->n_parts; i++)
		rc = check_hop(k, p->parts[i].region, p->parts[i + 1].region, err);
	if (!rc && k->v->exp->schedule == SCHED_INTERLEAVED_1F1B && p->n_parts > 1)
		rc = check_hop(k, p->parts[p->n_parts - 1].region, p->parts[0].region, err);
	return rc;
}

int placement_check(const struct view *v, const struct queue *q, const struct placement *p,
		    struct bace_err *err)
{
	bool queued = !q;

	if (p->job < 0 || p->job >= v->exp->n_jobs)
		return bace_fail(err, EINVAL, "placement: no job %d", p->job);
	struct check k = { .v = v, .p = p, .c = &v->exp->cluster, .job = v->exp->jobs[p->job].name };

	for (int i = 0; !queued && i < q->n; i++)
		queued = q->v[i].job == p->job;
	if (!queued)
		return bace_fail(err, EINVAL, "placement of %s: the job is not in the queue", k.job);
	return check_all(&k, err);
}

int placement_check_resize(const struct view *v, const struct placement *p, struct bace_err *err)
{
	if (p->job < 0 || p->job >= v->exp->n_jobs)
		return bace_fail(err, EINVAL, "placement: no job %d", p->job);
	struct check k = { .v = v, .p = p, .c = &v->exp->cluster, .job = v->exp->jobs[p->job].name };

	for (int i = 0; !k.own && i < v->n_running; i++)
		if (v->running[i].job == p->job)
			k.own = v->running[i].placement;
	if (!k.own)
		return bace_fail(err, EINVAL, "placement of %s: the job is not running", k.job);
	return check_all(&k, err);
}
