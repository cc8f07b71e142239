#include "tests/standin/standin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct task {
	struct task *next;
	void (*fn)(void *arg);
	void *arg;
};

struct CUstream_st {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct task *first, **last;
	int n;
	bool quit;
};

struct CUevent_st {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	uint64_t asked, done;		/* records */
	int64_t at;
};

int64_t standin_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

const char *standin_option(const char *key, const char *otherwise)
{
	static _Thread_local char value[64];
	const char *all = getenv("BACE_STANDIN");
	size_t n = strlen(key);

	while (all && *all) {
		size_t len = strcspn(all, ",");

		if (len > n && !strncmp(all, key, n) && all[n] == '=') {
			snprintf(value, sizeof(value), "%.*s", (int)(len - n - 1), all + n + 1);
			return value;
		}
		all += len + (all[len] == ',');
	}
	return otherwise;
}

/* ---- devices and memory ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
	*count = atoi(standin_option("gpus", "1"));
	return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device)
{
	int n;

	cudaGetDeviceCount(&n);
	return device >= 0 && device < n ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceGetPCIBusId(char *bus, int len, int device)
{
	snprintf(bus, (size_t)len, "0000:%02X:00.0", device + 1);
	return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
	switch (error) {
	case cudaSuccess:
		return "no error";
	case cudaErrorMemoryAllocation:
		return "out of memory";
	case cudaErrorNoDevice:
		return "no CUDA-capable device is detected";
	case cudaErrorInvalidDevice:
		return "invalid device ordinal";
	case cudaErrorInvalidResourceHandle:
		return "invalid resource handle";
	case cudaErrorNotReady:
		return "device not ready";
	default:
		return "invalid argument";
	}
}

cudaError_t cudaMalloc(void **p, size_t size)
{
	bool fits = size <= strtoull(standin_option("largest", "18446744073709551615"), NULL, 10);

	*p = fits ? malloc(size ? size : 1) : NULL;
	return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *p)
{
	free(p);
	return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t size, unsigned flags)
{
	return cudaMalloc(p, size);
}

cudaError_t cudaFreeHost(void *p)
{
	return cudaFree(p);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t n, enum cudaMemcpyKind kind)
{
	memcpy(to, from, n);
	return cudaSuccess;
}

/* ---- streams ---- */

static void *run_stream(void *arg)
{
	struct CUstream_st *s = arg;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		struct task *t = s->first;

		if (!t && s->quit)
			break;
		if (!t) {
			pthread_cond_wait(&s->wake, &s->lock);
			continue;
		}
		s->first = t->next;
		s->n--;
		if (!s->first)
			s->last = &s->first;
		pthread_mutex_unlock(&s->lock);
		t->fn(t->arg);
		free(t);
		pthread_mutex_lock(&s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	struct CUstream_st *s = calloc(1, sizeof(*s));

	if (!s)
		return cudaErrorMemoryAllocation;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	s->last = &s->first;
	if (pthread_create(&s->thread, NULL, run_stream, s)) {
		free(s);
		return cudaErrorMemoryAllocation;
	}
	*stream = s;
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
	pthread_mutex_lock(&s->lock);
	s->quit = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return cudaSuccess;
}

/* Where CUDA would block, with "queue=N": so many wait already, is an error here. */
cudaError_t standin_enqueue(cudaStream_t s, void (*fn)(void *arg), void *arg)
{
	struct task *t = malloc(sizeof(*t));
	bool full;

	if (!t)
		return cudaErrorMemoryAllocation;
	*t = (struct task){ .fn = fn, .arg = arg };
	pthread_mutex_lock(&s->lock);
	full = s->n >= atoi(standin_option("queue", "1000000"));
	if (!full) {
		*s->last = t;
		s->last = &t->next;
		s->n++;
		pthread_cond_signal(&s->wake);
	}
	pthread_mutex_unlock(&s->lock);
	if (full)
		free(t);
	return full ? cudaErrorMemoryAllocation : cudaSuccess;
}

struct copy {
	void *to;
	const void *from;		/* NULL: set to value */
	size_t n;
	int value;
};

static void run_copy(void *arg)
{
	struct copy *c = arg;

	if (c->from)
		memcpy(c->to, c->from, c->n);
	else
		memset(c->to, c->value, c->n);
	free(c);
}

static cudaError_t enqueue_copy(const struct copy *what, cudaStream_t stream)
{
	struct copy *c = malloc(sizeof(*c));

	if (!c)
		return cudaErrorMemoryAllocation;
	*c = *what;
	return standin_enqueue(stream, run_copy, c);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return enqueue_copy(&(struct copy){ .to = to, .from = from, .n = n }, stream);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t n, cudaStream_t stream)
{
	return enqueue_copy(&(struct copy){ .to = to, .n = n, .value = value }, stream);
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	struct CUevent_st *e = calloc(1, sizeof(*e));

	if (!e)
		return cudaErrorMemoryAllocation;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->wake, NULL);
	*event = e;
	return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
	pthread_cond_destroy(&e->wake);
	pthread_mutex_destroy(&e->lock);
	free(e);
	return cudaSuccess;
}

static void run_event(void *arg)
{
	struct CUevent_st *e = arg;

	pthread_mutex_lock(&e->lock);
	e->done++;
	e->at = standin_now_ns();
	pthread_cond_broadcast(&e->wake);
	pthread_mutex_unlock(&e->lock);
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream)
{
	pthread_mutex_lock(&e->lock);
	e->asked++;
	pthread_mutex_unlock(&e->lock);
	return standin_enqueue(stream, run_event, e);
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
	cudaError_t rc;

	pthread_mutex_lock(&e->lock);
	rc = e->done == e->asked ? cudaSuccess : cudaErrorNotReady;
	pthread_mutex_unlock(&e->lock);
	return rc;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
	pthread_mutex_lock(&e->lock);
	while (e->done != e->asked)
		pthread_cond_wait(&e->wake, &e->lock);
	pthread_mutex_unlock(&e->lock);
	return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	if (!start->done || !end->done)
		return cudaErrorInvalidResourceHandle;
	*ms = (float)(end->at - start->at) / 1e6f;
	return cudaSuccess;
}
