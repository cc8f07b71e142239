#include "harness/policy/plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/policy/predict.h"

int plan_alloc(struct plan *p, const struct facts *f)
{
	size_t n = (size_t)f->n;

	*p = (struct plan){ 0 };
	for (int i = 0; i < PLAN_SLOTS; i++) {
		p->slot[i].free_gpus = calloc(n, sizeof(int));
		p->slot[i].residual = calloc(n * n, sizeof(double));
		if (!p->slot[i].free_gpus || !p->slot[i].residual)
			return -ENOMEM;
	}
	p->min_free = calloc(n, sizeof(int));
	p->during.unit_cost = calloc(n, sizeof(double));
	p->during.by_cost = calloc(n, sizeof(int));
	p->during.cost_rank = calloc(n, sizeof(int));
	p->during.residual = calloc(n * n, sizeof(double));
	if (!p->min_free || !p->during.unit_cost || !p->during.by_cost || !p->during.cost_rank ||
	    !p->during.residual)
		return -ENOMEM;
	memcpy(p->during.by_cost, f->by_name, n * sizeof(int));
	return 0;
}

void plan_destroy(struct plan *p)
{
	for (int i = 0; i < PLAN_SLOTS; i++) {
		free(p->slot[i].free_gpus);
		free(p->slot[i].residual);
	}
	free(p->min_free);
	free(p->during.unit_cost);
	free(p->during.by_cost);
	free(p->during.cost_rank);
	free(p->during.residual);
	free(p->end_s);
	free(p->by_end);
	*p = (struct plan){ 0 };
}

static void copy_slot(const struct facts *f, const struct plan_slot *from, struct plan_slot *to)
{
	size_t n = (size_t)f->n;

	to->at_s = from->at_s;
	memcpy(to->free_gpus, from->free_gpus, n * sizeof(int));
	memcpy(to->residual, from->residual, n * n * sizeof(double));
}

/* sign +1: gives the placement's GPUs and reservation back; -1: takes them. */
static void apply(const struct facts *f, struct plan_slot *s, const struct placement *pl, int sign)
{
	double bps = placement_reservation_bps(f->exp, f->models, pl);
	/* As the event loop: of two parts the way back is the same link. */
	bool wraps = f->exp->schedule == SCHED_INTERLEAVED_1F1B && pl->n_parts > 2;

	for (int i = 0; i < pl->n_parts; i++) {
		int a = pl->parts[i].region, b = pl->parts[(i + 1) % pl->n_parts].region;

		s->free_gpus[a] += sign * pl->parts[i].gpus;
		if (i + 1 == pl->n_parts && !wraps)
			continue;
		s->residual[a * f->n + b] += sign * bps;
		s->residual[b * f->n + a] += sign * bps;
	}
}

/* A job that started at this instant has no step time yet: it is predicted. */
static double end_of(const struct policy *p, const struct situation *now, const struct running_job *r)
{
	const struct job_model *j = &p->f.models->v[r->job];
	double step_s = r->step_s;

	if (!(step_s > 0))
		step_s = predict_step(p, now, class_of(p->f.models, r->job), r->placement->parts,
				      r->placement->n_parts, r->placement->n_gpus);
	/* Its own reservation may have used the link up. */
	if (isinf(step_s) && !(r->step_s > 0))
		step_s = j->step_star_s * j->k_star / r->placement->n_gpus;
	return now->now_s + r->remaining_steps * step_s;
}

static int reserve_ends(struct plan *p, int n)
{
	double *end_s;
	int *by_end;

	if (n <= p->cap_running)
		return 0;
	end_s = realloc(p->end_s, sizeof(*end_s) * (size_t)n * 2);
	if (end_s)
		p->end_s = end_s;
	by_end = realloc(p->by_end, sizeof(*by_end) * (size_t)n * 2);
	if (by_end)
		p->by_end = by_end;
	if (!end_s || !by_end)
		return -ENOMEM;
	p->cap_running = 2 * n;
	return 0;
}

