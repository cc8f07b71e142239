/*
 * One seed of one world. Drawn scenarios are after public summaries of BACE-Pipe
 * (arXiv 2605.25375): {16, 32, 64, 128} GPUs and 25 to 100 Gbit/s a region, a
 * link as fast as the mean of its ends, 0.156 to 0.295 USD/kWh, data sets of
 * 50 MB, 0.5 GB and 38 GB at random.
 */
#include "harness/robust/instance.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_PER_TOKEN 4.0
#define MAX_REDRAWS 1000
/* Links have one of few states, so that step times are soon all known. */
#define STATES 8
/* Fast links: jobs are cut so that the longest takes this long at K*. */
#define FAST_LONGEST_S 2.0
#define FAST_HOLD_S 0.01
/* Traces reach over this many times the longest job at K*, beyond the last
 * arrival; then the last state holds. */
#define HORIZON 3.0
#define MAX_CHANGES 400

enum { STREAM_CLUSTER = 31, STREAM_JOBS = 32, STREAM_LINKS = 33 };

static const double link_factor[] = { 0.2, 0.6, 1.0 };
static const double dataset_bytes[] = { 50e6, 0.5e9, 38e9 };

/* ---- what all instances share ---- */

/* Over the period, or up to the last change, which is for ever. */
static double mean_price(const struct price_series *p)
{
	double end_s = p->period_s > 0 ? p->period_s : p->start_s[p->n - 1];

	return p->n > 1 && end_s > 0 ? price_integral(p, 0, end_s) / end_s : p->usd_per_kwh[0];
}

static int copy_series(const struct price_series *from, double factor, struct price_series *to)
{
	*to = (struct price_series){ .n = from->n, .period_s = from->period_s };
	to->start_s = malloc(from->n * sizeof(double));
	to->usd_per_kwh = malloc(from->n * sizeof(double));
	if (!to->start_s || !to->usd_per_kwh)
		return -ENOMEM;
	memcpy(to->start_s, from->start_s, from->n * sizeof(double));
	for (size_t i = 0; i < from->n; i++)
		to->usd_per_kwh[i] = from->usd_per_kwh[i] * factor;
	return 0;
}

static int make_flat(const struct price_series *from, struct price_series *to)
{
	double zero = 0, mean = mean_price(from);

	return copy_series(&(struct price_series){ .n = 1, .start_s = &zero, .usd_per_kwh = &mean }, 1, to);
}

int setting_init(struct setting *s, const struct experiment *exp, const struct robust_options *o,
		 struct bace_diags *diags, struct bace_err *err)
{
	const struct cluster *c = &exp->cluster;
	size_t n = (size_t)c->n_regions;
	bool own = true;
	int rc = 0;

	*s = (struct setting){ .exp = exp, .o = o, .least_delay_s = INFINITY };
	for (int i = 0; i < o->n_delays; i++)
		if (o->delays_s[i] > 0)
			s->least_delay_s = fmin(s->least_delay_s, o->delays_s[i]);
	s->flat = calloc(n, sizeof(*s->flat));
	s->hourly = calloc(n, sizeof(*s->hourly));
	if (!s->flat || !s->hourly)
		return bace_fail(err, ENOMEM, "prices: out of memory");
	for (int r = 0; r < c->n_regions && !rc; r++) {
		own = own && c->regions[r].price.n > 1;
		rc = make_flat(&c->regions[r].price, &s->flat[r]);
	}
	if (!rc && o->prices[PRICES_HOURLY] && !own)
		return cluster_prices_load(o->hourly, c, s->hourly, diags, err);
	for (int r = 0; r < c->n_regions && !rc; r++)
		rc = copy_series(&c->regions[r].price, 1, &s->hourly[r]);
	return rc ? bace_fail(err, ENOMEM, "prices: out of memory") : 0;
}

void setting_free(struct setting *s)
{
	for (int r = 0; s->flat && s->hourly && r < s->exp->cluster.n_regions; r++) {
		price_series_free(&s->flat[r]);
		price_series_free(&s->hourly[r]);
	}
	free(s->flat);
	free(s->hourly);
	*s = (struct setting){ 0 };
}

/* ---- the cluster ---- */

