/* Under attack: an agent that meets false controllers, with and without its key,
 * and a controller that is flooded, keep their memory, and what runs goes on. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "tests/unit/control/fixture.h"

#define FLOOD_S 3.0
#define FLOOD_PER_S 10000
#define SLOW 200

/* ---- a false controller ---- */

static uint8_t agent_key[WIRE_KEY_BYTES];

static int find_session(SSL *ssl, const unsigned char *identity, size_t len, SSL_SESSION **out)
{
	static const unsigned char cipher[] = { 0x13, 0x01 };

	*out = SSL_SESSION_new();
	return SSL_SESSION_set1_master_key(*out, agent_key, sizeof(agent_key)) &&
	       SSL_SESSION_set_cipher(*out, SSL_CIPHER_find(ssl, cipher)) &&
	       SSL_SESSION_set_protocol_version(*out, TLS1_3_VERSION);
}

static void self_signed(SSL_CTX *ctx)
{
	EVP_PKEY *key = EVP_RSA_gen(2048);
	X509 *cert = X509_new();

	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
	X509_set_pubkey(cert, key);
	X509_sign(cert, key, EVP_sha256());
	SSL_CTX_use_certificate(ctx, cert);
	SSL_CTX_use_PrivateKey(ctx, key);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static SSL_CTX *server_ctx(bool with_key)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	if (with_key) {
		SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"x", 1);
		SSL_CTX_set_psk_find_session_callback(ctx, find_session);
		SSL_CTX_set_num_tickets(ctx, 0);
	} else {
		self_signed(ctx);
	}
	return ctx;
}

struct rogue {
	int listener;
	uint16_t port;
	SSL_CTX *ctx[2];		/* without the key, with it */
};

