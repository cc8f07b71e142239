#include <stdio.h>
#include <unistd.h>

#include "workloads/nccl/transport.h"
#include "workloads/worker/rank.h"

int main(int argc, char **argv)
{
	static const struct rank_kinds kinds = { .mover = &nccl_mover, .cuda = compute_cuda };
	int status = worker_main(argc, argv, "bace-worker-nccl", &kinds);

	/* Threads of NCCL's that hang, and the driver's exit handlers that wait for
	 * them, must not keep the process. */
	fflush(stdout);
	_exit(status);
}
