/* Private to agent/wire: one connection, either end. */
#ifndef BACE_WIRE_CONN_H
#define BACE_WIRE_CONN_H

#include <sys/socket.h>

#include <event2/bufferevent.h>
#include <openssl/ssl.h>

#include "agent/wire/wire.h"

#define WIRE_HANDSHAKE_S 2.0	/* absolute; also for the first message after it */
#define WIRE_DRAIN_S 1.0

enum conn_state { CONN_HANDSHAKE, CONN_OPEN, CONN_DRAINING, CONN_ENDED };

struct wire_conn {
	struct event_base *base;
	struct wire_handlers h;
	struct wire_limits limits;	/* resolved */
	struct wire_server *server;	/* NULL: a client's */
	struct wire_conn *next, **prev;	/* of the server's */
	enum conn_state state;
	bool authenticated, had_message;
	struct bufferevent *bev;
	SSL *ssl;			/* bev's */
	struct event *timer;		/* handshake, first message, drain */
	struct event *tick;		/* heartbeats */
	struct event *end;		/* on_close and free, from the loop */
	int64_t heard_ns, tick_ns, sent_ns;
	uint64_t heard_bytes, sent_bytes;
	char peer[WIRE_NAME_MAX + 1];
	char name[WIRE_NAME_MAX + 1];	/* client: its own identity */
	uint8_t key[WIRE_KEY_BYTES];	/* client: its own */
	char addr[80];
	char why[256];
	void *user;
};

/* fd is taken over. */
int conn_new(struct event_base *base, int fd, SSL_CTX *ctx, const struct wire_handlers *h,
	     struct wire_server *server, const struct sockaddr *sa, struct wire_conn **out,
	     struct bace_err *e);
void conn_end(struct wire_conn *c, const char *why);
/* server.c: a handshake of the server's ended, well or not. */
void server_handshake_over(struct wire_server *s, bool ok);

/* ---- tls.c ---- */
int tls_server_ctx(const uint8_t master[WIRE_KEY_BYTES], SSL_CTX **out, struct bace_err *e);
int tls_client_ctx(SSL_CTX **out, struct bace_err *e);
void tls_ctx_free(SSL_CTX *ctx);
/* Authenticated by the pre-shared key and nothing else? */
bool tls_accepted(SSL *ssl);
/* One line on why a handshake or a connection failed. */
void tls_reason(struct bufferevent *bev, bool authenticated, char *buf, size_t cap);

#endif
