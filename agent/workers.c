#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "agent/worker.h"

#define WORKERS_MAX 1024
#define STDIN_QUEUE_MAX (8u << 20)	/* of all workers: a bad controller must not fill this host's memory */

struct stop_request {
	struct stop_request *next;
	json_int_t cell, id;
	uint32_t session;
};

/* Of this session: what is left of the last one is nobody's any more. */
static struct worker *find(struct agent *a, json_int_t cell, int rank)
{
	for (struct worker *w = a->workers; w; w = w->next)
		if (w->session == a->session && w->cell == cell && w->rank == rank)
			return w;
	return NULL;
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
	w->pid = s->pid;
	w->out_fd = STEAL_FD(s->out);
	w->err_fd = STEAL_FD(s->err);
	w->in = bufferevent_socket_new(w->agent->base, s->in, BEV_OPT_CLOSE_ON_FREE);
	if (!w->in)
		return -ENOMEM;
	s->in = -1;
	if (output_watch(w))
		return -ENOMEM;
	bufferevent_disable(w->in, EV_READ);
	return bufferevent_enable(w->in, EV_WRITE) ? -ENOMEM : 0;
}

static size_t stdin_queued(const struct agent *a)
{
	size_t sum = 0;

	for (const struct worker *w = a->workers; w; w = w->next)
		sum += w->in ? evbuffer_get_length(bufferevent_get_output(w->in)) : 0;
	return sum;
}

static int give_line(struct worker *w, const json_t *line)
{
	CLEANUP_FREE char *text = json_dumps(line, JSON_COMPACT);
	size_t n = text ? strlen(text) : 0;

	if (!text)
		return -ENOMEM;
	if (stdin_queued(w->agent) + n > STDIN_QUEUE_MAX)
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
	*w = (struct worker){ .agent = a, .session = a->session, .cell = l->cell, .rank = l->rank, .out_fd = -1,
			      .err_fd = -1 };
	bind = binder_choose(a->binder, l->slot, l->slots, l->nic, &cpus, binding, sizeof(binding));
	rc = spawn_worker(path, bind ? &cpus : NULL, &s, e);
	if (rc) {
		free(w);
		return rc;
	}
	if (bind && !s.bound) {
		bind = false;
		snprintf(binding, sizeof(binding), "not bound: the kernel did not give it the processors chosen");
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
		if (w->pid && (!cell || w->cell == cell))
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
		if (w->pid)
			fn(arg, w->pid);
}

void worker_gone(struct worker *w)
{
	struct agent *a = w->agent;

	for (struct worker **p = &a->workers; *p; p = &(*p)->next) {
		if (*p == w) {
			*p = w->next;
			break;
		}
	}
	a->n_workers--;
	worker_free(w);
	answer_stops(a);
}

void workers_free(struct agent *a)
{
	while (a->workers)
		worker_gone(a->workers);
	while (a->stops) {
		struct stop_request *s = a->stops;

		a->stops = s->next;
		free(s);
	}
}
