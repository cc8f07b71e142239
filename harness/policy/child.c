#include "harness/policy/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPLY_MAX (16u << 20)

extern char **environ;

static int spawn(pid_t *pid, const char *command, int in, int out)
{
	char *argv[] = { "sh", "-c", (char *)command, NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none, pipe_only;
	int rc;

	sigemptyset(&none);
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	if (posix_spawn_file_actions_init(&fa))
		return -ENOMEM;
	if (posix_spawnattr_init(&attr)) {
		posix_spawn_file_actions_destroy(&fa);
		return -ENOMEM;
	}
	rc = posix_spawn_file_actions_adddup2(&fa, in, 0);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(&fa, out, 1);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &pipe_only);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETSIGDEF);
	if (!rc)
		rc = posix_spawn(pid, "/bin/sh", &fa, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&fa);
	return -rc;
}

int child_start(struct child *c, const char *command, struct bace_err *err)
{
	int in[2], out[2], rc;

	*c = (struct child){ .in = -1, .out = -1 };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in))
		return bace_fail_errno(err, errno, "start `%s': socketpair", command);
	if (pipe2(out, O_CLOEXEC)) {
		rc = bace_fail_errno(err, errno, "start `%s': pipe", command);
		close(in[0]);
		close(in[1]);
		return rc;
	}
	rc = spawn(&c->pid, command, in[1], out[1]);
	close(in[1]);
	close(out[1]);
	c->in = in[0];
	c->out = out[0];
	if (rc) {
		c->pid = 0;
		child_kill(c);
		return bace_fail_errno(err, -rc, "start `%s'", command);
	}
	fcntl(c->in, F_SETFL, O_NONBLOCK);
	fcntl(c->out, F_SETFL, O_NONBLOCK);
	return 0;
}

void child_kill(struct child *c)
{
	if (c->pid) {
		kill(-c->pid, SIGKILL);
		while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (c->in >= 0)
		close(c->in);
	if (c->out >= 0)
		close(c->out);
	bace_buf_free(&c->read);
	*c = (struct child){ .in = -1, .out = -1 };
}

/* It closed its end; say how it went, if it went. */
static int gone(struct child *c, int64_t deadline_ns, struct bace_err *err)
{
	int status, rc;

	shutdown(c->in, SHUT_WR);
	while (!(rc = waitpid(c->pid, &status, WNOHANG)) && bace_mono_ns() < deadline_ns)
		poll(NULL, 0, 1);
	if (rc != c->pid)
		return bace_fail(err, EPIPE, "it closed its output");
	kill(-c->pid, SIGKILL);
	c->pid = 0;
	if (WIFSIGNALED(status))
		return bace_fail(err, EPIPE, "it was ended by signal %d (%s)", WTERMSIG(status),
				 strsignal(WTERMSIG(status)));
	return bace_fail(err, EPIPE, "it exited with status %d", WEXITSTATUS(status));
}

static int take_line(struct child *c, size_t from, char **reply)
{
	char *nl = c->read.len > from ? memchr(c->read.p + from, '\n', c->read.len - from) : NULL;
	size_t len, rest;

	if (!nl)
		return 0;
	len = (size_t)(nl - c->read.p);
	rest = c->read.len - len - 1;
	*reply = strndup(c->read.p, len);
	if (!*reply)
		return -ENOMEM;
	memmove(c->read.p, nl + 1, rest + 1);
	c->read.len = rest;
	return 1;
}

/* 1: a line is there. 0: more to come. */
static int receive(struct child *c, char **reply, int64_t deadline_ns, struct bace_err *err)
{
	char buf[65536];
	ssize_t n = read(c->out, buf, sizeof(buf));
	size_t had = c->read.len;
	int rc;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : bace_fail_errno(err, errno, "read its answer");
	if (!n)
		return gone(c, deadline_ns, err);
	if (had + (size_t)n > REPLY_MAX)
		return bace_fail(err, EMSGSIZE, "its answer is longer than 16 MiB");
	if (bace_buf_add(&c->read, buf, (size_t)n))
		return bace_fail(err, ENOMEM, "read its answer: out of memory");
	rc = take_line(c, had, reply);
	return rc < 0 ? bace_fail(err, ENOMEM, "read its answer: out of memory") : rc;
}

/* What was written before the question answers nothing: taken for its answer it
 * would put the two out of step for good. */
static int no_word_yet(struct child *c, int64_t deadline_ns, struct bace_err *err)
{
	CLEANUP_FREE char *line = NULL;
	size_t had;
	int rc;

	do {
		had = c->read.len;
		rc = receive(c, &line, deadline_ns, err);
	} while (!rc && c->read.len != had);
	if (rc > 0 || (!rc && c->read.len))
		return bace_fail(err, EPROTO, "it wrote a line that answers no question");
	return rc;
}

int child_ask(struct child *c, const char *line, size_t len, double timeout_s, char **reply,
	      struct bace_err *err)
{
	int64_t deadline_ns = bace_mono_ns() + (int64_t)(timeout_s * 1e9);
	int rc = no_word_yet(c, deadline_ns, err);

	if (rc)
		return rc;
	for (;;) {
		struct pollfd fds[2] = { { .fd = c->out, .events = POLLIN },
					 { .fd = len ? c->in : -1, .events = POLLOUT } };
		int64_t left_ms = (deadline_ns - bace_mono_ns() + 999999) / 1000000;

		if (left_ms <= 0)
			return bace_fail(err, ETIMEDOUT, "no answer within %g s", timeout_s);
		if (poll(fds, 2, left_ms > 1000 ? 1000 : (int)left_ms) < 0 && errno != EINTR)
			return bace_fail_errno(err, errno, "poll");
		if (fds[0].revents) {
			rc = receive(c, reply, deadline_ns, err);
			if (rc > 0 && len) {
				free(*reply);
				*reply = NULL;
				return bace_fail(err, EPROTO, "it answered before it had read the question");
			}
			if (rc)
				return rc < 0 ? rc : 0;
		}
		if (len && fds[1].revents) {
			ssize_t n = send(c->in, line, len, MSG_NOSIGNAL);

			if (n < 0 && errno == EPIPE)
				return gone(c, deadline_ns, err);
			if (n < 0 && errno != EAGAIN && errno != EINTR)
				return bace_fail_errno(err, errno, "send the question");
			line += n > 0 ? n : 0;
			len -= n > 0 ? (size_t)n : 0;
		}
	}
}
