#include "harness/lab/procs.h"

#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/lab/lab.h"

#define PROCS_MAX 1024

static struct {
	pthread_mutex_t lock;
	int n;
	struct {
		pid_t pid;
		char name[80];
	} v[PROCS_MAX];
} procs = { .lock = PTHREAD_MUTEX_INITIALIZER };

int lab_find_program(const char *self, const char *name, char path[4096], struct bace_err *e)
{
	static const char *const places[] = { "", "../../agent/", "../../shaper/shaperd/",
					      "../../workloads/worker/" };
	const char *slash = strrchr(self, '/');
	int dir_len = slash ? (int)(slash - self) + 1 : 0;

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		snprintf(path, 4096, "%.*s%s%s", dir_len, self, places[i], name);
		if (!access(path, X_OK))
			return 0;
	}
	return bace_fail(e, ENOPKG, "%s is not beside %s: the installation is incomplete", name, self);
}

static int drop_all_capabilities(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap))
			return -errno;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capset, &h, none))
		return -errno;
	return 0;
}

static void child(const struct proc_spec *s)
{
	sigset_t none;
	struct bace_err e = { 0 };
	int rc = 0;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (netns_enter(s->ns, &e)) {
		fprintf(stderr, "%s: %s\n", s->path, e.msg);
		_exit(127);
	}
	/* Where that is refused NCCL reads of another interface, or takes 10 Gbit/s. */
	netns_show_interfaces();
	if (s->drop_privilege)
		rc = drop_all_capabilities();
	if (rc) {
		fprintf(stderr, "%s: drop capabilities: %s\n", s->path, strerror(-rc));
		_exit(127);
	}
	execv(s->path, s->argv);
	fprintf(stderr, "exec %s: %s\n", s->path, strerror(errno));
	_exit(127);
}

int proc_spawn(const char *name, const struct proc_spec *s, struct bace_err *e)
{
	pid_t pid;

	pthread_mutex_lock(&procs.lock);
	if (procs.n == PROCS_MAX) {
		pthread_mutex_unlock(&procs.lock);
		return bace_fail(e, EMFILE, "start %s: more than %d processes", name, PROCS_MAX);
	}
	pid = fork();
	if (pid == 0)
		child(s);
	if (pid > 0) {
		procs.v[procs.n].pid = pid;
		snprintf(procs.v[procs.n].name, sizeof(procs.v[0].name), "%s", name);
		procs.n++;
	}
	pthread_mutex_unlock(&procs.lock);
	return pid < 0 ? bace_fail_errno(e, errno, "start %s", name) : 0;
}

bool proc_lives(const char *name)
{
	bool lives = false;

	pthread_mutex_lock(&procs.lock);
	for (int i = 0; i < procs.n && !lives; i++)
		lives = !strcmp(procs.v[i].name, name);
	pthread_mutex_unlock(&procs.lock);
	return lives;
}

static void report_death(pid_t pid, int status)
{
	char name[80] = "";

	pthread_mutex_lock(&procs.lock);
	for (int i = 0; i < procs.n; i++) {
		if (procs.v[i].pid != pid)
			continue;
		memcpy(name, procs.v[i].name, sizeof(name));
		procs.v[i] = procs.v[--procs.n];
		break;
	}
	pthread_mutex_unlock(&procs.lock);
	if (!name[0])
		return;		/* an orphan that PID 1 inherited */
	if (WIFSIGNALED(status))
		bace_log(BACE_WARN, "lab", "%s (pid %d) was killed by signal %d", name, (int)pid,
			 WTERMSIG(status));
	else
		bace_log(BACE_WARN, "lab", "%s (pid %d) ended with status %d", name, (int)pid,
			 WEXITSTATUS(status));
}

static void *reap(void *arg)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, 0);

		if (pid > 0)
			report_death(pid, status);
		else if (errno == ECHILD)
			usleep(50000);
	}
	return NULL;
}

static void *watch(void *arg)
{
	struct pollfd p = { .fd = (int)(intptr_t)arg, .events = 0 };

	for (;;) {
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			_exit(1);
		if (p.revents & (POLLHUP | POLLERR | POLLNVAL))
			_exit(0);
	}
	return NULL;
}

static int start_thread(void *(*fn)(void *), void *arg, struct bace_err *e)
{
	pthread_t t;
	int rc = pthread_create(&t, NULL, fn, arg);

	if (rc)
		return bace_fail_errno(e, rc, "start a thread");
	pthread_detach(t);
	return 0;
}

int proc_reaper_start(struct bace_err *e)
{
	return start_thread(reap, NULL, e);
}

int proc_watch_life(int fd, struct bace_err *e)
{
	return start_thread(watch, (void *)(intptr_t)fd, e);
}
