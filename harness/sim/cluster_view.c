/*
 * What the policy is told: prices and capacities as they were delay_s ago, with
 * noise. Only ever moves forward; catching up after a long time with an empty
 * queue costs no more than one step.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sim/cluster.h"

enum { STREAM_LINKS = 1, STREAM_PRICES = 2 };

/* ---- noise ---- */

/* P(N(0,1) < z), doubled and shifted to [-1, 1]. */
static double to_uniform(double z)
{
	return erf(z * M_SQRT1_2);
}

/* One number of the copula: normal, or uniform with the same ranks. */
static double draw(struct bace_rng *r, const struct view_spec *v, double common, double correlation)
{
	double own, z;

	if (v->dist == NOISE_UNIFORM && correlation <= 0)
		return 2 * bace_rng_uniform(r) - 1;
	own = bace_rng_normal(r);
	z = correlation > 0 ? sqrt(correlation) * common + sqrt(1 - correlation) * own : own;
	return v->dist == NOISE_UNIFORM ? to_uniform(z) : z;
}

static void generator(const struct sim *s, struct bace_rng *r, uint64_t stream)
{
	uint64_t n;

	memcpy(&n, &s->view.draw, sizeof(n));
	bace_rng_init(r, s->view.seed, bace_hash64(&n, sizeof(n), stream));
}

static double disturbed(const struct view_spec *v, double value, double mean, double x, double fraction,
			double bias)
{
	return value + (v->multiplicative ? value : mean) * (x * fraction + bias);
}

/* What monitoring says of a link: what it was, unless it measures something else. */
static double told(const struct sim *s, int at)
{
	return s->view.seen_capacity[at] * (s->in->reports ? s->in->reports->over_truth[at] : 1);
}

/* By name, so that every link keeps its numbers whatever the config's order. */
static void tell_links(struct sim *s)
{
	struct sim_view *v = &s->view;
	struct bace_rng r;
	double common, mean = 0;
	int n = v->n;

	if (!v->noisy_links) {
		for (int i = 0; i < n * n; i++)
			v->capacity[i] = told(s, i);
		return;
	}
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			mean += told(s, s->by_name[i] * n + s->by_name[j]);
	mean = v->n_links ? mean / v->n_links : 0;
	generator(s, &r, STREAM_LINKS);
	common = bace_rng_normal(&r);
	for (int i = 0; i < n; i++) {
		for (int j = 0; j < n; j++) {
			int at = s->by_name[i] * n + s->by_name[j];

			if (!s->c->links[at].present)
				continue;
			v->capacity[at] = fmax(0, disturbed(v->spec, told(s, at), mean,
				draw(&r, v->spec, common, v->spec->correlation),
				v->spec->bandwidth_noise, v->spec->bias_bandwidth));
		}
	}
}

static void tell_prices(struct sim *s)
{
	struct sim_view *v = &s->view;
	struct bace_rng r;
	double mean = 0;

	if (!v->noisy_prices) {
		memcpy(v->price, v->seen_price, sizeof(double) * (size_t)v->n);
		return;
	}
	for (int i = 0; i < v->n; i++)
		mean += v->seen_price[s->by_name[i]];
	mean /= v->n;
	generator(s, &r, STREAM_PRICES);
	for (int i = 0; i < v->n; i++) {
		int at = s->by_name[i];

		v->price[at] = disturbed(v->spec, v->seen_price[at], mean, draw(&r, v->spec, 0, 0),
					 v->spec->price_noise, v->spec->bias_price);
	}
}

/* ---- time ---- */

static bool see_prices(struct sim *s)
{
	struct sim_view *v = &s->view;
	double seen_s = fmax(0, s->now_s - v->spec->delay_s);
	bool any = false;

	for (int r = 0; r < v->n; r++) {
		const struct price_series *p = &s->c->regions[r].price;

		if (v->seen_until[r] + v->spec->delay_s > s->now_s)
			continue;
		any = true;
		/* now - delay may round to just before the change that is due. */
		v->seen_price[r] = price_at(p, fmax(seen_s, v->seen_until[r]), &v->seen_until[r]);
		while (v->seen_until[r] + v->spec->delay_s <= s->now_s)
			v->seen_price[r] = price_at(p, v->seen_until[r], &v->seen_until[r]);
	}
	return any;
}

static bool see_links(struct sim *s)
{
	struct sim_view *v = &s->view;
	bool any = false;

	for (; v->next_change < s->in->n_changes; v->next_change++) {
		const struct link_change *l = &s->changes[v->next_change];

		if (l->at_s + v->spec->delay_s > s->now_s)
			break;
		v->seen_capacity[l->src * v->n + l->dst] = l->rate_bps;
		any = true;
	}
	return any;
}

static double redraw_s(const struct sim_view *v, double k)
{
	return k * v->spec->period_s + v->spec->delay_s;
}

