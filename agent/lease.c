#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "agent/monitor/monitor.h"

#define QUEUE_MAX 64
#define QUEUE_MAX_BYTES (8u << 20)
/* Both together less than a worker's peer takes to be given up: a delay line that
 * stands still is to be named, not the connections that stop with it. */
#define KEEPALIVE_MS 400
#define ANSWER_MS 1400		/* for bace-shaperd to answer */
#define PLAN_MS 10000
#define CONNECT_S 5.0		/* it may be starting, or undoing the last lease */
#define RETRY_US 20000

enum lease_op { LEASE_PLAN, LEASE_CHANGE, LEASE_TRACE, LEASE_STATS, LEASE_DROP, LEASE_LOST, LEASE_SAMPLE };

struct lease_job {
	struct lease_job *next;
	size_t bytes;			/* of what it is to do with */
	enum lease_op op;
	uint32_t session;
	json_int_t id;
	struct shape_spec spec;
	struct shape_change *change;
	int n_change;
	struct wire_trace head;
	struct shape_trace trace;
	int changes;
	struct shape_stats stats;
	int rc;
	struct bace_err e;
};

struct job_list {
	struct lease_job *first, **last;
	int n;
	size_t bytes;
};

struct lease {
	struct agent *agent;
	pthread_t thread;
	pthread_mutex_t lock;
	struct job_list todo, done;
	int fd;				/* of the client, to interrupt a blocked call; -1 */
	bool quit;
	int drops;			/* asked for and not carried out: the end of the connection is no loss */
	int wake;			/* eventfd to the thread */
	int ready;			/* eventfd to the loop */
	struct event *on_ready;
	struct shaperd_client *client;	/* the thread's */
	uint32_t session;		/* the thread's: whose plan is applied */
	bool sampling;			/* the loop's: an answer is on its way */
};

static void list_add(struct job_list *l, struct lease_job *j)
{
	j->next = NULL;
	*l->last = j;
	l->last = &j->next;
	l->n++;
	l->bytes += j->bytes;
}

static struct lease_job *list_take(struct job_list *l)
{
	struct lease_job *j = l->first;

	if (!j)
		return NULL;
	l->first = j->next;
	if (!l->first)
		l->last = &l->first;
	l->n--;
	l->bytes -= j->bytes;
	return j;
}

static void job_free(struct lease_job *j)
{
	shape_spec_free(&j->spec);
	free(j->change);
	shape_trace_free(&j->trace);
	shape_stats_free(&j->stats);
	free(j);
}

