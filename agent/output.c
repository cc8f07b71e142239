/* What workers write: events to the controller, standard error to this process's. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/worker.h"

#define PIECE 65536
#define PAUSE_QUEUED (1u << 20)		/* towards the controller: stop reading workers */
#define PAUSE_US 5000
#define ERR_BYTES_PER_S 65536		/* of each worker, passed on */
/* A pipe holds 64 KiB or, at most, 1 MiB; what still writes into one whose worker
 * has ended writes for nobody. */
#define REST_OUT_READS 32
#define REST_ERR_READS 512

size_t output_cut_tail(const char *p, size_t n)
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

/* ---- standard output ---- */

static void tell(struct worker *w, json_t *event)
{
	if (w->session == w->agent->session)
		session_event(w->agent, event);
	else
		json_decref(event);
}

/* A zero byte is UTF-8, and no JSON text that the controller takes. */
static void forward(struct worker *w, const char *p, size_t n)
{
	json_t *text = memchr(p, '\0', n) ? NULL : json_stringn(p, n);

	if (!text)
		text = json_string("{\"event\":\"error\",\"text\":\"its output is not UTF-8\"}\n");
	tell(w, json_pack("{s:s,s:i,s:I,s:i,s:o}", "type", "output", "id", 0, "cell", w->cell, "rank", w->rank,
			  "text", text));
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
	cut = output_cut_tail(buf, n);
	w->n_held = cut;
	memcpy(w->held, buf + n - cut, cut);
	if (n > cut)
		forward(w, buf, n - cut);
	return 1;
}

/* The pipe holds the worker back, not this process's memory. Asked before each
 * read: all workers of a host may have something to say in one turn of the loop. */
static bool must_pause(struct worker *w)
{
	struct timeval pause = { .tv_usec = PAUSE_US };

	if (w->session != w->agent->session || !w->agent->conn || wire_queued(w->agent->conn) <= PAUSE_QUEUED ||
	    !w->on_out || !w->resume)
		return false;
	event_del(w->on_out);
	event_add(w->resume, &pause);
	return true;
}

static void on_out(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;

	if (!must_pause(w) && read_out(w) < 0)
		event_del(w->on_out);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;

	if (!w->pid)
		output_finish(w);
	else if (!must_pause(w))
		event_add(w->on_out, NULL);
}

/* ---- standard error ---- */

/* Blocking there would be silence towards the controller. */
static bool err_is_writable(void)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

	return poll(&p, 1, 0) == 1 && p.revents & POLLOUT;
}

static void say_left_out(struct worker *w)
{
	if (!w->err_left_out || !err_is_writable())
		return;
	bace_log(BACE_WARN, "workers", "rank %d of cell %lld: %zu bytes of its standard error left out", w->rank,
		 (long long)w->cell, w->err_left_out);
	w->err_left_out = 0;
}

static void pass_on(struct worker *w, const char *p, size_t n)
{
	int64_t now_ns = bace_mono_ns();

	if (now_ns - w->err_since_ns >= 1000000000) {
		w->err_since_ns = now_ns;
		w->err_passed = 0;
		say_left_out(w);
	}
	if (w->err_passed + n > ERR_BYTES_PER_S || !err_is_writable()) {
		w->err_left_out += n;
		return;
	}
	w->err_passed += n;
	bace_write_all(STDERR_FILENO, p, n);
}

/* The reason of a death is told whatever bytes it is made of. */
static void keep_tail(struct worker *w, const char *p, size_t n)
{
	size_t keep = n > WORKER_ERR_TAIL ? WORKER_ERR_TAIL : n;
	size_t drop = w->n_err + keep > WORKER_ERR_TAIL ? w->n_err + keep - WORKER_ERR_TAIL : 0;

	memmove(w->err, w->err + drop, w->n_err - drop);
	w->n_err -= drop;
	for (size_t i = n - keep; i < n; i++)
		w->err[w->n_err++] = p[i] == '\n' || (p[i] >= 0x20 && p[i] <= 0x7e) ? p[i] : '?';
	w->err[w->n_err] = '\0';
}

static int read_err(struct worker *w)
{
	char buf[2048];		/* at most PIPE_BUF: a pipe that is writable takes it whole */
	ssize_t n = read(w->err_fd, buf, sizeof(buf));

	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
	pass_on(w, buf, (size_t)n);
	keep_tail(w, buf, (size_t)n);
	return 1;
}

static void on_err(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;

	if (read_err(w) < 0)
		event_del(w->on_err);
}

/* ---- life ---- */

int output_watch(struct worker *w)
{
	struct event_base *base = w->agent->base;

	w->on_out = event_new(base, w->out_fd, EV_READ | EV_PERSIST, on_out, w);
	w->on_err = event_new(base, w->err_fd, EV_READ | EV_PERSIST, on_err, w);
	w->resume = evtimer_new(base, on_resume, w);
	if (!w->on_out || !w->on_err || !w->resume)
		return -ENOMEM;
	event_add(w->on_out, NULL);
	event_add(w->on_err, NULL);
	return 0;
}

void output_finish(struct worker *w)
{
	do {
		if (must_pause(w))
			return;
	} while (w->n_rest++ < REST_OUT_READS && read_out(w) > 0);
	for (int i = 0; i < REST_ERR_READS && read_err(w) > 0; i++)
		;
	say_left_out(w);
	tell(w, json_pack("{s:s,s:i,s:I,s:i,s:i,s:i,s:i,s:s}", "type", "exit", "id", 0, "cell", w->cell, "rank", w->rank,
		"stopped", w->n_stopped,
		"status", WIFEXITED(w->status) ? WEXITSTATUS(w->status) : -1,
		"signal", WIFSIGNALED(w->status) ? WTERMSIG(w->status) : 0, "text", w->err));
	worker_gone(w);
}
