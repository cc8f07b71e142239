#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cublas_v2.h>

#include "workloads/nccl/cuda.h"
#include "workloads/nccl/transport.h"

#define POLL_NS 100000
#define CALIBRATE_MS 20.0
/* A whole number of products makes an operation up: this many at least where the
 * GPU is fast enough, so that rounding is below 2 %. */
#define PRODUCTS_MIN 32
#define PATTERN ((size_t)1 << 18)
/* Products launched at once. CUDA takes about a thousand ahead and blocks then,
 * and with it all that this thread sees to: at most two of these wait. */
#define PORTION 256

/* Below the model's. */
static const int sizes[] = { 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192 };

struct slot {
	bool waiting, running;		/* until its start; on the GPU */
	int64_t start, duration;
	int64_t left;			/* products not launched yet */
	cudaEvent_t begun, portion, ended;	/* portion: the one before the last is done */
};

struct cuda {
	struct compute base;
	int n_slots;
	struct slot *slots;
	int timer;
	bool armed;
	cudaStream_t stream;
	cublasHandle_t blas;
	void *a, *b, *c;		/* n x n, half precision */
	int n;
	double product_s;		/* calibrated */
};

static int blas_check(cublasStatus_t rc, const char *what, struct bace_err *e)
{
	return rc == CUBLAS_STATUS_SUCCESS ? 0 : bace_fail(e, EIO, "%s: cuBLAS error %d", what, (int)rc);
}

static int multiply(struct cuda *c, int n, int64_t times, struct bace_err *e)
{
	/* Small, so that products of products stay finite. */
	float alpha = 1e-3f, beta = 0;
	int rc = 0;

	for (int64_t i = 0; !rc && i < times; i++)
		rc = blas_check(cublasGemmEx(c->blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &alpha, c->a, CUDA_R_16F, n,
				c->b, CUDA_R_16F, n, &beta, c->c, CUDA_R_16F, n, CUBLAS_COMPUTE_32F,
				CUBLAS_GEMM_DEFAULT), "matrix product", e);
	return rc;
}

/* ---- operations ---- */

static int arm(struct cuda *c, bool on, struct bace_err *e)
{
	struct itimerspec when = { .it_value.tv_nsec = on ? POLL_NS : 0, .it_interval.tv_nsec = on ? POLL_NS : 0 };

	if (c->armed == on)
		return 0;
	c->armed = on;
	return timerfd_settime(c->timer, 0, &when, NULL) ? bace_fail_errno(e, errno, "cuda compute: timer") : 0;
}

static int launch_portion(struct cuda *c, struct slot *s, struct bace_err *e)
{
	int64_t n = s->left < PORTION ? s->left : PORTION;
	int rc = cuda_check(cudaEventRecord(s->portion, c->stream), "record an event", e);

	if (!rc)
		rc = multiply(c, c->n, n, e);
	s->left -= n;
	if (!rc && !s->left)
		rc = cuda_check(cudaEventRecord(s->ended, c->stream), "record an event", e);
	return rc;
}

static int begin(struct cuda *c, struct slot *s, struct bace_err *e)
{
	int64_t times = s->duration ? llround((double)s->duration / 1e9 / c->product_s) : 0;
	int rc = cuda_check(cudaEventRecord(s->begun, c->stream), "record an event", e);

	s->waiting = false;
	s->running = true;
	s->left = times < 1 && s->duration ? 1 : times;
	if (!rc)
		rc = launch_portion(c, s, e);
	if (!rc && s->left)
		rc = launch_portion(c, s, e);
	return rc ? rc : arm(c, true, e);
}

/* 1: it has ended; 0: not yet. */
static int look(struct cuda *c, struct slot *s, struct bace_err *e)
{
	cudaError_t state = cudaEventQuery(s->left ? s->portion : s->ended);

	if (state == cudaErrorNotReady)
		return 0;
	if (state != cudaSuccess)
		return cuda_check(state, "matrix products", e);
	return s->left ? launch_portion(c, s, e) : 1;
}

static int cuda_start(struct compute *base, const struct work *w, struct bace_err *e)
{
	struct cuda *c = (struct cuda *)base;
	struct slot *s = &c->slots[w->slot];

	s->duration = w->duration;
	s->start = w->start;
	/* The first of all may lie ahead. */
	s->waiting = w->start > bace_mono_ns();
	return s->waiting ? 0 : begin(c, s, e);
}

