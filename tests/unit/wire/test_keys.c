/* Keys: made once, kept secret, one per host. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/wire/wire.h"

static char dir[64], path[128], other[128];

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/bace-test-keys-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/key", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	return 0;
}

static int teardown(void **state)
{
	unlink(path);
	unlink(other);
	return rmdir(dir);
}

/* RFC 5869 HKDF-SHA256 of 00..1f with our salt, computed with Python's hmac. */
static void test_derive(void **state)
{
	static const uint8_t want[] = {
		0xca, 0x50, 0x78, 0xa1, 0x10, 0x2d, 0x61, 0x52,
		0x91, 0x0b, 0x22, 0x0d, 0x48, 0x04, 0xdf, 0xe2,
		0xbd, 0x69, 0x67, 0x25, 0xd2, 0x38, 0xd0, 0xb8,
		0x51, 0x6c, 0xfd, 0xb2, 0xa3, 0x25, 0x31, 0x12 };
	uint8_t master[WIRE_KEY_BYTES], key[WIRE_KEY_BYTES], key2[WIRE_KEY_BYTES];

	for (int i = 0; i < WIRE_KEY_BYTES; i++)
		master[i] = (uint8_t)i;
	assert_int_equal(wire_key_derive(master, "ireland-0", key), 0);
	assert_memory_equal(key, want, sizeof(want));
	assert_int_equal(wire_key_derive(master, "ireland-1", key2), 0);
	assert_memory_not_equal(key, key2, sizeof(key));
}

static void test_generate(void **state)
{
	uint8_t a[WIRE_KEY_BYTES], b[WIRE_KEY_BYTES];
	struct bace_err e = { 0 };
	struct stat st;
	mode_t old = umask(0);

	assert_int_equal(wire_key_generate(path, &e), 0);
	umask(old);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(wire_key_load(path, a, &e), 0);
	/* Never overwritten; another one is another one. */
	assert_int_equal(wire_key_generate(path, &e), -EEXIST);
	assert_int_equal(wire_key_generate(other, &e), 0);
	assert_int_equal(wire_key_load(other, b, &e), 0);
	assert_memory_not_equal(a, b, sizeof(a));
}

static void test_mode(void **state)
{
	static const mode_t bad[] = { 0640, 0604, 0644, 0660, 0666, 0610 };
	uint8_t key[WIRE_KEY_BYTES];
	struct bace_err e = { 0 };

	assert_int_equal(wire_key_generate(path, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(chmod(path, bad[i]), 0);
		assert_int_equal(wire_key_load(path, key, &e), -EACCES);
		assert_non_null(strstr(e.msg, "0600"));
		assert_int_equal(wire_key_load_host(path, "a", key, &e), -EACCES);
	}
	assert_int_equal(chmod(path, 0400), 0);
	assert_int_equal(wire_key_load(path, key, &e), 0);
}

static void test_host_key(void **state)
{
	uint8_t master[WIRE_KEY_BYTES], derived[WIRE_KEY_BYTES], key[WIRE_KEY_BYTES];
	struct bace_err e = { 0 };

	assert_int_equal(wire_key_generate(path, &e), 0);
	assert_int_equal(wire_key_load(path, master, &e), 0);
	assert_int_equal(wire_key_derive(master, "tokyo-0", derived), 0);
	assert_int_equal(wire_key_write_host(other, master, "tokyo-0", &e), 0);
	/* From its own file, from the master's, and never as somebody else. */
	assert_int_equal(wire_key_load_host(other, "tokyo-0", key, &e), 0);
	assert_memory_equal(key, derived, sizeof(key));
	assert_int_equal(wire_key_load_host(path, "tokyo-0", key, &e), 0);
	assert_memory_equal(key, derived, sizeof(key));
	assert_int_equal(wire_key_load_host(other, "tokyo-1", key, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "tokyo-0"));
	/* One host's key does not make a controller. */
	assert_int_equal(wire_key_load(other, key, &e), -EINVAL);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(wire_key_write_host(other, master, "no/slash", &e), -EINVAL);
	assert_int_equal(wire_key_write_host(other, master, "", &e), -EINVAL);
}

static void test_malformed(void **state)
{
	static const char *const bad[] = { "", "\n", "hello", "bace-master-key", "bace-master-key 00",
		"bace-master-key zz0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
		"bace-master-key 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f00",
		"bace-host-key a", "bace-host-key a 00", "bace-host-key " };
	uint8_t key[WIRE_KEY_BYTES];
	struct bace_err e = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		assert_int_equal(bace_write_all(fd, bad[i], strlen(bad[i])), 0);
		close(fd);
		assert_int_equal(wire_key_load(path, key, &e), -EINVAL);
		assert_int_equal(wire_key_load_host(path, "a", key, &e), -EINVAL);
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(wire_key_load(path, key, &e), -ENOENT);
	assert_int_equal(wire_key_load(dir, key, &e), -EINVAL);
}

static void test_names(void **state)
{
	char longest[WIRE_NAME_MAX + 2];

	memset(longest, 'a', sizeof(longest));
	longest[WIRE_NAME_MAX] = '\0';
	assert_true(wire_name_ok(longest));
	longest[WIRE_NAME_MAX] = 'a';
	longest[WIRE_NAME_MAX + 1] = '\0';
	assert_false(wire_name_ok(longest));
	assert_true(wire_name_ok("us-east-2_gw.1+"));
	assert_false(wire_name_ok(""));
	assert_false(wire_name_ok("a b"));
	assert_false(wire_name_ok("a/b"));
	assert_false(wire_name_ok("\xc3\xa9"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_derive),
		cmocka_unit_test_setup_teardown(test_generate, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mode, setup, teardown),
		cmocka_unit_test_setup_teardown(test_host_key, setup, teardown),
		cmocka_unit_test_setup_teardown(test_malformed, setup, teardown),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
