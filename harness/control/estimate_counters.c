#include "harness/control/estimate.h"

void estimate_ring_add(struct estimate_ring *r, double v)
{
	r->v[r->next] = v;
	r->next = (r->next + 1) % ESTIMATE_RING;
	if (r->n < ESTIMATE_RING)
		r->n++;
}

void estimate_ring_range(const struct estimate_ring *r, double *least, double *most)
{
	*least = *most = r->n ? r->v[0] : 0;
	for (int i = 1; i < r->n; i++) {
		*least = r->v[i] < *least ? r->v[i] : *least;
		*most = r->v[i] > *most ? r->v[i] : *most;
	}
}

double estimate_ring_median(const struct estimate_ring *r, int n)
{
	double v[ESTIMATE_RING];

	n = n < r->n ? n : r->n;
	for (int i = 0; i < n; i++) {
		double x = r->v[(r->next - 1 - i + 2 * ESTIMATE_RING) % ESTIMATE_RING];
		int j = i;

		for (; j > 0 && v[j - 1] > x; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
	return n ? v[n / 2] : 0;
}

static void busy_sample(struct estimate_counters *c, double rate)
{
	double least, most;

	estimate_ring_add(&c->ring, rate);
	estimate_ring_range(&c->ring, &least, &most);
	c->e.rate_bps = most;
	c->e.error_bps = (most - least) / 2;
	c->e.lower_bound = false;
}

#define AT_ONCE 0.05		/* a bucket of 0.25 ms after a pause, in a period of 10 ms: 2.5 % */

bool estimate_exceeds(double passed_bps, double rate_bps, double error_bps)
{
	return passed_bps > rate_bps + error_bps && passed_bps > (1 + AT_ONCE) * rate_bps;
}

/* More passed than it was thought to carry. */
static bool is_more(const struct estimate *e, double rate)
{
	if (!e->known || e->lower_bound)
		return !e->known || rate > e->rate_bps;
	return estimate_exceeds(rate, e->rate_bps, e->error_bps);
}

bool estimate_counters(struct estimate_counters *c, int64_t at_ns, uint64_t bytes, uint64_t backlog)
{
	double seconds = (double)(at_ns - c->last_ns) / 1e9, rate;
	bool busy = c->last_backlog > 0 && backlog > 0, had = c->has_last && bytes >= c->last_bytes;

	if (had && seconds <= 0)
		return false;
	rate = had ? 8 * (double)(bytes - c->last_bytes) / seconds : 0;
	c->has_last = true;
	c->last_ns = at_ns;
	c->last_bytes = bytes;
	c->last_backlog = backlog;
	if (!had)
		return false;		/* the first, or the counters began anew */
	c->used_bps = rate;
	if (busy && rate > 0) {
		busy_sample(c, rate);
	} else if (rate > 0 && is_more(&c->e, rate)) {
		c->ring = (struct estimate_ring){ 0 };
		c->e.rate_bps = rate;
		c->e.error_bps = 0;
		c->e.lower_bound = true;
	} else {
		return false;
	}
	c->e.known = true;
	c->e.at_ns = at_ns;
	return true;
}
