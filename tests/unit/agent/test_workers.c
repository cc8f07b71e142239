/* Workers of an agent: what they say, what is left of them, how many and how bound. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/worker.h"
#include "tests/unit/agent/fixture.h"

#define CHILDREN_BYTES 4300		/* more than a page */
#define CHILDREN_MAX (CHILDREN_BYTES / 2)

static const char *bad_worker;

static void test_cut_tail(void **state)
{
	static const struct {
		const char *text;
		size_t cut;
	} cases[] = {
		{ "", 0 }, { "a", 0 }, { "\xc3\xa4", 0 }, { "a\xc3", 1 }, { "\xe2\x82\xac", 0 }, { "\xe2\x82", 2 },
		{ "a\xe2", 1 }, { "\xf0\x9f\x98\x80", 0 }, { "\xf0\x9f\x98", 3 }, { "\xf0\x9f", 2 }, { "\xf0", 1 },
		/* Never the beginning of anything: left to be refused. */
		{ "\x82\x82\x82\x82", 0 }, { "\xc3\xa4\x82", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(output_cut_tail(cases[i].text, strlen(cases[i].text)), cases[i].cut);
}

/* ---- orphans ---- */

static pid_t sleeper(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	return pid;
}

static bool alive(pid_t pid)
{
	siginfo_t info = { 0 };

	/* Not reaped: only looked at. */
	return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid;
}

static bool no_child(void *arg)
{
	pid_t *pid = arg;

	return waitpid(*pid, NULL, WNOHANG) < 0 && errno == ECHILD;
}

/* One that is no worker, behind so many that their list is longer than a page. */
static void test_orphan_behind_many(void **state)
{
	struct worker *w = calloc(CHILDREN_MAX, sizeof(*w));
	struct bace_err e = { 0 };
	struct agent a;
	size_t bytes = 0;
	pid_t orphan, short_lived;
	int n = 0;

	agent_begin(&a);
	while (bytes < CHILDREN_BYTES && n < CHILDREN_MAX) {
		char text[16];

		w[n].pid = sleeper();
		w[n].next = a.workers;
		a.workers = &w[n];
		bytes += (size_t)snprintf(text, sizeof(text), "%d ", (int)w[n++].pid);
	}
	assert_int_equal(workers_init(&a, &e), 0);
	orphan = sleeper();
	/* Looked for when some child ends. */
	short_lived = fork();
	if (!short_lived)
		_exit(0);
	assert_true(spin(&a, no_child, &orphan));
	for (int i = 0; i < n; i++)
		assert_true(alive(w[i].pid));
	a.workers = NULL;
	for (int i = 0; i < n; i++)
		kill(w[i].pid, SIGKILL);
	workers_end(&a);
	free(w);
	agent_over(&a);
}

/* What an orphan leaves is an orphan too, when it has ended. */
static void test_end_leaves_nobody(void **state)
{
	struct bace_err e = { 0 };
	struct agent a;
	int p[2];
	char byte;

	agent_begin(&a);
	assert_int_equal(workers_init(&a, &e), 0);
	assert_int_equal(pipe(p), 0);
	if (!fork()) {
		setsid();
		if (!fork()) {
			setsid();
			if (!fork()) {
				setsid();
				assert_int_equal(write(p[1], "x", 1), 1);
			}
			sleep(60);	/* no longer, should this test fail */
			_exit(0);
		}
		sleep(60);
		_exit(0);
	}
	close(p[1]);
	assert_int_equal(read(p[0], &byte, 1), 1);
	workers_end(&a);
	/* All that held the other end are gone. */
	assert_int_equal(read(p[0], &byte, 1), 0);
	close(p[0]);
	agent_over(&a);
}

/* ---- sessions ---- */

static struct launch launch_of(const json_t *config)
{
	return (struct launch){ .cell = 1, .rank = 0, .program = "worker", .config = config };
}

static bool nobody(void *arg)
{
	return !((struct agent *)arg)->workers;
}

static void begin_launching(struct agent *a)
{
	struct bace_err e = { 0 };

	agent_begin(a);
	a->cfg.worker_dir = bad_worker;
	assert_int_equal(workers_init(a, &e), 0);
	assert_int_equal(binder_open(&a->binder, &e), 0);
}

static void end_launching(struct agent *a)
{
	workers_end(a);
	binder_close(a->binder);
	agent_over(a);
}

static void launch_now(struct agent *a, const char *name)
{
	json_t *config = json_pack("{s:s}", "name", name), *answer = NULL;
	struct launch l = launch_of(config);
	struct bace_err e = { 0 };

	if (worker_launch(a, &l, &answer, &e))
		fail_msg("%s", e.msg);
	json_decref(answer);
	json_decref(config);
}

/* The same cell and rank of the next session may begin while the last one's still
 * ends, and hears nothing of it. */
static void test_session_ends(void **state)
{
	struct agent a;

	begin_launching(&a);
	launch_now(&a, "silent");
	workers_stop(&a, 0, 0);
	a.session++;
	launch_now(&a, "dies");
	assert_int_equal(a.n_workers, 2);
	assert_true(spin(&a, nobody, &a));
	assert_int_equal(told.n_events, 1);
	assert_string_equal(json_string_value(json_object_get(told.events[0], "type")), "exit");
	assert_int_equal(json_integer_value(json_object_get(told.events[0], "status")), 7);
	assert_string_equal(json_string_value(json_object_get(told.events[0], "text")), "out of luck\n");
	end_launching(&a);
}

/* Together, not each: workers that read nothing must not fill the agent's memory. */
static void test_worker_reads_nothing(void **state)
{
	char *text = calloc(1, 1000001);
	struct bace_err e = { 0 };
	struct agent a;
	json_t *line;
	int taken = 0;

	begin_launching(&a);
	memset(text, 'x', 1000000);
	line = json_pack("{s:s}", "x", text);
	for (int i = 0; i < 3; i++) {
		json_t *config = json_pack("{s:s}", "name", "silent"), *answer = NULL;
		struct launch l = launch_of(config);

		l.rank = i;
		assert_int_equal(worker_launch(&a, &l, &answer, &e), 0);
		json_decref(answer);
		json_decref(config);
		while (!worker_tell(&a, 1, i, line, &e) && taken < 100)
			taken++;
		assert_int_equal(e.errnum, ENOBUFS);
	}
	assert_true(taken >= 7 && taken <= 9);
	assert_int_equal(worker_tell(&a, 1, 3, line, &e), -ESRCH);
	json_decref(line);
	free(text);
	end_launching(&a);
}

/* ---- processes ---- */

/* The kernel's word, not the wish: a processor that is not there. */
static void test_bound_as_the_kernel_says(void **state)
{
	struct bace_err e = { 0 };
	struct spawned s;
	cpu_set_t mine, cpus;

	assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
	for (int missing = 0; missing < 2; missing++) {
		CPU_ZERO(&cpus);
		for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&cpus); i++)
			if (CPU_ISSET(i, &mine))
				CPU_SET(i, &cpus);
		if (missing)
			CPU_SET(CPU_SETSIZE - 1, &cpus);
		assert_int_equal(spawn_worker("/bin/cat", &cpus, &s, &e), 0);
		assert_int_equal(s.bound, !missing);
		close(s.in);
		close(s.out);
		close(s.err);
		waitpid(s.pid, NULL, 0);
	}
}

