#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <event2/bufferevent_ssl.h>
#include <event2/util.h>
#include <openssl/crypto.h>
#include <openssl/err.h>

#include "agent/wire/conn.h"

static const unsigned char cipher_id[] = { 0x13, 0x01 };	/* TLS_AES_128_GCM_SHA256 */
static const unsigned char session_context[] = "bace";

static SSL_SESSION *psk_session(SSL *ssl, const uint8_t key[WIRE_KEY_BYTES])
{
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_id);
	SSL_SESSION *s = SSL_SESSION_new();

	if (!s || !cipher || !SSL_SESSION_set1_master_key(s, key, WIRE_KEY_BYTES) ||
	    !SSL_SESSION_set_cipher(s, cipher) ||
	    !SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION)) {
		SSL_SESSION_free(s);
		return NULL;
	}
	return s;
}

static int find_session(SSL *ssl, const unsigned char *identity, size_t len, SSL_SESSION **out)
{
	const uint8_t *master = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	struct wire_conn *c = SSL_get_app_data(ssl);
	uint8_t key[WIRE_KEY_BYTES];

	*out = NULL;
	if (!len || len > WIRE_NAME_MAX || memchr(identity, '\0', len))
		return 1;
	memcpy(c->peer, identity, len);
	c->peer[len] = '\0';
	if (!wire_name_ok(c->peer) || wire_key_derive(master, c->peer, key)) {
		c->peer[0] = '\0';
		return 1;
	}
	*out = psk_session(ssl, key);
	OPENSSL_cleanse(key, sizeof(key));
	return *out ? 1 : 0;
}

static int use_session(SSL *ssl, const EVP_MD *md, const unsigned char **identity, size_t *len,
		       SSL_SESSION **out)
{
	struct wire_conn *c = SSL_get_app_data(ssl);

	*out = psk_session(ssl, c->key);
	if (!*out)
		return 0;
	*identity = (const unsigned char *)c->name;
	*len = strlen(c->name);
	return 1;
}

/* A client without SSL_VERIFY_PEER would take a server with any certificate and
 * no key; with it and no trusted certificate, only the key is left. */
static int common_settings(SSL_CTX *ctx)
{
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
			 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
	return SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) &&
	       SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) &&
	       SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") &&
	       SSL_CTX_set_num_tickets(ctx, 0) && SSL_CTX_set_max_early_data(ctx, 0) &&
	       SSL_CTX_set_recv_max_early_data(ctx, 0);
}

static int new_ctx(const SSL_METHOD *method, SSL_CTX **out, struct bace_err *e)
{
	*out = SSL_CTX_new(method);
	if (*out && common_settings(*out))
		return 0;
	SSL_CTX_free(*out);
	*out = NULL;
	ERR_clear_error();
	return bace_fail(e, EIO, "set up TLS 1.3 with a pre-shared key: OpenSSL refused");
}

int tls_server_ctx(const uint8_t master[WIRE_KEY_BYTES], SSL_CTX **out, struct bace_err *e)
{
	int rc = new_ctx(TLS_server_method(), out, e);
	uint8_t *copy;

	if (rc)
		return rc;
	copy = OPENSSL_memdup(master, WIRE_KEY_BYTES);
	/* Needed with SSL_VERIFY_PEER; on a client it would refuse the key's session. */
	if (!copy || !SSL_CTX_set_session_id_context(*out, session_context, sizeof(session_context) - 1)) {
		OPENSSL_clear_free(copy, WIRE_KEY_BYTES);
		tls_ctx_free(*out);
		*out = NULL;
		return bace_fail(e, ENOMEM, "set up TLS: out of memory");
	}
	SSL_CTX_set_app_data(*out, copy);
	SSL_CTX_set_psk_find_session_callback(*out, find_session);
	return 0;
}

int tls_client_ctx(SSL_CTX **out, struct bace_err *e)
{
	int rc = new_ctx(TLS_client_method(), out, e);

	if (!rc)
		SSL_CTX_set_psk_use_session_callback(*out, use_session);
	return rc;
}

void tls_ctx_free(SSL_CTX *ctx)
{
	if (!ctx)
		return;
	OPENSSL_clear_free(SSL_CTX_get_app_data(ctx), WIRE_KEY_BYTES);
	SSL_CTX_free(ctx);
}

bool tls_accepted(SSL *ssl)
{
	return SSL_version(ssl) == TLS1_3_VERSION && SSL_session_reused(ssl);
}

/* Also where OpenSSL was told not to load its texts. */
static const char *reason_text(unsigned long code, char buf[48])
{
	const char *text = ERR_reason_error_string(code);
	int reason = ERR_GET_REASON(code);

	if (text || !ERR_GET_LIB(code))
		return text;
	if (reason > SSL_AD_REASON_OFFSET)
		return SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET);
	if (ERR_GET_LIB(code) == ERR_LIB_SSL && reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
		return "certificate verify failed";
	snprintf(buf, 48, "OpenSSL's error %lx", code);
	return buf;
}

void tls_reason(struct bufferevent *bev, bool authenticated, char *buf, size_t cap)
{
	unsigned long code = bufferevent_get_openssl_error(bev);
	int sock = EVUTIL_SOCKET_ERROR();
	char unnamed[48];
	const char *text = code ? reason_text(code, unnamed) : NULL;

	ERR_clear_error();
	if (text && !authenticated)
		snprintf(buf, cap, "handshake refused: %s (is it the same master key?)", text);
	else if (text)
		snprintf(buf, cap, "TLS: %s", text);
	else if (sock)
		snprintf(buf, cap, "%s", evutil_socket_error_to_string(sock));
	else
		snprintf(buf, cap, "connection closed");
}
