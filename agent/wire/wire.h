/*
 * agent/wire: the control protocol, both ends. TLS 1.3 with an external
 * pre-shared key per host, length-prefixed JSON, protocol version. There is no
 * plaintext and no unauthenticated mode.
 *
 * Frame: uint32 length (network order, 1..WIRE_MAX_FRAME) and that many bytes
 * of JSON: {"v": 1, "type": TYPE, "id": N, ...}. Every request carries an id
 * and is answered by {"type": "ok"|"error", "id": N, ...}; events (rank_ready,
 * rank_done, stats, heartbeat) have id 0.
 */
#ifndef BACE_WIRE_H
#define BACE_WIRE_H

#include <event2/event.h>
#include <jansson.h>

#include "common/common.h"
#include "shaper/shaper.h"

#define WIRE_VERSION 1
#define WIRE_MAX_FRAME (4u << 20)	/* after authentication; hello is limited to 64 KiB */
#define WIRE_KEY_BYTES 32

/* ---- keys: HKDF-SHA256(master, host name); files are mode 0600 or refused ---- */
int wire_key_generate(const char *path, struct bace_err *e);
int wire_key_load(const char *path, uint8_t master[WIRE_KEY_BYTES], struct bace_err *e);
int wire_key_derive(const uint8_t master[WIRE_KEY_BYTES], const char *host,
		    uint8_t key[WIRE_KEY_BYTES]);

/* ---- connections ---- */
struct wire_conn;

struct wire_handlers {
	/* Authenticated; peer is the PSK identity (client side: the server). */
	void (*on_open)(void *arg, struct wire_conn *c, const char *peer);
	/* msg is borrowed for the call. */
	void (*on_message)(void *arg, struct wire_conn *c, json_t *msg);
	/* Closed, refused or timed out; c is freed after the call. */
	void (*on_close)(void *arg, struct wire_conn *c, const char *why);
	void *arg;
};

struct wire_server;

/* Listens; keys for any host are derived from master. */
int wire_listen(struct event_base *base, const char *addr, uint16_t port,
		const uint8_t master[WIRE_KEY_BYTES], const struct wire_handlers *h,
		struct wire_server **out, struct bace_err *e);
uint16_t wire_server_port(const struct wire_server *s);
void wire_server_free(struct wire_server *s);

/* Connects as host `name` with its derived key. */
int wire_connect(struct event_base *base, const char *addr, uint16_t port, const char *name,
		 const uint8_t key[WIRE_KEY_BYTES], const struct wire_handlers *h,
		 struct wire_conn **out, struct bace_err *e);
int wire_send(struct wire_conn *c, json_t *msg);	/* steals msg; queued, bounded */
void wire_close(struct wire_conn *c, const char *why);
void wire_set_user(struct wire_conn *c, void *user);
void *wire_user(const struct wire_conn *c);

/* ---- message bodies: JSON <-> structs, every field range-checked ---- */
json_t *wire_encode_shape(const struct shape_spec *s);
/* *out owns its links: free(out->links). */
int wire_decode_shape(const json_t *j, struct shape_spec *out, struct bace_err *e);
json_t *wire_encode_stats(const struct shape_stats *s);
int wire_decode_stats(const json_t *j, struct shape_stats *out, struct bace_err *e);

#endif
