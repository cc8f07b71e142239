#include "agent/wire/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>

#define HEADER 4

static void arm(struct event *ev, double seconds)
{
	struct timeval tv = { .tv_sec = (time_t)seconds,
			      .tv_usec = (suseconds_t)(fmod(seconds, 1) * 1e6) };

	event_add(ev, &tv);
}

static void resolve_limits(struct wire_limits *l)
{
	if (!l->max_frame)
		l->max_frame = WIRE_MAX_FRAME;
	if (!l->max_values)
		l->max_values = l->max_frame / 4 < (1u << 20) ? l->max_frame / 4 : 1u << 20;
	if (!l->max_queue)
		l->max_queue = 2 * l->max_frame;
	if (l->heartbeat_s <= 0)
		l->heartbeat_s = 1;
	if (l->dead_s <= 0)
		l->dead_s = 3;
}

static void conn_destroy(struct wire_conn *c)
{
	if (c->prev) {
		*c->prev = c->next;
		if (c->next)
			c->next->prev = c->prev;
	}
	if (c->timer)
		event_free(c->timer);
	if (c->tick)
		event_free(c->tick);
	if (c->end)
		event_free(c->end);
	if (c->bev) {
		/* Best effort: says that this end is intended. */
		if (c->authenticated) {
			SSL_set_shutdown(c->ssl, SSL_RECEIVED_SHUTDOWN);
			SSL_shutdown(c->ssl);
			ERR_clear_error();
		}
		bufferevent_free(c->bev);
	}
	OPENSSL_cleanse(c->key, sizeof(c->key));
	free(c);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	struct wire_conn *c = arg;

	if ((c->authenticated || !c->server) && c->h.on_close)
		c->h.on_close(c->h.arg, c, c->why);
	conn_destroy(c);
}

void conn_end(struct wire_conn *c, const char *why)
{
	if (c->state == CONN_ENDED)
		return;
	if (c->state == CONN_HANDSHAKE && c->server)
		server_handshake_over(c->server, false);
	if (!c->why[0])
		snprintf(c->why, sizeof(c->why), "%s", why);
	c->state = CONN_ENDED;
	bufferevent_setcb(c->bev, NULL, NULL, NULL, NULL);
	bufferevent_disable(c->bev, EV_READ | EV_WRITE);
	event_del(c->timer);
	event_del(c->tick);
	arm(c->end, 0);
}

static void refuse_version(struct wire_conn *c, const struct bace_err *e)
{
	wire_answer_error(c, 0, e);
	wire_close(c, e->msg);
}

static void dispatch(struct wire_conn *c, const char *text, size_t len)
{
	struct bace_err e = { 0 };
	json_t *msg;
	int rc = wire_parse(text, len, &c->limits, &msg, &e);

	if (rc == -EPROTONOSUPPORT) {
		refuse_version(c, &e);
		return;
	}
	if (rc) {
		conn_end(c, e.msg);
		return;
	}
	if (strcmp(json_string_value(json_object_get(msg, "type")), "heartbeat")) {
		if (!c->had_message)
			event_del(c->timer);
		c->had_message = true;
		c->h.on_message(c->h.arg, c, msg);
	}
	json_decref(msg);
}

/* True: the connection goes on, `need` bytes make the next frame. */
static bool take_frame(struct wire_conn *c, struct evbuffer *in, size_t *need)
{
	size_t have = evbuffer_get_length(in), most = c->limits.max_frame;
	unsigned char header[HEADER];
	uint32_t len;
	char text[128];

	*need = HEADER;
	if (have < HEADER)
		return false;
	evbuffer_copyout(in, header, HEADER);
	memcpy(&len, header, HEADER);
	len = ntohl(len);
	if (c->server && !c->had_message && most > WIRE_FIRST_FRAME)
		most = WIRE_FIRST_FRAME;
	if (!len || len > most) {
		snprintf(text, sizeof(text), "sent a frame of %u bytes; 1 to %zu are allowed here", len, most);
		conn_end(c, text);
		return false;
	}
	*need = HEADER + (size_t)len;
	if (have < *need)
		return false;
	unsigned char *p = evbuffer_pullup(in, (ev_ssize_t)*need);

	if (!p) {
		conn_end(c, "out of memory");
		return false;
	}
	dispatch(c, (const char *)p + HEADER, len);
	if (c->state != CONN_ENDED)
		evbuffer_drain(in, *need);
	return c->state == CONN_OPEN;
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct wire_conn *c = arg;
	size_t need;

	while (take_frame(c, bufferevent_get_input(bev), &need))
		;
	if (c->state == CONN_OPEN)
		bufferevent_setwatermark(bev, EV_READ, need, need > 65536 ? need : 65536);
}

