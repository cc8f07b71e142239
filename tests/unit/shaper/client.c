/* The client's side of the socket when the daemon does not do its part. */
#include "tests/unit/shaper/support.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listener(struct sockaddr_un *sa)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	sa->sun_family = AF_UNIX;
	snprintf(sa->sun_path, sizeof(sa->sun_path), "/tmp/bace-client-%d", (int)getpid());
	assert_int_equal(bind(fd, (struct sockaddr *)sa, sizeof(*sa)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void a_silent_daemon_is_not_waited_for_for_ever(void **state)
{
	struct sockaddr_un sa = { 0 };
	struct shaperd_client *c = NULL;
	struct bace_err e;
	int fd = listener(&sa);

	assert_int_equal(shaperd_connect(sa.sun_path, &c, &e), -ETIMEDOUT);
	assert_null(c);
	assert_non_null(strstr(e.msg, "does not answer"));
	assert_non_null(strstr(e.msg, sa.sun_path));
	close(fd);
	unlink(sa.sun_path);
}

static void no_daemon_says_so(void **state)
{
	struct shaperd_client *c = NULL;
	struct bace_err e;

	assert_int_equal(shaperd_connect("/nonexistent/shaperd.sock", &c, &e), -ENOENT);
	assert_non_null(strstr(e.msg, "/nonexistent/shaperd.sock"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_silent_daemon_is_not_waited_for_for_ever),
		cmocka_unit_test(no_daemon_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
