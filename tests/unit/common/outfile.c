/* Writing a file whole, wherever its name leads. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/common.h"

static char dir[64];

static int in_new_folder(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/bace-outfile-XXXXXX");
	return mkdtemp(dir) && !chdir(dir) ? 0 : -1;
}

static int remove_folder(void **state)
{
	DIR *d = opendir(dir);
	struct dirent *x;

	while (d && (x = readdir(d)))
		if (strcmp(x->d_name, ".") && strcmp(x->d_name, ".."))
			remove(x->d_name);
	closedir(d);
	return chdir("/") || rmdir(dir);
}

static int entries(void)
{
	DIR *d = opendir(".");
	int n = -2;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static int put(const char *path, const char *text, int rc, struct bace_err *e)
{
	struct bace_outfile out;
	int failed = bace_outfile_open(path, &out, e);

	if (failed)
		return failed;
	fputs(text, out.f);
	return bace_outfile_close(&out, rc, e);
}

static void assert_text(const char *path, const char *want)
{
	CLEANUP_FREE char *text = NULL;

	assert_int_equal(bace_read_file(path, 1 << 20, &text, NULL, NULL), 0);
	assert_string_equal(text, want);
}

static void test_whole_or_not_at_all(void **state)
{
	struct bace_err e = { 0 };
	struct bace_outfile out;
	struct stat st;
	mode_t mask = umask(027);

	assert_int_equal(put("a", "first\n", 0, &e), 0);
	umask(mask);
	stat("a", &st);
	assert_int_equal(st.st_mode & 0777, 0640);
	/* Whoever reads sees the old one until the new one is whole. */
	chmod("a", 0604);
	assert_int_equal(bace_outfile_open("a", &out, &e), 0);
	fputs("second\n", out.f);
	fflush(out.f);
	assert_text("a", "first\n");
	assert_int_equal(bace_outfile_close(&out, 0, &e), 0);
	assert_text("a", "second\n");
	stat("a", &st);
	assert_int_equal(st.st_mode & 0777, 0604);
	/* What failed leaves the old one and nothing else. */
	bace_fail(&e, EPROTO, "the cause");
	assert_int_equal(put("a", "third\n", -EPROTO, &e), -EPROTO);
	assert_string_equal(e.msg, "the cause");
	assert_text("a", "second\n");
	assert_int_equal(entries(), 1);
	assert_int_equal(put("none/a", "x", 0, &e), -ENOENT);
	assert_non_null(strstr(e.msg, "none/a"));
}

static void test_links_stay(void **state)
{
	struct bace_err e = { 0 };
	struct stat st;

	assert_int_equal(symlink("end", "link"), 0);
	assert_int_equal(put("link", "one", 0, &e), 0);	/* leads nowhere yet */
	assert_int_equal(put("link", "two", 0, &e), 0);
	lstat("link", &st);
	assert_true(S_ISLNK(st.st_mode));
	assert_text("end", "two");
	assert_int_equal(entries(), 2);
}

static void test_pipe_is_written_into(void **state)
{
	struct bace_err e = { 0 };
	struct stat st;
	char got[16] = "";

	assert_int_equal(mkfifo("pipe", 0600), 0);
	pid_t reader = fork();
	if (!reader) {
		int fd = open("pipe", O_RDONLY);
		ssize_t n = 0, k;

		while ((k = read(fd, got + n, sizeof(got) - 1 - (size_t)n)) > 0)
			n += k;
		_exit(strcmp(got, "through\n") ? 1 : 0);
	}
	assert_int_equal(put("pipe", "through\n", 0, &e), 0);
	int status;
	waitpid(reader, &status, 0);
	assert_int_equal(status, 0);
	lstat("pipe", &st);
	assert_true(S_ISFIFO(st.st_mode));
	assert_int_equal(entries(), 1);
}

static void test_folder_and_socket_are_refused(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = "socket" };
	struct bace_err e = { 0 };
	struct stat st;

	mkdir("folder", 0755);
	assert_int_equal(put("folder", "x", 0, &e), -EISDIR);
	assert_string_equal(e.msg, "write folder: it is a folder: name a file in it");
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(put("socket", "x", 0, &e), -EINVAL);
	lstat("socket", &st);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(entries(), 2);
}

/* Nodes of our own, never the machine's: like /dev/full, /dev/null, a disk. */
static void test_devices_stay(void **state)
{
	struct bace_err e = { 0 };
	struct stat st;

	if (mknod("full", S_IFCHR | 0666, makedev(1, 7)) || mknod("null", S_IFCHR | 0666, makedev(1, 3)) ||
	    mknod("disk", S_IFBLK | 0666, makedev(7, 250))) {
		print_message("no permission to make device nodes\n");
		skip();
	}
	CLEANUP_CLOSE int fd = open("full", O_WRONLY);
	if (fd < 0) {
		print_message("%s does not let device nodes be opened\n", dir);
		skip();
	}
	assert_int_equal(put("full", "x", 0, &e), -ENOSPC);
	assert_string_equal(e.msg, "write full: No space left on device");
	assert_int_equal(put("null", "x", 0, &e), 0);
	assert_int_equal(put("disk", "x", 0, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "disk"));
	lstat("full", &st);
	assert_true(S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 7));
	lstat("null", &st);
	assert_true(S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
	lstat("disk", &st);
	assert_true(S_ISBLK(st.st_mode));
	assert_int_equal(entries(), 3);
}

/* The name changes under the writer. */
static void test_what_came_between_stays(void **state)
{
	struct bace_outfile out;
	struct bace_err e = { 0 };
	struct stat st;

	assert_int_equal(bace_outfile_open("later", &out, &e), 0);
	assert_int_equal(mkfifo("later", 0600), 0);
	assert_int_equal(bace_outfile_close(&out, 0, &e), -EEXIST);
	lstat("later", &st);
	assert_true(S_ISFIFO(st.st_mode));
	assert_int_equal(entries(), 1);
}

/* `bace sim -o /dev/stdout > FILE': the shell's file is written to, not replaced. */
static void test_standard_output(void **state)
{
	struct bace_err e = { 0 };
	pid_t child = fork();
	int status;

	if (!child) {
		int fd = open("out", O_WRONLY | O_CREAT, 0600);

		dup2(fd, 1);
		dprintf(1, "before\n");
		_exit(put("/dev/stdout", "whole\n", 0, &e) || lseek(fd, 0, SEEK_END) != 13);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	assert_text("out", "before\nwhole\n");
	assert_int_equal(entries(), 1);
}

#define IN_FOLDER(t) cmocka_unit_test_setup_teardown(t, in_new_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(test_whole_or_not_at_all),
		IN_FOLDER(test_links_stay),
		IN_FOLDER(test_pipe_is_written_into),
		IN_FOLDER(test_folder_and_socket_are_refused),
		IN_FOLDER(test_devices_stay),
		IN_FOLDER(test_what_came_between_stays),
		IN_FOLDER(test_standard_output),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
