/* Two ends that have the key: what comes over, what is bounded, who is missed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/wire/fixture.h"

#define PATIENCE_S 10

static bool both_open(const struct world *w)
{
	return w->at_server.opened && w->at_client.opened;
}

static bool server_has_message(const struct world *w)
{
	return w->at_server.messages > 0;
}

static bool client_has_message(const struct world *w)
{
	return w->at_client.messages > 0;
}

static bool server_closed(const struct world *w)
{
	return w->at_server.closed > 0;
}

static bool both_closed(const struct world *w)
{
	return w->at_server.closed && w->at_client.closed;
}

static void open_both(struct world *w)
{
	world_listen(w);
	world_connect(w, world_port(w), "ireland-0", w->master);
	assert_true(world_run(w, both_open, PATIENCE_S));
}

static json_t *message(const char *type, int id)
{
	return json_pack("{s:s,s:i}", "type", type, "id", id);
}

static void test_request(void **state)
{
	struct world *w = *state;

	w->at_server.answers = true;
	open_both(w);
	assert_string_equal(w->at_server.peer, "ireland-0");
	assert_string_equal(w->at_client.peer, "controller");
	assert_int_equal(wire_send(w->at_client.conn, message("hello", 7)), 0);
	assert_true(world_run(w, client_has_message, PATIENCE_S));
	assert_string_equal(json_string_value(json_object_get(w->at_server.last, "type")), "hello");
	assert_string_equal(json_string_value(json_object_get(w->at_client.last, "type")), "ok");
	assert_int_equal(json_integer_value(json_object_get(w->at_client.last, "id")), 7);
	assert_int_equal(json_integer_value(json_object_get(w->at_client.last, "v")), WIRE_VERSION);
}

static json_t *text_message(const char *type, size_t n)
{
	char *text = malloc(n);
	json_t *j;

	memset(text, 'x', n);
	j = json_pack("{s:s,s:i,s:o}", "type", type, "id", 1, "text", json_stringn(text, n));
	free(text);
	return j;
}

/* After the hello a frame may have 4 MiB; before it 64 KiB. */
static void test_large(void **state)
{
	struct world *w = *state;

	open_both(w);
	wire_send(w->at_client.conn, message("hello", 1));
	assert_true(world_run(w, server_has_message, PATIENCE_S));
	w->at_server.messages = 0;
	assert_int_equal(wire_send(w->at_client.conn, text_message("output", WIRE_MAX_FRAME - 100)), 0);
	assert_true(world_run(w, server_has_message, PATIENCE_S));
	assert_int_equal(json_string_length(json_object_get(w->at_server.last, "text")), WIRE_MAX_FRAME - 100);
	assert_int_equal(wire_send(w->at_client.conn, text_message("output", WIRE_MAX_FRAME)), -EMSGSIZE);
}

static void test_large_first(void **state)
{
	struct world *w = *state;

	open_both(w);
	wire_send(w->at_client.conn, text_message("hello", WIRE_FIRST_FRAME + 1));
	assert_true(world_run(w, server_closed, PATIENCE_S));
	assert_non_null(strstr(w->at_server.why, "65536"));
	assert_int_equal(w->at_server.messages, 0);
}

/* A peer that is not read from: what waits is bounded, nothing is lost twice. */
static void test_queue(void **state)
{
	struct world *w = *state;
	int sent = 0, rc;

	w->client_limits.max_queue = 1 << 20;
	open_both(w);
	while (!(rc = wire_send(w->at_client.conn, text_message("output", 10000))) && sent < 1000)
		sent++;
	assert_int_equal(rc, -ENOBUFS);
	assert_true(wire_queued(w->at_client.conn) <= 1 << 20);
	assert_int_equal(sent, (1 << 20) / 10050);	/* 10000 bytes of text, envelope below 50 */
}

/* Nothing is heard: closed, with the reason. Both are told that are there. */
static bool silent(const struct world *w, uint16_t port)
{
	SSL *s = raw_psk(port, "ireland-0", w->master);

	if (!s)
		return false;
	raw_frame(s, "{\"v\":1,\"type\":\"hello\",\"id\":1}");
	return raw_tls_closed(s);	/* reads heartbeats until then, sends none */
}

static void test_dead_peer(void **state)
{
	struct world *w = *state;

	w->server_limits = (struct wire_limits){ .heartbeat_s = 0.2, .dead_s = 0.6 };
	world_listen(w);
	assert_true(world_attack(w, silent));
	assert_true(world_run(w, server_closed, PATIENCE_S));
	assert_non_null(strstr(w->at_server.why, "nothing heard from ireland-0"));
}

/* Heartbeats keep an idle connection, and nobody sees them. */
static void test_idle(void **state)
{
	struct world *w = *state;

	w->server_limits = w->client_limits = (struct wire_limits){ .heartbeat_s = 0.1, .dead_s = 3 };
	open_both(w);
	wire_send(w->at_client.conn, message("hello", 1));
	world_idle(w, 4.5);
	assert_int_equal(w->at_server.closed, 0);
	assert_int_equal(w->at_client.closed, 0);
	assert_int_equal(w->at_server.messages, 1);
	assert_int_equal(w->at_client.messages, 0);
}

/* Who authenticates and says nothing holds no place for long. */
static void test_no_hello(void **state)
{
	struct world *w = *state;

	open_both(w);
	assert_true(world_run(w, both_closed, PATIENCE_S));
	assert_string_equal(w->at_server.why, "no hello within 2 s");
}

/* What was sent before a close arrives. */
static void test_close_flushes(void **state)
{
	struct world *w = *state;

	open_both(w);
	wire_send(w->at_client.conn, message("hello", 1));
	assert_true(world_run(w, server_has_message, PATIENCE_S));
	wire_send(w->at_server.conn, text_message("error", 100000));
	wire_close(w->at_server.conn, "test");
	assert_int_equal(wire_send(w->at_server.conn, message("late", 1)), -EPIPE);
	assert_true(world_run(w, both_closed, PATIENCE_S));
	assert_int_equal(w->at_client.messages, 1);
	assert_string_equal(w->at_server.why, "test");
}

static bool other_version(const struct world *w, uint16_t port)
{
	SSL *s = raw_psk(port, "ireland-0", w->master);
	char buf[1024];

	if (!s)
		return false;
	raw_frame(s, "{\"v\":2,\"type\":\"hello\",\"id\":1}");
	return raw_read_frame(s, buf, sizeof(buf)) > 0 && strstr(buf, "\"error\"") &&
	       strstr(buf, "version 2") && raw_tls_closed(s);
}

static void test_version(void **state)
{
	struct world *w = *state;

	world_listen(w);
	assert_true(world_attack(w, other_version));
	assert_true(world_run(w, server_closed, PATIENCE_S));
	assert_non_null(strstr(w->at_server.why, "version 2"));
	assert_int_equal(w->at_server.messages, 0);
}

/* A controller that is not there is an ordinary end. */
static void test_refused(void **state)
{
	struct world *w = *state;
	uint16_t port;

	world_listen(w);
	port = world_port(w);
	wire_server_free(w->server);
	w->server = NULL;
	world_connect(w, port, "ireland-0", w->master);
	while (!w->at_client.closed)
		world_idle(w, 0.05);
	assert_string_equal(w->at_client.why, "Connection refused");
	assert_int_equal(w->at_client.opened, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_request, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_large, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_large_first, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_queue, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_dead_peer, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_idle, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_no_hello, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_close_flushes, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_version, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_refused, world_setup, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
