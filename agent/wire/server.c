#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <event2/listener.h>
#include <openssl/crypto.h>

#include "agent/wire/conn.h"

#define UNAUTHENTICATED_MAX 64	/* then the kernel's backlog waits */
#define BACKLOG 1024
#define RETRY_ACCEPT_MS 100

struct wire_server {
	struct event_base *base;
	struct wire_handlers h;
	SSL_CTX *ctx;
	struct evconnlistener *listener;
	struct event *retry;
	struct wire_conn *conns;
	struct wire_server_counts counts;
	uint16_t port;
};

void server_handshake_over(struct wire_server *s, bool ok)
{
	if (!ok)
		s->counts.refused++;
	if (s->counts.unauthenticated-- == UNAUTHENTICATED_MAX)
		evconnlistener_enable(s->listener);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa, int len,
		      void *arg)
{
	struct wire_server *s = arg;
	struct bace_err e = { 0 };
	struct wire_conn *c;

	if (conn_new(s->base, fd, s->ctx, &s->h, s, sa, &c, &e)) {
		bace_log(BACE_WARN, "wire", "accept: %s", e.msg);
		return;
	}
	c->next = s->conns;
	c->prev = &s->conns;
	if (c->next)
		c->next->prev = &c->next;
	s->conns = c;
	if (++s->counts.unauthenticated == UNAUTHENTICATED_MAX)
		evconnlistener_disable(l);
}

/* Out of descriptors, most likely: level-triggered accept would spin. */
static void on_accept_error(struct evconnlistener *l, void *arg)
{
	struct wire_server *s = arg;
	struct timeval tv = { .tv_usec = RETRY_ACCEPT_MS * 1000 };

	evconnlistener_disable(l);
	event_add(s->retry, &tv);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct wire_server *s = arg;

	if (s->counts.unauthenticated < UNAUTHENTICATED_MAX)
		evconnlistener_enable(s->listener);
}

static int resolve(const char *addr, uint16_t port, int flags, struct addrinfo **out,
		   struct bace_err *e)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM,
				  .ai_flags = flags | AI_NUMERICSERV };
	char service[8];
	int rc;

	snprintf(service, sizeof(service), "%u", port);
	rc = getaddrinfo(addr, service, &hints, out);
	if (rc)
		return bace_fail(e, rc == EAI_AGAIN ? EAGAIN : EADDRNOTAVAIL, "look up %s: %s", addr,
				 gai_strerror(rc));
	return 0;
}

static int bind_listener(struct wire_server *s, const char *addr, uint16_t port, struct bace_err *e)
{
	struct sockaddr_storage bound;
	socklen_t len = sizeof(bound);
	struct addrinfo *ai;
	int rc = resolve(addr, port, AI_PASSIVE, &ai, e);

	if (rc)
		return rc;
	s->listener = evconnlistener_new_bind(s->base, on_accept, s, LEV_OPT_CLOSE_ON_FREE |
		LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE, BACKLOG, ai->ai_addr, (int)ai->ai_addrlen);
	rc = errno;
	freeaddrinfo(ai);
	if (!s->listener)
		return bace_fail_errno(e, rc, "listen on %s:%u", addr, port);
	evconnlistener_set_error_cb(s->listener, on_accept_error);
	if (getsockname(evconnlistener_get_fd(s->listener), (struct sockaddr *)&bound, &len))
		return bace_fail_errno(e, errno, "listen on %s:%u", addr, port);
	s->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port :
			((struct sockaddr_in *)&bound)->sin_port);
	return 0;
}

int wire_listen(struct event_base *base, const char *addr, uint16_t port,
		const uint8_t master[WIRE_KEY_BYTES], const struct wire_handlers *h,
		struct wire_server **out, struct bace_err *e)
{
	struct wire_server *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return bace_fail(e, ENOMEM, "listen on %s:%u: out of memory", addr, port);
	s->base = base;
	s->h = *h;
	s->retry = evtimer_new(base, on_retry, s);
	rc = s->retry ? tls_server_ctx(master, &s->ctx, e) : bace_fail(e, ENOMEM, "out of memory");
	if (!rc)
		rc = bind_listener(s, addr, port, e);
	if (rc) {
		wire_server_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

uint16_t wire_server_port(const struct wire_server *s)
{
	return s->port;
}

void wire_server_counts(const struct wire_server *s, struct wire_server_counts *out)
{
	*out = s->counts;
}

void wire_server_free(struct wire_server *s)
{
	if (!s)
		return;
	while (s->conns)
		wire_free(s->conns);
	if (s->listener)
		evconnlistener_free(s->listener);
	if (s->retry)
		event_free(s->retry);
	tls_ctx_free(s->ctx);
	free(s);
}

static int client_socket(const struct addrinfo *ai, const char *addr, uint16_t port, struct bace_err *e)
{
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd >= 0 ? fd : bace_fail_errno(e, errno, "connect to %s:%u", addr, port);
}

int wire_connect(struct event_base *base, const char *addr, uint16_t port, const char *name,
		 const uint8_t key[WIRE_KEY_BYTES], const struct wire_handlers *h,
		 struct wire_conn **out, struct bace_err *e)
{
	struct addrinfo *ai = NULL;
	SSL_CTX *ctx = NULL;
	struct wire_conn *c = NULL;
	int rc, fd;

	if (!wire_name_ok(name))
		return bace_fail(e, EINVAL, "host name `%.80s': must be 1 to %d of letters, digits and ._+-",
				 name, WIRE_NAME_MAX);
	rc = resolve(addr, port, 0, &ai, e);
	if (!rc)
		rc = tls_client_ctx(&ctx, e);
	if (!rc) {
		fd = client_socket(ai, addr, port, e);
		rc = fd < 0 ? fd : conn_new(base, fd, ctx, h, NULL, ai->ai_addr, &c, e);
	}
	if (!rc) {
		snprintf(c->name, sizeof(c->name), "%s", name);
		memcpy(c->key, key, WIRE_KEY_BYTES);
		/* A failure to connect is reported by on_close, as any other. */
		bufferevent_socket_connect(c->bev, ai->ai_addr, (int)ai->ai_addrlen);
		*out = c;
	}
	if (ai)
		freeaddrinfo(ai);
	SSL_CTX_free(ctx);
	return rc;
}
