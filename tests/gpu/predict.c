/* predict SCHEDULE P M TF TB LATENCY SERIALISATION: the event simulation's step of
 * a pipeline of equal stages and hops, seconds in and out. For tests/gpu/run.sh,
 * which cannot count on what `bace pipeline` is linked with. */
#include <stdlib.h>

#include "harness/sim/sim.h"

#define STAGES_MAX 64

int main(int argc, char **argv)
{
	double tf[STAGES_MAX], tb[STAGES_MAX], latency[STAGES_MAX], serialisation[STAGES_MAX];
	struct pipeline p = { .tf = tf, .tb = tb, .fwd_latency = latency, .rev_latency = latency,
			      .fwd_serialisation = serialisation, .rev_serialisation = serialisation };
	struct pipeline_result r = { 0 };
	struct bace_err e;

	if (argc != 8 || schedule_from_name(argv[1], &p.schedule.kind))
		return BACE_EXIT_INPUT;
	p.schedule.stages = atoi(argv[2]);
	p.schedule.micro_batches = atoi(argv[3]);
	p.schedule.chunks = 1;
	if (p.schedule.stages < 1 || p.schedule.stages > STAGES_MAX)
		return BACE_EXIT_INPUT;
	for (int i = 0; i < p.schedule.stages; i++) {
		tf[i] = atof(argv[4]);
		tb[i] = atof(argv[5]);
		latency[i] = atof(argv[6]);
		serialisation[i] = atof(argv[7]);
	}
	if (pipeline_simulate(&p, &r, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		return BACE_EXIT_INPUT;
	}
	printf("%.9f\n", r.step_time);
	return BACE_EXIT_OK;
}
