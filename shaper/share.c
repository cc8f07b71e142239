#include <math.h>
#include <string.h>

#include "shaper/shaper.h"

#define BUSY 0.9		/* who used more of its part than this wants all it can get */
#define HEADROOM 1.5		/* over what was sent, for who did not have to wait */

static double demand_bps(const struct shape_share *s, double floor_bps, int64_t period_ns)
{
	double sent = (double)s->sent_bytes * 8e9 / (double)period_ns;
	double queued = (double)s->backlog_bytes * 8e9 / (double)period_ns;

	/* A queue that a tenth of the part would empty is not a queue for long. */
	if (sent >= BUSY * (double)s->rate_bps || queued > 0.1 * (double)s->rate_bps)
		return INFINITY;
	return fmax(floor_bps, HEADROOM * sent + queued);
}

/* Water-filling: who wants less than an even part of what is left gets it all. */
static double fill(double left, double *demand, double *part, bool *settled, int n)
{
	int open = n;
	bool again = true;

	while (again && open > 0) {
		double even = left / open;

		again = false;
		for (int i = 0; i < n; i++) {
			if (settled[i] || demand[i] > even)
				continue;
			part[i] = demand[i];
			left -= demand[i];
			settled[i] = again = true;
			open--;
		}
	}
	for (int i = 0; i < n; i++)
		if (!settled[i])
			part[i] = left / open;
	return open ? 0 : left;
}

void shape_divide(uint64_t capacity_bps, uint64_t floor_bps, int64_t period_ns, struct shape_share *v, int n)
{
	double demand[SHAPE_SHARES_MAX], part[SHAPE_SHARES_MAX], spare;
	bool settled[SHAPE_SHARES_MAX] = { false };
	uint64_t given = 0;

	if (n < 1 || n > SHAPE_SHARES_MAX || period_ns < 1)
		return;
	for (int i = 0; i < n; i++)
		demand[i] = demand_bps(&v[i], (double)floor_bps, period_ns);
	spare = fill((double)capacity_bps, demand, part, settled, n);
	for (int i = 0; i < n; i++) {
		v[i].rate_bps = (uint64_t)(part[i] + spare / n);
		given += v[i].rate_bps;
	}
	/* Rounding must neither add to the link nor take from it. */
	if (given > capacity_bps)
		v[0].rate_bps -= given - capacity_bps;
	else
		v[0].rate_bps += capacity_bps - given;
}