static int64_t cuda_deadline(const struct compute *base)
{
	const struct cuda *c = (const struct cuda *)base;
	int64_t at = INT64_MAX;

	for (int i = 0; i < c->n_slots; i++)
		if (c->slots[i].waiting && c->slots[i].start < at)
			at = c->slots[i].start;
	return at;
}

static int end(struct slot *s, int slot, int64_t now, struct finished *out, struct bace_err *e)
{
	float ms = 0;
	int rc = cuda_check(cudaEventElapsedTime(&ms, s->begun, s->ended), "time an operation", e);

	if (rc)
		return rc;
	s->running = false;
	*out = (struct finished){ .slot = slot, .end = now, .start = now - llround((double)ms * 1e6) };
	/* Polling sees the end late, which is not when it began. */
	if (out->start < s->start)
		out->start = s->start;
	return 1;
}

static int cuda_collect(struct compute *base, int64_t now, struct finished *out, struct bace_err *e)
{
	struct cuda *c = (struct cuda *)base;
	bool any = false;
	uint64_t times;
	int rc = 0;

	if (read(c->timer, &times, sizeof(times)) < 0 && errno != EAGAIN)
		return bace_fail_errno(e, errno, "cuda compute: timer");
	for (int i = 0; !rc && i < c->n_slots; i++) {
		struct slot *s = &c->slots[i];

		if (s->waiting && s->start <= now)
			rc = begin(c, s, e);
		if (rc || !s->running)
			continue;
		rc = look(c, s, e);
		if (rc > 0)
			return end(s, i, now, out, e);
		any = true;
	}
	return rc ? rc : arm(c, any, e);
}

static int cuda_fd(const struct compute *base)
{
	return ((const struct cuda *)base)->timer;
}

static json_t *cuda_report(const struct compute *base)
{
	const struct cuda *c = (const struct cuda *)base;
	double flop = 2 * pow(c->n, 3);

	return json_pack("{s:s,s:i,s:f,s:f}", "name", "cuda", "gemm_n", c->n, "gemm_s", c->product_s, "flops",
			 flop / c->product_s);
}

/* ---- calibration ---- */

/* Numbers in (-1, 1), a pattern of them over and over: a product of zeros draws
 * much less power. */
static int fill(void *to, size_t bytes, uint64_t seed, struct bace_err *e)
{
	static uint16_t pattern[PATTERN];
	struct bace_rng rng;
	int rc = 0;

	bace_rng_init(&rng, seed, 0);
	/* IEEE half: any sign and fraction, exponents of 1/16 to 1/2. */
	for (size_t i = 0; i < PATTERN; i++) {
		uint64_t r = bace_rng_u64(&rng);

		pattern[i] = (uint16_t)((r & 0x83ff) | ((11 + (r >> 32 & 3)) << 10));
	}
	for (size_t at = 0; !rc && at < bytes; at += sizeof(pattern))
		rc = cuda_check(cudaMemcpy((char *)to + at, pattern, bytes - at < sizeof(pattern) ? bytes - at :
				sizeof(pattern), cudaMemcpyHostToDevice), "fill a matrix", e);
	return rc;
}

static void free_matrices(struct cuda *c)
{
	cudaFree(c->a);
	cudaFree(c->b);
	cudaFree(c->c);
	c->a = c->b = c->c = NULL;
}

static int allocate(void **p, size_t bytes, struct bace_err *e)
{
	cudaError_t rc = cudaMalloc(p, bytes);

	if (rc == cudaErrorMemoryAllocation)
		return bace_fail(e, ENOMEM, "allocate a matrix of %zu bytes: %s", bytes, cudaGetErrorString(rc));
	return cuda_check(rc, "allocate a matrix", e);
}

/* -ENOMEM: the GPU has no room for them. */
static int make_matrices(struct cuda *c, int n, struct bace_err *e)
{
	size_t bytes = (size_t)n * (size_t)n * sizeof(uint16_t);
	int rc;

	free_matrices(c);
	rc = allocate(&c->a, bytes, e);
	if (!rc)
		rc = allocate(&c->b, bytes, e);
	if (!rc)
		rc = allocate(&c->c, bytes, e);
	if (!rc)
		rc = fill(c->a, bytes, 1, e);
	return rc ? rc : fill(c->b, bytes, 2, e);
}

