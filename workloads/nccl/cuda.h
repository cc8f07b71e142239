/* Failures of CUDA and NCCL as errors of ours; and the GPU of a rank. */
#ifndef BACE_NCCL_CUDA_H
#define BACE_NCCL_CUDA_H

#include <cuda_runtime.h>
#include <nccl.h>

#include "workloads/worker/worker.h"

/* 0, or -EIO: "WHAT: what CUDA says". */
int cuda_check(cudaError_t rc, const char *what, struct bace_err *e);
/* Success and still in progress are 0. A peer that is gone is -ECONNRESET. `why`:
 * what NCCL's log said last, or "". */
int nccl_check(ncclResult_t rc, const char *what, const char *why, struct bace_err *e);

/* Takes the spec's GPU for this process. -ENODEV: there is none. */
int cuda_take_gpu(const struct worker_spec *spec, int *device, struct bace_err *e);

#endif
