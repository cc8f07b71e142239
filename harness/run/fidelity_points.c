#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/fidelity.h"

#define LOOKS_MAX 2000000	/* of the search for one path */

int64_t fidelity_near_ns(const struct cluster *c)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < c->n_regions * c->n_regions; i++)
		if (c->links[i].present && c->links[i].latency_ns < least)
			least = c->links[i].latency_ns;
	return least;
}

double fidelity_serialisation_s(const struct experiment *exp, const struct job_models *m, int src, int dst)
{
	double rate = (double)cluster_link(&exp->cluster, src, dst)->rate_bps;

	return m->v[0].boundary_bytes * 8 / goodput_bps(rate, exp->cluster.mtu);
}

double fidelity_weight_s(const struct experiment *exp, enum schedule_kind k, double bwd_s)
{
	return k == SCHED_ZB_H1 ? bwd_s * schedule_weight_share(exp->models[exp->jobs[0].model].recompute) : 0;
}

/* ---- paths ---- */

struct search {
	const struct cluster *c;
	const bool *used;
	const struct fidelity_point *p;
	int64_t near_ns;
	bool taken[REGIONS_MAX];
	int path[FIDELITY_STAGES_MAX];
	int looks;
};

/* The pair as a hop with that latency, both ways, that no other point has. */
static bool fits(const struct search *s, int a, int b, int64_t latency_ns)
{
	const struct link *there = cluster_link(s->c, a, b), *back = cluster_link(s->c, b, a);

	return there->present && back->present && there->latency_ns == latency_ns &&
	       back->latency_ns == latency_ns && !s->used[a * s->c->n_regions + b];
}

/* Region r as the n-th of all replicas' stages. */
static bool joins(const struct search *s, int n, int r)
{
	int p = s->p->stages, stage = n % p, replica = n / p;
	bool round = s->p->schedule == SCHED_INTERLEAVED_1F1B;
	/* Of two stages, the hop back to the first is the one that there is. */
	int64_t close_ns = p == 2 && !replica && s->p->hop == 0 ? s->p->latency_ns : s->near_ns;

	if (stage && !fits(s, s->path[n - 1], r, !replica && stage - 1 == s->p->hop ? s->p->latency_ns : s->near_ns))
		return false;
	if (round && stage == p - 1 && p > 1 && !fits(s, r, s->path[n - stage], close_ns))
		return false;
	if (replica && !fits(s, s->path[n - p], r, s->near_ns))
		return false;
	return replica < 2 || replica < s->p->replicas - 1 || fits(s, r, s->path[stage], s->near_ns);
}

static bool extend(struct search *s, int n)
{
	if (n == s->p->stages * s->p->replicas)
		return true;
	for (int r = 0; r < s->c->n_regions && s->looks < LOOKS_MAX; r++) {
		s->looks++;
		if (s->taken[r] || !joins(s, n, r))
			continue;
		s->taken[r] = true;
		s->path[n] = r;
		if (extend(s, n + 1))
			return true;
		s->taken[r] = false;
	}
	return false;
}

static void mark(const struct cluster *c, bool *used, int a, int b)
{
	used[a * c->n_regions + b] = used[b * c->n_regions + a] = true;
}

bool fidelity_path(const struct cluster *c, bool *used, struct fidelity_point *p)
{
	struct search s = { .c = c, .used = used, .p = p, .near_ns = fidelity_near_ns(c) };

	int all = p->stages * p->replicas;

	if (all > c->n_regions || !extend(&s, 0))
		return false;
	memcpy(p->path, s.path, sizeof(p->path));
	for (int i = 0; i < all; i++) {
		int stage = i % p->stages;

		if (stage + 1 < p->stages)
			mark(c, used, p->path[i], p->path[i + 1]);
		else if (p->schedule == SCHED_INTERLEAVED_1F1B)
			mark(c, used, p->path[i], p->path[i - stage]);
		if (p->replicas > 1)
			mark(c, used, p->path[i], p->path[(i + p->stages) % all]);
	}
	return true;
}

double fidelity_part_bytes(const struct fidelity_point *p)
{
	return ceil(p->gradient_bytes / p->replicas);
}

/* ---- prediction ---- */

enum { TF, TB, TW, FWD_L, FWD_S, REV_L, REV_S, RING_L, RING_S, N_ARRAYS };

struct numbers {			/* of one replica */
	double v[N_ARRAYS][FIDELITY_STAGES_MAX];
	int fwd[FIDELITY_STAGES_MAX], rev[FIDELITY_STAGES_MAX], ring[FIDELITY_STAGES_MAX];
};

