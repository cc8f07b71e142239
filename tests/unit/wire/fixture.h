/* One event loop with a server and clients of the control protocol, and
 * attackers in child processes that speak raw TLS or raw bytes. */
#ifndef TEST_WIRE_FIXTURE_H
#define TEST_WIRE_FIXTURE_H

#include <openssl/ssl.h>

#include "agent/wire/wire.h"

struct peer_log {		/* what one end saw */
	int opened, closed, messages;
	char peer[64];
	char why[256];
	json_t *last;
	struct wire_conn *conn;
	/* answers each message with {"type": "ok"} */
	bool answers;
};

struct world {
	struct event_base *base;
	uint8_t master[WIRE_KEY_BYTES];
	struct wire_server *server;
	struct wire_limits server_limits, client_limits;
	struct peer_log at_server, at_client;
};

int world_setup(void **state);
int world_teardown(void **state);
void world_listen(struct world *w);
uint16_t world_port(const struct world *w);
/* Connects with the key of `key_name` as `name`. */
void world_connect(struct world *w, uint16_t port, const char *name, const uint8_t master[WIRE_KEY_BYTES]);

/* Runs the loop until done(w) or for at most some seconds; returns done(w). */
bool world_run(struct world *w, bool (*done)(const struct world *w), double limit_s);
void world_idle(struct world *w, double seconds);

/* Runs fn in a child while the loop turns; true: it said that all was as it
 * should be. The child must not touch w's loop. */
bool world_attack(struct world *w, bool (*fn)(const struct world *w, uint16_t port));

/* ---- for attackers: blocking, with time-outs ---- */
int raw_tcp(uint16_t port);
/* A true TLS session with the pre-shared key of `name`; NULL: refused. */
SSL *raw_psk(uint16_t port, const char *name, const uint8_t master[WIRE_KEY_BYTES]);
void raw_frame(SSL *s, const char *text);
/* Did the other end close within a few seconds (reading away what it says)? */
bool raw_closed(int fd);
bool raw_tls_closed(SSL *s);
/* A whole frame, into buf; -1: closed. */
int raw_read_frame(SSL *s, char *buf, size_t cap);

#endif
