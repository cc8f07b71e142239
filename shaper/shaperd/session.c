#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shaper/shaperd/shaperd.h"

struct session *session_new(int fd)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->fd = fd;
	s->last_heard_ns = bace_mono_ns();
	return s;
}

void session_free(struct session *s)
{
	if (!s)
		return;
	bace_cleanup_close(&s->fd);
	shape_stats_free(&s->stats);
	shape_spec_free(&s->spec);
	shape_trace_free(&s->trace);
	free(s);
}

static int answer(struct session *s, int status, const struct bace_err *e, uint32_t n_stats)
{
	ssize_t n;

	s->reply.magic = SHAPERD_MAGIC;
	s->reply.status = status;
	snprintf(s->reply.text, sizeof(s->reply.text), "%s", status ? e->msg : "");
	/* A client that does not read is not waited for. */
	n = send(s->fd, &s->reply, shaperd_reply_bytes(n_stats), MSG_NOSIGNAL | MSG_DONTWAIT);
	return n < 0 ? -errno : 0;
}

static int begin_spec(struct session *s, struct bace_err *e)
{
	uint32_t n = s->request.n, n_tables = (uint32_t)s->request.u.spec.n_tables;

	shape_spec_free(&s->spec);
	s->spec = s->request.u.spec;
	s->spec.links = NULL;
	s->spec.tables = NULL;
	s->spec.n_links = s->spec.n_tables = 0;
	s->links_expected = s->links_received = s->tables_expected = 0;
	if (n_tables > JITTER_TABLES_MAX)
		return bace_fail(e, EINVAL, "%u jitter tables: at most %d", n_tables, JITTER_TABLES_MAX);
	if (n > SHAPERD_LINKS_MAX)
		return bace_fail(e, EINVAL, "%u links: at most %d", n, SHAPERD_LINKS_MAX);
	s->spec.links = calloc(n + 1u, sizeof(*s->spec.links));
	s->spec.tables = calloc(n_tables + 1u, sizeof(*s->spec.tables));
	if (!s->spec.links || !s->spec.tables)
		return bace_fail(e, ENOMEM, "out of memory");
	s->links_expected = (int)n;
	s->tables_expected = (int)n_tables;
	return 0;
}

static int take_links(struct session *s)
{
	int n = (int)s->request.n;

	if (n > s->links_expected - s->links_received)
		return -EPROTO;
	memcpy(s->spec.links + s->links_received, s->request.u.links, (size_t)n * sizeof(*s->spec.links));
	s->links_received += n;
	return 0;
}

static int take_table(struct session *s)
{
	if (s->spec.n_tables == s->tables_expected)
		return -EPROTO;
	s->spec.tables[s->spec.n_tables++] = s->request.u.table;
	return 0;
}

static int apply(struct session *s, const struct shaperd_config *c, struct shaping *sh, struct bace_err *e)
{
	size_t changes = 0;
	int rc;

	if (!s->spec.links || s->links_received != s->links_expected || s->spec.n_tables != s->tables_expected)
		return bace_fail(e, EPROTO, "%d of %d links and %d of %d jitter tables were sent", s->links_received,
				 s->links_expected, s->spec.n_tables, s->tables_expected);
	s->spec.n_links = s->links_received;
	rc = access_check_spec(c, &s->spec, e);
	if (!rc)
		rc = shaping_apply(sh, &s->spec, &changes, e);
	s->reply.n = (uint32_t)changes;
	return rc;
}

static int begin_trace(struct session *s, struct bace_err *e)
{
	size_t n = s->request.n;

	shape_trace_free(&s->trace);
	s->trace_head = s->request.u.trace;
	s->points_expected = 0;
	if (n > SHAPE_TRACE_POINTS_MAX)
		return bace_fail(e, EINVAL, "a trace of %zu points: at most %d", n, SHAPE_TRACE_POINTS_MAX);
	s->trace.v = calloc(n + 1, sizeof(*s->trace.v));
	if (!s->trace.v)
		return bace_fail(e, ENOMEM, "out of memory");
	s->trace.period_ns = s->trace_head.period_ns;
	s->points_expected = n;
	return 0;
}

static int take_points(struct session *s)
{
	size_t n = s->request.n;

	if (!s->trace.v || n > s->points_expected - s->trace.n)
		return -EPROTO;
	memcpy(s->trace.v + s->trace.n, s->request.u.points, n * sizeof(*s->trace.v));
	s->trace.n += n;
	return 0;
}

