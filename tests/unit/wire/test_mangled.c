/*
 * A man in the middle who spoils bytes of the handshake and of what follows, at
 * seeded places, in either direction: both ends get what they would never send
 * each other. Neither breaks, nobody is taken for another, no message arrives
 * other than it was sent, and an honest host is served afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>

#include "tests/unit/wire/fixture.h"

#define ATTEMPTS 200
#define AT_ONCE 40		/* fewer than may be unauthenticated at a time */
#define PATIENCE_S 10
#define NAME "ireland-0"
#define TEXT "as it was sent"

enum mangle { FLIP, BYTE, DROP, TWICE, INSERT, CUT, SWAP, MANGLES };

/* One direction of one connection. */
struct way {
	struct bufferevent *from, *to;
	size_t passed;
	struct middle *middle;
};

struct middle {
	struct middle *next;
	struct bace_rng rng;
	struct way up, down;		/* from the client, from the server */
	bool mangles_up;
	enum mangle how;
	size_t at;			/* byte of that direction */
};

struct attempt {
	struct wire_conn *conn;
	bool opened, closed;
};

static struct {
	struct world *w;
	struct evconnlistener *listener;
	uint16_t to;
	int n;				/* connections so far: the seed of the next */
	struct middle *all;
	int server_opened, server_messages, server_closed;
} state;

/* ---- the man in the middle ---- */

static void spoil(struct middle *m, unsigned char *p, size_t *n, size_t at, struct evbuffer *extra)
{
	unsigned char junk[64];

	switch (m->how) {
	case FLIP:
		p[at] ^= (unsigned char)(1u << bace_rng_below(&m->rng, 8));
		break;
	case BYTE:
		p[at] = (unsigned char)bace_rng_u64(&m->rng);
		break;
	case DROP:
		memmove(p + at, p + at + 1, *n - at - 1);
		--*n;
		break;
	case TWICE:
		evbuffer_add(extra, p, *n);
		break;
	case INSERT:
		for (size_t i = 0; i < sizeof(junk); i++)
			junk[i] = (unsigned char)bace_rng_u64(&m->rng);
		evbuffer_add(extra, junk, 1 + bace_rng_below(&m->rng, sizeof(junk)));
		break;
	case SWAP:
		if (at + 1 < *n) {
			unsigned char x = p[at];

			p[at] = p[at + 1];
			p[at + 1] = x;
		}
		break;
	default:
		*n = at;
	}
}

static void pass(struct bufferevent *bev, void *arg)
{
	struct way *y = arg;
	struct middle *m = y->middle;
	struct evbuffer *extra = evbuffer_new();
	unsigned char buf[8192];
	size_t n = bufferevent_read(bev, buf, sizeof(buf)), all = n;
	bool mine = (y == &m->up) == m->mangles_up && m->at >= y->passed && m->at < y->passed + n;

	if (mine)
		spoil(m, buf, &n, m->at - y->passed, extra);
	y->passed += all;
	if (y->to) {
		bufferevent_write(y->to, buf, n);
		bufferevent_write_buffer(y->to, extra);
		if (mine && m->how == CUT)
			bufferevent_disable(bev, EV_READ);	/* silence from here on */
	}
	evbuffer_free(extra);
}

/* One end is gone: the other one is, too, when it has got all. */
static void ended(struct bufferevent *bev, short what, void *arg)
{
	struct way *y = arg;
	struct middle *m = y->middle;

	if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
		return;
	if (m->up.from)
		bufferevent_free(m->up.from);
	if (m->down.from)
		bufferevent_free(m->down.from);
	m->up.from = m->up.to = m->down.from = m->down.to = NULL;
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa, int len, void *arg)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(state.to),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct middle *m = calloc(1, sizeof(*m));

	bace_rng_init(&m->rng, 20250101, (uint64_t)state.n++);
	m->mangles_up = bace_rng_below(&m->rng, 2);
	m->how = (enum mangle)bace_rng_below(&m->rng, MANGLES);
	m->at = bace_rng_below(&m->rng, 400);	/* hellos of 200 to 300 bytes, then records */
	m->up = (struct way){ .middle = m, .from = bufferevent_socket_new(state.w->base, fd, BEV_OPT_CLOSE_ON_FREE) };
	m->down = (struct way){ .middle = m, .from = bufferevent_socket_new(state.w->base, -1, BEV_OPT_CLOSE_ON_FREE) };
	m->up.to = m->down.from;
	m->down.to = m->up.from;
	bufferevent_setcb(m->up.from, pass, NULL, ended, &m->up);
	bufferevent_setcb(m->down.from, pass, NULL, ended, &m->down);
	bufferevent_socket_connect(m->down.from, (struct sockaddr *)&to, sizeof(to));
	bufferevent_enable(m->up.from, EV_READ | EV_WRITE);
	bufferevent_enable(m->down.from, EV_READ | EV_WRITE);
	m->next = state.all;
	state.all = m;
}

