#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/agent.h"

/* What the agent was started with: workers get the same. */
static struct rlimit first_files;

void spawn_raise_files(void)
{
	struct rlimit now;

	if (getrlimit(RLIMIT_NOFILE, &now))
		return;
	first_files = now;
	now.rlim_cur = now.rlim_max < SPAWN_FILES ? now.rlim_max : SPAWN_FILES;
	if (now.rlim_cur > first_files.rlim_cur && setrlimit(RLIMIT_NOFILE, &now))
		bace_log(BACE_WARN, "workers", "raise the limit of open files: %s", strerror(errno));
}

/* What was asked for is not what a cpuset leaves of it. */
static bool is_bound(pid_t pid, const cpu_set_t *cpus)
{
	cpu_set_t got;

	/* The child does so before it executes; this may be before that. */
	return !sched_setaffinity(pid, sizeof(*cpus), cpus) && !sched_getaffinity(pid, sizeof(got), &got) &&
	       CPU_EQUAL(&got, cpus);
}

/* Between fork and exec, beside another thread: async-signal-safe calls only. */
static void child(const char *path, const int fds[3], const cpu_set_t *cpus, pid_t parent)
{
	static const char failed[] = "bace-agent: cannot start the worker\n";
	char *argv[] = { (char *)path, NULL };
	sigset_t none;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The agent may have died between fork and prctl. */
	if (getppid() != parent)
		_exit(127);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		_exit(127);
	if (cpus)
		sched_setaffinity(0, sizeof(*cpus), cpus);
	if (first_files.rlim_max)
		setrlimit(RLIMIT_NOFILE, &first_files);
	for (int i = 0; i < 3; i++)
		if (dup2(fds[i], i) < 0)
			_exit(127);
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execv(path, argv);
	if (write(2, failed, sizeof(failed) - 1) < 0)
		_exit(126);
	_exit(127);
}

static void close_pair(int p[2])
{
	bace_cleanup_close(&p[0]);
	bace_cleanup_close(&p[1]);
}

int spawn_worker(const char *path, const cpu_set_t *cpus, struct spawned *out, struct bace_err *e)
{
	int p[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
	pid_t parent = getpid(), pid;

	if (access(path, X_OK))
		return bace_fail_errno(e, errno, "start %s", path);
	for (int i = 0; i < 3; i++) {
		if (pipe2(p[i], O_CLOEXEC)) {
			int saved = errno;

			for (int k = 0; k <= i; k++)
				close_pair(p[k]);
			return bace_fail_errno(e, saved, "start %s: pipe", path);
		}
	}
	pid = fork();
	if (!pid)
		child(path, (int[]){ p[0][0], p[1][1], p[2][1] }, cpus, parent);
	if (pid < 0) {
		int saved = errno;

		for (int k = 0; k < 3; k++)
			close_pair(p[k]);
		return bace_fail_errno(e, saved, "start %s: fork", path);
	}
	setpgid(pid, pid);	/* in both, so that a kill of the group never comes too early */
	close(p[0][0]);
	close(p[1][1]);
	close(p[2][1]);
	*out = (struct spawned){ .pid = pid, .in = p[0][1], .out = p[1][0], .err = p[2][0],
				 .bound = cpus && is_bound(pid, cpus) };
	fcntl(out->in, F_SETFL, O_NONBLOCK);
	fcntl(out->out, F_SETFL, O_NONBLOCK);
	fcntl(out->err, F_SETFL, O_NONBLOCK);
	return 0;
}
