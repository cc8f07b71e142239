#include "tests/standin/standin.h"

#include <cublas_v2.h>
#include <stdlib.h>
#include <time.h>

struct cublasContext {
	cudaStream_t stream;
};

cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
	*handle = calloc(1, sizeof(**handle));
	return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
	free(handle);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
	handle->stream = stream;
	return CUBLAS_STATUS_SUCCESS;
}

static void run_product(void *arg)
{
	int64_t *ns = arg;
	struct timespec t = { .tv_sec = *ns / 1000000000, .tv_nsec = *ns % 1000000000 };

	free(ns);
	nanosleep(&t, NULL);
}

/* It takes its time, and computes nothing. */
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
			    int k, const void *alpha, const void *a, cudaDataType a_type, int lda, const void *b,
			    cudaDataType b_type, int ldb, const void *beta, void *c, cudaDataType c_type, int ldc,
			    cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
	int64_t *ns = malloc(sizeof(*ns));

	if (!ns || m < 1 || n < 1 || k < 1 || !a || !b || !c || !handle->stream) {
		free(ns);
		return CUBLAS_STATUS_INVALID_VALUE;
	}
	*ns = (int64_t)(2.0 * m * n * k / (atof(standin_option("tflops", "2")) * 1e3));
	return standin_enqueue(handle->stream, run_product, ns) ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}
