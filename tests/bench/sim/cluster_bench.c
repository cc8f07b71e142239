/*
 * Speed of the cluster simulation, closed form: jobs per second, and how it
 * grows with jobs, regions and the queue. Prints figures; asserts nothing.
 *
 *   cluster_bench [--quick]
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness/sim/sim.h"
#include "tests/bench/sim/policy_bench.h"
#include "tests/bench/table.h"

/* GPU-seconds of a job at K* over what the cluster has: arrivals at this share. */
static void set_arrivals(struct bench *b, double load, int burst)
{
	struct experiment *e = &b->e;
	double gpu_s = 0, gap, t = 0;
	struct bace_rng r;
	int gpus = 0;

	for (int i = 0; i < e->cluster.n_regions; i++)
		gpus += e->cluster.regions[i].n_gpus;
	for (int i = 0; i < e->n_jobs; i++)
		gpu_s += b->models.v[i].steps * b->models.v[i].step_star_s * b->models.v[i].k_star;
	gap = gpu_s / e->n_jobs / (load * gpus);
	bace_rng_init(&r, 1, 7);
	for (int i = 0; i < e->n_jobs; i++) {
		if (i % burst == 0)
			t += bace_rng_exponential(&r, gap * burst);
		e->jobs[i].arrival_s = t;
	}
}

/* Of this thread: other load on the machine does not count. */
static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns CPU seconds; NAN: it could not be run. */
static double measure(struct bench *b, const char *policy, int regions, double load)
{
	struct policy_spec spec = bench_spec(policy);
	struct cluster_result res;
	struct bace_err err = { 0 };
	struct policy *p = NULL;
	struct oracle *o = NULL;
	double t = cpu_s(), s = NAN;
	int rc = policy_create(&spec, 1, &p, &err);

	if (!rc)
		rc = oracle_closed_form(&o, &err);
	if (!rc)
		rc = cluster_simulate(&(struct cluster_sim){ .exp = &b->e, .models = &b->models, .policy = p,
			.oracle = o, .separable = true }, &res, &err);
	if (rc) {
		printf("%-8s %s\n", policy, err.msg);
	} else {
		s = cpu_s() - t;
		printf("%-8s %7d %8d %5.0f %9d %6.1f %9.3f %11.0f %10.2f %9lld\n", policy, regions,
		       b->e.n_jobs, 100 * load, res.max_queue, 100 * res.gpu_utilisation, s, res.n / s,
		       s * 1e6 / (double)res.n_decisions, (long long)res.n_moments);
		cluster_result_free(&res);
	}
	fflush(stdout);
	policy_destroy(p);
	oracle_destroy(o);
	return s;
}

static void head(const char *what)
{
	printf("\n%s\n%-8s %7s %8s %5s %9s %6s %9s %11s %10s %9s\n", what, "policy", "regions", "jobs",
	       "load%", "max queue", "util%", "CPU s", "jobs/s", "us/decide", "moments");
}

static double one(const char *policy, int regions, int jobs, double load, int burst)
{
	static struct bench b;
	double s;

	bench_build(&b, regions, jobs);
	set_arrivals(&b, load, burst);
	s = measure(&b, policy, regions, load);
	bench_free(&b);
	return s;
}

/* As many regions of 100 GPUs as asked for. */
static double large(const char *policy, int regions, int jobs)
{
	static struct bench b;
	double s;

	bench_build(&b, regions, jobs);
	for (int i = 0; i < regions; i++)
		b.e.cluster.regions[i].n_gpus = 100;
	set_arrivals(&b, 0.7, 1);
	s = measure(&b, policy, regions, 0.7);
	bench_free(&b);
	return s;
}

int main(int argc, char **argv)
{
	bool quick = argc > 1 && !strcmp(argv[1], "--quick");
	int million = quick ? 20000 : 1000000;
	double lcf, bace, hundred;

	bace_log_setup(&(struct bace_log_config){ .level = BACE_ERROR, .program = "cluster_bench", .fd = 2 });
	head("six regions, queue of at most 16: at least 1,000,000 jobs/s with lcf, 200,000 with bace");
	lcf = million / one("lcf", 6, million, 0.25, 1);
	bace = million / 5 / one("bace", 6, million / 5, 0.5, 1);

	head("100 regions of 100 GPUs, 10,000 jobs, Poisson at 70 %: at most 30 s with bace");
	hundred = large("bace", 100, 10000);
	large("lcf", 100, 10000);

	head("with jobs: linear");
	for (int jobs = 1000; jobs <= million; jobs *= 10)
		table_growth("cluster simulation, bace", "jobs", jobs, one("bace", 6, jobs, 0.5, 1), "s");

	head("with regions (10,000 jobs): bace reads R^2 links and grows a path from each of R seeds");
	for (int regions = 3; regions <= 96; regions *= 2)
		table_growth("cluster simulation, bace, 10,000 jobs", "regions", regions, large("bace", regions, 10000), "s");

	head("with the queue (bursts of this many jobs): every decision orders the whole queue");
	for (int burst = 1; burst <= 4096; burst *= 8) {
		table_growth("cluster simulation, bace, 20,000 jobs", "queue", burst, one("bace", 6, 20000, 0.5, burst), "s");
		table_growth("cluster simulation, lcf, 20,000 jobs", "queue", burst, one("lcf", 6, 20000, 0.2, burst), "s");
	}
	table_head("cluster simulation");
	table_row("six regions, lcf", "jobs/s", figure_one(lcf), (struct figure){ 0 }, (struct asked){ ASKED_LEAST, 1e6 });
	table_row("six regions, bace", "jobs/s", figure_one(bace), (struct figure){ 0 }, (struct asked){ ASKED_LEAST, 2e5 });
	table_row("100 regions, 10,000 jobs, bace", "s", figure_one(hundred), (struct figure){ 0 },
		  (struct asked){ ASKED_MOST, 30 });
	return 0;
}
