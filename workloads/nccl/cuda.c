#include "workloads/nccl/cuda.h"

#include <errno.h>

int cuda_check(cudaError_t rc, const char *what, struct bace_err *e)
{
	return rc == cudaSuccess ? 0 : bace_fail(e, EIO, "%s: %s", what, cudaGetErrorString(rc));
}

int nccl_check(ncclResult_t rc, const char *what, const char *why, struct bace_err *e)
{
	if (rc == ncclSuccess || rc == ncclInProgress)
		return 0;
	return bace_fail(e, rc == ncclRemoteError ? ECONNRESET : EIO, "%s: NCCL: %s%s%s", what,
			 ncclGetErrorString(rc), why[0] ? ": " : "", why);
}

int cuda_take_gpu(const struct worker_spec *spec, int *device, struct bace_err *e)
{
	int n = 0;
	cudaError_t rc = cudaGetDeviceCount(&n);

	if (rc != cudaSuccess || n < 1)
		return bace_fail(e, ENODEV, "no GPU: %s", rc ? cudaGetErrorString(rc) : "CUDA sees none");
	*device = spec->nccl.gpu % n;
	if (spec->nccl.gpu >= n)
		bace_log(BACE_INFO, "nccl", "GPU %d is taken for GPU %d: there are %d", *device, spec->nccl.gpu, n);
	return cuda_check(cudaSetDevice(*device), "take the GPU", e);
}