static uint16_t middle_listen(struct world *w)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);

	state.listener = evconnlistener_new_bind(w->base, on_accept, NULL, LEV_OPT_CLOSE_ON_FREE, 64,
						 (struct sockaddr *)&sa, sizeof(sa));
	assert_non_null(state.listener);
	assert_int_equal(getsockname(evconnlistener_get_fd(state.listener), (struct sockaddr *)&sa, &len), 0);
	return ntohs(sa.sin_port);
}

static void middle_free(void)
{
	evconnlistener_free(state.listener);
	while (state.all) {
		struct middle *m = state.all;

		state.all = m->next;
		ended(NULL, BEV_EVENT_EOF, &m->up);
		free(m);
	}
}

/* ---- both ends ---- */

static void server_open(void *arg, struct wire_conn *c, const char *peer)
{
	assert_string_equal(peer, NAME);
	state.server_opened++;
}

static void server_message(void *arg, struct wire_conn *c, json_t *msg)
{
	assert_string_equal(json_string_value(json_object_get(msg, "text")), TEXT);
	state.server_messages++;
}

static void server_close(void *arg, struct wire_conn *c, const char *why)
{
	state.server_closed++;
}

static void client_open(void *arg, struct wire_conn *c, const char *peer)
{
	struct attempt *a = arg;

	a->opened = true;
	wire_send(c, json_pack("{s:s,s:i,s:s}", "type", "hello", "id", 1, "text", TEXT));
}

static void client_message(void *arg, struct wire_conn *c, json_t *msg)
{
	fail_msg("the server said something");
}

static void client_close(void *arg, struct wire_conn *c, const char *why)
{
	struct attempt *a = arg;

	a->closed = true;
	a->conn = NULL;
}

static struct attempt attempts[AT_ONCE];

static bool all_over(const struct world *w)
{
	for (int i = 0; i < AT_ONCE; i++)
		if (!attempts[i].closed)
			return false;
	return true;
}

/* Those that came through are closed by the client at the end. */
static void some_attempts(struct world *w, uint16_t port)
{
	const struct wire_limits l = { .heartbeat_s = 60, .dead_s = 180 };
	const struct wire_handlers h = { client_open, client_message, client_close, NULL, l };
	uint8_t key[WIRE_KEY_BYTES];
	struct bace_err e = { 0 };

	assert_int_equal(wire_key_derive(w->master, NAME, key), 0);
	memset(attempts, 0, sizeof(attempts));
	for (int i = 0; i < AT_ONCE; i++) {
		struct wire_handlers mine = h;

		mine.arg = &attempts[i];
		assert_int_equal(wire_connect(w->base, "127.0.0.1", port, NAME, key, &mine, &attempts[i].conn, &e), 0);
	}
	/* Handshakes and first messages have 2 s; then it is decided. */
	world_run(w, all_over, 2.7);
	for (int i = 0; i < AT_ONCE; i++) {
		/* Not opened, and still there: the absolute timer did not end it. */
		assert_true(attempts[i].closed || attempts[i].opened);
		if (attempts[i].conn)
			wire_free(attempts[i].conn);
	}
}

static void test_mangled(void **unused)
{
	struct world *w = *unused;
	const struct wire_handlers h = { server_open, server_message, server_close, NULL,
					 { .heartbeat_s = 60, .dead_s = 180 } };
	struct wire_server_counts counts;
	struct bace_err e = { 0 };
	uint16_t port;

	state.w = w;
	assert_int_equal(wire_listen(w->base, "127.0.0.1", 0, w->master, &h, &w->server, &e), 0);
	state.to = wire_server_port(w->server);
	port = middle_listen(w);
	for (int i = 0; i < ATTEMPTS; i += AT_ONCE)
		some_attempts(w, port);
	world_idle(w, 0.5);
	wire_server_counts(w->server, &counts);
	print_message("%d attempts: %llu handshakes refused, %d opened, %d messages\n", state.n,
		      (unsigned long long)counts.refused, state.server_opened, state.server_messages);
	assert_int_equal(state.n, ATTEMPTS);
	assert_int_equal(counts.unauthenticated, 0);
	/* Most break the handshake; some come after it, or change what says nothing. */
	assert_true(counts.refused > ATTEMPTS / 4);
	assert_true(state.server_messages <= state.server_opened);
	assert_true(state.server_messages > 0 && state.server_messages < ATTEMPTS);
	middle_free();
	/* An honest one, directly. */
	state.server_messages = 0;
	some_attempts(w, state.to);
	assert_int_equal(state.server_messages, AT_ONCE);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(test_mangled, world_setup, world_teardown) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
