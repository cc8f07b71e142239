#include <cblas.h>
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "workloads/worker/compute.h"

#define LIBRARY "libopenblas.so.0"
#define SLOTS_MAX 256			/* a thread each */
#define CALIBRATE_NS 20000000
#define ROUNDS 5
/* So many products at least make an operation, so that rounding stays below 2 %. */
#define PRODUCTS_MIN 32
#define PATTERN 251			/* of small values, so that products stay finite */

static const int sizes[] = { 512, 384, 256, 192, 128, 96, 64, 48, 32 };

/* A stage, and the thread that computes for it. */
struct slot {
	struct cpu *cpu;
	pthread_t thread;
	bool has_thread;
	pthread_cond_t wake;
	bool waiting;			/* work is here, and not begun */
	struct work work;
	float *c;			/* n x n */
};

struct cpu {
	struct compute base;
	void *library;
	__typeof__(cblas_sgemm) *sgemm;
	int n_slots;
	struct slot *slots;
	pthread_mutex_t lock;
	atomic_bool quit;
	int done_fd;			/* eventfd */
	struct finished *done;		/* [n_slots]: ended and not collected */
	int n_done;
	int n;				/* of the matrices */
	float *a, *b;
	double product_s;
};

static void multiply(const struct cpu *c, int n, float *out)
{
	c->sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0f, c->a, n, c->b, n, 0.0f, out, n);
}

/* ---- operations ---- */

/* Under the lock: until then, or until the end. */
static void sleep_until(struct slot *s, int64_t at)
{
	struct timespec t = { at / 1000000000, at % 1000000000 };

	while (!s->cpu->quit && bace_mono_ns() < at)
		pthread_cond_clockwait(&s->wake, &s->cpu->lock, CLOCK_MONOTONIC, &t);
}

/* Unlocked. The end of everything may come in between. */
static struct finished compute_one(const struct slot *s, const struct work *w)
{
	struct finished f = { .slot = w->slot, .start = bace_mono_ns() };
	int64_t times = llround((double)w->duration / 1e9 / s->cpu->product_s);

	for (int64_t i = 0; i < times && !s->cpu->quit; i++)
		multiply(s->cpu, s->cpu->n, s->c);
	f.end = bace_mono_ns();
	return f;
}

