/* One epoll loop with nanosecond time-outs. */
#ifndef BACE_WORKER_LOOP_H
#define BACE_WORKER_LOOP_H

#include <sys/epoll.h>

#include "common/common.h"

struct loop;
struct watch;

/* now: when this turn's events came. A failure ends the loop's turn. */
typedef int (*watch_fn)(struct watch *w, uint32_t events, int64_t now, struct bace_err *e);

struct watch {			/* inside what it is about; zero: not watching */
	int fd;
	watch_fn fn;
	void *owner;
	uint32_t events;		/* as the kernel has them */
};

int loop_create(struct loop **out, struct bace_err *e);
void loop_destroy(struct loop *l);

/* Level-triggered. Changes nothing, and makes no system call, when it is so
 * already. 0 stops watching. */
int loop_watch(struct loop *l, struct watch *w, uint32_t events, struct bace_err *e);
/* Waits until something happens or until `until` (INT64_MAX: for ever), reads
 * the clock, calls the watchers. May end with nothing done, before `until`. */
int loop_turn(struct loop *l, int64_t until, struct bace_err *e);
/* When the clock was read last; and reads it. */
int64_t loop_now(const struct loop *l);
int64_t loop_look(struct loop *l);

#endif
