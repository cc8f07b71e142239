#include "harness/sim/tracegen.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/policy/policy.h"

#define STEPS_MAX 1e12		/* what a jobs file may say */

/* Between the jobs of a burst, of the mean gap. */
#define WITHIN_BURST 0.05

void trace_free(struct trace *t)
{
	free(t->v);
	*t = (struct trace){ 0 };
}

struct trace_shape trace_shape_default(void)
{
	return (struct trace_shape){ .n_jobs = 60, .seed = 1, .gap_s = 30.2, .burst = 8, .n_sizes = 4,
		.gpus = { 1, 2, 4, 8 }, .weight = { 30, 10, 10, 10 }, .least_s = 120, .median_s = 125,
		.sigma = 2.25, .most_s = 1800 };
}

static int check_shape(const struct trace_shape *s, struct bace_err *e)
{
	double sum = 0;

	if (s->n_jobs < 1 || s->n_jobs > TRACE_MAX_JOBS)
		return bace_fail(e, EINVAL, "%d jobs: must be 1 to %d", s->n_jobs, TRACE_MAX_JOBS);
	if (!(s->gap_s >= 0) || isinf(s->gap_s))
		return bace_fail(e, EINVAL, "mean gap %g s: must be a finite number, 0 or more", s->gap_s);
	if (!(s->burst >= 1) || isinf(s->burst))
		return bace_fail(e, EINVAL, "burst of %g jobs: must be a finite number, 1 or more", s->burst);
	if (!(s->least_s >= 0) || !(s->median_s > s->least_s) || !(s->most_s > s->median_s) || isinf(s->most_s))
		return bace_fail(e, EINVAL, "durations: least %g s, median %g s, most %g s: must be ascending, "
				 "from 0", s->least_s, s->median_s, s->most_s);
	if (!(s->sigma >= 0) || s->sigma > 10)
		return bace_fail(e, EINVAL, "sigma %g: must be 0 to 10", s->sigma);
	for (int i = 0; i < s->n_sizes && i < TRACE_MAX_SIZES; i++) {
		if (s->gpus[i] < 1 || s->gpus[i] > TRACE_MAX_GPUS)
			return bace_fail(e, EINVAL, "%d GPUs: must be 1 to %d", s->gpus[i], TRACE_MAX_GPUS);
		if (!(s->weight[i] >= 0) || isinf(s->weight[i]))
			return bace_fail(e, EINVAL, "weight %g of %d GPUs: must be a finite number, 0 or more",
					 s->weight[i], s->gpus[i]);
		sum += s->weight[i];
	}
	if (s->n_sizes < 1 || s->n_sizes > TRACE_MAX_SIZES || !(sum > 0))
		return bace_fail(e, EINVAL, "numbers of GPUs: must be 1 to %d, some with a weight above 0",
				 TRACE_MAX_SIZES);
	return 0;
}

static int draw_gpus(const struct trace_shape *s, struct bace_rng *rng)
{
	double sum = 0, x, below = 0;

	for (int i = 0; i < s->n_sizes; i++)
		sum += s->weight[i];
	x = sum * bace_rng_uniform(rng);
	for (int i = 0; i < s->n_sizes; i++) {
		below += s->weight[i];
		if (x < below)
			return s->gpus[i];
	}
	return s->gpus[s->n_sizes - 1];
}

static double draw_duration(const struct trace_shape *s, struct bace_rng *rng)
{
	double d;

	/* Half of all draws are below the median, so this ends. */
	do
		d = s->least_s + (s->median_s - s->least_s) * exp(s->sigma * bace_rng_normal(rng));
	while (d > s->most_s);
	return d;
}

struct arrivals {
	const struct trace_shape *s;
	struct bace_rng *rng;
	double now, burst_start;
	int left;			/* in this burst */
};

static double next_arrival(struct arrivals *a)
{
	const struct trace_shape *s = a->s;

	switch (s->arrivals) {
	case ARRIVALS_AT_ONCE:
		break;
	case ARRIVALS_POISSON:
		a->now += bace_rng_exponential(a->rng, s->gap_s);
		break;
	case ARRIVALS_BURSTY:
		if (a->left-- > 0) {
			a->now += bace_rng_exponential(a->rng, WITHIN_BURST * s->gap_s);
			break;
		}
		a->burst_start += bace_rng_exponential(a->rng, s->burst * s->gap_s);
		a->now = a->burst_start;
		/* geometric, mean burst - 1 more */
		for (a->left = 0; bace_rng_uniform(a->rng) * s->burst > 1 && a->left < TRACE_MAX_JOBS; a->left++)
			;
	}
	return a->now;
}

