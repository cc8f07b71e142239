#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "harness/launch/internal.h"

#define WORDS 1000
#define LETTING_GO_NS 3000000000

/* One process and the end of what it wrote to its standard error. */
struct hand {
	const struct cluster_host *host;
	pid_t pid;			/* -1: does not run */
	int in, err;			/* this end */
	int status;			/* of the last one */
	int starts;
	size_t n_words;
	char words[WORDS + 1];
};

struct hands {
	const struct launch_config *cfg;
	const struct launcher *launcher;
	uint8_t master[WIRE_KEY_BYTES];
	int n;
	struct hand *v;
};

int hands_open(const struct launch_config *cfg, const uint8_t master[WIRE_KEY_BYTES], struct hands **out,
	       struct bace_err *e)
{
	struct hands *h = calloc(1, sizeof(*h));

	if (h)
		h->v = calloc((size_t)cfg->cluster->n_hosts, sizeof(*h->v));
	if (!h || !h->v) {
		free(h);
		return bace_fail(e, ENOMEM, "launch: out of memory");
	}
	h->cfg = cfg;
	h->launcher = launcher_of(cfg->o->kind);
	memcpy(h->master, master, WIRE_KEY_BYTES);
	h->n = h->launcher->command ? cfg->cluster->n_hosts : 0;
	for (int i = 0; i < h->n; i++)
		h->v[i] = (struct hand){ .host = &cfg->cluster->hosts[i], .pid = -1, .in = -1, .err = -1 };
	*out = h;
	return 0;
}

static void child(char *const argv[], int in, int err, pid_t parent)
{
	sigset_t none;

	/* It holds the agent; it must not outlive us, nor hear the terminal's Ctrl-C. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(127);
	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	if (dup2(in, 0) < 0 || dup2(err, 1) < 0 || dup2(err, 2) < 0)
		_exit(127);
	execvp(argv[0], argv);
	fprintf(stderr, "exec %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

static int send_key(const struct hands *h, struct hand *d, struct bace_err *e)
{
	char line[WIRE_KEY_LINE_MAX];
	int rc = wire_key_host_line(h->master, d->host->name, line);

	if (!rc)
		rc = bace_write_all(d->in, line, strlen(line));
	OPENSSL_cleanse(line, sizeof(line));
	/* One that has died already is found by hands_tend, with its words. */
	return rc && rc != -EPIPE ? bace_fail_errno(e, -rc, "%s: send its key", d->host->name) : 0;
}

static int start(struct hands *h, struct hand *d, struct bace_err *e)
{
	struct launch_args a = { 0 };
	int in[2] = { -1, -1 }, err[2] = { -1, -1 }, rc = 0;
	pid_t parent = getpid();

	h->launcher->command(&a, h->cfg->o, d->host);
	if (a.failed)
		rc = bace_fail(e, ENOMEM, "%s: command line: out of memory", d->host->name);
	else if (pipe2(in, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		rc = bace_fail_errno(e, errno, "%s: pipe", d->host->name);
	if (!rc) {
		d->pid = fork();
		if (d->pid == 0)
			child(a.v, in[0], err[1], parent);
		if (d->pid < 0)
			rc = bace_fail_errno(e, errno, "%s: start %s", d->host->name, a.v[0]);
	}
	args_free(&a);
	bace_cleanup_close(&in[0]);
	bace_cleanup_close(&err[1]);
	if (rc) {
		bace_cleanup_close(&in[1]);
		bace_cleanup_close(&err[0]);
		return rc;
	}
	fcntl(err[0], F_SETFL, O_NONBLOCK);
	d->in = in[1];
	d->err = err[0];
	d->n_words = 0;
	d->words[0] = '\0';
	d->starts++;
	return send_key(h, d, e);
}

int hands_start(struct hands *h, struct bace_err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < h->n; i++)
		if (h->v[i].pid < 0)
			rc = start(h, &h->v[i], e);
	return rc;
}

/* Keeps the end of what it writes. */
static void listen_to(struct hand *d)
{
	char buf[4096];
	ssize_t n;

	while (d->err >= 0 && (n = read(d->err, buf, sizeof(buf))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return;
		const char *nl = memchr(buf, '\n', (size_t)n);

		bace_log(BACE_DEBUG, "launch", "%s: %.*s", d->host->name, (int)(nl ? nl - buf : n), buf);
		size_t keep = (size_t)n < WORDS ? (size_t)n : WORDS;

		if (d->n_words + keep > WORDS) {
			size_t drop = d->n_words + keep - WORDS;

			memmove(d->words, d->words + drop, d->n_words - drop);
			d->n_words -= drop;
		}
		memcpy(d->words + d->n_words, buf + n - keep, keep);
		d->n_words += keep;
		d->words[d->n_words] = '\0';
	}
	bace_cleanup_close(&d->err);
}

static const char *last_words(struct hand *d)
{
	char *last = d->words;

	while (d->n_words && (d->words[d->n_words - 1] == '\n' || d->words[d->n_words - 1] == '\r'))
		d->words[--d->n_words] = '\0';
	for (char *p = d->words; *p; p++)
		if (*p == '\n')
			last = p + 1;
	return last;
}

static void let_go(struct hand *d)
{
	bace_cleanup_close(&d->in);
	bace_cleanup_close(&d->err);
	d->pid = -1;
}

int hands_tend(struct hands *h, struct bace_err *e)
{
	int gone = 0;

	for (int i = 0; i < h->n; i++) {
		struct hand *d = &h->v[i];

		listen_to(d);
		if (d->pid > 0 && waitpid(d->pid, &d->status, WNOHANG) == d->pid) {
			listen_to(d);
			let_go(d);
		}
		if (d->pid > 0 || gone++)
			continue;
		const char *words = last_words(d);

		bace_fail(e, ECHILD, "%s: %s %s %d%s%.300s", d->host->name, h->launcher->name,
			  WIFSIGNALED(d->status) ? "was killed by signal" : "ended with status",
			  WIFSIGNALED(d->status) ? WTERMSIG(d->status) : WEXITSTATUS(d->status), *words ? ": " : "",
			  words);
	}
	return gone;
}

void hands_close(struct hands *h)
{
	int64_t until = bace_mono_ns() + LETTING_GO_NS;
	struct bace_err e = { 0 };
	bool pressed = false;

	if (!h)
		return;
	for (int i = 0; i < h->n; i++)
		bace_cleanup_close(&h->v[i].in);
	while (hands_tend(h, &e) < h->n) {
		if (bace_mono_ns() > until) {
			for (int i = 0; i < h->n; i++)
				if (h->v[i].pid > 0)
					kill(-h->v[i].pid, pressed ? SIGKILL : SIGTERM);
			pressed = true;
			until = bace_mono_ns() + LETTING_GO_NS;
		}
		usleep(10000);
	}
	OPENSSL_cleanse(h->master, sizeof(h->master));
	free(h->v);
	free(h);
}
