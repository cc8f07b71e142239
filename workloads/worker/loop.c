#include "workloads/worker/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EVENTS_MAX 64
#define NS 1000000000

/* A timerfd rather than epoll_pwait2: its time is absolute, so that what a turn
 * did before waiting does not make the next one late. Edge-triggered: one that
 * has expired is neither read nor disarmed. */
struct loop {
	int epoll;
	struct watch timer;
	int64_t armed;			/* INT64_MAX: not, or it has expired */
	int64_t now;
	struct epoll_event events[EVENTS_MAX];	/* of this turn; NULL: forgotten since */
	int n_events;
};

static int on_timer(struct watch *w, uint32_t events, int64_t now, struct bace_err *e)
{
	struct loop *l = w->owner;

	l->armed = INT64_MAX;
	return 0;
}

int loop_create(struct loop **out, struct bace_err *e)
{
	struct loop *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return bace_fail(e, ENOMEM, "loop: out of memory");
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->timer = (struct watch){ .fn = on_timer, .owner = l,
		.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC) };
	l->armed = INT64_MAX;
	l->now = bace_mono_ns();
	rc = l->epoll < 0 || l->timer.fd < 0 ? bace_fail_errno(e, errno, "epoll and timer") :
	     loop_watch(l, &l->timer, EPOLLIN | EPOLLET, e);
	if (rc)
		loop_destroy(l);
	else
		*out = l;
	return rc;
}

void loop_destroy(struct loop *l)
{
	if (l->timer.fd >= 0)
		close(l->timer.fd);
	if (l->epoll >= 0)
		close(l->epoll);
	free(l);
}

int loop_watch(struct loop *l, struct watch *w, uint32_t events, struct bace_err *e)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };
	int op = !events ? EPOLL_CTL_DEL : w->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (w->events == events)
		return 0;
	if (epoll_ctl(l->epoll, op, w->fd, &ev))
		return bace_fail_errno(e, errno, "watch a socket");
	w->events = events;
	for (int i = 0; !events && i < l->n_events; i++)
		if (l->events[i].data.ptr == w)
			l->events[i].data.ptr = NULL;
	return 0;
}

/* One that is armed for earlier is left so: it wakes the loop once for nothing,
 * where a deadline that moves on with every message would cost each a call. */
static int arm(struct loop *l, int64_t until, struct bace_err *e)
{
	struct itimerspec t = { .it_value = { .tv_sec = until / NS, .tv_nsec = until % NS } };

	if (until >= l->armed)
		return 0;
	if (timerfd_settime(l->timer.fd, TFD_TIMER_ABSTIME, &t, NULL))
		return bace_fail_errno(e, errno, "arm the timer");
	l->armed = until;
	return 0;
}

int loop_turn(struct loop *l, int64_t until, struct bace_err *e)
{
	/* It only looks. */
	bool past = until <= l->now;
	int rc = past ? 0 : arm(l, until, e), n;

	if (rc)
		return rc;
	n = epoll_wait(l->epoll, l->events, EVENTS_MAX, past ? 0 : -1);
	if (n < 0 && errno != EINTR)
		return bace_fail_errno(e, errno, "wait for events");
	l->n_events = n < 0 ? 0 : n;
	l->now = bace_mono_ns();
	for (int i = 0; !rc && i < l->n_events; i++) {
		struct watch *w = l->events[i].data.ptr;

		if (w)
			rc = w->fn(w, l->events[i].events, l->now, e);
	}
	l->n_events = 0;
	return rc;
}

int64_t loop_look(struct loop *l)
{
	return l->now = bace_mono_ns();
}

int64_t loop_now(const struct loop *l)
{
	return l->now;
}
