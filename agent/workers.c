#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "agent/agent.h"

#define WORKERS_MAX 1024
#define PIECE 65536
#define PAUSE_QUEUED (1u << 20)		/* towards the controller: stop reading workers */
#define PAUSE_US 5000
#define STDIN_QUEUE_MAX (8u << 20)
#define ERR_TAIL 400

struct worker {
	struct worker *next;
	struct agent *agent;
	json_int_t cell;
	int rank;
	pid_t pid;
	int out_fd, err_fd;
	struct event *on_out, *on_err, *resume;
	struct bufferevent *in;
	char held[4];			/* beginning of a character cut by read() */
	size_t n_held;
	char err[ERR_TAIL + 1];		/* end of its standard error */
	size_t n_err;
};

struct stop_request {
	struct stop_request *next;
	json_int_t cell, id;
	uint32_t session;
};

static struct worker *find(struct agent *a, json_int_t cell, int rank)
{
	for (struct worker *w = a->workers; w; w = w->next)
		if (w->cell == cell && w->rank == rank)
			return w;
	return NULL;
}

/* Bytes at the end that begin a UTF-8 character and do not finish it. */
static size_t cut_tail(const char *p, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		unsigned char c = (unsigned char)p[n - back];
		size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

		if ((c & 0xc0) == 0x80)
			continue;
		return need > back ? back : 0;
	}
	return 0;
}

static void forward(struct worker *w, const char *p, size_t n)
{
	json_t *text = json_stringn(p, n);

	if (!text)
		text = json_string("{\"event\":\"error\",\"text\":\"its output is not UTF-8\"}\n");
	session_event(w->agent, json_pack("{s:s,s:i,s:I,s:i,s:o}", "type", "output", "id", 0, "cell", w->cell,
					  "rank", w->rank, "text", text));
}

/* One read; 0: nothing more now, -1: end. */
static int read_out(struct worker *w)
{
	char buf[sizeof(w->held) + PIECE];
	ssize_t got;
	size_t n, cut;

	memcpy(buf, w->held, w->n_held);
	got = read(w->out_fd, buf + w->n_held, PIECE);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (got == 0)
		return -1;
	n = w->n_held + (size_t)got;
	cut = cut_tail(buf, n);
	w->n_held = cut;
	memcpy(w->held, buf + n - cut, cut);
	if (n > cut)
		forward(w, buf, n - cut);
	return 1;
}

static void on_out(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;
	struct timeval pause = { .tv_usec = PAUSE_US };

	if (read_out(w) < 0) {
		event_del(w->on_out);
		return;
	}
	/* The pipe holds the worker back, not this process's memory. */
	if (w->agent->conn && wire_queued(w->agent->conn) > PAUSE_QUEUED) {
		event_del(w->on_out);
		event_add(w->resume, &pause);
	}
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;
	struct timeval pause = { .tv_usec = PAUSE_US };

	if (w->agent->conn && wire_queued(w->agent->conn) > PAUSE_QUEUED)
		event_add(w->resume, &pause);
	else
		event_add(w->on_out, NULL);
}

static int read_err(struct worker *w)
{
	char buf[2048];
	ssize_t n = read(w->err_fd, buf, sizeof(buf));
	size_t keep, drop;

	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
	bace_write_all(2, buf, (size_t)n);
	keep = (size_t)n > ERR_TAIL ? ERR_TAIL : (size_t)n;
	drop = w->n_err + keep > ERR_TAIL ? w->n_err + keep - ERR_TAIL : 0;
	memmove(w->err, w->err + drop, w->n_err - drop);
	memcpy(w->err + w->n_err - drop, buf + n - keep, keep);
	w->n_err += keep - drop;
	w->err[w->n_err] = '\0';
	return 1;
}

static void on_err(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;

	if (read_err(w) < 0)
		event_del(w->on_err);
}

static void worker_free(struct worker *w)
{
	if (w->on_out)
		event_free(w->on_out);
	if (w->on_err)
		event_free(w->on_err);
	if (w->resume)
		event_free(w->resume);
	if (w->in)
		bufferevent_free(w->in);
	bace_cleanup_close(&w->out_fd);
	bace_cleanup_close(&w->err_fd);
	free(w);
}