static int alloc_cluster(struct instance *s, const struct cluster *from)
{
	struct cluster *c = &s->e.cluster;
	size_t n = (size_t)from->n_regions;

	*c = *from;
	c->regions = calloc(n, sizeof(*c->regions));
	c->links = calloc(n * n, sizeof(*c->links));
	c->gpus = calloc((size_t)from->n_gpus, sizeof(*c->gpus));
	s->series = calloc(n, sizeof(*s->series));
	if (!c->regions || !c->links || !c->gpus || !s->series)
		return -ENOMEM;
	memcpy(c->regions, from->regions, n * sizeof(*c->regions));
	memcpy(c->links, from->links, n * n * sizeof(*c->links));
	memcpy(c->gpus, from->gpus, (size_t)from->n_gpus * sizeof(*c->gpus));
	return 0;
}

static void draw_cluster(struct cluster *c, struct bace_rng *r, double *price)
{
	int n = c->n_regions;

	for (int i = 0; i < n; i++) {
		c->regions[i].n_gpus = 16 << bace_rng_below(r, 4);
		c->regions[i].bandwidth_bps = 25e9 + 75e9 * bace_rng_uniform(r);
		price[i] = 0.156 + (0.295 - 0.156) * bace_rng_uniform(r);
	}
	for (int i = 0; i < n * n; i++)
		c->links[i].rate_bps = (uint64_t)((c->regions[i / n].bandwidth_bps +
						   c->regions[i % n].bandwidth_bps) / 2);
}

static int build_cluster(struct instance *s, const struct setting *from, const struct robust_world *w,
			 struct bace_rng *r)
{
	const struct robust_options *o = from->o;
	struct cluster *c = &s->e.cluster;
	CLEANUP_FREE double *price = calloc((size_t)from->exp->cluster.n_regions, sizeof(*price));

	if (!price || alloc_cluster(s, &from->exp->cluster))
		return -ENOMEM;
	if (o->drawn)
		draw_cluster(c, r, price);
	for (int i = 0; i < c->n_regions; i++) {
		const struct price_series *p = w->prices == PRICES_FLAT ? &from->flat[i] : &from->hourly[i];

		if (copy_series(p, o->drawn ? price[i] / mean_price(p) : 1, &s->series[i]))
			return -ENOMEM;
		c->regions[i].price = s->series[i];
	}
	if (w->regime != REGIME_BINDING)
		return 0;
	for (int i = 0; i < c->n_gpus; i++)
		c->gpus[i].flops_eff = o->binding_flops;
	for (int i = 0; i < c->n_regions; i++)
		c->regions[i].bandwidth_bps *= o->binding_bandwidth;
	for (int i = 0; i < c->n_regions * c->n_regions; i++)
		c->links[i].rate_bps = (uint64_t)((double)c->links[i].rate_bps * o->binding_bandwidth);
	return 0;
}

/* ---- the jobs ---- */

static int copy_jobs(struct instance *s, const struct experiment *from)
{
	s->e.jobs = calloc((size_t)from->n_jobs + 1, sizeof(*s->e.jobs));
	if (!s->e.jobs)
		return -ENOMEM;
	memcpy(s->e.jobs, from->jobs, (size_t)from->n_jobs * sizeof(*s->e.jobs));
	return 0;
}

static void draw_datasets(struct experiment *e, struct bace_rng *r)
{
	for (int i = 0; i < e->n_jobs; i++) {
		struct job *j = &e->jobs[i];

		j->dataset_bytes = dataset_bytes[bace_rng_below(r, ARRAY_LEN(dataset_bytes))];
		j->steps = fmax(1, ceil(j->epochs * j->dataset_bytes / BYTES_PER_TOKEN /
					((double)j->micro_batches * j->micro_batch_size *
					 e->models[j->model].seq)));
	}
}

static double longest_s(const struct instance *s)
{
	double longest = 0;

	for (int i = 0; i < s->models.n; i++)
		longest = fmax(longest, s->models.v[i].steps * s->models.v[i].step_star_s);
	return longest;
}

static int build_models(struct instance *s, const struct robust_world *w, struct bace_err *err)
{
	int rc = job_models_build(&s->e, &s->models, err);
	double cut;

	if (rc || w->links != LINKS_FAST)
		return rc;
	cut = FAST_LONGEST_S / longest_s(s);
	for (int i = 0; i < s->e.n_jobs; i++) {
		s->e.jobs[i].steps *= cut;
		s->e.jobs[i].arrival_s *= cut;
	}
	job_models_free(&s->models);
	return job_models_build(&s->e, &s->models, err);
}