static void fill_numbers(const struct experiment *exp, const struct job_models *m, const struct fidelity_point *p,
			 int replica, struct numbers *x)
{
	const struct cluster *c = &exp->cluster;
	const int *path = p->path + replica * p->stages;
	int n = p->stages, layers = exp->models[exp->jobs[0].model].layers;

	for (int i = 0; i < n; i++) {
		int a = path[i], b = path[(i + 1) % n];
		struct stage_cost s = stage_cost(exp, &m->v[0], layers, 0, &c->gpus[c->regions[a].gpu]);

		x->v[TF][i] = s.fwd_s;
		x->v[TW][i] = fidelity_weight_s(exp, p->schedule, s.bwd_s);
		x->v[TB][i] = s.bwd_s - x->v[TW][i];
		if (p->replicas > 1) {
			int to = p->path[(replica + 1) % p->replicas * n + i];

			x->v[RING_L][i] = (double)cluster_link(c, a, to)->latency_ns / 1e9;
			x->v[RING_S][i] = fidelity_part_bytes(p) * 8 /
					  goodput_bps((double)cluster_link(c, a, to)->rate_bps, c->mtu);
			x->ring[i] = a * c->n_regions + to;
		}
		if (i + 1 == n && p->schedule != SCHED_INTERLEAVED_1F1B)
			break;
		x->v[FWD_L][i] = (double)cluster_link(c, a, b)->latency_ns / 1e9;
		x->v[REV_L][i] = (double)cluster_link(c, b, a)->latency_ns / 1e9;
		x->v[FWD_S][i] = fidelity_serialisation_s(exp, m, a, b);
		x->v[REV_S][i] = fidelity_serialisation_s(exp, m, b, a);
		/* By name of the link: with two stages the hop back to the first
		 * shares it. */
		x->fwd[i] = a * c->n_regions + b;
		x->rev[i] = b * c->n_regions + a;
	}
}

int fidelity_predict(const struct experiment *exp, const struct job_models *m, struct fidelity_point *p,
		     struct bace_err *e)
{
	int n_links = exp->cluster.n_regions * exp->cluster.n_regions, rc;
	CLEANUP_FREE struct numbers *x = calloc((size_t)p->replicas, sizeof(*x));
	CLEANUP_FREE struct shared_pipeline *jobs = calloc((size_t)p->replicas, sizeof(*jobs));
	CLEANUP_FREE struct shared_result *r = calloc((size_t)p->replicas, sizeof(*r));

	if (!x || !jobs || !r)
		return bace_fail(e, ENOMEM, "fidelity: out of memory");
	for (int k = 0; k < p->replicas; k++) {
		fill_numbers(exp, m, p, k, &x[k]);
		jobs[k] = (struct shared_pipeline){ .p = {
			.schedule = { p->schedule, p->stages, p->micro_batches, p->chunks }, .tf = x[k].v[TF],
			.tb = x[k].v[TB], .tw = p->schedule == SCHED_ZB_H1 ? x[k].v[TW] : NULL,
			.fwd_latency = x[k].v[FWD_L], .fwd_serialisation = x[k].v[FWD_S],
			.rev_latency = x[k].v[REV_L], .rev_serialisation = x[k].v[REV_S],
			.no_overlap = !p->overlap }, .fwd_link = x[k].fwd, .rev_link = x[k].rev,
			.replicas = p->replicas, .replica = k, .ring_latency = x[k].v[RING_L],
			.ring_serialisation = x[k].v[RING_S], .ring_link = x[k].ring };
	}
	rc = pipelines_simulate_shared(p->replicas, jobs, n_links, 0, 1, r, e);
	p->sim_s = r[0].first_step;
	return rc;
}

/* ---- the matrix ---- */

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Latencies above the near one, each once, ascending; returns how many. */
static int far_latencies(const struct cluster *c, int64_t *v)
{
	int64_t near_ns = fidelity_near_ns(c);
	int n = 0, k = 0;

	for (int i = 0; i < c->n_regions * c->n_regions; i++)
		if (c->links[i].present && c->links[i].latency_ns > near_ns)
			v[n++] = c->links[i].latency_ns;
	qsort(v, (size_t)n, sizeof(*v), ascending);
	for (int i = 0; i < n; i++)
		if (!k || v[i] != v[k - 1])
			v[k++] = v[i];
	return k;
}

/* Of the latencies those that matter, in place; returns how many. */
static int choose_latencies(const struct fidelity *f, int64_t *v, int n)
{
	double half = (f->fwd_s + f->bwd_s) / 2 - f->serialisation_s;
	int below = -1, above = -1, k = 0;

	for (int i = 0; i < n; i++) {
		if ((double)v[i] / 1e9 <= half)
			below = i;
		else if (above < 0)
			above = i;
	}
	if (below >= 0)
		v[k++] = v[below];
	if (above >= 0)
		v[k++] = v[above];
	return k;
}

