#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/common.h"

static void test_err(void **state)
{
	struct bace_err e;

	assert_int_equal(bace_fail(&e, EINVAL, "rank %d: %s", 3, "no"), -EINVAL);
	assert_string_equal(e.msg, "rank 3: no");
	assert_int_equal(bace_fail_errno(&e, ECONNREFUSED, "connect %s", "h"), -ECONNREFUSED);
	assert_string_equal(e.msg, "connect h: Connection refused");
	assert_int_equal(bace_err_context(&e, "rank %d", 3), -ECONNREFUSED);
	assert_string_equal(e.msg, "rank 3: connect h: Connection refused");
	assert_int_equal(bace_fail(NULL, EIO, "x"), -EIO);
	/* One line, whatever is in it; and a message made of itself. */
	bace_fail(&e, EIO, "a\nb\r");
	assert_string_equal(e.msg, "a b ");
	bace_fail(&e, EIO, "<%s>", e.msg);
	assert_string_equal(e.msg, "<a b >");
}

static void test_err_is_bounded(void **state)
{
	struct bace_err e;
	char big[2000];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	bace_fail_errno(&e, EIO, "%s", big);
	assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
	bace_err_context(&e, "%s", big);
	assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
}

static void test_diags(void **state)
{
	struct bace_diags d = { 0 };
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	bace_diag_add(&d, "a.cfg", 3, "key `%s'", "x\ny\033");
	bace_diag_add(&d, "a.cfg", 0, "all of it");
	bace_diag_add(&d, NULL, 0, "nothing in particular");
	bace_diags_print(&d, f);
	fclose(f);
	assert_string_equal(text, "a.cfg:3: key `x?y?'\na.cfg: all of it\nnothing in particular\n");
	bace_diags_free(&d);
	assert_int_equal(d.n, 0);
	free(text);
}

static void test_cleanup_keeps_errno(void **state)
{
	errno = E2BIG;
	{
		CLEANUP_FREE char *p = malloc(10);
		CLEANUP_CLOSE int fd = -1;
		CLEANUP_CLOSE int bad = 1 << 20;
		CLEANUP_FCLOSE FILE *f = NULL;

		assert_non_null(p);
		(void)fd;
		(void)bad;
		(void)f;
	}
	assert_int_equal(errno, E2BIG);

	char *a = malloc(1), *b = STEAL_PTR(a);

	assert_null(a);
	free(b);

	int fd = 5, stolen = STEAL_FD(fd);

	assert_int_equal(fd, -1);
	assert_int_equal(stolen, 5);
}

static void test_buf(void **state)
{
	struct bace_buf b = { 0 };

	assert_int_equal(bace_buf_add(&b, NULL, 0), 0);
	assert_string_equal(b.p, "");
	for (int i = 0; i < 1000; i++)
		assert_int_equal(bace_buf_addf(&b, "%03d,", i), 0);
	assert_int_equal(b.len, 4000);
	assert_memory_equal(b.p, "000,001,", 8);
	assert_string_equal(b.p + 3996, "999,");
	assert_int_equal(bace_buf_add(&b, "\0x", 2), 0);
	assert_int_equal(b.len, 4002);
	bace_buf_free(&b);
	assert_null(b.p);
	assert_int_equal(bace_buf_addf(&b, "%s", ""), 0);
	assert_string_equal(b.p, "");
	bace_buf_free(&b);
}

static void test_push(void **state)
{
	int *v = NULL;
	size_t n = 0, cap = 0;
	void *p = NULL;

	for (int i = 0; i < 100; i++)
		assert_int_equal(BACE_PUSH(v, n, cap, i * i), 0);
	assert_int_equal(n, 100);
	assert_int_equal(v[99], 99 * 99);
	free(v);
	cap = 0;
	assert_int_equal(bace_grow(&p, &cap, SIZE_MAX, 8), -ENOMEM);
	assert_int_equal(bace_grow(&p, &cap, SIZE_MAX / 4, 8), -ENOMEM);
	assert_null(p);
}

static void test_nearest(void **state)
{
	static const char *const keys[] = { "latency", "rate", "jitter", "jitter_distribution", "pue" };
	size_t n = ARRAY_LEN(keys);

	assert_string_equal(bace_nearest("latnecy", keys, n), "latency");
	assert_string_equal(bace_nearest("Latency", keys, n), "latency");
	assert_string_equal(bace_nearest("latency_ms", keys, n), "latency");
	assert_string_equal(bace_nearest("jitter-distribution", keys, n), "jitter_distribution");
	assert_string_equal(bace_nearest("rates", keys, n), "rate");
	assert_string_equal(bace_nearest("peu", keys, n), "pue");
	assert_null(bace_nearest("colour", keys, n));
	assert_null(bace_nearest("", keys, n));
	assert_null(bace_nearest("x", keys, 0));
	/* One edit makes any letter of any other. */
	assert_null(bace_nearest("x", (const char *const[]){ "a", "b" }, 2));

	char big[300];

	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	assert_null(bace_nearest(big, keys, n));
}