static void check_limit_of(pid_t pid, rlim_t want)
{
	struct rlimit got = { 0 };

	for (int i = 0; i < 500 && got.rlim_cur != want; i++) {
		assert_int_equal(prlimit(pid, RLIMIT_NOFILE, NULL, &got), 0);
		usleep(10000);
	}
	assert_int_equal(got.rlim_cur, want);
}

/* More files for the agent, three for each worker; workers get what it began with. */
static void test_files(void **state)
{
	struct bace_err e = { 0 };
	struct rlimit limit;
	struct spawned s;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 200;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	spawn_raise_files();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(limit.rlim_cur, limit.rlim_max < SPAWN_FILES ? limit.rlim_max : SPAWN_FILES);
	assert_int_equal(spawn_worker("/bin/cat", NULL, &s, &e), 0);
	assert_false(s.bound);
	check_limit_of(s.pid, 200);
	close(s.in);
	close(s.out);
	close(s.err);
	waitpid(s.pid, NULL, 0);
}

/* ---- cores ---- */

static void test_binder(void **state)
{
	struct binder *b;
	struct bace_err e = { 0 };
	cpu_set_t cpus, seen, both;
	char text[256];
	int n;

	assert_int_equal(binder_open(&b, &e), 0);
	assert_int_equal(sched_getaffinity(0, sizeof(seen), &seen), 0);
	n = CPU_COUNT(&seen);
	assert_false(binder_choose(b, 0, 0, "", &cpus, text, sizeof(text)));
	assert_non_null(strstr(text, "plays several hosts"));
	assert_false(binder_choose(b, 0, n + 1, "", &cpus, text, sizeof(text)));
	assert_non_null(strstr(text, "ranks for"));
	CPU_ZERO(&seen);
	for (int i = 0; n > 1 && i < n; i++) {
		assert_true(binder_choose(b, i, n, "no address", &cpus, text, sizeof(text)));
		assert_int_equal(CPU_COUNT(&cpus), 1);
		CPU_AND(&both, &cpus, &seen);
		assert_int_equal(CPU_COUNT(&both), 0);
		CPU_OR(&seen, &seen, &cpus);
		assert_non_null(strstr(text, "cpus "));
	}
	binder_close(b);
}

