#include "tests/unit/wire/fixture.h"

#include <errno.h>
#include <math.h>
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

static void log_reset(struct peer_log *l)
{
	json_decref(l->last);
	*l = (struct peer_log){ 0 };
}

static void on_open(void *arg, struct wire_conn *c, const char *peer)
{
	struct peer_log *l = arg;

	l->opened++;
	l->conn = c;
	snprintf(l->peer, sizeof(l->peer), "%s", peer);
}

static void on_message(void *arg, struct wire_conn *c, json_t *msg)
{
	struct peer_log *l = arg;

	l->messages++;
	json_decref(l->last);
	l->last = json_incref(msg);
	if (l->answers)
		wire_answer(c, json_integer_value(json_object_get(msg, "id")), NULL);
}

static void on_close(void *arg, struct wire_conn *c, const char *why)
{
	struct peer_log *l = arg;

	l->closed++;
	if (l->conn == c)
		l->conn = NULL;
	snprintf(l->why, sizeof(l->why), "%s", why);
}

int world_setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	if (!w)
		return -1;
	signal(SIGPIPE, SIG_IGN);
	w->base = event_base_new();
	for (int i = 0; i < WIRE_KEY_BYTES; i++)
		w->master[i] = (uint8_t)(i * 7 + 1);
	*state = w;
	return w->base ? 0 : -1;
}

int world_teardown(void **state)
{
	struct world *w = *state;

	if (w->at_client.conn)
		wire_free(w->at_client.conn);
	wire_server_free(w->server);
	log_reset(&w->at_client);
	log_reset(&w->at_server);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	event_base_free(w->base);
	free(w);
	return 0;
}

void world_listen(struct world *w)
{
	struct wire_handlers h = { on_open, on_message, on_close, &w->at_server, w->server_limits };
	struct bace_err e = { 0 };

	assert_int_equal(wire_listen(w->base, "127.0.0.1", 0, w->master, &h, &w->server, &e), 0);
}

uint16_t world_port(const struct world *w)
{
	return wire_server_port(w->server);
}

void world_connect(struct world *w, uint16_t port, const char *name, const uint8_t master[WIRE_KEY_BYTES])
{
	struct wire_handlers h = { on_open, on_message, on_close, &w->at_client, w->client_limits };
	uint8_t key[WIRE_KEY_BYTES];
	struct bace_err e = { 0 };

	assert_int_equal(wire_key_derive(master, name, key), 0);
	assert_int_equal(wire_connect(w->base, "127.0.0.1", port, name, key, &h, &w->at_client.conn, &e), 0);
}

static void turn(struct world *w)
{
	struct timeval tv = { .tv_usec = 10000 };

	event_base_loopexit(w->base, &tv);
	event_base_loop(w->base, EVLOOP_ONCE);
}

bool world_run(struct world *w, bool (*done)(const struct world *w), double limit_s)
{
	int64_t until = bace_mono_ns() + (int64_t)(limit_s * 1e9);

	while (!done(w) && bace_mono_ns() < until)
		turn(w);
	return done(w);
}

void world_idle(struct world *w, double seconds)
{
	int64_t until = bace_mono_ns() + (int64_t)(seconds * 1e9);

	while (bace_mono_ns() < until)
		turn(w);
}

bool world_attack(struct world *w, bool (*fn)(const struct world *w, uint16_t port))
{
	uint16_t port = world_port(w);
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (!pid)
		_exit(fn(w, port) ? 0 : 1);
	while (waitpid(pid, &status, WNOHANG) == 0)
		turn(w);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int raw_tcp(uint16_t port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval tv = { .tv_sec = 10 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa))) {
		close(fd);
		return -1;
	}
	return fd;
}

static const char *psk_name;
static uint8_t psk_key[WIRE_KEY_BYTES];

static int use_session(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *len, SSL_SESSION **out)
{
	static const unsigned char suite[] = { 0x13, 0x01 };
	SSL_SESSION *s = SSL_SESSION_new();

	SSL_SESSION_set1_master_key(s, psk_key, sizeof(psk_key));
	SSL_SESSION_set_cipher(s, SSL_CIPHER_find(ssl, suite));
	SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION);
	*id = (const unsigned char *)psk_name;
	*len = strlen(psk_name);
	*out = s;
	return 1;
}

SSL *raw_psk(uint16_t port, const char *name, const uint8_t master[WIRE_KEY_BYTES])
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *s;
	int fd = raw_tcp(port);

	psk_name = name;
	wire_key_derive(master, name, psk_key);
	SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
	SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256");
	SSL_CTX_set_psk_use_session_callback(ctx, use_session);
	s = SSL_new(ctx);
	SSL_set_fd(s, fd);
	return fd >= 0 && SSL_connect(s) == 1 ? s : NULL;
}

void raw_frame(SSL *s, const char *text)
{
	uint32_t n = htonl((uint32_t)strlen(text));

	SSL_write(s, &n, sizeof(n));
	SSL_write(s, text, (int)strlen(text));
}

bool raw_closed(int fd)
{
	char buf[4096];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		;
	return n == 0 || errno == ECONNRESET || errno == EPIPE;
}

bool raw_tls_closed(SSL *s)
{
	char buf[4096];
	int n;

	while ((n = SSL_read(s, buf, sizeof(buf))) > 0)
		;
	return SSL_get_error(s, n) != SSL_ERROR_WANT_READ && !(SSL_get_error(s, n) == SSL_ERROR_SYSCALL &&
							      errno == EAGAIN);
}

static int read_all(SSL *s, void *p, size_t n)
{
	for (size_t have = 0; have < n;) {
		int k = SSL_read(s, (char *)p + have, (int)(n - have));

		if (k <= 0)
			return -1;
		have += (size_t)k;
	}
	return 0;
}

int raw_read_frame(SSL *s, char *buf, size_t cap)
{
	uint32_t n;

	if (read_all(s, &n, sizeof(n)))
		return -1;
	n = ntohl(n);
	if (n >= cap || read_all(s, buf, n))
		return -1;
	buf[n] = '\0';
	return (int)n;
}
