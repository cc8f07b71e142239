/* Those who have no key, or have one and misuse it. In every case an honest
 * host is served afterwards. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "tests/unit/wire/fixture.h"

#define PATIENCE_S 10

static bool both_open(const struct world *w)
{
	return w->at_server.opened && w->at_client.opened;
}

static bool client_closed(const struct world *w)
{
	return w->at_client.closed > 0;
}

static bool server_closed(const struct world *w)
{
	return w->at_server.closed > 0;
}

static void honest_host_is_served(struct world *w)
{
	w->at_server.opened = w->at_client.opened = 0;
	world_connect(w, world_port(w), "frankfurt-0", w->master);
	assert_true(world_run(w, both_open, PATIENCE_S));
	assert_string_equal(w->at_server.peer, "frankfurt-0");
}

static void test_wrong_key(void **state)
{
	struct world *w = *state;
	uint8_t wrong[WIRE_KEY_BYTES] = { 1, 2, 3 };

	world_listen(w);
	world_connect(w, world_port(w), "ireland-0", wrong);
	assert_true(world_run(w, client_closed, PATIENCE_S));
	assert_int_equal(w->at_client.opened, 0);
	assert_int_equal(w->at_server.opened, 0);
	assert_int_equal(w->at_server.closed, 0);
	assert_non_null(strstr(w->at_client.why, "master key"));
	honest_host_is_served(w);
}

/* With the key of one host nobody becomes another. */
static bool as_another(const struct world *w, uint16_t port)
{
	uint8_t own[WIRE_KEY_BYTES];

	wire_key_derive(w->master, "ireland-0", own);
	return !raw_psk(port, "tokyo-0", own);
}

static void test_other_identity(void **state)
{
	struct world *w = *state;

	world_listen(w);
	assert_true(world_attack(w, as_another));
	assert_int_equal(w->at_server.opened, 0);
	honest_host_is_served(w);
}

/* ---- a server with a certificate and no key ---- */

static void self_signed(SSL_CTX *ctx)
{
	EVP_PKEY *key = EVP_RSA_gen(2048);
	X509 *cert = X509_new();

	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
				   (const unsigned char *)"controller", -1, -1, 0);
	X509_set_issuer_name(cert, X509_get_subject_name(cert));
	X509_sign(cert, key, EVP_sha256());
	SSL_CTX_use_certificate(ctx, cert);
	SSL_CTX_use_PrivateKey(ctx, key);
}

/* Exit status 1: a client came through. */
static int rogue_server(int listener)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	SSL *s;
	int fd;

	self_signed(ctx);
	fd = accept(listener, NULL, NULL);
	s = SSL_new(ctx);
	SSL_set_fd(s, fd);
	if (SSL_accept(s) == 1) {
		char buf[64];

		/* TLS 1.3: the client's refusal comes after what looks like success. */
		return SSL_read(s, buf, sizeof(buf)) > 0;
	}
	return 0;
}

