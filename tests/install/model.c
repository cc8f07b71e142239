/* A program of somebody else's: built with nothing but what is installed. */
#include <stdio.h>

#include "harness/sim/sim.h"

int main(void)
{
	const double t[2] = { 1, 1 }, zero[1] = { 0 };
	struct pipeline_result r = { 0 };
	struct bace_err e;

	if (pipeline_simulate(&(struct pipeline){ .schedule = { SCHED_GPIPE, 2, 4, 1 }, .tf = t, .tb = t,
			      .fwd_latency = zero, .fwd_serialisation = zero, .rev_latency = zero,
			      .rev_serialisation = zero }, &r, &e))
		return 1;
	printf("%g\n", r.step_time);	/* (m + p - 1) (t_F + t_B) = 10 */
	return r.step_time != 10;
}