static void test_files(void **state)
{
	char path[] = "/tmp/bace-test-XXXXXX";
	int fd = mkstemp(path);
	struct bace_err e;
	char *text;
	size_t len;

	assert_true(fd >= 0);
	assert_int_equal(bace_read_file(path, 10, &text, &len, &e), 0);
	assert_int_equal(len, 0);
	assert_string_equal(text, "");
	free(text);
	assert_int_equal(bace_write_all(fd, "0123456789", 10), 0);
	assert_int_equal(bace_read_file(path, 10, &text, &len, &e), 0);
	assert_int_equal(len, 10);
	assert_string_equal(text, "0123456789");
	free(text);
	assert_int_equal(bace_read_file(path, 9, &text, &len, &e), -EFBIG);
	assert_non_null(strstr(e.msg, path));
	close(fd);
	unlink(path);
	assert_int_equal(bace_read_file(path, 9, &text, NULL, &e), -ENOENT);
	assert_int_equal(bace_read_file("/tmp", 9, &text, NULL, &e), -EISDIR);
	assert_int_equal(bace_write_all(-1, "x", 1), -EBADF);
}

static void test_hash(void **state)
{
	/* Published FNV-1a vectors. */
	assert_int_equal(bace_hash64("", 0, 0), UINT64_C(0xcbf29ce484222325));
	assert_int_equal(bace_hash64("a", 1, 0), UINT64_C(0xaf63dc4c8601ec8c));
	assert_int_equal(bace_hash64("foobar", 6, 0), UINT64_C(0x85944171f73967e8));
	assert_int_not_equal(bace_hash64("foobar", 6, 1), bace_hash64("foobar", 6, 0));
}

static void read_pipe(int fd, char *buf, size_t cap)
{
	ssize_t n = read(fd, buf, cap - 1);

	buf[n > 0 ? n : 0] = '\0';
}

static void test_log(void **state)
{
	int p[2];
	char buf[1024];

	assert_int_equal(pipe2(p, O_NONBLOCK), 0);
	bace_log_setup(&(struct bace_log_config){ .level = BACE_INFO, .program = "prog", .fd = p[1] });
	assert_int_equal(bace_log_level(), BACE_INFO);
	bace_log(BACE_INFO, "wire", "rank %d\nis up", 3);
	read_pipe(p[0], buf, sizeof(buf));
	assert_string_equal(buf, "prog: wire: rank 3 is up\n");
	bace_log(BACE_WARN, "wire", "late");
	read_pipe(p[0], buf, sizeof(buf));
	assert_string_equal(buf, "prog: warning: wire: late\n");
	bace_log(BACE_DEBUG, "wire", "unheard");
	read_pipe(p[0], buf, sizeof(buf));
	assert_string_equal(buf, "");

	bace_log_setup(&(struct bace_log_config){
		.level = BACE_DEBUG, .json = true, .program = "prog", .fd = p[1] });
	errno = E2BIG;
	bace_log(BACE_ERROR, "wire", "a \"quote\"\n\\");
	assert_int_equal(errno, E2BIG);
	read_pipe(p[0], buf, sizeof(buf));
	assert_non_null(strstr(buf, "\"level\":\"error\""));
	assert_non_null(strstr(buf, "\"message\":\"a \\\"quote\\\"\\u000a\\\\\"}\n"));
	bace_log_setup(&(struct bace_log_config){ .level = BACE_INFO, .program = "prog", .fd = 2 });
	close(p[0]);
	close(p[1]);
}

static void test_clocks(void **state)
{
	int64_t a = bace_mono_ns(), b = bace_mono_ns();

	assert_true(b >= a);
	assert_true(bace_wall_ns() > INT64_C(1500000000) * 1000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_err),	  cmocka_unit_test(test_err_is_bounded),
		cmocka_unit_test(test_diags),	  cmocka_unit_test(test_cleanup_keeps_errno),
		cmocka_unit_test(test_buf),	  cmocka_unit_test(test_push),
		cmocka_unit_test(test_nearest),	  cmocka_unit_test(test_files),
		cmocka_unit_test(test_hash),	  cmocka_unit_test(test_log),
		cmocka_unit_test(test_clocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