static int time_products(struct cuda *c, int n, int64_t times, double *each_s, struct bace_err *e)
{
	struct slot *s = &c->slots[0];
	float ms = 0;
	int rc = cuda_check(cudaEventRecord(s->begun, c->stream), "record an event", e);

	if (!rc)
		rc = multiply(c, n, times, e);
	if (!rc)
		rc = cuda_check(cudaEventRecord(s->ended, c->stream), "record an event", e);
	if (!rc)
		rc = cuda_check(cudaEventSynchronize(s->ended), "matrix products", e);
	if (!rc)
		rc = cuda_check(cudaEventElapsedTime(&ms, s->begun, s->ended), "time the products", e);
	*each_s = (double)ms / 1e3 / (double)times;
	if (!rc && !(*each_s > 0))
		return bace_fail(e, EIO, "cuda compute: a product of %d x %d took no time", n, n);
	return rc;
}

/* Of those that are tried, in order; 0: no more. */
static int size_to_try(const struct worker_spec *spec, size_t i)
{
	size_t below = 0;

	while (below < ARRAY_LEN(sizes) && (!spec->hidden || sizes[below] < spec->hidden))
		below++;
	return i < below ? sizes[i] : i == below ? spec->hidden : 0;
}

/* As large as the model's, or the largest below that fits into the GPU's memory
 * and of which enough fit into the shortest operation: large ones load a GPU as a
 * model's layers do. */
static int calibrate(struct cuda *c, const struct worker_spec *spec, struct bace_err *e)
{
	double most_s = (double)worker_shortest_ns(spec) / 1e9 / PRODUCTS_MIN;

	for (size_t i = 0; size_to_try(spec, i); i++) {
		double once, each;
		int n = size_to_try(spec, i), rc = make_matrices(c, n, e);

		if (rc == -ENOMEM && i) {
			*e = (struct bace_err){ 0 };
			break;
		}
		if (!rc)
			rc = time_products(c, n, 3, &once, e);	/* and loads the kernel */
		if (!rc)
			rc = time_products(c, n, 3, &once, e);
		if (!rc)
			rc = time_products(c, n, 1 + (int64_t)(CALIBRATE_MS / 1e3 / once), &each, e);
		if (rc)
			return rc;
		if (i && each > most_s)
			break;
		c->n = n;
		c->product_s = each;
	}
	int rc = make_matrices(c, c->n, e);

	if (rc)
		return rc;
	bace_log(BACE_INFO, "cuda", "a matrix product of %d x %d takes %.1f us, %.1f TFLOP/s", c->n, c->n,
		 c->product_s * 1e6, 2 * pow(c->n, 3) / c->product_s / 1e12);
	return 0;
}

/* ---- life ---- */

static void cuda_destroy(struct compute *base)
{
	struct cuda *c = (struct cuda *)base;

	/* What is on the GPU goes with the process: freeing it waits for all that runs
	 * there, which may be a kernel of NCCL's that hangs. */
	bace_cleanup_close(&c->timer);
	free(c->slots);
	free(c);
}

static int prepare(struct cuda *c, const struct worker_spec *s, struct bace_err *e)
{
	int device, rc = cuda_take_gpu(s, &device, e);

	c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (!rc && c->timer < 0)
		rc = bace_fail_errno(e, errno, "cuda compute: timer");
	if (!rc)
		rc = cuda_check(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking), "create a stream", e);
	for (int i = 0; !rc && i < c->n_slots; i++) {
		rc = cuda_check(cudaEventCreate(&c->slots[i].begun), "create an event", e);
		if (!rc)
			rc = cuda_check(cudaEventCreate(&c->slots[i].portion), "create an event", e);
		if (!rc)
			rc = cuda_check(cudaEventCreate(&c->slots[i].ended), "create an event", e);
	}
	if (!rc)
		rc = blas_check(cublasCreate(&c->blas), "start cuBLAS", e);
	if (!rc)
		rc = blas_check(cublasSetStream(c->blas, c->stream), "start cuBLAS", e);
	return rc ? rc : calibrate(c, s, e);
}

static const struct compute_ops cuda_ops = {
	.name = "cuda",
	.start = cuda_start,
	.deadline = cuda_deadline,
	.collect = cuda_collect,
	.fd = cuda_fd,
	.report = cuda_report,
	.destroy = cuda_destroy,
};

int compute_cuda(const struct worker_spec *s, struct compute **out, struct bace_err *e)
{
	struct cuda *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return bace_fail(e, ENOMEM, "cuda compute: out of memory");
	c->base.ops = &cuda_ops;
	c->n_slots = s->n_stages;
	c->timer = -1;
	c->slots = calloc((size_t)s->n_stages, sizeof(*c->slots));
	rc = c->slots ? prepare(c, s, e) : bace_fail(e, ENOMEM, "cuda compute: out of memory");
	if (rc)
		cuda_destroy(&c->base);
	else
		*out = &c->base;
	return rc;
}
