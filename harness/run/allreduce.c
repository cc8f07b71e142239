/*
 * A ring of ranks, one a region, that sums a gradient again and again: what ends
 * a step of a pipeline with replicas, by itself. One stage that computes nothing
 * is what plays it, so that engine, transport and shaping are those of a run.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/cell.h"

#define TRIES 4			/* when the machine was too busy */
#define MEASURE_S 1.0		/* about so long a size takes */
#define STEPS_MIN 5
#define STEPS_MAX 50

struct allreduce_job {
	const struct experiment *exp;
	const struct allreduce_options *o;
	struct testbed *testbed;
	double rate_bps[REGIONS_MAX], latency_s[REGIONS_MAX];	/* to the next: goodput and one-way, scaled */
};

static uint64_t part_of(const struct allreduce_job *j, uint64_t bytes)
{
	uint64_t d = (uint64_t)j->o->n_regions;

	return (bytes + d - 1) / d;
}

/* A round needs the one before of the rank before: on the average of the ring it
 * takes a transfer and a latency, but never less than the longest transfer. */
static double planned_s(const struct allreduce_job *j, uint64_t bytes)
{
	double sum = 0, longest = 0;
	int d = j->o->n_regions;

	for (int i = 0; i < d; i++) {
		double s = (double)part_of(j, bytes) * 8 / j->rate_bps[i];

		sum += s + j->latency_s[i];
		longest = fmax(longest, s);
	}
	return 2 * (d - 1) * fmax(sum / d, longest);
}

static void fill_cell(const struct allreduce_job *j, uint64_t bytes, int steps, struct tb_stage *stages,
		      struct tb_hop *rings, struct tb_job *jobs, struct tb_cell *cell)
{
	int d = j->o->n_regions;

	cell_settings(j->exp, cell);
	cell->n_jobs = d;
	cell->jobs = jobs;
	cell->warmup_steps = 1;
	cell->steps = steps;
	/* Nothing is computed, and nothing left out. */
	cell->compute = COMPUTE_AS_TIMED;
	cell->steady_ppm = 0;
	cell->timeline_sends = false;
	cell->timeout_s = cell_timeout_s(planned_s(j, bytes) * (steps + 1));
	for (int i = 0; i < d; i++) {
		int r = j->o->regions[i];

		stages[i] = (struct tb_stage){ .host = lab_host_of(testbed_net(j->testbed), r, 0), .region = r };
		cell_fill_hop(j->exp, part_of(j, bytes), true, r, j->o->regions[(i + 1) % d], &rings[i]);
		jobs[i] = (struct tb_job){ .name = "allreduce", .schedule = SCHED_1F1B, .chunks = 1,
			.micro_batches = 1, .overlap = true, .n_stages = 1, .stages = &stages[i], .replicas = d,
			.replica = i, .rings = &rings[i] };
	}
}

static int run_cell(const struct allreduce_job *j, uint64_t bytes, int steps, struct tb_result *res,
		    struct bace_err *e)
{
	struct tb_stage stages[REGIONS_MAX];
	struct tb_hop rings[REGIONS_MAX];
	struct tb_job jobs[REGIONS_MAX];
	struct tb_cell cell;
	int rc = 0;

	fill_cell(j, bytes, steps, stages, rings, jobs, &cell);
	for (int i = 0; i < TRIES; i++) {
		rc = testbed_run(j->testbed, &cell, res, e);
		if (rc || res->valid)
			return rc;
		rc = bace_fail(e, EBADMSG, "%llu bytes: %s", (unsigned long long)bytes, res->invalid_why);
		tb_result_free(res);
	}
	return rc;
}

/* From one end to the next, at the first rank. */
static int measure_size(const struct allreduce_job *j, struct allreduce_row *row, struct bace_err *e)
{
	double want = MEASURE_S / row->planned_s, v[STEPS_MAX];
	int steps = want < STEPS_MIN ? STEPS_MIN : want > STEPS_MAX ? STEPS_MAX : (int)want, n = 0, rc;
	int64_t before = 0;
	struct tb_result res;

	rc = run_cell(j, row->bytes, steps, &res, e);
	if (rc)
		return rc;
	for (int i = 0; i < res.n_steps; i++) {
		const struct tb_step *s = &res.steps[i];

		if (s->job)
			continue;
		if (s->step >= 0 && n < STEPS_MAX)
			v[n++] = (double)(s->end_ns - before) / 1e9;
		before = s->end_ns;
	}
	tb_result_free(&res);
	row->n = n;
	row->time_s = stats_median(v, (size_t)n);
	row->time_p95_s = stats_quantile(v, (size_t)n, 0.95);
	return 0;
}

static int prepare(struct allreduce_job *j, struct allreduce *out, struct lab_traffic *traffic, struct bace_err *e)
{
	const struct cluster *c = &j->exp->cluster;
	const struct testbed_spec *t = &j->exp->testbed;
	int d = j->o->n_regions;

	if (d < 2 || d > REGIONS_MAX)
		return bace_fail(e, EINVAL, "%s: a ring of %d regions: must be 2 to %d", j->exp->path, d, REGIONS_MAX);
	for (int i = 0; i < d; i++) {
		int a = j->o->regions[i], b = j->o->regions[(i + 1) % d];
		const struct link *l = cluster_link(c, a, b);

		if (!l->present || !cluster_link(c, b, a)->present)
			return bace_fail(e, EINVAL, "%s: there is no link %s %s and back: name the ring with --regions",
					 j->exp->path, c->regions[a].name, c->regions[b].name);
		j->rate_bps[i] = goodput_bps((double)l->rate_bps, c->mtu) * t->scale_bytes / t->scale_time;
		j->latency_s[i] = (double)l->latency_ns / 1e9 * t->scale_time;
	}
	*traffic = (struct lab_traffic){ .wan = t->wan, .jobs_on_link = 1, .min_message_bytes = UINT64_MAX };
	memcpy(traffic->congestion_control, t->congestion_control, sizeof(traffic->congestion_control));
	for (int i = 0; i < j->o->n_sizes; i++)
		traffic_add(j->exp, part_of(j, j->o->sizes[i]), traffic);
	out->rows = calloc((size_t)j->o->n_sizes + 1, sizeof(*out->rows));
	return out->rows ? 0 : bace_fail(e, ENOMEM, "allreduce: out of memory");
}

static int measure(const struct allreduce_job *j, struct allreduce *out, struct bace_err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < j->o->n_sizes; i++) {
		struct allreduce_row *row = &out->rows[out->n];

		row->bytes = j->o->sizes[i];
		row->planned_s = planned_s(j, row->bytes);
		rc = measure_size(j, row, e);
		out->n += !rc;
	}
	return rc;
}

int allreduce_run(const struct experiment *exp, const struct allreduce_options *o, struct allreduce *out,
		  struct bace_err *e)
{
	struct allreduce_job j = { .exp = exp, .o = o };
	const struct bare_options lab = { .self = o->self, .has_backend = o->has_backend, .backend = o->backend,
					  .cancelled = o->cancelled, .arg = o->arg };
	struct lab_traffic traffic;
	int rc;

	*out = (struct allreduce){ 0 };
	rc = prepare(&j, out, &traffic, e);
	if (!rc)
		rc = lab_open_for(exp, &lab, &traffic, false, &j.testbed, &out->backend, e);
	if (!rc)
		rc = measure(&j, out, e);
	testbed_close(j.testbed);
	if (rc)
		allreduce_free(out);
	return rc;
}

void allreduce_free(struct allreduce *a)
{
	free(a->rows);
	a->rows = NULL;
	a->n = 0;
}