static void rogue_open(struct rogue *r)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval patience = { .tv_sec = 15 };
	socklen_t len = sizeof(sa);
	int one = 1;

	r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(r->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(r->listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	assert_int_equal(bind(r->listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(r->listener, 4), 0);
	assert_int_equal(getsockname(r->listener, (struct sockaddr *)&sa, &len), 0);
	r->port = ntohs(sa.sin_port);
	r->ctx[0] = server_ctx(false);
	r->ctx[1] = server_ctx(true);
}

/* The agent's next connection; NULL: it did not take us for its controller. */
static SSL *rogue_accept(struct rogue *r, bool with_key)
{
	struct timeval patience = { .tv_sec = 10 };
	int fd = accept(r->listener, NULL, NULL);
	SSL *s = SSL_new(r->ctx[with_key]);
	char buf[65536];

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	SSL_set_fd(s, fd);
	/* With TLS 1.3 the client's refusal comes after what looks like success. */
	if (SSL_accept(s) == 1 && SSL_read(s, buf, sizeof(buf)) > 0)
		return s;
	SSL_free(s);
	close(fd);
	return NULL;
}

/* Reads what comes until the agent hangs up; false: it did not. */
static bool rogue_end(SSL *s)
{
	char buf[65536];
	int fd = SSL_get_fd(s), n;
	bool hung_up;

	while ((n = SSL_read(s, buf, sizeof(buf))) > 0)
		;
	/* Our own patience ended first: OpenSSL wants to be called again. */
	hung_up = SSL_get_error(s, n) != SSL_ERROR_WANT_READ;
	SSL_free(s);
	close(fd);
	return hung_up;
}

static void send_frame(SSL *s, const char *text, size_t n)
{
	uint32_t head = htonl((uint32_t)n);

	if (SSL_write(s, &head, sizeof(head)) > 0)
		SSL_write(s, text, (int)n);
}

static void huge_prefix(SSL *s)
{
	static const char prefix[] = "\x40\0\0\0xxxx";	/* 1 GiB */

	SSL_write(s, prefix, sizeof(prefix) - 1);
}

static void accept_hello(SSL *s)
{
	static const char ok[] = "{\"v\":1,\"type\":\"ok\",\"id\":1}";

	send_frame(s, ok, sizeof(ok) - 1);
}

static void filled(SSL *s, char with, size_t n)
{
	char *text = malloc(n);

	memset(text, with, n);
	send_frame(s, text, n);
	free(text);
}

static void deep_json(SSL *s)
{
	accept_hello(s);
	filled(s, '[', 900000);
}

/* More numbers than a frame may hold, none of it too long. */
static void wide_json(SSL *s)
{
	struct bace_buf b = { 0 };

	accept_hello(s);
	bace_buf_addf(&b, "{\"v\":1,\"type\":\"plan\",\"id\":2,\"spec\":[0");
	for (int i = 0; i < 400000; i++)
		bace_buf_add(&b, ",0", 2);
	bace_buf_addf(&b, "]}");
	send_frame(s, b.p, b.len);
	bace_buf_free(&b);
}

static void garbage(SSL *s)
{
	accept_hello(s);
	filled(s, '\xfe', 1000000);
}

/* Requests that are answered, and nobody reads the answers. */
static void deaf(SSL *s)
{
	static const char bad[] = "{\"v\":1,\"type\":\"nonsense-nonsense-nonsense\",\"id\":2}";
	uint32_t head = htonl(sizeof(bad) - 1);
	struct bace_buf many = { 0 };

	accept_hello(s);
	for (int i = 0; i < 500; i++) {
		bace_buf_add(&many, &head, sizeof(head));
		bace_buf_add(&many, bad, sizeof(bad) - 1);
	}
	for (int i = 0; i < 400 && SSL_write(s, many.p, (int)many.len) > 0; i++)
		;
	bace_buf_free(&many);
}

static void read_all(SSL *s, void *to, size_t n)
{
	int got;

	for (size_t have = 0; have < n; have += (size_t)got) {
		got = SSL_read(s, (char *)to + have, (int)(n - have));
		if (got <= 0)
			fail_msg("the agent hung up");
	}
}

static json_t *read_json(SSL *s)
{
	uint32_t head;
	char *text;
	json_t *j;

	read_all(s, &head, sizeof(head));
	text = malloc(ntohl(head));
	read_all(s, text, ntohl(head));
	j = json_loadb(text, ntohl(head), 0, NULL);
	assert_non_null(j);
	free(text);
	return j;
}

static void send_json(SSL *s, json_t *msg)
{
	char *text = json_dumps(msg, JSON_COMPACT);

	send_frame(s, text, strlen(text));
	free(text);
	json_decref(msg);
}

static void send_launch(SSL *s, int rank, const char *name)
{
	send_json(s, json_pack("{s:i,s:s,s:i,s:i,s:i,s:i,s:i,s:s,s:s,s:{s:s}}", "v", 1, "type", "launch", "id", 2 + rank,
		"cell", 1, "rank", rank, "slot", 0, "slots", 0, "program", "worker", "nic", "", "config", "name", name));
}

/* Workers that read nothing, and lines for them without end; no answer is read. */
static void stuffed(SSL *s)
{
	char *line = malloc(900001);

	accept_hello(s);
	memset(line, 'x', 900000);
	line[900000] = '\0';
	for (int i = 0; i < 4; i++)
		send_launch(s, i, "silent");
	for (int i = 0; i < 40; i++)
		send_json(s, json_pack("{s:i,s:s,s:i,s:i,s:i,s:{s:s}}", "v", 1, "type", "tell", "id", 10 + i, "cell", 1,
				       "rank", i % 4, "line", "x", line));
	free(line);
	huge_prefix(s);
}

/* Plans of many links, while bace-shaperd is not there to take them. */
static void planned(SSL *s)
{
	struct shape_spec spec = { .egress = "wan0", .mtu = 1500, .n_links = 1500,
				   .links = calloc(1500, sizeof(struct shape_link)) };
	json_t *j = wire_encode_shape(&spec);

	accept_hello(s);
	for (int i = 0; i < 40; i++)
		send_json(s, json_pack("{s:i,s:s,s:i,s:O}", "v", 1, "type", "plan", "id", 2 + i, "spec", j));
	json_decref(j);
	free(spec.links);
	huge_prefix(s);
}

static void test_false_controllers(void **state)
{
	static const struct {
		const char *what;
		void (*fn)(SSL *s);
	} misuse[] = {
		{ "a prefix of 1 GiB", huge_prefix }, { "depth", deep_json }, { "width", wide_json },
		{ "garbage", garbage }, { "deaf", deaf }, { "workers that read nothing", stuffed },
		{ "plans that wait", planned },
	};
	struct bace_err e = { 0 };
	struct rogue r;
	struct world w;
	SSL *s;

	signal(SIGPIPE, SIG_IGN);
	rogue_open(&r);
	world_open(&w, 1);
	w.worker_dir = bad_worker_dir;
	w.shaperd = "/nonexistent/shaperd.sock";
	wire_key_derive(w.key, "h0", agent_key);
	world_agent_at(&w, 0, r.port);
	/* A certificate, and no key. */
	for (int i = 0; i < 3; i++)
		assert_null(rogue_accept(&r, false));
	for (size_t i = 0; i < ARRAY_LEN(misuse); i++) {
		s = rogue_accept(&r, true);
		assert_non_null(s);
		misuse[i].fn(s);
		if (!rogue_end(s))
			fail_msg("%s: the agent did not hang up", misuse[i].what);
		check_agent_memory(w.agents[0], misuse[i].what);
	}
	assert_true(pid_alive(w.agents[0]));
	/* The true controller takes the place of the false one. */
	close(r.listener);
	controller_close(w.controller);
	assert_int_equal(controller_open(&(struct controller_config){ .listen_addr = "127.0.0.1", .port = r.port,
		.master_key = w.key, .topo = &w.topo, .heartbeat_dead_s = 3 }, &w.controller, &e), 0);
	assert_int_equal(controller_wait_hosts(w.controller, 30, &e), 0);
	world_close(&w);
	for (int i = 0; i < 2; i++)
		SSL_CTX_free(r.ctx[i]);
}

/* Many ranks of one host write as much as their pipes hold and end at once, while
 * the controller is busy with something else: all of it comes, then that they
 * ended, and the session lives. */
static void test_all_end_at_once(void **state)
{
	enum { N = 120, EACH = 65536 };
	static size_t bytes[N];
	int n_ended = 0, small = 65536;
	struct rogue r;
	struct world w;
	SSL *s;

	rogue_open(&r);
	setsockopt(r.listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	world_open(&w, 1);
	w.worker_dir = bad_worker_dir;
	wire_key_derive(w.key, "h0", agent_key);
	world_agent_at(&w, 0, r.port);
	s = rogue_accept(&r, true);
	assert_non_null(s);
	accept_hello(s);
	for (int i = 0; i < N; i++)
		send_launch(s, i, "burst");
	sleep(1);
	for (int n = 0; n_ended < N; n++) {
		/* Else the agent takes a slow reader's end for that of the controller. */
		if (n % 10 == 0)
			send_json(s, json_pack("{s:i,s:s,s:i}", "v", 1, "type", "heartbeat", "id", 0));

		json_t *j = read_json(s);
		const char *type = json_string_value(json_object_get(j, "type"));
		json_int_t rank = json_integer_value(json_object_get(j, "rank"));

		assert_string_not_equal(type, "error");
		assert_true(rank >= 0 && rank < N);
		if (!strcmp(type, "output"))
			bytes[rank] += json_string_length(json_object_get(j, "text"));
		if (!strcmp(type, "exit")) {
			assert_int_equal(bytes[rank], EACH);
			n_ended++;
		}
		json_decref(j);
	}
	check_agent_memory(w.agents[0], "120 ends");
	close(SSL_get_fd(s));
	SSL_free(s);
	close(r.listener);
	for (int i = 0; i < 2; i++)
		SSL_CTX_free(r.ctx[i]);
	world_close(&w);
}

/* ---- a flood ---- */

static int connect_now(uint16_t port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger reset = { .l_onoff = 1 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	/* No TIME_WAIT, or ports run out. */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) && errno != EINPROGRESS) {
		close(fd);
		return -1;
	}
	return fd;
}

static int n_flood;

/* Connections that say half a handshake and go; and some that stay, a byte at a time. */
static void flood(void *arg)
{
	struct world *w = arg;
	uint16_t port = controller_port(w->controller);
	int64_t began = bace_mono_ns(), now;
	int slow[SLOW];

	for (int i = 0; i < SLOW; i++)
		slow[i] = connect_now(port);
	for (n_flood = 0; (now = bace_mono_ns()) < began + (int64_t)(FLOOD_S * 1e9);) {
		int fd;

		if (n_flood >= (int)((double)(now - began) / 1e9 * FLOOD_PER_S)) {
			usleep(500);
			continue;
		}
		fd = connect_now(port);
		if (fd < 0)
			continue;
		send(fd, "\x16\x03\x01\x02\x00\x01", 6, MSG_NOSIGNAL);
		close(fd);
		if (n_flood++ % 1000 == 0)
			for (int i = 0; i < SLOW; i++)
				send(slow[i], "\x16", 1, MSG_NOSIGNAL);
	}
	for (int i = 0; i < SLOW; i++)
		close(slow[i]);
}

static void test_flood(void **state)
{
	struct bace_err e = { 0 };
	struct world w;
	struct tb_cell cell;
	struct tb_result r;
	struct later *l;
	long before_kib, after_kib;

	signal(SIGPIPE, SIG_IGN);
	world_open(&w, 2);
	world_agents(&w);
	cell_pipeline(&cell, "flooded", 2, 4, 100000000, 1000);
	before_kib = memory_kib(getpid(), "VmHWM");
	l = later(1.0, flood, &w);
	if (controller_run(w.controller, &cell, &r, &e))
		fail_msg("%s", e.msg);
	later_join(l);
	after_kib = memory_kib(getpid(), "VmHWM");
	print_message("%d connections in %.0f s, and %d slow ones: the controller's memory grew by %.1f MiB; %s\n",
		      n_flood, FLOOD_S, SLOW, (double)(after_kib - before_kib) / 1024, r.valid ? "valid" : r.invalid_why);
	/* Both share this machine's cores: timed compute may be late, nothing else. */
	if (!r.valid)
		assert_non_null(strstr(r.invalid_why, "overloaded"));
	assert_int_equal(r.n_steps, 4);
#ifndef __SANITIZE_ADDRESS__
	assert_true(after_kib - before_kib <= AGENT_MEMORY_MAX_KIB);
#endif
	for (int i = 0; i < 2; i++)
		check_agent_memory(w.agents[i], "flood");
	tb_result_free(&r);
	cell_release(&cell);
	world_close(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_false_controllers),
					    cmocka_unit_test(test_all_end_at_once), cmocka_unit_test(test_flood) };

	return fixture_args(argc, argv) ? 2 : cmocka_run_group_tests(tests, NULL, NULL);
}
