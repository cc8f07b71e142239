#include "tests/unit/cluster/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ref {
	const struct cluster_sim *in;
	const struct experiment *e;
	const struct cluster *c;
	struct reference_job *jobs;
	double now;
	int n_run;
	struct placement run[64];
	double left[64], step[64], busy[64];
};

static int rank_of(const struct experiment *e, int j)
{
	int rank = 0;

	for (int i = 0; i < e->n_jobs; i++) {
		double d = e->jobs[i].arrival_s - e->jobs[j].arrival_s;

		rank += d < 0 || (d == 0 && strcmp(e->jobs[i].name, e->jobs[j].name) < 0);
	}
	return rank;
}

/* Rate of a link as it was at t: the last of the changes until then. */
static double rate_at(const struct ref *r, int a, int b, double t)
{
	const struct link *l = cluster_link(r->c, a, b);
	double rate = l->present ? (double)l->rate_bps : 0, latest = -1;

	for (int i = 0; i < r->in->n_changes; i++) {
		const struct link_change *x = &r->in->changes[i];

		if (x->src == a && x->dst == b && x->at_s <= t && x->at_s >= latest) {
			rate = x->rate_bps;
			latest = x->at_s;
		}
	}
	return rate;
}

static void capacities(const struct ref *r, double t, double *out)
{
	for (int i = 0; i < r->c->n_regions * r->c->n_regions; i++)
		out[i] = rate_at(r, i / r->c->n_regions, i % r->c->n_regions, t);
}

static double integral(const struct price_series *p, double a, double b)
{
	double sum = 0;

	while (a < b) {
		double until, price = price_at(p, a, &until);

		sum += price * (fmin(until, b) - a);
		a = until;
	}
	return sum;
}

static double egress(const struct ref *r, const struct placement *p)
{
	const struct job_model *j = &r->in->models->v[p->job];
	double usd = 0;

	for (int i = 0; i + 1 < p->n_parts; i++)
		usd += cluster_link(r->c, p->parts[i].region, p->parts[i + 1].region)->usd_per_byte +
		       cluster_link(r->c, p->parts[i + 1].region, p->parts[i].region)->usd_per_byte;
	return usd * j->m * j->boundary_bytes * j->steps;
}

static void advance(struct ref *r, double to)
{
	for (int i = 0; i < r->n_run; i++) {
		struct reference_job *j = &r->jobs[r->run[i].job];

		for (int k = 0; k < r->run[i].n_parts; k++) {
			const struct region *reg = &r->c->regions[r->run[i].parts[k].region];
			const struct gpu_type *g = &r->c->gpus[reg->gpu];
			double w = r->run[i].parts[k].gpus *
				   (g->idle_ctx_w + r->busy[i] * (g->active_w - g->idle_ctx_w));

			j->energy_j += w * (to - r->now);
			j->cost_usd += w * reg->pue * integral(&reg->price, r->now, to) / 3.6e6;
		}
		r->left[i] -= (to - r->now) / r->step[i];
	}
	r->now = to;
}

/* The next finish and whose it is. */
static double next_finish(const struct ref *r, int *who)
{
	double t = INFINITY;

	*who = -1;
	for (int i = 0; i < r->n_run; i++)
		if (r->now + r->left[i] * r->step[i] < t) {
			t = r->now + r->left[i] * r->step[i];
			*who = i;
		}
	return t;
}

static double next_other(const struct ref *r)
{
	double t = INFINITY, delay = r->e->view.delay_s;

	for (int i = 0; i < r->e->n_jobs; i++)
		if (r->e->jobs[i].arrival_s > r->now)
			t = fmin(t, r->e->jobs[i].arrival_s);
	for (int i = 0; i < r->in->n_changes; i++) {
		if (r->in->changes[i].at_s > r->now)
			t = fmin(t, r->in->changes[i].at_s);
		if (r->in->changes[i].at_s + delay > r->now)
			t = fmin(t, r->in->changes[i].at_s + delay);
	}
	for (int i = 0; i < r->c->n_regions; i++) {
		double until;

		price_at(&r->c->regions[i].price, fmax(0, r->now - delay), &until);
		/* (now - delay) may fall just short of a change that is at hand */
		if (until + delay <= r->now)
			price_at(&r->c->regions[i].price, until, &until);
		t = fmin(t, until + delay);
	}
	return t;
}

