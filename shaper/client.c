#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "shaper/shaperd/protocol.h"

#define HELLO_S 5

struct shaperd_client {
	int fd;
	int changes;	/* of the last plan */
	struct shaperd_request request;
	struct shaperd_reply reply;
};

static int send_request(struct shaperd_client *c, uint32_t type, uint32_t n, struct bace_err *e)
{
	size_t bytes = shaperd_request_bytes(type, n);
	ssize_t sent;

	c->request.magic = SHAPERD_MAGIC;
	c->request.version = SHAPERD_VERSION;
	c->request.type = type;
	c->request.n = n;
	do
		sent = send(c->fd, &c->request, bytes, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	/* A daemon that refuses says why and hangs up: its words may already wait. */
	if (sent < 0 && errno == EPIPE)
		return 0;
	return sent == (ssize_t)bytes ? 0 : bace_fail_errno(e, errno, "send to bace-shaperd");
}

static int receive_reply(struct shaperd_client *c, struct bace_err *e)
{
	ssize_t n;

	bool reset_seen = false;

	/* ECONNRESET comes before a last reply that is still queued. */
	do
		n = recv(c->fd, &c->reply, sizeof(c->reply), 0);
	while (n < 0 && (errno == EINTR || (errno == ECONNRESET && !reset_seen && (reset_seen = true))));
	if (n < 0 && errno == EAGAIN)
		return bace_fail(e, ETIMEDOUT, "it does not answer");
	if (n < 0)
		return bace_fail_errno(e, errno, "hear from bace-shaperd");
	if (!n)
		return bace_fail(e, EPIPE, "bace-shaperd closed the connection");
	if ((size_t)n < shaperd_reply_bytes(0) || c->reply.magic != SHAPERD_MAGIC)
		return bace_fail(e, EPROTO, "bace-shaperd speaks another protocol version");
	c->reply.text[sizeof(c->reply.text) - 1] = '\0';
	if (c->reply.status)
		return bace_fail(e, -c->reply.status, "%s", c->reply.text);
	return 0;
}

static int ask(struct shaperd_client *c, uint32_t type, uint32_t n, struct bace_err *e)
{
	int rc = send_request(c, type, n, e);

	return rc ? rc : receive_reply(c, e);
}

/* A daemon that is stopped must not stop its clients; a large plan may take its time. */
static void patience(const struct shaperd_client *c, time_t seconds)
{
	const struct timeval tv = { .tv_sec = seconds };

	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	/* Connecting too waits, where those who came before fill its backlog. */
	setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

static int begin(struct shaperd_client *c, const struct sockaddr_un *sa, struct bace_err *e)
{
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return bace_fail_errno(e, errno, "connect to bace-shaperd at %s", sa->sun_path);
	patience(c, HELLO_S);
	if (!connect(c->fd, (const struct sockaddr *)sa, sizeof(*sa)))
		return 0;
	return errno == EAGAIN ? bace_fail(e, ETIMEDOUT, "connect to bace-shaperd at %s: it takes no connections",
					   sa->sun_path)
			       : bace_fail_errno(e, errno, "connect to bace-shaperd at %s", sa->sun_path);
}

int shaperd_connect(const char *socket_path, struct shaperd_client **out, struct bace_err *e)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct shaperd_client *c;
	int rc;

	if (strlen(socket_path) >= sizeof(sa.sun_path))
		return bace_fail(e, ENAMETOOLONG, "connect to bace-shaperd at %s: the path is too long", socket_path);
	strcpy(sa.sun_path, socket_path);
	c = calloc(1, sizeof(*c));
	if (!c)
		return bace_fail(e, ENOMEM, "out of memory");
	rc = begin(c, &sa, e);
	if (rc) {
		shaperd_close(c);
		return rc;
	}
	rc = ask(c, SHAPERD_HELLO, 0, e);
	patience(c, 0);
	if (rc) {
		shaperd_close(c);
		return bace_err_context(e, "bace-shaperd at %s", socket_path);
	}
	*out = c;
	return 0;
}

void shaperd_close(struct shaperd_client *c)
{
	if (!c)
		return;
	bace_cleanup_close(&c->fd);
	free(c);
}

int shaperd_fd(const struct shaperd_client *c)
{
	return c->fd;
}

int shaperd_plan(struct shaperd_client *c, const struct shape_spec *s, struct bace_err *e)
{
	int rc, sent = 0;

	c->request.u.spec = *s;
	c->request.u.spec.links = NULL;
	c->request.u.spec.tables = NULL;
	rc = ask(c, SHAPERD_SPEC, (uint32_t)s->n_links, e);
	for (int i = 0; i < s->n_tables && !rc; i++) {
		c->request.u.table = s->tables[i];
		rc = send_request(c, SHAPERD_TABLE, 1, e);
	}
	while (!rc && sent < s->n_links) {
		int n = s->n_links - sent;

		n = n < SHAPERD_LINKS_PER_MESSAGE ? n : SHAPERD_LINKS_PER_MESSAGE;
		memcpy(c->request.u.links, s->links + sent, (size_t)n * sizeof(*s->links));
		rc = send_request(c, SHAPERD_LINKS, (uint32_t)n, e);
		sent += n;
	}
	if (!rc)
		rc = ask(c, SHAPERD_APPLY, (uint32_t)s->n_links, e);
	c->changes = rc ? 0 : (int)c->reply.n;
	return rc;
}

int shaperd_changes(const struct shaperd_client *c)
{
	return c->changes;
}

int shaperd_stats(struct shaperd_client *c, struct shape_stats *out, struct bace_err *e)
{
	int rc = ask(c, SHAPERD_STATS, 0, e), have = 0;

	if (rc)
		return rc;
	*out = c->reply.stats;
	out->v = calloc((size_t)out->n + 1, sizeof(*out->v));
	if (!out->v)
		return bace_fail(e, ENOMEM, "out of memory");
	for (;;) {
		uint32_t n = c->reply.n;

		if (n > SHAPERD_STATS_PER_MESSAGE || (int)n > out->n - have) {
			shape_stats_free(out);
			return bace_fail(e, EPROTO, "bace-shaperd sent more statistics than it announced");
		}
		memcpy(out->v + have, c->reply.v, n * sizeof(*out->v));
		have += (int)n;
		if (have >= out->n)
			return 0;
		rc = n ? ask(c, SHAPERD_STATS_NEXT, (uint32_t)have, e)
		       : bace_fail(e, EPROTO, "bace-shaperd sent fewer statistics than it announced");
		if (rc) {
			shape_stats_free(out);
			return rc;
		}
	}
}

int shaperd_change(struct shaperd_client *c, const struct shape_change *v, int n, struct bace_err *e)
{
	if (n < 1 || n > SHAPERD_CHANGES_MAX)
		return bace_fail(e, EINVAL, "%d changes at once: must be 1 to %d", n, SHAPERD_CHANGES_MAX);
	memcpy(c->request.u.changes, v, (size_t)n * sizeof(*v));
	return ask(c, SHAPERD_CHANGE, (uint32_t)n, e);
}

int shaperd_trace(struct shaperd_client *c, uint16_t region, const struct shape_trace *t, bool loop,
		  int64_t start_real_ns, struct bace_err *e)
{
	size_t sent = 0;
	int rc;

	c->request.u.trace = (struct shaperd_trace_head){
		.region = region, .loop = loop, .period_ns = t->period_ns, .start_real_ns = start_real_ns };
	rc = ask(c, SHAPERD_TRACE, (uint32_t)t->n, e);
	while (!rc && sent < t->n) {
		size_t n = t->n - sent < SHAPERD_POINTS_PER_MESSAGE ? t->n - sent : SHAPERD_POINTS_PER_MESSAGE;

		memcpy(c->request.u.points, t->v + sent, n * sizeof(*t->v));
		rc = send_request(c, SHAPERD_POINTS, (uint32_t)n, e);
		sent += n;
	}
	return rc ? rc : ask(c, SHAPERD_PLAY, (uint32_t)t->n, e);
}

int shaperd_keepalive(struct shaperd_client *c, struct bace_err *e)
{
	return ask(c, SHAPERD_KEEPALIVE, 0, e);
}

int shaperd_clear(struct shaperd_client *c, struct bace_err *e)
{
	return ask(c, SHAPERD_CLEAR, 0, e);
}
