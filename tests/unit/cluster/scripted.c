#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/cluster/scripted.h"

/* ---- the scripted policy ---- */

static bool queued(const struct queue *q, int job)
{
	for (int i = 0; i < q->n; i++)
		if (q->v[i].job == job)
			return true;
	return false;
}

int policy_decide(struct policy *p, const struct view *v, const struct queue *q, struct placement *out,
		  struct bace_err *err)
{
	if (p->calls < 8) {
		p->seen[p->calls] = v->price[0];
		p->seen_at[p->calls] = v->now_s;
	}
	p->calls++;
	if (v->exp->cluster.n_regions > 1)
		p->last_reserved = v->reserved_bps[1];
	if (v->exp->cluster.n_regions > 2)
		p->last_back = p->seen_back[p->calls <= 8 ? p->calls - 1 : 7] = v->reserved_bps[2];
	for (int i = 0; i < p->n; i++) {
		const struct placement_part *s = p->script[i].parts;
		int n = p->script[i].n_parts, gpus = 0;

		if (!queued(q, p->script[i].job) || v->now_s < p->script[i].from_s)
			continue;
		if (p->script[i].max_price > 0 && v->price[s[0].region] > p->script[i].max_price)
			continue;
		if (n > 1 && v->capacity_bps[s[0].region * v->exp->cluster.n_regions + s[1].region] <
			     p->script[i].min_rate)
			continue;
		if (!p->blind && v->free_gpus[s[0].region] < s[0].gpus)
			continue;
		out->parts = malloc(sizeof(*s) * 4);
		memcpy(out->parts, s, sizeof(*s) * 4);
		for (int k = 0; k < n; k++)
			gpus += s[k].gpus;
		out->job = p->script[i].job;
		out->n_parts = n;
		out->n_gpus = gpus;
		return 1;
	}
	return 0;
}

double policy_reservation_bps(const struct policy *p, const struct view *v, const struct placement *pl)
{
	return p->reserve_bps;
}

bool policy_wants_running(const struct policy *p)
{
	return p->n_moves > 0;
}

bool policy_is_elastic(const struct policy *p)
{
	return p->n_moves > 0;
}

double policy_restart_s(const struct policy *p)
{
	return p->restart_s;
}

/* Each move once, at the first call from its time on. */
int policy_resize(struct policy *p, const struct view *v, const struct queue *q, struct placement *out,
		  struct bace_err *err)
{
	for (int i = 0; i < v->n_running && p->calls < 8; i++)
		p->seen_left[p->calls] = v->running[i].remaining_steps;
	for (int i = 0; i < p->n_moves; i++) {
		if (p->moves[i].done || v->now_s < p->moves[i].from_s)
			continue;
		p->moves[i].done = !p->restless;
		*out = (struct placement){ .job = p->moves[i].job, .n_parts = 1,
			.n_gpus = p->moves[i].to.gpus, .parts = malloc(sizeof(struct placement_part)) };
		out->parts[0] = p->moves[i].to;
		return 1;
	}
	return 0;
}

void script(struct policy *p, int job, int n_parts, const struct placement_part *parts)
{
	p->script[p->n].job = job;
	p->script[p->n].n_parts = n_parts;
	memcpy(p->script[p->n].parts, parts, sizeof(*parts) * (size_t)n_parts);
	p->n++;
}

void script1(struct policy *p, int job, int region, int gpus)
{
	script(p, job, 1, &(struct placement_part){ region, gpus });
}

void script2(struct policy *p, int job, int a, int ga, int b, int gb)
{
	script(p, job, 2, (struct placement_part[]){ { a, ga }, { b, gb } });
}

/* ---- the scripted oracle ---- */

static bool share(const struct placement *a, const struct placement *b)
{
	return a->n_parts > 1 && b->n_parts > 1 && a->parts[0].region == b->parts[0].region &&
	       a->parts[1].region == b->parts[1].region;
}

static int fixed_times(struct oracle *o, const struct moment *m, struct step_estimate *out,
		       struct bace_err *err)
{
	struct fixed *f = (struct fixed *)o;

	if (f->calls < 16)
		f->asked[f->calls] = m->n;
	if (++f->calls == f->fail_at)
		return bace_fail(err, EIO, "the testbed burns");
	for (int i = 0; i < m->n; i++) {
		const struct placement *p = m->placements[i];
		double cap = 1e9;
		int n = 0;

		if (p->n_parts > 1)
			cap = m->capacity_bps[p->parts[0].region * m->exp->cluster.n_regions +
					      p->parts[1].region];
		for (int j = 0; j < m->n; j++)
			n += share(p, m->placements[j]);
		out[i] = (struct step_estimate){ f->step_s * (n ? n : 1) * 1e9 / cap, cap > 0 ? f->busy : 0 };
	}
	return 0;
}

void env_init(struct env *e, int n_regions)
{
	memset(e, 0, sizeof(*e));
	world_init(&e->w, n_regions);
	world_model(&e->w, "m", 4);
	e->o = (struct fixed){ .base = { .name = "fixed", .step_times = fixed_times }, .step_s = 1, .busy = 0.5 };
	e->sim = (struct cluster_sim){ .exp = &e->w.e, .models = &e->w.models, .policy = &e->p,
				       .oracle = &e->o.base };
}

void env_run(struct env *e)
{
	world_ready(&e->w);
	e->rc = cluster_simulate(&e->sim, &e->r, &e->err);
}

void env_ok(struct env *e)
{
	env_run(e);
	if (e->rc)
		fail_msg("%s", e->err.msg);
}

void env_free(struct env *e)
{
	cluster_result_free(&e->r);
	world_free(&e->w);
}