static void *slot_main(void *arg)
{
	struct slot *s = arg;
	struct cpu *c = s->cpu;

	pthread_mutex_lock(&c->lock);
	while (!c->quit) {
		struct finished f;
		struct work w;
		uint64_t one = 1;

		if (!s->waiting) {
			pthread_cond_wait(&s->wake, &c->lock);
			continue;
		}
		s->waiting = false;
		w = s->work;
		sleep_until(s, w.start);
		pthread_mutex_unlock(&c->lock);
		f = compute_one(s, &w);
		pthread_mutex_lock(&c->lock);
		c->done[c->n_done++] = f;
		/* It never fills: the count is read off with each collection. */
		while (write(c->done_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static int cpu_start(struct compute *base, const struct work *w, struct bace_err *e)
{
	struct cpu *c = (struct cpu *)base;
	struct slot *s = &c->slots[w->slot];

	pthread_mutex_lock(&c->lock);
	s->work = *w;
	s->waiting = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&c->lock);
	return 0;
}

static int64_t cpu_deadline(const struct compute *base)
{
	return INT64_MAX;
}

static int cpu_collect(struct compute *base, int64_t now, struct finished *out, struct bace_err *e)
{
	struct cpu *c = (struct cpu *)base;
	uint64_t count;
	int first = 0, rc;

	pthread_mutex_lock(&c->lock);
	rc = c->n_done > 0;
	for (int i = 1; i < c->n_done; i++)
		if (c->done[i].end < c->done[first].end)
			first = i;
	if (rc) {
		*out = c->done[first];
		c->done[first] = c->done[--c->n_done];
	} else if (read(c->done_fd, &count, sizeof(count)) < 0 && errno != EAGAIN && errno != EINTR) {
		rc = bace_fail_errno(e, errno, "computation");
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

static int cpu_fd(const struct compute *base)
{
	return ((const struct cpu *)base)->done_fd;
}

static json_t *cpu_report(const struct compute *base)
{
	const struct cpu *c = (const struct cpu *)base;
	double flop = 2.0 * c->n * c->n * c->n;

	return json_pack("{s:i,s:f,s:f}", "gemm_n", c->n, "gemm_s", c->product_s, "flops", flop / c->product_s);
}

static void cpu_destroy(struct compute *base)
{
	struct cpu *c = (struct cpu *)base;

	pthread_mutex_lock(&c->lock);
	c->quit = true;
	for (int i = 0; i < c->n_slots; i++)
		pthread_cond_signal(&c->slots[i].wake);
	pthread_mutex_unlock(&c->lock);
	for (int i = 0; c->slots && i < c->n_slots; i++) {
		if (c->slots[i].has_thread)
			pthread_join(c->slots[i].thread, NULL);
		pthread_cond_destroy(&c->slots[i].wake);
		free(c->slots[i].c);
	}
	bace_cleanup_close(&c->done_fd);
	pthread_mutex_destroy(&c->lock);
	free(c->slots);
	free(c->done);
	if (c->library)
		dlclose(c->library);
	free(c->a);
	free(c->b);
	free(c);
}

static const struct compute_ops cpu_ops = {
	.name = "cpu",
	.start = cpu_start,
	.deadline = cpu_deadline,
	.collect = cpu_collect,
	.fd = cpu_fd,
	.report = cpu_report,
	.destroy = cpu_destroy,
};

/* ---- the library: large, with threads of its own, and not for workers that only wait ---- */

static int load_library(struct cpu *c, struct bace_err *e)
{
	/* Its products must not spread over other ranks' cores. */
	setenv("OPENBLAS_NUM_THREADS", "1", 1);
	c->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!c->library)
		return bace_fail(e, ENOTSUP, "compute \"cpu\": %s (Debian package libopenblas0)", dlerror());
	c->sgemm = (__typeof__(c->sgemm))dlsym(c->library, "cblas_sgemm");
	return c->sgemm ? 0 : bace_fail(e, ENOTSUP, "compute \"cpu\": " LIBRARY " has no cblas_sgemm");
}

/* ---- calibration ---- */

/* Median seconds of a product, on one thread that has a core. */
static double time_of(const struct cpu *c, int n, float *out)
{
	double v[ROUNDS];

	multiply(c, n, out);
	for (int i = 0; i < ROUNDS; i++) {
		int64_t begin = bace_mono_ns(), now;
		int k = 0;

		do {
			multiply(c, n, out);
			k++;
			now = bace_mono_ns();
		} while (now - begin < CALIBRATE_NS / ROUNDS);
		v[i] = (double)(now - begin) / 1e9 / k;
	}
	qsort(v, ROUNDS, sizeof(*v), bace_by_double);
	return v[ROUNDS / 2];
}

/* The largest product of which PRODUCTS_MIN fit in the shortest operation. */
static int calibrate(struct cpu *c, const struct worker_spec *s, struct bace_err *e)
{
	int64_t least = worker_shortest_ns(s);

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		c->n = sizes[i];
		c->product_s = time_of(c, c->n, c->slots[0].c);
		if (least == INT64_MAX || (double)least / 1e9 >= PRODUCTS_MIN * c->product_s)
			return 0;
	}
	return bace_fail(e, EINVAL, "compute \"cpu\": an operation of %lld ns is too short: a product of %d x %d takes "
			 "%.0f ns, and %d must fit", (long long)least, c->n, c->n, c->product_s * 1e9, PRODUCTS_MIN);
}

static int make_matrices(struct cpu *c, struct bace_err *e)
{
	size_t most = (size_t)sizes[0] * (size_t)sizes[0];

	c->a = malloc(most * sizeof(float));
	c->b = malloc(most * sizeof(float));
	if (!c->a || !c->b)
		return bace_fail(e, ENOMEM, "compute \"cpu\": out of memory");
	for (size_t i = 0; i < most; i++) {
		c->a[i] = (float)(i % PATTERN) / PATTERN;
		c->b[i] = (float)((i * 7) % PATTERN) / PATTERN;
	}
	for (int i = 0; i < c->n_slots; i++) {
		c->slots[i].c = calloc(most, sizeof(float));
		if (!c->slots[i].c)
			return bace_fail(e, ENOMEM, "compute \"cpu\": out of memory");
	}
	return 0;
}

static int start_threads(struct cpu *c, struct bace_err *e)
{
	for (int i = 0; i < c->n_slots; i++) {
		int rc = pthread_create(&c->slots[i].thread, NULL, slot_main, &c->slots[i]);

		if (rc)
			return bace_fail_errno(e, rc, "compute \"cpu\": thread %d", i);
		c->slots[i].has_thread = true;
	}
	return 0;
}

int compute_cpu(const struct worker_spec *s, struct compute **out, struct bace_err *e)
{
	struct cpu *c;
	int rc;

	if (s->n_stages > SLOTS_MAX)
		return bace_fail(e, EINVAL, "compute \"cpu\": %d stages, a thread each: at most %d", s->n_stages, SLOTS_MAX);
	c = calloc(1, sizeof(*c));
	if (!c)
		return bace_fail(e, ENOMEM, "compute \"cpu\": out of memory");
	c->base.ops = &cpu_ops;
	pthread_mutex_init(&c->lock, NULL);
	c->done_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	c->slots = calloc((size_t)s->n_stages, sizeof(*c->slots));
	c->done = calloc((size_t)s->n_stages, sizeof(*c->done));
	for (int i = 0; c->slots && i < s->n_stages; i++, c->n_slots++) {
		c->slots[i].cpu = c;
		pthread_cond_init(&c->slots[i].wake, NULL);
	}
	/* One stage, one core: its products must not spread over the others'. */
	rc = c->done_fd < 0 || !c->slots || !c->done ? bace_fail(e, ENOMEM, "compute \"cpu\": out of memory") :
	     load_library(c, e);
	if (!rc)
		rc = make_matrices(c, e);
	if (!rc)
		rc = calibrate(c, s, e);
	if (!rc)
		rc = start_threads(c, e);
	if (rc)
		cpu_destroy(&c->base);
	else
		*out = &c->base;
	return rc;
}
