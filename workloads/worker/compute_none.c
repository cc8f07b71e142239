#include <errno.h>

#include "workloads/worker/compute.h"

int compute_cpu(const struct worker_spec *s, struct compute **out, struct bace_err *e)
{
	return bace_fail(e, ENOTSUP, "compute \"cpu\": this worker was built without OpenBLAS (libopenblas-dev)");
}