static int worker_watch(struct worker *w, struct spawned *s)
{
	struct event_base *base = w->agent->base;

	w->pid = s->pid;
	w->out_fd = STEAL_FD(s->out);
	w->err_fd = STEAL_FD(s->err);
	w->on_out = event_new(base, w->out_fd, EV_READ | EV_PERSIST, on_out, w);
	w->on_err = event_new(base, w->err_fd, EV_READ | EV_PERSIST, on_err, w);
	w->resume = evtimer_new(base, on_resume, w);
	w->in = bufferevent_socket_new(base, s->in, BEV_OPT_CLOSE_ON_FREE);
	if (w->in)
		s->in = -1;
	if (!w->on_out || !w->on_err || !w->resume || !w->in)
		return -ENOMEM;
	event_add(w->on_out, NULL);
	event_add(w->on_err, NULL);
	bufferevent_disable(w->in, EV_READ);
	return bufferevent_enable(w->in, EV_WRITE) ? -ENOMEM : 0;
}

static int give_line(struct worker *w, const json_t *line)
{
	CLEANUP_FREE char *text = json_dumps(line, JSON_COMPACT);
	struct evbuffer *to = bufferevent_get_output(w->in);
	size_t n = text ? strlen(text) : 0;

	if (!text)
		return -ENOMEM;
	if (evbuffer_get_length(to) + n > STDIN_QUEUE_MAX)
		return -ENOBUFS;
	text[n] = '\n';		/* over the terminator */
	return bufferevent_write(w->in, text, n + 1) ? -ENOMEM : 0;
}

static int program_path(const struct agent *a, const char *program, char path[PATH_MAX],
			struct bace_err *e)
{
	/* Beside the agent; in a build tree, where it was built. */
	static const struct { const char *name, *place; } known[] = {
		{ "worker", "" }, { "worker-nccl", "" }, { "worker-nccl", "../nccl/" },
	};
	bool is_known = false;

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strcmp(program, known[i].name))
			continue;
		is_known = true;
		if (snprintf(path, PATH_MAX, "%s/%sbace-%s", a->cfg.worker_dir, known[i].place, known[i].name) >= PATH_MAX)
			return bace_fail(e, ENAMETOOLONG, "launch: the path of bace-%s is too long", program);
		if (!access(path, X_OK))
			return 0;
	}
	if (!is_known)
		return bace_fail(e, EPERM, "launch: `%.40s' is not a worker of bace", program);
	return bace_fail_errno(e, errno, "launch: bace-%s is not in %s%s", program, a->cfg.worker_dir,
			       strcmp(program, "worker") ? ": bace was built without CUDA and NCCL" : "");
}

int worker_launch(struct agent *a, const struct launch *l, json_t **answer, struct bace_err *e)
{
	char path[PATH_MAX], binding[256];
	struct spawned s;
	struct worker *w;
	cpu_set_t cpus;
	bool bind;
	int rc;

	if (find(a, l->cell, l->rank))
		return bace_fail(e, EEXIST, "launch: rank %d of cell %lld is running already", l->rank,
				 (long long)l->cell);
	if (a->n_workers >= WORKERS_MAX)
		return bace_fail(e, EAGAIN, "launch: %d workers are running, no more are allowed", WORKERS_MAX);
	rc = program_path(a, l->program, path, e);
	if (rc)
		return rc;
	w = calloc(1, sizeof(*w));
	if (!w)
		return bace_fail(e, ENOMEM, "launch: out of memory");
	*w = (struct worker){ .agent = a, .cell = l->cell, .rank = l->rank, .out_fd = -1, .err_fd = -1 };
	bind = binder_choose(a->binder, l->slot, l->slots, l->nic, &cpus, binding, sizeof(binding));
	rc = spawn_worker(path, bind ? &cpus : NULL, &s, e);
	if (rc) {
		free(w);
		return rc;
	}
	rc = worker_watch(w, &s);
	bace_cleanup_close(&s.in);
	w->next = a->workers;
	a->workers = w;
	a->n_workers++;
	if (!rc)
		rc = give_line(w, l->config);
	if (rc) {
		kill(-w->pid, SIGKILL);		/* reaped as any other */
		return bace_fail_errno(e, -rc, "launch: rank %d", l->rank);
	}
	*answer = json_pack("{s:I,s:s,s:b}", "pid", (json_int_t)w->pid, "binding", binding, "bound", bind);
	return *answer ? 0 : bace_fail(e, ENOMEM, "launch: out of memory");
}

