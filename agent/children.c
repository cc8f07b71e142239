/* The processes under this one: workers, and what they leave behind. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/worker.h"

#define CHILDREN_MAX_BYTES (1u << 20)
#define END_PATIENCE 500		/* times */
#define END_PAUSE_US 2000

static struct worker *by_pid(struct agent *a, pid_t pid)
{
	for (struct worker *w = a->workers; w; w = w->next)
		if (w->pid == pid)
			return w;
	return NULL;
}

static void worker_ended(struct worker *w, int status)
{
	/* What it started, if anything, goes with it. */
	kill(-w->pid, SIGKILL);
	w->pid = 0;
	w->status = status;
	output_finish(w);
}

/* This process is the subreaper: what a worker left behind, even in a session
 * of its own, is now its child. */
static void kill_orphans(struct agent *a)
{
	CLEANUP_FREE char *list = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	if (bace_read_file(path, CHILDREN_MAX_BYTES, &list, NULL, NULL))
		return;
	/* The kernel ends every number with a blank: one without it is not whole. */
	for (char *p = list, *end; *p; p = end + 1) {
		pid_t pid = (pid_t)strtol(p, &end, 10);

		if (end == p || *end != ' ')
			break;
		if (pid > 0 && !by_pid(a, pid))
			kill(pid, SIGKILL);
	}
}

/* Whether there are children still. */
static bool reap(struct agent *a)
{
	bool ended = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		struct worker *w = by_pid(a, pid);

		if (WIFSTOPPED(status)) {
			if (w)
				w->n_stopped++;
			continue;
		}
		ended = true;
		if (w)
			worker_ended(w, status);
	}
	if (ended)
		kill_orphans(a);
	return !pid;
}

static void on_child(evutil_socket_t fd, short what, void *arg)
{
	reap(arg);
}

int workers_init(struct agent *a, struct bace_err *e)
{
	a->on_child = evsignal_new(a->base, SIGCHLD, on_child, a);
	if (!a->on_child || event_add(a->on_child, NULL))
		return bace_fail(e, ENOMEM, "watch children: out of memory");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		return bace_fail_errno(e, errno, "become subreaper");
	return 0;
}

void workers_end(struct agent *a)
{
	workers_stop(a, 0, 0);
	/* Not only until the workers are gone: what an orphan leaves is a child of
	 * this process when the orphan has ended. */
	for (int i = 0; reap(a) && i < END_PATIENCE; i++) {
		kill_orphans(a);
		usleep(END_PAUSE_US);
	}
	workers_free(a);
	if (a->on_child)
		event_free(a->on_child);
}
