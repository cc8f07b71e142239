/* Private to workers.c, output.c and children.c: one worker of this agent. */
#ifndef BACE_AGENT_WORKER_H
#define BACE_AGENT_WORKER_H

#include "agent/agent.h"

#define WORKER_ERR_TAIL 400

struct worker {
	struct worker *next;
	struct agent *agent;
	uint32_t session;		/* that launched it; no other is told of it */
	json_int_t cell;
	int rank;
	pid_t pid;			/* 0: it has ended; what it wrote is still being told */
	int status;			/* of waitpid, then */
	int n_stopped;			/* times that somebody stopped it: what it timed is not to be trusted */
	int out_fd, err_fd;
	struct event *on_out, *on_err, *resume;
	struct bufferevent *in;
	char held[4];			/* beginning of a character cut by read() */
	size_t n_held;
	int n_rest;			/* reads since it ended */
	char err[WORKER_ERR_TAIL + 1];	/* end of its standard error, printable */
	size_t n_err;
	int64_t err_since_ns;		/* the second in which so many bytes were passed on */
	size_t err_passed, err_left_out;
};

/* ---- output.c: what workers write ---- */
/* Bytes at the end that begin a UTF-8 character and do not finish it. */
size_t output_cut_tail(const char *p, size_t n);
/* Watches both streams of w; -ENOMEM, then some of its events are NULL. */
int output_watch(struct worker *w);
/* w has ended: tells what is left, as the controller takes it, then that it
 * ended, and gives it to worker_gone. */
void output_finish(struct worker *w);

/* ---- workers.c ---- */
/* Takes w off the list and frees it; answers who waits for that. */
void worker_gone(struct worker *w);

#endif