static bool can_run(const struct fidelity_point *p)
{
	struct bace_err e;

	return p->stages * p->replicas <= FIDELITY_STAGES_MAX &&
	       !schedule_check(&(struct schedule_spec){ p->schedule, p->stages, p->micro_batches, p->chunks }, &e);
}

struct adding {
	struct fidelity *f;
	size_t n, cap;
	bool failed;
};

static void add_hops(struct adding *a, const struct fidelity_options *o, struct fidelity_point p,
		     const int64_t *far, int n_far)
{
	int first = o->curve ? (p.stages - 1) / 2 : 0, last = o->curve ? first : p.stages - 2;

	for (p.hop = first; p.hop <= last; p.hop++) {
		for (int i = 0; i < n_far; i++) {
			p.latency_ns = far[i];
			p.c_s = (double)far[i] / 1e9 + a->f->serialisation_s;
			a->failed |= BACE_PUSH(a->f->v, a->n, a->cap, p) != 0;
		}
	}
}

static void add_all(struct adding *a, const struct fidelity_options *o, const struct experiment *exp,
		    const int64_t *far, int n_far)
{
	int chunks = exp->interleave > 1 ? exp->interleave : 2;
	const struct model *m = &exp->models[exp->jobs[0].model];
	/* A stage is a layer; a gradient has the precision of an activation. */
	double gradient = o->gradient_bytes > 0 ? o->gradient_bytes : m->params / m->layers * m->bytes_per_element;

	for (int s = 0; s < o->n_stages; s++)
		for (int k = 0; k < o->n_micro_batches; k++)
			for (int i = 0; i < o->n_schedules; i++) {
				struct fidelity_point p = { .schedule = o->schedules[i], .stages = o->stages[s],
					.micro_batches = o->micro_batches[k], .overlap = o->overlap,
					.chunks = o->schedules[i] == SCHED_INTERLEAVED_1F1B ? chunks : 1,
					.replicas = o->replicas > 1 ? o->replicas : 1, .gradient_bytes = gradient,
					.measured_s = NAN, .sim_s = NAN };

				if (!can_run(&p))
					continue;
				if (o->curve) {		/* and no slow hop at all */
					int64_t near_ns = fidelity_near_ns(&exp->cluster);

					add_hops(a, o, p, &near_ns, 1);
				}
				add_hops(a, o, p, far, n_far);
			}
}

/* Evenly `want` of the n, in place. */
static void take_sample(struct fidelity *f, int want)
{
	if (want <= 0 || want >= f->n)
		return;
	for (int i = 0; i < want; i++)
		f->v[i] = f->v[(int64_t)i * f->n / want + f->n / want / 2];
	f->n = want;
}

int fidelity_points(const struct experiment *exp, const struct job_models *m,
		    const struct fidelity_options *o, struct fidelity *out, struct bace_err *e)
{
	const struct cluster *c = &exp->cluster;
	const struct gpu_type *gpu = &c->gpus[c->regions[0].gpu];
	struct stage_cost s = stage_cost(exp, &m->v[0], exp->models[exp->jobs[0].model].layers, 0, gpu);
	CLEANUP_FREE int64_t *far = calloc((size_t)(c->n_regions * c->n_regions) + 1, sizeof(*far));
	struct adding a = { .f = out };
	int n, any = -1;

	if (!far)
		return bace_fail(e, ENOMEM, "fidelity: out of memory");
	for (int i = 0; i < c->n_regions * c->n_regions && any < 0; i++)
		if (c->links[i].present)
			any = i;
	n = far_latencies(c, far);
	if (any < 0 || !n)
		return bace_fail(e, EINVAL, "%s: cluster %s has no link that is slower than another", exp->path,
				 c->name);
	out->fwd_s = s.fwd_s;
	out->bwd_s = s.bwd_s;
	out->serialisation_s = fidelity_serialisation_s(exp, m, any / c->n_regions, any % c->n_regions);
	out->near_s = (double)fidelity_near_ns(c) / 1e9 + out->serialisation_s;
	if (!o->curve)
		n = choose_latencies(out, far, n);
	add_all(&a, o, exp, far, n);
	out->n = (int)a.n;
	if (a.failed)
		return bace_fail(e, ENOMEM, "fidelity: out of memory");
	if (!out->n)
		return bace_fail(e, EINVAL, "nothing to run: interleaved-1f1b needs m to be a multiple of p, and "
				 "p must be 2 to %d", FIDELITY_STAGES_MAX);
	take_sample(out, o->sample);
	return 0;
}