static void signal_fd(int fd)
{
	uint64_t one = 1;

	/* Full means that it is signalled already. */
	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

static void finish(struct lease *l, struct lease_job *j)
{
	pthread_mutex_lock(&l->lock);
	list_add(&l->done, j);
	pthread_mutex_unlock(&l->lock);
	signal_fd(l->ready);
}

static void publish_fd(struct lease *l, int fd)
{
	pthread_mutex_lock(&l->lock);
	l->fd = fd;
	pthread_mutex_unlock(&l->lock);
}

static void disconnect(struct lease *l)
{
	publish_fd(l, -1);
	shaperd_close(l->client);
	l->client = NULL;
}

static void limit_answer(const struct lease *l, int ms)
{
	struct timeval limit = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	setsockopt(shaperd_fd(l->client), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(shaperd_fd(l->client), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static bool is_dropping(struct lease *l)
{
	bool is;

	pthread_mutex_lock(&l->lock);
	is = l->drops > 0 || l->quit;
	pthread_mutex_unlock(&l->lock);
	return is;
}

static int connect_shaperd(struct lease *l, struct bace_err *e)
{
	int64_t until = bace_mono_ns() + (int64_t)(CONNECT_S * 1e9);
	int rc;

	if (l->client)
		return 0;
	if (!l->agent->cfg.shaperd_path)
		return bace_fail(e, ENOSYS, "agent was started without --shaperd: it cannot shape");
	while ((rc = shaperd_connect(l->agent->cfg.shaperd_path, &l->client, e)) &&
	       (rc == -ENOENT || rc == -ECONNREFUSED || rc == -EBUSY) && bace_mono_ns() < until && !is_dropping(l))
		usleep(RETRY_US);
	/* Nobody shapes on this host: no fault of what was asked for. */
	if (rc)
		return rc == -ENOENT || rc == -ECONNREFUSED ? -(e->errnum = ENOSYS) : rc;
	publish_fd(l, shaperd_fd(l->client));
	return 0;
}

/* After these the connection is out of step or dead, not the request bad. */
static bool connection_broken(int rc)
{
	return rc == -EPIPE || rc == -EAGAIN || rc == -ECONNRESET || rc == -EPROTO || rc == -ETIMEDOUT;
}

static void report_lost(struct lease *l, const char *why)
{
	struct lease_job *j = is_dropping(l) ? NULL : calloc(1, sizeof(*j));

	disconnect(l);
	if (!j)
		return;
	j->op = LEASE_LOST;
	j->session = l->session;
	bace_fail(&j->e, EPIPE, "%s", why);
	finish(l, j);
}

static int nothing_shaped(struct lease_job *j)
{
	return bace_fail(&j->e, ENOTCONN, "nothing is shaped on this host: no plan, or bace-shaperd is gone");
}

/* A plan that waited for bace-shaperd may be that of a controller that is gone. */
static bool is_late(const struct lease *l, const struct lease_job *j)
{
	return (j->op == LEASE_PLAN || j->op == LEASE_CHANGE || j->op == LEASE_TRACE) &&
	       j->session != __atomic_load_n(&l->agent->session, __ATOMIC_RELAXED);
}

static void drop(struct lease *l)
{
	disconnect(l);
	pthread_mutex_lock(&l->lock);
	l->drops--;
	pthread_mutex_unlock(&l->lock);
}

/* Of our monotonic clock: bace-shaperd is told the time of day of this host. */
static int64_t trace_start_real_ns(const struct wire_trace *t)
{
	return t->start_mono_ns ? bace_wall_ns() + (t->start_mono_ns - bace_mono_ns()) : t->start_real_ns;
}

static void do_job(struct lease *l, struct lease_job *j)
{
	if (is_late(l, j)) {
		j->rc = -ECANCELED;
		finish(l, j);
		return;
	}
	switch (j->op) {
	case LEASE_PLAN:
		j->rc = connect_shaperd(l, &j->e);
		if (j->rc)
			break;
		l->session = j->session;
		limit_answer(l, PLAN_MS);
		j->rc = shaperd_plan(l->client, &j->spec, &j->e);
		limit_answer(l, ANSWER_MS);
		if (!j->rc)
			j->changes = shaperd_changes(l->client);
		break;
	case LEASE_CHANGE:
		j->rc = l->client ? shaperd_change(l->client, j->change, j->n_change, &j->e) : nothing_shaped(j);
		break;
	case LEASE_TRACE:
		j->rc = l->client ? shaperd_trace(l->client, j->head.region, &j->trace, j->head.loop,
						  trace_start_real_ns(&j->head), &j->e)
				  : nothing_shaped(j);
		break;
	case LEASE_STATS:
		j->rc = l->client ? shaperd_stats(l->client, &j->stats, &j->e) : nothing_shaped(j);
		break;
	case LEASE_SAMPLE:
		j->rc = l->client ? shaperd_stats(l->client, &j->stats, &j->e) : -ENOTCONN;
		break;
	case LEASE_DROP:
		drop(l);
		break;
	case LEASE_LOST:
		break;
	}
	if (j->rc && l->client && connection_broken(j->rc))
		report_lost(l, j->e.msg);
	finish(l, j);
}

static void keep_alive(struct lease *l)
{
	struct bace_err e = { 0 };

	if (l->client && shaperd_keepalive(l->client, &e))
		report_lost(l, e.msg);
}

static struct lease_job *next_job(struct lease *l, bool *quit)
{
	struct lease_job *j;

	pthread_mutex_lock(&l->lock);
	j = list_take(&l->todo);
	*quit = l->quit;
	pthread_mutex_unlock(&l->lock);
	return j;
}

static void *lease_thread(void *arg)
{
	struct lease *l = arg;
	int64_t kept_ns = bace_mono_ns();
	uint64_t count;
	bool quit;

	for (;;) {
		struct lease_job *j = next_job(l, &quit);

		if (quit) {
			if (j)
				job_free(j);
			break;
		}
		if (j) {
			do_job(l, j);
			continue;
		}
		struct pollfd p[2] = { { .fd = l->wake, .events = POLLIN },
				       { .fd = l->client ? shaperd_fd(l->client) : -1, .events = POLLIN } };
		int n = poll(p, 2, l->client ? KEEPALIVE_MS : -1);

		if (n > 0 && p[0].revents && read(l->wake, &count, sizeof(count)) < 0)
			continue;
		/* Between requests it has nothing to say but that it is gone. */
		if (n > 0 && p[1].revents)
			report_lost(l, "bace-shaperd is gone");
		if (bace_mono_ns() - kept_ns >= KEEPALIVE_MS * 1000000ll) {
			keep_alive(l);
			kept_ns = bace_mono_ns();
		}
	}
	disconnect(l);
	return NULL;
}

static void deliver(struct lease *l, struct lease_job *j)
{
	struct agent *a = l->agent;
	json_t *body = NULL;

	if (j->op == LEASE_LOST) {
		bace_log(BACE_WARN, "lease", "%s", j->e.msg);
		if (a->accepted && j->session == a->session)
			session_event(a, json_pack("{s:s,s:i,s:s}", "type", "lease_lost", "id", 0,
						   "text", j->e.msg));
		return;
	}
	if (j->op == LEASE_SAMPLE) {
		l->sampling = false;
		if (!j->rc)
			monitor_take_shaper(a->monitor, &j->stats);
		return;
	}
	if (!j->id)
		return;
	if (!j->rc && j->op == LEASE_PLAN)
		body = json_pack("{s:i}", "changes", j->changes);
	else if (!j->rc && j->op == LEASE_STATS)
		body = json_pack("{s:o}", "stats", wire_encode_stats(&j->stats));
	session_answer(a, j->session, j->id, body, j->rc ? &j->e : NULL);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct lease *l = arg;
	struct job_list done;
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
	pthread_mutex_lock(&l->lock);
	done = l->done;
	l->done = (struct job_list){ .last = &l->done.first };
	pthread_mutex_unlock(&l->lock);
	while (done.first) {
		struct lease_job *j = done.first;

		done.first = j->next;
		deliver(l, j);
		job_free(j);
	}
}

static size_t bytes_of(const struct lease_job *j)
{
	return sizeof(*j) + (size_t)j->spec.n_links * sizeof(*j->spec.links) +
	       (size_t)j->spec.n_tables * sizeof(*j->spec.tables) + (size_t)j->n_change * sizeof(*j->change) +
	       j->trace.n * sizeof(*j->trace.v);
}

/* `with`: what the job is to do with, moved into it. */
static void submit(struct lease *l, enum lease_op op, json_int_t id, struct lease_job *with)
{
	struct lease_job *j = calloc(1, sizeof(*j));
	struct bace_err e = { 0 };
	bool full;

	if (j) {
		if (with)
			*j = *with;
		j->op = op;
		j->id = id;
		j->session = l->agent->session;
		j->bytes = bytes_of(j);
		pthread_mutex_lock(&l->lock);
		full = (l->todo.n >= QUEUE_MAX || l->todo.bytes + j->bytes > QUEUE_MAX_BYTES) && op != LEASE_DROP;
		if (!full)
			list_add(&l->todo, j);
		l->drops += op == LEASE_DROP;
		pthread_mutex_unlock(&l->lock);
		if (!full) {
			signal_fd(l->wake);
			return;
		}
		job_free(j);
	} else if (with) {
		shape_spec_free(&with->spec);
		free(with->change);
		shape_trace_free(&with->trace);
	}
	if (op == LEASE_SAMPLE) {
		l->sampling = false;	/* the next one, then */
		return;
	}
	bace_fail(&e, EBUSY, "too many requests wait for bace-shaperd");
	session_answer(l->agent, l->agent->session, id, NULL, &e);
}

void lease_plan(struct lease *l, json_int_t id, struct shape_spec *spec)
{
	struct lease_job with = { .spec = *spec };

	*spec = (struct shape_spec){ 0 };
	submit(l, LEASE_PLAN, id, &with);
}

void lease_change(struct lease *l, json_int_t id, struct shape_change *v, int n)
{
	struct lease_job with = { .change = v, .n_change = n };

	submit(l, LEASE_CHANGE, id, &with);
}

void lease_trace(struct lease *l, json_int_t id, const struct wire_trace *head, struct shape_trace *t)
{
	struct lease_job with = { .head = *head, .trace = *t };

	*t = (struct shape_trace){ 0 };
	submit(l, LEASE_TRACE, id, &with);
}

void lease_stats(struct lease *l, json_int_t id)
{
	submit(l, LEASE_STATS, id, NULL);
}

void lease_sample(struct lease *l)
{
	if (l->sampling || !l->agent->cfg.shaperd_path)
		return;
	l->sampling = true;
	submit(l, LEASE_SAMPLE, 0, NULL);
}

void lease_drop(struct lease *l, json_int_t id)
{
	submit(l, LEASE_DROP, id, NULL);
	/* A call that waits for an answer returns now; shaperd sees the end of the
	 * connection and reverts, whatever this process does next. */
	pthread_mutex_lock(&l->lock);
	if (l->fd >= 0)
		shutdown(l->fd, SHUT_RDWR);
	pthread_mutex_unlock(&l->lock);
}

int lease_open(struct agent *a, struct lease **out, struct bace_err *e)
{
	struct lease *l = calloc(1, sizeof(*l));
	sigset_t all, old;
	int rc;

	if (!l)
		return bace_fail(e, ENOMEM, "out of memory");
	*l = (struct lease){ .agent = a, .fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER };
	l->todo.last = &l->todo.first;
	l->done.last = &l->done.first;
	l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l->ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake < 0 || l->ready < 0)
		return bace_fail_errno(e, errno, "eventfd");
	l->on_ready = event_new(a->base, l->ready, EV_READ | EV_PERSIST, on_ready, l);
	if (!l->on_ready || event_add(l->on_ready, NULL))
		return bace_fail(e, ENOMEM, "out of memory");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&l->thread, NULL, lease_thread, l);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return bace_fail_errno(e, rc, "start a thread");
	*out = l;
	return 0;
}

void lease_close(struct lease *l)
{
	struct lease_job *j;

	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->quit = true;
	if (l->fd >= 0)
		shutdown(l->fd, SHUT_RDWR);
	pthread_mutex_unlock(&l->lock);
	signal_fd(l->wake);
	pthread_join(l->thread, NULL);
	while ((j = list_take(&l->todo)))
		job_free(j);
	while ((j = list_take(&l->done)))
		job_free(j);
	event_free(l->on_ready);
	close(l->wake);
	close(l->ready);
	free(l);
}
