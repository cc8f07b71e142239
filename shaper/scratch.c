#include "shaper/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

int scratch_namespace_enter(void)
{
	if (!unshare(CLONE_NEWNET))
		return 0;
	return unshare(CLONE_NEWUSER | CLONE_NEWNET) ? -errno : 0;
}

int scratch_run(int (*f)(const void *arg, struct bace_err *e), const void *arg, struct bace_err *e)
{
	struct bace_err inner = { 0 };
	int status, pipe_fd[2];
	ssize_t n;
	pid_t pid;

	if (pipe2(pipe_fd, O_CLOEXEC))
		return bace_fail_errno(e, errno, "pipe");
	pid = fork();
	if (pid < 0) {
		close(pipe_fd[0]);
		close(pipe_fd[1]);
		return bace_fail_errno(e, errno, "fork");
	}
	if (!pid) {
		if (scratch_namespace_enter())
			_exit(2);
		if (!f(arg, &inner))
			_exit(0);
		_exit(write(pipe_fd[1], &inner, sizeof(inner)) == sizeof(inner) ? 1 : 2);
	}
	close(pipe_fd[1]);
	n = read(pipe_fd[0], &inner, sizeof(inner));
	close(pipe_fd[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (n != sizeof(inner) || !inner.errnum)
		return bace_fail(e, EPERM, "no scratch namespace to try it in");
	return bace_fail(e, inner.errnum, "%s", inner.msg);
}