/* The PLAN_SLOTS nearest ends, first to last; ties as started. */
static int nearest_ends(struct plan *p, const struct policy *pol, const struct situation *now,
			const struct view *v)
{
	int n = 0;

	for (int i = 0; i < v->n_running; i++) {
		int j = n < PLAN_SLOTS - 1 ? n : PLAN_SLOTS - 2;
		double end = p->end_s[i] = end_of(pol, now, &v->running[i]);

		if (isinf(end) || (n == PLAN_SLOTS - 1 && p->end_s[p->by_end[j]] <= end))
			continue;
		n += n < PLAN_SLOTS - 1;
		for (; j > 0 && p->end_s[p->by_end[j - 1]] > end; j--)
			p->by_end[j] = p->by_end[j - 1];
		p->by_end[j] = i;
	}
	return n;
}

int plan_begin(struct plan *p, const struct policy *pol, const struct situation *now, const struct view *v)
{
	const struct facts *f = &pol->f;
	size_t n = (size_t)f->n;
	int ends;

	p->n = 1;
	p->slot[0].at_s = now->now_s;
	memcpy(p->slot[0].free_gpus, now->free_gpus, n * sizeof(int));
	memcpy(p->slot[0].residual, now->residual, n * n * sizeof(double));
	if (reserve_ends(p, v->n_running))
		return -ENOMEM;
	ends = nearest_ends(p, pol, now, v);
	for (int i = 0; i < ends; i++) {
		int at = p->by_end[i];
		struct plan_slot *last = &p->slot[p->n - 1];

		if (p->end_s[at] > last->at_s || p->n == 1) {
			copy_slot(f, last, &p->slot[p->n]);
			last = &p->slot[p->n++];
			last->at_s = fmax(p->end_s[at], now->now_s);
		}
		apply(f, last, v->running[at].placement, 1);
	}
	return 0;
}

void plan_during(struct plan *p, const struct facts *f, const struct situation *now, int from,
		 double length_s)
{
	struct situation *d = &p->during;
	double until_s = p->slot[from].at_s + length_s;
	int n = f->n;

	memcpy(p->min_free, p->slot[from].free_gpus, sizeof(int) * (size_t)n);
	memcpy(d->residual, p->slot[from].residual, sizeof(double) * (size_t)n * (size_t)n);
	for (int i = from + 1; i < p->n && p->slot[i].at_s < until_s; i++) {
		for (int r = 0; r < n; r++)
			if (p->slot[i].free_gpus[r] < p->min_free[r])
				p->min_free[r] = p->slot[i].free_gpus[r];
		for (int l = 0; l < n * n; l++)
			d->residual[l] = fmin(d->residual[l], p->slot[i].residual[l]);
	}
	d->now_s = p->slot[from].at_s;
	d->free_gpus = p->min_free;
	d->price = now->price;
	d->links = true;
	d->total_free = 0;
	for (int r = 0; r < n; r++)
		d->total_free += p->min_free[r];
}

void plan_reserve(struct plan *p, const struct facts *f, int from, double length_s,
		  const struct placement *pl)
{
	double until_s = p->slot[from].at_s + length_s;
	int last = from;

	while (last + 1 < p->n && p->slot[last + 1].at_s < until_s)
		last++;
	/* A new slot where it ends, if there is room; else it holds to the next. */
	if ((last + 1 == p->n || p->slot[last + 1].at_s > until_s) && p->n < PLAN_SLOTS) {
		struct plan_slot spare = p->slot[p->n];

		memmove(&p->slot[last + 2], &p->slot[last + 1],
			sizeof(p->slot[0]) * (size_t)(p->n - last - 1));
		p->slot[last + 1] = spare;
		copy_slot(f, &p->slot[last], &p->slot[last + 1]);
		p->slot[last + 1].at_s = until_s;
		p->n++;
	}
	for (int i = from; i <= last; i++)
		apply(f, &p->slot[i], pl, -1);
}

void plan_release(struct plan *p, const struct facts *f, const struct placement *pl)
{
	for (int i = 0; i < p->n; i++)
		apply(f, &p->slot[i], pl, 1);
}
