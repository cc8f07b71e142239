/* Private to harness/lab: the processes of a lab. */
#ifndef BACE_LAB_PROCS_H
#define BACE_LAB_PROCS_H

#include "harness/lab/netns.h"

struct proc_spec {
	const struct netns *ns;		/* started inside it */
	const char *path;
	char *const *argv;
	bool drop_privilege;		/* all capabilities, and no way back */
};

/* Starts it; the pid is kept with its name, which is its alone. */
int proc_spawn(const char *name, const struct proc_spec *s, struct bace_err *e);
/* Is what was started by that name still there, as far as has been noticed? */
bool proc_lives(const char *name);
/* Reaps for ever in a thread of its own: a PID 1 must, and a death of what was
 * started is worth a line. Once per process. */
int proc_reaper_start(struct bace_err *e);
/* Calls _exit(0) when the writing end of fd is gone. As PID 1 that is the end
 * of everything in the namespace. */
int proc_watch_life(int fd, struct bace_err *e);

#endif
