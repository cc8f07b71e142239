/* When the shaping ends, and that nothing is left of it: judged by tc and iptables. */
#include "tests/netns/shaper/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shaper/kernel.h"

/* For this sandbox alone. */
static void break_iptables(bool broken)
{
	if (broken)
		sh("mount --bind /bin/false \"$(readlink -f /usr/sbin/iptables-legacy-restore)\"");
	else
		sh("umount -l \"$(readlink -f /usr/sbin/iptables-legacy-restore)\"");
}

static void closing_the_connection_restores_everything(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	pid_t d = shaperd_start("g", "");
	CLEANUP_FREE char *before = tc_state();
	struct shaperd_client *c = connected();
	CLEANUP_FREE char *during = NULL;
	CLEANUP_FREE char *after = NULL;
	struct bace_err e;

	planned(c, &s);
	during = tc_state();
	assert_string_not_equal(before, during);
	shaperd_close(c);
	/* The next client gets the lease once the revert is done. */
	c = connected();
	after = tc_state();
	assert_same_state(before, after);
	/* And so does an explicit clear. */
	planned(c, &s);
	assert_int_equal(shaperd_clear(c, &e), 0);
	free(after);
	after = tc_state();
	assert_same_state(before, after);
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
}

static void a_killed_client_loses_its_lease(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	pid_t d = shaperd_start("g", ""), client;
	CLEANUP_FREE char *before = tc_state();
	CLEANUP_FREE char *after = NULL;
	int ready[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	client = fork();
	if (!client) {
		struct shaperd_client *mine;

		if (shaperd_connect(SOCKET, &mine, NULL) || shaperd_plan(mine, &s, NULL) || write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	kill(client, SIGKILL);
	waitpid(client, NULL, 0);
	shaperd_close(connected());
	after = tc_state();
	assert_same_state(before, after);
	close(ready[0]);
	close(ready[1]);
	shaperd_stop(d, SIGTERM);
}

static void a_second_client_is_refused_while_the_lease_is_held(void **state)
{
	pid_t d = shaperd_start("g", "");
	struct shaperd_client *c = connected(), *second;
	struct bace_err e;

	assert_int_equal(shaperd_connect(SOCKET, &second, &e), -EBUSY);
	assert_non_null(strstr(e.msg, "lease"));
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
}

static void a_second_daemon_in_the_namespace_is_refused(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	pid_t d = shaperd_start("g", "");
	struct shaperd_client *c = connected();

	assert_int_equal(sh_status("ip netns exec g %s --socket /run/other 2>/run/said",
				   getenv("BACE_SHAPERD")), 1);
	sh("grep -q 'already running' /run/said");
	/* Nor does --clear take from a living one what it holds; it waits 3 s, so once is enough. */
	planned(c, &s);
	if (backend == DELAY_NFQUEUE) {
		assert_int_equal(sh_status("ip netns exec g %s --clear 2>/run/said", getenv("BACE_SHAPERD")), 1);
		sh("grep -q 'already running' /run/said; ip netns exec g tc qdisc show dev wan0 | grep -q bace:");
	}
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
}

/* The default's folder is systemd's to make; by hand nobody else does. */
static void the_folder_of_its_socket_is_made(void **state)
{
	sh("rm -rf /run/nosuch; umask 077; ip netns exec g $BACE_SHAPERD --socket /run/nosuch/s.sock -q & "
	   "for i in $(seq 500); do [ -S /run/nosuch/s.sock ] && break; sleep 0.02; done; kill $!; wait $!");
	sh("[ $(stat -c %%a /run/nosuch) = 755 ] && rmdir /run/nosuch");
	assert_int_equal(sh_status("ip netns exec g $BACE_SHAPERD --socket /run/no/such/s.sock 2>/run/said"), 1);
	sh("grep -q 'make the folder of /run/no/such/s.sock: No such file' /run/said");
}

static void the_lease_ends_at_its_deadline(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	pid_t d = shaperd_start("g", "--lease-timeout 3");
	CLEANUP_FREE char *before = tc_state();
	CLEANUP_FREE char *after = NULL;
	struct shaperd_client *c = connected();
	struct pollfd gone = { .events = POLLIN };
	struct bace_err e;

	planned(c, &s);
	/* Longer than the timeout, in all. */
	for (int i = 0; i < 4; i++) {
		usleep(900000);
		assert_int_equal(shaperd_keepalive(c, &e), 0);
	}
	gone.fd = shaperd_fd(c);
	assert_int_equal(poll(&gone, 1, 30000), 1);
	shaperd_close(c);
	shaperd_close(connected());
	after = tc_state();
	assert_same_state(before, after);
	shaperd_stop(d, SIGTERM);
}

/* Here iptables waits for its lock longer than the deadline. */
static void a_long_plan_does_not_end_the_lease(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	struct shaperd_client *c;
	struct bace_err e;
	pid_t d;

	if (backend == DELAY_NETEM)
		return;
	d = shaperd_start("g", "--lease-timeout 2");
	c = connected();
	sh("flock /run/xtables.lock sleep 3 & sleep 0.2");
	planned(c, &s);
	assert_int_equal(shaperd_keepalive(c, &e), 0);
	sh("ip netns exec g tc qdisc show dev wan0 | grep -q bace:");
	shaperd_close(c);
	shaperd_stop(d, SIGTERM);
}

static void sigterm_clears_and_a_leftover_can_be_cleared(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	CLEANUP_FREE char *before = tc_state();
	CLEANUP_FREE char *after = NULL;
	pid_t d = shaperd_start("g", "");
	struct shaperd_client *c = connected();

	planned(c, &s);
	shaperd_stop(d, SIGTERM);
	after = tc_state();
	assert_same_state(before, after);
	shaperd_close(c);

	d = shaperd_start("g", "");
	c = connected();
	planned(c, &s);
	shaperd_stop(d, SIGKILL);
	shaperd_close(c);
	sh("ip netns exec g tc qdisc show dev wan0 | grep -q bace:");
	sh("ip netns exec g %s --clear -q", getenv("BACE_SHAPERD"));
	free(after);
	after = tc_state();
	assert_same_state(before, after);
}

/* The last resort does all that it can: here iptables fails. */
static void a_leftover_is_cleared_as_far_as_possible(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	pid_t d = shaperd_start("g", "");
	struct shaperd_client *c = connected();

	if (backend == DELAY_NETEM)
		sh("ip netns exec g iptables-legacy -t mangle -L -n >/dev/null");
	planned(c, &s);
	shaperd_stop(d, SIGKILL);
	shaperd_close(c);
	break_iptables(true);
	assert_int_equal(sh_status("ip netns exec g %s --clear -q 2>/run/said", getenv("BACE_SHAPERD")), 1);
	break_iptables(false);
	sh("grep -q iptables /run/said");
	sh("! ip netns exec g tc qdisc show | grep -q bace:");
	sh("ip netns exec g %s --clear -q; ! ip netns exec g iptables-legacy-save -t mangle | grep -q BACE-DELAY",
	   getenv("BACE_SHAPERD"));
}

/* Else a rule without a reader would drop everything until the next client comes. */
static void a_revert_that_fails_is_tried_again(void **state)
{
	struct shape_link l;
	struct shape_spec s = spec_to_a(&l, 50000000, 20000000);
	CLEANUP_FREE char *before = tc_state();
	CLEANUP_FREE char *after = NULL;
	struct shaperd_client *c;
	pid_t d;

	if (backend == DELAY_NETEM)
		return;
	d = shaperd_start("g", "");
	c = connected();
	planned(c, &s);
	break_iptables(true);
	shaperd_close(c);
	for (int i = 0; i < 250 && !sh_status("ip netns exec g tc qdisc show | grep -q bace:"); i++)
		usleep(20000);
	break_iptables(false);
	for (int i = 0; i < 250 && !sh_status("ip netns exec g sh -c '{ iptables-legacy-save -t mangle; "
						   "ip6tables-legacy-save -t mangle; } | grep -q BACE-DELAY'"); i++)
		usleep(20000);
	after = tc_state();
	assert_same_state(before, after);
	shaperd_stop(d, SIGTERM);
}

static int body(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(closing_the_connection_restores_everything, after_each),
		cmocka_unit_test_teardown(a_killed_client_loses_its_lease, after_each),
		cmocka_unit_test_teardown(a_second_client_is_refused_while_the_lease_is_held, after_each),
		cmocka_unit_test_teardown(a_second_daemon_in_the_namespace_is_refused, after_each),
		cmocka_unit_test_teardown(the_folder_of_its_socket_is_made, after_each),
		cmocka_unit_test_teardown(the_lease_ends_at_its_deadline, after_each),
		cmocka_unit_test_teardown(a_long_plan_does_not_end_the_lease, after_each),
		cmocka_unit_test_teardown(sigterm_clears_and_a_leftover_can_be_cleared, after_each),
		cmocka_unit_test_teardown(a_leftover_is_cleared_as_far_as_possible, after_each),
		cmocka_unit_test_teardown(a_revert_that_fails_is_tried_again, after_each),
	};

	return cmocka_run_group_tests(tests, with_network, without_network);
}

int main(int argc, char **argv)
{
	return sandbox_main(argc, argv, body);
}
