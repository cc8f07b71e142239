#include "shaper/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 16
#define OUTPUT_MAX (4 << 20)
#define TIMEOUT_MS 20000
#define LOCK_DEFAULT "/run/xtables.lock"

static const char *const places[] = { "/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin", "/bin" };

static bool find_program(const char *const *names, char *path, size_t cap)
{
	for (; *names; names++) {
		for (size_t i = 0; i < ARRAY_LEN(places); i++) {
			snprintf(path, cap, "%s/%s", places[i], *names);
			if (!access(path, X_OK))
				return true;
		}
	}
	return false;
}

/* iptables insists on a lock file; where /run is not ours any will do, since
 * then no other user of these tables shares it. */
static char *lock_setting(void)
{
	if (getenv("XTABLES_LOCKFILE") || !access(LOCK_DEFAULT, R_OK | W_OK) || !access("/run", W_OK))
		return NULL;
	return (char *)"XTABLES_LOCKFILE=/dev/null";
}

static char **environment_with(char *extra)
{
	extern char **environ;
	size_t n = 0;
	char **env;

	while (environ[n])
		n++;
	env = calloc(n + 2, sizeof(*env));
	if (!env)
		return NULL;
	memcpy(env, environ, n * sizeof(*env));
	env[n] = extra;
	return env;
}

static int spawn(const char *path, char **argv, int in, int out, pid_t *pid)
{
	CLEANUP_FREE char **env = environment_with(lock_setting());
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none, pipe_signal;
	int rc;

	if (!env)
		return ENOMEM;
	sigemptyset(&none);
	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigdefault(&attr, &pipe_signal);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, in, 0);
	posix_spawn_file_actions_adddup2(&fa, out, 1);
	posix_spawn_file_actions_adddup2(&fa, out, 2);
	rc = posix_spawn(pid, path, &fa, &attr, argv, env);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&attr);
	return rc;
}

/* Both directions at once, so that neither side can wait for the other. */
static int exchange(int to, int from, const char *input, struct bace_buf *output)
{
	size_t left = input ? strlen(input) : 0;
	int64_t end_ns = bace_mono_ns() + TIMEOUT_MS * 1000000LL;

	for (;;) {
		struct pollfd fds[] = { { .fd = from, .events = POLLIN }, { .fd = left ? to : -1, .events = POLLOUT } };
		int wait_ms = (int)((end_ns - bace_mono_ns()) / 1000000);
		char buf[4096];
		ssize_t n;

		if (!left && to >= 0) {
			close(to);
			to = -1;
		}
		if (wait_ms <= 0) {
			bace_cleanup_close(&to);
			return -ETIMEDOUT;
		}
		if (poll(fds, 2, wait_ms) < 0 && errno != EINTR)
			break;
		if (fds[1].revents) {
			n = write(to, input, left);
			if (n < 0)
				left = 0;
			else
				input += n, left -= (size_t)n;
		}
		if (!fds[0].revents)
			continue;
		n = read(from, buf, sizeof(buf));
		if (n <= 0)
			break;
		if (output->len + (size_t)n > OUTPUT_MAX || bace_buf_add(output, buf, (size_t)n))
			break;
	}
	bace_cleanup_close(&to);
	return 0;
}

static const char *first_line(const struct bace_buf *b, char *to, size_t cap)
{
	snprintf(to, cap, "%.*s", b->p ? (int)strcspn(b->p, "\n") : 0, b->p ? b->p : "");
	return to;
}

int process_run(const char *const *names, const char *const *args, const char *input,
		struct bace_buf *output, struct bace_err *e)
{
	CLEANUP_CLOSE int in_read = -1;
	CLEANUP_CLOSE int out_read = -1;
	CLEANUP_CLOSE int out_write = -1;
	int in[2], out[2], status = 0, rc;
	char path[256], line[200], *argv[ARGS_MAX + 2] = { path };
	size_t start = output->len;
	pid_t pid;

	if (!find_program(names, path, sizeof(path)))
		return bace_fail(e, ENOENT, "no %s in /usr/sbin, /sbin, /usr/local/sbin, /usr/bin or /bin", names[0]);
	for (int i = 0; i < ARGS_MAX && args[i]; i++)
		argv[i + 1] = (char *)args[i];
	if (pipe2(in, O_CLOEXEC))
		return bace_fail_errno(e, errno, "run %s", path);
	in_read = in[0];
	if (pipe2(out, O_CLOEXEC)) {
		close(in[1]);
		return bace_fail_errno(e, errno, "run %s", path);
	}
	out_read = out[0];
	out_write = out[1];
	rc = spawn(path, argv, in_read, out_write, &pid);
	if (rc) {
		close(in[1]);
		return bace_fail_errno(e, rc, "run %s", path);
	}
	bace_cleanup_close(&in_read);
	in_read = -1;
	bace_cleanup_close(&out_write);
	out_write = -1;
	rc = exchange(in[1], out_read, input, output);
	if (rc)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (rc)
		return bace_fail_errno(e, -rc, "%s", path);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	struct bace_buf said = { .p = output->p ? output->p + start : NULL };
	return bace_fail(e, EIO, "%s: %s", path, first_line(&said, line, sizeof(line)));
}
