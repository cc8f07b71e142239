#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "harness/sim/sim.h"

#define PROGRESS_MS 200

struct pool {
	int n;
	void (*work)(void *arg, int i);
	void *arg;
	atomic_int next, done;
	pthread_mutex_t lock;
	pthread_cond_t all_done;
};

static void *worker(void *arg)
{
	struct pool *p = arg;
	int i;

	while ((i = atomic_fetch_add(&p->next, 1)) < p->n) {
		p->work(p->arg, i);
		if (atomic_fetch_add(&p->done, 1) + 1 < p->n)
			continue;
		pthread_mutex_lock(&p->lock);
		pthread_cond_signal(&p->all_done);
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

static int allowed_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return CPU_COUNT(&set);
}

static void watch(struct pool *p, void (*on_progress)(void *arg, int done, int total), void *arg)
{
	struct timespec until;

	pthread_mutex_lock(&p->lock);
	while (atomic_load(&p->done) < p->n) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += PROGRESS_MS * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&p->all_done, &p->lock, &until);
		if (on_progress)
			on_progress(arg, atomic_load(&p->done), p->n);
	}
	pthread_mutex_unlock(&p->lock);
}

int pool_run(int n, int threads, void (*work)(void *arg, int i), void *arg,
	     void (*on_progress)(void *arg, int done, int total), void *progress_arg,
	     struct bace_err *err)
{
	struct pool p = { .n = n, .work = work, .arg = arg, .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_condattr_t attr;
	CLEANUP_FREE pthread_t *ids = NULL;
	int started = 0, rc = 0;

	if (threads <= 0)
		threads = allowed_cpus();
	if (threads > n)
		threads = n;
	if (!n)
		return 0;
	ids = calloc((size_t)threads, sizeof(*ids));
	if (!ids)
		return bace_fail(err, ENOMEM, "%d threads: out of memory", threads);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p.all_done, &attr);
	pthread_condattr_destroy(&attr);
	while (started < threads && !rc) {
		rc = pthread_create(&ids[started], NULL, worker, &p);
		started += !rc;
	}
	/* Fewer threads than wanted are slower, not wrong. */
	if (started)
		watch(&p, on_progress, progress_arg);
	for (int i = 0; i < started; i++)
		pthread_join(ids[i], NULL);
	pthread_cond_destroy(&p.all_done);
	return started ? 0 : bace_fail_errno(err, rc, "start a thread");
}