int trace_draw(const struct trace_shape *s, struct trace *out, struct bace_err *e)
{
	struct bace_rng when, what;
	struct arrivals a = { .s = s, .rng = &when };
	int rc = check_shape(s, e), digits = snprintf(NULL, 0, "%d", s->n_jobs);

	*out = (struct trace){ 0 };
	if (rc)
		return rc;
	/* Streams of their own: other arrivals do not change the jobs. */
	bace_rng_init(&when, s->seed, 1);
	bace_rng_init(&what, s->seed, 2);
	for (int i = 0; i < s->n_jobs; i++) {
		struct trace_job j = { .arrival_s = next_arrival(&a), .gpus = draw_gpus(s, &what) };

		j.duration_s = draw_duration(s, &what);
		snprintf(j.name, sizeof(j.name), "j%0*d", digits, i + 1);
		if (BACE_PUSH(out->v, out->n, out->cap, j)) {
			trace_free(out);
			return bace_fail(e, ENOMEM, "%d jobs: out of memory", s->n_jobs);
		}
	}
	trace_normalise(out, 0);
	return 0;
}

static int by_arrival(const void *a, const void *b)
{
	const struct trace_job *x = a, *y = b;

	if (x->arrival_s != y->arrival_s)
		return x->arrival_s < y->arrival_s ? -1 : 1;
	return strcmp(x->name, y->name);
}

void trace_normalise(struct trace *t, size_t keep)
{
	double first;

	if (!t->n)
		return;
	qsort(t->v, t->n, sizeof(*t->v), by_arrival);
	if (keep && t->n > keep)
		t->n = keep;
	first = t->v[0].arrival_s;
	for (size_t i = 0; i < t->n; i++)
		t->v[i].arrival_s -= first;
}

/* 1 GPU: 0, 2: 1, 3 and 4: 2, up to 8: 3, ... */
static int size_class(int gpus)
{
	int c = 0;

	for (int most = 1; most < gpus; most *= 2)
		c++;
	return c;
}

/* Seconds of one micro-batch, forward and backward, of each model on one GPU,
 * from the job model that everything else uses. */
static int micro_batch_seconds(const struct trace_work *w, double *seconds, struct bace_err *e)
{
	struct region region = { .name = "r", .n_gpus = 1, .pue = 1, .bandwidth_bps = 1e9 };
	struct gpu_type gpu = { .name = "g", .memory_bytes = 1e30, .flops_eff = w->flops_eff };
	struct link none = { 0 };
	CLEANUP_FREE struct job *jobs = calloc((size_t)w->n_models, sizeof(*jobs));
	struct experiment exp = { .cluster = { .n_regions = 1, .regions = &region, .links = &none, .n_gpus = 1,
			.gpus = &gpu, .mtu = 1500 }, .n_models = w->n_models, .models = (struct model *)w->models,
		.n_jobs = w->n_models, .jobs = jobs, .schedule = SCHED_1F1B, .interleave = 1 };
	struct job_models models = { 0 };
	int rc;

	if (!jobs)
		return bace_fail(e, ENOMEM, "%d models: out of memory", w->n_models);
	for (int i = 0; i < w->n_models; i++)
		jobs[i] = (struct job){ .model = i, .micro_batches = w->micro_batches,
					.micro_batch_size = w->micro_batch_size, .steps = 1 };
	rc = job_models_build(&exp, &models, e);
	for (int i = 0; !rc && i < w->n_models; i++)
		seconds[i] = models.v[i].fwd_s + models.v[i].bwd_s;
	job_models_free(&models);
	return rc;
}

int trace_assign(struct trace *t, const struct trace_work *w, struct bace_err *e)
{
	CLEANUP_FREE double *seconds = calloc((size_t)(w->n_models > 0 ? w->n_models : 1), sizeof(*seconds));
	int rc;

	if (!seconds)
		return bace_fail(e, ENOMEM, "%d models: out of memory", w->n_models);
	if (w->n_models < 1 || !(w->flops_eff > 0) || isinf(w->flops_eff))
		return bace_fail(e, EINVAL, "%d models at %g FLOP/s: both must be above 0", w->n_models,
				 w->flops_eff);
	rc = micro_batch_seconds(w, seconds, e);
	for (size_t i = 0; !rc && i < t->n; i++) {
		struct trace_job *j = &t->v[i];
		int c = size_class(j->gpus);

		j->model = c < w->n_models ? c : w->n_models - 1;
		j->steps = round(j->gpus * j->duration_s / (w->micro_batches * seconds[j->model]));
		j->is_small = j->steps < 1;
		j->steps = fmax(1, j->steps);
		if (!(j->steps <= STEPS_MAX))
			rc = bace_fail(e, EINVAL, "job %s: %d GPUs for %g s are %g steps: at most %g", j->name,
				       j->gpus, j->duration_s, j->steps, STEPS_MAX);
	}
	return rc;
}