/* ---- the hello ---- */

static void test_many_interfaces(void **state)
{
	struct if_nameindex all[1001] = { 0 };
	char names[1000][16], *text;
	int left_out = -1;
	json_t *j;

	j = inventory_interfaces(NULL, &left_out);
	assert_true(json_is_array(j) && !json_array_size(j) && !left_out);
	json_decref(j);
	for (int i = 0; i < 1000; i++) {
		snprintf(names[i], sizeof(names[i]), "enp175s0f1v%d", i);
		all[i] = (struct if_nameindex){ (unsigned)i + 1, names[i] };
	}
	j = inventory_interfaces(all, &left_out);
	assert_int_equal(json_array_size(j), 256);
	assert_int_equal(left_out, 744);
	text = json_dumps(j, JSON_COMPACT);
	assert_true(strlen(text) < WIRE_FIRST_FRAME / 2);
	free(text);
	json_decref(j);
}

static size_t bytes_of(const json_t *j)
{
	return json_dumpb(j, NULL, 0, JSON_COMPACT);
}

/* As long as the kernel lets them be, all of them. */
static void test_long_interfaces(void **state)
{
	json_t *j = json_array();
	int dropped;

	for (int i = 0; i < 256; i++)
		json_array_append_new(j, json_pack("{s:s,s:i,s:I,s:s,s:i,s:s}", "name", "enp175s0f1v1023", "mtu", 2147483647,
			"speed_mbps", (json_int_t)4294967294, "driver", "a_driver_of_thirty_one_letters_", "gso_max_bytes",
			524280, "offloads", "tso,gso,gro"));
	assert_true(bytes_of(j) > WIRE_FIRST_FRAME / 2);
	assert_int_equal(inventory_fit(j, WIRE_FIRST_FRAME / 2), 0);
	assert_true(bytes_of(j) <= WIRE_FIRST_FRAME / 2);
	assert_int_equal(json_array_size(j), 256);
	/* No more went than had to. */
	assert_int_equal(json_object_size(json_array_get(j, 0)), 6);
	assert_int_equal(json_object_size(json_array_get(j, 255)), 4);
	assert_true(bytes_of(j) > WIRE_FIRST_FRAME / 2 - 100);
	dropped = inventory_fit(j, 1000);
	assert_int_equal(json_array_size(j) + (size_t)dropped, 256);
	assert_true(json_array_size(j) > 0 && bytes_of(j) <= 1000);
	assert_int_equal(inventory_fit(j, 1000), 0);
	json_decref(j);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_tail),
		cmocka_unit_test(test_orphan_behind_many),
		cmocka_unit_test(test_end_leaves_nobody),
		cmocka_unit_test(test_session_ends),
		cmocka_unit_test(test_worker_reads_nothing),
		cmocka_unit_test(test_bound_as_the_kernel_says),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_binder),
		cmocka_unit_test(test_many_interfaces),
		cmocka_unit_test(test_long_interfaces),
	};

	if (argc != 2)
		return 2;
	*strrchr(argv[1], '/') = '\0';
	bad_worker = argv[1];
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