int worker_tell(struct agent *a, json_int_t cell, int rank, const json_t *line, struct bace_err *e)
{
	struct worker *w = find(a, cell, rank);
	int rc;

	if (!w)
		return bace_fail(e, ESRCH, "rank %d of cell %lld is not running", rank, (long long)cell);
	rc = give_line(w, line);
	return rc ? bace_fail_errno(e, -rc, "write to rank %d", rank) : 0;
}

static bool any_of(const struct agent *a, json_int_t cell)
{
	for (const struct worker *w = a->workers; w; w = w->next)
		if (!cell || w->cell == cell)
			return true;
	return false;
}

static void answer_stops(struct agent *a)
{
	for (struct stop_request **p = &a->stops; *p;) {
		struct stop_request *s = *p;

		if (any_of(a, s->cell)) {
			p = &s->next;
			continue;
		}
		*p = s->next;
		session_answer(a, s->session, s->id, NULL, NULL);
		free(s);
	}
}

void workers_stop(struct agent *a, json_int_t cell, json_int_t id)
{
	struct stop_request *s = id ? calloc(1, sizeof(*s)) : NULL;

	for (struct worker *w = a->workers; w; w = w->next)
		if (!cell || w->cell == cell)
			kill(-w->pid, SIGKILL);
	if (s) {
		*s = (struct stop_request){ .next = a->stops, .cell = cell, .id = id, .session = a->session };
		a->stops = s;
	}
	answer_stops(a);
}

void workers_each(const struct agent *a, void (*fn)(void *arg, pid_t pid), void *arg)
{
	for (const struct worker *w = a->workers; w; w = w->next)
		fn(arg, w->pid);
}

static void report_exit(struct worker *w, int status)
{
	json_t *text = json_string(w->err);

	session_event(w->agent, json_pack("{s:s,s:i,s:I,s:i,s:i,s:i,s:o}", "type", "exit", "id", 0,
		"cell", w->cell, "rank", w->rank, "status", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
		"signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0, "text", text ? text : json_string("")));
}

static void worker_ended(struct agent *a, struct worker *w, int status)
{
	/* What it started, if anything, goes with it. */
	kill(-w->pid, SIGKILL);
	/* A pipe holds 64 KiB or, at most, 1 MiB. */
	for (int i = 0; i < 32 && read_out(w) > 0; i++)
		;
	for (int i = 0; i < 32 && read_err(w) > 0; i++)
		;
	report_exit(w, status);
	for (struct worker **p = &a->workers; *p; p = &(*p)->next) {
		if (*p == w) {
			*p = w->next;
			break;
		}
	}
	a->n_workers--;
	worker_free(w);
}

static struct worker *by_pid(struct agent *a, pid_t pid)
{
	for (struct worker *w = a->workers; w; w = w->next)
		if (w->pid == pid)
			return w;
	return NULL;
}

/* This process is the subreaper: what a worker left behind, even in a session
 * of its own, is now its child. */
static void kill_orphans(struct agent *a)
{
	char path[64], list[4096];
	CLEANUP_FCLOSE FILE *f = NULL;
	size_t n;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "re");
	if (!f)
		return;
	n = fread(list, 1, sizeof(list) - 1, f);
	list[n] = '\0';
	for (char *save = NULL, *p = strtok_r(list, " ", &save); p; p = strtok_r(NULL, " ", &save)) {
		pid_t pid = (pid_t)strtol(p, NULL, 10);

		if (pid > 0 && !by_pid(a, pid))
			kill(pid, SIGKILL);
	}
}

static void reap(struct agent *a)
{
	bool ended = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct worker *w = by_pid(a, pid);

		ended = true;
		if (w)
			worker_ended(a, w, status);
	}
	if (ended)
		kill_orphans(a);
	answer_stops(a);
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
	for (int i = 0; a->workers && i < 500; i++) {
		reap(a);
		usleep(2000);
	}
	while (a->stops) {
		struct stop_request *s = a->stops;

		a->stops = s->next;
		free(s);
	}
	if (a->on_child)
		event_free(a->on_child);
}
