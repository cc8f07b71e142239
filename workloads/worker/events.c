#include "workloads/worker/events.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES (16u << 20)

void event_send(json_t *event)
{
	char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;

	json_decref(event);
	if (!text) {
		bace_log(BACE_ERROR, "worker", "an event could not be encoded");
		_exit(BACE_EXIT_FAILED);
	}
	/* Nobody listens any more; exit handlers, CUDA's among them, would wait for what
	 * hangs. */
	if (bace_write_all(1, text, strlen(text)) || bace_write_all(1, "\n", 1))
		_exit(BACE_EXIT_FAILED);
	free(text);
}

void event_listening(int hop, uint16_t port)
{
	event_send(json_pack("{s:s,s:i,s:i}", "event", "listening", "hop", hop, "port", (int)port));
}

static const char *cause(int errnum)
{
	switch (errnum) {
	case EINVAL:
	case ENOTSUP:
		return "input";
	case ETIMEDOUT:
		return "timeout";
	case EPROTO:
		return "protocol";
	case ECONNRESET:
	case ECONNREFUSED:
	case ECONNABORTED:
	case EPIPE:
	case EHOSTUNREACH:
	case ENETUNREACH:
		return "peer";
	}
	return "system";
}

void event_error(const struct bace_err *e)
{
	bace_log(BACE_ERROR, "worker", "%s", e->msg);
	event_send(json_pack("{s:s,s:s,s:s}", "event", "error", "cause", cause(e->errnum), "text", e->msg));
}

static json_t *take_line(struct commands *c, struct bace_err *e)
{
	char *nl = c->in.len ? memchr(c->in.p, '\n', c->in.len) : NULL;
	json_error_t je;
	json_t *j;
	size_t n;

	if (!nl)
		return NULL;
	n = (size_t)(nl - c->in.p);
	j = json_loadb(c->in.p, n, 0, &je);
	memmove(c->in.p, nl + 1, c->in.len - n - 1);
	c->in.len -= n + 1;
	if (!j)
		bace_fail(e, EPROTO, "command is not JSON: %s", je.text);
	return j;
}

json_t *command_next(struct commands *c, struct bace_err *e)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };
	char buf[65536];
	json_t *j = take_line(c, e);
	ssize_t n;

	if (j || e->errnum || c->eof)
		return j;
	/* Asked first rather than O_NONBLOCK, which stdout may share. */
	if (poll(&p, 1, 0) <= 0)
		return NULL;
	n = read(0, buf, sizeof(buf));
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		c->eof = true;
	if (n <= 0)
		return NULL;
	if (c->in.len + (size_t)n > LINE_MAX_BYTES || bace_buf_add(&c->in, buf, (size_t)n)) {
		bace_fail(e, EMSGSIZE, "command longer than %u bytes", LINE_MAX_BYTES);
		return NULL;
	}
	return take_line(c, e);
}