static void on_drained(struct bufferevent *bev, void *arg)
{
	struct wire_conn *c = arg;

	if (c->state == CONN_DRAINING)
		conn_end(c, "closed");
}

static void opened(struct wire_conn *c)
{
	if (!tls_accepted(c->ssl)) {
		conn_end(c, "the peer did not prove that it has the key");
		return;
	}
	c->authenticated = true;
	c->state = CONN_OPEN;
	if (c->server)
		server_handshake_over(c->server, true);
	else
		snprintf(c->peer, sizeof(c->peer), "controller");
	/* The server wants the hello soon; a client may be left waiting. */
	event_del(c->timer);
	if (c->server)
		arm(c->timer, WIRE_HANDSHAKE_S);
	c->heard_ns = c->tick_ns = c->sent_ns = bace_mono_ns();
	arm(c->tick, c->limits.heartbeat_s / 2);
	bufferevent_setwatermark(c->bev, EV_READ, HEADER, 65536);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
	c->h.on_open(c->h.arg, c, c->peer);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct wire_conn *c = arg;
	char why[200];

	if (what & BEV_EVENT_CONNECTED) {
		opened(c);
		return;
	}
	if (what & BEV_EVENT_EOF && c->authenticated)
		snprintf(why, sizeof(why), "connection closed by the peer");
	else
		tls_reason(bev, c->authenticated, why, sizeof(why));
	conn_end(c, why);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct wire_conn *c = arg;

	if (c->state == CONN_HANDSHAKE)
		conn_end(c, "no TLS handshake within 2 s");
	else if (c->state == CONN_DRAINING)
		conn_end(c, "closed");
	else
		conn_end(c, "no hello within 2 s");
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct wire_conn *c = arg;
	double period = c->limits.heartbeat_s / 2;
	int64_t now = bace_mono_ns();
	uint64_t bytes = BIO_number_read(SSL_get_rbio(c->ssl));
	char why[160];

	/* A loop that was itself held up (stopped, starved) must not blame its peer. */
	if (bytes != c->heard_bytes || (double)(now - c->tick_ns) > (period + 1) * 1e9)
		c->heard_ns = now;
	c->heard_bytes = bytes;
	c->tick_ns = now;
	if ((double)(now - c->heard_ns) >= (c->limits.dead_s - period) * 1e9) {
		snprintf(why, sizeof(why), "nothing heard from %s for %.1f s", c->peer,
			 (double)(now - c->heard_ns) / 1e9);
		conn_end(c, why);
		return;
	}
	if ((double)(now - c->sent_ns) >= c->limits.heartbeat_s * 0.9e9)
		wire_send(c, json_pack("{s:s,s:i}", "type", "heartbeat", "id", 0));
	if (c->state == CONN_OPEN)
		arm(c->tick, period);
}

static void format_addr(const struct sockaddr *sa, char *buf, size_t cap)
{
	char ip[INET6_ADDRSTRLEN] = "?";

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *a = (const struct sockaddr_in *)sa;

		inet_ntop(AF_INET, &a->sin_addr, ip, sizeof(ip));
		snprintf(buf, cap, "%s:%u", ip, ntohs(a->sin_port));
	} else {
		const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)sa;

		inet_ntop(AF_INET6, &a->sin6_addr, ip, sizeof(ip));
		snprintf(buf, cap, "[%s]:%u", ip, ntohs(a->sin6_port));
	}
}

int conn_new(struct event_base *base, int fd, SSL_CTX *ctx, const struct wire_handlers *h,
	     struct wire_server *server, const struct sockaddr *sa, struct wire_conn **out,
	     struct bace_err *e)
{
	struct wire_conn *c = calloc(1, sizeof(*c));
	int one = 1;

