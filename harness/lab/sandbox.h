/* Private to harness/lab: a child as PID 1 of namespaces of its own. */
#ifndef BACE_LAB_SANDBOX_H
#define BACE_LAB_SANDBOX_H

#include <sys/types.h>

#include "common/common.h"

struct sandbox {
	pid_t pid;
	int to;			/* its descriptor 3 */
	int from;		/* its descriptor 4 */
	int log;		/* its stdout and stderr */
};

/* Starts argv[0] as PID 1 of new pid, mount, network (and, when the caller is
 * not root, user) namespaces, with a tmpfs on /run and a fresh /proc, in a
 * session of its own. It dies with the caller. */
int sandbox_start(char *const argv[], struct sandbox *out, struct bace_err *e);
/* Waits grace_s for it to end by itself, then kills it; with it ends all that
 * it holds. */
void sandbox_end(struct sandbox *s, double grace_s);

/* Runs fn in such namespaces and returns what it returned (0..100), or
 * -errno where they cannot be had. */
int sandbox_probe(int (*fn)(void), struct bace_err *e);

#endif
