/* What bace-shaperd makes of requests that no client of ours would send, of users
 * who may not shape, and of what it finds on disk. */
#include "tests/netns/shaper/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shaper/shaperd/protocol.h"

static struct shaperd_request request;
static struct shaperd_reply reply;

static int raw(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX, .sun_path = SOCKET };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	for (int i = 0; connect(fd, (struct sockaddr *)&sa, sizeof(sa)); i++) {
		if (i == 100)
			fail_msg("connect: %s", strerror(errno));
		usleep(20000);
	}
	return fd;
}

/* A request that is in order, of zeros. */
static size_t compose(uint32_t type, uint32_t n)
{
	memset(&request, 0, sizeof(request));
	request.magic = SHAPERD_MAGIC;
	request.version = SHAPERD_VERSION;
	request.type = type;
	request.n = n;
	return shaperd_request_bytes(type, n);
}

static void put(int fd, size_t bytes)
{
	assert_int_equal(send(fd, &request, bytes, MSG_NOSIGNAL), bytes);
}

static int32_t status(int fd)
{
	assert_true(recv(fd, &reply, sizeof(reply), 0) >= (ssize_t)shaperd_reply_bytes(0));
	return reply.status;
}

static int greeted(void)
{
	int fd = raw();

	put(fd, compose(SHAPERD_HELLO, 0));
	assert_int_equal(status(fd), 0);
	return fd;
}

static void assert_hung_up(int fd)
{
	ssize_t n = recv(fd, &reply, sizeof(reply), 0);

	assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
	close(fd);
}

static void malformed_requests_end_the_connection(void **state)
{
	static const struct {
		uint32_t type, n, bytes_of;	/* as long as one with so many */
	} bad[] = {
		{ SHAPERD_CHANGE, SHAPERD_CHANGES_MAX + 1, SHAPERD_CHANGES_MAX },
		{ SHAPERD_LINKS, 2, 1 }, { SHAPERD_LINKS, 1, 1 },	/* one missing; no plan was begun */
		{ SHAPERD_TABLE, 0, 0 }, { SHAPERD_POINTS, 1, 1 }, { SHAPERD_POINTS, 3, 2 },
		{ 0, 0, 0 }, { SHAPERD_TABLE + 1, 0, 0 }, { UINT32_MAX, UINT32_MAX, 0 },
	};
	pid_t d = shaperd_start("g", "");
	int fd = raw();

	/* Before the greeting: nothing else, no other magic, nothing that is too short. */
	put(fd, compose(SHAPERD_KEEPALIVE, 0));
	assert_hung_up(fd);
	fd = raw();
	compose(SHAPERD_HELLO, 0);
	request.magic++;
	put(fd, shaperd_request_bytes(SHAPERD_HELLO, 0));
	assert_hung_up(fd);
	fd = raw();
	put(fd, 3);
	assert_hung_up(fd);
	fd = raw();
	compose(SHAPERD_HELLO, 0);
	request.version++;
	put(fd, shaperd_request_bytes(SHAPERD_HELLO, 0));
	assert_int_equal(status(fd), -EPROTO);
	assert_non_null(strstr(reply.text, "one build"));
	close(fd);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		fd = greeted();
		compose(bad[i].type, bad[i].n);
		put(fd, shaperd_request_bytes(bad[i].type, bad[i].bytes_of));
		assert_hung_up(fd);
	}
	shaperd_close(connected());
	shaperd_stop(d, SIGTERM);
}

static void malformed_plans_are_refused(void **state)
{
	pid_t d = shaperd_start("g", "");
	int fd = greeted();

	/* A bool of 2. */
	compose(SHAPERD_SPEC, 0);
	strcpy(request.u.spec.egress, "wan0");
	request.u.spec.mtu = 1500;
	memset(&request.u.spec.fail_closed, 2, 1);
	put(fd, shaperd_request_bytes(SHAPERD_SPEC, 0));
	assert_int_equal(status(fd), 0);
	put(fd, compose(SHAPERD_APPLY, 0));
	assert_int_equal(status(fd), -EINVAL);
	assert_non_null(strstr(reply.text, "malformed"));
	/* Fewer links than announced, and more than there can be. */
	compose(SHAPERD_SPEC, 2);
	strcpy(request.u.spec.egress, "wan0");
	put(fd, shaperd_request_bytes(SHAPERD_SPEC, 2));
	assert_int_equal(status(fd), 0);
	put(fd, compose(SHAPERD_APPLY, 2));
	assert_int_equal(status(fd), -EPROTO);
	put(fd, compose(SHAPERD_SPEC, SHAPERD_LINKS_MAX + 1));
	assert_int_equal(status(fd), -EINVAL);
	put(fd, compose(SHAPERD_TRACE, SHAPE_TRACE_POINTS_MAX + 1));
	assert_int_equal(status(fd), -EINVAL);
	/* And is still served. */
	put(fd, compose(SHAPERD_KEEPALIVE, 0));
	assert_int_equal(status(fd), 0);
	close(fd);
	shaperd_stop(d, SIGTERM);
}

/* The file's mode keeps others out; who gets past it is asked who he is. */
static void another_user_may_not_shape(void **state)
{
	pid_t d = shaperd_start("g", ""), pid;
	int how;

	sh("chmod 666 " SOCKET);
	pid = fork();
	if (!pid) {
		struct shaperd_client *c;
		struct bace_err e;

		if (setgid(65534) || setuid(65534))
			_exit(77);
		_exit(shaperd_connect(SOCKET, &c, &e) != -EACCES || !strstr(e.msg, "may not shape"));
	}
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_true(WIFEXITED(how));
	/* A user namespace of one user has no other. */
	if (WEXITSTATUS(how) == 77)
		print_message("not tried: there is no other user here\n");
	else
		assert_int_equal(WEXITSTATUS(how), 0);
	shaperd_close(connected());
	shaperd_stop(d, SIGTERM);
}

static void a_damaged_journal_does_not_stop_the_clearing(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 0);
	pid_t d = shaperd_start("g", "--state /run/state");
	struct shaperd_client *c = connected();

	planned(c, &s);
	shaperd_stop(d, SIGKILL);
	shaperd_close(c);
	sh("printf damaged >/run/state/journal");
	sh("ip netns exec g %s --clear --state /run/state 2>/run/said", getenv("BACE_SHAPERD"));
	sh("grep -q 'journal.* damaged' /run/said; ! ip netns exec g tc qdisc show | grep -q bace:");
}

static int body(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(malformed_requests_end_the_connection, after_each),
		cmocka_unit_test_teardown(malformed_plans_are_refused, after_each),
		cmocka_unit_test_teardown(another_user_may_not_shape, after_each),
		cmocka_unit_test_teardown(a_damaged_journal_does_not_stop_the_clearing, after_each),
	};

	return cmocka_run_group_tests(tests, with_network, without_network);
}

int main(int argc, char **argv)
{
	return sandbox_main(argc, argv, body);
}