/* In an order drawn, at gaps that would keep `load` of all GPUs busy with jobs at K*. */
static int draw_arrivals(struct instance *s, const struct setting *from, struct bace_rng *r)
{
	int n = s->e.n_jobs, gpus = 0;
	CLEANUP_FREE int *order = calloc((size_t)n + 1, sizeof(*order));
	double work = 0, t = 0, gap;

	if (!order)
		return -ENOMEM;
	for (int i = 0; i < n; i++) {
		const struct job_model *j = &s->models.v[i];
		int at = (int)bace_rng_below(r, (uint64_t)i + 1);

		work += j->steps * j->step_star_s * j->k_star;
		order[i] = order[at];
		order[at] = i;
	}
	if (!(from->o->load > 0))
		return 0;
	for (int i = 0; i < s->e.cluster.n_regions; i++)
		gpus += s->e.cluster.regions[i].n_gpus;
	gap = work / n / (from->o->load * gpus);
	for (int i = 0; i < n; i++) {
		s->e.jobs[order[i]].arrival_s = t;
		t += bace_rng_exponential(r, gap);
	}
	return 0;
}

static bool fits(const struct instance *s)
{
	int gpus = 0;

	for (int i = 0; i < s->e.cluster.n_regions; i++)
		gpus += s->e.cluster.regions[i].n_gpus;
	for (int i = 0; i < s->models.n; i++)
		if (s->models.v[i].k_min < 1 || s->models.v[i].k_min > gpus)
			return false;
	return true;
}

/* ---- the links ---- */

static double last_arrival_s(const struct instance *s)
{
	double t = 0;

	for (int i = 0; i < s->e.n_jobs; i++)
		t = fmax(t, s->e.jobs[i].arrival_s);
	return t;
}

/* When links are drawn anew, ascending; returns how many. */
static int adverse_times(const struct instance *s, const struct setting *from, double *at)
{
	double lead = isinf(from->least_delay_s) ? 0.0025 : from->least_delay_s / 2;
	int n = 0;

	for (int i = 0; i < s->e.n_jobs; i++)
		if (s->e.jobs[i].arrival_s > lead)
			at[n++] = s->e.jobs[i].arrival_s - lead;
	qsort(at, (size_t)n, sizeof(*at), bace_by_double);
	return n;
}

static int regular_times(const struct instance *s, double hold_s, bool random, int max, struct bace_rng *r,
			 double *at)
{
	double end = last_arrival_s(s) + HORIZON * longest_s(s), t = 0;
	int n = 0;

	if (random)
		hold_s = fmax(hold_s, end / max);
	while (n < max && (t += random ? bace_rng_exponential(r, hold_s) : hold_s) < end)
		at[n++] = t;
	return n;
}

static int by_region_name(const void *a, const void *b, void *arg)
{
	const struct cluster *c = arg;

	return strcmp(c->regions[*(const int *)a].name, c->regions[*(const int *)b].name);
}

/* In the order in which the simulator wants them. */
static void push_state(struct instance *s, const int *by_name, const double *rate_bps, double at_s)
{
	const struct cluster *c = &s->e.cluster;
	int n = c->n_regions;

	for (int i = 0; i < n * n; i++) {
		int src = by_name[i / n], dst = by_name[i % n];

		if (cluster_link(c, src, dst)->present)
			s->changes[s->n_changes++] = (struct link_change){ .at_s = at_s, .src = src,
				.dst = dst, .rate_bps = rate_bps[src * n + dst] };
	}
}

static int change_times(const struct instance *s, const struct setting *from, enum robust_links links, int max,
			struct bace_rng *r, double *at)
{
	switch (links) {
	case LINKS_ADVERSE: return adverse_times(s, from, at);
	case LINKS_FAST: return regular_times(s, FAST_HOLD_S, false, max, r, at);
	default: return regular_times(s, from->o->hold_s, true, max, r, at);
	}
}

