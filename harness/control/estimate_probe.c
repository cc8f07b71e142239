#include "harness/control/estimate.h"

#include <math.h>

#define TRAINS 3

/* Least squares of byte number over time, from packet `skip` on. */
bool estimate_train(const int64_t *at_ns, int n, unsigned l2_bytes_each, double *rate_bps,
		    double *error_bps)
{
	int skip = n > 2 * ESTIMATE_PROBE_SKIP ? ESTIMATE_PROBE_SKIP : 0, k = n - skip;
	double mt = 0, mb = (k - 1) / 2.0, tt = 0, tb = 0, bb = 0, slope, rest;

	if (k < 3 || at_ns[n - 1] <= at_ns[skip])
		return false;
	for (int i = skip; i < n; i++)
		mt += (double)(at_ns[i] - at_ns[skip]) / k;
	for (int i = skip; i < n; i++) {
		double t = (double)(at_ns[i] - at_ns[skip]) - mt, b = i - skip - mb;

		tt += t * t;
		tb += t * b;
		bb += b * b;
	}
	if (!(tt > 0 && tb > 0))
		return false;
	/* Times are what is noisy: ns a packet, regressed on the packet's number. */
	slope = tb / bb;
	rest = fmax(0, tt - slope * tb);
	*rate_bps = 8e9 * l2_bytes_each / slope;
	*error_bps = *rate_bps * sqrt(rest / (k - 2) / bb) / slope;
	return true;
}

bool estimate_probe(struct estimate_probe *p, int64_t at_ns, const int64_t *arrival_ns, int n,
		    unsigned l2_bytes_each)
{
	double rate, error;

	if (!estimate_train(arrival_ns, n, l2_bytes_each, &rate, &error))
		return false;
	estimate_ring_add(&p->ring, rate);
	p->e = (struct estimate){ .known = true, .rate_bps = estimate_ring_median(&p->ring, TRAINS), .error_bps = error,
				  .at_ns = at_ns };
	return true;
}