static void test_rogue_server(void **state)
{
	struct world *w = *state;
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int listener = socket(AF_INET, SOCK_STREAM, 0), status;
	pid_t pid;

	assert_int_equal(bind(listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(listener, 4), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&sa, &len), 0);
	pid = fork();
	if (!pid)
		_exit(rogue_server(listener));
	close(listener);
	world_connect(w, ntohs(sa.sin_port), "ireland-0", w->master);
	assert_true(world_run(w, client_closed, PATIENCE_S));
	assert_int_equal(w->at_client.opened, 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- without TLS ---- */

static bool plaintext(const struct world *w, uint16_t port)
{
	static const char frame[] = "\0\0\0\x1e{\"v\":1,\"type\":\"hello\",\"id\":1}";
	int fd = raw_tcp(port);

	return fd >= 0 && write(fd, frame, sizeof(frame) - 1) > 0 && raw_closed(fd);
}

static bool http(const struct world *w, uint16_t port)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: controller\r\n\r\n";
	int fd = raw_tcp(port);

	return fd >= 0 && write(fd, text, sizeof(text) - 1) > 0 && raw_closed(fd);
}

static bool garbage(const struct world *w, uint16_t port)
{
	struct bace_rng rng;
	char buf[8192];

	bace_rng_init(&rng, 42, 0);
	for (int i = 0; i < 50; i++) {
		int fd = raw_tcp(port);

		if (fd < 0)
			return false;
		for (size_t k = 0; k < sizeof(buf); k++)
			buf[k] = (char)bace_rng_u64(&rng);
		buf[0] = 0x16;	/* looks like a handshake record at first */
		buf[1] = 3;
		if (write(fd, buf, 1 + bace_rng_below(&rng, sizeof(buf))) < 0)
			return false;
		shutdown(fd, SHUT_WR);
		if (!raw_closed(fd))
			return false;
		close(fd);
	}
	return true;
}

static void test_no_tls(void **state)
{
	struct world *w = *state;

	world_listen(w);
	assert_true(world_attack(w, plaintext));
	assert_true(world_attack(w, http));
	assert_true(world_attack(w, garbage));
	assert_int_equal(w->at_server.opened, 0);
	assert_int_equal(w->at_server.messages, 0);
	honest_host_is_served(w);
}

/* ---- a true handshake, cut or repeated ---- */

/* The client's first flight, as it would be sent. */
static size_t client_hello(const struct world *w, unsigned char *buf, size_t cap)
{
	int pair[2];
	ssize_t n;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 0;
	pid = fork();
	if (!pid) {
		SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
		SSL *s = SSL_new(ctx);

		SSL_set_fd(s, pair[1]);
		SSL_connect(s);
		_exit(0);
	}
	n = read(pair[0], buf, cap);
	close(pair[0]);
	close(pair[1]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return n > 0 ? (size_t)n : 0;
}

static bool truncated(const struct world *w, uint16_t port)
{
	unsigned char hello[4096];
	size_t n = client_hello(w, hello, sizeof(hello));
	int fd = raw_tcp(port);

	/* Half of it, then silence: the absolute timer ends it. */
	return n > 20 && fd >= 0 && write(fd, hello, n / 2) > 0 && raw_closed(fd);
}

/* An honest client's first flight, sent again, and again as its second. */
static bool replay(const struct world *w, uint16_t port)
{
	SSL_CTX *ctx;
	unsigned char buf[8192];
	SSL *s = raw_psk(port, "ireland-0", w->master);
	BIO *tap = BIO_new(BIO_s_mem());
	long n;
	char *p;
	int fd;

	if (!s)
		return false;
	SSL_shutdown(s);
	ctx = SSL_get_SSL_CTX(s);
	s = SSL_new(ctx);
	SSL_set0_wbio(s, tap);
	SSL_set0_rbio(s, BIO_new(BIO_s_mem()));
	SSL_connect(s);
	n = BIO_get_mem_data(tap, &p);
	if (n <= 0 || (size_t)n > sizeof(buf))
		return false;
	memcpy(buf, p, (size_t)n);
	for (int i = 0; i < 3; i++) {
		fd = raw_tcp(port);
		/* The server answers with fresh randomness; the old bytes prove nothing. */
		if (fd < 0 || write(fd, buf, (size_t)n) != n || write(fd, buf, (size_t)n) != n || !raw_closed(fd))
			return false;
		close(fd);
	}
	return true;
}

static void test_handshakes(void **state)
{
	struct world *w = *state;
	struct wire_server_counts counts;

	world_listen(w);
	assert_true(world_attack(w, truncated));
	assert_int_equal(w->at_server.opened, 0);
	assert_true(world_attack(w, replay));
	assert_int_equal(w->at_server.opened, 1);	/* the recorded one itself */
	assert_int_equal(w->at_server.messages, 0);
	wire_server_counts(w->server, &counts);
	assert_int_equal(counts.unauthenticated, 0);
	assert_int_equal(counts.refused, 4);
	honest_host_is_served(w);
}

/* ---- many at once ---- */

static bool slow_loris(const struct world *w, uint16_t port)
{
	int fds[300];
	bool all = true;

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = raw_tcp(port);
	for (int round = 0; round < 4; round++) {
		for (size_t i = 0; i < ARRAY_LEN(fds); i++)
			if (send(fds[i], "\x16", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
				errno = 0;
		usleep(500000);
	}
	/* The first that were let in are out by now; the rest wait in the backlog. */
	for (size_t i = 0; i < 60; i++)
		all = all && raw_closed(fds[i]);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	return all;
}

static int most_unauthenticated;

static void watch_counts(evutil_socket_t fd, short what, void *arg)
{
	struct world *w = arg;
	struct wire_server_counts c;

	wire_server_counts(w->server, &c);
	if (c.unauthenticated > most_unauthenticated)
		most_unauthenticated = c.unauthenticated;
}

static void test_slow_loris(void **state)
{
	struct world *w = *state;
	struct timeval tv = { .tv_usec = 5000 };
	struct event *watch;

	world_listen(w);
	most_unauthenticated = 0;
	watch = event_new(w->base, -1, EV_PERSIST, watch_counts, w);
	event_add(watch, &tv);
	assert_true(world_attack(w, slow_loris));
	honest_host_is_served(w);
	event_free(watch);
	assert_int_equal(most_unauthenticated, 64);
}

/* ---- with the key, misused ---- */

static bool huge_prefix(const struct world *w, uint16_t port)
{
	static const char prefix[] = "\x40\0\0\0xxxx";	/* 1 GiB */
	SSL *s = raw_psk(port, "ireland-0", w->master);

	return s && SSL_write(s, prefix, sizeof(prefix) - 1) > 0 && raw_tls_closed(s);
}

static bool zero_prefix(const struct world *w, uint16_t port)
{
	SSL *s = raw_psk(port, "ireland-0", w->master);

	return s && SSL_write(s, "\0\0\0", 4) > 0 && raw_tls_closed(s);
}

static bool deep_json(const struct world *w, uint16_t port)
{
	SSL *s = raw_psk(port, "ireland-0", w->master);
	char text[60000];

	memset(text, '[', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	if (!s)
		return false;
	raw_frame(s, text);
	return raw_tls_closed(s);
}

static bool wide_json(const struct world *w, uint16_t port)
{
	SSL *s = raw_psk(port, "ireland-0", w->master);
	char text[60000];

	if (!s)
		return false;
	snprintf(text, sizeof(text), "{\"v\":1,\"type\":\"hello\",\"id\":1,\"x\":[0");
	for (size_t n = strlen(text); n + 6 < sizeof(text); n += 2)
		memcpy(text + n, ",0", 3);
	memcpy(text + strlen(text), "]}", 3);
	raw_frame(s, text);
	return raw_tls_closed(s);
}

static bool not_messages(const struct world *w, uint16_t port)
{
	static const char *const bad[] = { "[]", "1", "{}", "nonsense", "{\"v\":1}",
		"{\"v\":1,\"type\":1,\"id\":1}", "{\"v\":1,\"type\":\"hello\",\"id\":-1}",
		"{\"v\":1,\"type\":\"hello\",\"id\":1,\"id\":2}", "{\"v\":1,\"type\":\"a\",\"id\":1",
		"{\"v\":1,\"type\":\"\xff\",\"id\":1}", "{\"v\":\"1\",\"type\":\"hello\",\"id\":1}" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		SSL *s = raw_psk(port, "ireland-0", w->master);

		if (!s)
			return false;
		raw_frame(s, bad[i]);
		if (!raw_tls_closed(s))
			return false;
		SSL_free(s);
	}
	return true;
}

static void misuse(struct world *w, bool (*fn)(const struct world *, uint16_t), const char *why)
{
	w->at_server.closed = 0;
	assert_true(world_attack(w, fn));
	assert_true(world_run(w, server_closed, PATIENCE_S));
	assert_int_equal(w->at_server.messages, 0);
	if (!strstr(w->at_server.why, why))
		fail_msg("closed because `%s', not `%s'", w->at_server.why, why);
}

static void test_bad_frames(void **state)
{
	struct world *w = *state;

	w->server_limits.max_values = 1000;
	world_listen(w);
	misuse(w, huge_prefix, "1073741824");
	misuse(w, zero_prefix, "a frame of 0 bytes");
	misuse(w, deep_json, "nested more than 16 deep");
	misuse(w, wide_json, "more than 1000 JSON values");
	misuse(w, not_messages, "without protocol version");
	honest_host_is_served(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_wrong_key, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_other_identity, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_rogue_server, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_no_tls, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_handshakes, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_slow_loris, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_bad_frames, world_setup, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