static int play(struct session *s, struct shaping *sh, struct bace_err *e)
{
	if (!s->trace.v || s->trace.n != s->points_expected)
		return bace_fail(e, EPROTO, "%zu of %zu points of the trace were sent", s->trace.n, s->points_expected);
	return shaping_play(sh, s->trace_head.region, &s->trace, s->trace_head.loop != 0,
			    s->trace_head.start_real_ns, e);
}

/* How many of the read-out went into the reply. */
static uint32_t put_stats(struct session *s, uint32_t from)
{
	uint32_t total = (uint32_t)s->stats.n, n = from < total ? total - from : 0;

	if (n > SHAPERD_STATS_PER_MESSAGE)
		n = SHAPERD_STATS_PER_MESSAGE;
	s->reply.stats = s->stats;
	s->reply.stats.v = NULL;
	s->reply.n = n;
	if (n)
		memcpy(s->reply.v, s->stats.v + from, n * sizeof(*s->stats.v));
	return n;
}

static int serve_stats(struct session *s, struct shaping *sh)
{
	struct bace_err e = { 0 };
	uint32_t n;
	int rc = 0;

	if (s->request.type == SHAPERD_STATS) {
		shape_stats_free(&s->stats);
		rc = shaping_stats(sh, &s->stats, &e);
	}
	n = rc ? 0 : put_stats(s, s->request.type == SHAPERD_STATS ? 0 : s->request.n);
	return answer(s, rc, &e, n);
}

static int check_greeting(struct session *s, struct bace_err *e)
{
	if (s->request.version != SHAPERD_VERSION)
		return bace_fail(e, EPROTO, "protocol version %08x, this daemon speaks %08x: install both from one build",
				 s->request.version, SHAPERD_VERSION);
	s->greeted = true;
	return 0;
}

/* Who holds the lease learns of a dead delay line within a keepalive's period. */
static int check_line(const struct shaping *sh, struct bace_err *e)
{
	struct pollfd p = { .fd = shaping_dead_fd(sh), .events = POLLIN };

	if (p.fd < 0 || poll(&p, 1, 0) <= 0)
		return 0;
	return bace_fail(e, EIO, "its delay line died");
}

static int check_standing(const struct shaping *sh, struct bace_err *e)
{
	int rc = check_line(sh, e);

	return rc ? rc : shaping_lost(sh, e);
}

static int serve(struct session *s, const struct shaperd_config *c, struct shaping *sh)
{
	struct bace_err e = { 0 };

	s->reply.n = 0;
	switch (s->request.type) {
	case SHAPERD_HELLO:
		return answer(s, check_greeting(s, &e), &e, 0);
	case SHAPERD_SPEC:
		return answer(s, begin_spec(s, &e), &e, 0);
	case SHAPERD_LINKS:
		return take_links(s);
	case SHAPERD_TABLE:
		return take_table(s);
	case SHAPERD_APPLY:
		return answer(s, apply(s, c, sh, &e), &e, 0);
	case SHAPERD_STATS:
	case SHAPERD_STATS_NEXT:
		return serve_stats(s, sh);
	case SHAPERD_KEEPALIVE:
		return answer(s, check_standing(sh, &e), &e, 0);
	case SHAPERD_CHANGE:
		return answer(s, shaping_change(sh, s->request.u.changes, (int)s->request.n, &e), &e, 0);
	case SHAPERD_TRACE:
		return answer(s, begin_trace(s, &e), &e, 0);
	case SHAPERD_POINTS:
		return take_points(s);
	case SHAPERD_PLAY:
		return answer(s, play(s, sh, &e), &e, 0);
	case SHAPERD_CLEAR:
		return answer(s, shaping_clear(sh, &e), &e, 0);
	default:
		return -EPROTO;
	}
}

int session_serve(struct session *s, const struct shaperd_config *c, struct shaping *sh)
{
	const struct shaperd_request *r = &s->request;
	size_t want;
	ssize_t n = recv(s->fd, &s->request, sizeof(s->request), MSG_DONTWAIT);
	int rc;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (!n)
		return -EPIPE;
	if ((size_t)n < offsetof(struct shaperd_request, u) || r->magic != SHAPERD_MAGIC)
		return -EPROTO;
	want = shaperd_request_bytes(r->type, r->n);
	if (!want || (size_t)n != want || (!s->greeted && r->type != SHAPERD_HELLO))
		return -EPROTO;
	rc = serve(s, c, sh);
	/* A client that waits for its answer cannot say that it lives. */
	s->last_heard_ns = bace_mono_ns();
	return rc;
}
