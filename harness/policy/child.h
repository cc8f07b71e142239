/*
 * A child process that answers lines with lines: /bin/sh -c COMMAND in a
 * process group of its own, its stdin a socket (no SIGPIPE), its stdout a
 * pipe, its stderr ours. Both directions are bounded by one deadline.
 */
#ifndef BACE_POLICY_CHILD_H
#define BACE_POLICY_CHILD_H

#include <sys/types.h>

#include "common/common.h"

struct child {
	pid_t pid;		/* 0: not running */
	int in, out;		/* ours: to its stdin, from its stdout */
	struct bace_buf read;	/* what came after the last newline */
};

int child_start(struct child *c, const char *command, struct bace_err *err);
/* Sends line (which ends in a newline) and reads one line into *reply, without
 * its newline, malloc'd. -ETIMEDOUT, -EPIPE (it exited; how is in err),
 * -EMSGSIZE (over 16 MiB without a newline), -EPROTO (it wrote before it had
 * read the whole question). After a failure, child_kill. */
int child_ask(struct child *c, const char *line, size_t len, double timeout_s, char **reply,
	      struct bace_err *err);
/* SIGKILL to the group, then waits. */
void child_kill(struct child *c);

#endif