static void finish(struct ref *r, int i)
{
	struct reference_job *j = &r->jobs[r->run[i].job];

	j->finished = true;
	j->finish_s = r->now;
	j->cost_usd += egress(r, &r->run[i]);
	placement_free(&r->run[i]);
	r->n_run--;
	for (; i < r->n_run; i++) {
		r->run[i] = r->run[i + 1];
		r->left[i] = r->left[i + 1];
		r->step[i] = r->step[i + 1];
		r->busy[i] = r->busy[i + 1];
	}
}

static int fill_queue(const struct ref *r, struct queued_job *q)
{
	int n = 0;

	for (int rank = 0; rank < r->e->n_jobs; rank++)
		for (int j = 0; j < r->e->n_jobs; j++)
			if (rank_of(r->e, j) == rank && !r->jobs[j].placed &&
			    r->e->jobs[j].arrival_s <= r->now)
				q[n++] = (struct queued_job){ .job = j,
					.waited_s = r->now - r->e->jobs[j].arrival_s,
					.remaining_steps = r->in->models->v[j].steps };
	return n;
}

/* The policy, once. */
static int decide(struct ref *r, struct bace_err *err)
{
	int n = r->c->n_regions, free_gpus[16], rc;
	double price[16], capacity[256], reserved[256] = { 0 };
	double seen = fmax(0, r->now - r->e->view.delay_s);
	struct queued_job q[64];
	struct placement *p = &r->run[r->n_run];
	struct view v = { .exp = r->e, .models = r->in->models, .now_s = r->now, .free_gpus = free_gpus,
			  .price = price, .capacity_bps = capacity, .reserved_bps = reserved };
	struct queue queue = { .n = fill_queue(r, q), .v = q };

	for (int i = 0; i < n; i++) {
		double until;

		free_gpus[i] = r->c->regions[i].n_gpus;
		price[i] = price_at(&r->c->regions[i].price, seen, &until);
		if (until + r->e->view.delay_s <= r->now)
			price[i] = price_at(&r->c->regions[i].price, until, NULL);
	}
	capacities(r, nextafter(seen, INFINITY), capacity);
	for (int i = 0; i < r->n_run; i++)
		for (int k = 0; k < r->run[i].n_parts; k++) {
			const struct placement_part *part = &r->run[i].parts[k];

			free_gpus[part->region] -= part->gpus;
			if (!k)
				continue;
			double bps = policy_reservation_bps(r->in->policy, &v, &r->run[i]);
			reserved[part[-1].region * n + part->region] += bps;
			reserved[part->region * n + part[-1].region] += bps;
		}
	rc = queue.n ? policy_decide(r->in->policy, &v, &queue, p, err) : 0;
	if (rc > 0) {
		r->jobs[p->job].placed = true;
		r->jobs[p->job].start_s = r->now;
		r->jobs[p->job].where = placement_format(r->c, p);
		r->left[r->n_run++] = r->in->models->v[p->job].steps;
	}
	return rc;
}

static int ask(struct ref *r, struct bace_err *err)
{
	const struct placement *p[64];
	struct step_estimate out[64];
	double capacity[256];
	int rc;

	for (int i = 0; i < r->n_run; i++)
		p[i] = &r->run[i];
	capacities(r, r->now, capacity);
	rc = r->in->oracle->step_times(r->in->oracle, &(struct moment){ .exp = r->e,
		.models = r->in->models, .n = r->n_run, .placements = p, .capacity_bps = capacity },
		out, err);
	for (int i = 0; i < r->n_run; i++) {
		r->step[i] = out[i].step_s;
		r->busy[i] = out[i].busy;
	}
	return rc;
}

int reference_simulate(const struct cluster_sim *s, struct reference_job *jobs, struct bace_err *err)
{
	struct ref r = { .in = s, .e = s->exp, .c = &s->exp->cluster, .jobs = jobs, .now = -1 };
	int rc = 0, vain = 0;

	while (!rc && vain < 60) {
		int who;
		double f = next_finish(&r, &who), t = next_other(&r);

		if (isinf(f) && isinf(t))
			break;
		vain = r.n_run ? 0 : vain + 1;
		advance(&r, fmin(f, t));
		while (who >= 0 && f <= r.now) {
			finish(&r, who);
			who = -1;
			for (int i = 0; i < r.n_run; i++)
				if (r.left[i] * r.step[i] <= 1e-9 * r.now)
					who = i;
		}
		while ((rc = decide(&r, err)) > 0)
			vain = 0;
		if (!rc && r.n_run)
			rc = ask(&r, err);
	}
	while (r.n_run)
		placement_free(&r.run[--r.n_run]);
	return rc;
}
