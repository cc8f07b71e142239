/* What a run says while it runs. */
#include <math.h>
#include <stdlib.h>

#include "harness/run/internal.h"

static struct run_status_job *describe(const struct run *r, const struct moment *m,
				       const struct step_estimate *predicted)
{
	struct run_status_job *v = calloc((size_t)m->n + 1, sizeof(*v));

	for (int i = 0; v && i < m->n; i++) {
		CLEANUP_FREE char *p = placement_format(&r->exp->cluster, m->placements[i]);

		snprintf(v[i].what, sizeof(v[i].what), "%s on %s", r->exp->jobs[m->placements[i]->job].name, p ? p : "?");
		v[i].predicted_s = predicted[i].step_s;
		v[i].step_s = NAN;
	}
	return v;
}

static struct run_status status_of(const struct run *r, const struct moment *m, const struct tb_cell *cell, int number,
				   const struct step_estimate *predicted)
{
	struct run_status s = { .cell = number, .cells = r->cells_expected > number ? r->cells_expected : number,
		.policy = r->policy, .ranks = cell_ranks(cell), .jobs = describe(r, m, predicted) };

	s.n_jobs = s.jobs ? m->n : 0;
	return s;
}

void status_begin(struct run *r, const struct moment *m, const struct tb_cell *cell,
		  const struct step_estimate *predicted)
{
	struct run_status s;

	if (!r->o->on_status)
		return;
	s = status_of(r, m, cell, r->n_cells + 1, predicted);
	r->o->on_status(r->o->arg, &s);
	free(s.jobs);
}

/* tc counts from the first warm-up step to the last. */
static double steps_span_s(const struct tb_result *res)
{
	int64_t begin = INT64_MAX, end = INT64_MIN;

	for (int i = 0; i < res->n_steps; i++) {
		begin = res->steps[i].start_ns < begin ? res->steps[i].start_ns : begin;
		end = res->steps[i].end_ns > end ? res->steps[i].end_ns : end;
	}
	return res->n_steps ? (double)(end - begin) / 1e9 : NAN;
}

static void busiest_link(const struct run *r, const struct tb_result *res, struct run_status *s)
{
	const struct cluster *c = &r->exp->cluster;
	const struct testbed_spec *t = &r->exp->testbed;
	double span_s = steps_span_s(res);

	for (int i = 0; i < res->n_links; i++) {
		const struct tb_link_check *l = &res->links[i];
		double rate = (double)cluster_link(c, l->src, l->dst)->rate_bps * t->scale_bytes / t->scale_time;
		double share = (double)l->tc_bytes * 8 / span_s / rate;

		if (!(share > s->link_share))
			continue;
		s->link_share = share;
		snprintf(s->link, sizeof(s->link), "%s to %s", c->regions[l->src].name, c->regions[l->dst].name);
	}
}

void status_end(struct run *r, const struct moment *m, const struct tb_cell *cell, const struct tb_result *res,
		const struct step_estimate *predicted)
{
	struct run_status s;

	if (!r->o->on_status)
		return;
	s = status_of(r, m, cell, r->n_cells, predicted);
	s.n_steps = cell->steps;
	s.invalid_why = res->valid ? NULL : res->invalid_why;
	for (int i = 0; res->valid && i < s.n_jobs; i++) {
		struct cell_steps v;

		if (!cell_steps_of(cell, res, i, r->exp->testbed.scale_time, &v, NULL))
			s.jobs[i].step_s = v.median_s;
		free(v.step_s);
	}
	busiest_link(r, res, &s);
	r->o->on_status(r->o->arg, &s);
	free(s.jobs);
}
