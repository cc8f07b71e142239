#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>

#include "agent/wire/wire.h"

#define MASTER_WORD "bace-master-key"
#define HOST_WORD "bace-host-key"
#define KEY_FILE_MAX 512
#define HKDF_SALT "bace control protocol 1"

bool wire_name_ok(const char *name)
{
	static const char ok[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-";
	size_t n = strlen(name);

	return n && n <= WIRE_NAME_MAX && strspn(name, ok) == n;
}

int wire_key_derive(const uint8_t master[WIRE_KEY_BYTES], const char *host,
		    uint8_t key[WIRE_KEY_BYTES])
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)master, WIRE_KEY_BYTES),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)HKDF_SALT,
						  strlen(HKDF_SALT)),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)host, strlen(host)),
		OSSL_PARAM_construct_end(),
	};
	int ok = ctx && EVP_KDF_derive(ctx, key, WIRE_KEY_BYTES, params) == 1;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return ok ? 0 : -EIO;
}

static void to_hex(const uint8_t *key, char hex[2 * WIRE_KEY_BYTES + 1])
{
	for (int i = 0; i < WIRE_KEY_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", key[i]);
}

static int from_hex(const char *hex, uint8_t *key)
{
	if (strlen(hex) != 2 * WIRE_KEY_BYTES)
		return -EINVAL;
	for (int i = 0; i < WIRE_KEY_BYTES; i++) {
		char pair[3] = { hex[2 * i], hex[2 * i + 1], '\0' };

		if (strspn(pair, "0123456789abcdefABCDEF") != 2)
			return -EINVAL;
		key[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	return 0;
}

static int write_new(const char *path, const char *text, struct bace_err *e)
{
	CLEANUP_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int rc;

	if (fd < 0)
		return errno == EEXIST ? bace_fail(e, EEXIST, "%s exists; a key is never overwritten: "
						   "remove it first", path)
				       : bace_fail_errno(e, errno, "create key file %s", path);
	/* Whatever the umask said. */
	rc = fchmod(fd, 0600) ? -errno : bace_write_all(fd, text, strlen(text));
	if (!rc && fsync(fd))
		rc = -errno;
	if (rc) {
		unlink(path);
		return bace_fail_errno(e, -rc, "write key file %s", path);
	}
	return 0;
}

int wire_key_generate(const char *path, struct bace_err *e)
{
	uint8_t key[WIRE_KEY_BYTES];
	char hex[2 * WIRE_KEY_BYTES + 1], line[KEY_FILE_MAX];
	int rc;

	if (RAND_priv_bytes(key, sizeof(key)) != 1)
		return bace_fail(e, EIO, "generate a key: no randomness");
	to_hex(key, hex);
	snprintf(line, sizeof(line), MASTER_WORD " %s\n", hex);
	rc = write_new(path, line, e);
	OPENSSL_cleanse(key, sizeof(key));
	OPENSSL_cleanse(hex, sizeof(hex));
	OPENSSL_cleanse(line, sizeof(line));
	return rc;
}

int wire_key_host_line(const uint8_t master[WIRE_KEY_BYTES], const char *host,
		       char line[WIRE_KEY_LINE_MAX])
{
	uint8_t key[WIRE_KEY_BYTES];
	char hex[2 * WIRE_KEY_BYTES + 1];

	if (wire_key_derive(master, host, key))
		return -EIO;
	to_hex(key, hex);
	snprintf(line, WIRE_KEY_LINE_MAX, HOST_WORD " %s %s\n", host, hex);
	OPENSSL_cleanse(key, sizeof(key));
	OPENSSL_cleanse(hex, sizeof(hex));
	return 0;
}

int wire_key_write_host(const char *path, const uint8_t master[WIRE_KEY_BYTES], const char *host,
			struct bace_err *e)
{
	char line[WIRE_KEY_LINE_MAX];
	int rc;

	if (!wire_name_ok(host))
		return bace_fail(e, EINVAL, "host name `%.80s': must be 1 to %d of letters, digits and ._+-",
				 host, WIRE_NAME_MAX);
	if (wire_key_host_line(master, host, line))
		return bace_fail(e, EIO, "derive the key of %s: HKDF failed", host);
	rc = write_new(path, line, e);
	OPENSSL_cleanse(line, sizeof(line));
	return rc;
}

static int check_mode(int fd, const char *path, struct bace_err *e)
{
	struct stat st;

	if (fstat(fd, &st))
		return bace_fail_errno(e, errno, "key file %s", path);
	if (!S_ISREG(st.st_mode))
		return bace_fail(e, EINVAL, "key file %s: not a regular file", path);
	if (st.st_mode & 077)
		return bace_fail(e, EACCES, "key file %s: mode is %04o, must be 0600: others can read it; "
				 "`chmod 600 %s' and, if they may have, make a new one", path,
				 (unsigned)(st.st_mode & 07777), path);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return bace_fail(e, EACCES, "key file %s: owned by uid %u, must be owned by uid %u or root",
				 path, (unsigned)st.st_uid, (unsigned)geteuid());
	return 0;
}

static int read_key_file(const char *path, char text[KEY_FILE_MAX], struct bace_err *e)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t n;
	int rc;

	if (fd < 0)
		return bace_fail_errno(e, errno, "open key file %s", path);
	rc = check_mode(fd, path, e);
	if (rc)
		return rc;
	n = read(fd, text, KEY_FILE_MAX - 1);
	if (n < 0)
		return bace_fail_errno(e, errno, "read key file %s", path);
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return 0;
}

/* word [name] hex; false if it is not of this kind. */
static bool is_kind(const char *text, const char *word, const char **rest)
{
	size_t n = strlen(word);

	if (strncmp(text, word, n) || text[n] != ' ')
		return false;
	*rest = text + n + 1;
	return true;
}

static int malformed(const char *path, struct bace_err *e)
{
	return bace_fail(e, EINVAL, "key file %s: not a key of bace; `bace keygen' makes one", path);
}

int wire_key_load(const char *path, uint8_t master[WIRE_KEY_BYTES], struct bace_err *e)
{
	char text[KEY_FILE_MAX];
	const char *rest;
	int rc = read_key_file(path, text, e);

	if (rc)
		return rc;
	if (is_kind(text, HOST_WORD, &rest))
		rc = bace_fail(e, EINVAL, "key file %s: the key of one host; the master key is needed here",
			       path);
	else if (!is_kind(text, MASTER_WORD, &rest) || from_hex(rest, master))
		rc = malformed(path, e);
	OPENSSL_cleanse(text, sizeof(text));
	return rc;
}

static int load_own(const char *path, char *rest, const char *host, uint8_t *key, struct bace_err *e)
{
	char *space = strchr(rest, ' ');

	if (!space)
		return malformed(path, e);
	*space = '\0';
	if (strcmp(rest, host))
		return bace_fail(e, EINVAL, "key file %s: the key of host `%.64s', this is `%s'", path, rest,
				 host);
	return from_hex(space + 1, key) ? malformed(path, e) : 0;
}

/* text is changed. */
static int host_key_of(const char *path, char *text, const char *host, uint8_t key[WIRE_KEY_BYTES],
		       struct bace_err *e)
{
	uint8_t master[WIRE_KEY_BYTES];
	const char *rest;
	int rc = 0;

	if (is_kind(text, HOST_WORD, &rest))
		rc = load_own(path, (char *)rest, host, key, e);
	else if (!is_kind(text, MASTER_WORD, &rest) || from_hex(rest, master))
		rc = malformed(path, e);
	else if (wire_key_derive(master, host, key))
		rc = bace_fail(e, EIO, "derive the key of %s: HKDF failed", host);
	OPENSSL_cleanse(master, sizeof(master));
	return rc;
}

int wire_key_load_host(const char *path, const char *host, uint8_t key[WIRE_KEY_BYTES],
		       struct bace_err *e)
{
	char text[KEY_FILE_MAX];
	int rc = read_key_file(path, text, e);

	if (!rc)
		rc = host_key_of(path, text, host, key, e);
	OPENSSL_cleanse(text, sizeof(text));
	return rc;
}

/* Byte by byte: what follows the line is not ours. */
int wire_key_read_host(int fd, const char *host, uint8_t key[WIRE_KEY_BYTES], struct bace_err *e)
{
	char text[KEY_FILE_MAX];
	size_t n = 0;
	int rc = 0;

	for (;;) {
		ssize_t got = read(fd, text + n, 1);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			rc = bace_fail_errno(e, errno, "read the key");
		if (got <= 0 || text[n] == '\n' || ++n == sizeof(text) - 1)
			break;
	}
	text[n] = '\0';
	if (!rc)
		rc = host_key_of("-", text, host, key, e);
	OPENSSL_cleanse(text, sizeof(text));
	return rc;
}