/* With a period the number of the period; without, a number of the state of truth. */
static bool advance_draw(struct sim *s, bool truth_changed)
{
	struct sim_view *v = &s->view;
	double before = v->draw;

	if (v->spec->period_s > 0) {
		v->draw = fmax(v->draw, floor((s->now_s - v->spec->delay_s) / v->spec->period_s));
		while (redraw_s(v, v->draw + 1) <= s->now_s)
			v->draw++;
	} else if (truth_changed) {
		double d = v->next_change;

		for (int i = 0; i < v->n; i++)
			if (v->seen_until[s->by_name[i]] < INFINITY)
				d = d * 0.61803398874989485 + v->seen_until[s->by_name[i]];
		v->draw = d;
	}
	return v->draw != before;
}

static void find_next(struct sim *s)
{
	struct sim_view *v = &s->view;

	v->next_s = INFINITY;
	for (int r = 0; r < v->n; r++)
		v->next_s = fmin(v->next_s, v->seen_until[r] + v->spec->delay_s);
	if (v->next_change < s->in->n_changes)
		v->next_s = fmin(v->next_s, s->changes[v->next_change].at_s + v->spec->delay_s);
	if (v->spec->period_s > 0 && (v->noisy_links || v->noisy_prices))
		v->next_s = fmin(v->next_s, redraw_s(v, v->draw + 1));
}

/* Monitors looked again since links were last told. */
static bool see_reports(struct sim *s)
{
	unsigned n = s->in->reports ? s->in->reports->n_looks : 0;
	bool any = n != s->view.n_looks;

	s->view.n_looks = n;
	return any;
}

void view_advance(struct sim *s)
{
	bool looked = see_reports(s);

	if (s->view.next_s > s->now_s) {
		if (looked)
			tell_links(s);
		return;
	}
	bool prices = see_prices(s), links = see_links(s);
	bool redrawn = advance_draw(s, prices || links);

	if (prices || (redrawn && s->view.noisy_prices))
		tell_prices(s);
	if (looked || links || (redrawn && s->view.noisy_links))
		tell_links(s);
	find_next(s);
}

int view_setup(struct sim *s, struct bace_err *err)
{
	struct sim_view *v = &s->view;
	size_t n = (size_t)s->n;

	v->spec = &s->exp->view;
	v->seed = s->in->seed;
	v->n = s->n;
	v->noisy_links = v->spec->bandwidth_noise != 0 || v->spec->bias_bandwidth != 0;
	v->noisy_prices = v->spec->price_noise != 0 || v->spec->bias_price != 0;
	v->seen_price = calloc(n, sizeof(double));
	v->seen_until = calloc(n, sizeof(double));
	v->price = calloc(n, sizeof(double));
	v->seen_capacity = calloc(n * n, sizeof(double));
	v->capacity = calloc(n * n, sizeof(double));
	if (!v->seen_price || !v->seen_until || !v->price || !v->seen_capacity || !v->capacity)
		return bace_fail(err, ENOMEM, "view of %d regions: out of memory", s->n);
	for (int r = 0; r < s->n; r++)
		v->seen_price[r] = price_at(&s->c->regions[r].price, 0, &v->seen_until[r]);
	for (size_t i = 0; i < n * n; i++) {
		v->seen_capacity[i] = s->capacity[i];
		v->n_links += s->c->links[i].present;
	}
	see_reports(s);
	tell_prices(s);
	tell_links(s);
	find_next(s);
	return 0;
}

void view_teardown(struct sim *s)
{
	struct sim_view *v = &s->view;

	free(v->seen_price);
	free(v->seen_until);
	free(v->price);
	free(v->seen_capacity);
	free(v->capacity);
}

/* What a policy that asks for it is told of one running job. */
static uint64_t digest_running(const struct sim *s, const struct running_job *r, uint64_t h)
{
	h = bace_hash64(&s->rank[r->job], sizeof(int), h);
	h = bace_hash64(&r->remaining_steps, sizeof(double), h);
	h = bace_hash64(&r->step_s, sizeof(double), h);
	for (int i = 0; i < r->placement->n_parts; i++) {
		const char *region = s->c->regions[r->placement->parts[i].region].name;

		h = bace_hash64(region, strlen(region), h);
		h = bace_hash64(&r->placement->parts[i].gpus, sizeof(int), h);
	}
	return h;
}

uint64_t view_digest(const struct sim *s)
{
	uint64_t h = bace_hash64(&s->now_s, sizeof(s->now_s), 0);
	int n = s->n;

	for (int i = 0; i < n; i++) {
		int r = s->by_name[i];

		h = bace_hash64(&s->free_gpus[r], sizeof(int), h);
		h = bace_hash64(&s->view.price[r], sizeof(double), h);
		for (int j = 0; j < n; j++) {
			int at = r * n + s->by_name[j];

			h = bace_hash64(&s->view.capacity[at], sizeof(double), h);
			h = bace_hash64(&s->reserved[at], sizeof(double), h);
		}
	}
	for (int i = 0; i < s->n_queue; i++)
		h = bace_hash64(&s->rank[s->queue[i].job], sizeof(int), h);
	for (int i = 0; s->shown && i < s->n_running; i++)
		h = digest_running(s, &s->shown[i], h);
	return h;
}
