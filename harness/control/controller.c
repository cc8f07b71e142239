#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "harness/control/internal.h"

#define CLOSE_S 4.0
#define CANCEL_MS 100		/* between looks whether it is wanted */

static void wake(struct controller *c)
{
	uint64_t one = 1;

	/* Full means that it is awake already. */
	if (write(c->wake, &one, sizeof(one)) < 0)
		return;
}

static struct task *take_task(struct controller *c, bool *quit, bool *cancel)
{
	struct task *t;

	pthread_mutex_lock(&c->lock);
	t = c->tasks;
	if (t) {
		c->tasks = t->next;
		if (!c->tasks)
			c->last_task = &c->tasks;
	}
	*quit = c->quit;
	*cancel = c->cancel;
	pthread_mutex_unlock(&c->lock);
	return t;
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct controller *c = arg;
	struct task *t;
	uint64_t count;
	bool quit, cancel;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
	while ((t = take_task(c, &quit, &cancel)))
		t->start(c, t);
	if (cancel) {
		cell_cancel(c);
		verify_cancel(c);
	}
	if (quit)
		event_base_loopbreak(c->base);
}

void task_finish(struct controller *c, struct task *t, int rc)
{
	pthread_mutex_lock(&c->lock);
	t->rc = rc;
	t->done = true;
	pthread_cond_broadcast(&c->finished);
	pthread_mutex_unlock(&c->lock);
}

/* With the lock held: is it so since now? Asked until it is. */
static bool becomes_cancelled(struct controller *c)
{
	if (c->cancel || !c->cfg.cancelled || !c->cfg.cancelled(c->cfg.cancel_arg))
		return false;
	c->cancel = true;
	return true;
}

static void wait_a_moment(struct controller *c)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += CANCEL_MS * 1000000l;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&c->finished, &c->lock, &until);
	if (becomes_cancelled(c))
		wake(c);
}

bool controller_cancelled(struct controller *c)
{
	bool cancel;

	pthread_mutex_lock(&c->lock);
	becomes_cancelled(c);
	cancel = c->cancel;
	pthread_mutex_unlock(&c->lock);
	return cancel;
}

/* The task ends by itself: all that it waits for in the loop has a time-out. */
int task_run(struct controller *c, struct task *t, struct bace_err *e)
{
	pthread_mutex_lock(&c->lock);
	t->next = NULL;
	*c->last_task = t;
	c->last_task = &t->next;
	wake(c);
	while (!t->done) {
		if (c->cfg.cancelled)
			wait_a_moment(c);
		else
			pthread_cond_wait(&c->finished, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	if (t->rc && e)
		*e = t->e;
	return t->rc;
}

static void *loop(void *arg)
{
	struct controller *c = arg;

	event_base_dispatch(c->base);
	return NULL;
}

static int start_thread(struct controller *c, struct bace_err *e)
{
	sigset_t all, old;
	int rc;

	/* Signals are the caller's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&c->thread, NULL, loop, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return bace_fail_errno(e, rc, "start the controller's thread");
	c->thread_started = true;
	return 0;
}

static int open_loop(struct controller *c, struct bace_err *e)
{
	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->wake < 0)
		return bace_fail_errno(e, errno, "eventfd");
	c->base = event_base_new();
	if (!c->base)
		return bace_fail(e, ENOMEM, "event loop: out of memory");
	c->on_wake = event_new(c->base, c->wake, EV_READ | EV_PERSIST, on_wake, c);
	if (!c->on_wake || event_add(c->on_wake, NULL))
		return bace_fail(e, ENOMEM, "event loop: out of memory");
	return 0;
}

static void read_boot_id(struct controller *c)
{
	CLEANUP_FREE char *text = NULL;
	size_t n;

	if (bace_read_file("/proc/sys/kernel/random/boot_id", 64, &text, &n, NULL))
		return;
	text[strcspn(text, "\n")] = '\0';
	snprintf(c->boot_id, sizeof(c->boot_id), "%s", text);
}

json_int_t random_token(void)
{
	uint64_t v;

	if (getrandom(&v, sizeof(v), 0) < 0)
		v = (uint64_t)bace_wall_ns();
	return (json_int_t)((v >> 1) | 1);
}

int controller_open(const struct controller_config *cfg, struct controller **out, struct bace_err *e)
{
	struct controller *c = calloc(1, sizeof(*c));
	pthread_condattr_t monotonic;
	struct wire_handlers h;
	int rc;

	if (!c)
		return bace_fail(e, ENOMEM, "controller: out of memory");
	c->cfg = *cfg;
	if (!(c->cfg.heartbeat_dead_s > 0))
		c->cfg.heartbeat_dead_s = 3;
	c->wake = -1;
	c->last_task = &c->tasks;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&c->finished, &monotonic);
	pthread_condattr_destroy(&monotonic);
	read_boot_id(c);
	c->probe_token = (uint64_t)random_token();
	rc = open_loop(c, e);
	if (!rc)
		rc = hosts_init(c, e);
	if (!rc) {
		hosts_handlers(c, &h);
		rc = wire_listen(c->base, cfg->listen_addr, cfg->port, cfg->master_key, &h, &c->server, e);
	}
	if (!rc)
		rc = start_thread(c, e);
	if (rc) {
		controller_close(c);
		return rc;
	}
	*out = c;
	return 0;
}

/* ---- the end: stop all ranks, undo all shaping, as far as hosts answer ---- */

struct closing {
	struct task task;
	struct controller *c;
	int waiting;
	struct event *timer;
};

static void closed(struct closing *x)
{
	requests_cancel(x->c, x);
	if (x->timer)
		event_free(x->timer);
	x->timer = NULL;
	task_finish(x->c, &x->task, 0);
}

static void on_cleared(void *arg, struct host *h, const json_t *reply, const struct bace_err *err)
{
	struct closing *x = arg;

	if (--x->waiting == 0)
		closed(x);
}

static void on_close_timer(evutil_socket_t fd, short what, void *arg)
{
	closed(arg);
}

static void start_closing(struct controller *c, struct task *t)
{
	struct closing *x = (struct closing *)t;
	struct timeval tv = { .tv_sec = (time_t)CLOSE_S };

	x->timer = evtimer_new(c->base, on_close_timer, x);
	for (int i = 0; i < c->n_hosts; i++) {
		if (!host_ready(&c->hosts[i]))
			continue;
		x->waiting++;
		host_request(&c->hosts[i], json_pack("{s:s}", "type", "clear"), CLOSE_S, on_cleared, x);
	}
	if (!x->waiting || !x->timer)
		closed(x);
	else
		event_add(x->timer, &tv);
}

void controller_close(struct controller *c)
{
	if (!c)
		return;
	if (c->thread_started) {
		struct closing x = { .task.start = start_closing, .c = c };

		task_run(c, &x.task, NULL);
		pthread_mutex_lock(&c->lock);
		c->quit = true;
		pthread_mutex_unlock(&c->lock);
		wake(c);
		pthread_join(c->thread, NULL);
	}
	hosts_free(c);
	wire_server_free(c->server);
	if (c->on_wake)
		event_free(c->on_wake);
	if (c->base) {
		event_base_loop(c->base, EVLOOP_NONBLOCK);	/* what was freed is finalised in the loop */
		event_base_free(c->base);
	}
	bace_cleanup_close(&c->wake);
	pthread_cond_destroy(&c->finished);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

uint16_t controller_port(const struct controller *c)
{
	return wire_server_port(c->server);
}