static int build_links(struct instance *s, const struct setting *from, enum robust_links links, uint64_t seed)
{
	struct link *l = s->e.cluster.links;
	int pairs = s->e.cluster.n_regions * s->e.cluster.n_regions;
	int max = links == LINKS_FAST ? (int)((last_arrival_s(s) + HORIZON * longest_s(s)) / FAST_HOLD_S) + 2 :
					s->e.n_jobs + MAX_CHANGES;
	CLEANUP_FREE double *at = calloc((size_t)max, sizeof(*at));
	CLEANUP_FREE double *rate_bps = calloc((size_t)(STATES * pairs), sizeof(*rate_bps));
	CLEANUP_FREE int *by_name = calloc((size_t)s->e.cluster.n_regions, sizeof(*by_name));
	struct bace_rng r;
	int n, now = 0;

	if (!at || !rate_bps || !by_name)
		return -ENOMEM;
	for (int i = 0; i < s->e.cluster.n_regions; i++)
		by_name[i] = i;
	qsort_r(by_name, (size_t)s->e.cluster.n_regions, sizeof(*by_name), by_region_name, &s->e.cluster);
	bace_rng_init(&r, seed, STREAM_LINKS);
	for (int i = 0; i < STATES * pairs; i++)
		rate_bps[i] = floor((double)l[i % pairs].rate_bps *
				    link_factor[bace_rng_below(&r, ARRAY_LEN(link_factor))]);
	n = change_times(s, from, links, max, &r, at);
	s->changes = calloc(((size_t)n + 1) * (size_t)pairs, sizeof(*s->changes));
	if (!s->changes)
		return -ENOMEM;
	for (int i = 0; i < pairs; i++)
		l[i].rate_bps = (uint64_t)rate_bps[i];
	for (int i = 0; i < n; i++) {
		now = (now + 1 + (int)bace_rng_below(&r, STATES - 1)) % STATES;
		push_state(s, by_name, rate_bps + now * pairs, at[i]);
	}
	return 0;
}

/* ---- the whole ---- */

static int try_build(struct instance *s, const struct setting *from, const struct robust_world *w,
		     uint64_t seed, struct bace_rng *r, struct bace_err *err)
{
	struct bace_rng jobs;
	int rc;

	*s = (struct instance){ .e = *from->exp };
	s->e.jobs = NULL;
	s->e.cluster.regions = NULL;
	s->e.cluster.links = NULL;
	s->e.cluster.gpus = NULL;
	bace_rng_init(&jobs, seed, STREAM_JOBS);
	if (build_cluster(s, from, w, r) || copy_jobs(s, from->exp))
		return bace_fail(err, ENOMEM, "instance: out of memory");
	if (from->o->drawn)
		draw_datasets(&s->e, r);
	rc = build_models(s, w, err);
	if (!rc && draw_arrivals(s, from, &jobs))
		rc = bace_fail(err, ENOMEM, "instance: out of memory");
	return rc;
}

int instance_build(struct instance *s, const struct setting *from, const struct robust_world *w, uint64_t seed,
		struct bace_err *err)
{
	struct bace_rng r;
	int redraws = 0, rc;

	bace_rng_init(&r, seed, STREAM_CLUSTER);
	for (;;) {
		rc = try_build(s, from, w, seed, &r, err);
		if (rc || fits(s))
			break;
		instance_free(s);
		if (!from->o->drawn)
			return bace_fail(err, EINVAL, "%s: some job fits on no number of the cluster's GPUs",
					 from->exp->name);
		if (++redraws > MAX_REDRAWS)
			return bace_fail(err, EDOM, "%d draws in which some job fits nowhere", redraws);
	}
	if (!rc && w->links != LINKS_STATIC && build_links(s, from, w->links, seed))
		rc = bace_fail(err, ENOMEM, "instance: out of memory");
	s->redraws = redraws;
	if (rc)
		instance_free(s);
	return rc;
}

void instance_free(struct instance *s)
{
	job_models_free(&s->models);
	for (int i = 0; s->series && i < s->e.cluster.n_regions; i++)
		price_series_free(&s->series[i]);
	free(s->series);
	free(s->changes);
	free(s->e.jobs);
	free(s->e.cluster.regions);
	free(s->e.cluster.links);
	free(s->e.cluster.gpus);
	*s = (struct instance){ 0 };
}