	if (!c) {
		close(fd);
		return bace_fail(e, ENOMEM, "connection: out of memory");
	}
	*c = (struct wire_conn){ .base = base, .h = *h, .limits = h->limits, .server = server };
	resolve_limits(&c->limits);
	format_addr(sa, c->addr, sizeof(c->addr));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->timer = evtimer_new(base, on_timer, c);
	c->tick = evtimer_new(base, on_tick, c);
	c->end = evtimer_new(base, on_end, c);
	c->ssl = SSL_new(ctx);
	if (c->ssl) {
		SSL_set_app_data(c->ssl, c);
		c->bev = bufferevent_openssl_socket_new(base, fd, c->ssl, server ?
			BUFFEREVENT_SSL_ACCEPTING : BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE);
		if (!c->bev)
			SSL_free(c->ssl);
	}
	if (!c->bev)
		close(fd);
	if (!c->bev || !c->timer || !c->tick || !c->end) {
		conn_destroy(c);
		return bace_fail(e, ENOMEM, "connection: out of memory");
	}
	/* A peer that resets is an ordinary end, not a TLS attack: frames have lengths. */
	bufferevent_openssl_set_allow_dirty_shutdown(c->bev, 1);
	bufferevent_setcb(c->bev, on_read, on_drained, on_event, c);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
	arm(c->timer, WIRE_HANDSHAKE_S);
	*out = c;
	return 0;
}

int wire_send(struct wire_conn *c, json_t *msg)
{
	CLEANUP_FREE char *text = NULL;
	struct evbuffer *to = bufferevent_get_output(c->bev);
	uint32_t header;
	size_t n;

	if (msg)
		json_object_set_new(msg, "v", json_integer(WIRE_VERSION));
	text = msg ? json_dumps(msg, JSON_COMPACT) : NULL;
	json_decref(msg);
	if (!text)
		return -ENOMEM;
	if (c->state != CONN_OPEN)
		return -EPIPE;
	n = strlen(text);
	if (n > WIRE_MAX_FRAME)
		return -EMSGSIZE;
	if (evbuffer_get_length(to) + n + HEADER > c->limits.max_queue)
		return -ENOBUFS;
	header = htonl((uint32_t)n);
	if (evbuffer_expand(to, n + HEADER) || evbuffer_add(to, &header, HEADER) ||
	    evbuffer_add(to, text, n))
		return -ENOMEM;
	c->sent_ns = bace_mono_ns();
	c->sent_bytes += n + HEADER;
	return 0;
}

uint64_t wire_sent_bytes(const struct wire_conn *c)
{
	return c->sent_bytes;
}

void wire_close(struct wire_conn *c, const char *why)
{
	if (c->state == CONN_ENDED || c->state == CONN_DRAINING)
		return;
	snprintf(c->why, sizeof(c->why), "%s", why);
	if (c->state != CONN_OPEN || !evbuffer_get_length(bufferevent_get_output(c->bev))) {
		conn_end(c, why);
		return;
	}
	c->state = CONN_DRAINING;
	bufferevent_disable(c->bev, EV_READ);
	event_del(c->tick);
	arm(c->timer, WIRE_DRAIN_S);
}

void wire_free(struct wire_conn *c)
{
	if (!c)
		return;
	if (c->state == CONN_HANDSHAKE && c->server)
		server_handshake_over(c->server, false);
	bufferevent_setcb(c->bev, NULL, NULL, NULL, NULL);
	conn_destroy(c);
}

void wire_set_user(struct wire_conn *c, void *user)
{
	c->user = user;
}

void *wire_user(const struct wire_conn *c)
{
	return c->user;
}

size_t wire_queued(const struct wire_conn *c)
{
	return evbuffer_get_length(bufferevent_get_output(c->bev));
}

const char *wire_peer(const struct wire_conn *c)
{
	return c->authenticated ? c->peer : "";
}

const char *wire_peer_addr(const struct wire_conn *c)
{
	return c->addr;
}

int wire_answer(struct wire_conn *c, json_int_t id, json_t *body)
{
	json_t *msg = json_pack("{s:s,s:I}", "type", "ok", "id", id);

	if (msg && body && json_object_update(msg, body)) {
		json_decref(msg);
		msg = NULL;
	}
	json_decref(body);
	return wire_send(c, msg);
}

int wire_answer_error(struct wire_conn *c, json_int_t id, const struct bace_err *e)
{
	/* An error's text may quote what is not UTF-8. */
	json_t *text = json_string(e->msg);

	if (!text)
		text = json_string("error (its text is not UTF-8)");
	return wire_send(c, json_pack("{s:s,s:I,s:o,s:i}", "type", "error", "id", id, "text", text, "errno",
				      e->errnum));
}
