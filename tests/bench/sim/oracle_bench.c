/*
 * What a moment costs an oracle, by the jobs that run: eight regions, jobs of
 * 14B to 101B parameters on random paths of up to four regions, so that every
 * link is shared. CPU time of this thread, best of several.
 */
#include <stdlib.h>
#include <time.h>

#include "harness/oracle/oracle.h"
#include "tests/bench/sim/policy_bench.h"

#define REGIONS 8
#define JOBS_MAX 256
#define TRIES 7

struct drawn {
	struct placement p[JOBS_MAX];
	struct placement_part parts[JOBS_MAX][4];
	const struct placement *list[JOBS_MAX];
	int n_stages;
};

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void draw(struct drawn *d, int jobs, struct bace_rng *rng)
{
	d->n_stages = 0;
	for (int i = 0; i < jobs; i++) {
		int n = 1 + (int)bace_rng_below(rng, 4), first = (int)bace_rng_below(rng, REGIONS);
		int stride = 1 + 2 * (int)bace_rng_below(rng, REGIONS / 2);

		d->p[i] = (struct placement){ .job = i, .n_parts = n, .parts = d->parts[i] };
		/* an odd stride visits no region of eight twice */
		for (int k = 0; k < n; k++) {
			d->parts[i][k] = (struct placement_part){ (first + k * stride) % REGIONS,
								  4 + (int)bace_rng_below(rng, 8) };
			d->p[i].n_gpus += d->parts[i][k].gpus;
		}
		d->n_stages += d->p[i].n_gpus;
		d->list[i] = &d->p[i];
	}
}

static double time_moment(struct oracle *o, const struct moment *m, int times)
{
	static struct step_estimate out[JOBS_MAX];
	double best = 1e9;

	for (int t = 0; t < TRIES; t++) {
		double begin = cpu_s(), s;

		for (int i = 0; i < times; i++) {
			struct bace_err e = { 0 };

			if (o->step_times(o, m, out, &e)) {
				fprintf(stderr, "%s\n", e.msg);
				exit(1);
			}
		}
		s = (cpu_s() - begin) / times;
		best = s < best ? s : best;
	}
	return best;
}

int main(void)
{
	static struct drawn d;
	struct bace_rng rng;
	struct oracle *closed_form, *event_sim;
	struct bench b;

	bench_build(&b, REGIONS, JOBS_MAX);
	if (oracle_closed_form(&closed_form, NULL) || oracle_event_sim(SCHED_1F1B, 1, true, &event_sim, NULL))
		return 1;
	printf("a moment of jobs on shared links; event-sim: 1f1b, m = 64\n\n%6s %8s %22s %22s\n", "jobs", "stages",
	       "closed form, us/job", "event-sim, us/job");
	bace_rng_init(&rng, 1, 0);
	for (int jobs = 1; jobs <= JOBS_MAX; jobs *= 4) {
		struct moment m = { .exp = &b.e, .models = &b.models, .n = jobs, .placements = d.list,
				    .capacity_bps = b.capacity_bps };

		draw(&d, jobs, &rng);
		printf("%6d %8d %22.3f %22.1f\n", jobs, d.n_stages,
		       time_moment(closed_form, &m, 1 + 20000 / jobs) / jobs * 1e6,
		       time_moment(event_sim, &m, 1 + 64 / jobs) / jobs * 1e6);
	}
	oracle_destroy(closed_form);
	oracle_destroy(event_sim);
	bench_free(&b);
	return 0;
}
