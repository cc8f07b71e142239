#include <errno.h>
#include <math.h>

#include "harness/sim/pipeline_internal.h"

static int check_times(const char *what, const double *v, int n, bool may_be_infinite, struct bace_err *e)
{
	for (int i = 0; i < n; i++) {
		if (v[i] >= 0 && (may_be_infinite || !isinf(v[i])))
			continue;
		return bace_fail(e, EINVAL, "%s %d: %g: must be a finite number, 0 or more", what, i, v[i]);
	}
	return 0;
}

static int check_activations(const struct pipeline *p, struct bace_err *e)
{
	if (p->max_activations < 0)
		return bace_fail(e, EINVAL, "max-activations = %d: must be 0 (no limit) or more",
				 p->max_activations);
	for (int i = 0; p->max_activations && i < p->schedule.stages; i++) {
		int live = schedule_live_activations(&p->schedule, i);

		if (live > p->max_activations)
			return bace_fail(e, E2BIG, "stage %d holds %d activations under %s, the limit is %d",
					 i, live, schedule_name(p->schedule.kind), p->max_activations);
	}
	return 0;
}

int pipeline_check(const struct pipeline *p, struct bace_err *e)
{
	int n = p->schedule.stages, rc = schedule_check(&p->schedule, e), hops;

	if (rc)
		return rc;
	hops = pipeline_hops(p);
	if ((rc = check_times("forward time of stage", p->tf, n, false, e)) ||
	    (rc = check_times("backward time of stage", p->tb, n, false, e)) ||
	    (rc = p->tw ? check_times("weight time of stage", p->tw, n, false, e) : 0) ||
	    (rc = check_times("latency of hop", p->fwd_latency, hops, false, e)) ||
	    (rc = check_times("reverse latency of hop", p->rev_latency, hops, false, e)) ||
	    (rc = check_times("serialisation of hop", p->fwd_serialisation, hops, true, e)) ||
	    (rc = check_times("reverse serialisation of hop", p->rev_serialisation, hops, true, e)))
		return rc;
	return check_activations(p, e);
}
